"""Buffer and Gru beside the vendor's HTP simulator, which keeps state in graphs of a binary.

It has no memory for it in a graph that it finalized itself, and crashes there. Its
backendValidateOpConfig refuses the input `reset`, its graphAddNode does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support.one_node import close
from support.outside import run_code
from support.recurrent_cases import N, U, X, gru_inputs
from support.state_cases import BLOCKING, LEFT, RIGHT, Steps, add_node, buffered, steps_of
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign

ENCODINGS = {0: Quantization(0.5, -7), "y": Quantization(0.5, -7)}
EXECUTIONS, RESETS = 9, (3, 7)

#: Shape of the input, its type, and the rest.
CASES: list[tuple[tuple[int, ...], str, dict[str, int]]] = [
    (shape, dtype, {**how, "mode": mode})
    for mode in (LEFT, RIGHT)
    for shape, dtype, how in [
        ((1, 1, 2, 3), "uint8", {"size": 4, "dim": 1}),
        ((1, 1, 2, 3), "uint16", {"size": 4, "dim": 1, "stride": 3}),
        ((1, 1, 2, 3), "float16", {"size": 4, "dim": 1, "stride": 4}),
        ((1, 2, 2, 1), "uint8", {"size": 6, "dim": 1, "stride": 4}),
        ((2, 3, 1), "uint8", {"size": 3, "dim": 2, "padding": 2}),
        ((2,), "uint8", {"size": 4, "dim": 0, "stride": 2}),
        ((1, 4, 1, 1), "uint8", {"size": 4, "dim": 1, "stride": 4}),
    ]
]


def frames_of(shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    values = np.random.default_rng(3).integers(1, 200, (EXECUTIONS, *shape))
    return list(values.astype(dtype))


def node_of(shape: tuple[int, ...], dtype: str, how: dict[str, int]) -> tuple[Any, ...]:
    out = list(shape)
    out[how["dim"]] = how["size"]
    names = {"size": "buffer_size", "dim": "buffer_dim", "padding": "buffer_padding"}
    params = {names.get(k, k): np.uint32(v) for k, v in how.items()}
    return ("Buffer", (shape, np.dtype(dtype)), [], [tuple(out)], params)


def encodings_of(dtype: str) -> dict[Any, Quantization] | None:
    return ENCODINGS if dtype.startswith("uint") else None


#: In half precision, one step at a time.
GRU: tuple[Any, ...] = (
    "Gru",
    ((1, N, X), np.float16),
    [a if a is None else a.astype(np.float16) for a in gru_inputs(5)[1:]],
    [(1, N, U), (1, N, U)],
    {"direction": np.uint32(0), "linear_before_reset": np.uint32(1)},
)


def gru_frames() -> list[np.ndarray]:
    values = np.random.default_rng(4).standard_normal((EXECUTIONS, 1, N, X))
    return list(values.astype(np.float16))


def simulate(library: str) -> None:
    """What the simulator gives in all cases, as JSON; in a process that it may take with it."""
    found: list[Any] = []
    with qnn.Backend.open(library, log_level="error", soc_model=69, htp_arch=79) as backend:

        def run(
            node: tuple[Any, ...], reset: int | None, feeds: list[np.ndarray], **q: Any
        ) -> None:
            with backend.create_context() as context:
                add_node(context.create_graph("g"), *node, reset=reset, **q)
                with qnn.Context.from_binary(backend, context.binary()) as loaded:
                    steps = Steps(loaded.graph("g"), reset is not None)
                    outputs = steps.all(feeds, () if reset is None else RESETS)
            found.append([y.tolist() for y in outputs])

        for shape, dtype, how in CASES:
            for reset in (None, 1):
                q = encodings_of(dtype)
                run(node_of(shape, dtype, how), reset, frames_of(shape, dtype), encodings=q)
        run(GRU, 14, gru_frames())
    print("found", json.dumps(found))
    sys.stdout.flush()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Any]:
    """The outputs in the order of ``simulate``."""
    child = run_code(
        "import os, sys\n"
        "from htp.test_state_simulator import simulate\n"
        "simulate(sys.argv[1])\n"
        "os._exit(0)",
        vendor_library("libQnnHtp.so"),
    )
    lines = [line for line in child.stdout.splitlines() if line.startswith("found ")]
    assert lines, child.stderr
    return iter(json.loads(lines[0][6:]))


def test_buffer_and_gru_go_on_as_the_simulators_do(simulated: Iterator[Any]) -> None:
    for shape, dtype, how in CASES:
        for reset, resets in ((None, ()), (1, RESETS)):
            frames, zero = frames_of(shape, dtype), 7 if encodings_of(dtype) else 0
            node, q = node_of(shape, dtype, how), encodings_of(dtype)
            with steps_of(*node, reset=reset, encodings=q) as run:
                ours = run.all(frames, resets)
            expected = buffered(frames, **how, zero=zero, resets=resets)
            for mine, theirs, model in zip(ours, next(simulated), expected, strict=True):
                wanted = np.array(theirs, dtype)
                np.testing.assert_array_equal(mine, wanted, err_msg=f"{dtype} {how}")
                np.testing.assert_array_equal(mine, model)
    with steps_of(*GRU, reset=14) as run:
        ours = run.all(gru_frames(), RESETS)
    theirs = np.array(next(simulated))
    # Until the first reset the simulator has gone on from zeros, here from the initial state.
    close(np.stack(ours)[RESETS[0] :], theirs[RESETS[0] :], 5e-3)
    assert np.abs(np.stack(ours)[0] - theirs[0]).max() > 0.05


def test_the_simulator_has_no_blocking_buffer() -> None:
    """So what it does and what its padding means is this runtime's own reading of the names."""
    node = node_of((1, 1, 2, 3), "uint8", {"size": 4, "dim": 1, "mode": BLOCKING})
    with (
        qnn.Backend.open(vendor_library("libQnnHtp.so"), log_level="error") as backend,
        backend.create_context() as context,
    ):
        graph = context.create_graph("g")
        with pytest.raises(QnnError) as refused:
            add_node(graph, *node, encodings=ENCODINGS)
        assert refused.value.code == 1002
