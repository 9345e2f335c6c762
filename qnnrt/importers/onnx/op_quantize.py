"""QuantizeLinear and DequantizeLinear, each as QNN's operation of its own.

Which of them vanish into fixed-point operations is decided once the whole graph is there, by
`qnnrt.importers.quantized`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import quantization
from ...dtypes import is_float
from ...model import Quantization
from ...quantization import along, limits, with_positive_scales
from ..encodings import Coded, alike, offsets_of
from ..graph import Edge, Op
from .common import add, cast, div, mul, nary, reduce, scalar, select, sub, unary
from .nodes import USUAL, Lowering, OnnxNode, Unsupported, axis_of, lowers
from .values import Builder, Value, coded_constant, constant

_FLOAT = np.dtype(np.float32)
_LEAST = np.iinfo(np.int32).min

#: Elements of one channel in a row, from which on an operation goes over channels at no loss.
_LONG_RUN = 16

#: Types of fewer bits -> the type that holds them, and how many bits they have.
_NARROW = {
    f"{sign}int{bits}": (np.dtype(f"{sign}int8"), bits) for sign in ("", "u") for bits in (2, 4)
}


@functools.cache  # networks ask for few types, very often
def _storage(dtype: np.dtype) -> tuple[np.dtype, int | None]:
    if dtype.name in _NARROW:
        return _NARROW[dtype.name]
    if dtype.kind not in "iu" or dtype.itemsize > 4:
        raise Unsupported(f"the type {dtype.name}, which QNN does not have")
    return dtype, None


def _per_element(values: np.ndarray, n: OnnxNode, shape: tuple[int, ...]) -> np.ndarray:
    """Scales or zero points, ready to be broadcast against a tensor of `shape`."""
    if values.size == 1:
        return values.reshape(())
    axis = axis_of(n.integer("axis", 1), len(shape))
    block = n.integer("block_size")
    if values.ndim == 1 and not block:
        return along(values, axis, len(shape))
    if block:
        values = np.take(values, np.arange(shape[axis]) // block, axis)
    return np.broadcast_to(values, np.broadcast_shapes(values.shape, shape))


def _zeros(n: OnnxNode) -> Value:
    zero = n.optional(2)
    return constant(np.zeros((), np.int32)) if zero is None else zero


def _parameters(n: OnnxNode) -> tuple[np.ndarray, np.ndarray] | None:
    """Scales and zero points as they are given; None when they are computed by the graph."""
    scale, zero = n.input(1), _zeros(n)
    if scale.dtype.kind in "iub":
        raise ValueError(f"scales have to be floats, and are {scale.dtype.name}")
    if scale.data is None or zero.data is None:
        return None
    if zero.dtype == np.int32 and np.any(zero.data == _LEAST):
        raise Unsupported("the zero point -2147483648, of which QNN has not the negative")
    return scale.data.astype(np.float64), zero.data.astype(np.int64)


def most(
    b: Builder,
    op: str,
    inputs: Sequence[Value | None],
    of: tuple[tuple[int, ...], np.dtype],
    attrs: Mapping[str, Any],
) -> Value | None:
    """What most of these nodes give, whose scales and zero points are given; None: another one."""
    x, scale = inputs[0], inputs[1]
    zero = inputs[2] if len(inputs) > 2 else None
    assert x is not None
    assert scale is not None
    shape, dtype = of
    if (codes := x.held) is not None:
        if type(codes) is not np.ndarray or codes.dtype.kind not in "iu" or op[0] != "D":
            return None
        bitwidth = _storage(codes.dtype)[1]
        q = _whole(scale, zero, bitwidth) or _channelwise(scale, zero, attrs, shape, bitwidth)
        return None if q is None else coded_constant(Coded(codes, q, dtype))
    if (edge := x.edge) is None:
        return None
    if op[0] == "D":
        q = _whole(scale, zero, _storage(x.dtype)[1])
        if q is None or not alike(edge.quantization, q):
            return None
        type_, out = "Dequantize", Edge(edge.shape, dtype)
    else:
        held, bitwidth = _storage(dtype)
        q = _whole(scale, zero, bitwidth)
        if q is None or not is_float(x.dtype):
            return None
        type_, out = "Quantize", Edge(edge.shape, held, quantization=q)
    b.add(Op(type_, [edge], [out], {}, b.scope))
    return Value(shape, dtype, out, x.perm)


USUAL.update(QuantizeLinear=most, DequantizeLinear=most)


def _whole(scale: Value, zero: Value | None, bitwidth: int | None) -> Quantization | None:
    """The encoding of most tensors: one scale above 0 and one zero point, which are given."""
    held = scale.held
    if type(held) is not np.ndarray or held.size != 1 or held.dtype.kind != "f":
        return None
    point = 0
    if zero is not None:
        given = zero.held
        if type(given) is not np.ndarray or given.size != 1 or given.dtype.kind not in "iu":
            return None
        point = given.item()
    one: float = held.item()
    known = 0 < one < math.inf and -(2**31) < point < 2**31
    return Quantization(one, -point, None, bitwidth) if known else None


def _channelwise(
    scale: Value,
    zero: Value | None,
    attrs: Mapping[str, Any],
    shape: tuple[int, ...],
    bitwidth: int | None,
) -> Quantization | None:
    """The encoding of most weights and biases: for each channel a scale above 0, and a zero point
    of which 32 bits have the negative, which are given."""
    held, points = scale.held, np.zeros(1, np.int8) if zero is None else zero.held
    if type(held) is not np.ndarray or type(points) is not np.ndarray or attrs.get("block_size"):
        return None
    if held.ndim != 1 or held.dtype.kind != "f" or not held.size or points.ndim > 1:
        return None
    if points.dtype == np.int32:
        if points.size and np.minimum.reduce(points, axis=None) == _LEAST:
            return None
    elif points.dtype.kind not in "iu" or points.dtype.itemsize > 2:
        return None
    axis, rank = int(attrs.get("axis", 1)), len(shape)
    if not -rank <= axis < rank or held.size != shape[axis] or points.size not in (1, held.size):
        return None
    # Nor where one is NaN; numpy's methods take twice as long as the reductions that they call.
    if not 0 < np.minimum.reduce(held) <= np.maximum.reduce(held) < math.inf:
        return None
    offsets = np.empty(held.size, np.int32)
    np.negative(points, out=offsets, dtype=np.int32)
    return Quantization(held.astype(np.float64), offsets, axis % rank, bitwidth)


def _encoding(
    n: OnnxNode,
    found: tuple[np.ndarray, np.ndarray] | None,
    shape: tuple[int, ...],
    bitwidth: int | None,
    per_axis: bool,
) -> Quantization | None:
    """The encoding that scales and zero points are; None when QNN has none for them: it wants
    positive scales."""
    if found is None:
        return None
    scale, zero = found
    if scale.size == zero.size == 1 and 0 < (one := scale.item()) < math.inf:
        return Quantization(one, -zero.item(), None, bitwidth)
    if not np.all(np.isfinite(scale)):
        raise ValueError(f"scales have to be finite, and are {scale.ravel()[:4].tolist()}")
    if not per_axis or np.any(scale <= 0) or scale.size == zero.size == 1:
        return None
    axis = axis_of(n.integer("axis", 1), len(shape))
    if size := n.integer("block_size"):
        block = tuple(size if i == axis else 1 for i in range(len(shape)))
        grid = tuple(d // b for d, b in zip(shape, block, strict=True))
        whole = shape[axis] % size == 0 and scale.shape == grid and zero.shape in ((), grid)
        if not whole:
            return None
        scale = scale.astype(np.float32)
        return Quantization(scale, offsets_of(zero), bitwidth=bitwidth, block=block)
    if max(scale.ndim, zero.ndim) > 1:
        return None
    scales, offsets = np.empty(shape[axis]), np.empty(shape[axis], np.int32)
    scales[...], offsets[...] = scale.ravel(), -zero.ravel()
    return Quantization(scales, offsets, axis, bitwidth)


def _below(x: Value, build: Callable[[Value], Value]) -> Value:
    """An operation on every element, below a pending reshape if there is one."""
    if x.base is None:
        return build(x)
    inner = _below(x.base, build)
    return Value(x.shape, inner.dtype, perm=x.perm, base=inner)


def _channels(c: Lowering, n: OnnxNode, x: Value, code: np.dtype) -> tuple[Value, bool]:
    """`x`, and whether a scale for each of its channels can be the encoding of `code`.

    Codes of more bits than float32 has go through nodes of their own, as do channels whose elements
    are a few in a row: each such run costs a call.
    """
    if code.itemsize > 2 or n.input(1).rank != 1 or not x.rank or n.integer("block_size"):
        return x, False
    x = c.b.plain(x) if x.base is not None and not x.is_const else x
    axis = axis_of(n.integer("axis", 1), x.rank)
    run = math.prod(x.shape[p] for p in x.perm[x.perm.index(axis) + 1 :])
    return x, run >= _LONG_RUN


def _emit(c: Lowering, op: str, x: Value, dtype: np.dtype, q: Quantization | None) -> Value:
    """`op` on `x`; its result has the element type `dtype` and the encoding `q`."""

    def build(v: Value) -> Value:
        y = c.b.op(op, [v], v.shape, dtype if q is None else _storage(dtype)[0], v.perm)
        assert y.edge is not None
        held = q
        if q is not None and q.axis is not None:
            held = dataclasses.replace(q, axis=v.perm.index(q.axis))
        y.edge.quantization = held
        return Value(v.shape, dtype, y.edge, v.perm)

    return _below(x, build)


@lowers("DequantizeLinear", to="Dequantize")
def dequantize(c: Lowering, n: OnnxNode) -> Value:
    x, real = n.input(0), n.dtype()
    if (found := most(c.b, n.op, n.inputs, (n.shape(), real), n.attrs)) is not None:
        return found
    if x.data is not None:
        return _constant(n, x.data, real)
    x, per_channel = _channels(c, n, x, x.dtype)
    bitwidth = _storage(x.dtype)[1]
    q = _whole(n.input(1), n.optional(2), bitwidth) or _encoding(
        n, _parameters(n), x.shape, bitwidth, per_channel
    )
    if q:
        # Codes that were quantized so, as most are, need no operation that says so.
        if x.edge is None or not alike(x.edge.quantization, q):
            x = _emit(c, "Cast", x, x.dtype, q)
        return _emit(c, "Dequantize", x, real, None)
    y = sub(c, cast(c, x, _FLOAT), _factor(c, n, _zeros(n), x.shape))
    scale = n.input(1)
    if scale.data is None or not np.all(scale.data == 1):
        y = mul(c, y, _factor(c, n, scale, x.shape))
    return cast(c, y, real)


def _constant(n: OnnxNode, codes: np.ndarray, real: np.dtype) -> Value:
    found = _parameters(n)
    if found is None:
        raise Unsupported("the scale of a constant is computed by the graph")
    scale, zero = found

    def spread(values: np.ndarray) -> np.ndarray:
        return _per_element(values, n, codes.shape)

    if codes.dtype.kind in "iu" or codes.dtype.name in _NARROW:
        dtype, bitwidth = _storage(codes.dtype)
        codes = codes.astype(dtype, copy=False)
        if dtype.itemsize == 1:
            ends = limits(dtype, bitwidth)
            codes, scale, zero = with_positive_scales(codes, scale, zero, ends, spread)
        if (q := _encoding(n, (scale, zero), codes.shape, bitwidth, True)) is not None:
            return coded_constant(Coded(codes, q, real))
        codes = codes.astype(np.int64) - spread(zero)
    return constant((codes.astype(_FLOAT) * spread(scale).astype(_FLOAT)).astype(real))


def _factor(c: Lowering, n: OnnxNode, v: Value, shape: tuple[int, ...]) -> Value:
    """Scales or zero points in float32, to be broadcast against a tensor of `shape`."""
    if v.data is not None:
        return constant(_per_element(v.data.astype(_FLOAT), n, shape))
    v = cast(c, v, _FLOAT)
    if math.prod(v.shape) == 1:
        return c.b.reshape(v, ())
    if v.rank != 1 or n.integer("block_size"):
        raise Unsupported("scales of blocks that are computed by the graph")
    axis = axis_of(n.integer("axis", 1), len(shape))
    return c.b.reshape(v, [d if i == axis else 1 for i, d in enumerate(shape)])


@lowers("QuantizeLinear", to="Quantize")
def quantize(c: Lowering, n: OnnxNode) -> Value:
    x, code = n.input(0), n.dtype()
    if (found := most(c.b, n.op, n.inputs, (n.shape(), code), n.attrs)) is not None:
        return found
    dtype, bitwidth = _storage(code)
    x, per_channel = _channels(c, n, x, code)
    along_axis = x.is_const or per_channel
    q = _whole(n.input(1), n.optional(2), bitwidth) or _encoding(
        n, _parameters(n), x.shape, bitwidth, along_axis
    )
    if x.data is not None and q is not None:
        return constant(quantization.quantize(x.data, q, dtype).astype(code))
    x = cast(c, x, _FLOAT) if not is_float(x.dtype) else x
    if q is not None:
        return _emit(c, "Quantize", x, code, q)
    ratio = div(c, cast(c, x, _FLOAT), _factor(c, n, n.input(1), x.shape))
    y = add(c, unary(c, "ElementWiseRound", ratio), _factor(c, n, _zeros(n), x.shape))
    if bitwidth is not None:
        raise Unsupported(f"{code.name} with scales of channels, blocks or of the graph's own")
    low, high = limits(dtype, None)
    y = nary(c, "ElementWiseMaximum", [y, scalar(low, _FLOAT)])
    return cast(c, nary(c, "ElementWiseMinimum", [y, scalar(high, _FLOAT)]), dtype)


@lowers("DynamicQuantizeLinear", to="ReduceMin, ReduceMax, ElementWiseDivide, ElementWiseRound")
def dynamic_quantize(c: Lowering, n: OnnxNode) -> list[Value | None]:
    """As ONNX's function has it, but for zeros alone, whose scale is ONNX Runtime's: 1 in place of
    0. The runtime makes one operation of these.

    The elements are quantized in the order that they are held in: what moves after that are bytes.
    """
    x = n.input(0)
    if 0 in x.shape:  # as in ONNX Runtime; the definition has no range for it
        empty = constant(np.empty(x.shape, np.uint8))
        return [empty, constant(np.array(1, _FLOAT)), constant(np.array(0, np.uint8))]
    whole = x
    while whole.base is not None:
        whole = whole.base
    zero = scalar(0.0, _FLOAT)
    low, high = (
        c.b.reshape(reduce(c, op, whole, range(whole.rank)), ()) if whole.rank else whole
        for op in ("ReduceMin", "ReduceMax")
    )
    low = nary(c, "ElementWiseMinimum", [low, zero])
    high = nary(c, "ElementWiseMaximum", [high, zero])
    span = sub(c, high, low)
    none = nary(c, "ElementWiseEqual", [span, zero], np.dtype(np.bool_))
    scale = select(c, none, scalar(1.0, _FLOAT), div(c, span, scalar(255.0, _FLOAT)))
    point = _byte_range(c, sub(c, zero, div(c, low, scale)))
    point = cast(c, unary(c, "ElementWiseRound", point), np.uint8)

    def codes(v: Value) -> Value:
        rounded = unary(c, "ElementWiseRound", div(c, v, scale))
        return cast(c, _byte_range(c, add(c, rounded, cast(c, point, _FLOAT))), np.uint8)

    y = _below(x, codes)
    # A product wants them in their logical order; windows go over images as they are held.
    return [c.b.plain(y) if y.base is not None or y.rank < 4 else y, scale, point]


def _byte_range(c: Lowering, x: Value) -> Value:
    x = nary(c, "ElementWiseMaximum", [x, scalar(0.0, _FLOAT)])
    return nary(c, "ElementWiseMinimum", [x, scalar(255.0, _FLOAT)])
