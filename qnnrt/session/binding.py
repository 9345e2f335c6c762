"""Inputs and outputs of a session, and what memory can stand for them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .._native import _core
from ..dtypes import data_type
from ..errors import BindError, ClosedError

if TYPE_CHECKING:
    from ..gpu import OpenCLHandle
    from ..model import Tensor as ModelTensor
    from ..qnn.memhandle import MemHandle
    from .session import Session

__all__ = ["BoundTensor"]

Buffer: TypeAlias = _core.Buffer


class BoundTensor:
    """An input or output of a session, and the memory that it is bound to.

    Attributes:
        name, shape, dtype, quantization: as the model says.
        nbytes: size in bytes.
        io: how it is bound: "memhandle", "raw", or on lpai "scratch".
        prepare: the memory type that the graph was built with, likewise.
    """

    def __init__(
        self,
        session: Session,
        index: int,
        tensor: ModelTensor,
        output: bool,
        io: str,
        prepare: str,
    ) -> None:
        self._session = weakref.ref(session)
        self._index = index
        self._output = output
        self.name = tensor.name
        self.shape: tuple[int, ...] = tuple(tensor.shape)
        self.dtype: np.dtype[Any] = np.dtype(tensor.dtype)
        self.quantization = tensor.quantization
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.io = io
        self.prepare = prepare
        self._code = data_type_of(tensor)
        self._array: np.ndarray | None = None
        self._buffer: Buffer | None = None
        self._offset = 0
        self._handle: MemHandle | None = None

    @property
    def array(self) -> np.ndarray:
        """A numpy array on the bound memory: write inputs into it, read outputs from it."""
        if self.io == "scratch":
            session = self._session()
            if session is not None and not session.closed:
                return session._scratch_array(self)
        if self._on_device:
            raise BindError(
                self.name,
                "lies in an OpenCL buffer, which is no memory of the host's: use handle.map(queue)",
            )
        if self._array is None:
            raise ClosedError(f"the session of tensor {self.name!r} is closed")
        return self._array

    @property
    def _on_device(self) -> bool:
        """Bound to an OpenCL buffer, which the host does not see."""
        return self._array is None and self._handle is not None

    @property
    def _opencl(self) -> OpenCLHandle:
        """The handle of a tensor that is on the device."""
        return cast("OpenCLHandle", self._handle)

    @property
    def buffer(self) -> Buffer | None:
        """The shared buffer that it is bound to; None when bound to other memory (io="raw" or
        "scratch")."""
        self.array  # noqa: B018 - raises when closed
        return self._buffer

    @property
    def offset(self) -> int:
        """Where the tensor begins in ``buffer``, in bytes."""
        return self._offset

    @property
    def handle(self) -> MemHandle | None:
        """The memory handle that it is bound to; None when it is bound as RAW memory."""
        if self._handle is None:
            self.array  # noqa: B018 - raises when closed
        return self._handle

    def bind(self, x: Any) -> None:
        """Use other memory from now on, in place: nothing is copied, now or in ``run``.

        Args:
            x: a numpy array, a ``Buffer``, a ``MemHandle`` of this session's context, on a GPU
                backend a ``pyopencl.Buffer`` (which ``array`` does not show then), another
                session's ``BoundTensor``, anything with ``__dlpack__`` (a torch or jax tensor) or
                the buffer protocol, or (fd, nbytes) or (fd, nbytes, offset). With memory handles
                the memory must lie on a shared buffer (``qnnrt.alloc_array``).

        Raises:
            BindError: it cannot be used as it is; the message says what is needed and what came.
                The old binding stays.
        """
        session = self._session()
        if session is None or session.closed:
            raise ClosedError(f"the session of tensor {self.name!r} is closed")
        session._bind(self, x)

    def __repr__(self) -> str:
        kind = "output" if self._output else "input"
        dims = "x".join(map(str, self.shape)) or "scalar"
        return f"<{kind} {self.name!r} {self.dtype}[{dims}]>"


def data_type_of(tensor: ModelTensor) -> int:
    """The QNN data type of a model's tensor: a binary says it, others follow from numpy's."""
    code = getattr(tensor, "data_type", None)
    if code is not None:
        return int(code)
    return data_type(tensor.dtype, quantized=tensor.quantization is not None)


def same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one shape and type are the same elements in the same order."""
    return a.ctypes.data == b.ctypes.data and a.strides == b.strides


def buffer_of_fd(t: BoundTensor, given: tuple[Any, ...]) -> Buffer:
    """A buffer on (fd, nbytes) or (fd, nbytes, offset), large enough for the tensor."""
    if len(given) not in (2, 3) or not all(isinstance(n, int) for n in given):
        raise BindError(t.name, f"a tuple must be (fd, nbytes) or (fd, nbytes, offset): {given!r}")
    fd, nbytes = given[:2]
    offset = given[2] if len(given) == 3 else 0
    if nbytes < t.nbytes:
        raise BindError(t.name, f"needs {t.nbytes} bytes, {nbytes} of the fd were given")
    return _core.Buffer.from_fd(fd, nbytes, offset)


def as_array(t: BoundTensor, x: Any) -> np.ndarray:
    """The memory of x as a numpy array, never a copy of it."""
    if isinstance(x, np.ndarray):
        return x
    try:
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
        return np.asarray(memoryview(x))
    except (BufferError, RuntimeError, ValueError, TypeError) as e:
        raise BindError(t.name, f"cannot use the memory of a {type(x).__name__}: {e}") from e


def check_layout(t: BoundTensor, array: np.ndarray, alignment: int = 1) -> None:
    """Raises ``BindError`` with what is needed and what came, unless the array fits as it is."""
    alignment = max(alignment, t.dtype.alignment)
    if array.dtype != t.dtype:
        raise BindError(t.name, f"needs elements of type {t.dtype}, not {array.dtype}")
    if array.shape != t.shape:
        raise BindError(t.name, f"needs shape {list(t.shape)}, not {list(array.shape)}")
    if not array.flags.c_contiguous:
        raise BindError(
            t.name,
            f"needs C-contiguous memory, strides {_c_strides(array)}, not {array.strides}",
        )
    if array.ctypes.data % alignment:
        raise BindError(
            t.name,
            f"needs an address that is a multiple of {alignment}; {array.ctypes.data:#x} "
            f"is only a multiple of {array.ctypes.data & -array.ctypes.data}",
        )
    if t._output and not array.flags.writeable:
        raise BindError(t.name, "is an output and needs writable memory; the array is read-only")


def _c_strides(array: np.ndarray) -> tuple[int, ...]:
    strides, step = [], array.itemsize
    for n in reversed(array.shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
