"""Inputs and outputs of a session, and what memory can stand for them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import numpy as np

from .._native import _core
from ..dtypes import data_type
from ..errors import BindError, ClosedError
from ..model import Tensor as ModelTensor
from ..qnn.memhandle import MemHandle, PartHandle
from ..support.guard import Guard

if TYPE_CHECKING:
    from ..qnn.opencl_handle import OpenCLHandle

__all__ = ["BoundTensor"]

Buffer: TypeAlias = _core.Buffer
Together: TypeAlias = _core.Together


class Binder(Protocol):
    """Who binds memory to tensors: a session's memory."""

    #: Of what is bound, in the runner and in tensors.
    guard: Guard

    @property
    def closed(self) -> bool: ...
    def bind(self, t: BoundTensor, x: Any) -> None: ...
    def scratch_array(self, t: BoundTensor) -> np.ndarray: ...


class BoundTensor:
    """An input, output or state of a session, and the memory that it is bound to.

    Attributes:
        name, dtype, quantization: as the model says.
        shape: likewise; () for what the model's file has without dimensions, though the graph and
            the memory handle have it as [1].
        nbytes: size in bytes.
        io: how it is bound: "memhandle", "raw", or on lpai "scratch".
        prepare: the memory type that the graph was built with, likewise.
    """

    def __init__(
        self,
        index: int,
        tensor: ModelTensor,
        output: bool,
        io: str,
        prepare: str,
        written_as: int | None = None,
    ) -> None:
        #: Weakly: a tensor does not keep its session.
        self._binder: Callable[[], Binder | None] = _nobody
        self._guard = Guard()  # the binder's, when there is one
        self._index = index
        self._is_output = output
        #: Of a state: its index among the outputs, where it is given once more.
        self._written_as = written_as
        self.name = tensor.name
        self.shape: tuple[int, ...] = () if tensor.scalar else tuple(tensor.shape)
        self.dtype: np.dtype[Any] = np.dtype(tensor.dtype)
        self.quantization = tensor.quantization
        self.nbytes = math.prod(map(int, self.shape)) * self.dtype.itemsize
        self.io = "raw" if io == "scratch" and not self.nbytes else io
        self.prepare = prepare
        self._code = data_type_of(tensor)
        #: Whether somebody has fed or bound it, or asked for its memory.
        self._given = False
        self._array: np.ndarray | None = None
        self._buffer: Buffer | None = None
        self._offset = 0
        self._handle: MemHandle | None = None
        #: States that are bound together; this one's place among them, and which of their bindings
        #: it has, or has another one instead of.
        self._together: Together | None = None
        self._place = self._seen = 0

    @property
    def array(self) -> np.ndarray:
        """A numpy array on the bound memory: write inputs into it, read outputs from it."""
        array = self._memory()
        self._given = True  # whoever has it may have written into it
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """``array``, where numpy asks for one."""
        return np.array(self.array, dtype, copy=copy)

    def __dlpack__(self, **how: Any) -> Any:
        """``array``, for ``torch.from_dlpack`` and others; types that DLPack has and numpy has
        not are refused."""
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def _memory(self) -> np.ndarray:
        """``array``, for this package, which does not count as somebody's look at it."""
        if self.io == "scratch":
            binder = self._binder()
            if binder is not None and not binder.closed:
                return without_dimensions(self, binder.scratch_array(self))
        self._take_part()
        with self._guard.lock:  # not in the middle of another thread's binding
            array = self._array
            on_device = array is None and self._handle is not None
        if on_device:
            raise BindError(
                self.name,
                "lies in an OpenCL buffer, which is no memory of the host's: use handle.map(queue)",
            )
        if array is None:
            raise ClosedError(f"the session of tensor {self.name!r} is closed")
        return array

    @property
    def _on_device(self) -> bool:
        """Whether it is bound to an OpenCL buffer, which the host does not see."""
        with self._guard.lock:
            return self._array is None and self._handle is not None

    def _take_part(self) -> None:
        together = self._together
        if together is None or together.times == self._seen:
            return
        with self._guard.lock:
            group = together.group() if together.times != self._seen else None
            if group is not None:
                handle = PartHandle(group, self._place)
                array = handle.buffer.array(self.shape, self.dtype, handle.offset)
                self._use(array, handle.buffer, handle.offset, handle)

    @property
    def buffer(self) -> Buffer | None:
        """The shared buffer that it is bound to; None when bound to other memory (io="raw" or
        "scratch")."""
        self._memory()  # raises when closed
        self._given = True
        return self._buffer

    @property
    def offset(self) -> int:
        """Where the tensor begins in ``buffer``, in bytes."""
        self._take_part()
        return self._offset

    @property
    def handle(self) -> MemHandle | None:
        """The memory handle that it is bound to; None when it is bound as RAW memory."""
        self._take_part()
        handle = self._handle
        if handle is None:
            self._memory()  # raises when closed
        self._given = True
        return handle

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
        binder = self._binder()
        if binder is None or binder.closed:
            raise ClosedError(f"the session of tensor {self.name!r} is closed")
        binder.bind(self, x)

    def _attach(self, binder: Binder) -> None:
        """Let ``bind`` ask this one."""
        self._binder = weakref.ref(binder)
        self._guard = binder.guard

    def _use(
        self,
        array: np.ndarray | None,
        buffer: Buffer | None = None,
        offset: int = 0,
        handle: MemHandle | None = None,
    ) -> None:
        """What it is bound to from now on. Under the binder's guard."""
        self._array, self._buffer, self._offset, self._handle = array, buffer, offset, handle
        together = self._together
        if together is not None and together.times != self._seen:
            self._seen = together.times
            together.alone.append(self)

    def _forget(self) -> None:
        """What it was bound to alone: it is bound with others since. Under the binder's guard."""
        self._array = self._buffer = self._handle = None

    def _write(self, array: np.ndarray) -> None:
        """Copy an array of its shape and type into the bound memory."""
        if self._on_device:
            cast("OpenCLHandle", self._handle).write(array)
        else:
            self._memory()[...] = array
        self._given = True

    def _read(self) -> np.ndarray:
        """A copy of the bound memory."""
        if not self._on_device:
            return self._memory().copy()
        result = np.empty(self.shape, self.dtype)
        cast("OpenCLHandle", self._handle).read(result)
        return result

    def __repr__(self) -> str:
        kind = "output" if self._is_output else "input" if self._written_as is None else "state"
        dims = "x".join(map(str, self.shape)) or "scalar"
        return f"<{kind} {self.name!r} {self.dtype}[{dims}]>"


