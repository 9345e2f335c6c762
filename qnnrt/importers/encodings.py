"""Quantized constants and the arithmetic of encodings: ``real = scale * (q + offset)``."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model import Quantization
from ..quantization import dequantize
from .graph import Shape


def transposed(q: Quantization, perm: Sequence[int]) -> Quantization:
    if q.block is not None:
        scale, offset = (
            p if p.ndim == 0 else p.transpose(perm) for p in map(np.asarray, (q.scale, q.offset))
        )
        return replace(q, scale=scale, offset=offset, block=tuple(q.block[i] for i in perm))
    return q if q.axis is None else _on_axis(q, list(perm).index(q.axis))


def _on_axis(q: Quantization, axis: int) -> Quantization:
    """The same pairs along another axis; `dataclasses.replace` takes a few times as long."""
    if axis == q.axis:
        return q
    return Quantization(
        q.scale, q.offset, axis, q.bitwidth, q.block, q.block_scales, q.block_scale_bits, q.packed
    )


def reshaped(q: Quantization, old: Shape, new: Shape) -> Quantization | None:
    """The dimension with scales of its own must stay one, with as many elements before it.

    None when it does not. Under blocks, only dimensions of 1 may come and go.
    """
    if q.block is not None:
        return _reshaped_blocks(q, q.block, old, new)
    if q.axis is None:
        return q
    before = math.prod(old[: q.axis])
    for axis, size in enumerate(new):
        if size == old[q.axis] and math.prod(new[:axis]) == before:
            return _on_axis(q, axis)
    return None


def _reshaped_blocks(q: Quantization, block: Shape, old: Shape, new: Shape) -> Quantization | None:
    if [d for d in old if d != 1] != [d for d in new if d != 1]:
        return None
    left = iter([b for d, b in zip(old, block, strict=True) if d != 1])
    sizes = tuple(1 if d == 1 else next(left) for d in new)
    grid = [d // b for d, b in zip(new, sizes, strict=True)]
    scale, offset = (
        p if p.ndim == 0 else p.reshape(grid) for p in map(np.asarray, (q.scale, q.offset))
    )
    return replace(q, scale=scale, offset=offset, block=sizes)


def same(a: Quantization | None, b: Quantization | None) -> bool:
    """The same real number for every integer; without encodings, the integer itself."""
    if a is b or a is None or b is None:
        return a is b
    if (a.axis, a.bitwidth, a.block) != (b.axis, b.bitwidth, b.block):
        return False
    if type(a.scale) is type(b.scale) is float and type(a.offset) is type(b.offset) is int:
        return a.scale == b.scale and a.offset == b.offset  # as most are: numpy takes 10 us
    return np.array_equal(a.scale, b.scale) and np.array_equal(a.offset, b.offset)


def alike(a: Quantization | None, b: Quantization | None) -> bool:
    """Both exist, are encodings of whole tensors, and are the same."""
    return a is not None and a.axis is None and a.block is None and same(a, b)


def offsets_of(zeros: np.ndarray) -> np.ndarray:
    """The offsets that zero points are, in 8 or 16 bits where these hold them: weights in blocks of
    32 have millions."""
    least, most = (-int(f(zeros)) if zeros.size else 0 for f in (np.max, np.min))
    fits = (t for t in (np.int8, np.int16) if np.iinfo(t).min <= least <= most <= np.iinfo(t).max)
    held = next(fits, np.int32)
    offsets: np.ndarray = np.negative(zeros.astype(held))
    return offsets


def decode(codes: np.ndarray, q: Quantization, dtype: np.dtype) -> np.ndarray:
    """The real numbers, computed in 32 bits as ONNX and TFLite do."""
    return dequantize(codes, q).astype(dtype, copy=False)


@dataclass(eq=False, frozen=True)
class Coded:
    """A constant held as integers; `dtype` is that of the real numbers."""

    codes: np.ndarray
    quantization: Quantization
    dtype: np.dtype

    @functools.cached_property
    def real(self) -> np.ndarray:
        return decode(self.codes, self.quantization, self.dtype)

    def transpose(self, perm: Sequence[int]) -> Coded:
        return Coded(self.codes.transpose(perm), transposed(self.quantization, perm), self.dtype)

    def reshape(self, shape: Sequence[int]) -> Coded | None:
        """None when the scales would no longer lie along a dimension."""
        shape = tuple(int(d) for d in shape)
        found = reshaped(self.quantization, self.codes.shape, shape)
        return None if found is None else Coded(self.codes.reshape(shape), found, self.dtype)

    def take(self, index: np.ndarray, axis: int) -> Coded | None:
        """None when the elements of a block would no longer lie together."""
        q = self.quantization
        if q.block is not None:
            return None
        if q.axis == axis:
            q = replace(q, scale=np.asarray(q.scale)[index], offset=np.asarray(q.offset)[index])
        return Coded(np.take(self.codes, index, axis=axis), q, self.dtype)

    def times(self, factor: float) -> Coded | None:
        """None when the factor cannot go into the scales."""
        if factor <= 0:
            return None
        scale = np.asarray(self.quantization.scale) * factor
        kept = float(scale) if scale.ndim == 0 else scale
        return replace(self, quantization=replace(self.quantization, scale=kept))
