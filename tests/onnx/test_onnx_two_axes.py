"""Tensors of which the data decide along two axes how many rows count, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

#: Rows of x and rows of w, and what is between each two of them.
CHOSEN = [
    *(
        n
        for name, rows in (("x", "a"), ("w", "b"))
        for n in (
            node("ReduceMax", [name], [f"most {rows}"], axes=[1], keepdims=0),
            node("Greater", [f"most {rows}", "limit"], [f"mask {rows}"]),
            node("Compress", [name, f"mask {rows}"], [rows], axis=0),
        )
    ),
    node("Transpose", ["b"], ["b turned"], perm=[1, 0]),
    node("Transpose", ["a"], ["a turned"], perm=[1, 0]),
    node("MatMul", ["a", "b turned"], ["s"]),
]
CONSTANTS: dict[str, Any] = {
    "limit": np.float32(1.2), "half": np.float32(0.5), "first": np.array([0]), "one": np.array([1]),
    "both": np.array([0, 1]), "zero": np.int64(0), "last": np.array([-1]), "two": np.array([2]),
    "three": np.array([3]), "far": np.array([2**62]), "row": random(5, 1, 8),
    "like s": np.array([1, 1, 1, -1]), "nought": np.float32(0), "slope": random(7, 1, 1),
    "unit": np.int64(1), "line": np.array([-1]), "heads": np.array([0, -1, 2, 4]),
    "ends": np.array([-1]), "ones": np.array([1, 1]), "stack": np.array([2, 1, 1]),
}  # fmt: skip

SCORES = node("Softmax", ["s"], ["p"], axis=-1)
HEADS = [
    node("Unsqueeze", ["a", "first"], ["a1"]),
    node("Reshape", ["a1", "heads"], ["h"]),
    node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
    node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
    node("MatMul", ["q", "k"], ["qk"]),
    node("Mul", ["qk", "half"], ["scaled"]),
]

#: The nodes to y, and the axes of its rows.
CASES: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...]]] = {
    "between two": ([node("Identity", ["s"], ["y"])], (0, 1)),
    "among themselves": ([node("MatMul", ["a", "a turned"], ["y"])], (0, 1)),
    "by letters": ([node("Einsum", ["a", "b"], ["y"], equation="nk,mk->nm")], (0, 1)),
    "by letters, turned": ([node("Einsum", ["a", "b"], ["y"], equation="nk,mk->mn")], (0, 1)),
    "letters over one of them": (
        [node("Einsum", ["s", "b"], ["y"], equation="nm,mk->nk")], (0,),
    ),
    "letters over both": ([node("Einsum", ["s", "s"], ["y"], equation="nm,nm->")], ()),
    "their elements in one row": ([node("Reshape", ["s", "line"], ["y"])], (0,)),
    "shares of the columns": ([node("Softmax", ["s"], ["y"], axis=1)], (0, 1)),
    "shares of the rows": ([node("LogSoftmax", ["s"], ["y"], axis=0)], (0, 1)),
    "attention": ([SCORES, node("MatMul", ["p", "b"], ["y"])], (0,)),
    "attention of heads": (
        [*HEADS, node("Softmax", ["scaled"], ["p"], axis=-1), node("MatMul", ["p", "q"], ["o"]),
         node("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]), node("Flatten", ["a"], ["f"]),
         node("ReduceSum", ["t", "first"], ["y"], keepdims=0)], (0,),
    ),
    "attention to what came before": (
        [*HEADS, node("Shape", ["a"], ["n"], end=1), node("Squeeze", ["n"], ["m"]),
         node("Range", ["zero", "m", "unit"], ["at"]), node("Unsqueeze", ["at", "one"], ["rows"]),
         node("Less", ["rows", "at"], ["behind"]),
         node("Where", ["behind", "limit", "scaled"], ["masked"]),
         node("Softmax", ["masked"], ["p"], axis=-1), node("MatMul", ["p", "q"], ["y"])], (2,),
    ),
    "from the left": ([node("MatMul", ["a turned", "s"], ["y"])], (1,)),
    "arithmetic": (
        [node("Relu", ["s"], ["r"]), node("Mul", ["r", "half"], ["h"]),
         node("Add", ["h", "s"], ["y"])], (0, 1),
    ),
    "with one of each": (
        [node("ReduceSum", ["a", "one"], ["m"]), node("Sub", ["s", "m"], ["d"]),
         node("ReduceSum", ["b", "one"], ["k"], keepdims=0), node("Sub", ["d", "k"], ["y"])],
        (0, 1),
    ),
    "distances": (
        [node("Unsqueeze", ["a", "one"], ["l"]), node("Unsqueeze", ["b", "first"], ["r"]),
         node("Sub", ["l", "r"], ["d"]), node("Mul", ["d", "d"], ["q"]),
         node("ReduceSum", ["q", "last"], ["y"], keepdims=0)], (0, 1),
    ),
    **{f"{op} along {over}": (
        [node("Abs", ["s"], ["e"]), node(op, ["e"], ["y"], axes=over, keepdims=keep)], axes,
    ) for op in ("ReduceMean", "ReduceProd", "ReduceL2")
      for over, keep, axes in (([0], 1, (1,)), ([1], 0, (0,)), ([0, 1], 0, ()))},
    "sums of the rows": ([node("ReduceSum", ["s", "one"], ["y"], keepdims=0)], (0,)),
    "all of them": ([node("Abs", ["s"], ["e"]), node("ReduceSum", ["e"], ["y"], keepdims=0)], ()),
    "a matrix turned": ([node("Transpose", ["s"], ["y"], perm=[1, 0])], (0, 1)),
    "another dimension": ([node("Unsqueeze", ["s", "one"], ["y"])], (0, 2)),
    "a dimension less": (
        [node("Unsqueeze", ["s", "one"], ["u"]), node("Squeeze", ["u", "one"], ["y"])], (0, 1),
    ),
    "their sizes": ([node("Shape", ["s"], ["y"])], ()),
    "how many": ([node("Size", ["s"], ["y"])], ()),
    "a row to a shape": (
        [node("Shape", ["s"], ["z"]), node("Expand", ["slope", "z"], ["y"])], (0, 1),
    ),
    "zeros of a shape": (
        [node("Shape", ["s"], ["z"]), node("ConstantOfShape", ["z"], ["y"])], (0, 1),
    ),
    "to a stack": ([node("Expand", ["s", "stack"], ["y"])], (1, 2)),
    "a triangle": ([node("Trilu", ["s"], ["y"], upper=0)], (0, 1)),
    "columns that are chosen": (
        [node("NonZero", ["mask b"], ["i"]), node("Squeeze", ["i", "first"], ["j"]),
         node("MatMul", ["a", "w turned"], ["all"]), node("Gather", ["all", "j"], ["y"], axis=1)],
        (0, 1),
    ),
    "from the second row on": ([node("Slice", ["s", "one", "far", "first"], ["y"])], (0, 1)),
    "the first three columns": ([node("Slice", ["s", "first", "three", "one"], ["y"])], (0, 1)),
    "but the last column": ([node("Slice", ["s", "first", "ends", "one"], ["y"])], (0, 1)),
    "one below the other": (
        [node("Neg", ["s"], ["t"]), node("Concat", ["s", "t"], ["y"], axis=0)], (0, 1),
    ),
    "a row and a column more": (  # as SuperGlue's scores have them for what has no counterpart
        [node("Shape", ["s"], ["z"]), node("Split", ["z", "ones"], ["m", "n"]),
         node("Concat", ["m", "one"], ["tall"], axis=0), node("Expand", ["slope", "tall"], ["c"]),
         node("Concat", ["s", "c"], ["wider"], axis=1), node("Add", ["n", "one"], ["more"]),
         node("Concat", ["one", "more"], ["wide"], axis=0),
         node("Expand", ["slope", "wide"], ["r"]),
         node("Concat", ["wider", "r"], ["y"], axis=0)], (0, 1),
    ),
    "side by side": (
        [node("Unsqueeze", ["s", "two"], ["u"]), node("Neg", ["u"], ["v"]),
         node("Concat", ["u", "v"], ["y"], axis=2)], (0, 1),
    ),
    "places": ([node("Greater", ["s", "nought"], ["m"]), node("NonZero", ["m"], ["y"])], (1,)),
}  # fmt: skip


def feeds() -> list[dict[str, np.ndarray]]:
    """Some of the rows count, all and none."""
    x, w = random(1, 9, 8), random(2, 7, 8)
    return [
        {"x": x, "w": w},
        {"x": np.abs(x) + 1.3, "w": -w},
        {"x": -x, "w": np.abs(w) + 1.3},
        {"x": -np.abs(x), "w": w},
        {"x": x, "w": -np.abs(w)},
    ]


def proto_of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    shapes = {"x": (9, 8), "w": (7, 8)}
    turned = node("Transpose", ["w"], ["w turned"], perm=[1, 0])
    return make([*CHOSEN, turned, *nodes], shapes, ["y"], CONSTANTS)


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("case", CASES)
def test_rows_along_two_axes_are_what_they_are_alone(case: str, kernels: str) -> None:
    nodes, axes = CASES[case]
    proto = proto_of(nodes)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto), options={"kernels": kernels}) as session:
        for given in feeds():
            given = {name: given[name] for name in session.inputs}
            found = session.run(given)
            whole = {"x": feeds()[0]["x"], "w": feeds()[0]["w"]} | given
            (wanted,) = reference.run(None, whole)
            y = found["y"]
            counts = found["y.count"] if axes else np.zeros(0, np.int64)
            assert counts.dtype == np.int64
            assert len(counts) == len(axes)
            for axis, count in zip(axes, counts, strict=True):
                y = y.take(np.arange(count), axis)
            assert y.dtype == wanted.dtype
            if wanted.size:  # ONNX Runtime keeps what it sums over where there is nothing
                assert y.shape == wanted.shape
                np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "ReduceLogSumExp"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_along_one_of_them(op: str, axis: int) -> None:
    """Of none, runtimes do not agree."""
    over = {"axis": axis} if op.startswith("Arg") else {"axes": [axis]}
    proto = proto_of([node(op, ["s"], ["y"], keepdims=0, **over)])
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for given in feeds()[:3]:
            found, (wanted,) = session.run(given), reference.run(None, given)
            y = found["y"][: found["y.count"][0]]
            assert y.shape == wanted.shape
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_the_nearest_among_rows_that_count() -> None:
    nodes = [node("TopK", ["s", "two"], ["y", "i"], axis=1)]
    proto = proto_of(nodes)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for given in feeds()[:3]:
            found, (wanted,) = session.run(given), reference.run(None, given)
            y = found["y"][: found["y.count"][0]]
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


MIXED = {
    "a column of known rows beside": [node("Concat", ["s", "column"], ["y"], axis=1)],
    "repeated": [node("Tile", ["s", "pair"], ["y"])],
    "a product with known rows": [node("MatMul", ["s", "known"], ["y"])],
    "known rows beside": [node("Add", ["s", "column"], ["y"])],
    "other rows beside": [node("Transpose", ["s"], ["t"]), node("Add", ["s", "t"], ["y"])],
    "an image": [
        node("Unsqueeze", ["s", "both"], ["u"]), node("MaxPool", ["u"], ["y"], kernel_shape=[2, 2]),
    ],
    "a third axis": [
        node("Unsqueeze", ["s", "two"], ["u"]), node("ReduceSum", ["a", "one"], ["k"], keepdims=0),
        node("Add", ["u", "k"], ["y"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
def test_what_mixes_them_is_refused(case: str) -> None:
    more = {"pair": np.array([2, 1]), "known": random(3, 7, 2), "column": random(4, 9, 1)}
    shapes = {"x": (9, 8), "w": (7, 8)}
    proto = make([*CHOSEN, *MIXED[case]], shapes, ["y"], CONSTANTS | more)
    with pytest.raises(UnsupportedOpError, match=r"rows"):
        importer.load(proto)


def test_a_matrix_as_large_as_capacities_let_it_be() -> None:
    """As FastSpeech's decoder attends to as many frames as it computes for a text."""
    nodes = [
        node("ReduceSum", ["times"], ["n"], keepdims=0),
        node("Range", ["zero", "n", "unit"], ["at"]),
        node("Unsqueeze", ["at", "one"], ["rows"]),
        node("Sub", ["rows", "at"], ["apart"]),
        node("Cast", ["apart"], ["y"], to=TensorProto.FLOAT),
    ]
    types = {"times": TensorProto.INT64}
    proto = make(nodes, {"times": (4,)}, ["y"], CONSTANTS, types=types)
    with qnnrt.Session(importer.load(proto, capacities={"n": 12})) as session:
        for times in ([1, 2, 3, 4], [0, 0, 1, 0], [3, 3, 3, 3]):
            found, n = session.run({"times": np.array(times)}), sum(times)
            assert found["y.count"].tolist() == [n, n]
            wanted = np.subtract.outer(np.arange(n), np.arange(n))
            assert np.array_equal(found["y"][:n, :n], wanted)
