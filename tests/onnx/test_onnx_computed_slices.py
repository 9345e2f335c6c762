"""Slices between places that the graph computes, and updates that are cut to as many as their
places, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

FAR = np.array([2**62])
CONSTANTS = {
    "first": np.array([0]), "far": FAR, "one": np.array([1]), "two": np.array([2]),
    "three": np.array([3]), "last": np.array([-1]), "both": np.array([1, 0]),
    "ones": np.array([1, 1]), "back": np.array([-2]), "before": np.array([-(2**62)]),
    "limit": np.float32(0.5), "nought": np.array([0]),
}  # fmt: skip
CHOSEN = [
    node("ReduceMax", ["x"], ["largest"], axes=[1], keepdims=0),
    node("Greater", ["largest", "limit"], ["mask"]),
    node("Compress", ["x", "mask"], ["rows"], axis=0),
]

#: The nodes from x, a and b to y, and the axis of the rows of y.
CASES = {
    "up to": ([node("Slice", ["x", "first", "b", "one"], ["y"])], 1),
    "from": ([node("Slice", ["x", "a", "far", "one"], ["y"])], 1),
    "between": ([node("Slice", ["x", "a", "b", "nought"], ["y"])], 0),
    "from the second on": ([node("Slice", ["x", "one", "b", "last"], ["y"])], 1),
    "up to the third": ([node("Slice", ["x", "a", "three", "one"], ["y"])], 1),
    "in steps": ([node("Slice", ["x", "a", "b", "one", "two"], ["y"])], 1),
    "backwards": ([node("Slice", ["x", "b", "a", "one", "last"], ["y"])], 1),
    "backwards in steps": ([node("Slice", ["x", "b", "a", "one", "back"], ["y"])], 1),
    "backwards from": ([node("Slice", ["x", "b", "before", "one", "last"], ["y"])], 1),
    "without axes": ([node("Slice", ["x", "a", "b"], ["y"])], 0),
    "and of another axis": (
        [node("Concat", ["a", "one"], ["s"], axis=0), node("Concat", ["b", "three"], ["e"], axis=0),
         node("Slice", ["x", "s", "e", "both", "ones"], ["y"])], 1,
    ),
    "of rows that the data decide": (
        [*CHOSEN, node("Slice", ["rows", "a", "b", "nought"], ["y"])], 0,
    ),
    "in 32 bits": (
        [node("Cast", ["a"], ["s"], to=6), node("Cast", ["b"], ["e"], to=6),
         node("Cast", ["one"], ["axes"], to=6), node("Slice", ["x", "s", "e", "axes"], ["y"])], 1,
    ),
}  # fmt: skip
PLACES = [(0, 4), (2, 5), (1, -1), (-3, 9), (3, 2), (-20, 1), (7, 9), (0, -9), (0, 0)]


@pytest.mark.parametrize("case", CASES)
def test_rows_between_places_that_are_computed(case: str) -> None:
    nodes, axis = CASES[case]
    types = {"a": TensorProto.INT64, "b": TensorProto.INT64}
    proto = make(nodes, {"x": (6, 7), "a": (1,), "b": (1,)}, ["y"], CONSTANTS, types=types)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    x = random(1, 6, 7)
    with qnnrt.Session(importer.load(proto)) as session:
        for start, end in PLACES:
            given = {"x": x, "a": np.array([start]), "b": np.array([end])}
            given = {name: v for name, v in given.items() if name in session.inputs}
            found = session.run(given)
            wanted = reference.run(None, {**given, "a": np.array([start]), "b": np.array([end])})[0]
            y = found["y"].take(np.arange(found["y.count"][0]), axis)
            assert np.array_equal(y, wanted), (start, end)


@pytest.mark.parametrize("kind", ["counted", "in the end"])
def test_as_many_rows_of_a_table_from_a_computed_place_on(kind: str) -> None:
    """As a decoder looks up its positions: ``x + table[k : k + len(x)]``."""
    nodes = [
        node("Add", ["k", "length"], ["end"]),
        node("Unsqueeze", ["k", "nought"], ["starts"]),
        node("Unsqueeze", ["end", "nought"], ["ends"]),
        node("Slice", ["table", "starts", "ends", "nought"], ["rows"]),
        node("Mul", ["rows", "limit"], ["half"]),
        node("Add", ["x", "half"], ["y"]) if kind == "in the end" else node("Neg", ["half"], ["y"]),
    ]
    constants = CONSTANTS | {"length": np.array(4), "table": random(3, 20, 3)}
    types = {"k": TensorProto.INT64}
    proto = make(nodes, {"x": (4, 3), "k": ()}, ["y"], constants, types=types)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        assert session.outputs["y"].shape == (4, 3)
        for k in (0, 5, 16, -10) if kind == "in the end" else (0, 5, 16, 18, 40, -2, -10):
            given = {"x": random(1, 4, 3), "k": np.array(k)}
            found = session.run({name: given[name] for name in session.inputs})
            (wanted,) = reference.run(None, given)
            y = found["y"] if kind == "in the end" else found["y"][: found["y.count"][0]]
            assert np.array_equal(y, wanted), k


@pytest.mark.parametrize("cut", [False, True])
def test_as_many_updates_as_places_have_less_room(cut: bool) -> None:
    """As torch exports ``masked_scatter``: the features of a picture where its tokens are."""
    nodes = [
        node("Equal", ["ids", "picture"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Transpose", ["places"], ["at"]),
        node("Shape", ["at"], ["n"], end=1),
        node("Slice", ["features", "first", "n", "nought"], ["new"]),
        node("ScatterND", ["x", "at", "new" if cut else "features"], ["y"]),
    ]
    constants = CONSTANTS | {"picture": np.array(7)}
    shapes = {"ids": (2, 5), "x": (2, 5, 3), "features": (4, 3)}
    proto = make(nodes, shapes, ["y"], constants, types={"ids": TensorProto.INT64})
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for many in (0, 2, 4) if cut else (4,):
            ids = np.zeros(10, np.int64)
            ids[np.random.default_rng(many).permutation(10)[:many]] = 7
            ids = ids.reshape(2, 5)
            given = {"ids": ids, "x": random(1, 2, 5, 3), "features": random(2, 4, 3)}
            found = session.run(given)["y"]
            assert np.array_equal(found, reference.run(None, given)[0])
