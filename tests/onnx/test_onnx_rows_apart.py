"""Operators that leave rows apart take as many of them as the data decide, and products and running
sums over rows take those that count, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

#: The rows of x whose largest number is above the limit.
CHOSEN = [
    node("ReduceMax", ["x"], ["largest"], axes=[1], keepdims=0),
    node("Greater", ["largest", "limit"], ["mask"]),
    node("Compress", ["x", "mask"], ["y"], axis=0),
]
CONSTANTS = {
    "limit": np.float32(1.2), "first": np.array(0), "last": np.array(-1), "two": np.array([2]),
    "ahead": np.array([1]), "once": np.array([1, 3]), "depth": np.array(8),
    "values": np.array([-1, 2], np.float32), "slope": random(2, 8), "w": random(3, 8, 5),
    "left": random(4, 2, 5, 8), "stack": random(5, 2, 8, 3), "table": random(6, 9, 8),
    "vector": random(7, 8), "whole": np.array(3), "above": np.array([2, 1, 8]),
    "far": np.array([2**62]), "rows": np.array([0]), "back": np.array([-2]),
    "three": np.array([3]), "positive": np.abs(random(9, 8)) + 1,
    "last one": np.array([-1]), "before": np.array([-(2**62)]), "behind": np.array([2**62, 1]),
    "from two": np.array([2, 5]), "steps": np.array([-1, 2]), "four": np.array([4]),
    "nothing": np.array([0, 0]), "fours": np.array([-1, 4, 8]), "twos": np.array([-1, 2, 8]),
    "five": np.array([5]), "fives": np.array([-1, 5, 8]),
    "ends": np.array([[-1] * 8]), "both": np.array([0, 1]), "grid": np.array([1, 1, -1, 2]),
    "image": random(10, 1, 3, 5, 4), "pictures": np.array([-1, 1, 2, 4]),
    "grids": np.array([-1, 2, 2, 2]), "channels": np.array([1, -1, 2, 4]),
    "scales": np.array([1, 1, 2, 1.5], np.float32), "size": np.array([5, 7]),
    "bytes": np.arange(40, dtype=np.uint8).reshape(8, 5),
}  # fmt: skip

#: The nodes from y to z, and the axis of the rows of z; None: it has none.
CASES: dict[str, tuple[list[onnx.NodeProto], int | None]] = {
    **{op: ([node(op, ["y"], ["z"])], 0) for op in (
        "Asinh", "Atanh", "Cosh", "Dropout", "Hardmax", "LpNormalization", "Sinh",
    )},
    "Mean": ([node("Mean", ["y", "vector"], ["z"])], 0),
    "PRelu": ([node("PRelu", ["y", "slope"], ["z"])], 0),
    "ReduceLogSumExp": ([node("ReduceLogSumExp", ["y"], ["z"], axes=[1], keepdims=0)], 0),
    "a type like theirs": (
        [node("CastLike", ["whole", "y"], ["c"]), node("Mul", ["y", "c"], ["z"])], 0,
    ),
    "a running sum in each": ([node("CumSum", ["y", "last"], ["z"], reverse=1)], 0),
    "a running sum over them": ([node("CumSum", ["y", "first"], ["z"], exclusive=1)], 0),
    "a sum from the last of them": (
        [node("Exp", ["y"], ["e"]), node("CumSum", ["e", "first"], ["z"], reverse=1)], 0,
    ),
    "places in each": (
        [node("TopK", ["y", "two"], ["v", "i"], axis=1),
         node("GatherElements", ["y", "i"], ["z"], axis=1)], 0,
    ),
    "rows of places": (
        [node("ArgMax", ["y"], ["i"], axis=1),
         node("GatherElements", ["table", "i"], ["z"], axis=1)], 0,
    ),
    "places among them": (
        [node("Shape", ["y"], ["k"], end=1), node("TopK", ["y", "k"], ["v", "i"], axis=0),
         node("Exp", ["y"], ["e"]), node("GatherElements", ["e", "i"], ["z"], axis=0)], 0,
    ),
    "points of an image": (
        [node("Gather", ["y", "both"], ["p"], axis=1), node("Tanh", ["p"], ["t"]),
         node("Reshape", ["t", "grid"], ["g"]),
         node("GridSample", ["image", "g"], ["z"], align_corners=1)], 3,
    ),
    "images that are sampled": (
        [node("Reshape", ["y", "pictures"], ["u"]), node("Reshape", ["y", "grids"], ["r"]),
         node("Tanh", ["r"], ["t"]), node("GridSample", ["u", "t"], ["z"])], 0,
    ),
    "channels that are resized": (
        [node("Reshape", ["y", "channels"], ["u"]),
         node("Resize", ["u", "", "scales"], ["z"], mode="linear")], 1,
    ),
    "images of a size": (
        [node("Reshape", ["y", "pictures"], ["u"]), node("Shape", ["u"], ["s"], end=2),
         node("Concat", ["s", "size"], ["sizes"], axis=0),
         node("Resize", ["u", "", "", "sizes"], ["z"], mode="linear")], 0,
    ),
    "OneHot behind": (
        [node("ArgMax", ["y"], ["i"], axis=1, keepdims=0),
         node("OneHot", ["i", "depth", "values"], ["z"])], 0,
    ),
    "OneHot in front": (
        [node("ArgMax", ["y"], ["i"], axis=1, keepdims=0),
         node("OneHot", ["i", "depth", "values"], ["z"], axis=0)], 1,
    ),
    "Tile": ([node("Tile", ["y", "once"], ["z"])], 0),
    "from the second on": ([node("Slice", ["y", "ahead", "far", "rows"], ["z"])], 0),
    "from the third on, each other": (
        [node("Slice", ["y", "two", "far", "rows", "two"], ["z"])], 0,
    ),
    "from beyond": ([node("Slice", ["y", "far", "far", "rows"], ["z"])], 0),
    "but the last two": ([node("Slice", ["y", "rows", "back", "rows"], ["z"])], 0),
    "the second and the third": ([node("Slice", ["y", "ahead", "three", "rows"], ["z"])], 0),
    "the last two": ([node("Slice", ["y", "back", "far", "rows"], ["z"])], 0),
    "turned around": ([node("Slice", ["y", "last one", "before", "rows", "last one"], ["z"])], 0),
    "each other from behind, but the first": (
        [node("Slice", ["y", "far", "rows", "rows", "back"], ["z"])], 0,
    ),
    "backwards to the third, and columns": (
        [node("Slice", ["y", "behind", "from two", "both", "steps"], ["z"])], 0,
    ),
    "backwards from the first": (
        [node("Slice", ["y", "rows", "far", "rows", "back"], ["z"])], 0,
    ),
    "in circles": (
        [node("Slice", ["y", "last one", "far", "rows"], ["end"]),
         node("Slice", ["y", "rows", "last one", "rows"], ["front"]),
         node("Concat", ["end", "front"], ["z"], axis=0)], 0,
    ),
    "in twos, fewer": (
        [node("Slice", ["y", "rows", "three", "rows"], ["few"]),
         node("Shape", ["few"], ["n"], end=1), node("Neg", ["n"], ["less"]),
         node("Mod", ["less", "two"], ["more"]),
         node("Concat", ["nothing", "more", "rows"], ["pads"], axis=0),
         node("Pad", ["few", "pads"], ["p"]), node("Reshape", ["p", "twos"], ["z"])], 0,
    ),
    "in fives": (
        [node("Shape", ["y"], ["n"], end=1), node("Neg", ["n"], ["less"]),
         node("Mod", ["less", "five"], ["more"]),
         node("Concat", ["nothing", "more", "rows"], ["pads"], axis=0),
         node("Pad", ["y", "pads"], ["p"]), node("Reshape", ["p", "fives"], ["z"])], 0,
    ),
    "in fours": (
        [node("Shape", ["y"], ["n"], end=1), node("Neg", ["n"], ["less"]),
         node("Mod", ["less", "four"], ["more"]),
         node("Concat", ["nothing", "more", "rows"], ["pads"], axis=0),
         node("Pad", ["y", "pads"], ["p"]), node("Reshape", ["p", "fours"], ["z"])], 0,
    ),
    "normalized": (
        [node("BatchNormalization", ["y", "vector", "vector", "vector", "positive"], ["z"])], 0,
    ),
    "integers": (
        [node("DynamicQuantizeLinear", ["y"], ["q", "s", "o"]),
         node("MatMulInteger", ["q", "bytes", "o"], ["z"])], 0,
    ),
    "Expand": ([node("Expand", ["y", "ahead"], ["z"])], 0),
    "Expand to more": ([node("Expand", ["y", "above"], ["z"])], 1),
    "a triangle of each": (
        [node("Unsqueeze", ["y", "ahead"], ["u"]), node("Mul", ["u", "u"], ["m"]),
         node("Trilu", ["m"], ["z"], upper=0)], 0,
    ),
    "a triangle": ([node("Trilu", ["y"], ["z"])], 0),
    "a triangle of columns": (
        [node("Transpose", ["y"], ["t"]), node("Trilu", ["t"], ["z"], upper=0)], 1,
    ),
    "rows by a stack": ([node("MatMul", ["y", "stack"], ["z"])], 1),
    "columns": (
        [node("Transpose", ["y"], ["t"], perm=[1, 0]), node("MatMul", ["left", "t"], ["z"])], 2,
    ),
    "a product of each": (
        [node("Unsqueeze", ["y", "ahead"], ["u"]), node("Transpose", ["u"], ["t"], perm=[0, 2, 1]),
         node("MatMul", ["t", "u"], ["z"])], 0,
    ),
    "letters": ([node("Einsum", ["y", "w"], ["z"], equation="nk,km->mn")], 1),
    "letters of each": ([node("Einsum", ["y", "y"], ["z"], equation="nk,nk->n")], 0),
    "a product over them": (
        [node("Transpose", ["y"], ["t"], perm=[1, 0]), node("Exp", ["y"], ["e"]),
         node("MatMul", ["t", "e"], ["z"])], None,
    ),
    "written into each": (
        [node("TopK", ["y", "two"], ["v", "i"], axis=1), node("Neg", ["v"], ["m"]),
         node("ScatterElements", ["y", "i", "m"], ["z"], axis=1)], 0,
    ),
    "written in front of each": (
        [node("Unsqueeze", ["y", "rows"], ["u"]), node("Mul", ["u", "u"], ["m"]),
         node("Shape", ["u"], ["s"]), node("Expand", ["first", "s"], ["i"]),
         node("ScatterElements", ["m", "i", "u"], ["z"], axis=0)], 1,
    ),
    "a mean of them, or of none": ([node("ReduceMean", ["y"], ["z"], axes=[0])], None),
    "letters over them": ([node("Einsum", ["y", "y"], ["z"], equation="nk,nm->km")], None),
}  # fmt: skip


def feeds() -> list[np.ndarray]:
    """Some of the rows count, all and none."""
    x = random(1, 9, 8)
    return [x, np.abs(x) + 1.3, -np.abs(x), -x]


def proto_of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    return make([*CHOSEN, *nodes], {"x": (9, 8)}, ["z"], CONSTANTS)


@pytest.mark.parametrize("case", CASES)
def test_rows_apart_are_what_they_are_alone(case: str) -> None:
    nodes, axis = CASES[case]
    proto = proto_of(nodes)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for x in feeds():
            found = session.run({"x": x})
            (wanted,) = reference.run(None, {"x": x})
            z = found["z"]
            if axis is not None:
                z = z.take(np.arange(found["z.count"][0]), axis)
            assert z.dtype == wanted.dtype
            assert z.shape == wanted.shape
            np.testing.assert_allclose(z, wanted, rtol=1e-4, atol=1e-5)


def test_the_last_row_has_no_dimension_of_rows() -> None:
    """As torch exports ``x[mask][-1]``: the place is a number without dimensions."""
    proto = proto_of([node("Gather", ["y", "last"], ["z"])])
    with qnnrt.Session(importer.load(proto)) as session:
        for x in feeds():
            rows = x[x.max(1) > CONSTANTS["limit"]]
            found = session.run({"x": x})["z"]
            assert found.shape == (8,)
            assert not len(rows) or np.array_equal(found, rows[-1])


def test_the_last_elements_of_rows() -> None:
    proto = proto_of([node("GatherElements", ["y", "ends"], ["z"], axis=0)])
    with qnnrt.Session(importer.load(proto)) as session:
        for x in feeds():
            rows = x[x.max(1) > CONSTANTS["limit"]]
            found = session.run({"x": x})["z"]
            assert found.shape == (1, 8)
            assert not len(rows) or np.array_equal(found[0], rows[-1])


def test_rows_by_a_vector() -> None:
    """ONNX Runtime fails where there is no row."""
    with qnnrt.Session(importer.load(proto_of([node("MatMul", ["y", "vector"], ["z"])]))) as s:
        for x in feeds():
            found, rows = s.run({"x": x}), x[x.max(1) > CONSTANTS["limit"]]
            z = found["z"][: found["z.count"][0]]
            np.testing.assert_allclose(z, rows @ CONSTANTS["vector"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "OneHot"])
def test_places_in_rows_that_do_not_count_are_not_looked_for(op: str, kernels: str) -> None:
    """They are what is left there, and may lie anywhere."""
    inputs = ["i", "depth", "values"] if op == "OneHot" else ["table", "i"]
    how = {"GatherElements": {"axis": 1}}.get(op, {})
    nodes = [
        node("Less", ["x", "limit"], ["mask"]),
        node("Squeeze", ["mask", "last"], ["chosen"]),
        node("Compress", ["x", "chosen"], ["y"], axis=0),
        node("Cast", ["y"], ["i"], to=onnx.TensorProto.INT64),
        node(op, inputs, ["z"], **how),
    ]
    constants = CONSTANTS | {
        "limit": np.float32(8),
        "last": np.array([1]),
        "table": random(8, 9, 8),
    }
    proto = make(nodes, {"x": (9, 1)}, ["z"], constants)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto), options={"kernels": kernels}) as session:
        for far in (9, 1e6, 3e9, 1e18):
            x = np.array([[far], [3], [0], [far], [7], [far], [5], [1], [far]], np.float32)
            found = session.run({"x": x})
            (wanted,) = reference.run(None, {"x": x})
            assert np.array_equal(found["z"][: found["z.count"][0]], wanted)


REPEATED = {"more": np.array([2, 1]), "nine": np.array([9, 8])}


@pytest.mark.parametrize("nodes", [
    [node("Tile", ["y", "more"], ["z"])],
    [node("Expand", ["y", "nine"], ["z"])],
    [node("Hardmax", ["y"], ["z"], axis=0)],
    [node("Einsum", ["y", "table"], ["z"], equation="nk,nk->n")],
])  # fmt: skip
def test_what_mixes_rows_is_refused(nodes: list[onnx.NodeProto]) -> None:
    proto = make([*CHOSEN, *nodes], {"x": (9, 8)}, ["z"], CONSTANTS | REPEATED)
    with pytest.raises(UnsupportedOpError, match=r"rows|places"):
        importer.load(proto)
