"""What is registered on a gpu backend: OpenCL buffers, and memory of the host's under them."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from .._native import _core
from .._native.descriptor import OPENCL_STRUCT, MemDescriptor
from ..abi import constants as abi
from ..dtypes import numpy_dtype
from .device import pyopencl
from .imports import VECTORS, DeviceObjects, Import, coherent

__all__ = ["Memories"]


@dataclass(frozen=True)
class _Memory:
    """A buffer that is registered; ``buffer`` is a ``pyopencl.Buffer`` of ours on the cl_mem."""

    context: int
    buffer: Any
    number: int
    shape: tuple[int, ...]
    code: int
    host_address: int = 0  # of host memory
    changes_owners: bool = False


class Registrar(DeviceObjects, Protocol):
    """The library whose memory it is."""

    def forget(self, number: int) -> None: ...
    def make_error(self, code: int, component: str, call: str, message: str) -> Exception: ...


class Memories:
    """The memory handles of one backend."""

    def __init__(self, library: Registrar) -> None:
        self._library = library
        self._memories: dict[int, _Memory] = {}
        self._lock = threading.RLock()

    def register(
        self, context: int, descriptors: Iterable[MemDescriptor], imported: Import | None = None
    ) -> list[int]:
        """All or nothing, as QnnMem_register.

        Args:
            imported: what the one buffer that is named is on, when that is host memory.

        Raises:
            MemError: 8005 another kind of memory, 8002 registered already, 8000 too small or of
                another OpenCL context.
        """
        items = list(descriptors)
        with self._lock:
            seen = {m.number: h for h, m in self._of(context)}
            if imported is not None:
                self._refuse_address(context, imported)
            checked = [self._check(context, item, seen) for item in items]
            handles = []
            for memory in checked:
                handle = _core.gpu_register(
                    memory.number,
                    context,
                    _nbytes(memory.shape, memory.code),
                    int(memory.buffer.flags),
                    memory.code,
                    memory.shape,
                    imported.owners if imported is not None else None,
                )
                if imported is not None:
                    changes = imported.owners is not None
                    memory = replace(memory, host_address=imported.address, changes_owners=changes)
                self._memories[handle] = memory
                handles.append(handle)
            return handles

    def _of(self, context: int) -> list[tuple[int, _Memory]]:
        # A copy: garbage that is collected meanwhile may deregister.
        return [(h, m) for h, m in self._memories.copy().items() if m.context == context]

    def _refuse_address(self, context: int, imported: Import) -> None:
        for handle, m in self._of(context):
            if m.host_address == imported.address:
                raise self._refusal(
                    abi.QNN_MEM_ERROR_ALREADY_REGISTERED,
                    f"the memory at {imported.address:#x} is registered already, as "
                    f"{self._known(handle)}: deregister it for another shape or type",
                )

    def _check(self, context: int, item: MemDescriptor, seen: dict[int, int]) -> _Memory:
        """A descriptor's buffer, shape and type; it is added to ``seen``."""
        dims, code, number = item.shape, item.data_type, item.address
        if item.mem_type != abi.QNN_MEM_TYPE_CUSTOM or item.custom != OPENCL_STRUCT:
            raise self._refusal(
                abi.QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                "the gpu backend takes OpenCL buffers alone: kind='opencl', or a Buffer with it",
            )
        if not number:
            raise self._refusal(
                abi.QNN_MEM_ERROR_INVALID_ARGUMENT, "the descriptor names no OpenCL buffer"
            )
        if number in seen:
            raise self._refusal(
                abi.QNN_MEM_ERROR_ALREADY_REGISTERED,
                f"the OpenCL buffer {number:#x} is registered already, as "
                f"{self._known(seen[number])}: one buffer has one handle, which get_or_register() "
                "finds for this shape and type; deregister it for another one",
            )
        buffer = pyopencl().Buffer.from_int_ptr(number, retain=True)
        if buffer.type != pyopencl().mem_object_type.BUFFER:
            name = pyopencl().mem_object_type.to_string(buffer.type, "%d")
            raise self._refusal(
                abi.QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                f"{number:#x} is an OpenCL memory object of type {name}, not a buffer: copy it "
                "into one (pyopencl.enqueue_copy) and register that",
            )
        ours = self._library.cl_context
        if buffer.context != ours:
            raise self._refusal(
                abi.QNN_MEM_ERROR_INVALID_ARGUMENT,
                f"the OpenCL buffer {number:#x} belongs to another OpenCL context "
                f"({_device_of(buffer.context)}; the backend's is {_device_of(ours)}): make it "
                "with backend.cl_context, or give the session your own context by "
                "options={'gpu': {'context': ...}}",
            )
        nbytes = _nbytes(dims, code)
        if buffer.size < nbytes:
            raise self._refusal(
                abi.QNN_MEM_ERROR_INVALID_ARGUMENT,
                f"shape {list(dims)} needs {nbytes} bytes, the OpenCL buffer has {buffer.size}",
            )
        address = self._host_address(buffer)
        if address % VECTORS:
            raise self._refusal(
                abi.QNN_MEM_ERROR_INVALID_ARGUMENT,
                f"the OpenCL buffer {number:#x} lies on the host's memory at {address:#x}: kernels "
                f"of a CPU need a multiple of {VECTORS}; make the buffer on aligned memory, as "
                "qnnrt.alloc gives it, or without USE_HOST_PTR",
            )
        seen[number] = 0
        return _Memory(context, buffer, number, tuple(dims), code)

    def _host_address(self, buffer: Any) -> int:
        """Where a CPU reads a buffer on memory of the client's; 0 for other buffers."""
        if not coherent(self._library.device):
            return 0
        if not int(buffer.flags) & pyopencl().mem_flags.USE_HOST_PTR:
            return 0
        return int(buffer.get_host_array((1,), np.uint8).ctypes.data)

    def deregister(self, handles: Iterable[int]) -> None:
        """The valid ones go even when another one is not; waits for executions.

        Raises:
            MemError: 8001, not registered (any more); 1005, mapped by the client.
        """
        bad = mapped = 0
        with self._lock:
            for handle in handles:
                gone = _core.gpu_deregister(handle) if handle in self._memories else False
                if gone:
                    self._release(handle)
                mapped += gone is None
                bad += gone is False
        if bad:
            raise self._library.make_error(
                abi.QNN_MEM_ERROR_INVALID_HANDLE,
                "mem",
                "memDeRegister",
                f"{bad} of the handles are not registered (any more)",
            )
        if mapped:
            raise self._library.make_error(
                abi.QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "mem",
                "memDeRegister",
                f"{mapped} of the handles are mapped: leave the 'with handle.map()' block first",
            )

    def drop(self, context: int) -> int:
        """Deregister the handles of a context that is freed; how many there were."""
        with self._lock:
            left = [h for h, _ in self._of(context)]
            for handle in left:
                _core.gpu_deregister(handle, force=True)
                self._release(handle)
        return len(left)

    def _release(self, handle: int) -> None:
        memory = self._memories[handle]
        # Before the buffer is freed: its number may be another buffer's then.
        self._library.forget(memory.number)
        if memory.changes_owners:  # the host's memory may end before the command that unmaps it
            with contextlib.suppress(pyopencl().Error):
                self._library.cl_queue.finish()
        del self._memories[handle]

    def in_use(self, handle: int) -> bool:
        """Whether an execution uses it now."""
        return _core.gpu_usage(handle)[0] > 0

    def text(self, handle: int) -> str:
        """Type and shape that a handle is for; nothing when it is none."""
        m = self._memories.get(handle)
        return f"{numpy_dtype(m.code)}{list(m.shape)}" if m is not None else ""

    def _known(self, handle: int) -> str:
        return f"{handle:#x} for {self.text(handle)}" if handle else "another one of this call"

    def _refusal(self, code: int, text: str) -> Exception:
        return self._library.make_error(code, "mem", "memRegister", text)


def _nbytes(shape: Iterable[int], code: int) -> int:
    return math.prod(shape) * int(numpy_dtype(code).itemsize)


def _device_of(context: Any) -> str:
    """Whose context it is, in words."""
    device = context.devices[0]
    return f"{device.platform.name.strip()}: {device.name.strip()}"
