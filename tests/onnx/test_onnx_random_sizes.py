"""Sizes that are computed of how many rows count, as files have them: differences that may be below
nothing, multiples, rests. Beside ONNX Runtime."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.models import GraphMaker

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

ROWS = {"x": 8, "z": 6}
GRAPHS, INPUTS = 150, 6


class Sizes(GraphMaker):
    """Graphs of rows of x and z, of which the data decide how many count."""

    def counted(self, rows: str) -> str:
        places = self("NonZero", self("Greater", rows, self.const(0.0)))
        return self("Gather", rows, self("Squeeze", places, self.const([0])))

    def made(self, result: str) -> onnx.ModelProto:
        kind = onnx.TensorProto.FLOAT
        inputs: dict[str, tuple[int, tuple[object, ...]]]
        inputs = {name: (kind, (size,)) for name, size in ROWS.items()}
        return self.model(inputs, {"y": result}, 18)


def fed(seed: int) -> dict[str, np.ndarray]:
    """No rows that count, all of them, or some."""
    rng = np.random.default_rng(seed)
    values = {name: rng.standard_normal(size, np.float32) for name, size in ROWS.items()}
    signs = {0: {"x": -1}, 1: {"x": 1, "z": -1}, 2: {"z": 1}}.get(seed, {})
    return {name: signs[name] * abs(v) if name in signs else v for name, v in values.items()}


def agreed(proto: onnx.ModelProto) -> bool:
    """Whether it loads; then it gives what ONNX Runtime gives, where that does not fail."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        reference = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        model = importer.load(proto)
    except (onnxruntime.capi.onnxruntime_pybind11_state.Fail, ModelError, UnsupportedOpError):
        return False
    read = [i.name for i in reference.get_inputs()]
    with qnnrt.Session(model) as session:
        for seed in range(INPUTS):
            feeds = fed(seed)
            try:
                (wanted,) = reference.run(None, {name: feeds[name] for name in read})
            except Exception:  # a size below nothing: each of its errors has a class
                continue
            found = session.run({name: feeds[name] for name in session.inputs})
            y = found["y"]
            y = y[: found["y.count"][0]] if "y.count" in found else y
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5, err_msg=f"input {seed}")
    return True


def padded(b: Sizes, rows: str, more: str) -> str:
    return b("Pad", rows, b("Concat", b.const([0]), more, axis=0), b.const(7.0))


def up_to(b: Sizes, rows: str, end: str) -> str:
    return b("Slice", rows, b.const([0]), end, b.const([0]))


def numbers(b: Sizes, limit: str) -> str:
    made = b("Range", b.const(np.array(0)), b("Squeeze", limit), b.const(np.array(1)))
    return b("Cast", made, to=onnx.TensorProto.FLOAT)


#: From the rows that count, their number, and that of the others' to the result.
CASES: dict[str, Callable[[Sizes, str, str, str], str]] = {
    "padded by what a number has more than one below nothing": lambda b, rows, n, m: padded(
        b, "x", b("Sub", b.const([5]), b("Sub", n, b.const([1])))
    ),
    "padded by a number and more": lambda b, rows, n, m: padded(
        b, rows, b("Sub", b.const([5]), b("Neg", n))
    ),
    "cut by fewer than there are, or from behind": lambda b, rows, n, m: up_to(
        b,
        numbers(b, b("Max", b("Sub", n, b.const([4])), b.const([0]))),
        b("Sub", n, b.const([5])),
    ),
    "cut from behind": lambda b, rows, n, m: up_to(b, "x", b("Sub", b("Neg", n), b.const([5]))),
    "cut by a difference": lambda b, rows, n, m: up_to(
        b, rows, b("Neg", b("Add", b("Min", n, b.const([4])), b("Neg", m)))
    ),
    "numbers up to one below nothing": lambda b, rows, n, m: numbers(b, b("Sub", n, b.const([5]))),
}


def table(b: Sizes, rows: str, n: str, m: str) -> str:
    one = numbers(b, b("Mod", n, b.const([2])))
    sides = [b("Unsqueeze", one, b.const([axis])) for axis in (1, 0)]
    return b("ReduceMean", b("Softmax", b("Mul", *sides)), b.const([0]), keepdims=0)


CASES["a table of rows and columns with room for one"] = table


