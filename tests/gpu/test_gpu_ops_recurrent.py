"""Lstm and Gru on OpenCL devices: every variant gives what the cpu backend gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import qnnrt
from support import reference
from support.gpu.cases import against_cpu, launches, loops_and_lanes, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case
from support.recurrent_cases import VARIANTS, LstmCase, N, T, U, X, gru_inputs

pytestmark = pytest.mark.foreign  # OpenCL drivers are

BOOLS = (False, True)


def lstm(
    what: LstmCase,
    params: Mapping[str, Any],
    *,
    outputs: Sequence[int] | None = None,
    static: bool = True,
    dtype: Any = np.float32,
) -> Case:
    """Its outputs of these numbers, all that there are without them."""
    x = what.x if params.get("time_major") else what.x.swapaxes(0, 1)
    inputs = [None if v is None else v.astype(dtype) for v in (x, *what.v[1:])]
    shapes = [a.shape for a in reference.of("Lstm", [x, *what.v[1:]], params)]
    shapes = shapes[: 8 if what.outputs == U else 6]
    wanted = range(len(shapes)) if outputs is None else outputs
    there = [s if i in wanted else None for i, s in enumerate(shapes)]
    constants = range(1, 24) if static else ()
    return case("Lstm", inputs, there[: max(wanted) + 1], params, static=constants)


@pytest.mark.parametrize("variant", VARIANTS)
def test_lstms(variant: str, loops_and_lanes: str) -> None:  # noqa: F811
    what = LstmCase(1, **VARIANTS[variant])
    limits = zip(("cell", "output"), what.clips, strict=True)
    clips = {f"{name}_clip_threshold": float(limit) for name, limit in limits}
    cases = [
        lstm(what, {**clips, "direction": int(reverse), "time_major": time_major}, static=static)
        for reverse, time_major, static in ((False, True, True), (True, False, False))
    ]
    against_cpu(*cases, terms=X + U)


def test_outputs_of_an_lstm_may_be_left_out() -> None:
    what = LstmCase(2)
    against_cpu(
        *(lstm(what, {}, outputs=outputs) for outputs in ((0,), (0, 2), (0, 4), (0, 1, 2))),
        terms=X + U,
    )


@pytest.mark.slow
def test_lstms_of_one_step_and_of_half_floats() -> None:
    what = LstmCase(2)
    inputs = [what.x[0], *what.v[1:]]
    empty = [np.zeros(0, np.float32) if v is None else v for v in inputs]
    static = range(1, 24)
    against_cpu(
        case("Lstm", inputs, [(N, U)] * 3, static=static),
        case("Lstm", empty, [(N, U)] * 3, static=static),
        terms=X + U,
    )
    against_cpu(lstm(what, {"time_major": True}, dtype=np.float16), atol=2e-3)


@pytest.mark.parametrize(("linear", "full"), list(itertools.product(BOOLS, repeat=2)))
def test_grus(linear: bool, full: bool, loops_and_lanes: str) -> None:  # noqa: F811
    v = gru_inputs(4, full)
    x = np.random.default_rng(5).standard_normal((T, N, X), np.float32)
    params = {"linear_before_reset": int(linear)}
    cases = [
        case("Gru", [x, *v[1:]], [(T, N, U), (1, N, U)], params | {"direction": 1},
             static=range(1, 14)),
        case("Gru", [x, *v[1:]], [(T, N, U)], params),
        case("Gru", [x.swapaxes(0, 1), *v[1:]], [(N, T, U), (N, U)],
             params | {"time_major": False}, static=range(1, 14)),
        case("Gru", [x[0], *v[1:]], [(N, U)], params),
    ]  # fmt: skip
    against_cpu(*cases, terms=X + U)


def test_a_step_is_a_kernel() -> None:
    """And the product of all inputs, the states' begin, and their end."""
    what = LstmCase(1)
    model = lstm(what, {}, outputs=(0, 1, 2)).model
    steps = launches(model)
    assert steps == T + 1 + 2 + 2


def test_a_state_that_runs_carry_on_is_refused() -> None:
    reset = np.zeros(1, np.bool_)
    what = LstmCase(1)
    inputs = [what.x, *what.v[1:], reset]
    model = case("Lstm", inputs, [(T, N, U)], {"time_major": True}, static=range(1, 24)).model
    with pytest.raises(qnnrt.UnsupportedOpError, match="no state from one run to the next"):
        qnnrt.Session(model, "gpu")
    always = [*inputs[:-1], np.ones(1, np.bool_)]
    against_cpu(
        case("Lstm", always, [(T, N, U)], {"time_major": True}, static=range(1, 25)), terms=X + U
    )
