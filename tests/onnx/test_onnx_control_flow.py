"""Branches, loops and sequences whose structure is known when a file is loaded, beside ONNX
Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int] | None]],
    outputs: dict[str, tuple[int, Sequence[int] | None]],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.GraphProto:
    """A body."""
    info = helper.make_tensor_value_info
    return helper.make_graph(
        nodes,
        "body",
        [info(k, *v) for k, v in inputs.items()],
        [info(k, *v) for k, v in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )


START = {"turn": (INT64, []), "on": (BOOL, [])}


def loop(nodes: list[onnx.NodeProto], shape: Sequence[int], **more: object) -> onnx.GraphProto:
    """A body that carries s, and gives r each turn."""
    given = {**START, "s": (FLOAT, shape)}
    return graph(
        nodes, given, {"on2": (BOOL, []), "s2": (FLOAT, shape), "r": (FLOAT, None)}, **more
    )


STEP = [
    node("Identity", ["on"], ["on2"]),
    node("Cast", ["turn"], ["t"], to=FLOAT),
    node("Add", ["s", "t"], ["a"]),
    node("Mul", ["a", "x"], ["s2"]),  # x is of the graph around it
    node("ReduceSum", ["s2"], ["r"], keepdims=0),
]


@pytest.mark.parametrize("trips", [1, 4])
@pytest.mark.parametrize("condition", ["", "yes"])
def test_a_loop_is_its_body_for_each_turn(trips: int, condition: str) -> None:
    nodes = [
        node("Loop", ["trips", condition, "first"], ["last", "rows"], body=loop(STEP, (2, 3))),
        node("Relu", ["last"], ["y"]),
    ]
    constants = {"trips": np.array(trips), "yes": np.array(True), "first": random(1, 2, 3)}
    proto = make(nodes, {"x": (2, 3)}, ["y", "rows"], constants)
    model = agree(proto, {"x": random(2, 2, 3)})
    assert model.op_counts()["ElementWiseMultiply"] == trips


def test_a_loop_counts_what_shapes_say_and_ends_where_its_body_does() -> None:
    """Twice as many rows as x has, but three at most."""
    body = [
        node("Less", ["turn", "two"], ["on2"]),
        node("Add", ["s", "x"], ["s2"]),
        node("Identity", ["s2"], ["r"]),
    ]
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("ReduceProd", ["shape"], ["count"], keepdims=0),
        node("Loop", ["count", "", "first"], ["y", "rows"],
             body=loop(body, (4,), constants={"two": np.array(2)})),
    ]  # fmt: skip
    proto = make(nodes, {"x": (4,)}, ["y", "rows"], {"first": random(1, 4)})
    model = agree(proto, {"x": random(2, 4)})
    assert model.tensors["rows"].shape == (3, 4)


def test_a_loop_that_is_never_run() -> None:
    nodes = [node("Loop", ["none", "", "x"], ["y", "rows"], body=loop(STEP, (2, 3)))]
    proto = make([*nodes, node("Neg", ["y"], ["z"])], {"x": (2, 3)}, ["z"], {"none": np.array(0)})
    agree(proto, {"x": random(1, 2, 3)})


def test_loops_inside_of_loops_and_of_branches() -> None:
    inner = node("Loop", ["two", "", "s"], ["s2", "r"], body=graph(
        [
            node("Identity", ["on_"], ["on2_"]),
            node("Sin", ["s_"], ["s2_"]),
            node("Add", ["s_", "s"], ["r_"]),
        ],
        {"turn_": (INT64, []), "on_": (BOOL, []), "s_": (FLOAT, (3,))},
        {"on2_": (BOOL, []), "s2_": (FLOAT, (3,)), "r_": (FLOAT, None)},
    ))  # fmt: skip
    outer = loop([node("Identity", ["on"], ["on2"]), inner], (3,))
    branch = graph([node("Loop", ["two", "", "x"], ["b", "rows"], body=outer)], {},
                   {"b": (FLOAT, None), "rows": (FLOAT, None)})  # fmt: skip
    nodes = [node("If", ["yes"], ["y", "z"], then_branch=branch, else_branch=branch)]
    constants = {"two": np.array(2), "yes": np.array(True)}
    model = agree(make(nodes, {"x": (3,)}, ["y", "z"], constants), {"x": random(1, 3)})
    assert model.op_counts()["ElementWiseSin"] == 4


def test_names_of_a_body_hide_those_around_it() -> None:
    body = graph(
        [node("Identity", ["on"], ["on2"]), node("Mul", ["x", "k"], ["x2"])],
        {**START, "x": (FLOAT, (3,))},
        {"on2": (BOOL, []), "x2": (FLOAT, (3,))},
        {"k": np.float32(5)},
    )
    nodes = [
        node("Abs", ["a"], ["x"]),
        node("Loop", ["two", "", "x"], ["z"], body=body),
        node("Mul", ["x", "k"], ["kx"]),
        node("Add", ["kx", "z"], ["y"]),
    ]
    constants = {"two": np.array(2), "k": np.float32(2)}
    agree(make(nodes, {"a": (3,)}, ["y"], constants), {"a": random(1, 3)})
    nodes[2].input[1] = "x2"
    with pytest.raises(ModelError, match="reads 'x2'"):
        importer.load(make(nodes, {"a": (3,)}, ["y"], constants))


def test_a_name_in_a_body_is_no_input_of_a_part() -> None:
    body = graph(
        [node("Identity", ["on"], ["on2"]), node("Sin", ["b"], ["b2"])],
        {**START, "b": (FLOAT, (3,))},
        {"on2": (BOOL, []), "b2": (FLOAT, (3,))},
    )
    nodes = [node("Loop", ["two", "", "a"], ["y"], body=body), node("Neg", ["b"], ["z"])]
    proto = make(nodes, {"a": (3,), "b": (3,)}, ["y", "z"], {"two": np.array(2)})
    assert importer.load(proto, outputs=["y"]).inputs == ["a"]
    assert importer.load(proto, inputs=["a"], outputs=["y"]).inputs == ["a"]


@pytest.mark.parametrize("kind", ["initializer", "Constant"])
def test_the_turns_of_a_loop_share_the_weights_in_its_body(kind: str) -> None:
    weights = random(1, 64, 64)
    constant = node("Constant", [], ["w"], value=numpy_helper.from_array(weights))
    inner = graph(
        [*([constant] if kind == "Constant" else []), node("MatMul", ["s", "w"], ["p"])],
        {},
        {"p": (FLOAT, (1, 64))},
        {"w": weights} if kind == "initializer" else None,
    )
    body = graph(
        [
            node("Identity", ["on"], ["on2"]),
            node("If", ["yes"], ["s2"], then_branch=inner, else_branch=inner),
        ],
        {**START, "s": (FLOAT, (1, 64))},
        {"on2": (BOOL, []), "s2": (FLOAT, (1, 64))},
    )
    nodes = [node("Loop", ["three", "", "x"], ["y"], body=body)]
    constants = {"three": np.array(3), "yes": np.array(True)}
    feeds = {"x": random(2, 1, 64)}
    model = agree(make(nodes, {"x": (1, 64)}, ["y"], constants), feeds, atol=1e-2)
    products = [n for n in model.nodes if n.type == "FullyConnected"]
    assert len(products) == 3
    held = [model.tensors[n.inputs[1]].data for n in products]
    assert all(np.shares_memory(held[0], data) for data in held)


@pytest.mark.parametrize("shape", [(1, 1), (1,)])
def test_a_condition_may_be_a_matrix_of_one_element(shape: tuple[int, ...]) -> None:
    """As torch's TorchScript exporter writes one that was compared without a reduction."""
    branches = {
        f"{name}_branch": graph([node(op, ["x", "x"], [name])], {}, {name: (FLOAT, None)})
        for name, op in (("then", "Add"), ("else", "Mul"))
    }
    nodes = [node("Greater", ["x", "zero"], ["c"]), node("If", ["c"], ["y"], **branches)]
    proto = make(nodes, {"x": shape}, ["y"], {"zero": np.float32(0)})
    for x in (np.full(shape, 3, np.float32), np.full(shape, -3, np.float32)):
        agree(proto, {"x": x})
    proto = make(nodes, {"x": (1, 2)}, ["y"], {"zero": np.float32(0)})
    with pytest.raises(ModelError, match=r"its condition has the shape \[1, 2\]"):
        importer.load(proto)


