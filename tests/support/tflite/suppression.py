"""Models of NON_MAX_SUPPRESSION."""

from __future__ import annotations

import numpy as np

from support.tflite.case import F32, I32, Case, k, v

SEED = 20261127
#: How many boxes are wanted at most, the overlap and the score that count.
SETTINGS = [(5, 0.5, 0.1), (100, 0.3, 0.4), (40, 1.0, -1.0), (10, 0.05, 0.0), (7, 0.5, 2.0),
            (6, 0.0, 0.1), (30, 0.6, -np.inf)]  # fmt: skip
BOXES = (1, 40)
#: How many models the tests have of each operator.
COUNTS = {f"NON_MAX_SUPPRESSION_V{version}": len(SETTINGS) * len(BOXES) for version in (4, 5)}


def boxes(count: int, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Corners, some of them exchanged, and scores of which no two are equal."""
    r = np.random.default_rng(seed)
    low, size = r.uniform(0, 1, (count, 2)), r.uniform(0.1, 0.6, (count, 2))
    found = np.concatenate([low, low + size], 1)
    found[::3] = found[::3][:, [2, 1, 0, 3]]
    return found.astype(F32), (r.permutation(count) / count).astype(F32)


def case(most: int, overlap: float, score: float, count: int, sigma: float | None = None) -> Case:
    given = [*(v(a, F32) for a in boxes(count)), k(most), k(overlap, F32), k(score, F32)]
    if sigma is None:
        return Case("NON_MAX_SUPPRESSION_V4", given, "NonMaxSuppressionV4Options",
                    outputs=(I32, I32))  # fmt: skip
    given.append(k(sigma, F32))
    table = "NonMaxSuppressionV5Options"
    return Case("NON_MAX_SUPPRESSION_V5", given, table, outputs=(I32, F32, I32))
