"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...dtypes import is_float
from ...model import Quantization
from ..encodings import Coded
from .common import add, cast, mul, reduce, strided, sub, times
from .einsum import equation
from .infer_linear import product_shape
from .nodes import Lowering, OnnxNode, Unsupported, lowers
from .values import Value, coded_constant, constant, identity, one_of, uniform

_FLOAT = np.dtype(np.float32)

#: Weights of so many bytes stay as they lie; the activations are put into order instead. With as
#: many columns that takes a thousandth of the product's time.
_LARGE, _MANY = 1 << 22, 256


def fully_connected(c: Lowering, x: Value, w: Value, bias: Value | None) -> Value:
    """x [M, K] times constant w [K, N]. Rows of `w` are put into the order that x is held in, or
    x into that of large ones."""
    rows = c.b.transpose(w, (1, 0))  # as FullyConnected has them, [N, K]
    held = rows.held
    large = isinstance(held, np.ndarray) and held.nbytes >= _LARGE and w.shape[1] >= _MANY
    large = large and not uniform(rows.const)
    if not large and (found := c.b.flat_rows(x)) is not None:
        x, index = found
        # Taken along K of [N, K]: as rows of w they would be gathered and then transposed.
        coded = None if rows.coded is None else rows.coded.take(index, axis=1)
        if coded is not None:
            rows = coded_constant(coded)
        elif not uniform(rows.const):
            rows = constant(np.take(rows.const, index, axis=1))
    x = c.b.plain(x)
    inputs = [x, rows]
    if bias is not None:
        inputs.append(bias)
    return c.b.op("FullyConnected", inputs, (x.shape[0], w.shape[1]))


def _operand(c: Lowering, v: Value) -> tuple[Value, bool]:
    """`v` in plain order, or with its last two dimensions exchanged: then True."""
    v = c.b.real(v)
    rank = v.rank
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if not v.is_const and v.perm == swapped and rank >= 2:
        return v, True
    return c.b.plain(v), False


Decode = Callable[[Value], Value]


def _as_it_is(v: Value) -> Value:
    return v


def matmul(
    c: Lowering, a: Value, b: Value, decode: tuple[Decode, Decode] = (_as_it_is, _as_it_is)
) -> Value:
    """numpy's matmul; of what `decode` makes of the factors, once nothing moves them any more."""
    shape = product_shape(a.shape, b.shape)
    if a.rank == 1:
        a = c.b.reshape(a, (1, *a.shape))
    if b.rank == 1:
        b = c.b.reshape(b, (*b.shape, 1))
    if a.rank == b.rank == 2 and b.is_const and is_float(a.dtype):
        return c.b.reshape(fully_connected(c, a, b, None), shape)
    left, turn_left = _operand(c, a)
    right, turn_right = _operand(c, b)
    rank = max(left.rank, right.rank)
    full = product_shape(left.shape, right.shape)
    if left.rank < rank and not turn_left:
        left = c.b.reshape(left, (1,) * (rank - left.rank) + left.shape)
    elif right.rank < rank and not turn_right:
        right = c.b.reshape(right, (1,) * (rank - right.rank) + right.shape)
    y = c.b.op(
        "MatMul",
        [decode[0](left), decode[1](right)],
        full,
        None,
        identity(len(full)),
        transpose_in0=np.bool_(turn_left),
        transpose_in1=np.bool_(turn_right),
    )
    return c.b.reshape(y, shape)


@lowers("MatMul", to="FullyConnected, MatMul")
def lower_matmul(c: Lowering, n: OnnxNode) -> Value:
    return matmul(c, n.input(0), n.input(1))


@lowers("MatMulInteger", to="Dequantize, Cast, ElementWiseSubtract, MatMul")
def matmul_integer(c: Lowering, n: OnnxNode) -> Value:
    """A product of floats that are integers. This runtime finds it, and multiplies the integers."""
    a, decode_a = integers(c, n, 0, -2)
    b, decode_b = integers(c, n, 1, -1)
    return cast(c, matmul(c, a, b, (decode_a, decode_b)), np.int32)


def integers(c: Lowering, n: OnnxNode, index: int, axis: int) -> tuple[Value, Decode]:
    """A factor, and how to take its zero point away, which is two inputs further; several of them
    lie along `axis`."""
    x, zero = n.input(index), n.optional(index + 2)
    if zero is None:
        zero = constant(np.zeros((), x.dtype))
    single = math.prod(zero.shape) == 1
    if x.data is not None and zero.data is not None and (single or zero.rank == 1):
        offset = -zero.data.astype(np.int32)
        if single:
            encoding = Quantization(1.0, int(offset.item()))
        else:
            encoding = Quantization(np.ones(zero.shape, np.float32), offset, axis % x.rank)
        return coded_constant(Coded(x.data, encoding, _FLOAT)), _as_it_is
    if zero.data is not None and not zero.data.any():
        return x, lambda v: cast(c, v, _FLOAT)
    if zero.rank == 1 and not single:
        zero = c.b.reshape(zero, (*zero.shape, *[1] * (x.rank - 1 - axis % x.rank)))
    point = cast(c, zero, _FLOAT)
    if single:
        return x, lambda v: sub(c, cast(c, v, _FLOAT), c.b.reshape(point, ()))
    return sub(c, cast(c, x, _FLOAT), point), _as_it_is


