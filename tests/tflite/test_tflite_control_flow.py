"""Loops and branches of TFLite files, beside TFLite's own interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from flatbuffers import flexbuffers

pytest.importorskip("ai_edge_litert")

from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from qnnrt.importers.tflite.parts import Parts
from qnnrt.importers.tflite.schema import read
from qnnrt.model import Model
from support.tflite.builder import ModelBuilder
from support.tflite.delegated import close, delegate, interpreter, run
from support.tflite.reference import agree

F32, I32, BOOL = np.float32, np.int32, np.bool_
SIZE, STEPS = 3, 4
COUNT, ROWS, STATE = ((), I32), ((STEPS, SIZE), F32), ((1, SIZE), F32)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(F32)


def _loop(condition: Callable[[ModelBuilder, int, int], int]) -> bytes:
    """A recurrent layer: state = tanh(w state + row), and all of its states."""
    b = ModelBuilder()
    x, state, start = b.input((STEPS, SIZE)), b.input((1, SIZE)), b.const(0, I32)
    joined = b.const(np.zeros((STEPS, SIZE), F32))
    outputs = [COUNT, ROWS, STATE, ROWS]
    made = b.op(
        "WHILE", [start, x, state, joined], outputs, "WhileOptions",
        condSubgraphIndex=1, bodySubgraphIndex=2,
    )  # fmt: skip
    b.output(made[2], made[3])
    b.subgraph("condition")
    i, _, s, _ = (b.input(*o) for o in (COUNT, ROWS, STATE, ROWS))
    b.output(condition(b, i, s))
    b.subgraph("body")
    i, x, s, j = (b.input(*o) for o in (COUNT, ROWS, STATE, ROWS))
    (row,) = b.op("GATHER", [x, i], [((SIZE,), F32)], "GatherOptions")
    (h,) = b.op(
        "FULLY_CONNECTED", [s, b.const(_random(SIZE, SIZE)), -1], [STATE], "FullyConnectedOptions"
    )
    (h,) = b.op("ADD", [h, row], [STATE], "AddOptions")
    (h,) = b.op("TANH", [h], [STATE])
    (at,) = b.op("RESHAPE", [i, b.const([1], I32)], [((1,), I32)], "ReshapeOptions")
    (at,) = b.op(
        "CONCATENATION", [at, b.const([0], I32)], [((2,), I32)], "ConcatenationOptions", axis=0
    )
    (j,) = b.op("DYNAMIC_UPDATE_SLICE", [j, h, at], [ROWS])
    (next_,) = b.op("ADD", [i, b.const(1, I32)], [COUNT], "AddOptions")
    b.output(next_, x, h, j)
    return b.build()


def _counts(turns: int) -> Callable[[ModelBuilder, int, int], int]:
    def condition(b: ModelBuilder, i: int, _: int) -> int:
        (goes,) = b.op("LESS", [i, b.const(turns, I32)], [((), BOOL)], "LessOptions")
        return goes

    return condition


@pytest.mark.parametrize("turns", [1, 2, STEPS])
def test_a_loop_is_its_body_once_for_each_turn(turns: int) -> None:
    model = agree(_loop(_counts(turns)), [_random(STEPS, SIZE), _random(1, SIZE)])
    assert model.op_counts()["Tanh"] == turns
    weights = [t for t in model.tensors.values() if t.data is not None and t.data.size == SIZE**2]
    assert len(weights) == 1


def test_a_loop_of_no_turns_gives_what_it_is_given() -> None:
    b = ModelBuilder()
    x = b.input((2, 3))
    (y,) = b.op(
        "WHILE", [x], [((2, 3), F32)], "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2
    )
    b.output(y)
    for name in ("condition", "body"):
        b.subgraph(name)
        z = b.input((2, 3))
        b.output(b.const(False, BOOL) if name == "condition" else z)
    agree(b.build(), [_random(2, 3)])


def test_a_loop_that_the_data_end_is_refused() -> None:
    def condition(b: ModelBuilder, _: int, s: int) -> int:
        (total,) = b.op("SUM", [s, b.const([0, 1], I32)], [((), F32)], "ReducerOptions")
        (goes,) = b.op("LESS", [total, b.const(1, F32)], [((), BOOL)], "LessOptions")
        return goes

    with pytest.raises(UnsupportedOpError, match="how often its body runs depends on the data"):
        importer.load(_loop(condition))


def _branches(condition: bool | None, other: tuple[int, ...] = (2, 3)) -> bytes:
    b = ModelBuilder()
    x = b.input((2, 3))
    if condition is None:
        (total,) = b.op("SUM", [x, b.const([0, 1], I32)], [((), F32)], "ReducerOptions")
        (c,) = b.op("LESS", [total, b.const(0, F32)], [((), BOOL)], "LessOptions")
    else:
        c = b.const(condition, BOOL)
    outputs = [((2, 3), F32), ((), F32)]
    made = b.op("IF", [c, x], outputs, "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    b.output(*made)
    for op, shape in (("EXP", (2, 3)), ("NEG", other)):
        b.subgraph(op)
        z = b.input((2, 3))
        (y,) = b.op(op, [z], [((2, 3), F32)])
        if shape != (2, 3):
            (y,) = b.op("RESHAPE", [y, b.const(shape, I32)], [(shape, F32)], "ReshapeOptions")
        (total,) = b.op("SUM", [y, b.const([0, 1], I32)], [((), F32)], "ReducerOptions")
        b.output(y, total)
    return b.build()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("condition", [True, False, None])
def test_branches(condition: bool | None, sign: int) -> None:
    model = agree(_branches(condition), [sign * np.abs(_random(2, 3))])
    assert model.op_counts().get("ElementWiseSelect", 0) == (2 if condition is None else 0)


@pytest.mark.parametrize("condition", [True, False, None])
def test_a_delegate_takes_what_branches_hold(condition: bool | None) -> None:
    """The runtime brings the memory of their inputs only when it runs them."""
    data, x = _branches(condition), np.abs(_random(2, 3))
    taken, plain = interpreter(data, delegate()), interpreter(data)
    for sign in (1, -1, -1, 1):
        for found, wanted in zip(run(taken, [sign * x]), run(plain, [sign * x]), strict=True):
            close(found, wanted)


def test_branches_of_two_shapes_are_taken_only_where_the_condition_is_known() -> None:
    agree(_branches(False, (3, 2)), [_random(2, 3)])
    with pytest.raises(UnsupportedOpError, match=r"float32\[2, 3\] and float32\[3, 2\]"):
        importer.load(_branches(None, (3, 2)))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
@pytest.mark.parametrize("condition", [(), (1,), (1, 1)])
def test_a_condition_of_any_rank_is_one_boolean(
    condition: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    b = ModelBuilder()
    c, x = b.input(condition, BOOL), b.input(shape)
    b.output(
        *b.op("IF", [c, x], [(shape, F32)], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    )
    for op in ("EXP", "NEG"):
        b.subgraph(op)
        b.output(*b.op(op, [b.input(shape)], [(shape, F32)]))
    for taken in (True, False):
        agree(b.build(), [np.full(condition, taken), _random(*shape)])


def _calls(*numbers: int, op: str = "EXP") -> bytes:
    """Each subgraph calls the one of its number, the last one of them computes."""
    b = ModelBuilder()
    for number in numbers:
        if b.graph.inputs:
            b.subgraph("another")
        x = b.input((2, 3))
        b.output(*b.op("CALL", [x], [((2, 3), F32)], "CallOptions", subgraph=number))
    b.subgraph("last")
    x = b.input((2, 3))
    b.output(*b.op(op, [x], [((2, 3), F32)]))
    return b.build()


def test_calls() -> None:
    model = importer.load(_calls(1, 2))
    assert isinstance(model, Model)
    assert model.op_counts() == {"ElementWiseExp": 1}


def test_what_is_refused_inside_is_named() -> None:
    with pytest.raises(UnsupportedOpError) as info:
        importer.load(_calls(1, 2, op="UNIQUE"))
    assert [(n.name, n.op) for n in info.value.nodes] == [("UNIQUE_0", "UNIQUE")]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((0,), "subgraph 0 runs itself"), ((1, 0), "runs itself"), ((7,), "names subgraph 7")],
)
def test_calls_that_lead_nowhere(numbers: tuple[int, ...], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        importer.load(_calls(*numbers))


def test_a_long_chain_of_calls_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="inside of more than"):
        importer.load(_calls(*range(1, 100)))


def test_parts_for_a_delegate_leave_control_flow_to_the_interpreter() -> None:
    file = read(_branches(True))
    parts = Parts(file, file.subgraphs[0], {0: (2, 3)})
    assert [(n.op, n.reason.split(":")[0]) for n in parts.refused] == [("IF", "control flow")]


def _composite(decomposition: int) -> bytes:
    """As litert-torch marks what a runtime may have kernels for: a normalization, here."""
    b = ModelBuilder()
    x = b.input((2, 3))
    (y,) = b.op(
        "STABLEHLO_COMPOSITE", [x, b.const(_random(3))], [((2, 3), F32)],
        "StableHLOCompositeOptions", name="odml.rms_norm", decompositionSubgraphIndex=decomposition,
        compositeAttributes=list(flexbuffers.Dumps({"epsilon": 0.0})),
    )  # fmt: skip
    (z,) = b.op("TANH", [y], [((2, 3), F32)])
    b.output(z)
    b.subgraph("decomposition")
    x, scale = b.input((2, 3)), b.input((3,))
    (square,) = b.op("MUL", [x, x], [((2, 3), F32)], "MulOptions")
    (mean,) = b.op(
        "MEAN", [square, b.const([1], I32)], [((2, 1), F32)], "ReducerOptions", keepDims=True
    )
    (root,) = b.op("RSQRT", [mean], [((2, 1), F32)])
    (y,) = b.op("MUL", [x, root], [((2, 3), F32)], "MulOptions")
    (y,) = b.op("MUL", [y, scale], [((2, 3), F32)], "MulOptions")
    b.output(y)
    return b.build()


def test_a_composite_is_its_decomposition() -> None:
    agree(_composite(1), [_random(2, 3)])
    with pytest.raises(ModelError, match="names subgraph 7; there are 2"):
        importer.load(_composite(7))
