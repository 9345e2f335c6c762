"""Element-wise arithmetic that is a function of one tensor of 8 or 16 bits is one table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

#: As many elements as there are bytes, and words.
SHAPES = {1: (2, 8, 16), 2: (4, 128, 128)}
Encoding = tuple[float, int]
F32 = np.dtype(np.float32)


def net(
    dtype: Any, rows: list[tuple[str, list[str], str, Encoding]], constants: dict[str, float],
    outputs: list[str],
) -> Model:  # fmt: skip
    """Rows: op, inputs, result, its scale and offset as unsigned bytes; x is the input. A scale of
    0 stands for floats."""
    dtype = np.dtype(dtype)
    shape, finer = SHAPES[dtype.itemsize], 256 ** (dtype.itemsize - 1)
    shift = 128 * finer if dtype.kind == "i" else 0

    def encoded(name: str, scale: float, offset: int) -> Tensor:
        if not scale:
            return Tensor(name, shape, F32)
        encoding = Quantization(scale / finer, offset * finer + shift)
        return Tensor(name, shape, dtype, quantization=encoding)

    tensors = {"x": encoded("x", 0.0625, -128)}
    top = np.iinfo(dtype).max
    whole = any(not scale for *_, (scale, _) in rows)
    for name, value in constants.items():
        if whole:
            tensors[name] = Tensor(name, (1,), F32, np.full((1,), value, F32))
            continue
        sign = -1 if value < 0 else 1
        code = np.full((1,), sign * top if dtype.kind == "i" else top, dtype)
        if sign < 0 and dtype.kind == "u":
            encoding = Quantization(-value / top, -top)
            code[:] = 0
        else:
            encoding = Quantization(abs(value) / top, 0)
        tensors[name] = Tensor(name, (1,), dtype, code, encoding)
    nodes = []
    for i, (op, reads, result, (scale, offset)) in enumerate(rows):
        tensors[result] = encoded(result, scale, offset)
        nodes.append(Node(f"n{i}", op, reads, [result]))
    return Model("codes", tensors, nodes, ["x"], outputs)


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
#: As quantizers leave it that do not know the op: float between a Dequantize and a Quantize.
FLOAT = (0.0, 0)
APART = [
    ("Dequantize", ["x"], "f", FLOAT),
    ("ElementWiseDivide", ["f", "root"], "d", FLOAT),
    ("Tanh", ["d"], "t", FLOAT),
    ("ElementWiseMultiply", ["t", "f"], "p", FLOAT),
    ("ElementWiseAdd", ["p", "one"], "q", FLOAT),
    ("Quantize", ["q"], "z", (0.06, -8)),
    ("ElementWiseMultiply", ["z", "x"], "y", (0.35, -128)),
]
CONSTANTS = {"slope": 1.702, "cubic": 0.044715, "one": 1.0, "root": 0.7978845608, "half": 0.5}


def run(model: Model) -> tuple[list[str], dict[str, np.ndarray]]:
    info = np.iinfo(model.tensors["x"].dtype)
    every = np.arange(info.min, info.max + 1).astype(model.tensors["x"].dtype)
    every = every.reshape(model.tensors["x"].shape)
    with qnnrt.Session(model, threads=1) as session:
        steps = json.loads(session.graph.describe())["steps"]
        return [step["op"] for step in steps], session.run({"x": every})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("rows", [SILU, GELU, APART], ids=["silu", "gelu by tanh", "in float"])
def test_it_is_one_step_with_the_results_of_the_nodes(rows: Any, dtype: Any) -> None:
    used = {name: CONSTANTS[name] for row in rows for name in row[1] if name in CONSTANTS}
    steps, fused = run(net(dtype, rows, used, ["y"]))
    assert steps == ["Table"]
    # Where every result is an output of the graph, each node computes its own.
    steps, apart = run(net(dtype, rows, used, [row[2] for row in rows]))
    assert "Table" not in steps
    assert len(steps) == len(rows)
    np.testing.assert_array_equal(fused["y"], apart["y"])
    assert len(np.unique(fused["y"])) > 32  # it says something


def test_what_others_read_stays_as_it_is() -> None:
    constants = {"slope": 1.702}
    steps, _ = run(net(np.uint8, SILU, constants, ["y", "g"]))
    assert steps.count("Table") == 1  # what leads to g; the product has two inputs
    assert len(steps) == 2


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_floats_that_are_stored_in_16_bits_are_left_to_the_nodes(precision: str) -> None:
    constants = {"root": 0.8, "one": 1.0}
    for rows in (APART, SILU):
        model = net(np.uint16, rows, constants if rows is APART else {"slope": 1.702}, ["y"])
        with qnnrt.Session(model, threads=1, precision=precision) as session:
            steps = [step["op"] for step in json.loads(session.graph.describe())["steps"]]
        assert ("Table" in steps) == (rows is SILU)


def test_bytes_may_become_words_and_words_bytes() -> None:
    """A Quantize to another width is part of the table."""
    for wide, narrow in ((np.uint16, np.uint8), (np.uint8, np.uint16)):
        constants = {"root": 0.8, "one": 1.0}
        model = net(wide, APART[:-1], constants, ["z"])
        apart = net(wide, APART[:-1], constants, [row[2] for row in APART[:-1]])
        for m in (model, apart):
            levels = np.iinfo(narrow).max + 1
            encoding = Quantization(16 / levels, -levels // 4)
            m.tensors["z"] = Tensor("z", m.tensors["x"].shape, np.dtype(narrow), None, encoding)
        steps, fused = run(model)
        assert steps == ["Table"]
        np.testing.assert_array_equal(fused["z"], run(apart)[1]["z"])
        assert len(np.unique(fused["z"])) > 64


def test_few_words_are_computed() -> None:
    """A table of 65,536 entries would take longer to make than it saves."""
    model = net(np.uint16, SILU, {"slope": 1.702}, ["y"])
    for tensor in model.tensors.values():
        if tensor.shape != (1,):
            tensor.shape = (4, 16, 16)
    with qnnrt.Session(model, threads=1) as session:
        steps = json.loads(session.graph.describe())["steps"]
    assert [step["op"] for step in steps] == [row[0] for row in SILU]


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_a_single_op_on_many_words_gives_what_it_gives_on_few(dtype: Any) -> None:
    shape, info = (2, 256, 256), np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    for op, scale, offset in (("Gelu", 9 / 65535, -8000), ("Sigmoid", 1 / 65535, 0)):
        results = []
        for many in (True, False):
            codes = np.tile(every, 2) if many else every[::64]
            size = shape if many else codes.shape
            shift = 32768 if info.min else 0
            given = Quantization(16 / 65535, shift - 32768)
            made = Quantization(scale, offset + shift)
            tensors = {
                "x": Tensor("x", size, np.dtype(dtype), quantization=given),
                "y": Tensor("y", size, np.dtype(dtype), quantization=made),
            }
            model = Model("one", tensors, [Node("n", op, ["x"], ["y"])], ["x"], ["y"])
            with qnnrt.Session(model, threads=1) as session:
                results.append(session.run({"x": codes.reshape(size)})["y"].reshape(-1).copy())
        np.testing.assert_array_equal(results[0][: 1 << 16 : 64], results[1])
        assert len(np.unique(results[1])) > 256


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_binary_keeps_the_table(dtype: Any, tmp_path: Any) -> None:
    model = net(dtype, SILU, {"slope": 1.702}, ["y"])
    _, expected = run(model)
    path = tmp_path / "table.bin"
    with qnnrt.Session(model, threads=1) as session:
        session.save_binary(path)
    with qnnrt.Session(path) as session:
        every = np.arange(np.iinfo(dtype).max + 1).astype(dtype).reshape(model.tensors["x"].shape)
        np.testing.assert_array_equal(session.run({"x": every})["y"], expected["y"])
