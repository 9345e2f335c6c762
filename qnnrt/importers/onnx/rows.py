"""Results with as many rows as the data decide: the operators that make them, and those that look
at all of their rows.

What is joined, put in order, summed or chosen from is first made a tensor in which the rows that do
not count change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from ...dtypes import is_float
from .counts import Number, fewer, more_rows, once
from .einsum import equation
from .infer_shape import shape_slice
from .nodes import TARGETS, OnnxNode, Unsupported, axis_of
from .scope import ROWS, TAKEN, Lower, Results, RowsRule, Scope
from .size_forms import filled_up
from .sizes import count_of, element_count, shape_of
from .values import Value, constant, identity


def made_by(*op_types: str) -> Callable[[RowsRule], RowsRule]:
    def register(rule: RowsRule) -> RowsRule:
        ROWS.register(op_types, rule)
        return rule

    return register


def taken_by(*op_types: str) -> Callable[[RowsRule], RowsRule]:
    def register(rule: RowsRule) -> RowsRule:
        TAKEN.register(op_types, rule)
        return rule

    return register


def any_counted(n: OnnxNode) -> bool:
    return any(v is not None and v.count is not None for v in n.inputs)


def all_rows(v: Value) -> Value:
    """All rows, whether they count or not."""
    return v if v.count is None else replace(v, count=None, second=None)


def within(g: Scope, places: Value, last: Value) -> Value:
    """Places from 0 to the last one: those beyond are at the ends."""
    return g.emitted("Max", [g.emitted("Min", [places, last]), constant(np.zeros(1, places.dtype))])


def mask_of(g: Scope, count: Number, most: int) -> Value:
    """Which of the rows count: bool[most]."""

    def make() -> Value:
        g.budget.array((most,), np.int64, "the places of rows")
        return g.emitted("Less", [constant(np.arange(most)), count])

    return once(g, ("mask", count, most), make)


def counting(g: Scope, x: Value, fill: object) -> Value:
    """With `fill` in the rows that do not count."""
    assert x.count is not None
    most = x.shape[x.axis]
    along = (most,) + (1,) * (x.rank - x.axis - 1)
    mask = g.b.reshape(mask_of(g, x.count, most), along)
    return g.emitted("Where", [mask, all_rows(x), constant(np.array(fill, x.dtype))])


def lowest(dtype: np.dtype) -> object:
    if dtype.kind == "b":
        return False
    return -np.inf if is_float(dtype) else np.iinfo(dtype).min


def highest(dtype: np.dtype) -> object:
    if dtype.kind == "b":
        return True
    return np.inf if is_float(dtype) else np.iinfo(dtype).max


# ---- sizes -------------------------------------------------------------------------------------


@taken_by("Shape")
def _shape(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    return [shape_of(n, shape_slice(n))] if any_counted(n) else None


@taken_by("Size")
def _size(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    return [element_count(g, n.input(0))] if any_counted(n) else None


# ---- what makes rows ---------------------------------------------------------------------------


@made_by("NonZero")
def _non_zero(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    given = n.input(0)
    if given.is_const and given.count is None:
        return None
    x = given if given.count is None else counting(g, given, 0)
    x = g.b.plain(x if x.shape else g.b.reshape(x, (1,)))
    room = (math.prod(x.shape), x.rank)

    def places() -> Value:
        g.b.scope = n.name
        return g.b.transpose(g.b.op("NonZero", [x], room, np.dtype(np.int64)), (1, 0))

    edge = g.b.edge(x)
    found = once(g, ("places", g.numbering.of(edge), room), places)
    return [replace(found, count=count_of(g, edge), axis=1)]


@made_by("Compress")
def _compress(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x, condition = n.input(0), n.input(1)
    if condition.is_const and not any_counted(n):
        return None
    if "axis" not in n.attrs:
        x, axis = g.emitted("Reshape", [x, constant(np.array([-1]))]), 0
    else:
        axis = axis_of(n.integer("axis"), x.rank)
    if condition.count is not None:
        condition = counting(g, condition, False)
    if x.count is not None and x.axis == axis:
        mask = mask_of(g, x.count, x.shape[axis])
        if condition.shape != mask.shape:
            raise Unsupported("a choice by a condition that has another number of rows")
        condition, x = g.emitted("And", [condition, mask]), all_rows(x)
    places = g.emitted("NonZero", [condition])
    places = g.emitted("Squeeze", [places, constant(np.array([0]))])
    return [g.emitted("Gather", [x, places], axis=axis)]


@made_by("TopK")
def _top_k(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    axis = axis_of(n.integer("axis", -1), x.rank)
    among = x.count is not None and x.axis == axis
    computed = n.has(1) and not n.input(1).is_const
    if not among and not computed:
        return None
    if n.integer("sorted", 1) != 1:
        raise Unsupported("as many of the largest as the data decide, not in order")
    how = {"axis": axis, "largest": n.integer("largest", 1)}
    if among:
        worst = lowest if n.integer("largest", 1) else highest
        x = counting(g, x, worst(x.dtype))
    elif x.count is not None:
        raise Unsupported("rows along two axes, of both of which the data decide how many count")
    if not computed:  # there have to be so many
        return g.emitted_many("TopK", [x, n.input(1)] if n.has(1) else [x], 2, **how)
    k, most = n.input(1), x.shape[axis]
    found = g.emitted_many("TopK", [x, constant(np.array([most]))], 2, **how)
    rows = fewer(g, g.b.reshape(k, (1,)), most)
    return [replace(v, count=rows, axis=axis) for v in found]


def _corners(g: Scope, boxes: Value) -> Value:
    """Boxes by two corners of boxes by center, width and height."""
    x, y, width, height = g.emitted_many(
        "Split", [boxes, constant(np.ones(4, np.int64))], 4, axis=2
    )
    two = constant(np.array(2, boxes.dtype))
    halves = [g.emitted("Div", [size, two]) for size in (height, width)]
    ends = [
        g.emitted(op, [middle, half])
        for op in ("Sub", "Add")
        for middle, half in zip((y, x), halves, strict=True)
    ]
    return g.emitted("Concat", ends, axis=2)


@made_by("NonMaxSuppression")
def _suppression(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    boxes, scores = n.input(0), n.input(1)
    if all(v is None or (v.is_const and v.count is None) for v in n.inputs):
        return None
    batches, classes, count = scores.shape if scores.rank == 3 else (0, 0, 0)
    if scores.rank != 3 or boxes.shape != (batches, count, 4):
        raise ValueError(
            f"boxes of shape {list(boxes.shape)} with scores of shape {list(scores.shape)}"
        )
    if any(v.count is not None and v.axis != a for v, a in ((boxes, 1), (scores, 2))):
        raise Unsupported("as many classes or batches as the data decide")
    most, overlap = (
        n.const_input(2, "max_output_boxes_per_class"),
        n.const_input(3, "iou_threshold"),
    )
    limit = 0 if most is None else min(int(most.reshape(-1)[0]), count)
    if limit <= 0 or 0 in scores.shape:
        return [constant(np.zeros((0, 3), np.int64))]
    threshold, lowest = n.optional(4), np.float32(np.finfo(np.float32).min)
    if scores.count is not None:
        scores = counting(g, scores, -np.inf)
    if threshold is not None and threshold.data is not None:
        lowest = np.float32(threshold.data.reshape(-1)[0])
    elif threshold is not None:
        above = g.emitted("Greater", [scores, threshold])
        scores = g.emitted("Where", [above, scores, constant(np.array(-np.inf, scores.dtype))])
    boxes = all_rows(boxes)
    if n.integer("center_point_box"):
        boxes = _corners(g, boxes)
    g.b.scope = n.name
    room = (batches * classes * limit, 3)
    found, rows = g.b.raw(
        "NonMaxSuppression",
        [g.b.edge(g.b.plain(boxes)), g.b.edge(g.b.plain(scores))],
        [(room, np.dtype(np.int32)), ((1,), np.dtype(np.uint32))],
        {
            "iou_threshold": np.float32(0 if overlap is None else overlap.reshape(-1)[0]),
            "score_threshold": lowest,
            "max_boxes_selected": np.uint32(limit),
        },
    )
    indices, number = (
        g.emitted("Cast", [Value(edge.shape, edge.dtype, edge, identity(len(edge.shape)))], to=7)
        for edge in (found, rows)
    )
    return [replace(indices, count=number, axis=0)]


TARGETS["NonZero"] = "NonZero, and the number of rows"
TARGETS["NonMaxSuppression"] = "NonMaxSuppression"


def either_rows(g: Scope, condition: Value, a: Value, b: Value) -> Value | None:
    """One of two values with different numbers of rows; None if they differ in more than that."""
    if any(v.second is not None for v in (a, b)):
        return None
    differ = [i for i, (m, n) in enumerate(zip(a.shape, b.shape, strict=False)) if m != n]
    axes = {v.axis for v in (a, b) if v.count is not None} | set(differ)
    if a.rank != b.rank or a.dtype != b.dtype or len(axes) != 1:
        return None
    axis = axes.pop()
    room = max(a.shape[axis], b.shape[axis])
    counts, padded = [], []
    for v in (a, b):
        size = v.shape[axis]
        counts.append(v.count or constant(np.array([size])))
        if 0 < size < room:
            more = constant(np.zeros((*v.shape[:axis], room - size, *v.shape[axis + 1 :]), v.dtype))
            v = g.emitted("Concat", [all_rows(v), more], axis=axis)
        if size:
            padded.append(all_rows(v))
    found = padded[0] if len(padded) == 1 else g.emitted("Where", [condition, *padded])
    return replace(found, count=g.emitted("Where", [condition, *counts]), axis=axis)


# ---- what chooses from rows --------------------------------------------------------------------


def from_front(g: Scope, index: Value, count: Number) -> Value:
    """Places among rows that count, of which those below 0 are counted from the last of them."""
    if index.is_const and index.sizes is None and (index.const >= 0).all():
        return index
    zero = constant(np.zeros((), index.dtype))
    last = g.emitted("CastLike", [count, zero])
    back = g.emitted("Add", [all_rows(index), last])
    found = g.emitted("Where", [g.emitted("Less", [all_rows(index), zero]), back, all_rows(index)])
    return g.b.reshape(found, index.shape)  # one place has no dimensions, the number has one


def columns_from_front(g: Scope, index: Value, x: Value) -> Value:
    """The same of the column of places along the axis of rows."""
    assert x.count is not None
    depth = index.shape[-1]
    if depth == 1:
        return from_front(g, index, x.count)
    ones = constant(np.ones(depth, np.int64))
    columns = g.emitted_many("Split", [all_rows(index), ones], depth, axis=-1)
    columns[x.axis] = from_front(g, columns[x.axis], x.count)
    return g.emitted("Concat", columns, axis=-1)


def places_of(g: Scope, index: Value) -> Value:
    """With the first place in the rows that do not count: what is computed may lie anywhere."""
    if index.count is None or (index.edge is not None and index.edge in g.b.signs.places):
        return index
    return replace(counting(g, index, 0), count=index.count, axis=index.axis)


@taken_by("GatherElements")
def _elements(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x, index = n.input(0), places_of(g, n.input(1))
    n.inputs = [x, index]
    if x.count is None or x.axis != axis_of(n.integer("axis"), x.rank):
        return None
    n.inputs = [all_rows(x), all_rows(from_front(g, index, x.count))]
    (y,) = lower()
    assert isinstance(y, Value)
    return [y if index.count is None else replace(y, count=index.count, axis=index.axis)]


@taken_by("Gather", "GatherND")
def _gather(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x, index = n.input(0), places_of(g, n.input(1))
    if x.count is None:
        n.inputs = [x, index]
        return None
    if n.op == "Gather":
        axis = axis_of(n.integer("axis"), x.rank)
        if axis != x.axis:
            return None
        moved = from_front(g, index, x.count)
    else:
        if n.integer("batch_dims") or x.axis >= index.shape[-1]:
            raise Unsupported("places among rows of which the data decide how many count")
        axis = 0
        moved = columns_from_front(g, index, x)
    n.inputs = [all_rows(x), all_rows(moved)]
    (y,) = lower()
    assert isinstance(y, Value)
    if index.count is not None:
        return [replace(y, count=index.count, axis=axis + index.axis)]
    return [y]


# ---- what joins and sums rows ------------------------------------------------------------------


@taken_by("Concat")
def _concat(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    values = [v for v in n.inputs if v is not None]
    if not any_counted(n) or not values:
        return None
    if len(values) == 1:
        return values
    axis = axis_of(n.integer("axis"), values[0].rank)
    if all(v.count is None or v.axis != axis for v in values):
        return None
    if any(v.count is not None and v.axis != axis for v in values):
        raise Unsupported("rows along two axes, of both of which the data decide how many count")
    values = [v for v in values if v.shape[axis]]
    size = filled_up(g, values[0].count, values[1].count) if len(values) == 2 else None
    n.inputs = [all_rows(v) for v in values]
    whole = n.inputs[0] if len(values) == 1 else lower()[0]
    assert isinstance(whole, Value)
    key = tuple(v.shape[axis] if v.count is None else v.count for v in values)
    rooms = tuple(v.shape[axis] for v in values)

    def places() -> Value:
        masks = [
            constant(np.ones(v.shape[axis], bool))
            if v.count is None
            else mask_of(g, v.count, v.shape[axis])
            for v in values
        ]
        mask = masks[0] if len(masks) == 1 else g.emitted("Concat", masks, axis=0)
        found = g.emitted("NonZero", [mask])
        return g.emitted("Squeeze", [found, constant(np.array([0]))])

    index = once(g, ("joined", key, rooms), places)
    joined = g.emitted("Gather", [whole, index], axis=axis)
    apart = [v for v in values if v.count is not None]
    if len(apart) == 1:
        (only,) = apart
        known = sum(rooms) - only.shape[axis]
        joined = replace(joined, count=more_rows(g, cast(Value, only.count), known))
    return [joined if size is None else first_of(g, joined, axis, size)]


def first_of(g: Scope, x: Value, axis: int, size: int) -> Value:
    """The first rows of a tensor, so many as there are."""
    cut = [constant(np.array([at])) for at in (0, size, axis)]
    return g.emitted("Slice", [all_rows(x), *cut])


NEUTRAL: dict[str, Callable[[np.dtype], object]] = {
    "ReduceMax": lowest, "ArgMax": lowest, "ReduceLogSumExp": lowest, "Softmax": lowest,
    "LogSoftmax": lowest, "ReduceMin": highest, "ArgMin": highest,
    "ReduceProd": lambda dtype: 1, "ReduceSum": lambda dtype: 0, "ReduceMean": lambda dtype: 0,
    "ReduceL1": lambda dtype: 0, "ReduceL2": lambda dtype: 0, "ReduceLogSum": lambda dtype: 0,
    "ReduceSumSquare": lambda dtype: 0,
}  # fmt: skip


@taken_by(*NEUTRAL)
def _reduced(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    x = n.input(0)
    if x.count is None:
        return None
    axes: Sequence[int] | None
    if n.op.endswith("Softmax"):
        axis = axis_of(n.integer("axis", -1), x.rank)
        axes = [x.axis] if n.version < 13 and x.axis >= axis else [axis]
    elif n.op.startswith("Arg"):
        axes = [n.integer("axis")]
    else:
        axes = n.axes("axes", 1)
        if not axes and not n.integer("noop_with_empty_axes"):
            axes = range(x.rank)
    if x.axis not in {axis_of(a, x.rank) for a in axes or ()}:
        return None
    n.inputs = [counting(g, x, NEUTRAL[n.op](x.dtype)), *n.inputs[1:]]
    found = lower()
    if n.op.endswith("Softmax"):
        return [replace(v, count=x.count, axis=x.axis) for v in found if isinstance(v, Value)]
    if n.op == "ReduceMean":
        (mean,) = found
        assert isinstance(mean, Value)
        return [of_those(g, mean, x.count, x.shape[x.axis])]
    return found


def of_those(g: Scope, mean: Value, count: Number, room: int) -> Value:
    """A mean over all rows as that of those that count; 0 where none does."""
    like = constant(np.zeros((), mean.dtype))
    some = g.emitted("Max", [g.b.reshape(count, ()), constant(np.array(1))])
    share = [g.emitted("CastLike", [v, like]) for v in (constant(np.array(room)), some)]
    return g.emitted("Mul", [mean, g.emitted("Div", share)])


@taken_by("CastLike")
def _cast_like(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Of what it is like it takes the type alone."""
    n.inputs = [n.input(0), all_rows(n.input(1))]
    return None


