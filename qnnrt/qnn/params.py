"""Parameters of operations: from Python values to what the binding takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from .._native import _core
from ..abi import constants as abi
from ..dtypes import data_type

Tensor: TypeAlias = _core.Tensor
_INT64 = np.dtype(np.int64)


#: Of scalars that most parameters are.
_CODES = {t: data_type(np.dtype(t)) for t in (np.uint32, np.int32, np.float32, np.bool_)}
#: Data types of what needs no other look: of scalars by their type, of arrays by their numpy type.
PLAIN: dict[Any, int] = _CODES | {np.dtype(t): code for t, code in _CODES.items()}


def params_of(params: Mapping[str, Any] | None, make: Callable[[str, Any], Tensor] | None) -> Any:
    """Op parameters as ``_core.Op`` takes them; ``make`` turns an array into a static tensor."""
    make = static_tensor if make is None else make
    for name, value in (params or {}).items():
        code = _CODES.get(type(value))
        if code is not None:
            yield (name, code, value.item())
        elif isinstance(value, (np.ndarray, list, tuple)):
            array = np.asarray(value)
            if array.dtype == _INT64:  # from a list of Python ints
                narrow = array.astype(np.int32 if (array < 0).any() else np.uint32)
                if (narrow == array).all():  # else the backend refuses it, and says why
                    array = narrow
            if not array.flags.c_contiguous or not array.ndim:
                array = np.ascontiguousarray(array)
            yield (name, make(name, array))
        elif isinstance(value, np.generic):
            yield (name, data_type(value.dtype), value.item())
        elif isinstance(value, _core.Tensor):
            yield (name, value)
        else:
            yield (name, *_scalar(value))


def static_tensor(name: str, array: np.ndarray) -> Tensor:
    return _core.Tensor(
        name, array.shape, data_type(array.dtype), abi.QNN_TENSOR_TYPE_STATIC, data=array
    )


def _scalar(value: Any) -> tuple[int, Any]:
    """QNN data type and value of a scalar parameter that is not numpy's."""
    if isinstance(value, bool):
        return data_type("bool"), value
    if isinstance(value, int):
        return data_type("int32" if value < 0 else "uint32"), value
    if isinstance(value, float):
        return data_type("float32"), value
    if isinstance(value, str):
        return data_type("STRING"), value
    raise TypeError(f"a scalar parameter cannot be a {type(value).__name__}")
