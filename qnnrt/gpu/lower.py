"""The runtime's checked graph, after its passes, as the compiler's."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import numpy_dtype
from ..model import Quantization
from .ir import Ir, Node, Value

__all__ = ["ir_of", "read"]

View: TypeAlias = Callable[[int, int], np.ndarray]  # of an address, and so many bytes


def read(name: str, text: str) -> Ir:
    """What ``GpuLibrary.graph_lower`` said of a graph.

    Its constants are views of the runtime's memory: valid until the graph is lowered again, they
    are released or it is freed.
    """
    return ir_of(name, json.loads(text), _view)


def ir_of(name: str, lowered: Mapping[str, Any], view: View) -> Ir:
    """The same of what the JSON says, with another way from an address to the bytes there."""
    values = [_value(t, view) for t in lowered["tensors"]]
    nodes = [
        Node(
            n["name"],
            n["type"],
            [values[i] if i >= 0 else None for i in n["inputs"]],
            [values[i] for i in n["outputs"] if i >= 0],
            {key: _param(value, view) for key, value in n["params"].items()},
            ports=_ports(n["outputs"]),
        )
        for n in lowered["nodes"]
    ]
    io = tuple(values[i] for i in (*lowered["inputs"], *lowered["outputs"]))
    return Ir(name, io, nodes, [(p["name"], p["changes"]) for p in lowered["passes"]])


def _ports(outputs: list[int]) -> tuple[int, ...]:
    there = tuple(i for i, n in enumerate(outputs) if n >= 0)
    return there if there != tuple(range(len(there))) else ()


def _value(tensor: dict[str, Any], view: View) -> Value:
    dtype = numpy_dtype(tensor["type"])
    shape = tuple(tensor["shape"])
    data = view(tensor["address"], tensor["bytes"]) if "address" in tensor else None
    return Value(
        tensor["name"],
        tensor["id"],
        shape,
        dtype,
        tensor["type"],
        tensor["kind"],
        None if data is None else data.view(dtype).reshape(shape),
        _quantization(tensor["encoding"]) if "encoding" in tensor else None,
    )


def _view(address: int, nbytes: int) -> np.ndarray:
    """Bytes of the runtime's, not to be written."""
    if nbytes == 0:
        return np.zeros(0, np.uint8)
    memory = memoryview((ctypes.c_ubyte * nbytes).from_address(address))
    array: np.ndarray = np.frombuffer(memory, np.uint8)
    array.flags.writeable = False
    return array


def _param(param: Any, view: View) -> Any:
    """A scalar, or a copy of a tensor's array: parameters are small and outlive the graph."""
    if not isinstance(param, dict):
        return param
    if "real" in param:
        return float(param["real"])  # a text where JSON has no number for it
    if "text" in param:
        return param["text"]
    data = _value(param, view).data
    assert data is not None
    return data.copy()


def _quantization(encoding: dict[str, Any]) -> Quantization:
    bits = encoding["bits"] or None
    block = tuple(encoding["block"]) or None
    if encoding["axis"] < 0 and block is None:
        return Quantization(encoding["scales"][0], encoding["offsets"][0], bitwidth=bits)
    scales, offsets = (
        np.array(encoding["scales"], np.float32),
        np.array(encoding["offsets"], np.int32),
    )
    axis = encoding["axis"] if encoding["axis"] >= 0 else None
    return Quantization(scales, offsets, axis, bits, block)
