"""Tensors and buffers of a file: element types, quantization, constants as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from ...model import Quantization
from .reader import Reader
from .sparse import Sparse, read_sparse

#: TensorType's number -> element type, for those that numpy and QNN both have.
DTYPES: dict[int, np.dtype] = {
    getattr(tflite.TensorType, name): np.dtype(kind)
    for name, kind in (
        ("FLOAT32", np.float32),
        ("FLOAT16", np.float16),
        ("FLOAT64", np.float64),
        ("INT8", np.int8),
        ("INT16", np.int16),
        ("INT32", np.int32),
        ("INT64", np.int64),
        ("UINT8", np.uint8),
        ("UINT16", np.uint16),
        ("UINT32", np.uint32),
        ("UINT64", np.uint64),
        ("BOOL", np.bool_),
    )
}
#: Two elements in a byte, the first in the low half; held as int8.
INT4 = int(tflite.TensorType.INT4)

#: No tensor of more elements than this is a real one.
_MOST_ELEMENTS = 2**44

TYPE_NAMES: dict[int, str] = {
    code: name.lower() for name, code in vars(tflite.TensorType).items() if isinstance(code, int)
}


@dataclass(frozen=True)
class Quantized:
    """Quantization as the file has it: ``real = scale * (q - zero_point)``."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    def model(self, bits: int | None = None) -> Quantization:
        """In QNN's terms: an offset is the zero point's negative.

        Converters write a scale of 0 for a tensor of nothing but zeros; QNN's are positive.
        """
        scale = np.where(self.scale == 0, np.finfo(np.float32).tiny, self.scale)
        if scale.size == 1:
            return Quantization(float(scale[0]), -int(self.zero_point[0]), None, bits)
        return Quantization(scale, (-self.zero_point).astype(np.int32), self.axis, bits)


@dataclass
class TensorInfo:
    """A tensor of a file. `data` is a constant's, `dtype` None for types that QNN has not."""

    index: int
    name: str
    type: str
    dtype: np.dtype | None
    shape: tuple[int, ...]
    signature: tuple[int, ...]  # as `shape`, with -1 for dimensions that the file leaves open
    data: np.ndarray | None = None
    quantized: Quantized | None = None
    variable: bool = False
    sparse: Sparse | None = None  # a constant that is stored without its zeros
    bits: int | None = None  # of an element, when fewer than its type has

    @property
    def constant(self) -> bool:
        """Whether the file has its elements."""
        return self.data is not None or self.sparse is not None

    @property
    def complex(self) -> bool:
        """Whether its numbers are complex: two float32 tensors stand for it."""
        return self.type == "complex64"

    @property
    def encoding(self) -> Quantization | None:
        """How its integers stand for real numbers, None when they stand for themselves."""
        return None if self.quantized is None else self.quantized.model(self.bits)

    def __str__(self) -> str:
        return f"{self.type}[{', '.join(map(str, self.shape))}]"


def read_buffer(reader: Reader, table: Any, index: int) -> np.ndarray | None:
    """The bytes of a buffer, not copied; None when it is empty.

    Models of more than 2 GB have them behind the flatbuffer, at an offset from its start.
    """
    offset, size = int(table.Offset()), int(table.Size())
    if offset > 1:
        if offset + size > len(reader.data):
            raise reader.fail(
                f"buffer {index} is {size} bytes at {offset}; the file has {len(reader.data)}"
            )
        return np.frombuffer(reader.data, np.uint8, size, offset) if size else None
    length = table.DataLength()
    if length == 0:
        return None
    if length > len(reader.data):
        raise reader.fail(
            f"buffer {index} claims {length} bytes; the file has {len(reader.data)}: it may be "
            "truncated"
        )
    found: np.ndarray = table.DataAsNumpy()
    return found


