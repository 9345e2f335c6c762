"""Loops that are run as often as the data decide, as over the boxes that a detector found."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SIZE = 6

#: The rows above 0, and how many they are.
COUNTED = [
    node("Greater", ["x", "zero"], ["mask"]),
    node("NonZero", ["mask"], ["found"]),
    node("Squeeze", ["found", "first"], ["places"]),
    node("Gather", ["x", "places"], ["rows"]),
    node("Shape", ["rows"], ["shape"]),
    node("Squeeze", ["shape", "first"], ["count"]),
]
NUMBERS = {"zero": np.float32(0), "first": np.array([0]), "none": np.zeros(0, np.float32)}

ROW = node("Gather", ["rows", "turn"], ["row"])
ON = node("Identity", ["on"], ["on2"])
#: What is carried, what its body makes of it, and whether that is a list.
BODIES: dict[str, tuple[str, list[onnx.NodeProto], bool]] = {
    "a sum": ("zero", [ROW, ON, node("Add", ["s", "row"], ["s2"])], False),
    "a list": (
        "none",
        [
            ROW, ON, node("Mul", ["row", "row"], ["square"]),
            node("Unsqueeze", ["square", "first"], ["more"]),
            node("Concat", ["s", "more"], ["s2"], axis=0),
        ],
        True,
    ),
    "a sum that ends it": (
        "zero",
        [
            ROW, node("Add", ["s", "row"], ["s2"]), node("Less", ["s2", "most"], ["on2"]),
        ],
        False,
    ),
}  # fmt: skip


def proto_of(kind: str, count: str = "count", results: bool = True) -> onnx.ModelProto:
    start, nodes, several = BODIES[kind]
    shape = ["n"] if several else []
    outputs = [("on2", BOOL, []), ("s2", FLOAT, shape)] + [("twice", FLOAT, [])] * results
    body = helper.make_graph(
        [*nodes, node("Add", ["row", "row"], ["twice"])], "body",
        [
            helper.make_tensor_value_info(name, dtype, sizes)
            for name, dtype, sizes in (("turn", INT64, []), ("on", BOOL, []), ("s", FLOAT, shape))
        ],
        [helper.make_tensor_value_info(*out) for out in outputs],
        [helper.make_tensor("most", FLOAT, [], [1.5])],
    )  # fmt: skip
    names = ["s_last", "twices"] if results else ["s_last"]
    loop = node("Loop", [count, "", start], names, body=body)
    behind = [node("Neg", [name], [f"y{i}"]) for i, name in enumerate(names)]
    inputs = {"x": (SIZE,)} | ({} if count == "count" else {count: ()})
    return make(
        [*COUNTED, loop, *behind], inputs, [f"y{i}" for i in range(len(names))], NUMBERS,
        types={count: INT64},
    )  # fmt: skip


def agree(
    proto: onnx.ModelProto,
    feeds: list[dict[str, np.ndarray]],
    capacities: dict[str, int] | None = None,
) -> None:
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    outputs = [o.name for o in reference.get_outputs()]
    with qnnrt.Session(importer.load(proto, capacities=capacities)) as session:
        for given in feeds:
            found = session.run(given)
            for name, wanted in zip(outputs, reference.run(None, given), strict=True):
                ours = found[name]
                if f"{name}.count" in found:
                    assert found[f"{name}.count"] == len(wanted)
                    ours = ours[: len(wanted)]
                np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def rows() -> list[np.ndarray]:
    numbers = np.random.default_rng(1)
    some = [numbers.standard_normal(SIZE).astype(np.float32) for _ in range(4)]
    return [*some, np.abs(some[0]), -np.abs(some[0])]


@pytest.mark.parametrize("results", [False, True])
@pytest.mark.parametrize("kind", BODIES)
def test_a_loop_is_run_for_each_row_that_counts(kind: str, results: bool) -> None:
    agree(proto_of(kind, results=results), [{"x": x} for x in rows()])


def test_a_computed_count_needs_a_capacity() -> None:
    proto = proto_of("a sum", count="trips")
    feeds = [
        {"x": np.abs(x) + 1, "trips": np.array(trips)}
        for x, trips in zip(rows(), (0, 1, 4, 6, -2), strict=False)
    ]
    agree(proto, feeds, capacities={"trips": SIZE})
    with pytest.raises(UnsupportedOpError, match=r"capacities=\{'trips': \.\.\.\}"):
        importer.load(proto)
    with pytest.raises(UnsupportedOpError, match="the data decide how often it is run"):
        importer.load(proto, capacities={"trips": 2000})


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("new", [0, 1])
def test_what_is_appended_to_a_list_is_as_long_as_the_turns(new: int, before: int) -> None:
    """`crops.append(...)` for each box, as torch.jit.script writes it."""
    several = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    appended = [node("SequenceInsert", ["s", "column"], ["s2"])]
    body = helper.make_graph(
        [ROW, ON, node("Unsqueeze", ["row", "first"], ["column"]), *appended], "body",
        [
            helper.make_tensor_value_info("turn", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_value_info("s", several),
        ],
        [helper.make_tensor_value_info("on2", BOOL, []), helper.make_value_info("s2", several)],
    )  # fmt: skip
    start = node("SequenceConstruct", ["one"] * before, ["start"])
    if not before:
        start = node("SequenceEmpty", [], ["start"])
    nodes = [
        *COUNTED, start, node("Loop", ["count", "", "start"], ["list"], body=body),
        node("ConcatFromSequence", ["list"], ["whole"], axis=0, new_axis=new),
        node("SequenceLength", ["list"], ["length"]),
        node("Neg", ["whole"], ["y0"]), node("Neg", ["length"], ["y1"]),
    ]  # fmt: skip
    given = {k: v for k, v in NUMBERS.items() if k != "none"}
    if before:
        given["one"] = np.ones(1, np.float32)
    proto = make(nodes, {"x": (SIZE,)}, ["y0", "y1"], given, types={"y1": INT64})
    # ONNX Runtime joins no empty list.
    agree(proto, [{"x": x} for x in rows() if before or (x > 0).any()])


def test_a_list_that_grows_differently_is_refused() -> None:
    several = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    body = helper.make_graph(
        [ROW, ON, node("SequenceInsert", ["s", "row", "front"], ["s2"])], "body",
        [
            helper.make_tensor_value_info("turn", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_value_info("s", several),
        ],
        [helper.make_tensor_value_info("on2", BOOL, []), helper.make_value_info("s2", several)],
    )  # fmt: skip
    nodes = [
        *COUNTED, node("SequenceEmpty", [], ["start"]),
        node("Loop", ["count", "", "start"], ["list"], body=body),
        node("ConcatFromSequence", ["list"], ["whole"], axis=0, new_axis=1),
        node("Neg", ["whole"], ["y"]),
    ]  # fmt: skip
    given = {k: v for k, v in NUMBERS.items() if k != "none"} | {"front": np.array(0)}
    with pytest.raises(UnsupportedOpError, match="decides about a sequence"):
        importer.load(make(nodes, {"x": (SIZE,)}, ["y"], given))
