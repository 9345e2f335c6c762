"""What reads an image between its pixels: Resize and its kin, GridSample, RoiAlign."""

from __future__ import annotations

import math

import numpy as np

from qnnrt.model import Node

from .registry import flag, integer, number, op

HALF_PIXEL, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC = range(4)
NEAREST, LINEAR, CUBIC = range(3)


def _source(transform: int, out: int, n_in: int, n_out: int) -> float:
    if transform == HALF_PIXEL or (transform == PYTORCH_HALF_PIXEL and n_out > 1):
        return (out + 0.5) * n_in / n_out - 0.5
    if transform == ALIGN_CORNERS and n_out > 1:
        return out * (n_in - 1) / (n_out - 1)
    return out * n_in / n_out if transform == ASYMMETRIC else 0.0


def _cubic_weight(x: float, a: float) -> float:
    """Keys' kernel: https://ieeexplore.ieee.org/document/1163711"""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _weights(n: Node, x: float, n_in: int, interpolation: int) -> dict[int, float]:
    """How much of each coordinate goes into what lies at x; some may be outside."""
    if interpolation == NEAREST:
        rounded = (math.ceil(x - 0.5), math.floor(x + 0.5), math.floor(x), math.ceil(x))
        return {rounded[integer(n, "nearest_mode")]: 1.0}
    reach = 1 if interpolation == LINEAR else 2
    near = range(math.floor(x) - reach + 1, math.floor(x) + reach + 1)
    if interpolation == LINEAR:
        return {i: 1 - abs(x - i) for i in near}
    weights = {i: _cubic_weight(x - i, number(n, "cubic_coeff", -0.75)) for i in near}
    if flag(n, "exclude_outside"):
        weights = {i: w for i, w in weights.items() if 0 <= i < n_in}
        total = sum(weights.values())
        weights = {i: w / total for i, w in weights.items()}
    return weights


def _resized(
    n: Node, x: np.ndarray, shape: np.ndarray, transform: int, interpolation: int
) -> np.ndarray:
    for axis in range(1, x.ndim - 1):
        n_in, n_out = x.shape[axis], int(shape[axis])
        matrix = np.zeros((n_out, n_in))
        for out in range(n_out):
            at = _source(transform, out, n_in, n_out)
            for i, w in _weights(n, at, n_in, interpolation).items():
                matrix[out, min(max(i, 0), n_in - 1)] += w
        x = np.moveaxis(np.tensordot(matrix, x, ([1], [axis])), 0, axis)
    return x


@op("Resize")
def resize(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    modes = integer(n, "transformation_mode"), integer(n, "interpolation_mode")
    return _resized(n, x, shape, *modes)


@op("ResizeBilinear")
def resize_bilinear(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    half = HALF_PIXEL if flag(n, "half_pixel_centers") else ASYMMETRIC
    return _resized(n, x, shape, ALIGN_CORNERS if flag(n, "align_corners") else half, LINEAR)


@op("ResizeNearestNeighbor")
def resize_nearest_neighbor(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    align, half = flag(n, "align_corners"), flag(n, "half_pixel_centers")
    for axis in (1, 2):
        n_in, n_out = x.shape[axis], int(shape[axis])
        if align and n_out > 1:
            at = [math.floor(i * (n_in - 1) / (n_out - 1) + 0.5) for i in range(n_out)]
        elif half:
            at = [math.floor((i + 0.5) * n_in / n_out) for i in range(n_out)]
        else:
            at = [0 if align else i * n_in // n_out for i in range(n_out)]
        x = np.take(x, at, axis)
    return x


def _reflect(at: np.ndarray, size: int, align: bool) -> np.ndarray:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return np.zeros_like(at)
    at = np.abs(at - low) % (2 * span)
    return np.where(at > span, 2 * span - at, at) + low


@op("GridSample")
def grid_sample(n: Node, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    align, padding = flag(n, "align_corners"), integer(n, "padding_mode")
    sizes = x.shape[1:-1]
    where = []
    for axis, size in enumerate(sizes):
        g = grid[..., len(sizes) - 1 - axis]  # x comes first in the grid
        at = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
        if padding == 2:
            at = _reflect(at, size, align)
        where.append(np.clip(at, 0, size - 1) if padding else at)
    if integer(n, "mode") == 1:
        corners = [([np.rint(at) for at in where], np.ones(grid.shape[:-1]))]
    else:
        corners = []
        for steps in np.ndindex(*[2] * len(sizes)):
            low = [np.floor(at) for at in where]
            share = [
                at - f if s else 1 - (at - f) for at, f, s in zip(where, low, steps, strict=True)
            ]
            corners.append(
                ([f + s for f, s in zip(low, steps, strict=True)], np.prod(share, axis=0))
            )
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * len(sizes))
    total = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at, share in corners:
        inside = np.ones(grid.shape[:-1], bool)
        index = []
        for i, size in zip(at, sizes, strict=True):
            inside &= (i >= 0) & (i <= size - 1)
            index.append(np.clip(i, 0, size - 1).astype(int))
        total += (share * inside)[..., None] * x[(batch, *index)]
    return total


@op("RoiAlign")
def roi_align(
    n: Node, x: np.ndarray, boxes: np.ndarray, images: np.ndarray, shape: np.ndarray
) -> np.ndarray:
    aligned = flag(n, "aligned")
    total = np.zeros(shape)
    for out, box, image in zip(total, boxes, images, strict=True):
        rows = []  # of each dim: what share every bin has of every coordinate
        for d, param in enumerate(("num_samples_y", "num_samples_x")):
            size = x.shape[1 + d]
            ends = box[[1 - d, 3 - d]] / n.params["img_size_ratio"][d] - 0.5 * aligned
            length = ends[1] - ends[0] if aligned else max(ends[1] - ends[0], 1)
            step = length / shape[1 + d]
            count = integer(n, param, -1)
            count = count if count > 0 else max(0, int(np.ceil(step)))
            share = np.zeros((shape[1 + d], size))
            for i, k in np.ndindex(shape[1 + d], count):
                at = ends[0] + (i + (k + 0.5) / count) * step
                if -1 <= at <= size:
                    at = np.clip(at, 0, size - 1)
                    low = int(at)
                    share[i, low] += (1 - at + low) / count
                    share[i, min(low + 1, size - 1)] += (at - low) / count
            rows.append(share)
        out[:] = np.einsum("ah,bw,hwc->abc", *rows, x[int(image)])
    return total
