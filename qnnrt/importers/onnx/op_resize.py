"""Resize and Upsample: QNN's resize operations where they mean the same, else exact equivalents.

A nearest-neighbour resize is a Gather along each axis; a linear or cubic one whose coordinates
follow from the sizes is QNN's, whichever axes it has; every other one is a product with a small
constant matrix along each axis. The coordinate rules are those of ONNX's Resize.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dtypes import is_float
from ...quantization import limits
from ..budget import Budget
from .common import cast, concat, gather_const, nary, plus, scalar, select, strided, unary
from .nodes import Lowering, OnnxNode, Unsupported, axis_of, lowers
from .op_matmul import matmul
from .values import Value, constant

_FLOAT = np.dtype(np.float32)


class Axis:
    """One resized axis: its sizes, its scale and the rule for coordinates."""

    def __init__(
        self, size: int, out: int, scale: float | None, mode: str, roi: tuple[float, float]
    ) -> None:
        self.size, self.out, self.mode, self.roi = size, out, mode, roi
        self.scale = out / size if scale is None else scale
        self.by_size = scale is None

    def source(self, kind: type[np.floating[Any]] = np.float64) -> np.ndarray:
        """The coordinate in the input of every output element, computed in numbers of a type."""
        i = np.arange(self.out).astype(kind)
        size, out, scale, half = kind(self.size), kind(self.out), kind(self.scale), kind(0.5)
        # A scale need not make the output's size a whole number.
        exact = out if self.by_size else size * scale
        if self.mode == "half_pixel_symmetric":
            # The exact (not rounded) output size decides where the centre is.
            adjustment = out / exact
            centre = size / kind(2)
            return np.asarray(centre * (kind(1) - adjustment) + (i + half) / scale - half)
        if self.out == 1 and self.mode in ("pytorch_half_pixel", "align_corners"):
            return np.zeros(1, kind)
        if self.mode in ("half_pixel", "pytorch_half_pixel"):
            return np.asarray((i + half) / scale - half)
        if self.mode == "align_corners":
            return np.asarray(i * (size - kind(1)) / (exact - kind(1)))
        if self.mode == "asymmetric":
            return np.asarray(i / scale)
        if self.mode == "tf_crop_and_resize":
            start, end = map(kind, self.roi)
            last = size - kind(1)
            if self.out > 1:
                return np.asarray(start * last + i * (end - start) * last / (out - kind(1)))
            return np.array([half * (start + end) * last])
        raise Unsupported(f"coordinate_transformation_mode {self.mode!r}")

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Which coordinates lie beyond the first and the last pixel."""
        return np.asarray((at < 0) | (at > self.size - 1))


_ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest_index(axis: Axis, rule: str) -> np.ndarray:
    # In 32 bits, as ONNX Runtime and torch compute them: 3 / 0.6 is 5 there, and 4.9999998 of the
    # number that 0.6 becomes in a file.
    at = axis.source(np.float32)
    low = np.floor(at)
    # The middle, off by a rounding, is the middle: 4 / (8 / 7) is 3.5.
    at = np.where(np.abs(at - low - 0.5) < 1e-6, low + np.float32(0.5), at)
    return np.asarray(np.clip(_ROUND[rule](at).astype(np.int64), 0, axis.size - 1))


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    def weight(distance: np.ndarray) -> np.ndarray:
        d = np.abs(distance)
        inner = ((a + 2) * d - (a + 3)) * d * d + 1
        outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, inner, np.where(d < 2, outer, 0))

    return weight


#: How many weights of an interpolation are made at a time.
_TAPS = 1 << 16


