"""Real numbers as fixed-point ones and back, as the runtime's Quantize and Dequantize do it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import data_type, data_type_name, numpy_dtype
from .model import Quantization

__all__ = ["dequantize", "quantize"]


def along(values: float | int | np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    """One value, or one for each index along `axis`, ready to be broadcast."""
    found = np.asarray(values)
    if axis is None or found.ndim == 0:
        return found
    return found.reshape([-1 if i == axis else 1 for i in range(rank)])


def limits(dtype: np.dtype, bitwidth: int | None) -> tuple[int, int]:
    """The least and the largest integer of a fixed-point type."""
    bits = bitwidth or 8 * dtype.itemsize
    if dtype.kind == "i":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def quantize(real: Any, quantization: Quantization, dtype: Any) -> np.ndarray:
    """The nearest fixed-point numbers.

    Halves go to the even integer, what is out of range to the least or greatest one, NaN to real 0.

    Args:
        real: numbers of any shape, taken as float32.
        quantization: real = scale * (q + offset).
        dtype: the integers to make: int8, uint8, int16, uint16, int32, or the name of a QNN data
            type ("UFIXED_POINT_8").

    Raises:
        TypeError: `dtype` is no fixed-point type.
        ValueError: `quantization` does not fit the shape.
    """
    to = _integers(dtype)
    values = np.asarray(real, np.float32)
    scale, offset = _grid(quantization, values.shape)
    wide = np.float64 if to.itemsize > 2 else np.float32  # of up to 16 bits float32 has all
    with np.errstate(over="ignore"):
        codes = np.rint(values.astype(wide) / scale.astype(wide)).astype(np.float64)
    codes = np.where(np.isnan(codes), 0, codes)
    low, high = limits(to, quantization.bitwidth)
    return np.asarray(np.clip(codes - offset, low, high).astype(to))


def with_positive_scales(
    codes: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    ends: tuple[int, int],
    spread: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same real numbers, (code - zero) * scale, by scales above 0, and exactly.

    Codes and zero points change ends where a scale is below 0; where it is 0, a code is its zero
    point.

    Quantizers that give the largest element the code at the lower end write such.

    Args:
        ends: the least and the greatest code.
        spread: scales or zero points, ready to be broadcast against the codes.
    """
    if np.all(scale > 0) or not np.all(np.isfinite(scale)):
        return codes, scale, zero
    zero = np.broadcast_to(zero, np.broadcast_shapes(zero.shape, scale.shape))
    below, none = scale < 0, scale == 0
    turned = np.where(spread(below), sum(ends) - codes.astype(np.int32), codes)
    zero = np.where(below, sum(ends) - zero, zero)
    codes = np.where(spread(none), spread(zero), turned).astype(codes.dtype)
    return codes, np.where(none, 1, np.abs(scale)), zero


def packed(codes: np.ndarray) -> np.ndarray:
    """Elements of 4 bits two in a byte, the first one in its low half."""
    flat = codes.reshape(-1).view(np.uint8)
    made = flat[::2] & 15
    made[: flat.size // 2] |= flat[1::2] << 4
    return made


def unpacked(codes: np.ndarray, shape: tuple[int, ...], signed: bool) -> np.ndarray:
    """Elements of 4 bits, of which there are two in a byte, one by one."""
    halves = np.stack((codes & 15, codes >> 4), -1).reshape(-1)[: math.prod(shape)].reshape(shape)
    return ((halves ^ 8).astype(np.int8) - np.int8(8)) if signed else halves


def dequantize(codes: Any, quantization: Quantization) -> np.ndarray:
    """The real numbers, as float32, that integers stand for.

    Args:
        codes: integers of any shape.
        quantization: real = scale * (q + offset).

    Raises:
        TypeError: `codes` are no integers.
        ValueError: `quantization` does not fit the shape.
    """
    given = np.asarray(codes)
    if given.dtype.kind not in "iu":
        raise TypeError(f"fixed-point numbers are integers, not {given.dtype}")
    scale, offset = _grid(quantization, given.shape)
    if given.dtype.itemsize <= 2:  # exact as floats
        sums = given.astype(np.float32)
        if np.any(offset):
            sums += offset.astype(np.float32)
    else:
        sums = (given.astype(np.int64) + offset).astype(np.float32)
    sums *= scale.astype(np.float32)
    return sums


def _integers(dtype: Any) -> np.dtype[Any]:
    if isinstance(dtype, str) and dtype.isupper():
        code = data_type(dtype)
        if code >> 8 not in (3, 4):
            raise TypeError(f"{data_type_name(code)} is no fixed-point type")
        return numpy_dtype(code)
    found: np.dtype[Any] = np.dtype(dtype)
    if found.kind not in "iu" or found.itemsize > 4:
        raise TypeError(f"fixed-point numbers are integers of 8, 16 or 32 bits, not {found}")
    return found


def _grid(q: Quantization, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Scales and offsets, ready to be broadcast over a tensor of this shape."""
    if q.block is not None:
        return _blocks(q.scale, q.block, shape), _blocks(q.offset, q.block, shape)
    if q.axis is None:
        if np.size(q.scale) != 1 or np.size(q.offset) != 1:
            raise ValueError("several scales or offsets need an axis")
        return np.asarray(q.scale, np.float32).reshape(()), np.asarray(q.offset).reshape(())
    if not 0 <= q.axis < len(shape):
        raise ValueError(f"the encoding's axis {q.axis} is none of the shape {shape}")
    size = shape[q.axis]
    if np.shape(q.scale) != (size,) or np.size(q.offset) not in (1, size):
        raise ValueError(
            f"{np.size(q.scale)} scales and {np.size(q.offset)} offsets along axis {q.axis} of the "
            f"shape {shape}: it needs {size}"
        )
    scale, offset = (along(v, q.axis, len(shape)) for v in (q.scale, q.offset))
    if q.block_scales is None:
        return scale.astype(np.float32), offset
    return scale.astype(np.float32) * _factors(q.block_scales, q.axis, shape), offset


def _blocks(values: Any, block: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(values)
    if found.size == 1:
        return found.reshape(())
    if len(block) != len(shape) or any(b < 1 or n % b for b, n in zip(block, shape, strict=True)):
        raise ValueError(f"blocks of {tuple(block)} do not divide the shape {shape}")
    found = found.reshape([n // b for b, n in zip(block, shape, strict=True)])
    for d, size in enumerate(block):
        found = found.repeat(size, axis=d)
    return found


def _factors(table: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """The block scales of an axis; its blocks lie along the last other dimension."""
    last = len(shape) - 1
    other = last - 1 if axis == last else last
    if other < 0 or table.shape[0] != shape[axis] or shape[other] % table.shape[1]:
        raise ValueError(f"block scales {table.shape} do not fit axis {axis} of the shape {shape}")
    grown = table.repeat(shape[other] // table.shape[1], axis=1)
    ordered = grown if axis < other else grown.T
    wanted = [n if d in (axis, other) else 1 for d, n in enumerate(shape)]
    return np.asarray(ordered.reshape(wanted), np.float32)
