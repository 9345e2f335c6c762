"""QNN data types and numpy's."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

__all__ = ["DATA_TYPES", "data_type", "data_type_name", "numpy_dtype"]

#: QNN_DATATYPE_* -> value.
DATA_TYPES: Final = {
    "INT_8": 0x0008,
    "INT_16": 0x0016,
    "INT_32": 0x0032,
    "INT_64": 0x0064,
    "UINT_8": 0x0108,
    "UINT_16": 0x0116,
    "UINT_32": 0x0132,
    "UINT_64": 0x0164,
    "FLOAT_16": 0x0216,
    "BFLOAT_16": 0x0226,
    "FLOAT_32": 0x0232,
    "FLOAT_64": 0x0264,
    "SFIXED_POINT_4": 0x0304,
    "SFIXED_POINT_8": 0x0308,
    "SFIXED_POINT_16": 0x0316,
    "SFIXED_POINT_32": 0x0332,
    "UFIXED_POINT_4": 0x0404,
    "UFIXED_POINT_8": 0x0408,
    "UFIXED_POINT_16": 0x0416,
    "UFIXED_POINT_32": 0x0432,
    "BOOL_8": 0x0508,
    "STRING": 0x0608,
}
_NAMES: Final = {value: name for name, value in DATA_TYPES.items()}

_PLAIN: Final = {
    "int8": 0x0008,
    "int16": 0x0016,
    "int32": 0x0032,
    "int64": 0x0064,
    "uint8": 0x0108,
    "uint16": 0x0116,
    "uint32": 0x0132,
    "uint64": 0x0164,
    "float16": 0x0216,
    "bfloat16": 0x0226,
    "float32": 0x0232,
    "float64": 0x0264,
    "bool": 0x0508,
}
_FIXED: Final = {
    "int8": 0x0308,
    "int16": 0x0316,
    "int32": 0x0332,
    "uint8": 0x0408,
    "uint16": 0x0416,
    "uint32": 0x0432,
}
_NUMPY: Final = {
    **{value: name for name, value in _PLAIN.items()},
    **{value: name for name, value in _FIXED.items()},
    0x0304: "int8",  # one element a byte
    0x0404: "uint8",
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
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if dtype in _NAMES:
            return dtype
        raise TypeError(f"{dtype:#x} is no QNN data type")
    if isinstance(dtype, str) and dtype.removeprefix("QNN_DATATYPE_") in DATA_TYPES:
        return DATA_TYPES[dtype.removeprefix("QNN_DATATYPE_")]
    name = np.dtype(dtype).name
    value = (_FIXED if quantized else _PLAIN).get(name)
    if value is None:
        kind = "fixed-point data type for" if quantized else "data type like"
        raise TypeError(f"QNN has no {kind} {name}; it has {', '.join(_PLAIN)}")
    if not np.dtype(dtype).isnative:
        raise TypeError(f"{np.dtype(dtype).str} has foreign byte order: use native byte order")
    return value


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
