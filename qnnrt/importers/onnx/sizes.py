"""Sizes of which the data decide how large they are: what Shape gives of such tensors, and what is
computed from that.

Such a value is a constant, the most that each of its numbers can be, and knows of some of them the
number itself (`Value.sizes`), which the graph computes. Where a size decides a shape, the shape is
for the most there can be, and the number says how many of the rows count. Everywhere else it is
data: the number itself (docs/decisions/0045-sizes-by-data.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..graph import Edge
from .common import concat
from .fold import fold
from .infer import infer
from .nodes import OnnxNode, Unsupported, axis_of
from .scope import Lower, Results, RowsRule, Scope
from .tables import Table
from .values import Value, constant, identity

#: Operators that only move numbers: the inputs that they move.
_MOVED = {
    "Cast": 1, "Concat": 4096, "Expand": 1, "Flatten": 1, "Gather": 1, "Identity": 1,
    "Reshape": 1, "Slice": 1, "Split": 1, "Squeeze": 1, "Tile": 1, "Transpose": 1, "Unsqueeze": 1,
}  # fmt: skip

#: Operators whose result grows with each of their inputs, if these are no less than 0.
_GROWING = {"Add", "Max", "Min", "Mul", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Sum"}
#: With the first of them alone.
_GROWING_BY_FIRST = {"Div", "Sub"}
#: Which are the same for the most and the least if they are the same for all between them.
_COMPARING = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

#: Why what takes rows along one axis is refused for two.
TWO_AXES = "rows along two axes, of both of which the data decide how many count"

#: A number of the graph, int64[1].
Number = Value

#: ONNX op type -> what it makes of such a size: the inputs that may be one, and the rule.
SIZED: dict[str, tuple[range, RowsRule]] = {}


#: Of the second input, in modules that know of rows.
BESIDE_ROWS: Table[RowsRule] = Table({"padded": "Pad"})


def takes_sizes(inputs: range, *op_types: str) -> Callable[[RowsRule], RowsRule]:
    def register(rule: RowsRule) -> RowsRule:
        SIZED.update(dict.fromkeys(op_types, (inputs, rule)))
        return rule

    return register


def sized(data: np.ndarray, numbers: Sequence[Number | None]) -> Value:
    """A constant of the most that numbers can be, with those that the data decide."""
    found = constant(data)
    return replace(found, sizes=tuple(numbers)) if any(numbers) else found


def itself(g: Scope, v: Value) -> Value:
    """The numbers themselves, as the graph has them."""
    if v.exact is not None:
        return v.exact
    assert v.sizes is not None
    flat = v.const.reshape(-1)
    parts = [
        constant(flat[i : i + 1].astype(np.int64)) if number is None else number
        for i, number in enumerate(v.sizes)
    ]
    whole = parts[0] if len(parts) == 1 else concat(g, parts, 0)  # a node would be a size again
    if v.dtype != whole.dtype:
        whole = g.emitted("CastLike", [whole, constant(np.zeros(1, v.dtype))])
    return g.b.reshape(whole, v.shape)


def shape_of(n: OnnxNode, picked: slice) -> Value:
    """What Shape gives of a tensor with as many rows as the data decide."""
    x = n.input(0)
    numbers = [axes_of(x).get(axis) for axis in range(x.rank)]
    return sized(np.array(x.shape, np.int64)[picked], numbers[picked])


def element_count(g: Scope, x: Value) -> Value:
    """What Size gives of such a tensor."""
    assert x.count is not None
    size = math.prod(x.shape)
    return sized(np.array(size, np.int64), [times(g, x.count, size // x.shape[x.axis])])


def computed(g: Scope, n: OnnxNode, opsets: dict[str, int], lower: Lower) -> Results | None:
    """The results of a node with such inputs; None where it takes the numbers as data, which its
    inputs are then."""
    at = {i for i, v in enumerate(n.inputs) if v is not None and v.sizes is not None}
    whole = all(v.exact is None or v.dtype.kind in "iu" for v in map(n.input, at))
    if n.domain == "":
        if n.op in SIZED and at <= set(SIZED[n.op][0]):
            made = SIZED[n.op][1](g, n, lower)
            if made is not None:
                return made
        if at == {1} and (rule := BESIDE_ROWS.get(n.op)) is not None:
            made = rule(g, n, lower)
            if made is not None:
                return made
        if whole and all(v is None or v.is_const for v in n.inputs):
            made = _moved(g, n, at, opsets)
            if made is None:
                made = _grown(g, n, at, opsets, lower)
            if made is not None:
                return made
    n.inputs = [itself(g, v) if v is not None and v.sizes is not None else v for v in n.inputs]
    return None


def _folded(
    g: Scope, n: OnnxNode, inputs: list[Value | None], opsets: dict[str, int]
) -> list[np.ndarray]:
    node = replace(n, inputs=inputs)
    node.types = infer(node)
    arrays = [None if v is None else v.const for v in inputs]
    return fold(node, arrays, opsets, g.budget, lambda: g.child)


def _moved(g: Scope, n: OnnxNode, at: set[int], opsets: dict[str, int]) -> Results | None:
    """Where the numbers go is seen by moving their places instead."""
    moved = set(range(_MOVED.get(n.op, 0)))
    if n.op == "Where" and 0 not in at:
        moved = {1, 2}
    if not at <= moved:
        return None
    if n.op == "Cast" and n.integer("to") not in (1, 6, 7, 11):
        return None
    values: list[np.ndarray] = []
    numbers: list[Number | None] = []
    inputs = list(n.inputs)
    for i, v in enumerate(n.inputs):
        if v is None or i not in moved:
            continue
        places = np.arange(len(numbers), len(numbers) + v.const.size)
        values.append(v.const.reshape(-1))
        numbers += v.sizes or [None] * v.const.size
        inputs[i] = constant(places.reshape(v.shape).astype(v.dtype))
    whole = np.concatenate(values)
    results: list[Value | None] = []
    for places in _folded(g, n, inputs, opsets):
        flat = places.reshape(-1).astype(np.int64)
        data = whole[flat].reshape(places.shape).astype(places.dtype)
        results.append(sized(data, [numbers[p] for p in flat]))
    return results


def _grown(
    g: Scope, n: OnnxNode, at: set[int], opsets: dict[str, int], lower: Lower
) -> Results | None:
    """Arithmetic: the most is that of the most, and what is the same for the least is no number
    that the data decide."""
    if n.op == "Sub" and at == {1} and (made := _rest(g, n)) is not None:
        return [made]
    if (
        n.op == "Add"
        and len(at) == 1
        and (made := _and_more(g, n.input(0), n.input(1))) is not None
    ):
        return [made]
    if n.op in ("Mod", "Neg") and at == {0} and (made := _around(g, n)) is not None:
        return [made]
    compares = n.op in _COMPARING or n.op == "Equal"
    grows = n.op in _GROWING or (n.op in _GROWING_BY_FIRST and at == {0})
    if not (compares or grows) or any(v is not None and v.dtype.kind not in "iu" for v in n.inputs):
        return None
    others = [v.const for i, v in enumerate(n.inputs) if v is not None and i not in at]
    if n.op in ("Mul", "Div", "ReduceProd") and any((o < (n.op == "Div")).any() for o in others):
        return None
    most = _folded(g, n, n.inputs, opsets)[0]
    least_of = [v if v is None or v.sizes is None else _least(g, v) for v in n.inputs]
    if n.op in ("Mul", "ReduceProd") and any(
        v is not None and (v.const < 0).any() for v in least_of
    ):
        return None
    least = _folded(g, n, least_of, opsets)[0]
    if n.op == "Equal":
        if len(at) != 1:
            return None
        (index,) = at
        return _equal(g, n.input(index), n.input(1 - index))
    if compares:
        return [constant(most)] if len(at) == 1 and (most == least).all() else None
    if (most == least).all():
        return [constant(most)]
    n.inputs = [itself(g, v) if v is not None and v.sizes is not None else v for v in n.inputs]
    whole = lower()[0]
    assert isinstance(whole, Value)
    flat = g.b.reshape(whole, (most.size,))
    numbers: list[Number | None] = []
    for i, differs in enumerate((most != least).reshape(-1)):
        number = None
        if differs:
            where = [constant(np.array([p])) for p in (i, i + 1, 0)]
            number = flat if most.size == 1 else g.emitted("Slice", [flat, *where])
            if number.dtype != np.int64:
                number = g.emitted("Cast", [number], to=7)
            number = _may_be(g, number, int(least.reshape(-1)[i]))
        numbers.append(number)
    return [sized(np.maximum(most, 0), numbers)]


def _rest(g: Scope, n: OnnxNode) -> Value | None:
    """What a known number has more than one that the data decide, which may be less than nothing:
    as many as that are put behind rows to make them so many."""
    whole, size = n.input(0), n.input(1)
    if size.sizes is None or len(size.sizes) != 1 or whole.const.size != 1:
        return None
    (number,) = size.sizes
    assert number is not None
    known = int(whole.const.reshape(-1)[0])
    least = int(_least(g, size).const.reshape(-1)[0])
    rest = once(
        g, ("rest", known, number), lambda: g.emitted("Sub", [constant(np.array([known])), number])
    )
    shape = np.broadcast_shapes(whole.shape, size.shape)
    _may_be(g, rest, known - int(size.const.reshape(-1)[0]))
    return sized(np.full(shape, max(known - least, 0), size.dtype), [rest])


def _and_more(g: Scope, a: Value, b: Value) -> Value | None:
    """A number and a known one, which is what Concat makes of so many rows and as many more."""
    size, other = (a, b) if a.sizes is not None else (b, a)
    if size.sizes is None or len(size.sizes) != 1 or other.const.size != 1:
        return None
    more, (number,) = int(other.const.reshape(-1)[0]), size.sizes
    assert number is not None
    if more < 0 or ("least", number) in g.counts:
        return None
    most = np.full(np.broadcast_shapes(a.shape, b.shape), size.const.max() + more, size.dtype)
    return sized(most, [more_rows(g, number, more)])


def _around(g: Scope, n: OnnxNode) -> Value | None:
    """A number below nothing, and what is left of one by a known number: `-n % 4`."""
    size = n.input(0)
    if size.sizes is None or len(size.sizes) != 1:
        return None
    (number,), most = size.sizes, int(size.const.reshape(-1)[0])
    assert number is not None
    if n.op == "Neg":
        less = once(g, ("negative", number), lambda: g.emitted("Neg", [number]))
        room = max(-int(_least(g, size).const.reshape(-1)[0]), 0)
        return sized(np.full(size.shape, room, size.dtype), [_may_be(g, less, -most)])
    by = n.input(1).const
    if by.size != 1 or int(by.reshape(-1)[0]) < 1 or n.integer("fmod"):
        return None
    known = constant(np.array([int(by.reshape(-1)[0])]))
    left = once(g, ("left", int(known.const[0]), number), lambda: g.emitted("Mod", [number, known]))
    shape = np.broadcast_shapes(size.shape, by.shape)
    return sized(np.full(shape, known.const[0] - 1, size.dtype), [left])


def filled_up(g: Scope, count: Number | None, more: Number | None) -> int | None:
    """How many rows so many and `more` are together, where that is known: of `_rest`."""
    for key, made in g.counts.items():
        if made is more and key[0] == "rest" and key[2] is count and isinstance(key[1], int):
            return key[1]
    return None


def rounded_up(g: Scope, count: Number | None, more: Number | None) -> int | None:
    """Of what so many and `more` are a multiple, where that is known."""
    for key, made in g.counts.items():
        if made is more and key[0] == "left" and isinstance(key[1], int):
            return key[1] if g.counts.get(("negative", count)) is key[2] else None
    return None


def _least(g: Scope, v: Value) -> Value:
    """The least that numbers can be: no rows, but for what was computed to be less."""
    assert v.sizes is not None
    flat = v.const.reshape(-1).copy()
    for i, number in enumerate(v.sizes):
        if number is not None:
            known = g.counts.get(("least", number))
            flat[i] = 0 if known is None else known.const[0]
    return constant(flat.reshape(v.shape))


def _may_be(g: Scope, number: Number, least: int) -> Number:
    """A number that may be less than nothing."""
    if least < 0:
        once(g, ("least", number), lambda: constant(np.array([least])))
    return number


def _equal(g: Scope, size: Value, other: Value) -> Results | None:
    """Where no number can be the other."""
    a, least, b = np.broadcast_arrays(size.const, _least(g, size).const, other.const)
    assert size.sizes is not None
    decided = np.array([s is not None for s in size.sizes]).reshape(size.shape)
    decided = np.broadcast_to(decided, a.shape)
    if (decided & (b >= least) & (b <= a)).any():
        return None
    return [constant(np.where(decided, False, a == b))]


# ---- numbers ------------------------------------------------------------------------------------


def once(g: Scope, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
    """One number for what is counted once: two values of the same one have as many rows."""
    if key not in g.counts:
        g.counts[key] = make()
    return g.counts[key]


def count_of(g: Scope, edge: Edge) -> Number:
    """How many elements of a tensor are not 0."""
    source = g.numbering.repeated(edge)

    def make() -> Value:
        x = Value(source.shape, source.dtype, source, identity(len(source.shape)))
        ones = g.emitted("Cast", [g.emitted("Cast", [x], to=9)], to=7)
        return g.b.reshape(g.emitted("ReduceSum", [ones], keepdims=0), (1,))

    number = once(g, ("count", g.numbering.elements(source)), make)
    return times(g, number, math.prod(edge.shape) // max(math.prod(source.shape), 1))


def _counted(g: Scope, v: Value) -> Value:
    """A computed number that counts what is true, as a size: of masks torch.export asks so for how
    many places they choose."""
    if v.is_const or v.edge is None or v.count is not None or math.prod(v.shape) != 1:
        return v
    mask = g.numbering.counted(v.edge)
    if mask is None or v.dtype.kind not in "iu":
        return v
    most = np.full(v.shape, math.prod(mask.shape), v.dtype)
    return sized(most, [count_of(g, mask)])


def of_counts(g: Scope, n: OnnxNode) -> None:
    """Replaces what would be a shape that nobody knows by the size that it is."""
    if n.op == "Concat":  # one of a shape's sizes, beside others
        values = [v if v is None or v.rank != 1 else _counted(g, v) for v in n.inputs]
        if all(v is not None and v.is_const for v in values):
            n.inputs = values
        return
    for i in SIZED[n.op][0]:
        v = n.optional(i)
        if v is not None and (found := _counted(g, v)) is not v:
            n.inputs[i] = found


def times(g: Scope, count: Number, factor: int) -> Number:
    if factor == 1:
        return count
    pair = [count, constant(np.array([factor]))]
    return once(g, ("times", count, factor), lambda: g.emitted("Mul", pair))


def parts(g: Scope, count: Number, divisor: int) -> Number:
    """A number that is a multiple of another one, divided by it."""
    if divisor == 1:
        return count
    pair = [count, constant(np.array([divisor]))]
    return once(g, ("parts", count, divisor), lambda: g.emitted("Div", pair))


def fewer(g: Scope, count: Number, most: Number | int) -> Number:
    if count is most:
        return count
    other = most if isinstance(most, Value) else constant(np.array([most]))
    return once(g, ("fewer", count, most), lambda: g.emitted("Min", [count, other]))


def is_part(g: Scope, number: Number | None, of: Number) -> bool:
    """Whether a number is another one, as far as there is room for so many."""
    return any(
        made is number and key[0] == "fewer" and key[1] is of for key, made in g.counts.items()
    )


def more_rows(g: Scope, count: Number, more: int) -> Number:
    """A number and so many; no less than 0."""
    if more == 0:
        return count
    if more < 0:
        return from_there(g, count, -more)
    pair = [count, constant(np.array([more]))]
    return once(g, ("more", count, more), lambda: g.emitted("Add", pair))


# ---- where they decide a shape -------------------------------------------------------------------


def from_there(g: Scope, count: Number, start: int, step: int = 1) -> Number:
    """How many there are from the place `start` on, in steps."""
    if start == 0 and step == 1:
        return count

    def make() -> Value:
        left = g.emitted("Sub", [count, constant(np.array([start - step + 1]))])
        return g.emitted("Div", [g.emitted("Max", [left, zero]), constant(np.array([step]))])

    zero = constant(np.array([0]))
    return once(g, ("from there", count, start, step), make)


def _one(v: Value) -> tuple[int, Number] | None:
    """The only one of a list of sizes that the data decide."""
    assert v.sizes is not None
    found = [(i, s) for i, s in enumerate(v.sizes) if s is not None]
    return found[0] if len(found) == 1 else None


def _one_of_shape(v: Value) -> tuple[int, Number]:
    at = _one(v)
    if at is None:
        raise Unsupported("a shape of which the data decide more than one size")
    return at


#: The number of rows along each axis where the data decide it.
Axes = dict[int, Number]


def axes_of(v: Value) -> Axes:
    if v.count is None:
        return {}
    return {v.axis: v.count} | dict([v.second] if v.second is not None else [])


def along(v: Value, axes: Axes) -> Value:
    """A value of which so many rows count along these axes."""
    if len(axes) > 2:
        raise Unsupported("rows along three axes, of all of which the data decide how many count")
    (axis, count), second = next(iter(sorted(axes.items())), (0, None)), max(axes, default=0)
    return replace(
        v, axis=axis, count=count, second=(second, axes[second]) if len(axes) == 2 else None
    )


def plain(v: Value) -> Value:
    """The most that numbers can be, as a constant like any other."""
    return constant(v.const) if v.sizes is not None else v


def _decided(v: Value, rank: int) -> Axes:
    """The sizes of a shape that the data decide, by axes of a tensor of `rank`."""
    assert v.sizes is not None
    ahead = rank - len(v.sizes)
    return {i + ahead: number for i, number in enumerate(v.sizes) if number is not None}


@takes_sizes(range(1), "ConstantOfShape")
def _constant(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    shape = n.input(0)
    n.inputs = [plain(shape)]
    (made,) = lower()
    assert isinstance(made, Value)
    return [along(made, _decided(shape, made.rank))]


@takes_sizes(range(1, 2), "Expand")
def expanded_to(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Rows that there are already stay as many as they are: there have to be as many."""
    x, shape = n.input(0), n.input(1)
    n.inputs = [replace(x, count=None, second=None), plain(shape)]
    (made,) = lower()
    assert isinstance(made, Value)
    ahead = made.rank - x.rank
    axes = _decided(shape, made.rank) if shape.sizes is not None else {}
    for axis, number in axes_of(x).items():
        at = axis + ahead - (made.rank - shape.const.size)
        if axis + ahead not in axes and at >= 0 and shape.const.reshape(-1)[at] != 1:
            raise Unsupported(f"rows of which the data decide how many count, made "
                              f"{shape.const.reshape(-1)[at]}")  # fmt: skip
        axes[axis + ahead] = number
    return [along(made, axes)]


