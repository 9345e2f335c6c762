"""Results with as many rows as the data decide: tensors with room for the most there can be, and
how many of the rows count.

Shapes of QNN's graphs are fixed. Such a value has its rows along one axis, those that count first;
the others hold anything. Operators that treat rows one by one keep them apart; every other operator
would mix them, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .counts import fewer, from_there, parts, times
from .einsum import equation
from .nodes import OnnxNode, Unsupported, axis_of
from .scope import Results, Scope
from .values import Thing, Value, blocks

#: ONNX op type -> the axis of the rows in its results.
Rule = Callable[[Scope, OnnxNode, "Rows", Value], int]
RULES: dict[str, Rule] = {}


#: Operators that treat the elements one by one.
ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Cos", "Cosh",
    "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow",
    "PRelu", "QuantizeLinear", "RandomNormalLike", "RandomUniformLike", "Reciprocal", "Relu",
    "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Sqrt", "Sub", "Sum", "Tan", "Tanh",
    "Where", "Xor",
)  # fmt: skip


class Rows:
    """The inputs of a node that have such rows: at which places, and the one number of them."""

    def __init__(self, n: OnnxNode) -> None:
        found = [(i, v) for i, v in enumerate(n.inputs) if v is not None and v.count is not None]
        self.inputs = dict(found)
        counts = {id(v.count) for _, v in found}
        if len(counts) != 1:
            raise Unsupported("inputs with two numbers of rows that the data decide")
        self.count = found[0][1].count
        self.axis = found[0][1].axis

    def only(self, index: int = 0) -> Value:
        """The input `index`, which has to be the only one with such rows."""
        if list(self.inputs) != [index]:
            raise Unsupported(f"an input {max(self.inputs)} with as many rows as the data decide")
        return self.inputs[index]


def follows(*op_types: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def kept_apart(g: Scope, n: OnnxNode, lower: Callable[[], Results]) -> Results:
    """The results of a node of such inputs, with their rows."""
    if n.op in ELEMENTWISE and _spans_meet(g, n):
        return lower()
    rows = Rows(n)
    rule = RULES[n.op]
    found: list[Thing | None] = []
    for value in lower():
        if isinstance(value, Value):
            axis = rule(g, n, rows, value)
            value = replace(value, count=rows.count, axis=axis)
        found.append(value)
    return found


def _spans_meet(g: Scope, n: OnnxNode) -> bool:
    """Whether all rows that the data decide are slices of a length that the file knows, unless
    their tensor ends before, beside rows that are as many: there have to be so many then."""
    made = list(n.inputs)
    for i, v in enumerate(n.inputs):
        if v is None or v.count is None:
            continue
        span, behind = g.counts.get(("span", v.count)), v.axis - v.rank
        beside = {
            w.shape[behind]
            for w in n.inputs
            if w is not None and w.count is None and w.rank >= -behind
        } - {1}
        if span is None or beside != {int(span.const[0])}:
            return False
        made[i] = replace(v, count=None)
    n.inputs = made
    return True


# ---- what keeps them ---------------------------------------------------------------------------


@follows(*ELEMENTWISE)
def _elementwise(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    axis = {v.axis - v.rank for v in rows.inputs.values()}
    if len(axis) != 1:
        raise Unsupported("inputs whose rows lie along different axes")
    behind = axis.pop()
    for index, v in enumerate(n.inputs):
        fixed = v is not None and index not in rows.inputs and v.rank >= -behind
        if fixed and v is not None and v.shape[behind] != 1:
            raise Unsupported(f"input {index} has {v.shape[behind]} rows, the others a number "
                              "that the data decide")  # fmt: skip
    return y.rank + behind


@follows("Transpose")
def _transpose(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    order = n.integers("perm") or list(range(y.rank))[::-1]
    return order.index(rows.axis)


def _is_open(n: OnnxNode, axis: int) -> bool:
    """Does a Reshape leave it to the data how large a dimension of its result is?"""
    if n.op != "Reshape":
        return True
    shape = n.input(1)
    decided = shape.sizes is not None and shape.sizes[axis] is not None
    return decided or int(shape.const[axis]) in (-1, 0)


def kept_axes(n: OnnxNode, rank: int) -> dict[int, int]:
    """Where a Squeeze or Unsqueeze puts the axes that stay, of a result of this rank. Sizes cannot
    say it: an axis of rows may have room for one."""
    given, before = n.axes("axes", 1), n.input(0).rank
    if given is None or n.op not in ("Squeeze", "Unsqueeze"):
        return {}
    named = {axis_of(a, max(before, rank)) for a in given}
    longer = [axis for axis in range(max(before, rank)) if axis not in named]
    if n.op == "Squeeze":
        return {axis: place for place, axis in enumerate(longer)}
    return dict(enumerate(longer))


def with_room(n: OnnxNode, axes: Mapping[int, Value]) -> tuple[Sequence[int], Sequence[int]] | None:
    """The shapes that a Reshape or Flatten would have before and behind it, with as much more room
    for rows as no other size is a multiple of: so where they went is seen. Room for one could be
    anywhere. None: the file says the shape behind it in numbers that do not have the rows."""
    more = [1_000_003, 998_244_353]  # primes
    x = n.input(0)
    before, of_number = list(x.shape), dict[int, list[int]]()
    for axis, number in axes.items():
        before[axis] *= more[sum(map(len, of_number.values()))]
        of_number.setdefault(id(number), []).append(before[axis])
    if n.op == "Flatten":
        axis = n.integer("axis", 1)
        axis += x.rank if axis < 0 else 0
        return before, [math.prod(before[:axis]), math.prod(before[axis:])]
    if n.op != "Reshape":
        return None
    shape, after = n.input(1), list[int]()
    numbers = [None] * shape.const.size if shape.sizes is None else shape.sizes
    for i, size in enumerate(shape.const.reshape(-1).tolist()):
        if (said := numbers[i]) is not None:
            known = of_number.get(id(said))
            after.append(known.pop(0) if known else size * more[0] ** (len(axes) == 1))
        else:
            after.append(before[i] if size == 0 and not n.integer("allowzero") else size)
    if -1 in after:
        others = -math.prod(after)
        after[after.index(-1)] = math.prod(before) // others if others else 0
    return (before, after) if math.prod(before) == math.prod(after) else None


@follows("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """The rows stay what they are, or become several each, or several become one of them."""
    x = rows.only()
    assert rows.count is not None
    if (place := kept_axes(n, y.rank).get(rows.axis)) is not None:
        return place
    roomy = with_room(n, {rows.axis: rows.count})
    shapes = (x.shape, y.shape) if roomy is None else roomy
    if roomy is None and x.shape[rows.axis] == 1:  # blocks() leaves it out
        ahead = math.prod(x.shape[: rows.axis])
        for i, size in enumerate(y.shape):
            if size == 1 and math.prod(y.shape[:i]) == ahead:
                return i
    for before, after in blocks(*shapes) or ():
        if before[0] == rows.axis:
            inside, outside = before[1:], after[1:]
            each = math.prod(shapes[0][d] for d in inside)
            held = math.prod(shapes[1][d] for d in outside)
            many = each % held == 0 or held % each == 0
            if each == held or (many and _is_open(n, after[0])):
                common = math.gcd(each, held)
                count = times(g, rows.count, each // common)
                rows.count = parts(g, count, held // common)
                return after[0]
    raise Unsupported(f"a reshape of {list(x.shape)} to {list(y.shape)}, which mixes rows of which "
                      "the data decide how many count")  # fmt: skip


@follows("Gather")
def _gather(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    data, index = n.input(0), n.input(1)
    axis = axis_of(n.integer("axis"), data.rank)
    if 0 not in rows.inputs:
        return axis + rows.axis
    rows.only()
    return rows.axis if rows.axis < axis else rows.axis + index.rank - 1


@follows("GatherND")
def _gather_nd(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    index = rows.only(1)
    if n.integer("batch_dims") or rows.axis == index.rank - 1:
        raise Unsupported("batches of places of which the data decide how many count")
    return rows.axis


@follows("Concat", "Split")
def _beside(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Along another axis, and nothing else among them."""
    axis = axis_of(n.integer("axis"), y.rank)
    whole = n.inputs if n.op == "Concat" else n.inputs[:1]
    if axis == rows.axis or len(rows.inputs) != len(whole):
        raise Unsupported("rows of which the data decide how many count, joined with others")
    if any(v.axis != rows.axis for v in rows.inputs.values()):
        raise Unsupported("inputs whose rows lie along different axes")
    return rows.axis


