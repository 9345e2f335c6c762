"""Convolutions, channels last, of any number of dimensions: one tap of the kernel at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qnnrt.model import Node

from .registry import integer, ints, op


def _grouped(x: np.ndarray, w: np.ndarray, groups: int, axis: int) -> np.ndarray:
    """x @ w for each group of channels; `axis` is that of w which they divide."""
    if groups == 1:
        return np.asarray(x @ w)
    parts = zip(np.split(x, groups, -1), np.split(w, groups, axis), strict=True)
    return np.concatenate([a @ b for a, b in parts], -1)


def _taps(w: np.ndarray, step: np.ndarray, count: Any, stride: Any) -> Iterator[Any]:
    """Every tap with the slices of the pixels that it meets."""
    for tap in np.ndindex(*w.shape[:-2]):
        yield (
            tap,
            tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, step, count, stride, strict=True)
            ),
        )


@op("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
def conv(n: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    rank = x.ndim - 2
    stride, dilation = ints(n, "stride"), ints(n, "dilation", [1] * rank)
    pads = ints(n, "pad_amount").reshape(rank, 2)
    groups = x.shape[-1] if n.type.startswith("DepthWise") else integer(n, "group", 1)
    assert w.shape[-2] == x.shape[-1] // groups
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    sizes = np.array(x.shape[1:-1]) - dilation * (np.array(w.shape[:rank]) - 1) - 1
    count = sizes // stride + 1
    y = np.zeros((x.shape[0], *count, w.shape[-1]), x.dtype)
    for tap, pixels in _taps(w, dilation, count, stride):
        y += _grouped(x[(slice(None), *pixels)], w[tap], groups, 1)
    return y if bias is None else y + bias


@op("TransposeConv2d", "TransposeConv3d")
def transpose_conv(
    n: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """Every pixel adds its kernel-sized patch to the output; then the pads are cut off."""
    rank = x.ndim - 2
    stride, extra = ints(n, "stride"), ints(n, "output_padding", [0] * rank)
    groups = integer(n, "group", 1)
    full = (np.array(x.shape[1:-1]) - 1) * stride + w.shape[:-2] + extra
    y = np.zeros((x.shape[0], *full, w.shape[-1] * groups), x.dtype)
    for tap, pixels in _taps(w, np.ones(rank, int), x.shape[1:-1], stride):
        y[(slice(None), *pixels)] += _grouped(x, w[tap], groups, 0)
    pads = ints(n, "pad_amount").reshape(rank, 2)
    kept = (slice(b, size - e) for (b, e), size in zip(pads, full, strict=True))
    y = y[(slice(None), *kept)]
    return y if bias is None else y + bias
