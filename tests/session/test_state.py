"""Lstm, Gru and Buffer go on from one execution to the next, each graph from where it was."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.errors import EarlyTermination, QnnError
from qnnrt.model import Quantization
from support.one_node import close
from support.parallel import in_threads
from support.recurrent_cases import VARIANTS, LstmCase, N, T, U, X, gru_inputs
from support.state_cases import (
    BLOCKING,
    LEFT,
    NEVER,
    RIGHT,
    Steps,
    add_node,
    buffered,
    steps_of,
    stream,
)

#: The number of the input.
RESET = {"Lstm": 24, "Gru": 14}


def recurrent(op: str, variant: str = "plain", seed: int = 7) -> tuple[list[Any], int]:
    """Inputs 1 to the one before reset, and the width of the output."""
    if op == "Gru":
        return gru_inputs(seed)[1:], U
    case = LstmCase(seed, **VARIANTS[variant])
    return [*case.v[1:]], case.outputs


def whole_and_steps(
    op: str,
    x: np.ndarray,
    rest: Sequence[np.ndarray | None],
    width: int,
    params: dict[str, Any],
    encodings: dict[Any, Quantization] | None = None,
    time_major: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The output for the sequence in one execution without state, and in one for each step."""
    axis = 0 if time_major else 1
    params = {**params, "time_major": time_major}
    if not time_major:
        x = np.ascontiguousarray(x.swapaxes(0, 1))
    with steps_of(
        op, (x.shape, x.dtype), rest, [(*x.shape[:2], width)], params, encodings=encodings
    ) as run:
        whole = run(x)[0]
        np.testing.assert_array_equal(run(x)[0], whole)  # it starts afresh each time
    one = list(x.shape)
    one[axis] = 1
    static = [*rest, *[None] * (RESET[op] - 1 - len(rest)), NEVER]
    with steps_of(
        op, (tuple(one), x.dtype), static, [(*one[:2], width)], params, encodings=encodings
    ) as run:
        steps = run.all(np.split(x, len(x) if axis == 0 else x.shape[1], axis))
    return whole, np.concatenate(steps, axis)


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(
    ("op", "variant"), [*(("Lstm", variant) for variant in VARIANTS), ("Gru", "")]
)
def test_steps_are_the_sequence(op: str, variant: str, time_major: bool) -> None:
    rest, width = recurrent(op, variant)
    x = np.random.default_rng(1).standard_normal((T, N, X), np.float32)
    params: dict[str, Any] = {}
    if variant == "projection":
        params = {"cell_clip_threshold": 0.3, "output_clip_threshold": 0.2}
    whole, steps = whole_and_steps(op, x, rest, width, params, None, time_major)
    close(steps, whole, 1e-5)


@pytest.mark.parametrize("op", RESET)
def test_steps_are_the_sequence_in_half_precision(op: str) -> None:
    rest, width = recurrent(op)
    x = np.random.default_rng(1).standard_normal((T, N, X)).astype(np.float16)
    half = [None if a is None else a.astype(np.float16) for a in rest]
    whole, steps = whole_and_steps(op, x, half, width, {})
    close(steps, whole, 1e-3)


def quantized(rest: Sequence[Any], types: tuple[str, str]) -> tuple[list[Any], dict[Any, Any]]:
    """Static inputs as fixed-point numbers, with their encodings by number."""
    made: list[Any] = []
    encodings: dict[Any, Any] = {}
    for i, a in enumerate(rest, 1):
        if a is None:
            made.append(None)
            continue
        dtype = np.dtype(types[1] if a.ndim > 1 else "int32")
        top = np.iinfo(dtype).max if a.ndim > 1 else 1 << 20
        encodings[i] = Quantization(float(np.abs(a).max()) / top, 0)
        made.append(np.rint(a / encodings[i].scale).astype(dtype))
    return made, encodings


