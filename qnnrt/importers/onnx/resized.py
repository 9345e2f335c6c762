"""Resize to sizes that the data decide, or of as many rows as they decide: of each place of a
result the graph computes which rows of the input lie beside it, and how near they are.
"""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import is_float
from .counts import Number, along, axes_of, plain
from .nodes import OnnxNode, Unsupported, axis_of
from .rows import all_rows, within
from .scope import Lower, Results, Scope
from .sizes import SIZED
from .values import Value, constant

_MODES = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}

#: A size: known, or a number of the graph with the most that it can be.
_Size = tuple[int, Number | None]


def resized(g: Scope, n: OnnxNode, lower: Lower) -> Results:
    """The results of a node that is given sizes."""
    x, sizes = n.input(0), n.input(3)
    axes = [axis_of(a, x.rank) for a in n.integers("axes") or range(x.rank)]
    before, after = axes_of(x), axes_of(x)
    known, computed = list(x.shape), {}
    numbers = sizes.sizes or [None] * len(axes)
    for axis, most, number in zip(axes, sizes.const.reshape(-1).tolist(), numbers, strict=True):
        given, wanted = (x.shape[axis], before.get(axis)), (int(most), number)
        if given == wanted or (number is not None and number is before.get(axis)):
            continue
        if given[1] is None and number is None:
            known[axis] = int(most)
            continue
        computed[axis] = given, wanted
        after.pop(axis, None)
        if number is not None:
            after[axis] = number
    if not computed:  # other axes than those
        n.inputs = [all_rows(x), *n.inputs[1:3], plain(sizes)]
        return [along(v, after) if isinstance(v, Value) else v for v in lower()]
    mode = n.text("mode", "nearest")
    between = mode in ("cubic", "linear")
    if (
        (between and not is_float(x.dtype))
        or n.integer("antialias")
        or n.integer("exclude_outside")
    ):
        raise Unsupported("an image resized to a size that the data decide, of integers or with "
                          "antialias or exclude_outside")  # fmt: skip
    how = n.text("coordinate_transformation_mode", "half_pixel")
    if how not in _MODES or n.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported(f"an image resized to a size that the data decide, by {how!r} or in "
                          "proportion")  # fmt: skip
    y = all_rows(x)
    for axis, (given, wanted) in computed.items():
        g.budget.array((wanted[0],), np.float32, "the places of rows", copies=3)
        at = _places(g, given, wanted, how)
        last = _last(g, given)
        if mode == "linear":
            y = _between(g, y, axis, at, last)
        elif mode == "cubic":
            y = _cubic(g, y, axis, at, last, n.number("cubic_coeff_a", -0.75))
        else:
            index = _nearest(g, at, last, n.text("nearest_mode", "round_prefer_floor"))
            y = g.emitted("Gather", [y, index], axis=axis)
    if known != list(x.shape):
        whole = [y.shape[a] if a in computed else size for a, size in enumerate(known)]
        nothing = constant(np.zeros(0, np.float32))
        rule = n.text("nearest_mode", "round_prefer_floor")
        y = g.emitted(
            "Resize", [y, nothing, nothing, constant(np.array(whole))],
            coordinate_transformation_mode=how, mode=mode, nearest_mode=rule,
            cubic_coeff_a=n.number("cubic_coeff_a", -0.75),
        )  # fmt: skip
    return [along(y, after)]


def _real(value: float) -> Value:
    return constant(np.array([value], np.float32))


def _number(size: _Size) -> Value:
    return constant(np.array([size[0]])) if size[1] is None else size[1]


def _float(g: Scope, size: _Size) -> Value:
    if size[1] is None:
        return _real(size[0])
    return g.emitted("Cast", [size[1]], to=1)


def _last(g: Scope, size: _Size) -> Value:
    """The last row, float32[1]; the first one where there is none."""
    return g.emitted("Max", [g.emitted("Sub", [_float(g, size), _real(1)]), _real(0)])


