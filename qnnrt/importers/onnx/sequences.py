"""Sequences of tensors, and values that may be missing, where their structure does not depend on
data: they are gone when the model is loaded."""

from __future__ import annotations

import numpy as np

from .control_flow import Body, Opsets, controls, stacked, taken_apart
from .counts import Number, along, axes_of, sized, times
from .nodes import OnnxNode, Unsupported, axis_of
from .scope import Scope, Things
from .values import Items, Thing, Value, constant

#: Operators that take sequences of as many tensors as the data decide.
_COUNTED = {"ConcatFromSequence", "SequenceLength"}


def _sequence(g: Scope, node: OnnxNode, index: int = 0) -> list[Value]:
    found = g.thing(node.written.input[index]) if index < len(node.written.input) else None
    if not isinstance(found, Items):
        raise ValueError(f"input {index} is not a sequence")
    if found.count is not None and node.op not in _COUNTED:
        raise Unsupported("a sequence of as many tensors as the data decide")
    return found.values


def _count(g: Scope, node: OnnxNode) -> Number | None:
    found = g.thing(node.written.input[0])
    return found.count if isinstance(found, Items) else None


def _tensor(g: Scope, node: OnnxNode, index: int) -> Value:
    found = g.thing(node.written.input[index]) if index < len(node.written.input) else None
    if not isinstance(found, Value):
        raise ValueError(f"input {index} is not a tensor")
    return found


def _position(node: OnnxNode, index: int, count: int, default: int) -> int:
    given = node.const_input(index, "the position")
    if given is None:
        return default
    place = int(given.reshape(-1)[0])
    if not -count <= place < max(count, 1):
        raise ValueError(f"position {place} in a sequence of {count}")
    return place + count if place < 0 else place


_TO = "nothing: the tensors of a sequence are known"


@controls("SequenceConstruct", "SequenceEmpty", to=_TO)
def _construct(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    return [Items([_tensor(g, node, i) for i in range(len(node.written.input))])]


@controls("SequenceAt", to=_TO)
def _at(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    values = _sequence(g, node)
    place = _position(node, 1, len(values), -1)
    if not 0 <= place < len(values):
        raise ValueError(f"no position in a sequence of {len(values)}")
    return [values[place]]


@controls("SequenceInsert", to=_TO)
def _insert(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    values = _sequence(g, node)
    place = len(values)
    given = node.const_input(2, "the position")
    # Behind the last one is a place, too, and no negative number is its.
    if given is not None and int(given.reshape(-1)[0]) != place:
        place = _position(node, 2, len(values), place)
    g.budget.step()
    return [Items([*values[:place], _tensor(g, node, 1), *values[place:]])]


@controls("SequenceErase", to=_TO)
def _erase(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    values = _sequence(g, node)
    if not values:
        raise ValueError("nothing can be erased from an empty sequence")
    place = _position(node, 1, len(values), len(values) - 1)
    return [Items([*values[:place], *values[place + 1 :]])]


@controls("SequenceLength", to=_TO)
def _length(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    return [sized(np.array(len(_sequence(g, node)), np.int64), [_count(g, node)])]


@controls("ConcatFromSequence", to="Concat")
def _concat(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    values = _sequence(g, node)
    if not values:
        raise Unsupported("an empty sequence")
    if "axis" not in node.attrs:
        raise ValueError("the attribute 'axis' is missing")
    axis = node.integer("axis")
    number, new = _count(g, node), node.integer("new_axis")
    if new:
        whole = stacked(g, values, axis)
    else:
        whole = values[0] if len(values) == 1 else g.emitted("Concat", values, axis=axis)
    if number is None:
        return [whole]
    axis = axis_of(axis, whole.rank)
    each = 1 if new else values[0].shape[axis]
    if not new and any(v.shape[axis] != each or axis in axes_of(v) for v in values):
        raise Unsupported("a sequence of as many tensors as the data decide, of different sizes")
    return [along(whole, axes_of(whole) | {axis: times(g, number, each)})]


@controls("SplitToSequence", to="Split")
def _split(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    x = _tensor(g, node, 0)
    axis = axis_of(node.integer("axis"), x.rank)
    sizes = node.const_input(1, "the sizes")
    if sizes is None:
        if not node.integer("keepdims", 1):
            return [Items(taken_apart(g, x, axis))]
        sizes = np.array(1)
    if sizes.ndim == 0:
        each, whole = int(sizes), x.shape[axis]
        if each < 1:
            raise ValueError(f"parts of {each}")
        g.budget.take(8 * (whole // each))
        sizes = np.array([each] * (whole // each) + ([whole % each] if whole % each else []))
    if sizes.tolist() == [x.shape[axis]]:
        return [Items([x])]
    if not len(sizes):
        raise ValueError("a split into no parts")
    parts = constant(sizes.astype(np.int64))
    return [Items(g.emitted_many("Split", [x, parts], len(sizes), axis=axis))]


@controls("SequenceMap", to="its body for each tensor")
def _map(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    body = Body.of(g, node, "body", opsets)
    given = [g.thing(name) for name in node.written.input]
    count = len(_sequence(g, node))
    columns: list[list[Thing | None]] = []
    for thing in given:
        column: list[Thing | None] = [thing] * count
        if isinstance(thing, Items):
            column = list(thing.values)
        if len(column) != count:
            raise ValueError(f"sequences of {count} and {len(column)}")
        columns.append(column)
    if len(body.inputs) != len(given) or len(body.outputs) != len(node.outputs):
        raise ValueError("its body has another number of inputs or outputs")
    found: list[list[Value]] = [[] for _ in node.outputs]
    for row in zip(*columns, strict=True):
        g.budget.step(node.written)
        for values, thing in zip(found, body.run(row, body.outputs), strict=True):
            if not isinstance(thing, Value):
                raise ValueError("its body gives no tensor")
            values.append(thing)
    return [Items(values) for values in found]


@controls("Optional", "OptionalGetElement", to="nothing")
def _optional(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    found = g.thing(node.written.input[0]) if node.written.input else None
    if found is None and node.op == "OptionalGetElement":
        raise ValueError("the value is missing")
    return [found]


@controls("OptionalHasElement", to="nothing")
def _has_element(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    found = g.thing(node.written.input[0]) if node.written.input else None
    return [constant(np.array(found is not None))]
