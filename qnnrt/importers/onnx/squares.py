"""Values of which the data decide along two axes how many rows count, such as the scores of an
attention between rows of which some count.

Both axes have their rows that count in front. What looks along one of them is first made a tensor
in which the rows that do not count change nothing; the other one is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .bounded import ELEMENTWISE, kept_axes, with_room
from .computed_slices import sliced
from .counts import TWO_AXES, Axes, Number, along, axes_of, fewer, from_there, once, plain, times
from .einsum import equation
from .infer_shape import shape_slice
from .nodes import OnnxNode, Unsupported, axis_of
from .resized import resized
from .rows import NEUTRAL, all_rows, counting, from_front, lowest, of_those
from .scope import Lower, Results, RowsRule, Scope
from .sized_shapes import expanded_to
from .sizes import itself, shape_of
from .values import Value, blocks, constant

#: ONNX op type -> what takes such values.
_TAKEN: dict[str, RowsRule] = {}

#: Operators of which an input is a shape, and which one.
_SHAPED = {"Expand": 1, "Reshape": 1, "Resize": 3}


def _taken_by(*op_types: str) -> Callable[[RowsRule], RowsRule]:
    def register(rule: RowsRule) -> RowsRule:
        _TAKEN.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def taken(g: Scope, n: OnnxNode, lower: Lower, expand: Callable[[], Results | None]) -> Results:
    """The results of a node with such an input."""
    shape = _SHAPED.get(n.op) if n.domain == "" else None
    n.inputs = [
        itself(g, v) if v is not None and v.sizes is not None and i != shape else v
        for i, v in enumerate(n.inputs)
    ]
    rule = _TAKEN.get(n.op) if n.domain == "" else None
    if rule is not None and (made := rule(g, n, lower)) is not None:
        return made
    found = expand() if rule is None else None
    if found is None:
        raise Unsupported(TWO_AXES)
    return found


def joined(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The results of a node that puts rows of two inputs along two axes; None where it does not."""
    counted = [(v, v.axis - v.rank) for v in n.inputs if v is not None and v.count is not None]
    if len(counted) != 2:
        return None
    if n.op in ELEMENTWISE:
        two = counted[0][1] != counted[1][1]
    elif n.op == "MatMul":
        two = [at for _, at in counted] == [-2, -1] and min(v.rank for v, _ in counted) > 1
    elif n.op == "Einsum":
        terms, _, _ = equation(n.text("equation"), [v.shape for v in n.inputs if v is not None])
        two = len(set(_letters(n, terms))) == 2
    else:
        x, index = n.input(0), n.input(1)
        two = n.op == "Gather" and axis_of(n.integer("axis"), x.rank) != x.axis
        two = two and index.count is not None
    return _TAKEN[n.op](g, n, lower) if two else None


def _masked(g: Scope, v: Value, axis: int, number: Number, fill: object) -> Value:
    return counting(g, along(v, {axis: number}), fill)


def _kept(found: Results, axes: Axes) -> Results:
    return [along(v, axes) if isinstance(v, Value) else v for v in found]


def _together(values: Sequence[Value], ahead: int = 0) -> Axes:
    """The axes of what is broadcast together, from behind; those before the last `ahead`."""
    axes: Axes = {}
    for v in values:
        for axis, number in axes_of(v).items():
            if (at := axis - v.rank) < -ahead and axes.setdefault(at, number) is not number:
                raise Unsupported("inputs with two numbers of rows that the data decide")
    for v in values:
        own = axes_of(v)
        for at in axes:
            if v.rank >= -at and v.rank + at not in own and v.shape[at] != 1:
                raise Unsupported(
                    f"an input has {v.shape[at]} rows, another a number that the data decide"
                )
    return axes


