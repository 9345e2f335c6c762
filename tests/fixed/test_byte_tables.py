"""Element-wise arithmetic on 8-bit numbers that is a function of one tensor is one table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

SHAPE = (2, 8, 16)  # as many elements as there are bytes
Encoding = tuple[float, int]


def net(
    dtype: Any, rows: list[tuple[str, list[str], str, Encoding]], constants: dict[str, float],
    outputs: list[str],
) -> Model:  # fmt: skip
    """Rows: op, inputs, result, its scale and offset; x is the input."""
    dtype = np.dtype(dtype)
    tensors = {"x": Tensor("x", SHAPE, dtype, quantization=Quantization(0.0625, -128))}
    if dtype == np.int8:
        tensors["x"].quantization = Quantization(0.0625, 0)
    top = np.iinfo(dtype).max
    for name, value in constants.items():
        sign = -1 if value < 0 else 1
        code = np.full((1,), sign * top if dtype == np.int8 else top, dtype)
        if sign < 0 and dtype == np.uint8:
            encoding = Quantization(-value / top, -top)
            code[:] = 0
        else:
            encoding = Quantization(abs(value) / top, 0)
        tensors[name] = Tensor(name, (1,), dtype, code, encoding)
    nodes = []
    for i, (op, reads, result, (scale, offset)) in enumerate(rows):
        shift = 128 if dtype == np.int8 else 0
        encoding = Quantization(scale, offset + shift)
        tensors[result] = Tensor(result, SHAPE, dtype, quantization=encoding)
        nodes.append(Node(f"n{i}", op, reads, [result]))
    return Model("bytes", tensors, nodes, ["x"], outputs)


SILU = [
    ("ElementWiseMultiply", ["x", "slope"], "s", (0.11, -128)),
    ("Sigmoid", ["s"], "g", (1 / 255, 0)),
    ("ElementWiseMultiply", ["x", "g"], "y", (0.035, -8)),
]
GELU = [
    ("ElementWiseMultiply", ["x", "x"], "x2", (0.25, 0)),
    ("ElementWiseMultiply", ["x2", "cubic"], "a", (0.012, 0)),
    ("ElementWiseAdd", ["a", "one"], "b", (0.016, 0)),
    ("ElementWiseMultiply", ["b", "x"], "c", (0.2, -128)),
    ("ElementWiseMultiply", ["c", "root"], "d", (0.16, -128)),
    ("Tanh", ["d"], "t", (1 / 127, -128)),
    ("ElementWiseAdd", ["t", "one"], "u", (2 / 255, 0)),
    ("ElementWiseMultiply", ["u", "half"], "h", (1 / 255, 0)),
    ("ElementWiseMultiply", ["h", "x"], "y", (0.032, -6)),
]
CONSTANTS = {"slope": 1.702, "cubic": 0.044715, "one": 1.0, "root": 0.7978845608, "half": 0.5}


def run(model: Model) -> tuple[list[str], dict[str, np.ndarray]]:
    info = np.iinfo(model.tensors["x"].dtype)
    every = np.arange(info.min, info.max + 1).astype(model.tensors["x"].dtype).reshape(SHAPE)
    with qnnrt.Session(model, threads=1) as session:
        steps = json.loads(session.graph.describe())["steps"]
        return [step["op"] for step in steps], session.run({"x": every})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("rows", [SILU, GELU], ids=["silu", "gelu by tanh"])
def test_it_is_one_step_with_the_results_of_the_nodes(rows: Any, dtype: Any) -> None:
    used = {name: CONSTANTS[name] for row in rows for name in row[1] if name in CONSTANTS}
    steps, fused = run(net(dtype, rows, used, ["y"]))
    assert steps == ["ByteTable"]
    # Where every result is an output of the graph, each node computes its own.
    steps, apart = run(net(dtype, rows, used, [row[2] for row in rows]))
    assert "ByteTable" not in steps
    assert len(steps) == len(rows)
    np.testing.assert_array_equal(fused["y"], apart["y"])
    assert len(np.unique(fused["y"])) > 32  # it says something


def test_what_others_read_stays_as_it_is() -> None:
    constants = {"slope": 1.702}
    steps, _ = run(net(np.uint8, SILU, constants, ["y", "g"]))
    assert steps.count("ByteTable") == 1  # what leads to g; the product has two inputs
    assert len(steps) == 2


def test_a_binary_keeps_the_table(tmp_path: Any) -> None:
    model = net(np.uint8, SILU, {"slope": 1.702}, ["y"])
    _, expected = run(model)
    path = tmp_path / "table.bin"
    with qnnrt.Session(model, threads=1) as session:
        session.save_binary(path)
    with qnnrt.Session(path) as session:
        every = np.arange(256).astype(np.uint8).reshape(SHAPE)
        np.testing.assert_array_equal(session.run({"x": every})["y"], expected["y"])
