"""The lowering of operators, which is the runtime library's: its arguments and results."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._native import _core
from ...abi import constants as abi
from ...dtypes import data_type, numpy_dtype
from ...model import Quantization
from .options import Options
from .schema import OperatorInfo
from .types import TensorInfo
from .values import Value

__all__ = ["TABLE", "Mapping", "elements", "lower", "param", "quantization"]

_COMPUTED, _VARIABLE = abi.QNN_TENSOR_TYPE_APP_WRITE, abi.QNN_TENSOR_TYPE_APP_READWRITE
_STATIC = abi.QNN_TENSOR_TYPE_STATIC
_DOUBLE = abi.QNN_DATATYPE_FLOAT_64
_PARAMS = {
    abi.QNN_DATATYPE_UINT_32: np.uint32,
    abi.QNN_DATATYPE_INT_32: np.int32,
    abi.QNN_DATATYPE_FLOAT_32: np.float32,
}


@dataclass(frozen=True)
class Mapping:
    """How a builtin operator is lowered."""

    to: str  # the QNN ops that it becomes, for the coverage page
    options: str  # its options table; "" when it has none that matters
    note: str  # limits, for the coverage page


#: BuiltinOperator -> how it is lowered.
TABLE: dict[str, Mapping] = {
    row["name"]: Mapping(row["to"], row["options"], row["note"])
    for row in json.loads(_core.tflite_operators_json())
}


def lower(
    info: OperatorInfo,
    inputs: list[tuple[TensorInfo, Value | None] | None],
    outputs: list[TensorInfo],
    states: int,
    budget: int,
    more: dict[str, int],
) -> dict[str, Any]:
    """What an operator becomes, or why not, as ``qnnrt_tflite_lower`` returns it.

    Args:
        inputs: None where one is omitted; those of variable tensors have no value.
        states: QNNRT_TFLITE_STATES_*.
        budget: bytes of constants that may be made.
        more: options that are not in the operator's table.
    """
    params = [("version", _DOUBLE, float(info.version)), *_params(info.options)]
    params += [(name, _DOUBLE, float(value)) for name, value in more.items()]
    given = [None if i is None else _input(*i) for i in inputs]
    wanted = [_tensor((), t.dtype, _COMPUTED, quantization=t.encoding) for t in outputs]
    described = _core.Op("", "", info.op, params, given, wanted)
    found: dict[str, Any] = json.loads(_core.tflite_lower(described, states, max(budget, 0)))
    return found


def _params(options: Options) -> Iterator[tuple[Any, ...]]:
    for name, value in options.fields.items():
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "iufb":
                data = value.astype(np.float64)
                yield name, _core.Tensor(name, data.shape, _DOUBLE, _STATIC, data=data)
        elif isinstance(value, (int, float)):
            yield name, _DOUBLE, float(value)


def _input(tensor: TensorInfo, value: Value | None) -> _core.Tensor:
    if value is None:
        return _tensor((), tensor.dtype, _VARIABLE, quantization=tensor.encoding)
    if value.data is None:
        return _tensor(value.shape, value.dtype, _COMPUTED, quantization=value.quantization)
    data = np.ascontiguousarray(value.data)
    return _tensor(value.shape, value.dtype, _STATIC, data=data, quantization=value.quantization)


def _tensor(
    shape: tuple[int, ...], dtype: np.dtype | None, type_: int, **more: Any
) -> _core.Tensor:
    # QNN has fixed-point numbers of 32 bits at most; files have biases of 64.
    fixed = more["quantization"] is not None and dtype is not None and dtype.itemsize <= 4
    return _core.Tensor("", shape, data_type(dtype, fixed), type_, **more)


def param(planned: tuple[int, list[int], list[int]]) -> object:
    """A parameter of an operation: its type, dimensions and bits."""
    kind, dims, bits = planned
    if kind == abi.QNN_DATATYPE_BOOL_8:
        return np.bool_(bits[0])
    values = np.array(bits, np.uint32).view(_PARAMS[kind])
    return values.reshape(dims) if dims else values[0]


def quantization(tensor: dict[str, Any]) -> Quantization | None:
    """The encoding of a tensor of the plan."""
    if "scale" not in tensor:
        return None
    scale = np.array([float(s) for s in tensor["scale"]], np.float32)
    bits = tensor["bits"] or None
    if tensor["axis"] < 0:
        return Quantization(float(scale[0]), tensor["offset"][0], None, bits)
    offset = np.array(tensor["offset"], np.int32)
    return Quantization(scale, offset if offset.any() else 0, tensor["axis"], bits)


def elements(tensor: dict[str, Any]) -> np.ndarray:
    """A constant that was made by the lowering; a copy."""
    raw = ctypes.string_at(tensor["address"], tensor["bytes"])
    return np.frombuffer(raw, numpy_dtype(tensor["dtype"])).reshape(tensor["shape"])
