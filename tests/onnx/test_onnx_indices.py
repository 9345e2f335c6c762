"""Indices below 0 count from the end: what the graph does about them, and where it need not."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.errors import GraphError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

PLACES = {
    "the largest": [node("ArgMax", ["x"], ["i"], axis=1, keepdims=0)],
    "the smallest": [node("ArgMin", ["x"], ["i"], axis=1, keepdims=0)],
    "the largest two": [node("TopK", ["x", "two"], ["v", "i"], axis=1)],
    "looked up": [
        node("ArgMax", ["x"], ["a"], axis=1, keepdims=0),
        node("Gather", ["numbers", "a"], ["i"]),
    ],
    "one of two": [
        node("ArgMax", ["x"], ["a"], axis=1, keepdims=1),
        node("Greater", ["x", "zero"], ["holds"]),
        node("Where", ["holds", "a", "first"], ["i"]),
    ],
    "a truth": [
        node("Greater", ["x", "zero"], ["holds"]),
        node("Cast", ["holds"], ["i"], to=TensorProto.INT32),
    ],
}
CONSTANTS = {
    "table": random(1, 6, 3), "two": np.array([2]), "zero": np.float32(0), "first": np.array(0),
    "numbers": np.array([3, 0, 5, 1]), "behind": np.array([3, 0, -5, 1]),
}  # fmt: skip


def looked_up(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    return make([*nodes, node("Gather", ["table", "i"], ["y"])], {"x": (5, 4)}, ["y"], CONSTANTS)


@pytest.mark.parametrize("kind", PLACES)
def test_places_are_looked_up_as_they_are(kind: str) -> None:
    counts = agree(looked_up(PLACES[kind]), {"x": random(2, 5, 4)}).op_counts()
    assert "ElementWiseLess" not in counts
    assert "ElementWiseAdd" not in counts


MAY_BE_BELOW = {
    "looked up": [
        node("ArgMax", ["x"], ["a"], axis=1, keepdims=0),
        node("Gather", ["behind", "a"], ["i"]),
    ],
    "subtracted": [
        node("ArgMax", ["x"], ["a"], axis=1, keepdims=0),
        node("Sub", ["a", "two"], ["i"]),
    ],
    "rounded": [node("Floor", ["x"], ["f"]), node("Cast", ["f"], ["i"], to=TensorProto.INT64)],
    "rows without a place": [
        node("Greater", ["x", "zero"], ["holds"]),
        node("NonZero", ["holds"], ["places"]),
        node("Gather", ["places", "first"], ["i"], axis=0),
    ],
}


@pytest.mark.parametrize("kind", MAY_BE_BELOW)
def test_what_may_be_below_0_is_looked_at(kind: str) -> None:
    """Backends of others take no such index."""
    proto = looked_up(MAY_BE_BELOW[kind])
    if kind == "rows without a place":
        counts = importer.load(proto).op_counts()
    else:
        counts = agree(proto, {"x": random(2, 5, 4)}).op_counts()
    assert counts["ElementWiseLess"] >= 1
    assert counts["ElementWiseSelect"] >= 1


#: Of [6, 5, 4] and indices along axis 1, or of the first two dimensions.
READERS = {
    "Gather": ("Gather", (3, 2), {"axis": 1}),
    "elements": ("GatherElements", (6, 2, 4), {"axis": 1}),
    "places": ("GatherND", (7, 2), {}),
    "places of a batch": ("GatherND", (6, 3, 1), {"batch_dims": 1}),
    "written elements": ("ScatterElements", (6, 2, 4), {"axis": 1}),
    "written places": ("ScatterND", (1, 2), {}),
}


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(r, k) for r in READERS for k in ("int64", "int32") if k == "int64" or "places" not in r],
)
def test_indices_are_read_as_they_are(reader: str, kind: str) -> None:
    """By one step; and what lies outside of an axis either way is refused, wrapped or cut off to
    32 bits or not."""
    op, shape, how = READERS[reader]
    sizes = np.array([6, 5]) if shape[-1] == 2 and op.endswith("ND") else np.array(5)
    index = np.random.default_rng(3).integers(-sizes, sizes, shape).astype(kind)
    given = {"x": random(1, 6, 5, 4), "i": index}
    if op.startswith("Scatter"):
        given["u"] = random(2, *(shape if op.endswith("Elements") else (1, 4)))
    types = {"i": onnx.helper.np_dtype_to_tensor_dtype(index.dtype)}
    shapes = {name: a.shape for name, a in given.items()}
    proto = make([node(op, list(given), ["y"], **how)], shapes, ["y"], opset=18, types=types)
    agree(proto, given)
    with qnnrt.Session(importer.load(proto)) as session:
        wanted = session.run(given)["y"]
        wrapped = {**given, "i": np.where(index < 0, index + sizes, index).astype(kind)}
        np.testing.assert_array_equal(session.run(wrapped)["y"], wanted)
        assert session.graph is not None
        steps = json.loads(session.graph.describe() or "")["steps"]
        assert [s["op"] for s in steps] == [
            {"GatherND": "GatherNd", "ScatterND": "ScatterNd"}.get(op, op)
        ]
        for beyond in (-1 - sizes, sizes, *([sizes + 2**32, -(2**32)] if kind == "int64" else [])):
            bad = index.copy()
            bad.reshape(-1, sizes.size)[-1] = beyond
            with pytest.raises(GraphError, match=r"index -?\d+ .* is outside of \["):
                session.run({**given, "i": bad})
        np.testing.assert_array_equal(session.run(given)["y"], wanted)
