"""Shorthand that the lowering functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tflite

from .nodes import Damaged, TfliteNode, Unsupported
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering

SAME, VALID = int(tflite.Padding.SAME), int(tflite.Padding.VALID)


def scalar(value: float, dtype: np.dtype) -> Value:
    """A constant that broadcasts against anything."""
    return constant(np.array(value, dtype))


def u32(values: Sequence[int] | Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
    return np.array(values, np.uint32)


def unary(
    c: Lowering, type_: str, x: Value, dtype: np.dtype | None = None, **params: object
) -> Value:
    return c.b.op(type_, [x], x.shape, dtype, **params)


def nary(c: Lowering, type_: str, values: Sequence[Value], dtype: np.dtype | None = None) -> Value:
    """An operation that broadcasts its inputs."""
    shape = np.broadcast_shapes(*(v.shape for v in values))
    return c.b.op(type_, values, shape, dtype if dtype is not None else values[0].dtype)


def add(c: Lowering, a: Value, b: Value) -> Value:
    return nary(c, "ElementWiseAdd", [a, b])


def sub(c: Lowering, a: Value, b: Value) -> Value:
    return nary(c, "ElementWiseSubtract", [a, b])


def mul(c: Lowering, a: Value, b: Value) -> Value:
    return nary(c, "ElementWiseMultiply", [a, b])


def times(c: Lowering, a: Value, factor: float) -> Value:
    return a if factor == 1 else mul(c, a, scalar(factor, a.dtype))


def plus(c: Lowering, a: Value, term: float) -> Value:
    return a if term == 0 else add(c, a, scalar(term, a.dtype))


def cast(c: Lowering, x: Value, dtype: np.dtype | type) -> Value:
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.data is not None:
        return constant(x.data.astype(dtype))
    return unary(c, "Cast", x, dtype)


def cut(c: Lowering, x: Value, ranges: Sequence[tuple[int, int, int]]) -> Value:
    """x[begin:end:stride] for every dimension; an end of -1 with a negative stride: through 0."""
    if all(r == (0, d, 1) for r, d in zip(ranges, x.shape, strict=True)):
        return x
    shape = [len(range(*r)) for r in ranges]
    return c.b.op("StridedSlice", [x], shape, ranges=np.array(ranges, np.int32))


def padded(c: Lowering, x: Value, pads: Sequence[Sequence[int]], value: float = 0) -> Value:
    """Constant padding: (before, after) of every dimension."""
    if not any(b or e for b, e in pads):
        return x
    kind: object
    if x.dtype.kind == "f":
        kind = np.float32(value)
    elif x.dtype.kind == "b":
        kind = np.bool_(value)
    else:
        kind = np.int32(value) if x.dtype.kind == "i" else np.uint32(value)
    shape = [d + b + e for d, (b, e) in zip(x.shape, pads, strict=True)]
    return c.b.op(
        "Pad",
        [x],
        shape,
        scheme=np.uint32(0),
        pad_amount=u32(pads),
        pad_constant_value=kind,
    )


def rank_is(x: Value, *ranks: int) -> Value:
    if x.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise Damaged(f"an input of rank {x.rank} instead of {wanted}")
    return x


def float_weights(node: TfliteNode, index: int, x: Value) -> Value:
    """Weights of the element type that they are multiplied with."""
    w = node.input(index)
    if w.dtype != x.dtype and w.quantization is None:
        raise Unsupported(f"{w.dtype.name} weights without scales, for a {x.dtype.name} input")
    return w


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