@pytest.mark.parametrize(
    "types", [("uint8", "int8"), ("int8", "int8"), ("uint16", "int8"), ("int16", "int16")]
)
@pytest.mark.parametrize("op", RESET)
def test_state_is_kept_exactly_whatever_the_types(op: str, types: tuple[str, str]) -> None:
    """Were it rounded to the output's 8 bits, the steps would drift apart from the sequence."""
    rest, width = recurrent(op)
    dtype = np.dtype(types[0])
    bits = 8 * dtype.itemsize
    zero = 1 << (bits - 1) if dtype.kind == "u" else 0
    static, encodings = quantized(rest, types)
    encodings[0] = Quantization(8 / 2**bits, -zero)
    encodings["y"] = Quantization(2 / 2**bits, -zero)
    r = np.random.default_rng(1)
    x = r.integers(zero - 2 ** (bits - 2), zero + 2 ** (bits - 2), (20, N, X)).astype(dtype)
    whole, steps = whole_and_steps(op, x, static, width, {}, encodings)
    assert len(np.unique(whole)) > 100
    difference = np.abs(whole.astype(np.int64) - steps)
    assert difference.max() <= 1  # float sums in another order, next to a boundary
    assert np.mean(difference == 0) > 0.9


@pytest.mark.parametrize("op", RESET)
def test_a_reset_starts_from_the_initial_state(op: str) -> None:
    rest, width = recurrent(op)
    x = np.random.default_rng(2).standard_normal((6, N, X), np.float32)
    frames = np.split(x, 6)
    args = (op, ((1, N, X), np.float32), rest, [(1, N, width)], {"time_major": True})
    with steps_of(*args, reset=RESET[op]) as run:
        got = run.all(frames, resets=(3,))
    with steps_of(*args, reset=RESET[op]) as run:
        first = run.all(frames[:3])
    with steps_of(*args, reset=RESET[op]) as run:
        second = run.all(frames[3:])
    np.testing.assert_array_equal(np.stack(got), np.stack(first + second))
    with steps_of(*args, reset=RESET[op]) as run:  # always: as without the input
        always = run.all(frames, resets=range(6))
    with steps_of(*args) as run:
        np.testing.assert_array_equal(np.stack(always), np.stack(run.all(frames)))
    with steps_of(*args, reset=RESET[op]) as run:
        run.all(frames[:3])
        run.graph.reset_state()
        np.testing.assert_array_equal(np.stack(run.all(frames[3:])), np.stack(second))


@pytest.mark.parametrize("op", RESET)
def test_a_reset_is_one_truth_value(op: str) -> None:
    rest, width = recurrent(op)
    static = [*rest, *[None] * (RESET[op] - 1 - len(rest))]
    for value, words in [
        (np.zeros(2, np.bool_), "must be one value"),
        (np.zeros(1, np.float32), "allowed: BOOL_8"),
        (np.zeros((1, 1), np.bool_), "rank 2"),
    ]:
        with (
            pytest.raises(QnnError, match=words),
            steps_of(op, ((1, N, X), np.float32), [*static, value], [(1, N, width)],
                     {"time_major": True}),
        ):  # fmt: skip
            pass


def test_graphs_do_not_disturb_each_other() -> None:
    rest, width = recurrent("Lstm")
    x = np.random.default_rng(3).standard_normal((2, 8, N, X), np.float32)
    args = ("Lstm", ((1, N, X), np.float32), [*rest, NEVER], [(1, N, width)], {"time_major": True})
    alone = []
    for sequence in x:
        with steps_of(*args) as run:
            alone.append(run.all(np.split(sequence, 8)))
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        first, second = (add_node(context.create_graph(name), *args) for name in "ab")
        got: list[list[np.ndarray]] = [[], []]
        for step in range(8):  # turn by turn
            got[0] += first.all([x[0, step : step + 1]])
            got[1] += second.all([x[1, step : step + 1]])
        np.testing.assert_array_equal(np.array(got), np.array(alone))
        first.graph.reset_state()  # of the first alone
        np.testing.assert_array_equal(first(x[0, :1])[0], alone[0][0])
        assert not np.array_equal(second(x[1, :1])[0], alone[1][0])


