"""Imports of host memory: OpenCL buffers on a Buffer's memory, of which nothing is copied."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from .._native import _core
from .device import Device, pyopencl
from .loader import address, call, extension

__all__ = [
    "HOST_POINTER",
    "VECTORS",
    "DeviceObjects",
    "Import",
    "ImportRefused",
    "coherent",
    "end_import",
    "import_buffer",
]

Buffer: TypeAlias = _core.Buffer

HOST_POINTER: Final = "CL_MEM_USE_HOST_PTR"
#: What the address of a tensor is a multiple of, for the vectors that kernels read on CPUs.
VECTORS: Final = 64
_READ_WRITE: Final = 1
_READ_ONLY: Final = 1 << 2
_USE_HOST_PTR: Final = 1 << 3
_MAP_READ_WRITE: Final = 3
# Khronos' registry: cl_khr_external_memory_dma_buf, cl_qcom_ext_host_ptr, cl_qcom_ion_host_ptr
_HANDLE_DMA_BUF: Final = 0x2067
_EXT_HOST_PTR: Final = 1 << 29
_PADDING: Final = 0x40A0
_PAGE_SIZE: Final = 0x40A1
_WRITEBACK: Final = 0x40A5
_IO_COHERENT: Final = 0x40A9
_ION: Final = 0x40A8
#: Not in Khronos' registry: as programs for Adreno devices use it.
_DMA_BUF: Final = 0x411D
#: Some devices use a host pointer in place for whole cache lines alone.
_LINE: Final = 64


class DeviceObjects(Protocol):
    """The OpenCL objects of a gpu library."""

    @property
    def device(self) -> Device: ...
    @property
    def cl_context(self) -> Any: ...
    @property
    def cl_queue(self) -> Any: ...


class ImportRefused(Exception):
    """Why this device does not use the memory in place."""


class HostPointer(ctypes.Structure):
    """cl_mem_ion_host_ptr, and cl_mem_dmabuf_host_ptr, which has the same members."""

    _fields_ = (
        ("allocation_type", ctypes.c_uint32),
        ("host_cache_policy", ctypes.c_uint32),
        ("filedesc", ctypes.c_int),
        ("hostptr", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Import:
    """An OpenCL buffer on host memory.

    Attributes:
        buffer: the ``pyopencl.Buffer``.
        via: the extension, or ``HOST_POINTER``.
        address: where the host sees it.
        owners: how the memory changes owners around executions, see ``_core.gpu_register``.
    """

    buffer: Any
    via: str
    address: int
    owners: tuple[str, int, int, int, int] | None


def coherent(device: Device) -> bool:
    """Host and device see each other's writes to shared memory without a command in between."""
    return device.kind == "cpu"


def is_dma_buf(buffer: Buffer) -> bool:
    """Whether the extensions for memory with an fd take it."""
    return buffer.is_dma_buf


def import_buffer(library: DeviceObjects, buffer: Buffer, offset: int, nbytes: int) -> Import:
    """An OpenCL buffer on ``nbytes`` of a buffer, from ``offset`` on; nothing is copied.

    Raises:
        ImportRefused: the device can not; the message says what was tried.
    """
    device = library.device
    tried = []
    for via, make in _ways(device, buffer):
        try:
            return make(library, buffer, offset, nbytes)
        except (ImportRefused, pyopencl().Error) as e:
            tried.append(f"{via}: {e}")
    if tried:
        raise ImportRefused(
            f"{device} does not use a Buffer of the host's in place ({'; '.join(tried)})"
        )
    raise ImportRefused(f"{device} has memory of its own, in which no Buffer of the host's lies")


_Way: TypeAlias = Callable[["DeviceObjects", Buffer, int, int], Import]


def _ways(device: Device, buffer: Buffer) -> Iterator[tuple[str, _Way]]:
    """The device's ways, the best one first."""
    if is_dma_buf(buffer):
        for name, way in _IMPORTS:
            if name in device.imports:
                yield name, way
    if device.shared:
        yield HOST_POINTER, _by_host_pointer


# ---- ways


def _by_khr_dma_buf(library: DeviceObjects, buffer: Buffer, offset: int, nbytes: int) -> Import:
    device = library.device
    acquire = extension(device.raw.platform, "clEnqueueAcquireExternalMemObjectsKHR")
    release = extension(device.raw.platform, "clEnqueueReleaseExternalMemObjectsKHR")
    if not (acquire and release):
        raise ImportRefused("the driver lacks its functions")
    properties = (ctypes.c_uint64 * 3)(_HANDLE_DMA_BUF, buffer.fd, 0)
    status = ctypes.c_int32()
    mem = call("clCreateBufferWithProperties")(
        library.cl_context.int_ptr,
        properties,
        _access(buffer),
        buffer.fd_size,
        None,
        ctypes.byref(status),
    )
    whole = _owned(mem, status.value)
    start = buffer.fd_offset + offset
    part = _part(device, whole, start, nbytes, buffer.fd_size)
    owners = ("external", library.cl_queue.int_ptr, acquire, release, whole.int_ptr)
    return Import(part, "cl_khr_external_memory_dma_buf", buffer.address + offset, owners)