def test_a_condition_that_depends_on_the_data_chooses_between_results() -> None:
    branches = {
        f"{name}_branch": graph([node(op, ["x", "x"], [name])], {}, {name: (FLOAT, None)})
        for name, op in (("then", "Add"), ("else", "Mul"))
    }
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
        node("If", ["c"], ["y"], **branches),
    ]
    proto = make(nodes, {"x": (5,)}, ["y"], {"zero": np.float32(0)})
    for x in (random(1, 5), -np.abs(random(1, 5))):
        agree(proto, {"x": x})
    branches["else_branch"].node[0].input[1] = "wide"
    proto = make(nodes[:2], {"x": (5,), "wide": (2, 5)}, ["y"], {"zero": np.float32(0)})
    proto.graph.node.append(node("If", ["c"], ["y"], **branches))
    with pytest.raises(UnsupportedOpError, match=r"between float32\[5\] and float32\[2, 5\]"):
        importer.load(proto)


def test_a_loop_that_the_data_end_keeps_what_it_had() -> None:
    body = graph(
        [
            node("Add", ["s", "x"], ["s2"]),
            node("ReduceMax", ["s2"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on2"]),
        ],
        {**START, "s": (FLOAT, (3,))},
        {"on2": (BOOL, []), "s2": (FLOAT, (3,))},
        {"limit": np.float32(4)},
    )
    nodes = [
        node("Loop", ["trips", "", "x"], ["s_last"], body=body),
        node("Neg", ["s_last"], ["y"]),
    ]
    proto = make(nodes, {"x": (3,)}, ["y"], {"trips": np.array(6)})
    for size in (0.1, 1.0, 2.5, 9.0):
        agree(proto, {"x": np.full(3, size, np.float32)})
    endless = make(nodes, {"x": (3,)}, ["y"], {"trips": np.array(2**62)})
    with pytest.raises(UnsupportedOpError, match="the data decide how often it is run"):
        importer.load(endless)


def test_a_loop_without_an_end_is_stopped() -> None:
    nodes = [node("Loop", ["", "", "x"], ["y", ""], body=loop(STEP, (2, 3)))]
    proto = make([], {"x": (2, 3)}, ["y"], {"yes": np.array(True)})
    proto.graph.node.extend(nodes)
    with pytest.raises(ModelError, match="steps"):
        importer.load(proto)


def test_a_count_that_is_an_input_has_to_be_given() -> None:
    nodes = [node("Loop", ["trips", "", "x"], ["s_last", ""], body=loop(STEP, (2, 3)))]
    nodes.append(node("Neg", ["s_last"], ["y"]))
    proto = make(nodes, {"x": (2, 3), "trips": ()}, ["y"], types={"trips": INT64})
    with pytest.raises(UnsupportedOpError, match=r"the trip count \(input 0\) must be known"):
        importer.load(proto)
    model = importer.load(proto, constants={"trips": np.array(2)})
    assert model.op_counts()["ElementWiseMultiply"] == 2


@pytest.mark.parametrize("directions", [(0, 0, 0), (1, 0, 1), (0, 1, 0)])
@pytest.mark.parametrize("axes", [(0, 0, 0), (1, 0, 1)])
def test_a_scan_is_its_body_for_each_slice(
    directions: tuple[int, int, int], axes: tuple[int, int, int]
) -> None:
    body = graph(
        [
            node("Mul", ["s", "a"], ["p"]),
            node("Add", ["p", "b"], ["s2"]),
            node("Tanh", ["s2"], ["r"]),
        ],
        {"s": (FLOAT, (3,)), "a": (FLOAT, (3,)), "b": (FLOAT, (3,))},
        {"s2": (FLOAT, (3,)), "r": (FLOAT, (3,))},
    )
    scan = node("Scan", ["first", "x", "z"], ["last", "rows"], body=body, num_scan_inputs=2,
                scan_input_axes=axes[:2], scan_input_directions=directions[:2],
                scan_output_axes=axes[2:], scan_output_directions=directions[2:])  # fmt: skip
    x = random(1, 3, 5) if axes[0] else random(1, 5, 3)
    nodes = [scan, node("Neg", ["last"], ["y"])]
    proto = make(nodes, {"x": x.shape, "z": (5, 3)}, ["y", "rows"], {"first": random(3, 3)})
    agree(proto, {"x": x, "z": random(2, 5, 3)})


# ---- sequences -------------------------------------------------------------------------------


def test_sequences_of_known_structure_are_gone() -> None:
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "one"], ["b"]),
        node("SequenceErase", ["parts", "zero"], ["rest"]),
        node("SequenceInsert", ["rest", "b", "zero"], ["more"]),
        node("SequenceInsert", ["more", "b"], ["all"]),
        node("Identity", ["all"], ["same"]),
        node("ConcatFromSequence", ["same"], ["y"], axis=1),
        node("SequenceLength", ["same"], ["n"]),
        node("Cast", ["n"], ["m"], to=FLOAT),
        node("Add", ["b", "m"], ["z"]),
    ]
    constants = {"sizes": np.array([1, 2, 3]), "zero": np.array(0), "one": np.array(-2)}
    proto = make(nodes, {"x": (2, 6)}, ["y", "z"], constants)
    assert set(agree(proto, {"x": random(1, 2, 6)}).op_counts()) == {
        "Split", "Concat", "ElementWiseAdd",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [(None, {}), (None, {"keepdims": 0}), (2, {}), (3, {"axis": 1}), (4, {"axis": -1})],
)
def test_ways_to_split(sizes: int | None, attributes: dict[str, int]) -> None:
    given = ["x"] if sizes is None else ["x", "sizes"]
    nodes = [
        node("SplitToSequence", given, ["parts"], **attributes),
        node("SequenceAt", ["parts", "last"], ["y"]),
    ]
    constants = {"last": np.array(-1), "sizes": np.array(sizes or 0)}
    agree(make(nodes, {"x": (3, 4)}, ["y"], constants), {"x": random(1, 3, 4)})


