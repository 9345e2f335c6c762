"""What is there once, of elements and of slices, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_what_is_there_once(ordered: int, dtype: type) -> None:
    """Of several, of all that are one, and of none of them twice; the inverse has all elements."""
    nodes = [
        node("Unique", ["x"], ["y", "first", "inverse", "n"], sorted=ordered),
        node("Gather", ["y", "inverse"], ["again"]),
        node("Cast", ["n"], ["number"], to=1),
    ]
    kinds = {np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64}
    proto = make(nodes, {"x": (3, 7)}, ["y", "first", "inverse", "number", "again"],
                 types={"x": kinds[dtype]})  # fmt: skip
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    r = np.random.default_rng(0)
    feeds = [r.integers(-3, 4, (3, 7)), np.full((3, 7), 5), r.permutation(21).reshape(3, 7)]
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        for given in feeds:
            x = {"x": given.astype(dtype)}
            y, first, inverse, number, again = reference.run(None, x)
            found = session.run(x)
            for name, ref in (("y", y), ("first", first), ("number", number)):
                assert found[f"{name}.count"] == len(ref)
                np.testing.assert_array_equal(found[name][: len(ref)], ref)
                assert found[name].dtype == ref.dtype
            np.testing.assert_array_equal(found["inverse"], inverse)
            np.testing.assert_array_equal(found["again"], again)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 2), 0), ((4, 7), 1), ((5, 2, 3), 0), ((2, 6, 2), 1), ((2, 2, 5), -1),
                        ((1, 4), 0), ((1,), 0), ((40, 1), 0)],
)  # fmt: skip
def test_slices_that_are_there_once(shape: tuple[int, ...], axis: int, ordered: int) -> None:
    outputs = ["y", "first", "inverse", "n"]
    for kind, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.INT64, np.int64)):
        proto = make([node("Unique", ["x"], outputs, sorted=ordered, axis=axis)], {"x": shape},
                     outputs, types={"x": kind})  # fmt: skip
        reference = onnxruntime.InferenceSession(proto.SerializeToString())
        x = {"x": np.random.default_rng(1).integers(-1, 2, shape).astype(dtype)}
        with qnnrt.Session(importer.load(proto), "cpu") as session:
            found = session.run(x)
        for name, ref in zip(outputs, reference.run(None, x), strict=True):
            got = found[name]
            along = axis if name == "y" else 0
            if f"{name}.count" in found:
                assert found[f"{name}.count"] == ref.shape[along]
                got = got.take(range(ref.shape[along]), along)
            np.testing.assert_array_equal(got, ref, name)


def test_slices_with_nan_are_not_taken_for_others() -> None:
    proto = make([node("Unique", ["x"], ["y", "", "inverse"], axis=0)], {"x": (4, 2)},
                 ["y", "inverse"])  # fmt: skip
    x = np.array([[np.nan, 1], [1, np.nan], [1, 2], [1, np.nan]], np.float32)
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        found = session.run({"x": x})
    assert found["y.count"] == 3
    np.testing.assert_array_equal(found["y"][:3], x[[2, 1, 0]])
    assert found["inverse"].tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(12,), (5, 3), (1,)])
def test_what_is_there_once_among_rows_that_count(
    shape: tuple[int, ...], dtype: type, ordered: int
) -> None:
    """The largest number there is may be among them."""
    outputs = ["y", "first", "inverse", "n"]
    nodes = [
        node("Compress", ["x", "chosen"], ["rows"], axis=0),
        node("Unique", ["rows"], outputs, sorted=ordered),
    ]
    kinds = {np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64}
    shapes = {"x": shape, "chosen": shape[:1]}
    types = {"x": kinds[dtype], "chosen": TensorProto.BOOL}
    proto = make(nodes, shapes, outputs, types=types)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    largest = np.inf if dtype is np.float32 else np.iinfo(np.int64).max
    r = np.random.default_rng(2)
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        for share in (0.0, 0.3, 0.7, 1.0):
            x = r.integers(-2, 3, shape).astype(dtype)
            x[r.random(shape) < 0.2] = largest
            given = {"x": x, "chosen": r.random(shape[:1]) < share}
            found = session.run(given)
            if not given["chosen"].any():  # ONNX Runtime gives what is left in its memory
                assert found["y.count"] == found["n.count"] == found["inverse.count"] == 0
                continue
            for name, ref in zip(outputs, reference.run(None, given), strict=True):
                assert found[f"{name}.count"] == len(ref), name
                np.testing.assert_array_equal(found[name][: len(ref)], ref, name)