def _by_qcom(extension_name: str, allocation: int) -> _Way:
    def way(library: DeviceObjects, buffer: Buffer, offset: int, nbytes: int) -> Import:
        device = library.device
        page, padding = _size_of(device, _PAGE_SIZE) or mmap.PAGESIZE, _size_of(device, _PADDING)
        if buffer.fd_offset or buffer.address % page:
            raise ImportRefused(f"takes memory from the start of its fd, on pages of {page} bytes")
        if offset + nbytes + padding > buffer.fd_size:
            raise ImportRefused(f"wants {padding} bytes behind the tensor")
        io_coherent = "cl_qcom_ext_host_ptr_iocoherent" in device.raw.extensions.split()
        policy = _IO_COHERENT if io_coherent else _WRITEBACK
        pointer = HostPointer(allocation, policy, buffer.fd, buffer.address)
        flags = _access(buffer) | _USE_HOST_PTR | _EXT_HOST_PTR
        whole = _created(library, flags, offset + nbytes, ctypes.addressof(pointer))
        part = _part(device, whole, offset, nbytes, offset + nbytes)
        return _verified(library, part, extension_name, buffer.address + offset, nbytes)

    return way


def _by_host_pointer(library: DeviceObjects, buffer: Buffer, offset: int, nbytes: int) -> Import:
    start, size = buffer.address + offset, nbytes
    # What a GPU cannot map in place, its driver copies, behind the same address. On a CPU kernels
    # read vectors where they are, and instructions for these fail elsewhere.
    unit = VECTORS if coherent(library.device) else mmap.PAGESIZE
    if start % unit:
        raise ImportRefused(f"needs an address that is a multiple of {unit}, not {start:#x}")
    if not coherent(library.device):
        size = -(-nbytes // _LINE) * _LINE  # still in the buffer's last page
    made = _created(library, _access(buffer) | _USE_HOST_PTR, max(size, 1), start)
    return _verified(library, made, HOST_POINTER, start, nbytes)


_IMPORTS: Final[tuple[tuple[str, _Way], ...]] = (
    ("cl_khr_external_memory_dma_buf", _by_khr_dma_buf),
    ("cl_qcom_dmabuf_host_ptr", _by_qcom("cl_qcom_dmabuf_host_ptr", _DMA_BUF)),
    ("cl_qcom_ion_host_ptr", _by_qcom("cl_qcom_ion_host_ptr", _ION)),
)


def _access(buffer: Buffer) -> int:
    """What kernels may do with it: memory that is mapped to be read is for inputs alone."""
    return _READ_ONLY if buffer.readonly else _READ_WRITE


# ---- OpenCL, below pyopencl: host pointers that are structs, properties


def _created(library: DeviceObjects, flags: int, nbytes: int, host_pointer: int) -> Any:
    """clCreateBuffer."""
    status = ctypes.c_int32()
    mem = call("clCreateBuffer")(
        library.cl_context.int_ptr, flags, nbytes, host_pointer, ctypes.byref(status)
    )
    return _owned(mem, status.value)


def _owned(mem: int | None, status: int) -> Any:
    """The ``pyopencl.Buffer`` of a cl_mem that was just made."""
    if not mem or status:
        raise ImportRefused(f"OpenCL error {status}")
    return pyopencl().Buffer.from_int_ptr(mem, retain=False)


def _part(device: Device, whole: Any, start: int, nbytes: int, end: int) -> Any:
    """A tensor's bytes of a buffer."""
    if start == 0 and nbytes == end:
        return whole
    if start % device.alignment:
        raise ImportRefused(
            f"the tensor begins at byte {start} of its fd: the device needs a multiple of "
            f"{device.alignment}"
        )
    return whole.get_sub_region(start, nbytes)


def _verified(library: DeviceObjects, made: Any, via: str, start: int, nbytes: int) -> Import:
    """Ask the driver where the host sees the buffer: anywhere but at the memory it is a copy."""
    queue, size = library.cl_queue.int_ptr, max(nbytes, 1)
    status = ctypes.c_int32()
    seen = call("clEnqueueMapBuffer")(
        queue, made.int_ptr, 1, _MAP_READ_WRITE, 0, size, 0, None, None, ctypes.byref(status)
    )
    if not seen or status.value:
        raise ImportRefused(f"OpenCL error {status.value}")
    if seen == start and not coherent(library.device):
        give, take_back = address("clEnqueueUnmapMemObject"), address("clEnqueueMapBuffer")
        return Import(made, via, start, ("mapped", queue, give, take_back, start))
    call("clEnqueueUnmapMemObject")(queue, made.int_ptr, seen, 0, None, None)
    library.cl_queue.finish()
    if seen != start:
        raise ImportRefused(f"the driver shows it to the host at {seen:#x}, not at {start:#x}")
    return Import(made, via, start, None)


def end_import(made: Import) -> None:
    """End the mapping of an OpenCL buffer that nobody is going to use."""
    if made.owners is not None and made.owners[0] == "mapped":
        queue, number = made.owners[1], made.buffer.int_ptr
        call("clEnqueueUnmapMemObject")(queue, number, made.address, 0, None, None)


def _size_of(device: Device, name: int) -> int:
    """A size_t that the device says; 0 where it does not know it."""
    value = ctypes.c_size_t()
    status = call("clGetDeviceInfo")(
        device.raw.int_ptr, name, ctypes.sizeof(value), ctypes.byref(value), None
    )
    return 0 if status else value.value
