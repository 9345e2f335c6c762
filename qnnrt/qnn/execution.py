"""What a graph is executed on: memory that tensors are bound to, for a call or beforehand."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .._native import _core
from ..abi import constants as abi
from .memhandle import MemHandle
from .owner import Owner

Tensor: TypeAlias = _core.Tensor
Buffer: TypeAlias = _core.Buffer

#: What a tensor can be bound to in ``Graph.execute``; None where it lies in memory of the graph's.
Binding: TypeAlias = "np.ndarray | MemHandle | Buffer | None"


class ExecutionEnvironment(Owner):
    """Memory settled with a graph before it executes. Made by ``Graph.prepare_environment`` and
    ``Graph.populate_environment``.

    Attributes:
        arrays: by name, the backend's own memory, from ``populate_environment``.
    """

    _rank = 0

    def __init__(
        self,
        graph: Owner,
        option: int,
        inputs: list[Any],
        outputs: list[Any],
        *parents: Owner,
        library: _core.Library,
        keep: Sequence[Binding] = (),
    ) -> None:
        raw = _core.graph_prepare_execution_environment(
            library, graph.handle, option, inputs, outputs, keep
        )
        handles = [v for v in keep if isinstance(v, MemHandle)]
        # A child of the handles, so that it is released before any of them is deregistered.
        self._own(
            "an execution environment",
            _core.Held(raw.release, int, graph.handle),
            graph,
            *parents,
            *handles,
        )
        self.arrays: dict[str, np.ndarray] = {}
        if option == abi.QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS:
            for (tensor, _), (address, nbytes) in zip(
                [*inputs, *outputs], raw.addresses(), strict=True
            ):
                self.arrays[tensor.name] = self._array(tensor, address, nbytes)

    def _array(self, tensor: Tensor, address: int, nbytes: int) -> np.ndarray:
        found = _core.lookup(address)
        if found is not None:  # a shared buffer, which the array keeps
            buffer, offset = found
            return buffer.array(tensor.shape, tensor.dtype, offset)
        memory = (ctypes.c_uint8 * nbytes).from_address(address)
        memory._environment = self  # type: ignore[attr-defined]
        return np.frombuffer(memoryview(memory), tensor.dtype).reshape(tensor.shape)


def buffers_in_flight(graph: str, values: Sequence[Binding]) -> list[_core.Hold]:
    """Tells the ``close`` of buffers that are bound as they are who uses them, while it is kept."""
    return [
        _core.Hold(v, "an execution of graph {!r} in flight", graph)
        for v in values
        if isinstance(v, _core.Buffer)
    ]


def binding_of(tensor: Tensor, value: Any, writable: bool) -> int | tuple[int, int]:
    if isinstance(value, MemHandle):
        return value.handle
    if value is None:
        return 0, 0
    need = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.itemsize
    if isinstance(value, _core.Buffer):
        if value.nbytes < need:
            raise ValueError(
                f"tensor {tensor.name!r} needs {need} bytes, the buffer has {value.nbytes}"
            )
        return value.address, need
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"tensor {tensor.name!r}: give an array, a Buffer or a MemHandle, not a "
            f"{type(value).__name__}"
        )
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise ValueError(
            f"tensor {tensor.name!r} is {tensor.dtype}{list(tensor.shape)}, the array is "
            f"{value.dtype}{list(value.shape)}"
        )
    if not value.flags.c_contiguous or (writable and not value.flags.writeable):
        raise ValueError(
            f"tensor {tensor.name!r}: the array must be C-contiguous"
            f"{' and writable' if writable else ''}"
        )
    return value.ctypes.data, need
