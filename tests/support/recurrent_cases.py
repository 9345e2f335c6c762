"""Random Lstm and Gru nodes in every variant, and their equations."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def gru_inputs(seed: int, full: bool = True) -> list[np.ndarray | None]:
    """Inputs 1 to 13 at their numbers; with neither biases nor a state when not full."""
    r = np.random.default_rng(seed)
    shapes = [*[(U, X)] * 3, *[(U, U)] * 3, *[(U,)] * 6, (1, N, U)]
    v = [r.standard_normal(s, np.float32) * 0.5 for s in shapes]
    return [None, *(a if full or i < 6 else None for i, a in enumerate(v))]


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
