"""Memory that an application brings for tensors: allocated as shared, given to an interpreter."""

from __future__ import annotations

import ctypes
import operator
import weakref
from typing import Any, Final

import numpy as np

from .._native import _core
from ..errors import BufferInUseError, ClosedError
from ..memory import alloc

__all__ = [
    "DEFAULT_TENSOR_ALIGNMENT",
    "CustomMem",
    "TfLiteCustomAllocation",
    "alloc_custom_mem",
    "free_custom_mem",
]

#: TFLite's alignment of tensors, in bytes (``tflite::kDefaultTensorAlignment``).
DEFAULT_TENSOR_ALIGNMENT: Final = 64

_live: weakref.WeakValueDictionary[int, CustomMem] = weakref.WeakValueDictionary()  # by address


class CustomMem:
    """Shared memory of the application's; it is freed with this object at the latest.

    Attributes:
        nbytes: size in bytes.
        buffer: the ``qnnrt.Buffer`` that it is.
    """

    def __init__(self, nbytes: int, alignment: int) -> None:
        self.nbytes = nbytes
        self.buffer: _core.Buffer = alloc(nbytes, alignment=alignment)
        self._ptr = self.buffer.address
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()  # with a name each
        _live[self._ptr] = self

    @property
    def ptr(self) -> int:
        """The address.

        Raises:
            ClosedError: it has been freed.
        """
        if self.buffer.closed:
            raise ClosedError(f"the custom memory at {self._ptr:#x} has been freed")
        return self._ptr

    def __index__(self) -> int:
        return self.ptr

    def array(self, shape: Any = None, dtype: Any = np.uint8) -> np.ndarray:
        """A numpy view: of all bytes, or of the first ones as an array of this shape and type."""
        self.ptr  # noqa: B018 - raises when freed
        wanted = np.dtype(dtype)
        if shape is None:
            shape = (self.nbytes // wanted.itemsize,)
        return self.buffer.array(shape, wanted)

    def free(self) -> None:
        """Give it back.

        Raises:
            BufferInUseError: an interpreter or a view still uses it; nothing has changed then.
            ClosedError: it has been freed before.
        """
        self.ptr  # noqa: B018 - raises when freed
        if users := sorted(str(u) for u in self._users):
            raise BufferInUseError(
                f"the custom memory at {self._ptr:#x} is used by {', '.join(users)}: give the "
                "tensor other memory, or close the interpreter first",
                users,
            )
        self.buffer.close()
        _live.pop(self._ptr, None)

    def __repr__(self) -> str:
        state = "freed" if self.buffer.closed else f"{self.nbytes} bytes"
        return f"<CustomMem at {self._ptr:#x}, {state}>"


def alloc_custom_mem(nbytes: int, alignment: int = DEFAULT_TENSOR_ALIGNMENT) -> CustomMem:
    """Shared memory for a tensor, as ``TfLiteQnnDelegateAllocCustomMem``.

    Args:
        nbytes: at least the tensor's bytes.
        alignment: of the address, a power of two.

    Raises:
        ValueError: no bytes, or no power of two.
        MemoryError: there is not that much.
    """
    if nbytes <= 0:
        raise ValueError(f"custom memory needs at least 1 byte, not {nbytes}")
    if alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"alignment must be a power of two, not {alignment}")
    return CustomMem(nbytes, max(alignment, 4096))


def free_custom_mem(mem: CustomMem | int) -> None:
    """Give back what ``alloc_custom_mem`` gave, as ``TfLiteQnnDelegateFreeCustomMem``.

    Args:
        mem: the memory, or its address.

    Raises:
        BufferInUseError: an interpreter or a view still uses it.
        ClosedError: it has been freed before.
        ValueError: no such address.
    """
    if not isinstance(mem, CustomMem):
        found = _live.get(int(mem))
        if found is None:
            raise ValueError(
                f"{int(mem):#x} is not the address of custom memory, or it has been freed: free "
                "what alloc_custom_mem() gave, once"
            )
        mem = found
    mem.free()


class TfLiteCustomAllocation:
    """Memory and how much of it a tensor may use: what an interpreter takes for a tensor.

    Attributes:
        data: the address.
        bytes: how many bytes there are.
        mem: the ``CustomMem`` at this address; None for memory of another origin.
    """

    def __init__(self, ptr: CustomMem | np.ndarray | int, nbytes: int) -> None:
        """
        Args:
            ptr: ``CustomMem``, a numpy array, or the address of memory that outlives its use.
            nbytes: in bytes.

        Raises:
            ValueError: more bytes than there are, or no address.
            ClosedError: the memory has been freed.
        """
        self._keep = ptr if isinstance(ptr, np.ndarray) else None
        self.bytes = int(nbytes)
        most = self.bytes
        if isinstance(ptr, np.ndarray):
            if not ptr.flags.c_contiguous:
                raise ValueError("custom memory needs a C-contiguous array")
            self.data = int(ptr.ctypes.data)
            most = ptr.nbytes
        else:
            self.data = operator.index(ptr)
        self.mem = ptr if isinstance(ptr, CustomMem) else _live.get(self.data)
        if self.mem is not None:
            most = self.mem.nbytes
        if not self.data:
            raise ValueError("custom memory at address 0: an allocation failed?")
        if not 0 < self.bytes <= most:
            raise ValueError(f"{self.bytes} bytes of custom memory that has {most}")

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """The memory as a tensor."""
        if self.mem is not None:
            return self.mem.array(shape, dtype)
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self._keep is not None:
            return self._keep.reshape(-1).view(np.uint8)[:count].view(dtype).reshape(shape)
        raw = memoryview((ctypes.c_ubyte * count).from_address(self.data)).cast("B")
        return np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)

    def __repr__(self) -> str:
        return f"TfLiteCustomAllocation({self.data:#x}, {self.bytes})"
