"""Numbers of float32 files as a tensor's own type, and back.

The rules (docs/tools.md): fixed-point tensors are encoded as ``round(x / scale - offset)`` with
halves away from zero and clamped to the type's range; float16 and bfloat16 round to nearest, halves
to even; integers take whole numbers in range and nothing else; bool is whether it is not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._native import _core
from ..dtypes import data_type_name
from ._common import UsageError

FILE_FLOAT = np.dtype(np.float32)
CHUNK = 1 << 18  # elements converted at a time

_FIXED = (0x03, 0x04)  # SFIXED_POINT_*, UFIXED_POINT_*


def is_float32(tensor: _core.Tensor) -> bool:
    """Whether a float32 file holds the tensor's own bytes."""
    return bool(tensor.dtype == FILE_FLOAT)


def elements(tensor: _core.Tensor) -> int:
    return int(np.prod(tensor.shape, dtype=np.int64))


def nbytes(tensor: _core.Tensor) -> int:
    return elements(tensor) * int(tensor.dtype.itemsize)


def described(tensor: _core.Tensor) -> str:
    """For messages: name, type and shape."""
    return f"{tensor.name!r} ({data_type_name(tensor.data_type)}{list(tensor.shape)})"


def encode(
    tensor: _core.Tensor, values: np.ndarray, out: np.ndarray, start: int, what: str
) -> None:
    """Convert float32 values to a tensor's type.

    Args:
        values: some consecutive elements.
        out: where they go, of the tensor's element type.
        start: which element of the tensor the first is; for encodings along an axis.
        what: where the values come from, for messages.

    Raises:
        UsageError: a number that the type cannot hold: not a number, a fraction, out of range.
    """
    if tensor.data_type >> 8 in _FIXED:
        scale, offset = _pairs(tensor, start, len(values))
        real = values.astype(np.float64) / scale - offset
        _refuse(np.isnan(real), values, tensor, start, what)
        low, high = _fixed_range(tensor)
        # Halves away from zero; the sum is exact where the range of the type ends.
        np.clip(np.trunc(real + np.copysign(0.5, real)), low, high, out=real)
        out[...] = real.astype(out.dtype)
    elif out.dtype.kind in "iu":
        whole = values.astype(np.float64)
        info = np.iinfo(out.dtype)
        # The bounds of 64-bit types are no float64: the next one up is, and is not reached.
        bad = ~((whole >= info.min) & (whole < float(info.max) + 1) & (whole == np.trunc(whole)))
        _refuse(bad, values, tensor, start, what)
        out[...] = whole.astype(out.dtype)
    elif out.dtype.kind == "b":
        _refuse(np.isnan(values), values, tensor, start, what)
        np.not_equal(values, 0, out=out)
    else:
        with np.errstate(over="ignore"):  # to infinity, as the type does
            out[...] = values.astype(out.dtype)


def decode(tensor: _core.Tensor, values: np.ndarray, start: int) -> np.ndarray:
    """Some consecutive elements of a tensor, from number ``start`` on, as float32."""
    if tensor.data_type >> 8 in _FIXED:
        scale, offset = _pairs(tensor, start, len(values))
        real = (values.astype(np.float64) + offset) * scale
        return np.asarray(real, np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def _refuse(
    bad: np.ndarray, values: np.ndarray, tensor: _core.Tensor, start: int, what: str
) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise UsageError(
            f"{what}: element {start + at} is {values[at]:g}, which {described(tensor)} cannot hold"
        )


def _pairs(tensor: _core.Tensor, start: int, count: int) -> tuple[Any, Any]:
    """Scale and offset: one for all, or one for each element in question."""
    q = tensor.quantization
    if q is None:
        raise UsageError(
            f"tensor {described(tensor)} declares no scale and offset: only files of its own type "
            "can be used for it"
        )
    if q.axis is None:
        return float(q.scale), int(q.offset)
    inner = int(np.prod(tensor.shape[q.axis + 1 :], dtype=np.int64))
    index = (np.arange(start, start + count) // inner) % tensor.shape[q.axis]
    scales = np.asarray(q.scale, np.float64)
    offsets = np.broadcast_to(np.asarray(q.offset, np.int64), scales.shape)
    return scales[index], offsets[index]


def _fixed_range(tensor: _core.Tensor) -> tuple[int, int]:
    bits = int(f"{tensor.data_type & 0xFF:x}")  # the codes are decimal digits: 0x0308 has 8 bits
    if tensor.quantization.bitwidth:
        bits = min(bits, tensor.quantization.bitwidth)
    if tensor.data_type >> 8 == 0x03:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1
