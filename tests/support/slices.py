"""Values of every element type, and slices of them at random."""

from __future__ import annotations

from typing import Any

import numpy as np

TYPES = ("float32", "float16", "float64", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64", "bool")  # fmt: skip


def values(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return (
        np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    )


def random_slice(r: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    """Params of a StridedSlice."""
    rows: list[tuple[int, int, int]] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "shrink_axes", "new_axes_mask"), 0)
    for n in shape:
        if r.random() < 0.15 and masks["new_axes_mask"].bit_count() < 2:
            masks["new_axes_mask"] |= 1 << len(rows)
            rows.append((9, 9, 0))  # not looked at
        bit, stride = 1 << len(rows), int(r.choice([1, 1, 2, 3, -1, -2]))
        begin = int(r.integers(-n, n + 2))
        end = int(r.integers(-n, n + 3)) if stride > 0 else int(r.integers(-1, n))
        if r.random() < 0.2 and -n <= begin < n:
            masks["shrink_axes"] |= bit
        else:
            masks["begin_mask"] |= bit * (r.random() < 0.2)
            masks["end_mask"] |= bit * (r.random() < 0.2)
        rows.append((begin, end, stride))
    return {"ranges": np.array(rows, np.int32), **masks}
