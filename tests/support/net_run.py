"""What the tests of net-run share: two inputs, their sum, and the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np

A = np.array([[1, -2, 3, -4]], np.float32)
B = np.array([[0.5, 0.25, -8, 1]], np.float32)
TOTAL = A + 2 * B


def net_run(model: Path, *more: object, backend: str = "cpu") -> tuple[object, ...]:
    return ("net-run", "--model", model, "--backend", backend, *more)