def matrix(
    budget: Budget,
    axis: Axis,
    kernel: Callable[[np.ndarray], np.ndarray],
    reach: int,
    antialias: bool,
    exclude_outside: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The interpolation matrix [out, size], and which outputs lie outside of the input."""
    at = axis.source()
    stretch = max(1.0, 1 / axis.scale) if antialias else 1.0
    support = math.ceil(reach * stretch) + 1
    shape = (axis.out, axis.size)
    budget.array(shape, np.float64, f"weights of shape {list(shape)}")
    budget.work(axis.out * (2_000 + 50 * support))
    if not (np.abs(at) < 2**53).all():
        raise ValueError("the scale of a dimension gives coordinates that are no numbers")
    weights = np.zeros(shape)
    reached = np.arange(-support, support + 1)
    together = max(1, _TAPS // len(reached))
    for begin in range(0, axis.out, together):
        x = at[begin : begin + together, None]
        base = np.floor(x).astype(np.int64)
        taps = base + reached
        w = kernel((taps - x) / stretch)
        column = np.clip(taps, 0, axis.size - 1)
        if exclude_outside:
            w = np.where(column == taps, w, 0)
            nothing = w.sum(1, keepdims=True) == 0
            w = np.where(nothing, taps == np.clip(base, 0, axis.size - 1), w)
        w = w / w.sum(1, keepdims=True)
        row = np.arange(begin, begin + len(x))[:, None]
        np.add.at(weights, (row, column), w)
    return weights, axis.outside(at)


def scale_axis(c: Lowering, x: Value, axis: int, weights: np.ndarray) -> Value:
    """`x` with logical `axis` multiplied by `weights` [out, size]."""
    shape, dtype = x.shape, x.dtype
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    last = inner == 1
    x = c.b.reshape(c.b.plain(x), (outer, shape[axis]) if last else (outer, shape[axis], inner))
    parts = []
    for outs, reads in _bands(weights):
        c.budget.step()
        part = strided(c, x, {1: (reads.start, reads.stop, 1)})
        w = weights[outs, reads].astype(dtype)
        parts.append(matmul(c, part, constant(w.T)) if last else matmul(c, constant(w), part))
    y = concat(c, parts, 1)
    return c.b.reshape(y, (*shape[:axis], weights.shape[0], *shape[axis + 1 :]))


#: Outputs of a band at least, and how many bands at most.
_BAND, _BANDS = 32, 16


def _bands(weights: np.ndarray) -> list[tuple[slice, slice]]:
    """Outputs in groups, and the inputs that each reads: most of the weights of a long axis are 0,
    and what is no number in one place is to stay near it."""
    out, size = weights.shape
    step = max(_BAND, math.ceil(out / _BANDS))
    bands, area = [], 0
    for begin in range(0, out, step):
        outs = slice(begin, min(begin + step, out))
        read = np.flatnonzero(weights[outs].any(0))
        reads = slice(int(read[0]), int(read[-1]) + 1) if read.size else slice(0, 1)
        bands.append((outs, reads))
        area += (outs.stop - outs.start) * (reads.stop - reads.start)
    return bands if 2 * area < out * size else [(slice(0, out), slice(0, size))]


@lowers(
    "Resize",
    "Upsample",
    to="ResizeNearestNeighbor, ResizeBilinear, Resize, Gather, FullyConnected",
)
def resize(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    shape = n.shape()
    mode = n.text("mode", "nearest")
    axes = _axes(c, n, x, shape)
    crop = n.text("coordinate_transformation_mode") == "tf_crop_and_resize"
    if not crop and shape == x.shape:  # ONNX Runtime copies it, whatever the scales are
        return x
    # A scale of 1.3 moves the coordinates of three pixels, though they stay three.
    changed = {i: a for i, a in axes.items() if crop or a.size != a.out or a.scale != 1}
    fill = n.number("extrapolation_value", 0.0) if crop else None
    if mode == "nearest":
        rule = n.text("nearest_mode", "round_prefer_floor")
        picked = {}
        for i, a in changed.items():
            if n.version < 11:
                # Resize says nothing; its test case and ONNX Runtime go up where an image shrinks.
                rule = "ceil" if a.scale < 1 and n.op == "Resize" else "floor"
            picked[i] = nearest_index(a, rule)
        outside = {i: a.outside(a.source(np.float32)) for i, a in changed.items() if crop}
        return _filled(c, _nearest(c, x, shape, picked), outside, fill)
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"mode {mode!r}")
    exclude = bool(n.integer("exclude_outside"))
    antialias = bool(n.integer("antialias"))
    if is_float(x.dtype):  # nothing is averaged where an image grows
        antialias = antialias and any(a.scale < 1 for a in changed.values())
    kernel, reach = (
        (_linear, 1) if mode == "linear" else (_cubic(n.number("cubic_coeff_a", -0.75)), 2)
    )
    given = x
    whole = not is_float(x.dtype)
    if whole:
        if x.dtype.itemsize > 2:
            raise Unsupported(f"interpolation of {x.dtype.name}: floats have not all its digits")
        x = cast(c, x, _FLOAT)
    # A crop has a value of its own beyond the borders.
    direct = x.dtype in (_FLOAT, np.float16) and not antialias and not crop
    y = _sized(c, n, x, changed, mode, exclude) if direct else None
    if y is None:
        tables = {
            i: matrix(c.budget, a, kernel, reach, antialias, exclude) for i, a in changed.items()
        }
        y = _interpolated(c, x, tables, fill, given.dtype if whole and antialias else None)
    if not whole:
        return y
    # Of integers: what is behind the point is cut off, as in ONNX's reference and ONNX Runtime.
    return cast(c, _within(c, y, given.dtype), given.dtype)


def _within(c: Lowering, x: Value, kind: np.dtype) -> Value:
    """Floats as far as an integer type goes."""
    low, high = limits(kind, None)
    x = nary(c, "ElementWiseMaximum", [x, scalar(low, _FLOAT)])
    return nary(c, "ElementWiseMinimum", [x, scalar(high, _FLOAT)])


def _interpolated(
    c: Lowering,
    x: Value,
    tables: dict[int, tuple[np.ndarray, np.ndarray]],
    fill: float | None,
    rounded: np.dtype | None,
) -> Value:
    """Along one axis after the other. Antialiased pixels that are integers are `rounded` to their
    type after each, as in ONNX Runtime, torch and Pillow; ONNX does not say."""
    for i, (weights, _) in reversed(tables.items()):
        x = scale_axis(c, x, i, weights)
        if rounded is not None:
            x = _within(c, unary(c, "ElementWiseFloor", plus(c, x, 0.5)), rounded)
    return _filled(c, x, {i: outside for i, (_, outside) in tables.items()}, fill)


def _filled(c: Lowering, x: Value, outside: dict[int, np.ndarray], fill: float | None) -> Value:
    """With the value that a crop has beyond the borders, by axis."""
    beyond = np.zeros((1,) * x.rank, bool)
    if fill is not None:
        for i, there in outside.items():
            beyond = beyond | there.reshape([-1 if d == i else 1 for d in range(x.rank)])
    if fill is None or not beyond.any():
        return x
    return select(c, constant(beyond), scalar(fill, x.dtype), x)


def _axes(c: Lowering, n: OnnxNode, x: Value, shape: tuple[int, ...]) -> dict[int, Axis]:
    transform = n.text(
        "coordinate_transformation_mode", "asymmetric" if n.version < 11 else "half_pixel"
    )
    old = n.version < 11  # Upsample, and Resize of opset 10: scales are input 1
    scales = n.const_input(1 if old else 2, "scales")
    if scales is None and n.attrs.get("scales") is not None:
        scales = np.array(n.attrs["scales"], np.float32)  # Upsample of opset 7
    sizes = None if old else n.const_input(3, "sizes")
    where = [axis_of(a, x.rank) for a in n.integers("axes") or range(x.rank)]
    roi = None if old else n.optional(1)
    crops = dict.fromkeys(where, (0.0, 1.0))
    if transform == "tf_crop_and_resize":
        if roi is None or roi.data is None:
            raise Unsupported("a roi that is not constant")
        flat = roi.data.ravel()
        crops = {a: (float(flat[i]), float(flat[i + len(where)])) for i, a in enumerate(where)}
    found = {}
    for i, a in enumerate(where):
        given = scales is not None and scales.size and not (sizes is not None and sizes.size)
        scale = float(np.asarray(scales).ravel()[i]) if given else None
        policy = n.text("keep_aspect_ratio_policy", "stretch")
        if not given and policy != "stretch" and sizes is not None:
            ratios = [s / x.shape[b] for s, b in zip(sizes.ravel().tolist(), where, strict=True)]
            scale = min(ratios) if policy == "not_larger" else max(ratios)
        c.budget.array((shape[a] + x.shape[a],), np.float64, "coordinates", copies=8)
        found[a] = Axis(x.shape[a], shape[a], scale, transform, crops[a])
    return found


def _image(
    c: Lowering, type_: str, x: Value, shape: tuple[int, ...], align: bool, half: bool
) -> Value:
    """One of the operations on images, which know TensorFlow's rules alone."""
    x = c.b.channels_last(x)
    rules = {"align_corners": np.bool_(align), "half_pixel_centers": np.bool_(half)}
    return c.b.op(type_, [x], shape, None, x.perm, **rules)


def _nearest(c: Lowering, x: Value, shape: tuple[int, ...], picked: dict[int, np.ndarray]) -> Value:
    if x.rank == 4 and set(picked) <= {2, 3} and x.dtype != np.float64:  # which it would round
        for align, half in ((False, False), (True, False), (False, True)):
            rules = [_tf_nearest(x.shape[i], shape[i], align, half) for i in (2, 3)]
            asked = [picked.get(i, np.arange(x.shape[i])) for i in (2, 3)]
            if all(np.array_equal(a, b) for a, b in zip(rules, asked, strict=True)):
                return _image(c, "ResizeNearestNeighbor", x, shape, align, half)
    for i, index in picked.items():
        x = gather_const(c, x, index, i)
    return x


def _tf_nearest(size: int, out: int, align: bool, half: bool) -> np.ndarray:
    """The index rule of ResizeNearestNeighbor."""
    scale = (size - 1) / (out - 1) if align and out > 1 else size / out
    i = np.arange(out)
    at = np.round((i + 0.5 if half else i) * scale, 9)
    return np.clip(np.floor(at + 0.5 if align else at).astype(np.int64), 0, size - 1)


#: How far a scale in float32 moves a coordinate from where the ratio of the sizes has it. A scale
#: that is not this ratio rounded moves it further: the operation, which only knows sizes, would
#: then be off by that much times the difference of two pixels.
_ROUNDING = 2.0**-22


#: ``transformation_mode`` of Resize.
_TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def _by_sizes(mode: str, size: int, out: int) -> np.ndarray:
    """The coordinates of QNN's operations, whose scale is the ratio of the sizes."""
    i = np.arange(out)
    if mode == "align_corners":
        return i * (size - 1) / (out - 1) if out > 1 else i * 0.0
    if mode == "asymmetric":
        return i * (size / out)
    if mode == "pytorch_half_pixel" and out == 1:
        return i * 0.0
    return (i + 0.5) * (size / out) - 0.5


def _transform(changed: dict[int, Axis], linear: bool) -> str | None:
    """The transformation mode of QNN's that has the coordinates of all axes, if there is one."""
    for mode in _TRANSFORMS:
        for a in changed.values():
            at, given = _by_sizes(mode, a.size, a.out), a.source()
            if linear:  # which has no pixels beyond the borders
                at, given = (np.clip(v, 0, a.size - 1) for v in (at, given))
            if not np.allclose(at, given, rtol=_ROUNDING, atol=_ROUNDING):
                break
        else:
            return mode
    return None


def _sized(
    c: Lowering, n: OnnxNode, x: Value, changed: dict[int, Axis], mode: str, exclude: bool
) -> Value | None:
    """By QNN's operations, where their coordinates are the same: up to three neighbouring axes at
    a time. An operation reads the pixels around a place and nothing else, so that what is infinite
    or no number stays where it is."""
    linear = mode == "linear"
    transform = _transform(changed, linear)
    if transform is None:
        return None
    if linear and x.rank == 4 and set(changed) <= {2, 3} and transform != "pytorch_half_pixel":
        shape = tuple(changed[i].out if i in changed else d for i, d in enumerate(x.shape))
        align, half = transform == "align_corners", transform == "half_pixel"
        return _image(c, "ResizeBilinear", x, shape, align, half)
    rules: dict[str, Any] = {
        "transformation_mode": np.uint32(_TRANSFORMS.index(transform)),
        "interpolation_mode": np.uint32(1 if linear else 2),
        "exclude_outside": np.bool_(exclude and not linear),
        "cubic_coeff": np.float32(n.number("cubic_coeff_a", -0.75)),
    }
    for first, last in _neighbours(sorted(changed)):
        outs = [changed[i].out for i in range(first, last)]
        shape = (*x.shape[:first], *outs, *x.shape[last:])
        inner, sizes = math.prod(x.shape[last:]), x.shape[first:last]
        if inner > 1:  # what lies behind the axes goes as channels
            x = c.b.reshape(c.b.plain(x), (math.prod(x.shape[:first]), *sizes, inner))
            y = c.b.op("Resize", [x], (x.shape[0], *outs, inner), **rules)
        else:
            channels = x.shape[first - 1] if first > 0 else 1
            batch = math.prod(x.shape[: max(first - 1, 0)])
            if x.shape != (batch, channels, *sizes):
                x = c.b.reshape(c.b.plain(x), (batch, channels, *sizes))
            x = c.b.channels_last(x)
            y = c.b.op("Resize", [x], (batch, channels, *outs), None, x.perm, **rules)
        x = y if y.shape == shape else c.b.reshape(y, shape)
    return x


def _neighbours(axes: list[int]) -> list[tuple[int, int]]:
    """First and last (excluded) of those that follow each other, three at most."""
    found: list[tuple[int, int]] = []
    for a in axes:
        if found and found[-1][1] == a and a - found[-1][0] < 3:
            found[-1] = found[-1][0], a + 1
        else:
            found.append((a, a + 1))
    return found