def _nobody() -> None:
    return None


def data_type_of(tensor: ModelTensor) -> int:
    """The QNN data type of a model's tensor: a binary says it, others follow from numpy's."""
    code = getattr(tensor, "data_type", None)
    if code is not None:
        return int(code)
    return data_type(tensor.dtype, quantized=tensor.quantization is not None)


def without_dimensions(t: BoundTensor, array: np.ndarray) -> np.ndarray:
    """An array of one element as the array of a tensor that has no dimensions, in place."""
    return array.reshape(()) if not t.shape and array.shape == (1,) else array


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


#: DLPack's numbers of memory that is not the host's.
_DEVICES: Final = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}


def foreign_device(x: Any) -> str | None:
    """The device whose own memory x has, as its DLPack methods say; None for the host's."""
    if isinstance(x, np.ndarray):
        return None
    try:
        kind, number = x.__dlpack_device__()
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None
    return f"{_DEVICES[int(kind)]} device {number}" if int(kind) in _DEVICES else None


def bring(name: str) -> str:
    """How a tensor of a device comes into an input, in words."""
    return (
        f"give x.cpu(), or copy into the session's own memory, which is pinned where that is "
        f"faster: torch.from_numpy(session.inputs[{name!r}].array).copy_(x)"
    )


def as_array(t: BoundTensor, x: Any) -> np.ndarray:
    """The memory of x as a numpy array, never a copy of it."""
    if isinstance(x, np.ndarray):
        return x
    if (device := foreign_device(x)) is not None:
        raise BindError(
            t.name,
            f"is bound to memory that the host reads, and a {type(x).__name__} lies on {device}; "
            f"OpenCL takes no pointers of other runtimes either: {bring(t.name)}",
        )
    try:
        if hasattr(x, "__dlpack__"):
            if t.dtype.name == "bfloat16":
                return np.from_dlpack(_core.Bits(x)).view(t.dtype)
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
    if array.ctypes.data % alignment and t.nbytes:
        raise BindError(
            t.name,
            f"needs an address that is a multiple of {alignment}; {array.ctypes.data:#x} "
            f"is only a multiple of {array.ctypes.data & -array.ctypes.data}",
        )
    if (t._is_output or t._written_as is not None) and not array.flags.writeable:
        raise BindError(t.name, "is an output and needs writable memory; the array is read-only")


def _c_strides(array: np.ndarray) -> tuple[int, ...]:
    strides, step = [], array.itemsize
    for n in reversed(array.shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