@takes_sizes(range(1, 2), "Tile")
def _tile(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The first of the copies count."""
    x, repeats = n.input(0), n.input(1)
    at = _one_of_shape(repeats)
    if x.count is not None:
        raise Unsupported("rows of which the data decide how many count, among others")
    n.inputs = [x, plain(repeats)]
    (made,) = lower()
    assert isinstance(made, Value)
    return [replace(made, axis=at[0], count=times(g, at[1], x.shape[at[0]]))]


@takes_sizes(range(1, 2), "Reshape")
def _reshape(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The elements say how large it is."""
    x, shape = n.input(0), n.input(1)
    at = _one(shape)
    if x.count is None and at is not None and not (shape.const == -1).any():
        sizes = shape.const.copy()
        sizes[at[0]] = -1
        shape = constant(sizes)
    n.inputs = [x, shape]
    return lower()


@takes_sizes(range(1, 2), "TopK")
def _top_k(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """No more than there are at most; rows.py knows which count."""
    x, k = n.input(0), n.input(1)
    assert k.sizes is not None
    axis = axis_of(n.integer("axis", -1), x.rank)
    most = min(int(k.const.reshape(-1)[0]), x.shape[axis])
    n.inputs = [x, constant(np.array([most]))]
    number = k.sizes[0]
    return [replace(v, count=number, axis=axis) if isinstance(v, Value) else v for v in lower()]


@takes_sizes(range(2, 3), "Slice")
def _slice(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The first so many along one axis."""
    x, starts, ends = n.input(0), n.input(1), n.input(2)
    at = _one(ends)
    if at is None or not starts.is_const or ("least", at[1]) in g.counts:  # or from the last one on
        return None
    axes = n.axes("axes", 3) or list(range(len(ends.const)))
    steps = n.axes("steps", 4) or [1] * len(axes)
    axis = axis_of(axes[at[0]], x.rank)
    if starts.const[at[0]] != 0 or steps[at[0]] != 1:
        return None
    if x.count is not None and x.axis != axis:
        raise Unsupported(TWO_AXES)
    n.inputs = [x, starts, plain(ends), *n.inputs[3:]]
    (made,) = lower()
    assert isinstance(made, Value)
    if made.count is at[1]:
        return [made]
    if made.count is not None:
        return [replace(made, count=fewer(g, made.count, at[1]))]
    most = int(ends.const[at[0]])
    number = at[1] if most <= x.shape[axis] else fewer(g, at[1], x.shape[axis])
    return [replace(made, count=number, axis=axis)]


@takes_sizes(range(1, 2), "Split")
def _split(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Each part has room for the most that its size can be."""
    x, sizes = n.input(0), n.input(1)
    axis = axis_of(n.integer("axis"), x.rank)
    if x.count is not None and x.axis != axis:
        raise Unsupported(TWO_AXES)
    assert sizes.sizes is not None
    if len(sizes.sizes) == 1:  # the whole
        return [x if x.count is not None else replace(x, count=sizes.sizes[0], axis=axis)]
    whole, length, along = replace(x, count=None), x.shape[axis], constant(np.array([axis]))
    found: list[Value] = []
    start = constant(np.zeros(1, np.int64))
    for most, number in zip(sizes.const.reshape(-1).tolist(), sizes.sizes, strict=True):
        if start.is_const:
            end = constant(np.minimum(start.const + most, length))
            part = g.emitted("Slice", [whole, start, end, along])
        else:
            places = g.emitted("Add", [start, constant(np.arange(most))])
            places = g.emitted("Min", [places, constant(np.array([length - 1]))])
            part = g.emitted("Gather", [whole, places], axis=axis)
        found.append(part if number is None else replace(part, count=number, axis=axis))
        step = constant(np.array([most])) if number is None else number
        start = g.emitted("Add", [start, step])
    return found


@takes_sizes(range(3, 4), "Resize")
def _resize(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """To as many images, or channels of them, as there are."""
    x, sizes = n.input(0), n.input(3)
    axes = [axis_of(a, x.rank) for a in n.integers("axes") or range(x.rank)]
    assert sizes.sizes is not None
    for axis, number in zip(axes, sizes.sizes, strict=True):
        if number is not None and (number is not x.count or axis != x.axis):
            raise Unsupported("an image resized to a size that the data decide")
    n.inputs = [*n.inputs[:3], plain(sizes)]
    return lower()


@takes_sizes(range(3), "Range")
def _range(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    start, limit, step = (n.input(i) for i in range(3))
    if limit.sizes is None or start.sizes is not None or step.sizes is not None:
        return None
    if not (start.is_const and step.is_const and step.const == 1 and start.const % 1 == 0):
        return None
    n.inputs = [start, plain(limit), step]
    (made,) = lower()
    assert isinstance(made, Value)
    count, first = limit.sizes[0], int(start.const)
    assert count is not None
    if first != 0:
        count = g.emitted("Sub", [count, constant(np.array([first]))])
    if first != 0 or ("least", limit.sizes[0]) in g.counts:
        count = g.emitted("Max", [count, constant(np.array([0]))])
    return [replace(made, count=count, axis=0)]
