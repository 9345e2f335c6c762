"""Memory handles: buffers, or parts of them, registered in a context."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from .._native import _core
from .._native.descriptor import LPAI_STRUCT, MemDescriptor
from ..abi import constants as abi
from ..dtypes import data_type, data_type_name, numpy_dtype
from .context_base import ContextBase
from .foreign_memory import refuse_memory
from .owner import Owner

__all__ = ["MemHandle"]

Buffer: TypeAlias = _core.Buffer
Parts: TypeAlias = _core.Parts
PartHandles: TypeAlias = _core.PartHandles

# kind -> (MemDescriptor.mem_type, MemDescriptor.custom)
_MEM_KINDS: Final = {
    "ion": (abi.QNN_MEM_TYPE_ION, 0),
    "shared_buffer": (abi.QNN_MEM_TYPE_CUSTOM, abi.QNN_HTP_MEM_SHARED_BUFFER),
    "dma_buf": (abi.QNN_MEM_TYPE_DMA_BUF, 0),
    "weights": (abi.QNN_MEM_TYPE_CUSTOM, abi.QNN_HTP_MEM_WEIGHTS_BUFFER),
    "spill_fill": (abi.QNN_MEM_TYPE_CUSTOM, abi.QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER),
    "lpai": (abi.QNN_MEM_TYPE_CUSTOM, LPAI_STRUCT),
}
#: Kinds with an offset into the fd; the others mean an fd from its start.
_WITH_OFFSET: Final = ("shared_buffer", "weights", "spill_fill", "lpai")
#: Kinds for the backend to fill: no tensor of the client's lies there.
_FOR_BACKEND: Final = ("weights", "spill_fill")
#: Codes of a backend that does not take a kind of memory.
NO_SUCH_MEMORY: Final = (
    abi.QNN_COMMON_ERROR_NOT_SUPPORTED,
    abi.QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
)
_LPAI_MOST: Final = 0xFFFFFFFF  # bytes into the fd


class MemHandle(Owner):
    """Memory registered in a context. Made by ``Context.register``.

    Attributes:
        context, buffer: what it stands on; kept alive, the buffer cannot be closed.
        shape, dtype, offset, kind: as registered; no dtype for kinds that hold no tensor.
        data_type: the QNN data type.
        nbytes: size of the tensor; for kinds that hold none, of the buffer from the offset on.
    """

    _rank = 1

    def __init__(
        self,
        context: ContextBase,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        offset: int,
        kind: str,
    ) -> None:
        mem_type, custom = _MEM_KINDS.get(kind, (0, 0))
        if not mem_type:
            raise ValueError(f"kind must be one of {', '.join(_MEM_KINDS)}, not {kind!r}")
        lpai = context._library.backend_id == abi.QNN_BACKEND_ID_LPAI
        if mem_type == abi.QNN_MEM_TYPE_CUSTOM and (custom == LPAI_STRUCT) != lpai:
            # The struct of one kind would be read as that of the other.
            raise ValueError(
                f"kind {kind!r} is not for {context.backend.name}: use "
                f"kind={'lpai' if lpai else 'shared_buffer'!r}"
            )
        if not isinstance(buffer, Buffer):
            refuse_memory(buffer, kind)
        self.context = context
        self.buffer = buffer
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.offset = offset
        self.kind = kind
        self.dtype: np.dtype[Any] | None = None
        if kind in _FOR_BACKEND:
            if self.shape or dtype is not None:
                raise ValueError(
                    f"kind {kind!r} is memory for the backend to fill: it has no shape or type"
                )
            self.data_type = abi.QNN_DATATYPE_UNDEFINED
            self.nbytes = buffer.nbytes - offset
        else:
            if dtype is None:
                raise ValueError(f"kind {kind!r} needs the tensor's shape and type")
            self.data_type = data_type(dtype)
            self.dtype = numpy_dtype(self.data_type)
            self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        if offset < 0 or offset + self.nbytes > buffer.nbytes or self.nbytes < 0:
            raise ValueError(
                f"{self._tensor_text()} at offset {offset} needs "
                f"{offset + max(self.nbytes, 0)} bytes, the buffer has {buffer.nbytes}"
            )
        start = buffer.fd_offset + offset
        if kind not in _WITH_OFFSET and start:
            raise ValueError(
                f"kind {kind!r} names a whole fd from its start, not byte {start} of it: use "
                f"kind={'lpai' if lpai else 'shared_buffer'!r}"
            )
        if kind == "lpai" and start > _LPAI_MOST:
            raise ValueError(
                f"kind 'lpai' has 32 bits for the offset: byte {start} of the fd is out of reach, "
                f"the last one is {_LPAI_MOST}"
            )
        library = context._library
        fd = buffer._borrow_fd() if library.has_extensions else buffer.fd
        descriptor = MemDescriptor(
            shape=self.shape,
            data_type=self.data_type,
            mem_type=mem_type,
            custom=custom,
            fd=fd,
            size=buffer.fd_size,
            offset=start,
            address=buffer.address,
        )
        held = self._register(library, library.mem_register, context.handle, [descriptor])
        self._own(
            f"memory handle {held.handle:#x}",
            held,
            context,
            keep=buffer_hold(buffer, held.handle, self.dtype or kind, self.shape),
        )

    def _register(
        self, library: _core.Library, register: Callable[..., Any], *args: Any
    ) -> _core.Held:
        """A handle that ``register`` makes. Its end deregisters it, and then sets ``_released``."""
        self._released = _core.Event()
        free = library.mem_deregister
        return _core.Held(free, register, *args, in_list=True, freed=self._released)

    def _tensor_text(self) -> str:
        """What the memory is for, for messages."""
        if self.dtype is None:
            return "memory for weights" if self.kind == "weights" else "memory for spill and fill"
        return f"{data_type_name(self.data_type)}{list(self.shape)}"

    @property
    def array(self) -> np.ndarray:
        """A numpy array on the registered memory.

        Raises:
            ValueError: the kind holds no tensor.
        """
        self.handle  # noqa: B018 - raises when closed
        if self.dtype is None:
            raise ValueError(f"a handle of kind {self.kind!r} holds no tensor")
        return self.buffer.array(self.shape, self.dtype, self.offset)

    @property
    def on_device(self) -> bool:
        """Whether the memory is the device's: there is no ``array``."""
        return False

    def _detach(self) -> None:
        self._held.detach()


class PartHandle(MemHandle):
    """One of ``PartHandles``. Closed, it takes the others along."""

    def __init__(self, group: PartHandles, index: int) -> None:
        self.shape, self.data_type, self.offset = group.parts.tensors[index]
        self.context, self.buffer, self.kind = group.context, group.buffer, "shared_buffer"
        self.dtype = numpy_dtype(self.data_type)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self._held, self._released = group, group.released()
        self._generation = _core.fork_generation()
        self._raw, self._dependents = group[index], set()
        self._what = f"memory handle {self._raw:#x}"

    @classmethod
    def find(
        cls, group: PartHandles, shape: tuple[int, ...], code: int | None, offset: int
    ) -> PartHandle | None:
        """The handle of a tensor that is one of them."""
        try:
            return cls(group, group.parts.index(shape, code or 0, offset))
        except ValueError:
            return None


def buffer_hold(buffer: Buffer, handle: int, what: Any, shape: tuple[int, ...]) -> _core.Hold:
    """Keeps a registered buffer alive and tells its ``close`` who holds it."""
    return _core.Hold(buffer, "memory handle {:#x} ({}{})", handle, what, list(shape))