@follows("Slice")
def _slice(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Of rows, those from one on, in steps, as far as there are any: what counts is in front."""
    x = rows.only()
    starts, ends = (n.axes(name, i) or [] for name, i in (("starts", 1), ("ends", 2)))
    axes = n.axes("axes", 3) or list(range(len(starts)))
    steps = n.axes("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if axis_of(axis, x.rank) != rows.axis:
            continue
        if start < 0 or step < 1:
            raise Unsupported("a slice of rows of which the data decide how many count")
        whole, room = rows.count, x.shape[rows.axis]
        assert whole is not None
        if end < 0:
            whole = from_there(g, whole, min(-end, room))
        elif end < room:
            whole = fewer(g, whole, end)
        rows.count = from_there(g, whole, min(start, room), step)
    return rows.axis


@follows("Gemm")
def _product(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    x = rows.only()
    if rows.axis == x.rank - 1 or n.integer("transA"):
        raise Unsupported("a product over rows of which the data decide how many count")
    return rows.axis


@follows("MatMul", "MatMulInteger")
def _products(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """The rows are those of the left one, columns of the right one, or products side by side."""
    axes = {index: v.axis - v.rank for index, v in rows.inputs.items()}
    matrices = min(n.input(0).rank, n.input(1).rank) > 1
    if axes == {0: -2} or (matrices and axes == {1: -1}):
        return y.rank - (2 if matrices and 0 in axes else 1)
    if not matrices or max(axes.values()) >= -2:
        raise Unsupported("a product over rows of which the data decide how many count")
    return _elementwise(g, n, rows, y)


@follows("Einsum")
def _einsum(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """All have the letter of the rows alike, and so has the result."""
    terms, result, _ = equation(n.text("equation"), [v.shape for v in n.inputs if v is not None])
    letters = {terms[index][v.axis] for index, v in rows.inputs.items()}
    letter = letters.pop()
    has = [index for index, term in enumerate(terms) if letter in term]
    if letters or letter not in result or has != list(rows.inputs) or any(
        term.count(letter) > 1 for term in terms
    ):  # fmt: skip
        raise Unsupported("a product over rows of which the data decide how many count")
    return result.index(letter)


@follows("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool",
         "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "MaxPool",
         "DepthToSpace", "SpaceToDepth")  # fmt: skip
def _images(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """One after the other, or a norm of each place."""
    if n.op in ("BatchNormalization", "LRN") and rows.only().rank > rows.axis >= 2:
        return rows.axis
    least = 2 if n.op == "BatchNormalization" else 3
    if rows.only().rank < least or rows.axis != 0 or y.shape[0] != rows.only().shape[0]:
        raise Unsupported("images of which the data decide how large they are")
    return 0


@follows("Resize")
def _resize(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Images, or channels of them, one by one."""
    if rows.axis > 1 or y.shape[rows.axis] != rows.only().shape[rows.axis]:
        raise Unsupported("images of which the data decide how large they are")
    return rows.axis


@follows("GridSample")
def _sample(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Places of one image, each apart; or images and their places."""
    axes = {index: v.axis for index, v in rows.inputs.items()}
    if list(axes) == [1] and 0 < axes[1] < y.rank - 1:
        return axes[1] + 1
    if axes == {0: 0, 1: 0}:
        return 0
    if axes == {0: 1}:
        return 1
    raise Unsupported("an image with as many rows as the data decide, sampled at places")


@follows("Pad")
def _pad(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    if y.shape[rows.axis] != rows.only().shape[rows.axis]:
        raise Unsupported("padding behind rows of which the data decide how many count")
    return rows.axis


@follows("RoiAlign")
def _regions(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    if set(rows.inputs) - {1, 2} or rows.axis != 0:
        raise Unsupported("an image with as many rows as the data decide")
    return 0


@follows(*(f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min",
         "Prod", "Sum", "SumSquare")), "ArgMax", "ArgMin")  # fmt: skip
def _reduce(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    x = rows.only()
    given = [n.integer("axis")] if n.op.startswith("Arg") else n.axes("axes", 1)
    if not given and not n.integer("noop_with_empty_axes"):
        given = list(range(x.rank))
    axes = {axis_of(a, x.rank) for a in given or ()}
    if rows.axis in axes:
        raise Unsupported("a sum over rows of which the data decide how many count")
    gone = 0 if n.integer("keepdims", 1) else sum(a < rows.axis for a in axes)
    return rows.axis - gone


@follows("CumSum", "TopK")
def _each(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    rows.only()
    return rows.axis


@follows("Hardmax", "LogSoftmax", "LpNormalization", "Softmax")
def _softmax(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    older = n.op != "LpNormalization" and n.version < 13
    axis = axis_of(n.integer("axis", 1 if older else -1), y.rank)
    if axis == rows.axis or (older and rows.axis > axis):
        raise Unsupported("a softmax over rows of which the data decide how many count")
    return rows.axis


@follows("GatherElements")
def _gather_elements(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Places within each row, or rows of places in a tensor."""
    axis = axis_of(n.integer("axis"), y.rank)
    axes = {index: v.axis for index, v in rows.inputs.items()}
    if axes not in ({0: rows.axis, 1: rows.axis}, {1: rows.axis}) or (
        0 in axes and rows.axis == axis
    ):
        raise Unsupported("places among rows of which the data decide how many count")
    return rows.axis


@follows("OneHot")
def _one_hot(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    rows.only()
    return rows.axis + (axis_of(n.integer("axis", -1), y.rank) <= rows.axis)


@follows("Expand")
def _expand(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Where the shape says nothing of the rows: 1 leaves them."""
    x, sizes = rows.only(), n.input(1).const
    at = len(sizes) - (x.rank - rows.axis)
    if at >= 0 and sizes[at] != 1:
        raise Unsupported(f"rows of which the data decide how many count, made {sizes[at]}")
    return rows.axis + y.rank - x.rank


@follows("Tile")
def _tile(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    if y.shape[rows.axis] != rows.only().shape[rows.axis]:
        raise Unsupported("rows of which the data decide how many count, among others")
    return rows.axis


@follows("Trilu")
def _triangle(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """By places from the front, where those are that count."""
    rows.only()
    return rows.axis
