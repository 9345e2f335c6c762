"""Inputs of Lstm and Gru nodes in every variant."""

from __future__ import annotations

from typing import Any

import numpy as np

T, N, X, U = 4, 3, 6, 17  # steps, batch, input, units


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