def _inserted(place: int) -> onnx.ModelProto:
    nodes = [
        node("SplitToSequence", ["x"], ["three"], axis=0),
        node("SequenceInsert", ["three", "new", "place"], ["four"]),
        node("ConcatFromSequence", ["four"], ["y"], axis=0),
    ]
    constants = {"place": np.array(place)}
    return make(nodes, {"x": (3, 2), "new": (1, 2)}, ["y"], constants)


@pytest.mark.parametrize("place", range(-3, 4))
def test_negative_places_to_insert_at_count_those_that_are_there(place: int) -> None:
    agree(_inserted(place), {"x": random(1, 3, 2), "new": random(2, 1, 2)})


@pytest.mark.parametrize("place", [-4, 4])
def test_places_to_insert_at_end_behind_the_last_tensor(place: int) -> None:
    with pytest.raises(qnnrt.ModelError, match=f"position {place} in a sequence of 3"):
        importer.load(_inserted(place))


def test_results_gathered_in_a_sequence_by_a_loop() -> None:
    """As torch.jit.script writes lists that grow."""
    body = graph(
        [
            node("Identity", ["on"], ["on2"]),
            node("Gather", ["x", "turn"], ["row"], axis=0),
            node("Exp", ["row"], ["e"]),
            node("SequenceInsert", ["list", "e"], ["list2"]),
        ],
        START,
        {"on2": (BOOL, [])},
    )
    sequence = helper.make_tensor_sequence_value_info
    body.input.append(sequence("list", FLOAT, None))
    body.output.append(sequence("list2", FLOAT, None))
    nodes = [
        node("SequenceEmpty", [], ["empty"], dtype=FLOAT),
        node("Loop", ["four", "", "empty"], ["whole"], body=body),
        node("ConcatFromSequence", ["whole"], ["y"], axis=1, new_axis=1),
    ]
    agree(make(nodes, {"x": (4, 3)}, ["y"], {"four": np.array(4)}), {"x": random(1, 4, 3)})