@lowers("Gemm", to="FullyConnected, MatMul")
def gemm(c: Lowering, n: OnnxNode) -> Value:
    a, b, bias = n.input(0), n.input(1), n.optional(2)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if n.integer("transA"):
        a = c.b.transpose(a, (1, 0))
    if not is_float(a.dtype) and (alpha != 1 or beta != 1):
        raise Unsupported("integer matrices with alpha or beta")
    columns = b.shape[0] if n.integer("transB") else b.shape[1]
    if b.is_const and is_float(a.dtype):
        w = c.b.transpose(b, (1, 0)) if n.integer("transB") else b
        if alpha != 1:
            w = _scaled(w, alpha)
        row = _row(c, bias, columns, beta)
        y = fully_connected(c, a, w, row)
        if row is not None or bias is None:
            return y
    else:
        if n.integer("transB"):
            b = c.b.transpose(b, (1, 0))
        y = times(c, matmul(c, a, b), alpha)
        if bias is None:
            return y
    return add(c, y, times(c, bias, beta))


def _scaled(v: Value, factor: float) -> Value:
    """A constant times a number."""
    if v.coded is None and uniform(v.const):
        one = (one_of(v.const) * factor).astype(v.dtype)
        return constant(np.broadcast_to(one, v.shape))
    coded = None if v.coded is None else v.coded.times(factor)
    return constant((v.const * factor).astype(v.dtype)) if coded is None else coded_constant(coded)


def _row(c: Lowering, bias: Value | None, columns: int, beta: float) -> Value | None:
    """A constant bias that is the same for every row."""
    if bias is None or not bias.is_const:
        return None
    size = math.prod(bias.shape)
    if size not in (1, columns) or (bias.rank and bias.shape[-1] not in (1, columns)):
        return None
    if size == columns and bias.rank and bias.shape[-1] != columns:
        return None
    if size == columns:
        row = c.b.reshape(bias, (columns,))
    else:
        row = constant(np.broadcast_to(bias.const.ravel(), (columns,)))
    return row if beta == 1 else _scaled(row, beta)


@lowers("Einsum", to="MatMul, Transpose, ReduceSum, ElementWiseMultiply")
def einsum(c: Lowering, n: OnnxNode) -> Value:
    operands = [n.input(i) for i in range(len(n.inputs))]
    terms, result, sizes = equation(n.text("equation"), [v.shape for v in operands])
    whole = [_unstretched(c, t, v, sizes) for t, v in zip(terms, operands, strict=True)]
    values = [_diagonal(c, term, v) for term, v in whole]
    term, v = values[0]
    for position, (other, w) in enumerate(values[1:], 1):
        later = set(result).union(*(t for t, _ in values[position + 1 :]))
        term, v = _contract(c, (term, v), (other, w), later)
    term, v = _sum_out(c, term, v, set(result))
    return c.b.transpose(v, [term.index(i) for i in result])


def _unstretched(c: Lowering, term: str, v: Value, sizes: dict[str, int]) -> tuple[str, Value]:
    """An operand without the dimensions of size 1 that another one has larger: as a factor it is
    the same at all of their indices."""
    kept = [i for i, ch in enumerate(term) if sizes[ch] == v.shape[i]]
    if len(kept) == len(term):
        return term, v
    return "".join(term[i] for i in kept), c.b.reshape(v, [v.shape[i] for i in kept])


def _diagonal(c: Lowering, term: str, v: Value) -> tuple[str, Value]:
    """An index that occurs twice: the numbers on the diagonal are taken, at equal distances."""
    for ch in sorted(set(term)):
        while term.count(ch) > 1:
            first, second = term.index(ch), term.rindex(ch)
            rest = [i for i in range(len(term)) if i not in (first, second)]
            size, outer = v.shape[first], [v.shape[i] for i in rest]
            v = c.b.plain(c.b.transpose(v, [*rest, first, second]))
            v = c.b.reshape(v, (*outer, size * size))
            v = strided(c, v, {len(outer): (0, size * size, size + 1)})
            term = "".join(term[i] for i in rest) + ch
    return term, v


def _sum_out(c: Lowering, term: str, v: Value, kept: set[str]) -> tuple[str, Value]:
    axes = [i for i, ch in enumerate(term) if ch not in kept]
    if axes:
        v = reduce(c, "ReduceSum", v, axes, keep=False)
    return "".join(ch for ch in term if ch in kept), v


def _contract(
    c: Lowering, left: tuple[str, Value], right: tuple[str, Value], later: set[str]
) -> tuple[str, Value]:
    """Two operands: shared indices that are needed later are batch, the others are summed."""
    a, x = _sum_out(c, *left, later | set(right[0]))
    b, y = _sum_out(c, *right, later | set(a))
    batch = [ch for ch in a if ch in b and ch in later]
    inner = [ch for ch in a if ch in b and ch not in later]
    rows = [ch for ch in a if ch not in b]
    columns = [ch for ch in b if ch not in a]
    size = {ch: d for t, v in ((a, x), (b, y)) for ch, d in zip(t, v.shape, strict=True)}
    x = c.b.transpose(x, [a.index(ch) for ch in (*batch, *rows, *inner)])
    y = c.b.transpose(y, [b.index(ch) for ch in (*batch, *inner, *columns)])
    result = "".join((*batch, *rows, *columns))
    dims = [size[ch] for ch in result]

    def flat(v: Value, *groups: list[str]) -> Value:
        shape = [int(np.prod([size[ch] for ch in g], dtype=np.int64)) for g in groups]
        return c.b.reshape(v, (*(size[ch] for ch in batch), *shape))

    if not inner:
        ones_x = c.b.reshape(x, (*x.shape, *[1] * len(columns)))
        ones_y = c.b.reshape(y, (*y.shape[: len(batch)], *[1] * len(rows), *y.shape[len(batch) :]))
        return result, mul(c, ones_x, ones_y)
    product = matmul(c, flat(x, rows, inner), flat(y, inner, columns))
    return result, c.b.reshape(product, dims)
