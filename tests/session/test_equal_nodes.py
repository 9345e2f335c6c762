"""Nodes that compute the same from the same are one node in a finalized graph."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from qnnrt import Session
from qnnrt.model import Model, Node, Quantization, Tensor
from support.one_node import u32

SHAPE = (4, 80)


class Twins:
    """A model with two of everything: y = f(x * a) * f(x * b)."""

    def __init__(self, f: str = "ElementWiseMaximum", shape: tuple[int, ...] = SHAPE) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal(shape, np.float32)
        self.a, self.b = rng.standard_normal((2, *shape), np.float32)
        self.b[...] = self.a
        self.f = f
        self.limits = [np.full(shape, 0.25, np.float32) for _ in range(2)]
        self.outputs = ["y"]
        self.names = ["f0", "f1"]

    def model(self) -> Model:
        model = Model("twins")
        constants = {"a": self.a, "b": self.b, "limit0": self.limits[0], "limit1": self.limits[1]}
        for name in ("x", "p0", "p1", "q0", "q1", "y"):
            model.tensors[name] = Tensor(name, self.x.shape, np.dtype(np.float32))
        for name, data in constants.items():
            model.tensors[name] = Tensor(name, data.shape, data.dtype, data)
        for i, factor in enumerate("ab"):
            model.nodes += [
                Node(f"p{i}", "ElementWiseMultiply", ["x", factor], [f"p{i}"], {}),
                Node(self.names[i], self.f, [f"p{i}", f"limit{i}"], [f"q{i}"], {}),
            ]
        model.nodes.append(Node("y", "ElementWiseMultiply", ["q0", "q1"], ["y"], {}))
        model.inputs, model.outputs = ["x"], self.outputs
        return model

    def wanted(self) -> np.ndarray:
        found = [
            np.maximum(self.x * c, limit)
            for c, limit in zip((self.a, self.b), self.limits, strict=True)
        ]
        return found[0] * found[1]


def steps(session: Session) -> list[str]:
    return [step["op"] for step in json.loads(session.graph.describe() or "")["steps"]]


def ran(twins: Twins, **options: Any) -> list[str]:
    with Session(twins.model(), **options) as session:
        y = session.run({"x": twins.x})["y"]
        np.testing.assert_allclose(y, twins.wanted(), rtol=1e-2 if options else 1e-6)
        return steps(session)


@pytest.mark.parametrize("rows", [4, 400])  # constants that are copied, and those that are lent
def test_equal_nodes_run_once_and_those_behind_them(rows: int) -> None:
    assert ran(Twins(shape=(rows, 80))) == [
        "ElementWiseMultiply",
        "ElementWiseMaximum",
        "ElementWiseMultiply",
    ]


@pytest.mark.parametrize("at", [(0, 0), (3, 79)])
def test_constants_that_differ_in_one_value_stay_two(at: tuple[int, int]) -> None:
    twins = Twins()
    twins.b[at] += 1
    assert len(ran(twins)) == 5


def test_zeros_of_another_sign_are_another_constant() -> None:
    twins = Twins()
    twins.a[0, 0], twins.b[0, 0] = 0.0, -0.0
    assert len(ran(twins)) == 5


def test_what_comes_first_may_be_equal_and_what_follows_not() -> None:
    twins = Twins()
    twins.limits[1][2, 3] = 7
    assert len(ran(twins)) == 4


def test_results_that_the_client_sees_stay_two() -> None:
    twins = Twins()
    twins.outputs = ["y", "q0", "q1"]
    assert len(ran(twins)) == 4  # x * a is one
    twins.outputs = ["y", "p0", "p1", "q0", "q1"]
    assert len(ran(twins)) == 5


def test_a_node_that_stays_in_float32_is_not_merged_with_one_that_does_not() -> None:
    twins = Twins()
    found = ran(twins, precision="bfloat16", options={"float32_nodes": ["f1"]})
    assert found.count("ElementWiseMaximum") == 2
    assert ran(twins, precision="bfloat16").count("ElementWiseMaximum") == 1


def test_params_and_encodings_count() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = Model("kinds")
    model.tensors["x"] = Tensor("x", (3, 4), np.dtype(np.float32))
    model.inputs = ["x"]
    for i, (axis, scale) in enumerate([(0, 0.5), (1, 0.5), (1, 0.25), (1, 0.25)]):
        model.tensors[f"s{i}"] = Tensor(
            f"s{i}", (3, 4), np.dtype(np.uint8), None, Quantization(scale, 0)
        )
        model.tensors[f"t{i}"] = Tensor(f"t{i}", (3, 4), np.dtype(np.float32))
        model.tensors[f"y{i}"] = Tensor(f"y{i}", (3, 4), np.dtype(np.float32))
        model.nodes += [
            Node(f"soft{i}", "Softmax", ["x"], [f"t{i}"], {"axis": np.uint32(axis)}),
            Node(f"quantize{i}", "Quantize", [f"t{i}"], [f"s{i}"], {}),
            Node(f"back{i}", "Dequantize", [f"s{i}"], [f"y{i}"], {}),
        ]
        model.outputs.append(f"y{i}")
    with Session(model) as session:
        y = session.run({"x": x})
        found = steps(session)
    assert [found.count(op) for op in ("Softmax", "Quantize", "Dequantize")] == [2, 3, 4]
    assert np.array_equal(y["y2"], y["y3"])
    assert not np.array_equal(y["y1"], y["y2"])


@pytest.mark.parametrize("seed", [None, 3.0])
def test_random_numbers_without_a_seed_are_each_nodes_own(seed: float | None) -> None:
    model = Model("random")
    model.tensors["x"] = Tensor("x", (8,), np.dtype(np.float32))
    model.inputs = ["x"]
    model.tensors["shape"] = Tensor("shape", (1,), np.dtype(np.uint32), u32(8))
    inputs = ["shape"]
    if seed is not None:
        value = np.array([seed], np.float32)
        model.tensors["seed"] = Tensor("seed", (1,), value.dtype, value)
        inputs.append("seed")
    for i in range(2):
        for name in ("r", "y"):
            model.tensors[f"{name}{i}"] = Tensor(f"{name}{i}", (8,), np.dtype(np.float32))
        model.nodes += [
            Node(f"random{i}", "RandomUniformLike", inputs, [f"r{i}"], {}),
            Node(f"add{i}", "ElementWiseAdd", [f"r{i}", "x"], [f"y{i}"], {}),
        ]
        model.outputs.append(f"y{i}")
    with Session(model) as session:
        y = session.run({"x": np.zeros(8, np.float32)})
    assert np.array_equal(y["y0"], y["y1"]) == (seed is not None)
