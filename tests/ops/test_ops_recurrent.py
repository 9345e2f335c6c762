"""Lstm and Gru follow their equations, step by step, in every variant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import close, run_op
from support.recurrent_cases import VARIANTS, LstmCase, N, T, U, X, gru_inputs


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_lstm_follows_its_equations(variant: str, reverse: bool, static: bool) -> None:
    case = LstmCase(1, **VARIANTS[variant])
    constants = range(1, 24) if static else ()
    params = {
        "direction": int(reverse), "cell_clip_threshold": float(case.clips[0]),
        "output_clip_threshold": float(case.clips[1]),
    }  # fmt: skip
    for time_major in (True, False):
        params["time_major"] = time_major
        inputs = [case.x if time_major else case.x.swapaxes(0, 1), *case.v[1:]]
        wanted = reference.of("Lstm", inputs, params)[: 8 if case.outputs == U else 6]
        got = run_op("Lstm", inputs, [a.shape for a in wanted], params, static=constants)
        for mine, theirs in zip(got, wanted, strict=True):
            close(mine, theirs)


def test_lstm_of_one_step_and_outputs_left_out() -> None:
    case = LstmCase(2)
    inputs = [case.x[0], *case.v[1:]]
    got = run_op("Lstm", inputs, [(N, U), (N, U), (N, U)])
    for mine, theirs in zip(got, reference.of("Lstm", inputs), strict=False):
        close(mine, theirs)
    (alone,) = run_op("Lstm", inputs, [(N, U)])
    close(alone, got[0])
    (half,) = run_op(
        "Lstm", [None if v is None else v.astype(np.float16) for v in inputs], [(N, U)]
    )
    close(half, got[0], 5e-3)


def test_an_empty_tensor_stands_for_an_input_left_out() -> None:
    case = LstmCase(3)
    empty = [np.zeros(0, np.float32) if v is None else v for v in case.v[1:]]
    params = {"time_major": True}
    (got,) = run_op("Lstm", [case.x, *empty], [(T, N, U)], params, static=range(1, 24))
    close(got, reference.of("Lstm", [case.x, *case.v[1:]], params)[0])


@pytest.mark.parametrize(
    ("before", "reverse", "static", "full"), list(itertools.product([False, True], repeat=4))
)
def test_gru_follows_its_equations(before: bool, reverse: bool, static: bool, full: bool) -> None:
    v = gru_inputs(4, full)
    x = np.random.default_rng(5).standard_normal((T, N, X), np.float32)
    params = {"direction": int(reverse), "linear_before_reset": int(before)}
    out, state = reference.of("Gru", [x, *v[1:]], params)
    constants = range(1, 14) if static else ()
    got = run_op("Gru", [x, *v[1:]], [out.shape, state.shape], params, static=constants)
    close(got[0], out)
    close(got[1], state)
    turned = out.swapaxes(0, 1)
    (batch_major,) = run_op(
        "Gru", [x.swapaxes(0, 1), *v[1:]], [turned.shape], params | {"time_major": False},
        static=constants,
    )  # fmt: skip
    close(batch_major, turned)


def test_a_bad_recurrent_op_is_refused_with_the_rule_it_breaks() -> None:
    for change, word in [
        ({16: None}, "16 and 17"),
        ({22: np.zeros((5, U), np.float32)}, "projection"),
        ({18: np.zeros(U + 1, np.float32)}, "input 18"),
        ({1: np.zeros((U, X + 1), np.float32)}, "weights"),
        ({12: np.zeros(U, np.float32)}, "every gate"),
        ({10: np.zeros((N + 1, U), np.float32)}, "initial output"),
    ]:
        case = LstmCase(5)
        for i, value in change.items():
            case.v[i] = value
        with pytest.raises(QnnError) as error:
            run_op("Lstm", [case.x, *case.v[1:]], [(T, N, U)], {"time_major": True})
        assert word in str(error.value)
    with pytest.raises(QnnError, match="direction"):
        run_op("Lstm", [case.x, *LstmCase(5).v[1:]], [(T, N, U)], {"direction": 2})