@pytest.mark.parametrize("case", CASES)
def test_numbers_that_may_be_below_nothing(case: str) -> None:
    b = Sizes(0)
    rows, others = b.counted("x"), b.counted("z")
    assert agreed(b.made(CASES[case](b, rows, b("Shape", rows), b("Shape", others))))


#: The shapes that rows of four are given one after the other, and the axis where rows are then.
RESHAPED = {
    "one by one": ([[-1, 1]], 0),
    "in a row": ([[-1]], 0),
    "beside ones": ([[1, 1, -1, 4]], 2),
    "beside one, and in parts": ([[1, -1, 4], [0, -1, 2, 2]], 1),
    "in a row and back": ([[1, -1], [-1, 1, 4]], 0),
    "in a row, beside ones and back": ([[-1], [1, -1, 1, 4]], 1),
}


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize("case", RESHAPED)
def test_rows_are_followed_through_shapes(case: str, room: int) -> None:
    """With room for one, too, which is a size like those that Reshape adds."""
    shapes, axis = RESHAPED[case]
    b = Sizes(0)
    largest = b("ReduceMax", "x", b.const([1]), keepdims=0)
    y = b("Compress", "x", b("Greater", largest, b.const(0.0)), axis=0)
    for shape in shapes:
        y = b("Reshape", y, b.const(shape))
    proto = b.model({"x": (onnx.TensorProto.FLOAT, (room, 4))}, {"y": y}, 18)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    x = np.arange(1, 4 * room + 1, dtype=np.float32).reshape(room, 4)
    with qnnrt.Session(importer.load(proto)) as session:
        for sign in (1, -1):  # all rows, none
            (wanted,) = reference.run(None, {"x": x * sign})
            found = session.run({"x": x * sign})
            y_rows = found["y"].take(np.arange(found["y.count"][0]), axis)
            np.testing.assert_array_equal(y_rows, wanted)


def any_number(b: Sizes, r: random.Random, given: list[str], depth: int = 0) -> str:
    op = r.choice(["Add", "Sub", "Sub", "Mul", "Div", "Mod", "Neg", "Max", "Min"])
    if depth > 2 or r.random() < 0.3:
        return r.choice(given)
    one = any_number(b, r, given, depth + 1)
    if op == "Neg":
        return b(op, one)
    if op in ("Mul", "Div", "Mod"):
        return b(op, one, b.const([r.randrange(1, 5)]))
    if r.random() < 0.4:
        return b(op, one, b.const([r.randrange(7)]))
    return b(op, one, any_number(b, r, given, depth + 1))


def any_rows(b: Sizes, r: random.Random, there: list[str], given: list[str]) -> str:
    rows, number = r.choice(there), any_number(b, r, given)
    nought = b.const([0])
    kind = r.randrange(9)
    if kind == 0:
        start = any_number(b, r, given) if r.random() < 0.5 else b.const([r.randrange(-3, 5)])
        return b("Slice", rows, start, number, nought, b.const([r.choice([1, 1, 2, -1, -2])]))
    if kind == 1:
        return padded(b, rows, number)
    if kind == 2:
        value = onnx.numpy_helper.from_array(np.array([3], np.float32))
        return b("ConstantOfShape", b("Max", number, nought), value=value)
    if kind == 3:
        return b("Concat", rows, r.choice(there), axis=0)
    if kind == 4:
        return numbers(b, number)
    if kind == 5:
        whole = b("ReduceSum", rows, nought)
        return b("Expand", whole, b("Max", number, b.const([1])))
    if kind == 6:
        return b("Mul", b("Softmax", rows, axis=0), rows)
    if kind == 7:
        return b("Gather", rows, b("Sub", b("Shape", rows), b.const([1])))
    table = [b("Unsqueeze", rows, b.const([1])), b("Unsqueeze", r.choice(there), nought)]
    table = [b("Softmax", b(r.choice(["MatMul", "Mul", "Add"]), *table))]
    reduction = r.choice(["ReduceSum", "ReduceMax", "ReduceMean"])
    return b(reduction, *table, b.const([r.randrange(2)]), keepdims=0)


def test_random_sizes() -> None:
    loaded = 0
    for seed in range(GRAPHS):
        r, b = random.Random(seed), Sizes(0)
        there = [b.counted("x"), b.counted("z"), "x"]
        given = [b("Shape", rows) for rows in there[:2]]
        for _ in range(r.randrange(1, 4)):
            there.append(any_rows(b, r, there, given))
        loaded += agreed(b.made(there[-1]))
    assert loaded > GRAPHS // 2
