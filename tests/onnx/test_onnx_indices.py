"""Indices below 0 count from the end: what the graph does about them, and where it need not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

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
