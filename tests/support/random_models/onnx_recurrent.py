"""ONNX's LSTM, GRU and RNN in numpy, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _direction(
    op: str, attrs: dict[str, Any], v: list[Any], d: int, backwards: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Results of each step, and the last states."""
    units, gates = attrs["hidden_size"], GATES[op]
    x, w, r = v[0], v[1][d], v[2][d]
    given = np.zeros(2 * gates * units) if v[3] is None else v[3][d]
    wb, rb = np.split(given, 2)
    h = np.zeros((x.shape[1], units)) if v[5] is None else v[5][d]
    c = np.zeros((x.shape[1], units)) if op != "LSTM" or v[6] is None else v[6][d]
    peep = np.zeros(3 * units) if op != "LSTM" or v[7] is None else v[7][d]
    pi, po, pf = np.split(peep, 3) if op == "LSTM" else (0, 0, 0)
    clip = attrs.get("clip")

    def cut(a: np.ndarray) -> np.ndarray:
        return a if clip is None else np.clip(a, -clip, clip)

    found: list[Any] = [None] * len(x)
    for t in reversed(range(len(x))) if backwards else range(len(x)):
        a, b = x[t] @ w.T + wb, h @ r.T + rb
        if op == "RNN":
            h = np.tanh(cut(a + b))
        elif op == "GRU":
            az, ar, ah = np.split(a, 3, -1)
            bz, br, bh = np.split(b, 3, -1)
            z, reset = _sigmoid(cut(az + bz)), _sigmoid(cut(ar + br))
            if attrs.get("linear_before_reset", 0):
                inner = reset * bh
            else:
                inner = (reset * h) @ np.split(r, 3)[2].T + np.split(rb, 3)[2]
            h = (1 - z) * np.tanh(cut(ah + inner)) + z * h
        else:
            i, o, f, g = np.split(a + b, 4, -1)
            i = _sigmoid(cut(i + pi * c))
            f = 1 - i if attrs.get("input_forget", 0) else _sigmoid(cut(f + pf * c))
            c = f * c + i * np.tanh(cut(g))
            h = _sigmoid(cut(o + po * c)) * np.tanh(c)
        found[t] = h
    return np.stack(found), h, c


def recurrent(attrs: dict[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """Y, Y_h and, of an LSTM, Y_c."""
    v = [*inputs, *[None] * (8 - len(inputs))]
    direction = attrs.get("direction", b"forward").decode()
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    parts = [_direction(attrs["op"], attrs, v, d, way) for d, way in enumerate(ways)]
    y = np.stack([p[0] for p in parts], 1)
    states = [np.stack([p[i] for p in parts]) for i in (1, 2)]
    return [y, *states[: 2 if attrs["op"] == "LSTM" else 1]]
