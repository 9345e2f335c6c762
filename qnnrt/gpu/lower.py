"""The runtime's checked graph, after its passes, as the compiler's."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np

from ..dtypes import numpy_dtype
from ..model import Quantization
from .ir import Ir, Node, Value

__all__ = ["read"]


def read(name: str, text: str) -> Ir:
    """What ``GpuLibrary.graph_lower`` said of a graph.

    Its constants are views of the runtime's memory: valid until the graph is lowered again, left
    or freed.
    """
    told = json.loads(text)
    values = [_value(t) for t in told["tensors"]]
    nodes = [
        Node(
            n["name"],
            n["type"],
            [values[i] if i >= 0 else None for i in n["inputs"]],
            [values[i] for i in n["outputs"] if i >= 0],
            {key: _param(value) for key, value in n["params"].items()},
        )
        for n in told["nodes"]
    ]
    io = tuple(values[i] for i in (*told["inputs"], *told["outputs"]))
    return Ir(name, io, nodes, [(p["name"], p["changes"]) for p in told["passes"]])


def _value(told: dict[str, Any]) -> Value:
    dtype = numpy_dtype(told["type"])
    shape = tuple(told["shape"])
    data = _view(told["address"], told["bytes"]) if "address" in told else None
    return Value(
        told["name"],
        told["id"],
        shape,
        dtype,
        told["type"],
        told["kind"],
        None if data is None else data.view(dtype).reshape(shape),
        _quantization(told["encoding"]) if "encoding" in told else None,
    )


def _view(address: int, nbytes: int) -> np.ndarray:
    """Bytes of the runtime's, not to be written."""
    if nbytes == 0:
        return np.zeros(0, np.uint8)
    memory = memoryview((ctypes.c_ubyte * nbytes).from_address(address))
    array: np.ndarray = np.frombuffer(memory, np.uint8)
    array.flags.writeable = False
    return array


def _param(told: Any) -> Any:
    """A scalar, or a copy of a tensor's array: parameters are small and outlive the graph."""
    if isinstance(told, str):
        return float(told)  # what JSON has no number for
    if not isinstance(told, dict):
        return told
    if "text" in told:
        return told["text"]
    data = _value(told).data
    assert data is not None
    return data.copy()


def _quantization(told: dict[str, Any]) -> Quantization:
    bits = told["bits"] or None
    block = tuple(told["block"]) or None
    if told["axis"] < 0 and block is None:
        return Quantization(told["scales"][0], told["offsets"][0], bitwidth=bits)
    scales, offsets = np.array(told["scales"], np.float32), np.array(told["offsets"], np.int32)
    axis = told["axis"] if told["axis"] >= 0 else None
    return Quantization(scales, offsets, axis, bits, block)