def test_a_node_of_constants_alone_is_run_each_time() -> None:
    """Nothing of it is folded, although no input ever changes."""
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        one = graph.add_tensor("one", (1,), np.float32, type="static", data=np.ones(1, np.float32))
        kept = graph.add_tensor("kept", (3,), np.float32, type="native")
        x = graph.add_tensor("x", (3,), np.float32, type="app_write")
        y = graph.add_tensor("y", (3,), np.float32, type="app_read")
        params = {"buffer_size": np.uint32(3), "buffer_dim": np.uint32(0), "mode": np.uint32(LEFT)}
        graph.add_node("buffer", "Buffer", [one], [kept], params)
        graph.add_node("add", "ElementWiseAdd", [kept, x], [y])
        graph.finalize()
        run = Steps(graph, False)
        got = [run(np.zeros(3, np.float32))[0].tolist() for _ in range(4)]
        assert got == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]


# ---- Buffer ----

BUFFERS: list[dict[str, Any]] = [
    {"size": 4, "dim": 1},
    {"size": 4, "dim": 1, "stride": 3},
    {"size": 4, "dim": 1, "stride": 4},
    {"size": 4, "dim": 1, "padding": 3},
    {"size": 4, "dim": 1, "padding": 2, "stride": 2},
    {"size": 1, "dim": 1},
    {"size": 6, "dim": 0, "stride": 2},
    {"size": 6, "dim": 0, "stride": 4, "padding": 2},
    {"size": 6, "dim": 2, "stride": 6},
]


def frames_of(size: int, dim: int, dtype: Any, count: int = 12) -> list[np.ndarray]:
    shape = [2, 1, 3] if dim == 1 else [2, 3, 2]
    values = np.random.default_rng(size).integers(1, 100, (count, *shape))
    return list((values % 2 == 0 if np.dtype(dtype) == np.bool_ else values).astype(dtype))


def buffer_args(frames: Sequence[np.ndarray], how: dict[str, Any]) -> tuple[Any, ...]:
    out = list(frames[0].shape)
    out[how["dim"]] = how["size"]
    names = {"size": "buffer_size", "dim": "buffer_dim", "padding": "buffer_padding"}
    params = {names.get(k, k): np.uint32(v) for k, v in how.items()}
    return ("Buffer", (frames[0].shape, frames[0].dtype), [], [tuple(out)], params)


def collect(run: Steps, frames: Sequence[np.ndarray], resets: Sequence[int] = ()) -> list[Any]:
    found: list[Any] = []
    for i, x in enumerate(frames):
        try:
            found.append(run(x, i in resets)[0])
        except EarlyTermination:
            found.append(None)
    return found


def assert_same(got: Sequence[Any], expected: Sequence[Any]) -> None:
    assert [a is None for a in got] == [a is None for a in expected]
    for mine, theirs in zip(got, expected, strict=True):
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("mode", [BLOCKING, LEFT, RIGHT])
@pytest.mark.parametrize("how", BUFFERS, ids=str)
def test_buffer_gives_the_last_frames(how: dict[str, Any], mode: int) -> None:
    how = {**how, "mode": mode}
    frames = frames_of(how["size"], how["dim"], np.float32)
    with steps_of(*buffer_args(frames, how), reset=1) as run:
        assert_same(collect(run, frames, (5,)), buffered(frames, **how, resets=(5,)))
    with steps_of(*buffer_args(frames, how)) as run:  # its reset is optional
        assert_same(collect(run, frames), buffered(frames, **how))
        run.graph.reset_state()
        assert_same(collect(run, frames), buffered(frames, **how))