@taken_by("CumSum")
def _running(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """From the last row on: those that do not count come first."""
    x, axis = n.input(0), n.const_input(1, "axis")
    if axis is None or x.count is None or not n.integer("reverse"):
        return None
    if axis_of(int(axis.reshape(())), x.rank) == x.axis:
        n.inputs = [replace(counting(g, x, 0), count=x.count, axis=x.axis), n.input(1)]
    return None


@taken_by("MatMul", "Einsum")
def _summed(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """A product over rows, which all that has them has alike."""
    values = [v for v in n.inputs if v is not None]
    if len({id(v.count) for v in values if v.count is not None}) != 1:
        return None
    if n.op == "Einsum":
        terms, result, _ = equation(n.text("equation"), [v.shape for v in values])
        letters = {t[v.axis] for t, v in zip(terms, values, strict=True) if v.count is not None}
        letter = letters.pop()
        has = all(
            (v.count is not None) == (letter in t) for t, v in zip(terms, values, strict=True)
        )
        summed = has and not letters and letter not in result
    else:
        a, b = values
        summed = a.count is b.count and a.axis == a.rank - 1 and b.axis == max(b.rank - 2, 0)
    if summed:
        n.inputs = [v if v.count is None else counting(g, v, 0) for v in values]
    return None


@taken_by("RoiAlign")
def _regions(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Regions that do not count lie outside of every image, which costs least."""
    regions = n.input(1)
    if regions.count is None or regions.axis != 0:
        return None
    outside = counting(g, regions, -1e6)
    n.inputs = [n.input(0), replace(outside, count=regions.count, axis=0), n.input(2)]
    return None
