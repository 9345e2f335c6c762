"""Lstm and Gru follow their equations, step by step, in every variant."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from op_runner import close, run_op

from qnnrt.errors import QnnError

T, N, X, U = 4, 3, 6, 17  # steps, batch, input, units


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def normalized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-8)


class LstmCase:
    """Random inputs for one variant, numbered as the op numbers them."""

    def __init__(
        self, seed: int, *, outputs: int = U, input_gate: bool = True, peephole: bool = False,
        norm: bool = False, states: bool = True, clips: tuple[float, float] = (0, 0),
    ) -> None:  # fmt: skip
        r = np.random.default_rng(seed)

        def make(*shape: int) -> np.ndarray:
            return r.standard_normal(shape, np.float32) * 0.5

        self.x = make(T, N, X)
        self.v: list[np.ndarray | None] = [None] * 24
        gates = [1, 2, 3, 16] if input_gate else [1, 2, 3]
        for i in gates:
            self.v[i] = make(U, X)
            self.v[17 if i == 16 else i + 3] = make(U, outputs)
            self.v[21 if i == 16 else i + 6] = make(U)
        if states:
            self.v[10], self.v[11] = make(N, outputs), make(N, U)
        if norm:
            for i in (12, 13, 14, 15) if input_gate else (13, 14, 15):
                self.v[i] = make(U)
        if peephole:
            for i in (18, 19, 20) if input_gate else (19, 20):
                self.v[i] = make(U)
        if outputs != U:
            self.v[22], self.v[23] = make(outputs, U), make(outputs)
        self.outputs, self.clips = outputs, clips

    def reference(self, reverse: bool) -> list[np.ndarray]:
        """Output, final states, then the four gates and the hidden value; time first."""
        v = [None if a is None else a.astype(np.float64) for a in self.v]
        h = np.zeros((N, self.outputs)) if v[10] is None else v[10]
        c = np.zeros((N, U)) if v[11] is None else v[11]

        def gate(x: Any, w: int, r: int, b: int, peep: int, norm: int, cell: Any) -> Any:
            y = x @ v[w].T + h @ v[r].T
            if peep and v[peep] is not None:
                y = y + cell * v[peep]
            if v[norm] is not None:
                y = normalized(y) * v[norm]
            return y + v[b]

        steps: list[Any] = [None] * T
        for t in reversed(range(T)) if reverse else range(T):
            x = self.x[t].astype(np.float64)
            f = sigmoid(gate(x, 1, 4, 7, 19, 13, c))
            g = np.tanh(gate(x, 2, 5, 8, 0, 14, c))
            i = 1 - f if v[16] is None else sigmoid(gate(x, 16, 17, 21, 18, 12, c))
            c = f * c + i * g
            if self.clips[0]:
                c = np.clip(c, -self.clips[0], self.clips[0])
            o = sigmoid(gate(x, 3, 6, 9, 20, 15, c))
            hidden = h = o * np.tanh(c)
            if v[22] is not None:
                h = h @ v[22].T + v[23]
                if self.clips[1]:
                    h = np.clip(h, -self.clips[1], self.clips[1])
            steps[t] = (h, i, f, g, o, hidden)
        sequences = [np.stack(values) for values in zip(*steps, strict=True)]
        return [sequences[0], c, h, *sequences[1:]]


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no input gate": {"input_gate": False},
    "peepholes": {"peephole": True},
    "peepholes, no input gate": {"peephole": True, "input_gate": False},
    "layer norm": {"norm": True, "peephole": True},
    "projection": {"outputs": 9, "clips": (0.3, 0.2)},
    "no states": {"states": False, "clips": (0.2, 0)},
}


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_lstm_follows_its_equations(variant: str, reverse: bool, static: bool) -> None:
    case = LstmCase(1, **VARIANTS[variant])
    expected = case.reference(reverse)
    constants = range(1, 24) if static else ()
    params = {
        "direction": int(reverse), "cell_clip_threshold": float(case.clips[0]),
        "output_clip_threshold": float(case.clips[1]),
    }  # fmt: skip
    wanted = expected if case.outputs == U else expected[:6]
    for time_major in (True, False):
        turned = [
            a if time_major or i in (1, 2) else a.swapaxes(0, 1) for i, a in enumerate(wanted)
        ]
        x = case.x if time_major else case.x.swapaxes(0, 1)
        got = run_op(
            "Lstm", [x, *case.v[1:]], [a.shape for a in turned],
            params | {"time_major": time_major}, static=constants,
        )  # fmt: skip
        for mine, theirs in zip(got, turned, strict=True):
            close(mine, theirs)


def test_lstm_of_one_step_and_outputs_left_out() -> None:
    case = LstmCase(2)
    x, case.x = case.x[0], case.x[:1].repeat(T, 0)
    first = LstmCase(2)
    first.x = case.x
    c, h = first.v[11], first.v[10]
    assert c is not None
    assert h is not None
    out, _, _ = run_op("Lstm", [x, *case.v[1:]], [(N, U), (N, U), (N, U)])
    close(out, first.reference(False)[0][0])
    (alone,) = run_op("Lstm", [x, *case.v[1:]], [(N, U)])
    close(alone, out)
    (half,) = run_op(
        "Lstm", [None if v is None else v.astype(np.float16) for v in (x, *case.v[1:])], [(N, U)]
    )
    close(half, out, 5e-3)


def test_an_empty_tensor_stands_for_an_input_left_out() -> None:
    case = LstmCase(3)
    empty = [np.zeros(0, np.float32) if v is None else v for v in case.v[1:]]
    (got,) = run_op(
        "Lstm", [case.x, *empty], [(T, N, U)], {"time_major": True}, static=range(1, 24)
    )
    close(got, case.reference(False)[0])


def gru_reference(
    x: np.ndarray, v: list[np.ndarray | None], reverse: bool, before: bool
) -> tuple[np.ndarray, np.ndarray]:
    zeros = np.zeros(U)
    w = [a.astype(np.float64) for a in v[1:7]]  # type: ignore[union-attr]
    b = [zeros if a is None else a.astype(np.float64) for a in v[7:13]]
    h = np.zeros((x.shape[1], U)) if v[13] is None else v[13][0].astype(np.float64)
    steps = [h] * len(x)
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        z, r = (sigmoid(x[t] @ w[i].T + h @ w[3 + i].T + b[i] + b[3 + i]) for i in range(2))
        inner = r * (h @ w[5].T + b[5]) if before else (r * h) @ w[5].T + b[5]
        n = np.tanh(x[t] @ w[2].T + b[2] + inner)
        h = (1 - z) * n + z * h
        steps[t] = h
    return np.stack(steps), h[None]


@pytest.mark.parametrize(
    ("before", "reverse", "static", "full"), list(itertools.product([False, True], repeat=4))
)
def test_gru_follows_its_equations(before: bool, reverse: bool, static: bool, full: bool) -> None:
    r = np.random.default_rng(4)
    shapes = [(), *[(U, X)] * 3, *[(U, U)] * 3, *[(U,)] * 6, (1, N, U)]
    v: list[np.ndarray | None] = [r.standard_normal(s, np.float32) * 0.5 for s in shapes[1:]]
    v = [None, *(a if full or i < 6 else None for i, a in enumerate(v))]
    x = r.standard_normal((T, N, X), np.float32)
    out, state = gru_reference(x, v, reverse, before)
    params = {"direction": int(reverse), "linear_before_reset": int(before)}
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
