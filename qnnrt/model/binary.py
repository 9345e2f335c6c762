"""Context binaries: finalized graphs in a file, mapped and described without loading them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from .._native import _core
from ..abi.constants import QNN_COMMON_ERROR_MEM_ALLOC, QNN_TENSOR_TYPE_APP_READWRITE
from ..dtypes import data_type_name, numpy_dtype
from ..errors import ModelError, QnnError
from ..support.files import open_file
from .mapped import map_pages
from .model import Quantization, Tensor

__all__ = ["BinaryGraph", "BinaryTensor", "ContextBinary", "describe_binary", "system_library"]

SYSTEM_LIBRARY: Final = "libQnnSystem.so"
MEM_TYPES: Final = ("memhandle", "raw")
#: How a binary of qnnrt's begins (docs/context-binary.md).
_MAGIC: Final = b"\x89QNNRT\r\n"
#: The library of this package.
OWN_SYSTEM_LIBRARY: Final = Path(__file__).parents[1] / "lib" / SYSTEM_LIBRARY


@dataclass
class BinaryTensor(Tensor):
    """An input or output of a graph in a context binary.

    Attributes:
        id: the number by which executions know it.
        data_type: the QNN data type.
        mem_type: "raw" or "memhandle", as the graph was prepared.
        state: whether executions read and write it (APP_READWRITE).
    """

    id: int = 0
    data_type: int = 0
    mem_type: str = "raw"
    state: bool = False


@dataclass(frozen=True)
class BinaryGraph:
    """What a graph in a context binary takes and gives, in the graph's own order. `states` are
    neither among `inputs` nor among `outputs`."""

    name: str
    inputs: tuple[BinaryTensor, ...]
    outputs: tuple[BinaryTensor, ...]
    states: tuple[BinaryTensor, ...] = ()


def system_library(backend_library: str | os.PathLike[str]) -> str:
    """The system library that knows a backend library's binaries: the one beside it.

    A backend library given without a folder is searched by the loader; so is its system library.
    """
    text = os.fspath(backend_library)
    if os.sep not in text:
        return SYSTEM_LIBRARY
    return os.path.join(os.path.dirname(os.path.realpath(text)), SYSTEM_LIBRARY)


def describe_binary(
    data: Any, what: str, system: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """What a system library says about a context binary.

    Args:
        data: the bytes of the binary.
        what: calls it by this name in errors.
        system: path of a QNN system library; qnnrt's own unless given.

    Raises:
        ModelError: it is no context binary that this library can read; the message says why.
        BackendNotFoundError: no such library.
        QnnError: 1002, out of memory.
    """
    library = _core.SystemLibrary.open(system)
    try:
        return library.binary_info(data)
    except QnnError as e:
        if e.code == QNN_COMMON_ERROR_MEM_ALLOC:
            raise  # the file may be as good as any
        text = f"{what} is not a context binary that {library.path} can read: {e}"
        if library.has_extensions and bytes(memoryview(data)[: len(_MAGIC)]) != _MAGIC:
            text += " (give it to load() as system=PATH; commands take it from beside --backend)"
        raise ModelError(text) from e


def quantization_of(given: Mapping[str, Any] | None) -> Quantization | None:
    """The quantization in a system library's description; None also for encodings in blocks."""
    if given is None or given["scale"] is None:
        return None
    scale, offset, axis = given["scale"], given["offset"], given.get("axis")
    if axis is not None:
        scale, offset = np.asarray(scale, np.float32), np.asarray(offset, np.int32)
    return Quantization(scale, offset, axis, given.get("bitwidth"))


def map_file(path: str | os.PathLike[str]) -> mmap.mmap:
    """A file's bytes, read only, from the pages that all processes share.

    Raises:
        ModelError: it is empty, or no file.
        MemoryError: the process has no address space for it.
    """
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ModelError(f"{os.fspath(path)} is empty: no context binary")
        return map_pages(file, os.fspath(path))


