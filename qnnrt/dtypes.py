"""QNN data types and numpy's."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from .abi import constants as abi
from .abi import numbers

__all__ = [
    "DATA_TYPES",
    "data_type",
    "data_type_name",
    "has_data_type",
    "is_float",
    "is_number",
    "numpy_dtype",
]

#: The name without QNN_DATATYPE_ -> value.
DATA_TYPES: Final = numbers("QNN_DATATYPE_")
_NAMES: Final = {value: name for name, value in DATA_TYPES.items()}

_PLAIN: Final = {
    "int8": abi.QNN_DATATYPE_INT_8,
    "int16": abi.QNN_DATATYPE_INT_16,
    "int32": abi.QNN_DATATYPE_INT_32,
    "int64": abi.QNN_DATATYPE_INT_64,
    "uint8": abi.QNN_DATATYPE_UINT_8,
    "uint16": abi.QNN_DATATYPE_UINT_16,
    "uint32": abi.QNN_DATATYPE_UINT_32,
    "uint64": abi.QNN_DATATYPE_UINT_64,
    "float16": abi.QNN_DATATYPE_FLOAT_16,
    "bfloat16": abi.QNN_DATATYPE_BFLOAT_16,
    "float32": abi.QNN_DATATYPE_FLOAT_32,
    "float64": abi.QNN_DATATYPE_FLOAT_64,
    "bool": abi.QNN_DATATYPE_BOOL_8,
}
_FIXED: Final = {
    "int8": abi.QNN_DATATYPE_SFIXED_POINT_8,
    "int16": abi.QNN_DATATYPE_SFIXED_POINT_16,
    "int32": abi.QNN_DATATYPE_SFIXED_POINT_32,
    "uint8": abi.QNN_DATATYPE_UFIXED_POINT_8,
    "uint16": abi.QNN_DATATYPE_UFIXED_POINT_16,
    "uint32": abi.QNN_DATATYPE_UFIXED_POINT_32,
}
_NUMPY: Final = {
    **{value: name for name, value in _PLAIN.items()},
    **{value: name for name, value in _FIXED.items()},
    abi.QNN_DATATYPE_SFIXED_POINT_4: "int8",  # one element a byte
    abi.QNN_DATATYPE_UFIXED_POINT_4: "uint8",
}


@functools.lru_cache(maxsize=256)
def data_type(dtype: Any, quantized: bool = False) -> int:
    """The QNN_DATATYPE value for a numpy type, a QNN name or a value.

    Args:
        dtype: anything ``numpy.dtype`` takes, ``"UFIXED_POINT_8"`` and the like, or the value.
        quantized: an integer type stands for fixed-point numbers.

    Raises:
        TypeError: QNN has no such type.
    """
    if isinstance(dtype, np.dtype):
        return _data_type(dtype, quantized)
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if dtype in _NAMES:
            return dtype
        raise TypeError(f"{dtype:#x} is no QNN data type")
    if isinstance(dtype, str) and dtype.removeprefix("QNN_DATATYPE_") in DATA_TYPES:
        return DATA_TYPES[dtype.removeprefix("QNN_DATATYPE_")]
    return _data_type(np.dtype(dtype), quantized)


@functools.lru_cache(maxsize=256)  # numpy puts the name of a type together each time
def _data_type(dtype: np.dtype[Any], quantized: bool) -> int:
    name = dtype.name
    value = (_FIXED if quantized else _PLAIN).get(name)
    if value is None:
        kind = "fixed-point data type for" if quantized else "data type like"
        raise TypeError(f"QNN has no {kind} {name}; it has {', '.join(_PLAIN)}")
    if not dtype.isnative:
        raise TypeError(f"{dtype.str} has foreign byte order: use native byte order")
    return value


@functools.lru_cache(maxsize=256)
def has_data_type(dtype: np.dtype[Any]) -> bool:
    """Whether a tensor can have elements of a numpy type."""
    return dtype.isnative and dtype.name in _PLAIN


def is_float(dtype: np.dtype[Any]) -> bool:
    """Of any width, bfloat16 too, which numpy does not count among its own."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16")


def is_number(dtype: np.dtype[Any]) -> bool:
    """A float, an integer or a truth."""
    return dtype.kind in "iubf" or is_float(dtype)


def data_type_name(value: int) -> str:
    """For example ``FLOAT_32`` for 0x0232."""
    return _NAMES.get(value, f"{value:#06x}")


@functools.lru_cache(maxsize=64)
def numpy_dtype(value: int) -> np.dtype[Any]:
    """The numpy type of one element of a QNN data type.

    Raises:
        TypeError: numpy has none (strings; bfloat16 without ``ml_dtypes``).
    """
    name = _NUMPY.get(value)
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                "numpy has no bfloat16 of its own: install the package ml_dtypes"
            ) from None
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    if name is None:
        raise TypeError(f"numpy has no element type for {data_type_name(value)}")
    return np.dtype(name)
