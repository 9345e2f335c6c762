"""Pooling. One- and three-dimensional pools are made of two-dimensional ones."""

from __future__ import annotations

import copy
import math

import numpy as np

from ...dtypes import is_float
from ..shorthand import u32
from .common import (
    add,
    cast,
    mul,
    nary,
    pad_constant,
    reduce,
    scalar,
    select,
    strided,
    times,
    unary,
    widened,
)
from .nodes import Lowering, OnnxNode, Result, Unsupported, lowers
from .op_conv import widen
from .values import Value, constant
from .windows import list_attr, padding


class Window:
    """Kernel, stride, dilation and padding of a pool, with the padding that its output needs."""

    def __init__(self, n: OnnxNode, x: Value) -> None:
        rank = x.rank - 2
        self.size = list(x.shape[2:])
        self.kernel = n.integers("kernel_shape") or []
        self.stride = list_attr(n, "strides", rank, 1)
        self.dilation = list_attr(n, "dilations", rank, 1)
        self.pads = padding(n, self.size, self.kernel, self.stride, self.dilation)
        self.out = list(n.shape()[2:])
        # ceil_mode: what the last window reaches beyond the declared padding.
        self.beyond = [
            max((o - 1) * s + (k - 1) * d + 1 - size - b - e, 0)
            for o, s, k, d, size, (b, e) in zip(
                self.out,
                self.stride,
                self.kernel,
                self.dilation,
                self.size,
                self.pads,
                strict=True,
            )
        ]

    def without_dilation(
        self, size: list[int], begin: list[int], out: list[int] | None = None
    ) -> Window:
        """The same windows of a part of the pixels, whose padding begins there."""
        w = copy.copy(self)
        w.size, w.out, w.dilation = size, out or self.out, [1] * len(size)
        if out is None:
            w.stride = [s // d for s, d in zip(self.stride, self.dilation, strict=True)]
        w.pads = [
            (b, max((o - 1) * s + k - b - n, 0))
            for b, o, s, k, n in zip(begin, w.out, w.stride, w.kernel, size, strict=True)
        ]
        return w

    def reach(self, i: int, tap: int) -> tuple[int, int, int]:
        """What one tap of all windows reads of the padded input along spatial dimension i."""
        begin = tap * self.dilation[i]
        return begin, begin + (self.out[i] - 1) * self.stride[i] + 1, self.stride[i]

    def padded(self, i: int) -> tuple[int, int]:
        begin, end = self.pads[i]
        return begin, end + self.beyond[i]

    def counts(self, c: Lowering, i: int, with_padding: bool) -> np.ndarray:
        """How many elements each window has along spatial dimension i."""
        c.budget.array((self.out[i], self.kernel[i]), np.int64, "the places of windows", copies=3)
        begin, end = self.pads[i] if with_padding else (0, 0)
        low, high = -begin, self.size[i] + end
        starts = np.arange(self.out[i]) * self.stride[i] - self.pads[i][0]
        taps = starts[:, None] + np.arange(self.kernel[i]) * self.dilation[i]
        return np.asarray(((taps >= low) & (taps < high)).sum(1))


def pool2d(
    c: Lowering,
    kind: str,
    x: Value,
    kernel: list[int],
    stride: list[int],
    pads: list[tuple[int, int]],
    out: list[int],
    **params: object,
) -> Value:
    x = c.b.channels_last(x)
    return c.b.op(
        kind,
        [x],
        (*x.shape[:2], *out),
        None,
        x.perm,
        filter_size=u32(kernel),
        stride=u32(stride),
        pad_amount=u32(pads),
        **params,
    )


def pool(c: Lowering, x: Value, w: Window, kind: str, **params: object) -> Value:
    """A pool over one, two or three dimensions without dilation."""
    pads = [w.padded(i) for i in range(len(w.kernel))]
    if len(w.kernel) == 1:
        y = pool2d(
            c,
            kind,
            widen(c, x),
            [1, *w.kernel],
            [1, *w.stride],
            [(0, 0), *pads],
            [1, *w.out],
            **params,
        )
        return c.b.reshape(y, (*x.shape[:2], *w.out))
    if len(w.kernel) == 2:
        return pool2d(c, kind, x, w.kernel, w.stride, pads, w.out, **params)
    if len(w.kernel) != 3:
        raise Unsupported(f"a pool over {len(w.kernel)} dimensions")
    # Separable: height and width with the depth as further images, then the depth.
    batch, channels, depth = x.shape[:3]
    images = c.b.reshape(c.b.transpose(x, (0, 2, 1, 3, 4)), (batch * depth, channels, *x.shape[3:]))
    flat = pool2d(c, kind, images, w.kernel[1:], w.stride[1:], pads[1:], w.out[1:], **params)
    area = w.out[1] * w.out[2]
    columns = c.b.reshape(c.b.channels_last(flat), (batch, depth, channels, area))
    columns = c.b.transpose(columns, (0, 2, 1, 3))
    y = pool2d(
        c,
        kind,
        columns,
        [w.kernel[0], 1],
        [w.stride[0], 1],
        [pads[0], (0, 0)],
        [w.out[0], area],
        **params,
    )
    return c.b.reshape(y, (batch, channels, *w.out))


def taps(c: Lowering, x: Value, w: Window, fill: float) -> list[Value]:
    """One strided view of the padded input for each position in the kernel."""
    pads = [(0, 0), (0, 0), *(w.padded(i) for i in range(len(w.kernel)))]
    x = pad_constant(c, x, pads, fill)
    views = []
    for position in np.ndindex(*w.kernel):
        c.budget.step()
        views.append(strided(c, x, {i + 2: w.reach(i, p) for i, p in enumerate(position)}))
    return views


def by_phases(c: Lowering, x: Value, w: Window, kind: str, **params: object) -> Value | None:
    """A dilated pool as one without dilation: where the steps are multiples of the dilation all
    windows read one pixel in `dilation`; where they are 1, what each phase reads is an image."""
    if any(w.beyond):
        return None
    steps = list(zip(w.size, w.kernel, w.stride, w.dilation, w.pads, w.out, strict=True))
    first = [-begin % d for _, _, _, d, (begin, _), _ in steps]
    if all(s % d == 0 and size > r for (size, _, s, d, _, _), r in zip(steps, first, strict=True)):
        x = strided(c, x, {i + 2: (r, w.size[i], w.dilation[i]) for i, r in enumerate(first)})
        pads = [
            (begin + r) // d for (_, _, _, d, (begin, _), _), r in zip(steps, first, strict=True)
        ]
        return pool(c, x, w.without_dilation(list(x.shape[2:]), pads), kind, **params)
    # Of large images moving the phases takes longer than reading each axis once.
    images = (
        len(w.kernel) == 2
        and math.prod(w.size) < 28 * 28
        and all(
            s == 1 and size % d == 0 and begin % d == 0 and out % d == 0 and size >= d
            for size, _, s, d, (begin, _), out in steps
        )
    )
    if not images:
        return None
    batch, channels = x.shape[:2]
    many = batch * math.prod(w.dilation)
    size = [n // d for n, d in zip(w.size, w.dilation, strict=True)]
    pads = [begin // d for (begin, _), d in zip(w.pads, w.dilation, strict=True)]
    out = [n // d for n, d in zip(w.out, w.dilation, strict=True)]
    x = c.b.channels_last(x)
    block = {"block_size": u32(w.dilation)}
    none = u32([[0, 0], [0, 0]])
    x = c.b.op("SpaceToBatch", [x], (many, channels, *size), None, x.perm, pad_amount=none, **block)
    y = pool(c, x, w.without_dilation(size, pads, out), kind, **params)
    shape = (batch, channels, *w.out)
    return c.b.op("BatchToSpace", [y], shape, None, y.perm, crops=none, **block)


def over_taps(c: Lowering, x: Value, w: Window, fill: float, kind: str) -> Value:
    """A dilated pool as an elementwise operation `kind` of the taps, one dimension after the
    other."""
    pads = [(0, 0), (0, 0), *(w.padded(i) for i in range(len(w.kernel)))]
    x = pad_constant(c, x, pads, fill)
    for i, size in enumerate(w.kernel):
        taps = x
        for p in range(size):
            c.budget.step()
            view = strided(c, taps, {i + 2: w.reach(i, p)})
            x = nary(c, kind, [x, view]) if p else view
    return x


@lowers("MaxPool", to="PoolMax2d")
def max_pool(c: Lowering, n: OnnxNode) -> Result:
    x = n.input(0)
    w = Window(n, x)
    wide = x.dtype == np.float64  # which QNN's pool would round to 32 bits
    if all(d == 1 for d in w.dilation) and not n.wants(1) and not wide:
        return pool(c, x, w, "PoolMax2d")
    lowest = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    if n.wants(1):
        views = taps(c, x, w, lowest)
        return _with_places(c, w, views, x.shape, bool(n.integer("storage_order")))
    y = None if wide else by_phases(c, x, w, "PoolMax2d")
    return over_taps(c, x, w, lowest, "ElementWiseMaximum") if y is None else y


def _with_places(
    c: Lowering, w: Window, views: list[Value], shape: tuple[int, ...], columns: bool
) -> Result:
    """The maxima, and where each lies in the whole input: the first of equal ones."""
    if math.prod(shape) > np.iinfo(np.int32).max:
        raise Unsupported(f"places in {math.prod(shape)} elements")
    size, rank = shape[2:], len(w.kernel)
    step = [math.prod(size[:i]) if columns else math.prod(size[i + 1 :]) for i in range(rank)]
    places = []  # of each tap for each window; -1 in the padding
    for position in np.ndindex(*w.kernel):
        c.budget.array(w.out, np.int32, "the places of windows", copies=4)
        total, inside = np.zeros(w.out, np.int32), np.ones(w.out, bool)
        for i, p in enumerate(position):
            at = np.arange(w.out[i]) * w.stride[i] - w.pads[i][0] + p * w.dilation[i]
            at = at.reshape([-1 if j == i else 1 for j in range(rank)])
            total = total + at * step[i]
            inside = inside & (at >= 0) & (at < size[i])
        places.append(np.where(inside, total, -1).astype(np.int32)[None, None])
    padded = any((place < 0).any() for place in places)
    best, at = views[0], constant(places[0])
    boolean = np.dtype(bool)
    for view, place in zip(views[1:], places[1:], strict=True):
        better = nary(c, "ElementWiseGreater", [view, best], boolean)
        if padded:  # what is in the padding is no maximum
            none = nary(c, "ElementWiseLess", [at, scalar(0, at.dtype)], boolean)
            first = nary(c, "ElementWiseAnd", [none, constant(place >= 0)], boolean)
            there = nary(c, "ElementWiseAnd", [better, constant(place >= 0)], boolean)
            better = nary(c, "ElementWiseOr", [there, first], boolean)
        best = nary(c, "ElementWiseMaximum", [best, view])
        at = select(c, better, constant(place), at)
    images = np.arange(math.prod(shape[:2]), dtype=np.int32) * math.prod(size)
    at = add(c, at, constant(images.reshape(*shape[:2], *[1] * rank)))
    at = cast(c, at, np.dtype(np.int64))
    at.pooled = None if columns else shape
    return [best, at]


def average(c: Lowering, x: Value, w: Window, with_padding: bool) -> Value:
    rank = len(w.kernel)
    if all(d == 1 for d in w.dilation) and not (with_padding and any(w.beyond)):
        return pool(c, x, w, "PoolAvg2d", count_pad_for_edges=np.bool_(with_padding))
    phases = by_phases(c, x, w, "PoolAvg2d", count_pad_for_edges=np.bool_(with_padding))
    if phases is not None:
        return phases
    if all(d == 1 for d in w.dilation):
        mean = pool(c, x, w, "PoolAvg2d", count_pad_for_edges=np.bool_(True))
        area = float(math.prod(w.kernel))
    else:
        mean = over_taps(c, x, w, 0.0, "ElementWiseAdd")
        area = 1.0
    c.budget.array(w.out, np.float64, "the sizes of windows", copies=4)
    counts = np.ones((1,) * (rank + 2))
    for i in range(rank):
        along = [1] * (rank + 2)
        along[i + 2] = w.out[i]
        counts = counts * w.counts(c, i, with_padding).reshape(along)
    return mul(c, mean, constant((area / np.maximum(counts, 1)).astype(x.dtype)))


@lowers("AveragePool", to="PoolAvg2d")
def average_pool(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return average(c, x, Window(n, x), bool(n.integer("count_include_pad")))


@lowers("LpPool", to="PoolAvg2d, ElementWisePower")
def lp_pool(c: Lowering, n: OnnxNode) -> Value:
    x = widened(c, n.input(0))
    w = Window(n, x)
    p = n.integer("p", 2)
    powers = nary(c, "ElementWisePower", [unary(c, "ElementWiseAbs", x), scalar(p, x.dtype)])
    if all(d == 1 for d in w.dilation):
        mean = pool(c, powers, w, "PoolAvg2d", count_pad_for_edges=np.bool_(True))
        total = times(c, mean, float(math.prod(w.kernel)))
    else:
        total = over_taps(c, powers, w, 0.0, "ElementWiseAdd")
    return cast(c, nary(c, "ElementWisePower", [total, scalar(1 / p, x.dtype)]), n.input(0).dtype)


@lowers("GlobalAveragePool", to="PoolAvg2d, ReduceMean")
def global_average_pool(c: Lowering, n: OnnxNode) -> Value:
    return _global(c, n.input(0), "PoolAvg2d", "ReduceMean", count_pad_for_edges=np.bool_(False))


@lowers("GlobalMaxPool", to="PoolMax2d, ReduceMax")
def global_max_pool(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if x.dtype == np.float64:
        return reduce(c, "ReduceMax", x, range(2, x.rank))
    return _global(c, x, "PoolMax2d", "ReduceMax")


def _global(c: Lowering, x: Value, kind: str, other: str, **params: object) -> Value:
    if x.rank != 4:
        return reduce(c, other, x, range(2, x.rank))
    size = list(x.shape[2:])
    return pool2d(c, kind, x, size, size, [(0, 0), (0, 0)], [1, 1], **params)


@lowers("GlobalLpPool", to="ElementWisePower, ReduceSum")
def global_lp_pool(c: Lowering, n: OnnxNode) -> Value:
    x, p = widened(c, n.input(0)), n.integer("p", 2)
    powers = nary(c, "ElementWisePower", [unary(c, "ElementWiseAbs", x), scalar(p, x.dtype)])
    total = reduce(c, "ReduceSum", powers, range(2, x.rank))
    return cast(c, nary(c, "ElementWisePower", [total, scalar(1 / p, x.dtype)]), n.input(0).dtype)
