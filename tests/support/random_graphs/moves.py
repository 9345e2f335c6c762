"""Blocks that move elements, or look at an axis."""

from __future__ import annotations

import math

import numpy as np

from .net import Batch, Net, Shape, Skip, block, is_open


def _fixed(s: Shape, least: int = 1) -> list[int]:
    """The axes whose size is known, and at least this."""
    return [i for i, d in enumerate(s) if not isinstance(d, Batch) and d >= least]


def _axis(g: Net, s: Shape, least: int = 1) -> int:
    axes = _fixed(s, least)
    if not axes:
        raise Skip
    return g.choice(axes)


@block(3)
def transposes(g: Net) -> str:
    """One, with or without one that takes it back."""
    x = g.pick(fits=lambda s: len(s) >= 2)
    rank = len(g.shape(x))
    perm = g.order(rank)
    y = g.transpose(x, *perm)
    if g.chance(0.5):
        y = g.op(g.choice(["Relu", "Sigmoid", "Neg"]), [y])
    if g.chance(0.3):
        y = g.transpose(y, *(perm.index(i) for i in range(rank)))
    elif g.chance(0.3):
        y = g.transpose(y, *g.order(rank))
    return y


@block(3)
def reshapes(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    kind = g.choice(["merge", "split", "flatten", "unsqueeze", "squeeze"])
    if kind == "merge":
        pairs = [i for i in range(len(s) - 1) if not is_open(s[i : i + 2])]
        i = g.choice(pairs or [0])
        if pairs and len(s) > 2:
            return g.reshape(x, *s[:i], s[i] * s[i + 1], *s[i + 2 :])
    elif kind == "split" and len(s) < 5:
        i = _axis(g, s)
        part = g.choice([d for d in range(1, s[i] + 1) if s[i] % d == 0])
        return g.reshape(x, *s[:i], part, s[i] // part, *s[i + 1 :])
    elif kind == "unsqueeze" and len(s) < 5:
        return g.unsqueeze(x, g.between(0, len(s)))
    elif kind == "squeeze":
        single = [i for i in _fixed(s) if s[i] == 1]
        if single and len(s) > 1:
            return g.squeeze(x, g.choice(single))
    elif kind == "flatten" and isinstance(s[0], Batch) and not is_open(s[1:]):
        return g.op("Flatten", [x], (s[0], math.prod(s[1:])), axis=1)
    raise Skip


@block(3)
def split_and_concat(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    axis = _axis(g, s, 2)
    cuts = sorted(c + 1 for c in g.order(s[axis] - 1)[: g.between(1, 2)])
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, s[axis]], strict=True)]
    parts = [
        g.op(g.choice(["Relu", "Tanh", "Sigmoid", "Neg"]), [p]) if g.chance(0.4) else p
        for p in g.split(x, axis, sizes)
    ]
    parts = [parts[i] for i in g.order(len(parts))]
    if g.chance(0.2):
        parts.append(parts[0])
    return g.concat(parts, axis) if g.chance(0.8) else parts[0]


