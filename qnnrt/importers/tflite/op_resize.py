"""Resizing of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .common import rank_is
from .nodes import Damaged, Result, TfliteNode, lowers
from .op_gather import take
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering


def _checked(node: TfliteNode) -> tuple[Value, list[int], bool, bool]:
    """The image, its new height and width, align_corners and half_pixel_centers."""
    x = rank_is(node.input(), 4)
    size = node.ints(1, "the size")
    if len(size) != 2 or min(size) < 1:
        raise Damaged(f"a new size of {size}")
    align, half = node.options.flag("AlignCorners"), node.options.flag("HalfPixelCenters")
    if align and half:
        raise Damaged("align_corners and half_pixel_centers exclude each other")
    return x, size, align, half


def _resized(c: Lowering, type_: str, x: Value, size: list[int], align: bool, half: bool) -> Value:
    return c.b.op(
        type_,
        [x],
        [x.shape[0], *size, x.shape[3]],
        align_corners=np.bool_(align),
        half_pixel_centers=np.bool_(half),
    )


@lowers("RESIZE_BILINEAR", to="ResizeBilinear", options="ResizeBilinearOptions")
def resize_bilinear(c: Lowering, node: TfliteNode) -> Result:
    x, size, align, half = _checked(node)
    return _resized(c, "ResizeBilinear", x, size, align, half)


def exact_sources(size: int, out: int, align: bool, half: bool) -> np.ndarray:
    """The source of each of `out` pixels, in whole numbers: what QNN's operation defines."""
    to = np.arange(out, dtype=np.int64)
    if align:
        steps = max(out - 1, 1)
        found = (2 * to * (size - 1) + steps) // (2 * steps)
    else:
        found = (2 * to + half) * size // (2 * out)
    return np.asarray(np.minimum(found, size - 1), np.int32)


def tflite_sources(size: int, out: int, align: bool, half: bool) -> np.ndarray:
    """The same as TFLite computes it: in single floats, with the quotient of the sizes first."""
    corners = align and out > 1
    scale = np.float32(size - corners) / np.float32(out - corners)
    at = (np.arange(out).astype(np.float32) + np.float32(0.5 if half else 0)) * scale
    found: np.ndarray = np.floor(at)
    if align:
        found += at - found >= 0.5
    return np.asarray(np.clip(found, 0, size - 1), np.int32)


def byte_sources(size: int, out: int) -> np.ndarray:
    """The same for numbers of 8 bits, where TFLite's scale has 16 bits behind the point."""
    found = np.arange(out, dtype=np.int64) * ((size << 16) // out + 1) >> 16
    return np.asarray(np.minimum(found, size - 1), np.int32)


@lowers(
    "RESIZE_NEAREST_NEIGHBOR",
    to="ResizeNearestNeighbor, Gather",
    options="ResizeNearestNeighborOptions",
)
def resize_nearest(c: Lowering, node: TfliteNode) -> Result:
    """TFLite's coordinates are single floats: for one pair of sizes in a hundred, a pixel beside
    the exact one is taken. Those dimensions are gathered, so that the results are TFLite's."""
    x, size, align, half = _checked(node)
    exact = list(size)
    gathered: dict[int, np.ndarray] = {}
    for i, out in enumerate(size):
        c.materialize(64 * out, f"the coordinates of {node.name}")
        before = x.shape[1 + i]
        if x.dtype.itemsize == 1 and not align and not half:
            sources = byte_sources(before, out)
        else:
            sources = tflite_sources(before, out, align, half)
        if not np.array_equal(sources, exact_sources(before, out, align, half)):
            gathered[1 + i], exact[i] = sources, before
    if len(gathered) < 2:
        x = _resized(c, "ResizeNearestNeighbor", x, exact, align, half)
    for axis, index in gathered.items():
        x = take(c, x, constant(index), axis)
    return x
