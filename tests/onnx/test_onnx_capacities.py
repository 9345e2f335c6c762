"""``capacities=``: room for sizes of which only the data say how large they are."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

TYPES = {"times": TensorProto.INT64}


def proto_of(
    nodes: list[onnx.NodeProto], constants: dict[str, Any] | None = None, **inputs: tuple[int, ...]
) -> onnx.ModelProto:
    given = {name: np.asarray(value) for name, value in (constants or {}).items()}
    return make(nodes, inputs, ["y"], given, types={k: v for k, v in TYPES.items() if k in inputs})


def check(
    proto: onnx.ModelProto,
    feeds: list[dict[str, np.ndarray]],
    capacities: dict[str, int],
    axis: int | None,
    least: int = 1,
) -> qnnrt.Model:
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    model = importer.load(proto, capacities=capacities)
    with qnnrt.Session(model) as session:
        for given in feeds:
            found, (ref,) = session.run(given), reference.run(None, given)
            y = found["y"]
            if axis is not None:
                assert found["y.count"] == ref.shape[axis]
                y = y.take(np.arange(ref.shape[axis]), axis)
            np.testing.assert_allclose(y, ref, rtol=1e-5, atol=1e-6)
    return model


#: A row of x as often as `times` says, as speech is made of its sounds.
REPEATED = [
    node("CumSum", ["times", "zero"], ["ends"]),
    node("ReduceMax", ["ends"], ["length"], keepdims=0),
    node("Range", ["zero", "length", "one"], ["steps"]),
    node("Unsqueeze", ["steps", "last"], ["column"]),
    node("GreaterOrEqual", ["column", "ends"], ["behind"]),
    node("Cast", ["behind"], ["numbers"], to=TensorProto.INT64),
    node("ReduceSum", ["numbers", "last"], ["places"], keepdims=0),
    node("Gather", ["x", "places"], ["y"]),
]
CONSTANTS = {"zero": np.int64(0), "one": np.int64(1), "last": np.array([-1])}
SOUNDS = [
    {"x": random(i, 5, 3), "times": np.array(times)}
    for i, times in enumerate([[1, 2, 3, 4, 5], [0, 0, 1, 0, 0], [4, 4, 4, 4, 4], [0, 9, 0, 0, 9]])
]


def repeated() -> onnx.ModelProto:
    return proto_of(REPEATED, CONSTANTS, x=(5, 3), times=(5,))


def test_rows_as_often_as_the_data_say() -> None:
    model = check(repeated(), SOUNDS, {"length": 20}, 0)
    assert model.tensors["y"].shape == (20, 3)
    assert model.outputs == ["y", "y.count", "length.count"]


def test_a_size_beyond_its_capacity_shows() -> None:
    with qnnrt.Session(importer.load(repeated(), capacities={"length": 8})) as session:
        for given in SOUNDS:
            found, whole = session.run(given), given["times"].sum()
            assert found["length.count"] == whole
            assert found["y.count"] == min(whole, 8)
            rows = np.repeat(given["x"], given["times"], 0)[:8]
            np.testing.assert_array_equal(found["y"][: len(rows)], rows)


def test_a_convolution_behind_it() -> None:
    nodes = [
        *REPEATED[:-1],
        node("Gather", ["x", "places"], ["rows"]),
        node("Transpose", ["rows"], ["turned"], perm=[1, 0]),
        node("Unsqueeze", ["turned", "first"], ["line"]),
        node("Conv", ["line", "w"], ["c"], pads=[1, 1]),
        node("ConvTranspose", ["c", "v"], ["y"], strides=[2], pads=[1, 1]),
    ]
    more = {"first": np.array([0]), "w": random(1, 4, 3, 3), "v": random(2, 4, 2, 4)}
    check(proto_of(nodes, {**CONSTANTS, **more}, x=(5, 3), times=(5,)), SOUNDS, {"length": 20}, 2)


@pytest.mark.parametrize(
    ("nodes", "axis", "constants"),
    [
        ([node("Expand", ["row", "n"], ["y"])], 0, {"row": random(1, 1)}),
        ([node("ConstantOfShape", ["n"], ["y"])], 0, {}),
        (
            [node("Concat", ["n", "four"], ["s"], axis=0), node("Expand", ["row", "s"], ["y"])],
            0,
            {"row": random(1, 4), "four": np.array([4])},
        ),
        ([node("Slice", ["x", "at", "n"], ["y"])], 0, {"at": np.array([0])}),
        (
            [node("Slice", ["x", "at", "n"], ["s"]), node("ReduceSum", ["s", "at"], ["y"])],
            None,
            {"at": np.array([0])},
        ),
        (
            [node("Concat", ["n", "one"], ["s"], axis=0), node("Tile", ["row", "s"], ["y"])],
            0,
            {"row": random(1, 3, 2), "one": np.array([1])},
        ),
        (
            [node("Cast", ["n"], ["f"], to=1), node("Squeeze", ["f"], ["h"]),
             node("Range", ["zero", "h", "one"], ["y"])],
            0,
            {"zero": np.float32(0), "one": np.float32(1)},
        ),
    ],
)  # fmt: skip
def test_what_takes_a_size(
    nodes: list[onnx.NodeProto], axis: int | None, constants: dict[str, np.ndarray]
) -> None:
    found = [node("ReduceSum", ["times"], ["n"], keepdims=1), *nodes]
    proto = proto_of(found, constants, x=(9, 3), times=(4,))
    feeds = [{"x": random(n, 9, 3), "times": np.array([n, 0, 1, 2])} for n in range(6)]
    check(proto, feeds, {"n": 9}, axis)


def test_a_float_as_a_size_stays_what_it_is_as_data() -> None:
    nodes = [
        node("ReduceSum", ["x"], ["length"], keepdims=0),
        node("Range", ["zero", "length", "one"], ["steps"]),
        node("Mul", ["steps", "length"], ["y"]),
    ]
    proto = proto_of(nodes, {"zero": np.float32(0), "one": np.float32(1)}, x=(2,))
    feeds = [{"x": np.array([n, 0.25], np.float32)} for n in range(6)]
    check(proto, feeds, {"length": 6}, 0)


def test_less_room_for_rows_than_there_could_be() -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["x", "rows"], ["y"]),
    ]
    proto = proto_of(nodes, x=(100,))
    x = np.zeros(100, np.float32)
    x[[3, 50, 99]] = 1, 2, 3
    model = check(proto, [{"x": x}, {"x": x * 0}], {"places": 4}, 0)
    assert model.tensors["y"].shape == (4,)
    with qnnrt.Session(importer.load(proto, capacities={"y": 2})) as session:
        found = session.run({"x": x})
    assert found["y.count"] == 3
    np.testing.assert_array_equal(found["y"], [1, 2])


def test_an_input_as_a_size() -> None:
    proto = proto_of([node("Expand", ["row", "times"], ["y"])], {"row": random(1, 1)}, times=(1,))
    check(proto, [{"times": np.array([n])} for n in (0, 1, 7)], {"times": 7}, 0)


def test_many_shapes_and_another_process() -> None:
    proto = repeated()
    for value in proto.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    model = importer.load(proto, shapes="any", capacities={"length": 30})
    with qnnrt.Session(pickle.loads(pickle.dumps(model))) as session:
        for n in (1, 3, 6):
            x, times = random(n, n, 3), np.arange(n) + 1
            found = session.run({"x": x, "times": times})
            assert found["y.count"] == times.sum()
            np.testing.assert_array_equal(found["y"][: times.sum()], np.repeat(x, times, 0))


def test_a_refusal_says_which_capacity_is_missing() -> None:
    with pytest.raises(UnsupportedOpError, match=r"capacities=\{'length': \.\.\.\}"):
        importer.load(repeated())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"lenght": 3}, ModelError, r"no tensor 'lenght' \(nearest: 'length'"),
        ({"length": 0}, ValueError, "has to be 1 to"),
        ({"length": 2.5}, TypeError, "no whole number"),
        (7, TypeError, "dict of names"),
    ],
)
def test_capacities_that_are_none(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        importer.load(repeated(), capacities=given)


def test_a_mask_has_no_capacity() -> None:
    nodes = [node("IsNaN", ["x"], ["mask"]), node("Not", ["mask"], ["y"])]
    with pytest.raises(ModelError, match=r"'mask' is bool\[3\]: a capacity is for a number"):
        importer.load(proto_of(nodes, x=(3,)), capacities={"mask": 2})


def test_what_the_file_says_itself_needs_none() -> None:
    proto = proto_of([node("Add", ["x", "one"], ["y"])], {"one": np.float32(1)}, x=(3,))
    assert importer.load(proto, capacities={"one": 5}).outputs == ["y"]


def body_of(nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    """One that carries `parts`, a sequence, as torch exports ``repeat_interleave``."""
    info = onnx.helper.make_tensor_value_info
    parts = onnx.helper.make_value_info(
        "parts", onnx.helper.make_sequence_type_proto(
            onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        ),
    )  # fmt: skip
    more = onnx.helper.make_value_info("more", parts.type)
    given = [info("turn", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), parts]
    return onnx.helper.make_graph(
        [node("Identity", ["on"], ["on2"]), *nodes], "body", given,
        [info("on2", TensorProto.BOOL, []), more],
    )  # fmt: skip


def test_a_tensor_of_a_body() -> None:
    """The most that it is in any turn; its number is that of the turn with the largest."""
    body = body_of([
        node("Gather", ["times", "turn"], ["n"]),
        node("Reshape", ["n", "last"], ["many"]),
        node("Gather", ["x", "turn"], ["row"]),
        node("Concat", ["many", "three"], ["size"], axis=0),
        node("Unsqueeze", ["row", "first"], ["line"]),
        node("Expand", ["line", "size"], ["lines"]),
        node("SequenceInsert", ["parts", "lines"], ["more"]),
    ])  # fmt: skip
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["five", "", "none"], ["all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    more = {"five": np.int64(5), "three": np.array([3]), "first": np.array([0])}
    proto = proto_of(nodes, {**CONSTANTS, **more}, x=(5, 3), times=(5,))
    with pytest.raises(UnsupportedOpError, match=r"capacities=\{'size': ...\}"):
        importer.load(proto)
    model = importer.load(proto, capacities={"n": 9})
    assert model.outputs == ["y", "y.count", "n.count"]
    with qnnrt.Session(model) as session:
        for given in SOUNDS:
            found = session.run(given)
            wanted = np.repeat(given["x"], given["times"], 0)
            assert found["y.count"] == len(wanted)
            assert found["n.count"] == given["times"].max()
            np.testing.assert_array_equal(found["y"][: len(wanted)], wanted)
        given = {"x": SOUNDS[0]["x"], "times": np.array([1, 12, 0, 3, 1])}
        found = session.run(given)
        assert found["n.count"] == 12
        assert found["y.count"] == 14


def test_a_tensor_that_no_body_has() -> None:
    with pytest.raises(ModelError, match="has no tensor 'm'"):
        importer.load(repeated(), capacities={"m": 9})