@block(2)
def concats(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    axis = _axis(g, s)

    def alike(t: Shape) -> bool:
        rest = [(*v[:axis], *v[axis + 1 :]) for v in (s, t)]
        opens = [[isinstance(d, Batch) for d in v] for v in (s, t)]
        return len(s) == len(t) and rest[0] == rest[1] and opens[0] == opens[1]

    parts = [x, *(g.pick(fits=alike) for _ in range(g.between(1, 3)))]
    if g.chance(0.2) and not is_open(s):
        parts.append(g.weights(*s, scale=1))
    return g.concat(parts, axis)


@block(2)
def slices(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    axis = _axis(g, s, 2)
    size = s[axis]
    if g.chance(0.2):
        return g.slice(x, axis, g.choice([size - 1, -1]), None, -1)
    begin = g.between(0, size - 1)
    end = g.between(begin + 1, size)
    return g.slice(x, axis, begin, g.choice([end, end - size or None]), g.choice([1, 1, 1, 2]))


@block()
def roll(g: Net) -> str:
    x = g.pick()
    axis = _axis(g, g.shape(x), 2)
    first = g.between(1, g.shape(x)[axis] - 1)
    return g.concat([g.slice(x, axis, first, None), g.slice(x, axis, 0, first)], axis)


@block(2)
def pads(g: Net) -> str:
    x, mode = g.pick(), g.choice(["constant", "constant", "reflect", "edge"])
    s = g.shape(x)
    fixed = _fixed(s, 2 if mode == "reflect" else 1)
    amounts = [int(i in fixed and g.chance(0.4)) for _ in "<>" for i in range(len(s))]
    if mode == "constant" and g.chance(0.2):  # negative ones cut off
        amounts = [-a if s[i % len(s)] > 2 else a for i, a in enumerate(amounts)]
    shape = [
        d if isinstance(d, Batch) else d + amounts[i] + amounts[i + len(s)] for i, d in enumerate(s)
    ]
    value = g.choice([0.0, 0.0, 1.5])
    if g.opset < 11:
        return g.op("Pad", [x], shape, pads=amounts, mode=mode, value=value)
    given = [g.const(value)] if mode == "constant" and g.chance(0.6) else []
    return g.op("Pad", [x, g.ints(*amounts), *given], shape, mode=mode)


@block()
def gathers(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    axis = _axis(g, s)
    form = g.choice([(), (1,), (2,), (2, 2), (s[axis],)])
    indices = g.rng.integers(-s[axis] if g.opset >= 11 else 0, s[axis], form)
    shape = (*s[:axis], *form, *s[axis + 1 :])
    if not shape:
        raise Skip
    return g.op("Gather", [x, g.const(indices, np.int64)], shape, axis=axis)


@block()
def repeats(g: Net) -> str:
    x = g.pick(fits=lambda s: math.prod(s) <= 600)
    s = g.shape(x)
    fixed = _fixed(s)
    if g.chance(0.5):
        times = [g.choice([1, 1, 2]) if i in fixed else 1 for i in range(len(s))]
        shape = [d * n if n > 1 else d for d, n in zip(s, times, strict=True)]
        return g.op("Tile", [x, g.ints(*times)], shape)
    if g.opset < 8:
        raise Skip
    shape = [g.between(2, 3) if i in fixed and d == 1 and g.chance(0.7) else d
             for i, d in enumerate(s)]  # fmt: skip
    return g.op("Expand", [x, g.ints(*(1 if isinstance(d, Batch) else d for d in shape))], shape)


# ---- along an axis

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMean",
              "ReduceMin", "ReduceSum", "ReduceSumSquare")  # fmt: skip


@block(3)
def reductions(g: Net) -> str:
    x = g.pick(fits=lambda s: len(s) >= 2)
    rank = len(g.shape(x))
    axes = sorted(g.order(rank)[: g.between(1, 2)])
    keep = 1 if len(axes) == rank else g.between(0, 1)
    if g.chance(0.4):
        axes = [a - rank for a in axes]
    return g.reduce(g.choice(REDUCTIONS), x, axes, keep)


@block(2)
def softmax(g: Net) -> str:
    x = g.pick()
    s = g.shape(x)
    axis = _axis(g, s)
    if g.opset < 13 and axis == 0:
        raise Skip
    from_end = g.opset >= 11 and g.chance(0.5)
    return g.op(g.choice(["Softmax", "Softmax", "LogSoftmax"]), [x],
                axis=axis - len(s) if from_end else axis)  # fmt: skip


@block()
def running_sum(g: Net) -> str:
    if g.opset < 11:
        raise Skip
    x = g.pick(fits=lambda s: len(s) >= 1)
    axis = g.const(g.between(0, len(g.shape(x)) - 1), np.int64)
    return g.op("CumSum", [x, axis], exclusive=g.between(0, 1), reverse=g.between(0, 1))


@block()
def triangle(g: Net) -> str:
    if g.opset < 14:
        raise Skip
    x = g.pick(fits=lambda s: len(s) >= 2)
    return g.op("Trilu", [x, g.const(g.between(-1, 1), np.int64)], upper=g.between(0, 1))


@block()
def largest(g: Net) -> str:
    if g.opset < 11:
        raise Skip
    x = g.pick()
    s = list(g.shape(x))
    axis = _axis(g, g.shape(x))
    s[axis] = g.between(1, s[axis])
    values, places = g.results("TopK", [x, g.ints(s[axis])], [s, s], axis=axis,
                               largest=g.between(0, 1))  # fmt: skip
    g.aside.add(places)
    return values