def _places(g: Scope, given: _Size, wanted: _Size, how: str) -> Value:
    """Where each place of a result lies in the input: float32, as ONNX Runtime computes it."""
    i = np.arange(wanted[0], dtype=np.float32)
    one, half = _real(1), _real(0.5)
    size, out = _float(g, given), g.emitted("Max", [_float(g, wanted), one])
    if how == "align_corners":
        span = g.emitted("Max", [g.emitted("Sub", [out, one]), one])
        at = g.emitted("Mul", [constant(i), _last(g, given)])
        return g.emitted("Div", [at, span])
    # Of no rows there is no place: what is computed for one is not read.
    scale = g.emitted("Div", [out, g.emitted("Max", [size, one])])
    if how == "asymmetric":
        return g.emitted("Div", [constant(i), scale])
    at = g.emitted("Sub", [g.emitted("Div", [constant(i + np.float32(0.5)), scale]), half])
    if how != "pytorch_half_pixel":
        return at
    alone = g.emitted("Equal", [_number(wanted), constant(np.array([1]))])
    return g.emitted("Where", [alone, _real(0), at])


def _index(g: Scope, at: Value, last: Value) -> Value:
    return g.emitted("Cast", [within(g, at, last)], to=7)


def _nearest(g: Scope, at: Value, last: Value, rule: str) -> Value:
    half = _real(0.5)
    low = g.emitted("Floor", [at])
    # The middle, off by a rounding, is the middle, as where the sizes are known (op_resize.py).
    off = g.emitted("Abs", [g.emitted("Sub", [g.emitted("Sub", [at, low]), half])])
    middle = g.emitted("Less", [off, _real(1e-6)])
    at = g.emitted("Where", [middle, g.emitted("Add", [low, half]), at])
    if rule == "round_prefer_floor":
        at = g.emitted("Ceil", [g.emitted("Sub", [at, half])])
    elif rule == "round_prefer_ceil":
        at = g.emitted("Floor", [g.emitted("Add", [at, half])])
    elif rule in ("floor", "ceil"):
        at = g.emitted(rule.capitalize(), [at])
    else:
        raise Unsupported(f"nearest_mode {rule!r}")
    return _index(g, at, last)


def _between(g: Scope, x: Value, axis: int, at: Value, last: Value) -> Value:
    """Two neighbours, by how near they are."""
    at = within(g, at, last)
    low = g.emitted("Floor", [at])
    share = g.emitted("Sub", [at, low])
    return _weighted(g, x, axis, low, last, {0: g.emitted("Sub", [_real(1), share]), 1: share})


def _cubic(g: Scope, x: Value, axis: int, at: Value, last: Value, a: float) -> Value:
    """Four of them; of places beyond the ends those at the ends."""

    low = g.emitted("Floor", [at])
    share = g.emitted("Sub", [at, low])
    rest = g.emitted("Sub", [_real(1), share])

    def near(d: Value) -> Value:
        found = g.emitted("Sub", [g.emitted("Mul", [_real(a + 2), d]), _real(a + 3)])
        square = g.emitted("Mul", [d, d])
        return g.emitted("Add", [g.emitted("Mul", [found, square]), _real(1)])

    def far(d: Value) -> Value:
        d = g.emitted("Add", [d, _real(1)])
        found = g.emitted("Sub", [g.emitted("Mul", [_real(a), d]), _real(5 * a)])
        found = g.emitted("Add", [g.emitted("Mul", [found, d]), _real(8 * a)])
        return g.emitted("Sub", [g.emitted("Mul", [found, d]), _real(4 * a)])

    taps = {-1: far(share), 0: near(share), 1: near(rest), 2: far(rest)}
    return _weighted(g, x, axis, low, last, taps)


def _weighted(
    g: Scope, x: Value, axis: int, low: Value, last: Value, taps: dict[int, Value]
) -> Value:
    """The sum of neighbours, as much as each of them is worth."""
    total = None
    for tap, much in taps.items():
        where = g.emitted("Add", [low, _real(tap)])
        part = g.emitted("Gather", [x, _index(g, where, last)], axis=axis)
        much = g.b.reshape(much, (math.prod(much.shape),) + (1,) * (x.rank - axis - 1))
        if much.dtype != x.dtype:
            much = g.emitted("CastLike", [much, constant(np.zeros(1, x.dtype))])
        part = g.emitted("Mul", [part, much])
        total = part if total is None else g.emitted("Add", [total, part])
    assert total is not None
    return total


SIZED.register(["Resize"], resized)