@_taken_by(*ELEMENTWISE)
def _elementwise(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    axes = _together([v for v in n.inputs if v is not None])
    n.inputs = [v if v is None else all_rows(v) for v in n.inputs]
    found = lower()
    return [
        along(v, {at + v.rank: number for at, number in axes.items()})
        if isinstance(v, Value)
        else v
        for v in found
    ]


@_taken_by("MatMul")
def _product(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    a, b = n.input(0), n.input(1)
    if min(a.rank, b.rank) < 2:
        return None
    left, right = axes_of(a), axes_of(b)
    inner, other = left.get(a.rank - 1), right.get(b.rank - 2)
    if inner is not other:
        raise Unsupported("a product over rows of which the data decide how many count")
    axes = _together([a, b], 2)
    for at, number in ((-2, left.get(a.rank - 2)), (-1, right.get(b.rank - 1))):
        if number is not None:
            axes[at] = number
    if inner is not None:
        a, b = (_masked(g, v, v.rank - behind, inner, 0) for v, behind in ((a, 1), (b, 2)))
    n.inputs = [all_rows(a), all_rows(b)]
    (y,) = lower()
    assert isinstance(y, Value)
    return [along(y, {at + y.rank: number for at, number in axes.items()})]


def _letters(n: OnnxNode, terms: Sequence[str]) -> list[str]:
    return [
        term[axis]
        for term, v in zip(terms, n.inputs, strict=True)
        if v is not None
        for axis in axes_of(v)
    ]


@_taken_by("Einsum")
def _einsum(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    values = [v for v in n.inputs if v is not None]
    terms, result, _ = equation(n.text("equation"), [v.shape for v in values])
    numbers: dict[str, Number] = {}
    for term, v in zip(terms, values, strict=True):
        for axis, number in axes_of(v).items():
            if numbers.setdefault(term[axis], number) is not number:
                raise Unsupported("inputs with two numbers of rows that the data decide")
    for term, v in zip(terms, values, strict=True):
        own = {term[axis] for axis in axes_of(v)}
        if own != set(term) & set(numbers) or any(term.count(letter) > 1 for letter in own):
            raise Unsupported("a product over rows of which the data decide how many count")
    for i, (term, v) in enumerate(zip(terms, values, strict=True)):
        for axis, number in axes_of(v).items():
            if term[axis] not in result:
                v = _masked(g, v, axis, number, 0)
        values[i] = all_rows(v)
    n.inputs = list(values)
    return _kept(lower(), {result.index(k): v for k, v in numbers.items() if k in result})


@_taken_by("LogSoftmax", "Softmax")
def _softmax(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    axes, axis = axes_of(x), axis_of(n.integer("axis", -1 if n.version > 12 else 1), x.rank)
    if n.version < 13 and axis != x.rank - 1:
        return None
    n.inputs = [_masked(g, x, axis, axes[axis], lowest(x.dtype)) if axis in axes else all_rows(x)]
    return _kept(lower(), axes)


@_taken_by(*(op for op in NEUTRAL if not op.endswith("Softmax")))
def _reduced(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    given: Sequence[int] | None
    given = [n.integer("axis")] if n.op.startswith("Arg") else n.axes("axes", 1)
    if not given and not n.integer("noop_with_empty_axes"):
        given = range(x.rank)
    gone = {axis_of(a, x.rank) for a in given or ()}
    axes, value = axes_of(x), x
    for axis in gone & set(axes):
        value = _masked(g, value, axis, axes[axis], NEUTRAL[n.op](x.dtype))
    n.inputs = [all_rows(value), *n.inputs[1:]]
    (y,) = lower()
    assert isinstance(y, Value)
    if n.op == "ReduceMean":
        for axis in gone & set(axes):
            y = of_those(g, y, axes[axis], x.shape[axis])
    kept = n.integer("keepdims", 1)
    return [
        along(y, {
            axis - (0 if kept else sum(a < axis for a in gone)): number
            for axis, number in axes.items() if axis not in gone
        })
    ]  # fmt: skip


@_taken_by("Transpose")
def _transpose(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    order = n.integers("perm") or list(range(x.rank))[::-1]
    n.inputs = [all_rows(x)]
    return _kept(lower(), {order.index(axis): number for axis, number in axes_of(x).items()})


@_taken_by("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def _reshape(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Both axes stay what they are, or become one."""
    x = n.input(0)
    axes = axes_of(x)
    roomy = with_room(n, axes)
    n.inputs = [all_rows(x), *(v if v is None else plain(v) for v in n.inputs[1:])]
    (y,) = lower()
    assert isinstance(y, Value)
    places = kept_axes(n, y.rank) or {
        before[0]: after[0]
        for before, after in blocks(*(roomy or (x.shape, y.shape))) or ()
        if len(before) == len(after) == 1
    }
    for before, after in blocks(x.shape, y.shape) or ():
        if list(before) == sorted(axes) and len(after) == 1 and 0 not in x.shape:
            return [_packed(g, y, after[0], x.shape[before[1]], [axes[a] for a in before])]
    if not set(axes) <= set(places):
        raise Unsupported(f"a reshape of {list(x.shape)} to {list(y.shape)}, which mixes rows of "
                          "which the data decide how many count")  # fmt: skip
    return [along(y, {places[axis]: number for axis, number in axes.items()})]


def _packed(g: Scope, y: Value, axis: int, room: int, numbers: Sequence[Number]) -> Value:
    """Rows of rows, of which some count, one behind the other; there is `room` in each."""
    count = once(g, ("product", *numbers), lambda: g.emitted("Mul", numbers))
    size = g.emitted("Max", [numbers[1], constant(np.array([1]))])
    g.budget.array((y.shape[axis],), np.int64, "the places of rows", copies=2)
    every = constant(np.arange(y.shape[axis]))
    start = g.emitted("Mul", [g.emitted("Div", [every, size]), constant(np.array([room]))])
    places = g.emitted("Add", [start, g.emitted("Mod", [every, size])])
    within = g.emitted("Min", [places, constant(np.array([y.shape[axis] - 1]))])
    return along(g.emitted("Gather", [all_rows(y), within], axis=axis), {axis: count})


@_taken_by("Shape")
def _shape(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    return [shape_of(n, shape_slice(n))]


@_taken_by("Expand")
def _expand(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    return expanded_to(g, n, lower)


@_taken_by("Resize")
def _resize(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    if not n.has(3) or not n.input(3).is_const:
        raise Unsupported(TWO_AXES)
    return resized(g, n, lower)


@_taken_by("Trilu")
def _triangle(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    axes = axes_of(n.input(0))
    n.inputs = [all_rows(n.input(0)), *n.inputs[1:]]
    return _kept(lower(), axes)


@_taken_by("Gather")
def _gather(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x, index = n.input(0), n.input(1)
    axis, axes, found = axis_of(n.integer("axis"), x.rank), axes_of(x), axes_of(index)
    moved = index
    for at, number in found.items():  # what does not count may lie anywhere
        moved = _masked(g, moved, at, number, 0)
    if axis in axes:
        moved = from_front(g, all_rows(moved), axes[axis])
    n.inputs = [all_rows(x), all_rows(moved)]
    kept = {a if a < axis else a + index.rank - 1: c for a, c in axes.items() if a != axis}
    return _kept(lower(), kept | {axis + at: number for at, number in found.items()})


@_taken_by("Slice")
def _slice(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    if not all(v is None or v.is_const for v in n.inputs[1:3]):
        part = sliced(g, n)
        return None if part is None else [part]
    starts, ends = n.axes("starts", 1), n.axes("ends", 2)
    if starts is None or ends is None:
        return None
    axes, along_axes = n.axes("axes", 3) or list(range(len(starts))), axes_of(x)
    steps = n.axes("steps", 4) or [1] * len(starts)
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(given, x.rank)
        if axis not in along_axes:
            continue
        if start < 0 or step < 1:
            raise Unsupported("a slice of rows of which the data decide how many count")
        whole, room = along_axes[axis], x.shape[axis]
        if end < 0:
            whole = from_there(g, whole, min(-end, room))
        elif end < room:
            whole = fewer(g, whole, end)
        along_axes[axis] = from_there(g, whole, min(start, room), step)
    n.inputs = [all_rows(x), *n.inputs[1:]]
    return _kept(lower(), along_axes)


@_taken_by("Concat")
def _concat(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Of the other axis all have the same rows; those along `axis` go one behind the other."""
    values = [v for v in n.inputs if v is not None]
    axis = axis_of(n.integer("axis"), values[0].rank)
    beside = [{a: c for a, c in axes_of(v).items() if a != axis} for v in values]
    if any(
        one.keys() != beside[0].keys() or any(one[a] is not c for a, c in beside[0].items())
        for one in beside
    ):
        raise Unsupported("rows of which the data decide how many count, joined with others")
    parts = [along(v, {a: c for a, c in axes_of(v).items() if a == axis}) for v in values]
    whole = g.emitted("Concat", parts, axis=axis)
    return [along(whole, beside[0] | axes_of(whole))]


@_taken_by("NonZero")
def _non_zero(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    value = x
    for axis, number in axes_of(x).items():
        value = _masked(g, value, axis, number, 0)
    return [g.emitted("NonZero", [value])]


@_taken_by("TopK")
def _top_k(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Of each row as many as are asked for, which there have to be."""
    x, axes = n.input(0), axes_of(n.input(0))
    axis = axis_of(n.integer("axis", -1), x.rank)
    if n.has(1) and not n.input(1).is_const:
        return None
    if axis in axes:
        if n.integer("sorted", 1) != 1:
            return None
        fill = (lowest if n.integer("largest", 1) else NEUTRAL["ReduceMin"])(x.dtype)
        x = _masked(g, x, axis, axes.pop(axis), fill)
    n.inputs = [all_rows(x), *n.inputs[1:]]
    return _kept(lower(), axes)


@_taken_by("Size")
def _size(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x, axes = n.input(0), axes_of(n.input(0))
    others = math.prod(size for axis, size in enumerate(x.shape) if axis not in axes)
    whole = g.emitted("Mul", list(axes.values()))
    return [g.b.reshape(times(g, whole, others), ())]
