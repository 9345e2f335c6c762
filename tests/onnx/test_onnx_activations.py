"""Activations that models write as arithmetic: part of the product before them, or one step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.one_node import KERNELS
from support.onnx.agreement import random
from support.onnx.models import GraphMaker

Build = Callable[[GraphMaker, str], str]

ROOT = math.sqrt(2 / math.pi)
SIZE = 48


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3)))


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x + 3, 0, 6) / 6


def _cubed(g: GraphMaker, x: str) -> str:
    return g("Pow", x, g.const(3.0))


#: What is written -> the nodes behind x, what they compute, the post op that they become.
FORMS: dict[str, tuple[Build, Callable[[np.ndarray], np.ndarray], str]] = {
    "x sigmoid": (lambda g, x: g("Mul", x, g("Sigmoid", x)),
                  lambda x: x * _sigmoid(x), "Swish"),
    "sigmoid x": (lambda g, x: g("Mul", g("Sigmoid", x), x),
                  lambda x: x * _sigmoid(x), "Swish"),
    "x / (1 + exp(-x))": (
        lambda g, x: g("Div", x, g("Add", g.const(1.0), g("Exp", g("Neg", x)))),
        lambda x: x * _sigmoid(x), "Swish"),
    "quick gelu": (lambda g, x: g("Mul", x, g("Sigmoid", g("Mul", g.const(1.702), x))),
                   lambda x: x * _sigmoid(1.702 * x), "Swish"),
    "hard swish": (
        lambda g, x: g("Div", g("Mul", x, g("Clip", g("Add", x, g.const(3.0)), g.const(0.0),
                                            g.const(6.0))), g.const(6.0)),
        _hard_swish, "HardSwish"),
    "hard swish, a sixth first": (
        lambda g, x: g("Mul", g("Mul", g.const(1 / 6), x),
                       g("Clip", g("Add", g.const(3.0), x), g.const(0.0), g.const(6.0))),
        _hard_swish, "HardSwish"),
    "x hard sigmoid": (lambda g, x: g("Mul", x, g("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
                       _hard_swish, "HardSwish"),
    "gelu by tanh": (
        lambda g, x: g("Mul", g("Mul", g.const(0.5), x), g("Add", g.const(1.0), g("Tanh", g(
            "Mul", g.const(ROOT), g("Add", x, g("Mul", g.const(0.044715), _cubed(g, x))))))),
        _gelu_tanh, "GeluTanh"),
    "gelu by tanh, factors last": (
        lambda g, x: g("Mul", g("Mul", x, g("Add", g("Tanh", g("Mul", g("Mul", x, g.const(ROOT)), g(
            "Add", g.const(1.0), g("Mul", g("Mul", x, g.const(0.044715)), x)))), g.const(1.0))),
            g.const(0.5)),
        _gelu_tanh, "GeluTanh"),
    "mish": (lambda g, x: g("Mul", x, g("Tanh", g("Softplus", x))),
             lambda x: x * np.tanh(np.logaddexp(0, x)), "Mish"),
}  # fmt: skip


def _network(build: Build) -> onnx.ModelProto:
    """x times the identity, which is x again, and what is built behind it."""
    g = GraphMaker(1)
    x = g("MatMul", "x", g.const(np.eye(SIZE, dtype=np.float32)))
    y = build(g, x)
    given = {"x": (onnx.TensorProto.FLOAT, (3, SIZE))}
    return g.model(given, {"y": y}, 17)


def _steps(session: qnnrt.Session) -> list[list[str]]:
    assert session.graph is not None
    steps = json.loads(session.graph.describe() or "")["steps"]
    return [[s["op"], *s["fused"]] for s in steps]


def _inputs() -> np.ndarray:
    x = np.concatenate([np.linspace(-12, 12, 3 * SIZE - 6), [0, -0.0, 1e-30, 60, -60, 1e4]])
    return x.reshape(3, SIZE).astype(np.float32)


def _alone(build: Build, x: str = "x") -> onnx.ModelProto:
    """What is built behind an input: no product is there to take it."""
    g = GraphMaker(1)
    y = build(g, x)
    return g.model({"x": (onnx.TensorProto.FLOAT, (3, SIZE))}, {"y": y}, 17)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_step_without_a_product(form: str, precision: str) -> None:
    build, exact, name = FORMS[form]
    with qnnrt.Session(importer.load(_alone(build)), backend="cpu", precision=precision) as session:
        assert _steps(session) == [[name]]
        x = _inputs()
        y = session.run({"x": x})["y"]
    np.testing.assert_allclose(y, exact(x.astype(np.float64)), rtol=5e-6, atol=3e-6)


def test_one_behind_a_norm_is_one_step_in_16_bits() -> None:
    g = GraphMaker(1)
    x = g("LayerNormalization", "x", g.weight(SIZE), g.weight(SIZE), axis=-1)
    y = g("MatMul", g("Mul", x, g("Sigmoid", x)), g.weight(SIZE, SIZE))
    proto = g.model({"x": (onnx.TensorProto.FLOAT, (3, SIZE))}, {"y": y}, 17)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        wanted = session.run({"x": random(4, 3, SIZE)})["y"].copy()
    with qnnrt.Session(importer.load(proto), backend="cpu", precision="bfloat16") as session:
        assert [step[0] for step in _steps(session)].count("Swish") == 1
        found = session.run({"x": random(4, 3, SIZE)})["y"]
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


def _erf(g: GraphMaker, x: str) -> str:
    return g("Erf", x)


def test_erf_is_one_step_within_seven_ulp() -> None:
    r = np.random.default_rng(7)
    x = np.concatenate([
        np.linspace(-6, 6, 100_001), r.uniform(-1, 1, 20_000), 10.0 ** r.uniform(-37, 5, 20_000),
        [0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3.92, 3.93, -4],
    ]).astype(np.float32)  # fmt: skip
    g = GraphMaker(1)
    proto = g.model({"x": (onnx.TensorProto.FLOAT, x.shape)}, {"y": _erf(g, "x")}, 17)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        assert _steps(session) == [["ElementWiseErf"]]
        y = session.run({"x": x})["y"]
    exact = np.array([math.erf(float(v)) for v in x])
    with np.errstate(invalid="ignore"):
        far = np.abs(y - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert np.nanmax(far) <= 7
    assert np.isnan(y[np.isnan(x)]).all()
    assert np.abs(y[~np.isnan(x)]).max() == 1
    np.testing.assert_array_equal(np.signbit(y[~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_a_post_op_and_exact(form: str, kernels: str) -> None:
    build, exact, name = FORMS[form]
    model = importer.load(_network(build))
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        assert _steps(session) == [["FullyConnected", name]]
        x = _inputs()
        y = session.run({"x": x})["y"]
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, exact(wide), rtol=5e-6, atol=3e-6)


def test_it_stays_behind_a_residual_sum() -> None:
    def build(g: GraphMaker, x: str) -> str:
        total = g("Add", x, "r")
        return g("Mul", total, g("Sigmoid", total))

    g = GraphMaker(1)
    y = build(g, g("MatMul", "x", g.weight(SIZE, SIZE)))
    shape = (onnx.TensorProto.FLOAT, (3, SIZE))
    proto = g.model({"x": shape, "r": shape}, {"y": y}, 17)
    x, r = random(1, 3, SIZE), random(2, 3, SIZE)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        assert _steps(session) == [["FullyConnected", "Add", "Swish"]]
        found = session.run({"x": x, "r": r})["y"]
    total = x.astype(np.float64) @ next(iter(g.constants.values())) + r
    np.testing.assert_allclose(found, total * _sigmoid(total), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("columns", [1, 16, 32, 50])
@pytest.mark.parametrize("rows", [1, 2, 13])
@pytest.mark.parametrize("limits", ["before", "behind", "both", "none"])
def test_limits_around_a_residual_sum_are_exact(
    limits: str, rows: int, columns: int, kernels: str
) -> None:
    g = GraphMaker(1)
    product = g("MatMul", "x", g.weight(SIZE, columns))
    before = limits in ("before", "both")
    first = g("Clip", product, g.const(-0.25), g.const(0.5)) if before else product
    total = g("Add", first, "r")
    last = g("Relu", total) if limits in ("behind", "both") else total
    shapes = {"x": (onnx.TensorProto.FLOAT, (rows, SIZE))}
    shapes["r"] = (onnx.TensorProto.FLOAT, (rows, columns))
    proto = g.model(shapes, {"y": last}, 17)
    x, r = random(1, rows, SIZE), random(2, rows, columns)
    r[0, 0] = np.nan  # passes the limits
    with qnnrt.Session(
        importer.load(proto), backend="cpu", options={"kernels": kernels}
    ) as session:
        (steps,) = _steps(session)
        assert "Add" in steps
        assert len(steps) == 2 + before + (limits in ("behind", "both"))
        found = session.run({"x": x, "r": r})["y"]
    exact = x.astype(np.float64) @ next(
        v for v in g.constants.values() if v.shape == (SIZE, columns)
    )
    exact = (np.clip(exact, -0.25, 0.5) if before else exact) + r
    expected = np.maximum(exact, 0) if limits in ("behind", "both") else exact
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


#: Nodes that compute something else, or whose inner values are needed.
NEAR_MISSES: dict[str, Build] = {
    "another tensor's sigmoid": lambda g, x: g("Mul", "x", g("Sigmoid", x)),
    "sigmoid twice": lambda g, x: g("Mul", g("Sigmoid", x), g("Sigmoid", x)),
    "another slope in hard swish": lambda g, x: g(
        "Mul", x, g("HardSigmoid", x, alpha=0.2, beta=0.5)),
    "another limit in hard swish": lambda g, x: g("Div", g("Mul", x, g(
        "Clip", g("Add", x, g.const(3.0)), g.const(0.0), g.const(5.0))), g.const(6.0)),
    "another root in gelu": lambda g, x: g("Mul", g("Mul", g.const(0.5), x), g(
        "Add", g.const(1.0), g("Tanh", g("Mul", g.const(0.8), g(
            "Add", x, g("Mul", g.const(0.044715), _cubed(g, x))))))),
    "a factor for each channel": lambda g, x: g("Mul", x, g("Sigmoid", g(
        "Mul", g.const(np.linspace(1, 2, SIZE, dtype=np.float32)), x))),
    "tanh of a sum that broadcasts": lambda g, x: g("Mul", x, g("Sigmoid", g(
        "ReduceMean", x, axes=[1], keepdims=1))),
}  # fmt: skip


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_what_only_looks_like_one_stays(case: str) -> None:
    proto = _network(NEAR_MISSES[case])
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        fused = {name for step in _steps(session) for name in step[1:]}
        assert not fused & {"Swish", "HardSwish", "GeluTanh", "Gelu", "Mish"}


@pytest.mark.parametrize("limit", [50.0, 5000.0, 1e6])
@pytest.mark.parametrize("op", ["Min", "Clip"])
def test_a_clamp_far_out_stays(op: str, limit: float) -> None:
    def build(g: GraphMaker, x: str) -> str:
        y = g("Mul", x, g("HardSigmoid", x, alpha=1 / 6, beta=0.5))  # hard-swish
        if op == "Min":
            return g("Min", y, g.const(limit))
        return g("Clip", y, g.const(-limit), g.const(limit))

    g = GraphMaker(1)
    proto = g.model({"x": (onnx.TensorProto.FLOAT, (4,))}, {"y": build(g, "x")}, 17)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        found = session.run({"x": np.array([-3 * limit, 1, 0.9 * limit, 3 * limit], np.float32)})
    np.testing.assert_allclose(found["y"], [0, 2 / 3, 0.9 * limit, limit], rtol=1e-6)


def test_a_value_inside_that_is_an_output_stays() -> None:
    g = GraphMaker(1)
    x = g("MatMul", "x", g.weight(SIZE, SIZE))
    gate = g("Sigmoid", x)
    y = g("Mul", x, gate)
    proto = g.model(
        {"x": (onnx.TensorProto.FLOAT, (3, SIZE))}, {"y": y, "gate": gate, "x again": x}, 17
    )
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        assert all("Swish" not in step for step in _steps(session))
        found = session.run({"x": random(3, 3, SIZE)})
    np.testing.assert_allclose(found["y"], found["gate"] * found["x again"], rtol=1e-6)


@pytest.mark.parametrize("network", [_network, _alone])
@pytest.mark.parametrize("form", ["x sigmoid", "quick gelu"])
def test_a_saved_graph_keeps_it(
    form: str, network: Callable[[Build], onnx.ModelProto], tmp_path: Path
) -> None:
    proto, path = network(FORMS[form][0]), tmp_path / "net.bin"
    x = _inputs()
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        wanted = session.run({"x": x})["y"].copy()
        session.save_binary(path)
    with qnnrt.Session(qnnrt.load(path), backend="cpu") as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], wanted)