def _tensor(given: Mapping[str, Any]) -> BinaryTensor:
    code = given["data_type"]
    try:
        dtype = numpy_dtype(code)
    except TypeError as e:
        raise ModelError(f"tensor {given['name']!r} has type {data_type_name(code)}: {e}") from e
    return BinaryTensor(
        given["name"],
        tuple(given["dims"]),
        dtype,
        quantization=quantization_of(given["quantization"]),
        id=given["id"],
        data_type=code,
        mem_type=given["mem_type"] if given["mem_type"] in MEM_TYPES else "raw",
        state=given["type"] == QNN_TENSOR_TYPE_APP_READWRITE,
    )


def graphs_of(info: Mapping[str, Any]) -> dict[str, BinaryGraph]:
    """The graphs in a system library's description, by name."""
    return {g["name"]: _graph(g) for g in info["graphs"]}


def _graph(given: Mapping[str, Any]) -> BinaryGraph:
    """States are listed among the inputs, the outputs or both."""
    inputs, outputs = (tuple(map(_tensor, given[key])) for key in ("inputs", "outputs"))
    states = {t.name: t for t in (*inputs, *outputs) if t.state}
    return BinaryGraph(
        given["name"],
        tuple(t for t in inputs if not t.state),
        tuple(t for t in outputs if not t.state),
        tuple(states.values()),
    )


class ContextBinary:
    """A context binary in a file: what ``qnnrt.load`` returns for ``.bin``.

    The file is mapped read only and shared: weights are read where they are, from the same pages in
    every process that loads the file. Replace such a file by a new one (as ``Session.save_binary``
    does) rather than writing into it.

    Attributes:
        path: the file.
        info: what the system library says: "version", "backend_id", "build_id",
            "core_api_version", "graphs" and the rest; plain values.
        data: the bytes, a read-only ``mmap``.
        system: the system library that described it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, system: str | os.PathLike[str] | None = None
    ) -> None:
        """Map and describe a file.

        Args:
            path: the file.
            system: path of the QNN system library that knows its format: qnnrt's own unless given.

        Raises:
            ModelError: not a context binary, damaged, or of a format that the library cannot read.
            FileNotFoundError: no such file.
        """
        self.path = os.fspath(path)
        self.system = str(OWN_SYSTEM_LIBRARY) if system is None else os.fspath(system)
        self.data = map_file(self.path)
        self.info: dict[str, Any] = describe_binary(self.data, self.path, self.system)
        self._graphs = graphs_of(self.info)

    @property
    def name(self) -> str:
        """The file's name without folder and suffix."""
        return Path(self.path).stem

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs in it."""
        return tuple(self._graphs)

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return len(self.data)

    def graph(self, name: str | None = None) -> BinaryGraph:
        """One graph's inputs and outputs.

        Args:
            name: of the graph; may be omitted when there is one only.

        Raises:
            ValueError: there is no such graph, or there are several and none was named.
        """
        there = ", ".join(map(repr, self._graphs)) or "none"
        if name is None:
            if len(self._graphs) != 1:
                raise ValueError(f"{self.path} has {len(self._graphs)} graphs, say which: {there}")
            return next(iter(self._graphs.values()))
        if name not in self._graphs:
            raise ValueError(f"{self.path} has no graph {name!r}; there are {there}")
        return self._graphs[name]

    def summary(self) -> str:
        """A few lines: graphs, inputs, outputs and how they were prepared."""
        lines = [f"Context binary {self.path}, {self.nbytes / 2**20:.1f} MiB"]
        for g in self._graphs.values():
            lines.append(f"  graph {g.name!r}")
            lines += [f"    input   {t} ({t.mem_type})" for t in g.inputs]
            lines += [f"    output  {t} ({t.mem_type})" for t in g.outputs]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the file itself: the pages are the same.
        return _mapped, (self.path, self.system)

    def __repr__(self) -> str:
        return f"<ContextBinary {self.path!r}: {', '.join(map(repr, self._graphs))}>"


def _mapped(path: str, system: str) -> ContextBinary:
    return ContextBinary(path, system=system)