def test_a_body_for_each_tensor_of_a_sequence() -> None:
    body = graph(
        [node("Mul", ["a", "b"], ["c"])],
        {"a": (FLOAT, None), "b": (FLOAT, None)},
        {"c": (FLOAT, None)},
    )
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["list"]),
        node("SequenceMap", ["list", "x"], ["products"], body=body),
        node("ConcatFromSequence", ["products"], ["y"], axis=0),
    ]
    feeds = {"x": random(1, 2, 3), "z": random(2, 2, 3)}
    agree(make(nodes, {"x": (2, 3), "z": (2, 3)}, ["y"]), feeds)


def test_optional_values() -> None:
    nodes = [
        node("Optional", ["x"], ["maybe"]),
        node("OptionalHasElement", ["maybe"], ["is"]),
        node("OptionalGetElement", ["maybe"], ["there"]),
        node("Where", ["is", "there", "z"], ["y"]),
    ]
    feeds = {"x": random(1, 3), "z": random(2, 3)}
    agree(make(nodes, {"x": (3,), "z": (3,)}, ["y"], opset=18), feeds)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("SequenceAt", ["x", "one"], ["y"])], "input 0 is not a sequence"),
        (
            [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "one"], ["y"])],
            "position 1 in a sequence of 1",
        ),
        (
            [
                node("SplitToSequence", ["x", "parts"], ["s"]),
                node("SequenceAt", ["s", "one"], ["y"]),
            ],
            r"a split \[2\] of 3 elements",
        ),
        (
            [node("SequenceConstruct", ["x"], ["s"]), node("Neg", ["s"], ["y"])],
            "an input that is a sequence of tensors",
        ),
        (
            [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "x"], ["y"])],
            "the position .input 1. must be known",
        ),
    ],
)
def test_sequences_that_cannot_be(nodes: list[onnx.NodeProto], message: str) -> None:
    proto = make([], {"x": (3,)}, ["y"], {"one": np.array(1), "parts": np.array([2])})
    proto.graph.node.extend(nodes)
    with pytest.raises(qnnrt.ModelError, match=message):
        importer.load(proto)