def read_tensor(
    reader: Reader, table: Any, index: int, buffers: list[np.ndarray | None], owner: str
) -> TensorInfo:
    what = f"tensor {index} of {owner}"
    name = reader.text(table.Name(), "a tensor's name")
    code = int(table.Type())
    shape = tuple(reader.ints(table, "Shape", f"the shape of {what}"))
    signature = tuple(reader.ints(table, "ShapeSignature", f"the shape signature of {what}"))
    if any(d < -1 for d in shape) or math.prod(d for d in shape if d > 0) > _MOST_ELEMENTS:
        raise reader.fail(f"{what} ({name!r}) has the shape {list(shape)}")
    bits = 4 if code == INT4 else None
    tensor = TensorInfo(
        index,
        name,
        TYPE_NAMES.get(code, f"type {code}"),
        np.dtype(np.int8) if code == INT4 else DTYPES.get(code),
        shape,
        signature if len(signature) == len(shape) else shape,
        variable=bool(table.IsVariable()),
        bits=bits,
    )
    tensor.quantized = _quantized(reader, table.Quantization(), tensor, what)
    at = int(table.Buffer())
    if not 0 <= at < max(len(buffers), 1):
        raise reader.fail(f"{what} ({name!r}) names buffer {at}; there are {len(buffers)}")
    raw = buffers[at] if buffers else None
    sparsity = table.Sparsity()
    if tensor.dtype is None:
        return tensor
    if sparsity is None:
        tensor.data = None if raw is None else _array(reader, raw, tensor, what)
    elif bits is None:  # no writer stores elements of 4 bits so
        stored = np.empty(0, np.uint8) if raw is None else raw  # all of it is 0
        named = f"{what} ({name!r})"
        tensor.sparse = read_sparse(reader, sparsity, stored, shape, tensor.dtype, named)
    return tensor


def _array(reader: Reader, raw: np.ndarray, tensor: TensorInfo, what: str) -> np.ndarray:
    assert tensor.dtype is not None
    if any(d < 0 for d in tensor.shape):
        raise reader.fail(f"{what} ({tensor.name!r}) is a constant of shape {list(tensor.shape)}")
    count = math.prod(tensor.shape)
    size = (count + 1) // 2 if tensor.bits == 4 else count * tensor.dtype.itemsize
    if size != raw.size:
        raise reader.fail(
            f"{what} ({tensor.name!r}), {tensor}, needs {size} bytes; its buffer has {raw.size}"
        )
    if tensor.bits == 4:
        reader.spend(count, 1, what)
        halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
        return ((halves ^ 8) - 8).astype(np.int8).reshape(tensor.shape)
    found = np.frombuffer(raw, tensor.dtype, count)
    if tensor.dtype == np.bool_:
        found = (raw != 0).reshape(-1)
    if found.ctypes.data % tensor.dtype.itemsize:
        found = found.copy()
    return found.reshape(tensor.shape)


def _quantized(reader: Reader, table: Any, tensor: TensorInfo, what: str) -> Quantized | None:
    if table is None:
        return None
    count = reader.spend(table.ScaleLength(), 4, f"the scales of {what}")
    zeros = reader.spend(table.ZeroPointLength(), 8, f"the zero points of {what}")
    if count == 0 or tensor.dtype is None or tensor.dtype.kind not in "iu":
        return None
    scale = np.array(table.ScaleAsNumpy(), np.float32)
    zero = np.array(table.ZeroPointAsNumpy(), np.int64) if zeros else np.zeros(1, np.int64)
    axis = int(table.QuantizedDimension())
    if zero.size == 1 and count > 1:
        zero = np.repeat(zero, count)
    named = f"{what} ({tensor.name!r})"
    if zero.size != count:
        raise reader.fail(f"{named} has {count} scales and {zero.size} zero points")
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise reader.fail(f"{named} has a scale that is negative or not finite")
    if count > 1 and (not 0 <= axis < len(tensor.shape) or tensor.shape[axis] not in (count, -1)):
        raise reader.fail(f"{named}, {tensor}, has {count} scales along dimension {axis}")
    if np.abs(zero).max() > np.iinfo(np.int32).max:
        raise reader.fail(f"{named} has a zero point that no 32-bit integer holds")
    return Quantized(scale, zero, axis)