@pytest.mark.parametrize(
    "dtype", ["u8", "s8", "u16", "s16", "f16", "i8", "i16", "i32", "i64", "bool"]
)
def test_buffer_keeps_elements_as_they_are(dtype: str) -> None:
    how = {"size": 4, "dim": 1, "mode": RIGHT}
    fixed = dtype[0] in "us"
    numpy = {"f16": "float16", "bool": "bool"}.get(dtype) or (
        ("uint" if dtype[0] == "u" else "int") + dtype.lstrip("usi")
    )
    frames = frames_of(4, 1, numpy)
    q = Quantization(0.5, -7) if fixed else None
    with steps_of(*buffer_args(frames, how), encodings={0: q, "y": q} if q else None) as run:
        # What is not there yet stands for 0.
        assert_same(collect(run, frames), buffered(frames, **how, zero=7 if fixed else 0))


def test_a_bad_buffer_is_refused_with_the_rule_it_breaks() -> None:
    frames = frames_of(4, 2, np.uint8)  # two frames each
    q, other = Quantization(0.5, -7), Quantization(0.25, -7)
    for change, words in [
        ({"size": 5}, "'buffer_size' is 5; it must be a multiple of the 2 frames"),
        ({"size": 0}, "'buffer_size' must be in"),
        ({"stride": 1}, "'stride' is 1; it must be a multiple"),
        ({"stride": 6}, r"'stride' must be in \[1, 4\]"),
        ({"padding": 4}, r"'buffer_padding' must be in \[0, 2\]"),
        ({"mode": 3}, "'mode' must be in"),
        ({"dim": 3}, "'buffer_dim' names axis 3"),
    ]:
        how = {"size": 4, "dim": 2, "stride": 2, "mode": BLOCKING}
        args = list(buffer_args(frames, how))
        args[4] = buffer_args(frames, {**how, **change, "dim": 2})[4]
        args[4]["buffer_dim"] = np.uint32({**how, **change}["dim"])
        with pytest.raises(QnnError, match=words), steps_of(*args, encodings={0: q, "y": q}):
            pass
    args = list(buffer_args(frames, {"size": 4, "dim": 2, "stride": 2}))
    with (
        pytest.raises(QnnError, match="same type and encoding"),
        steps_of(*args, encodings={0: q, "y": other}),
    ):
        pass


def test_executions_of_several_threads_queue() -> None:
    """Each gives some window of frames in the order in which the executions came."""
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        how = {"size": 16, "dim": 0, "mode": RIGHT}
        frame = np.zeros((1, 1), np.float32)
        run = add_node(context.create_graph("g"), *buffer_args([frame], how))

        def work(first: int) -> None:
            for i in range(first, first + 4):
                run(np.full((1, 1), i, np.float32))

        in_threads(*(partial(work, 1 + 4 * i) for i in range(4)))
        window = run(np.full((1, 1), 17, np.float32))[0].reshape(-1)
        assert window[-1] == 17
        assert len(set(window)) == 16  # of 17 frames each but the first one, once


# ---- binaries ----


@pytest.mark.parametrize("backend_name", ["cpu", "htp"])
def test_a_binary_keeps_state_and_starts_afresh(backend_name: str) -> None:
    rest, width = recurrent("Gru")
    static = [*rest, NEVER]
    x = np.random.default_rng(3).standard_normal((4, N, X), np.float32)
    frames = np.split(x, 4)
    with qnn.Backend.open(backend_name) as backend:
        with backend.create_context() as context:
            run = add_node(
                context.create_graph("g"), "Gru", ((1, N, X), np.float32), static,
                [(1, N, width)], {},
            )  # fmt: skip
            expected = run.all(frames)
            binary = context.binary()  # of a graph in the middle of a sequence
        for _ in range(2):
            with qnn.Context.from_binary(backend, binary) as loaded:
                got = Steps(loaded.graph("g"), False).all(frames)
            np.testing.assert_array_equal(np.stack(got), np.stack(expected))
        with backend.create_context() as context:
            stream(context)
            binary = context.binary()
        with qnn.Context.from_binary(backend, binary) as loaded:
            graph = loaded.graph("g")
            z, y = np.zeros((1, 4), np.float32), np.zeros((3, 4), np.float32)
            for i in range(3):
                try:
                    graph.execute([np.ones((1, 4), np.float32)], [z, y])
                except EarlyTermination:
                    assert i < 2
                else:
                    assert i == 2
