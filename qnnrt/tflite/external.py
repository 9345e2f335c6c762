"""libQnnTFLiteDelegate.so: the delegate that TFLite's own interpreter loads.

    from ai_edge_litert.interpreter import Interpreter, load_delegate
    from qnnrt.tflite import external

    delegate = load_delegate(external.delegate_path(), {"backend_type": "htp"})
    interpreter = Interpreter("model.tflite", experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    external.bind(delegate, 0, buffer)  # a qnnrt.Buffer becomes tensor 0
    interpreter.invoke()
    external.counters(delegate).copied_bytes  # 0

None of these may be called while an interpreter of the delegate runs.
"""

from __future__ import annotations

import ctypes
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .._native._core import Buffer
from ..errors import QnnError, make_error

__all__ = [
    "Counters",
    "DelegatedTensor",
    "QnnError",
    "bind",
    "buffer",
    "counters",
    "delegate_path",
    "option_table",
    "tensors",
]

_MEMORY: Final = ("copied", "shared", "bound", "application")


@dataclass(frozen=True)
class Counters:
    """What a delegate did since it was made.

    Attributes:
        nodes: operators of the graphs that it saw, as they were last prepared.
        delegated: those that it took.
        partitions: live now.
        invokes: runs of partitions.
        shared_tensors: inputs and outputs of live partitions on shared memory.
        copied_tensors: those that are copied at each run.
        copied_in_bytes, copied_out_bytes: what was copied.
    """

    nodes: int
    delegated: int
    partitions: int
    invokes: int
    shared_tensors: int
    copied_tensors: int
    copied_in_bytes: int
    copied_out_bytes: int

    @property
    def copied_bytes(self) -> int:
        return self.copied_in_bytes + self.copied_out_bytes


@dataclass(frozen=True)
class DelegatedTensor:
    """An input or output of a delegated partition.

    Attributes:
        index: the interpreter's number.
        memory: "shared": in shared memory of the delegate; "bound": on the buffer given to
            `bind`; "application": on shared memory that the application brought; "copied".
        address, nbytes: of the elements.
        capacity: bytes of the memory from the address on.
        fd, fd_offset: the shared memory, -1 where the tensor is copied. The fd is not the caller's
            to close.
        output: whether the partition writes it.
    """

    index: int
    memory: str
    address: int
    nbytes: int
    capacity: int
    fd: int
    fd_offset: int
    output: bool


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_int32),
        ("memory", ctypes.c_uint32),
        ("address", ctypes.c_void_p),
        ("nbytes", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("fd_offset", ctypes.c_uint64),
        ("fd", ctypes.c_int32),
        ("output", ctypes.c_uint32),
    )


class _Counters(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in Counters.__dataclass_fields__)


def delegate_path() -> str:
    """The path of libQnnTFLiteDelegate.so, for ``load_delegate``."""
    return str(Path(__file__).parent.parent / "lib" / "libQnnTFLiteDelegate.so")


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(delegate_path())
    pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    for text in (library.qnnrt_tflite_error, library.qnnrt_tflite_options_json):
        text.restype = ctypes.c_char_p
    for name, arguments in (
        ("tensors", [pointer, pointer, u32, ctypes.POINTER(u32)]),
        ("bind", [pointer, ctypes.c_int32, pointer, u64]),
        ("counters", [pointer, ctypes.POINTER(_Counters)]),
    ):
        function = getattr(library, f"qnnrt_tflite_{name}")
        function.argtypes, function.restype = arguments, u64
    return library


@functools.cache
def option_table() -> dict[str, dict[str, Any]]:
    """Key of an external delegate -> its kind ("choice", "flag", "number", "text" or "list"),
    default, and where it has them: choices, which are the names of 0, 1, ..., or the most."""
    table: dict[str, dict[str, Any]] = json.loads(_library().qnnrt_tflite_options_json())
    return table


def _call(name: str, delegate: Any, *arguments: Any) -> None:
    native = getattr(delegate, "_get_native_delegate_pointer", None)
    pointer = delegate if native is None else native()
    library = _library()
    code = getattr(library, f"qnnrt_tflite_{name}")(pointer, *arguments)
    if code:
        raise make_error(
            code, None, f"qnnrt_tflite_{name}", said=library.qnnrt_tflite_error().decode()
        )


def counters(delegate: Any) -> Counters:
    """What `delegate`, ai-edge-litert's object or the native pointer, did."""
    found = _Counters()
    _call("counters", delegate, ctypes.byref(found))
    return Counters(**{name: getattr(found, name) for name in Counters.__dataclass_fields__})


def tensors(delegate: Any) -> list[DelegatedTensor]:
    """Inputs and outputs of the live partitions, and where each one is."""
    count = ctypes.c_uint32()
    _call("tensors", delegate, None, 0, ctypes.byref(count))
    found = (_Tensor * count.value)()
    _call("tensors", delegate, found, count.value, ctypes.byref(count))
    return [
        DelegatedTensor(
            t.index, _MEMORY[t.memory], t.address or 0, t.nbytes, t.capacity, t.fd, t.fd_offset,
            bool(t.output),
        )
        for t in found
    ]  # fmt: skip


def bind(delegate: Any, index: int, buffer: Buffer | None) -> None:
    """Puts tensor `index` on `buffer` from the next invoke on; None: on the delegate's own memory.

    The elements are the first ones of the buffer, which stays alive as long as it is bound. A
    tensor that has become larger than its buffer when the graph is prepared anew gets memory of
    the delegate's again.

    Raises:
        QnnError: no such input or output of a partition, too few bytes, not on a boundary of 64
            bytes, memory without an fd, or memory that the application gave to the interpreter.
    """
    if buffer is None:
        _call("bind", delegate, index, None, 0)
    else:
        _call("bind", delegate, index, buffer.address, buffer.nbytes)


def buffer(delegate: Any, index: int) -> Buffer:
    """The shared memory of tensor `index`, as a buffer that shares it and keeps it alive.

    Raises:
        KeyError: the tensor is no input or output of a partition, or is copied.
    """
    for t in tensors(delegate):
        if t.index == index and t.fd >= 0:
            return Buffer.from_fd(t.fd, t.nbytes, t.fd_offset)
    raise KeyError(f"tensor {index} is on no shared memory of the delegate's")
