"""Unique: as many rows as the data decide, of what is once in a tensor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx

from ...dtypes import is_float
from .counts import Number
from .nodes import TARGETS, OnnxNode, Unsupported, axis_of
from .rows import all_rows, highest, made_by, mask_of
from .scope import Lower, Results, Scope
from .values import Value, constant

#: Numbers that slices are compared by, each with each.
_MOST_COMPARED = 1 << 22


@made_by("Unique")
def _unique(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """By the order of the elements: the first of each that are the same, and how many they are."""
    given = n.input(0)
    if given.is_const and given.count is None:
        return None
    if given.count is not None:
        if "axis" in n.attrs and given.rank != 1:
            raise Unsupported("slices that are there once, of as many as the data decide")
        flat = g.emitted("Reshape", [given, constant(np.array([-1]))])
        return _unique_of(g, n, all_rows(flat), flat.count)
    if "axis" in n.attrs and given.rank != 1:
        axis = axis_of(n.integer("axis"), given.rank)
        found = _unique_of(g, n, _ranks(g, given, axis))
        # Indices that do not count may be beyond the last one.
        inside = g.emitted("Min", [found[1], constant(np.array(given.shape[axis] - 1))])
        return [g.emitted("Gather", [given, inside], axis=axis), *found[1:]]
    return _unique_of(g, n, g.b.reshape(given, (math.prod(given.shape),)))


def _ranks(g: Scope, x: Value, axis: int) -> Value:
    """For each slice, how many come before it where the first difference decides: the same for
    those that are the same."""
    order = [axis, *(i for i in range(x.rank) if i != axis)]
    size = x.shape[axis]
    rest = math.prod(x.shape) // max(size, 1)
    if size == 0 or rest == 0 or size * size * rest > _MOST_COMPARED:
        raise Unsupported(f"{size} slices of {rest} elements of which no two are the same")
    rows = g.b.reshape(g.b.transpose(x, order), (size, rest))
    if rows.dtype.kind == "b":
        rows = g.emitted("Cast", [rows], to=onnx.TensorProto.UINT8)
    a, b = g.b.reshape(rows, (size, 1, rest)), g.b.reshape(rows, (1, size, rest))
    same, less = g.emitted("Equal", [a, b]), g.emitted("Less", [b, a])
    if is_float(rows.dtype):  # a NaN comes last, and is the same as another one
        last, other = (g.emitted("IsNaN", [v]) for v in (a, b))
        same = g.emitted("Or", [same, g.emitted("And", [last, other])])
        less = g.emitted("Or", [less, g.emitted("And", [last, g.emitted("Not", [other])])])
    differs = g.emitted("Cast", [g.emitted("Not", [same])], to=onnx.TensorProto.INT32)
    passed = g.emitted("CumSum", [differs, constant(np.array(2))], exclusive=1)
    none_yet = g.emitted("Equal", [passed, constant(np.array(0, np.int32))])
    before = g.emitted("Cast", [g.emitted("And", [none_yet, less])], to=onnx.TensorProto.INT32)
    number = g.emitted("ReduceSum", [before, constant(np.array([1, 2]))], keepdims=0)
    return g.emitted("Cast", [number], to=onnx.TensorProto.INT64)


def _unique_of(g: Scope, n: OnnxNode, x: Value, count: Number | None = None) -> list[Value]:
    """`count`: how many elements there are, where the data decide it: the others come last."""
    size, first = x.shape[0], constant(np.array([0]))
    g.budget.array((size,), np.int64, "the places of elements")
    mask = None if count is None else mask_of(g, count, size)
    if mask is not None:
        x = g.emitted("Where", [mask, x, constant(np.array(highest(x.dtype), x.dtype))])
    if size == 1 and mask is None:
        zero = constant(np.zeros(1, np.int64))
        return [x, zero, zero, constant(np.ones(1, np.int64))]
    every = constant(np.array([size]))
    ordered, origin = g.emitted_many("TopK", [x, every], 2, axis=0, largest=0)
    behind = g.emitted("Slice", [ordered, constant(np.array([1])), every, first])
    before = g.emitted("Slice", [ordered, first, constant(np.array([size - 1])), first])
    differs = g.emitted("Not", [g.emitted("Equal", [behind, before])])
    new = g.emitted("Concat", [constant(np.array([True])), differs], axis=0)
    new = new if mask is None else g.emitted("And", [new, mask])
    group = g.emitted("CumSum", [g.emitted("Cast", [new], to=7), constant(np.array(0))])
    group = g.emitted("Sub", [group, constant(np.array(1))])
    zeros, ones = (constant(np.full(size, v, np.int64)) for v in (0, 1))
    if mask is not None:  # of no elements the group before the first one is none
        ones = g.emitted("Cast", [mask], to=7)
        group = g.emitted("Max", [group, constant(np.array(0))])
    numbers = g.emitted("ScatterElements", [zeros, group, ones], reduction="add")
    inverse = g.emitted("ScatterElements", [zeros, origin, group])
    places = g.emitted("Squeeze", [g.emitted("NonZero", [new]), first])
    values, indices = (g.emitted("Gather", [v, places]) for v in (ordered, origin))
    numbers = replace(numbers, count=places.count, axis=0)
    if not n.integer("sorted", 1):  # by where the first of them lies
        assert indices.count is not None
        indices, order = g.emitted_many("TopK", [indices, every], 2, axis=0, largest=0)
        indices, order = (replace(v, count=places.count, axis=0) for v in (indices, order))
        values, numbers = (g.emitted("Gather", [v, order]) for v in (values, numbers))
        rank = g.emitted("ScatterElements", [zeros, all_rows(order), constant(np.arange(size))])
        inverse = g.emitted("Gather", [rank, inverse])
    if count is not None:
        inverse = replace(inverse, count=count, axis=0)
    return [values, indices, inverse, numbers]


TARGETS["Unique"] = "TopK, NonZero and ScatterElements"
