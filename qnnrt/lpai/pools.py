"""The memory that a client gives to LPAI graphs: how much, how aligned, and who holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from .._native import _core
from ..memory import alloc as _alloc
from ..qnn.backend_base import BackendBase
from ..qnn.graph import Graph
from .hardware import MemType

__all__ = [
    "Alignment",
    "PoolSizes",
    "Pools",
    "alignment",
    "alloc",
    "allocate_pools",
    "io_array",
    "pool_sizes",
    "pools_of",
    "set_persistent",
    "set_scratch",
]

Buffer: TypeAlias = _core.Buffer

_MOST: Final = 0xFFFFFFFF  # sizes are 32 bits wide


@dataclass(frozen=True)
class Alignment:
    """What the address and the size of a pool or an IO buffer must be multiples of, in bytes."""

    start: int
    size: int

    def round_up(self, nbytes: int) -> int:
        """The least size from ``nbytes`` on."""
        return -(-nbytes // self.size) * self.size


@dataclass(frozen=True)
class PoolSizes:
    """How much memory a graph needs, in bytes; a pool of size 0 need not be given."""

    scratch: int
    persistent: int


@dataclass(frozen=True)
class Pools:
    """The memory that a graph was given; None where it has none."""

    scratch: Any = None
    persistent: Any = None


def alignment(backend: BackendBase) -> Alignment:
    """What every pool and every IO buffer must be aligned to: step 1.

    Raises:
        BackendError: it is no LPAI backend.
    """
    return Alignment(*_core.lpai_alignment(backend.library, backend.handle))


def pool_sizes(graph: Graph) -> PoolSizes:
    """How much scratch and persistent memory a graph needs: steps 2 and 3.

    This makes the plan, so all tensors and nodes have to be there; adding one drops it again.

    Raises:
        GraphError: the graph cannot be prepared, or has no such property.
    """
    return PoolSizes(
        _core.lpai_pool_size(graph._library, graph.handle, False),
        _core.lpai_pool_size(graph._library, graph.handle, True),
    )


def alloc(backend: BackendBase, nbytes: int, *, heap: str | None = None) -> Buffer:
    """A zeroed buffer for a pool or a tensor, aligned as the backend asks: step 4."""
    needed = alignment(backend)
    buffer = _alloc(needed.round_up(max(nbytes, 1)), heap=heap, alignment=max(needed.start, 4096))
    np.asarray(buffer)[...] = 0
    return buffer


def set_scratch(graph: Graph, memory: Any) -> None:
    """Give a graph its scratch memory, or replace it: step 5.

    It is written in every execution, so it is nobody else's meanwhile; between executions its
    contents are of no use. Replacing waits for an execution that runs; what lies in scratch memory,
    inputs and outputs among it, moves with it. The graph keeps it until it is replaced, and a
    ``Buffer`` cannot be closed before.

    Args:
        memory: a ``Buffer``, or a writable C-contiguous array. None takes it away: the graph cannot
            be executed before it has another one.

    Raises:
        GraphError: it is too small, or not aligned; both numbers are said. The old memory stays.
    """
    _set_pool(graph, memory, "scratch")


def set_persistent(graph: Graph, memory: Any) -> None:
    """Give a graph the memory of its state, before it is finalized: step 5.

    ``Graph.finalize`` zeroes it. From then on it is pinned until the context is closed.

    Args:
        memory: as for ``set_scratch``.

    Raises:
        GraphError: as for ``set_scratch``; or the graph is finalized.
    """
    _set_pool(graph, memory, "persistent")


def _set_pool(graph: Graph, memory: Any, kind: str) -> None:
    address, nbytes, keep = _extent(graph, memory, kind)
    config = _core.LpaiConfig.memory(kind == "persistent", MemType.DDR, address, nbytes)
    graph.handle  # noqa: B018 - raises in a forked child
    held = graph.context._pools
    with graph.context._pools_guard.lock:
        graph.set_config(custom=[config])
        if memory is None:
            held.pop((graph.name, kind), None)
        else:
            held[graph.name, kind] = _PoolHold(memory, keep, kind, graph.name)


def _extent(graph: Graph, memory: Any, kind: str) -> tuple[int, int, Buffer | None]:
    """Address and size, and the buffer that it lies in."""
    if memory is None:
        return 0, 0, None
    buffer: Buffer | None
    if isinstance(memory, _core.Buffer):
        address, nbytes, buffer = memory.address, memory.nbytes, memory
        memory.check_alive()
        writable = not memory.readonly
    elif isinstance(memory, np.ndarray):
        if not memory.flags.c_contiguous:
            raise ValueError(f"{kind} memory of graph {graph.name!r} must be C-contiguous")
        address, nbytes = memory.ctypes.data, memory.nbytes
        found = _core.lookup(address)
        buffer = found[0] if found is not None else None
        writable = memory.flags.writeable
    else:
        raise TypeError(
            f"{kind} memory of graph {graph.name!r} must be a Buffer or an array, not a "
            f"{type(memory).__name__}"
        )
    if not writable:
        raise ValueError(f"{kind} memory of graph {graph.name!r} must be writable")
    if nbytes > _MOST:
        raise ValueError(
            f"{kind} memory of graph {graph.name!r}: {nbytes} bytes are more than a pool can have "
            f"({_MOST}): give a part of it"
        )
    return address, nbytes, buffer


class _PoolHold:
    """Keeps the memory of a pool alive, and tells the ``close`` of its buffer who uses it."""

    def __init__(self, memory: Any, buffer: Buffer | None, kind: str, graph: str) -> None:
        self.memory = memory
        self.buffer = buffer
        self.arrays: dict[str, np.ndarray] = {}  # of inputs and outputs that lie in it
        note = "graph {!r} as its {} memory"
        self.hold = _core.Hold(buffer, note, graph, kind) if buffer is not None else None


def pools_of(graph: Graph) -> Pools:
    """What ``set_scratch`` and ``set_persistent`` were given."""
    held = graph.context._pools
    found = {kind: held.get((graph.name, kind)) for kind in ("scratch", "persistent")}
    return Pools(**{kind: hold and hold.memory for kind, hold in found.items()})


def allocate_pools(graph: Graph, *, heap: str | None = None) -> Pools:
    """Ask for the sizes, allocate and set the pools that the graph has not been given yet: steps 1
    to 5 in one. A pool of size 0 is skipped.

    Args:
        graph: not finalized.
        heap: as for ``qnnrt.alloc``.

    Returns:
        the pools that the graph has now.

    Raises:
        BackendError, GraphError: as the single steps.
        MemError: no memory.
    """
    sizes, given = pool_sizes(graph), pools_of(graph)
    backend = graph.context.backend
    if sizes.scratch and given.scratch is None:
        set_scratch(graph, alloc(backend, sizes.scratch, heap=heap))
    if sizes.persistent and given.persistent is None:
        set_persistent(graph, alloc(backend, sizes.persistent, heap=heap))
    return pools_of(graph)


def io_array(graph: Graph, name: str) -> np.ndarray:
    """The input or output of this name where it lies in scratch memory.

    Write inputs before each execution; outputs hold until the next one. Arrays stay where they are
    when the scratch memory is replaced: ask anew then.

    Raises:
        KeyError: the graph has no such input or output.
        LookupError: it has no scratch memory.
        GraphError: the tensor does not lie there, the graph is not finalized, or the backend is not
            qnnrt's own, and does not say where.
    """
    tensors = {t.name: t for t in (*graph.inputs, *graph.states, *graph.outputs)}
    if name not in tensors:
        raise KeyError(
            f"graph {graph.name!r} has no input or output {name!r}; it has {', '.join(tensors)}"
        )
    tensor = tensors[name]
    handle = graph.handle
    with graph.context._pools_guard.lock:
        hold = graph.context._pools.get((graph.name, "scratch"))
        if hold is None:
            raise LookupError(f"graph {graph.name!r} has no scratch memory")
        arrays: dict[str, np.ndarray] = hold.arrays
        if name not in arrays:
            address = _core.graph_io_address(graph._library, handle, tensor.id)
            flat = np.asarray(hold.memory).reshape(-1).view(np.uint8)
            offset = address - flat.ctypes.data
            nbytes = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.itemsize
            part = flat[offset : offset + nbytes]
            arrays[name] = part.view(tensor.dtype).reshape(tensor.shape)
        return arrays[name]
