"""Pools."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Node

from .registry import flag, integer, ints, op


@op("PoolMax2d", "PoolMax3d", "PoolAvg2d", "PoolAvg3d")
def pool(n: Node, x: np.ndarray) -> np.ndarray:
    """Window by window."""
    kernel, stride, pads = ints(n, "filter_size"), ints(n, "stride"), ints(n, "pad_amount")
    geometry = [*zip(x.shape[1:-1], kernel, stride, pads, strict=True)]
    out = []
    for size, k, s, (before, after) in geometry:
        room = size + before + after - k
        up = integer(n, "rounding_mode") == 1
        count = (room + s - 1) // s + 1 if up else room // s + 1
        # None starts behind the input because of the rounding.
        out.append(int(count - (up and (count - 1) * s >= size + before)))
    result = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    axes = tuple(range(1, x.ndim - 1))
    for at in np.ndindex(*out):
        window, elements = [], 1
        for i, (size, k, s, (before, after)) in zip(at, geometry, strict=True):
            first, last = i * s - before, i * s - before + k
            window.append(slice(max(first, 0), max(min(last, size), 0)))
            elements *= min(last, size + after) - first
        values = x[(slice(None), *window)]
        if n.type.startswith("PoolMax"):
            result[(slice(None), *at)] = values.max(axes)
            continue
        counted = flag(n, "count_pad_for_edges")
        result[(slice(None), *at)] = values.sum(axes) / (
            elements if counted else values[0, ..., 0].size
        )
    return result
