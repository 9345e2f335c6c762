"""Shorthand that the lowering functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tflite

from ...model import Quantization
from ..shorthand import Shorthand, number, u32
from .nodes import Damaged, NotFixed, TfliteNode, Unsupported
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering

SAME, VALID = int(tflite.Padding.SAME), int(tflite.Padding.VALID)


def unary(
    c: Lowering, type_: str, x: Value, dtype: np.dtype | None = None, **params: object
) -> Value:
    return c.b.op(type_, [x], x.shape, dtype, **params)


def nary(c: Lowering, type_: str, values: Sequence[Value], dtype: np.dtype | None = None) -> Value:
    """An operation that broadcasts its inputs."""
    shape = np.broadcast_shapes(*(v.shape for v in values))
    return c.b.op(type_, values, shape, dtype if dtype is not None else values[0].dtype)


_short: Shorthand[Lowering, Value] = Shorthand(constant, unary, nary)
add = _short.add
cast = _short.cast
mul = _short.mul
plus = _short.plus
scalar = _short.scalar
sub = _short.sub
times = _short.times


def scalar_like(value: float, x: Value) -> Value:
    """A constant to go with `x`: where that is quantized, one step of a scale of its own."""
    if x.quantization is None:
        return scalar(value, x.dtype)
    step = int(np.sign(value))
    offset = 0 if x.dtype.kind == "i" else min(step, 0)
    encoding = Quantization(abs(value) or 1.0, offset)
    return constant(np.array(step - offset, x.dtype), encoding)


def cut(c: Lowering, x: Value, ranges: Sequence[tuple[int, int, int]]) -> Value:
    """x[begin:end:stride] for every dimension; an end of -1 with a negative stride: through 0."""
    if all(r == (0, d, 1) for r, d in zip(ranges, x.shape, strict=True)):
        return x
    shape = [len(range(*r)) for r in ranges]
    return c.b.op("StridedSlice", [x], shape, ranges=np.array(ranges, np.int32))


def padded(c: Lowering, x: Value, pads: Sequence[Sequence[int]], value: float = 0) -> Value:
    """Constant padding with a real number: (before, after) of every dimension."""
    if not any(b or e for b, e in pads):
        return x
    real = x.quantization is not None
    shape = [d + b + e for d, (b, e) in zip(x.shape, pads, strict=True)]
    return c.b.op(
        "Pad",
        [x],
        shape,
        scheme=np.uint32(0),
        pad_amount=u32(pads),
        pad_constant_value=np.float32(value) if real else number(value, x.dtype),
    )


def rank_is(x: Value, *ranks: int) -> Value:
    if x.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise Damaged(f"an input of rank {x.rank} instead of {wanted}")
    return x


def weights(node: TfliteNode, index: int, x: Value) -> Value:
    """Weights, fixed-point ones when `x` is; of its element type when it is not."""
    w = node.input(index)
    if w.quantization is None and (w.dtype != x.dtype or x.quantization is not None):
        raise Unsupported(f"{w.dtype.name} weights without scales, for a {x.dtype.name} input")
    return w


def bias(node: TfliteNode, index: int, x: Value, w: Value, axis: int, count: int) -> list[Value]:
    """The bias of `count` outputs, if there is one; those lie along `axis` of `w`.

    In fixed point its step is that of the products, whatever the file says of it: TFLite's kernels
    add it to them as it is.
    """
    given = node.optional(index)
    if given is None:
        return []
    if given.size != count:
        raise Damaged(f"a bias of {given.size} elements for {count} outputs")
    products = x.quantization is not None and w.quantization is not None
    if not products or given.data is None or given.dtype not in (np.int32, np.int64):
        return [given]
    assert x.quantization is not None
    assert w.quantization is not None
    if w.quantization.axis not in (None, axis):
        raise Unsupported(f"weights with scales along dimension {w.quantization.axis}")
    along = None if w.quantization.axis is None else 0
    scale = np.float32(x.quantization.scale) * np.asarray(w.quantization.scale, np.float32)
    encoding = Quantization(float(scale) if along is None else scale, 0, along)
    if np.abs(given.data.astype(np.int64)).max(initial=0) > np.iinfo(np.int32).max:
        raise NotFixed("a bias beyond 32 bits, the most that QNN has")
    return [constant(given.data.astype(np.int32).reshape(-1), encoding, given.name)]


def window(
    size: int, kernel: int, stride: int, dilation: int, padding: int
) -> tuple[int, tuple[int, int]]:
    """Output size, and padding before and after, of a window along one dimension.

    TensorFlow's rule: SAME gives ceil(size / stride) outputs and puts an odd padding's extra
    element behind; VALID pads nothing and drops what does not fill a window.
    """
    if kernel < 1 or stride < 1 or dilation < 1:
        raise Damaged(f"a kernel of {kernel}, stride {stride}, dilation {dilation}")
    reach = (kernel - 1) * dilation + 1
    if padding == SAME:
        out = -(-size // stride)
        total = max((out - 1) * stride + reach - size, 0)
        return out, (total // 2, total - total // 2)
    if padding != VALID:
        raise Damaged(f"padding is {padding}, neither SAME (0) nor VALID (1)")
    if size < reach:
        raise Damaged(f"a window of {reach} over {size} elements, without padding")
    return (size - reach) // stride + 1, (0, 0)