@pytest.mark.parametrize(
    "read",
    [
        "r = Gather(x, i)",
        "r = GatherElements(x, i)",
        "k = Unsqueeze(i, last)\n r = GatherND(x, k)",
        "s = ScatterElements(x, i, one)\n r = Slice(s, first, one_more)",
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_branch_that_is_not_taken_reads_nowhere(read: str, behind: bool) -> None:
    """Both are computed, and the one that asks first may have places beyond the end in it."""
    other = "q = Neg(one)"
    then, otherwise = (other, read) if behind else (read, other)
    names = ("q", "r") if behind else ("r", "q")
    proto = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[5] x, int64[1] i) => (float[1] z)
        <int64 five = {{5}}, int64[1] last = {{1}}, float[1] one = {{1.0}}, int64[1] first = {{0}},
         int64[1] one_more = {{1}}>
        {{
          small = Less(i, five)
          within = Squeeze(small)
          without = Not(within)
          z = If({"without" if behind else "within"}) <
            then_branch = t () => (float[1] {names[0]}) {{ {then} }},
            else_branch = e () => (float[1] {names[1]}) {{ {otherwise} }}>
        }}""")
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for place in (2, 5, 0, 10**6, -1, 2**40):
            feeds = {"x": np.arange(1, 6, dtype=np.float32), "i": np.array([place])}
            (wanted,) = reference.run(None, feeds)
            assert np.array_equal(session.run(feeds)["z"], wanted)


def test_a_loop_that_the_data_end_reads_no_further() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[5] x, int64 start) => (float sum)
        <int64 nine = {9}, bool yes = {1}, float zero = {0.0}, int64 one = {1}, int64 four = {4}>
        {
          any = Less(start, four)
          place, sum = Loop(nine, any, start, zero) <body = b (int64 turn, bool on, int64 at,
              float so_far) => (bool go, int64 next, float more) {
            here = Gather(x, at)
            more = Add(so_far, here)
            next = Add(at, one)
            go = Less(next, four)
          }>
        }""")
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        for start in (0, 2, 3, 4, 9, -2):
            feeds = {"x": np.arange(1, 6, dtype=np.float32), "start": np.array(start)}
            (wanted,) = reference.run(None, feeds)
            assert np.array_equal(session.run(feeds)["sum"], wanted)
