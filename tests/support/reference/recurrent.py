"""Lstm and Gru, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from qnnrt.model import Node

from .registry import flag, integer, number, op


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _normalized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-8)


def _sequence(n: Node, x: np.ndarray, time_major: bool) -> np.ndarray:
    """Time first; one step alone is a sequence of one."""
    if x.ndim == 2:
        return x[None]
    return x if flag(n, "time_major", time_major) else x.swapaxes(0, 1)


def _clipped(x: np.ndarray, limit: float) -> np.ndarray:
    return np.clip(x, -limit, limit) if limit else x


@op("Lstm")
def lstm(n: Node, x: np.ndarray, *given: np.ndarray | None) -> list[np.ndarray]:
    """Output, final states, then the four gates and the hidden value."""
    v: list[Any] = [None, *given, *[None] * (24 - len(given))]
    steps = _sequence(n, x, False)
    h = np.zeros((steps.shape[1], v[4].shape[1])) if v[10] is None else v[10]
    c = np.zeros((steps.shape[1], v[1].shape[0])) if v[11] is None else v[11]

    def gate(x: Any, w: int, r: int, b: int, peephole: int, norm: int, cell: Any) -> Any:
        y = x @ v[w].T + h @ v[r].T
        if peephole and v[peephole] is not None:
            y = y + cell * v[peephole]
        if v[norm] is not None:
            y = _normalized(y) * v[norm]
        return y + v[b]

    found: list[Any] = [None] * len(steps)
    order = range(len(steps))
    for t in reversed(order) if integer(n, "direction") else order:
        f = _sigmoid(gate(steps[t], 1, 4, 7, 19, 13, c))
        g = np.tanh(gate(steps[t], 2, 5, 8, 0, 14, c))
        i = 1 - f if v[16] is None else _sigmoid(gate(steps[t], 16, 17, 21, 18, 12, c))
        c = _clipped(f * c + i * g, number(n, "cell_clip_threshold", 0))
        o = _sigmoid(gate(steps[t], 3, 6, 9, 20, 15, c))
        hidden = h = o * np.tanh(c)
        if v[22] is not None:
            h = h @ v[22].T + v[23]
            h = _clipped(h, number(n, "output_clip_threshold", 0))
        found[t] = (h, i, f, g, o, hidden)
    first, *rest = (_as_given(n, x, np.stack(s), False) for s in zip(*found, strict=True))
    return [first, c, h, *rest]


def _as_given(n: Node, x: np.ndarray, y: np.ndarray, time_major: bool) -> np.ndarray:
    return y[0] if x.ndim == 2 else _sequence(n, y, time_major)


@op("Gru")
def gru(n: Node, x: np.ndarray, *given: np.ndarray | None) -> list[np.ndarray]:
    """Output and final state."""
    steps = _sequence(n, x, True)
    units = given[0].shape[0]  # type: ignore[union-attr]
    v: list[Any] = [*given, *[None] * (13 - len(given))]
    w, u = v[0:3], v[3:6]
    b = [np.zeros(units) if a is None else a for a in v[6:12]]
    h = np.zeros((steps.shape[1], units)) if v[12] is None else v[12][0]
    found: list[Any] = [None] * len(steps)
    order = range(len(steps))
    for t in reversed(order) if integer(n, "direction") else order:
        z, r = (_sigmoid(steps[t] @ w[k].T + b[k] + h @ u[k].T + b[3 + k]) for k in (0, 1))
        if integer(n, "linear_before_reset"):
            inner = r * (h @ u[2].T + b[5])
        else:
            inner = (r * h) @ u[2].T + b[5]
        h = (1 - z) * np.tanh(steps[t] @ w[2].T + b[2] + inner) + z * h
        found[t] = h
    return [_as_given(n, x, np.stack(found), True), h[None]]


@op("Buffer")
def buffer(n: Node, x: np.ndarray, reset: np.ndarray | None = None) -> np.ndarray:
    """In the first execution, when nothing came before but the padding of a blocking buffer."""
    dim, mode = integer(n, "buffer_dim"), integer(n, "mode")
    rest = integer(n, "buffer_size") - x.shape[dim]
    before = (rest, 0, rest)[mode]
    pads = [(before, rest - before) if d == dim else (0, 0) for d in range(x.ndim)]
    return np.pad(x, pads)
