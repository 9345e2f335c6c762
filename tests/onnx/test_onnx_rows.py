"""Results with as many rows as the data decide, beside ONNX Runtime."""

from __future__ import annotations

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


def check(
    nodes: list[onnx.NodeProto],
    feeds: list[dict[str, np.ndarray]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
    **types: int,
) -> qnnrt.Model:
    """`outputs`: along which axis of each the data decide how many rows there are."""
    shapes = {name: x.shape for name, x in feeds[0].items()}
    proto = make(nodes, shapes, list(outputs), constants, types=types)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    model = importer.load(proto)
    assert model.outputs == [*outputs, *(f"{name}.count" for name in outputs)]
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, "cpu", options={"kernels": kernels}) as session:
            for given in feeds:
                found = session.run(given)
                for (name, axis), ref in zip(
                    outputs.items(), reference.run(None, given), strict=True
                ):
                    (count,) = found[f"{name}.count"]
                    assert count == ref.shape[axis]
                    y = found[name]
                    assert y.dtype == ref.dtype
                    assert y.shape[axis] == model.tensors[name].shape[axis] >= count
                    y = y.take(np.arange(count), axis)
                    np.testing.assert_allclose(y, ref, rtol=1e-5, atol=1e-6, err_msg=name)
    return model


def several(*shape: int) -> list[dict[str, np.ndarray]]:
    """Some, all and none of the numbers are above 0; the last rows, too."""
    x = random(1, *shape)
    return [{"x": x}, {"x": np.abs(x) + 1}, {"x": -np.abs(x)}, {"x": -x}]


ABOVE = [node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["places"])]
ZERO = {"zero": np.float32(0)}


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...]) -> None:
    model = check(ABOVE, several(*shape), {"places": 1}, ZERO)
    assert model.tensors["places"].shape == (len(shape), int(np.prod(shape)))


def test_a_choice_by_a_mask() -> None:
    """As torch writes x[x > 0], and with what is computed of each."""
    nodes = [
        *ABOVE,
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["x", "rows"], ["y"]),
        node("Mul", ["y", "factor"], ["z"]),
        node("Relu", ["z"], ["u"]),
        node("Add", ["u", "y"], ["sum"]),
    ]
    check(nodes, several(3, 4), {"y": 0, "sum": 0}, {**ZERO, "factor": np.float32(-2)})


def test_rows_of_a_table_and_the_first_few_of_them() -> None:
    """As after a threshold on scores: boxes and scores of what is left, 5 at most."""
    boxes = random(2, 12, 4)
    nodes = [
        *ABOVE,
        node("Squeeze", ["places", "first"], ["kept"]),
        node("Gather", ["boxes", "kept"], ["some"]),
        node("Gather", ["x", "kept"], ["scores"]),
        node("Slice", ["some", "from", "to", "first"], ["few"]),
        node("Slice", ["scores", "from", "to", "first"], ["few_scores"]),
        node("Unsqueeze", ["few_scores", "last"], ["column"]),
        node("Concat", ["few", "column"], ["y"], axis=1),
        node("MatMul", ["some", "weights"], ["p"]),
        node("Softmax", ["p"], ["q"], axis=-1),
        node("ArgMax", ["q"], ["best"], axis=1, keepdims=0),
    ]
    constants = {
        **ZERO, "boxes": boxes, "first": np.array([0]), "last": np.array([-1]),
        "from": np.array([0]), "to": np.array([5]), "weights": random(3, 4, 3),
    }  # fmt: skip
    model = check(nodes, several(12), {"y": 0, "scores": 0, "best": 0}, constants)
    assert model.tensors["y"].shape == (5, 5)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_choice_along_an_axis(axis: int | None) -> None:
    how = {} if axis is None else {"axis": axis}
    length = {0: 3, 1: 4, None: 12}[axis]
    rng = np.random.default_rng(0)
    feeds = [{"x": random(1, 3, 4), "c": rng.integers(0, 2, length) > n} for n in (-1, 0, 1)]
    check([node("Compress", ["x", "c"], ["y"], **how)], feeds, {"y": axis or 0}, c=TensorProto.BOOL)


def test_the_largest_of_a_number_that_is_computed() -> None:
    nodes = [node("TopK", ["x", "k"], ["y", "i"], axis=1)]
    feeds = [{"x": random(n, 2, 6), "k": np.array([n])} for n in (1, 3, 6)]
    model = check(nodes, feeds, {"y": 1, "i": 1}, k=TensorProto.INT64)
    assert model.tensors["y"].shape == (2, 6)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([node("ReduceSum", ["y"], ["z"])], "a sum over rows"),
        ([node("Softmax", ["y"], ["z"])], "a softmax over rows"),
        ([node("Concat", ["y", "x"], ["z"], axis=0)], "joined with others"),
        ([node("Shape", ["y"], ["z"])], "an input with as many rows as the data decide"),
        ([node("Add", ["y", "x"], ["z"])], r"input 1 has 6 rows"),
        ([node("Reshape", ["y", "two"], ["z"])], "a reshape of"),
        ([node("NonZero", ["y"], ["z"])], "places in what has as many rows"),
    ],
)
def test_what_would_mix_rows_is_refused(more: list[onnx.NodeProto], message: str) -> None:
    nodes = [*ABOVE, node("Squeeze", ["places", "first"], ["kept"]),
             node("Gather", ["x", "kept"], ["y"]), *more]  # fmt: skip
    proto = make([], {"x": (6,)}, ["z"], {**ZERO, "first": np.array([0]), "two": np.array([2, -1])})
    proto.graph.node.extend(nodes)
    with pytest.raises(UnsupportedOpError, match=message):
        importer.load(proto)


def test_suppression_is_refused_with_what_to_do() -> None:
    given = {"boxes": (1, 6, 4), "scores": (1, 2, 6)}
    proto = make([node("NonMaxSuppression", ["boxes", "scores"], ["y"])], given, ["y"])
    with pytest.raises(UnsupportedOpError, match="outputs= loads the model up to its inputs"):
        importer.load(proto)
    before = [node("Relu", ["boxes"], ["b"]), node("Sigmoid", ["scores"], ["s"])]
    proto = make([*before, node("NonMaxSuppression", ["b", "s"], ["y"])], given, ["y"])
    model = importer.load(proto, outputs=["b", "s"])
    assert model.op_counts() == {"Relu": 1, "Sigmoid": 1}


def test_the_name_of_a_number_of_rows_is_free() -> None:
    proto = make([*ABOVE, node("Neg", ["x"], ["places.count"])], {"x": (3,)},
                 ["places", "places.count"], ZERO)  # fmt: skip
    with pytest.raises(qnnrt.ModelError, match=r"is 'places\.count', too"):
        importer.load(proto)
