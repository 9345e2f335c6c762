"""Windows that move along rows of which the data decide how many count, and sequences of them.

What lies behind the rows that count is made what such an operator has behind the end of a tensor:
zeros, or what changes no maximum. How many of the results count follows as their size would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .counts import Number, from_there, more_rows, once, parts, times
from .nodes import OnnxNode, Unsupported, axis_of
from .resized import resized
from .rows import all_rows, counting, lowest, taken_by, within
from .scope import Lower, Results, Scope
from .values import Value, constant

_OF_SIZE = "images of which the data decide how large they are"


def _along(n: OnnxNode) -> Value | None:
    """The input, if its rows lie along an axis that windows move over, and no other has such."""
    x = n.input(0)
    counted = [i for i, v in enumerate(n.inputs) if v is not None and v.count is not None]
    return x if counted == [0] and x.axis >= 2 else None


def _whole(number: int) -> Value:
    return constant(np.array([number]))


class _Window:
    """The numbers of a node that are about the axis of the rows."""

    def __init__(self, n: OnnxNode, x: Value, kernel: Sequence[int]) -> None:
        spatial, at = x.rank - 2, x.axis - 2
        if len(kernel) != spatial:
            raise ValueError(f"a kernel of {len(kernel)} dimensions over {spatial}")
        self.stride = (n.integers("strides") or [1] * spatial)[at]
        dilation = (n.integers("dilations") or [1] * spatial)[at]
        self.reach = dilation * (kernel[at] - 1)
        pads = n.integers("pads") or [0] * 2 * spatial
        self.before, self.behind = pads[at], pads[at + spatial]
        self.same = n.text("auto_pad", "NOTSET").startswith("SAME")
        if n.text("auto_pad", "NOTSET") != "NOTSET":
            self.before = self.behind = 0

    def count(self, g: Scope, count: Number) -> Number:
        if self.same and self.stride != 1:  # where the padding lies depends on the size
            raise Unsupported(_OF_SIZE)
        gone = 0 if self.same else self.reach - self.before - self.behind
        return from_there(g, count, gone, self.stride)


def _kept(found: Results, count: Number, axis: int) -> Results:
    return [replace(v, count=count, axis=axis) if isinstance(v, Value) else v for v in found]


@taken_by("Conv")
def _conv(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    window = _Window(n, x, n.input(1).shape[2:])
    assert x.count is not None
    count = window.count(g, x.count)
    # One place alone sees nothing of the others.
    alone = window.reach == 0 and window.before == window.behind == 0 and window.stride == 1
    n.inputs = [all_rows(x) if alone else counting(g, x, 0), *n.inputs[1:]]
    return _kept(lower(), count, x.axis)


@taken_by("ConvTranspose")
def _transposed(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    if n.integers("output_shape"):
        raise Unsupported(_OF_SIZE)
    window = _Window(n, x, n.input(1).shape[2:])
    more = (n.integers("output_padding") or [0] * (x.rank - 2))[x.axis - 2]
    more += window.reach + 1 - window.stride - window.before - window.behind
    assert x.count is not None
    count = times(g, x.count, window.stride)
    n.inputs = [counting(g, x, 0), *n.inputs[1:]]
    return _kept(lower(), count if window.same else more_rows(g, count, more), x.axis)


@taken_by("AveragePool", "LpPool", "MaxPool")
def _pool(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    window = _Window(n, x, n.integers("kernel_shape") or [])
    cut = window.behind or window.same  # a window may reach over the end
    exact = n.op != "AveragePool" or n.integer("count_include_pad") or not cut
    rounded = n.integer("ceil_mode") and window.stride != 1
    if rounded or not exact or any(n.outputs[1:]):
        raise Unsupported(_OF_SIZE)
    assert x.count is not None
    count = window.count(g, x.count)
    n.inputs = [counting(g, x, lowest(x.dtype) if n.op == "MaxPool" else 0)]
    return _kept(lower(), count, x.axis)


@taken_by("GlobalAveragePool", "GlobalMaxPool")
def _globally(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    op = "ReduceMean" if n.op == "GlobalAveragePool" else "ReduceMax"
    return [g.emitted(op, [x, constant(np.arange(2, x.rank))], keepdims=1)]


@taken_by("InstanceNormalization")
def _norm(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    axes, column = constant(np.arange(2, x.rank)), (-1, *(1,) * (x.rank - 2))
    less = g.emitted("Sub", [x, g.emitted("ReduceMean", [x, axes], keepdims=1)])
    square = g.emitted("ReduceMean", [g.emitted("Mul", [less, less]), axes], keepdims=1)
    least = constant(np.array(n.number("epsilon", 1e-5), x.dtype))
    y = g.emitted("Div", [less, g.emitted("Sqrt", [g.emitted("Add", [square, least])])])
    scale, shift = (g.emitted("Reshape", [n.input(i), constant(np.array(column))]) for i in (1, 2))
    return [g.emitted("Add", [g.emitted("Mul", [y, scale]), shift])]


@taken_by("Pad")
def _pad(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    pads = n.axes("pads", 1)
    if x.count is None or pads is None:
        return None
    axes = n.axes("axes", 3) or list(range(x.rank))
    at = [i for i, a in enumerate(axes) if axis_of(a, x.rank) == x.axis]
    if not at:
        return None
    before, behind = pads[at[0]], pads[at[0] + len(axes)]
    if before == behind == 0:
        return None
    if min(before, behind) < 0:
        raise Unsupported("fewer rows than the data decide")
    mode, count = n.text("mode", "constant"), x.count
    if mode == "constant":
        fill = n.optional(2)
        if fill is not None and not fill.is_const:
            raise Unsupported("computed padding of rows of which the data decide how many count")
        n.inputs = [counting(g, x, 0 if fill is None else fill.const.reshape(-1)[0]), *n.inputs[1:]]
        return _kept(lower(), more_rows(g, count, before + behind), x.axis)
    if sum(map(abs, pads)) != before + behind:
        raise Unsupported("rows of which the data decide how many count, continued along two axes")
    places = constant(np.arange(-before, x.shape[x.axis] + behind))
    if mode == "reflect":
        last = _last(g, count)
        back = g.emitted("Sub", [last, g.emitted("Abs", [places])])
        places = g.emitted("Sub", [last, g.emitted("Abs", [back])])
    elif mode == "wrap":
        places = g.emitted("Mod", [places, g.emitted("Max", [count, _whole(1)])])
    made = _gathered(g, x, places)
    return [replace(made, count=more_rows(g, count, before + behind), axis=x.axis)]


def _last(g: Scope, count: Number) -> Value:
    """The place of the last one that counts; -1 where none does."""
    return once(g, ("last", count), lambda: g.emitted("Sub", [count, _whole(1)]))


def _gathered(g: Scope, x: Value, places: Value) -> Value:
    """The rows at these places; the first or the last of those that count for places beyond."""
    assert x.count is not None
    places = within(g, places, _last(g, x.count))
    return g.emitted("Gather", [all_rows(x), places], axis=x.axis)


#: How places of a result become those of the input, where its size does not matter.
_BY_SCALE = {"half_pixel", "pytorch_half_pixel", "asymmetric"}


@taken_by("Resize")
def _resize(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if (x := _along(n)) is None:
        return None
    if n.has(3) and n.input(3).is_const:
        return resized(g, n, lower)
    scales = n.optional(2)
    how = n.text("coordinate_transformation_mode", "half_pixel")
    known = scales is not None and scales.is_const and scales.const.size == x.rank
    if not known or how not in _BY_SCALE or n.integers("axes") or n.integer("antialias"):
        raise Unsupported(_OF_SIZE)
    assert scales is not None
    assert x.count is not None
    scale = float(scales.const.reshape(-1)[x.axis])
    up, down = round(scale), round(1 / scale)
    if scale not in (up, 1 / max(down, 1)):
        raise Unsupported(_OF_SIZE)
    count = times(g, x.count, up) if scale >= 1 else parts(g, x.count, down)
    every = constant(np.arange(x.shape[x.axis]))  # behind the end it is as at the end
    n.inputs = [_gathered(g, x, every), *n.inputs[1:]]
    return _kept(lower(), count, x.axis)


@taken_by("GRU", "LSTM", "RNN")
def _recurrent(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """As many steps as rows count."""
    x, given = n.input(0), n.optional(4)
    if x.count is None:
        return None
    steps, batches = (1, 0) if n.integer("layout") else (0, 1)
    others = [v for i, v in enumerate(n.inputs) if i and v is not None and v.count is not None]
    if x.axis != steps or others:
        raise Unsupported("as many sequences as the data decide")
    found: Results
    if given is not None:
        n.inputs = [counting(g, x, 0), *n.inputs[1:]]
        found = lower()
    else:
        size = constant(np.array([x.shape[batches]]))
        lengths = g.emitted("Expand", [g.emitted("Cast", [x.count], to=6), size])
        directions, gates, _ = n.input(1).shape
        bias = n.optional(3) or constant(np.zeros((directions, 2 * gates), x.dtype))
        values = [counting(g, x, 0), *n.inputs[1:3], bias, lengths, *n.inputs[5:]]
        if None in values:
            raise Unsupported("as many steps as the data decide, with states that are left out")
        known = [v for v in values if v is not None]
        attributes = {name: v for name, v in n.attrs.items() if v is not None}
        found = g.emitted_many(n.op, known, 3 if n.op == "LSTM" else 2, **attributes)
    return [*_kept(found[:1], x.count, steps), *found[1:]]
