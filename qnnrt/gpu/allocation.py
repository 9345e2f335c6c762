"""Allocation of the device's memory: an arena of intermediates, and buffers of constants."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .. import planning
from .device import Device, TooLarge, new_buffer, pyopencl
from .ir import Launch, Value
from .target import Target

__all__ = [
    "Allocations",
    "Arena",
    "Shared",
    "allocate",
    "arenas",
    "check_size",
    "constants_of",
    "most_bytes",
    "places",
]

_LINE: Final = 64  # what the runtime aligns constants to
_PAGE: Final = 4096  # what devices that share memory, but no caches, want


@dataclass
class Arena:
    """One buffer and the allocations in it; ``shared`` lists more values that use an item's."""

    plan: planning.Plan
    items: list[planning.Item]
    values: list[Value]
    shared: dict[Value, list[Value]] = field(default_factory=dict)


@dataclass
class Allocations:
    """Memory of everything that is no input and no output.

    Attributes:
        buffers: a ``pyopencl.Buffer`` for each constant.
        arenas: of intermediates, which an execution takes from the backend's pool.
        places: (arena, offset, bytes) of each intermediate.
        weight_bytes: of constants, without those that another graph had already.
        kept: addresses of constants that are used where the runtime has them.
        keep: what must exist as long.
    """

    buffers: dict[Value, Any] = field(default_factory=dict)
    arenas: list[Arena] = field(default_factory=list)
    places: dict[Value, tuple[int, int, int]] = field(default_factory=dict)
    weight_bytes: int = 0
    kept: list[int] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)


class _Weights:
    """A constant's buffer, kept as long as a graph uses it, and the memory that it is on."""

    def __init__(self, buffer: Any, data: np.ndarray | None) -> None:
        self.buffer = buffer
        self.data = data


#: Constants of a backend's graphs by a hash of their bytes.
Shared = weakref.WeakValueDictionary[bytes, _Weights]


def allocate(
    launches: Sequence[Launch],
    target: Target,
    context: Any,
    queue: Any,
    shared: Shared,
) -> Allocations:
    """Memory for what kernels read and write, with constants in it.

    Raises:
        TooLarge: the device does not have as much.
    """
    memory = Allocations()
    memory.arenas = arenas(launches, target, most_bytes(target.device))
    constants = constants_of(launches)
    check_size(memory.arenas, constants, target.device)
    memory.places = places(memory.arenas)
    _constants(constants, target, context, queue, shared, memory)
    return memory


def constants_of(launches: Sequence[Launch]) -> list[Value]:
    """Those that kernels read."""
    return list(_lifetimes(launches, "static"))


def check_size(arenas: Iterable[Arena], constants: Iterable[Value], device: Device) -> None:
    """Raises ``TooLarge`` where the device does not have as much altogether."""
    needed = sum(a.plan.peak for a in arenas) + sum(v.nbytes for v in constants)
    # Drivers that allocate late would find this in the midst of an execution.
    if needed > (there := all_bytes(device)):
        raise TooLarge(f"{needed} bytes are needed on {device}, which has {there}")


def all_bytes(device: Device) -> int:
    """Of everything."""
    return int(device.raw.global_mem_size)


def most_bytes(device: Device) -> int:
    """Of one buffer."""
    return int(device.raw.max_mem_alloc_size)


def _lifetimes(launches: Sequence[Launch], kind: str) -> dict[Value, tuple[int, int]]:
    """Values of a kind that have memory of their own, with the first and last step of each."""
    found: dict[Value, tuple[int, int]] = {}
    for step, launch in enumerate(launches):
        for arg in launch.args:
            if isinstance(arg, Value) and arg.root.kind == kind:
                found[arg.root] = (found.get(arg.root, (step, step))[0], step)
    return found


# ---- intermediates


def places(arenas: Iterable[Arena]) -> dict[Value, tuple[int, int, int]]:
    """(number of the arena, offset, bytes) of each value that lies in one."""
    return {
        each: (number, offset, item.size)
        for number, arena in enumerate(arenas)
        for value, item, offset in zip(arena.values, arena.items, arena.plan.offsets, strict=True)
        for each in (value, *arena.shared.get(value, ()))
    }


def arenas(launches: Sequence[Launch], target: Target, limit: int) -> list[Arena]:
    """As few as there may be of so many bytes; one for each value without memory optimizations.

    Where sub-buffers that overlap are slow, the values of an arena follow one another, so that each
    has the whole of it.
    """
    lifetimes = _lifetimes(launches, "native")
    shared: dict[Value, list[Value]] = {}
    if target.memory_optimizations:
        shared = _reuse(launches, lifetimes)
    items = {
        v: planning.Item(first, last, max(v.nbytes, 1), target.device.alignment)
        for v, (first, last) in lifetimes.items()
    }
    groups = [list(items)] if items else []
    if not target.memory_optimizations:
        groups = [[v] for v in items]
    elif not target.device.overlaps:
        groups = _whole_buffers(items)
    elif items and planning.plan(items.values()).peak > limit:
        groups = _split(items, limit)
    found = [
        Arena(
            planning.plan([items[v] for v in group], milliseconds=target.plan_milliseconds),
            [items[v] for v in group],
            group,
            {v: shared[v] for v in group if v in shared},
        )
        for group in groups
    ]
    # Graphs share the largest, the second one, and so on: each of the nearest size.
    return sorted(found, key=lambda arena: -arena.plan.peak)


def _reuse(
    launches: Sequence[Launch], lifetimes: dict[Value, tuple[int, int]]
) -> dict[Value, list[Value]]:
    """Let results take the memory of operands that end there; ``lifetimes`` loses these results."""
    holder: dict[Value, Value] = {}
    for step, launch in enumerate(launches):
        for written, read in launch.in_place:
            y, x = written.root, read.root
            x = holder.get(x, x)
            if x is y or y not in lifetimes or x not in lifetimes or x.nbytes != y.nbytes:
                continue
            if lifetimes[x][1] == step == lifetimes[y][0]:
                lifetimes[x] = (lifetimes[x][0], lifetimes.pop(y)[1])
                holder[y] = x
                break
    shared: dict[Value, list[Value]] = {}
    for y, x in holder.items():
        shared.setdefault(x, []).append(y)
    return shared


def _whole_buffers(items: dict[Value, planning.Item]) -> list[list[Value]]:
    """Buffer reuse: values into groups whose lifetimes do not overlap, the largest first, into the
    group whose largest value is the nearest in size (Pisarchyk and Lee, "Efficient Memory
    Management for Deep Neural Net Inference", 2020)."""
    groups: list[list[Value]] = []
    for value in sorted(items, key=lambda v: -items[v].size):
        mine = items[value]
        free = [
            group
            for group in groups
            if all(items[v].last < mine.first or mine.last < items[v].first for v in group)
        ]
        if free:  # groups begin with their largest value
            min(free, key=lambda group: items[group[0]].size).append(value)
        else:
            groups.append([value])
    return groups


def _split(items: dict[Value, planning.Item], limit: int) -> list[list[Value]]:
    """Values into groups whose plans are within the limit, the largest first."""
    groups: list[list[Value]] = []
    for value in sorted(items, key=lambda v: -items[v].size):
        for group in groups:
            if planning.plan([items[v] for v in (*group, value)]).peak <= limit:
                group.append(value)
                break
        else:
            groups.append([value])
    return groups


# ---- constants


def _constants(
    values: Iterable[Value],
    target: Target,
    context: Any,
    queue: Any,
    shared: Shared,
    memory: Allocations,
) -> None:
    """Buffers of constants: what another graph has of the same bytes, or else on the host's memory
    if the device can read it there. Without sharing all others are in one buffer."""
    cl = pyopencl()
    rest: list[Value] = []
    for value in values:
        assert value.data is not None
        in_place = _usable(value.data, target.device)
        # The runtime's own are in one place for its graphs already.
        if target.weight_sharing and (not in_place or _owned(value.data)):
            _share(value, target.device, context, queue, shared, memory, in_place=in_place)
        elif in_place:
            memory.buffers[value] = _on(context, value.data)
            memory.keep.append(value.data)
            _count(value, target, shared, memory)
        else:
            rest.append(value)
        if in_place:
            memory.kept.append(value.data.ctypes.data)
    for group in _groups(rest, target.device):
        end = group[-1][1] + max(group[-1][0].nbytes, 1)
        buffer = new_buffer(context, target.device, cl.mem_flags.READ_ONLY, end)
        memory.weight_bytes += end
        for value, offset in group:
            part = buffer.get_sub_region(offset, max(value.nbytes, 1))
            _write(queue, part, value)
            memory.buffers[value] = part


def _usable(data: np.ndarray, device: Device) -> bool:
    """Whether a device can read it where it is."""
    if not device.shared or data.nbytes == 0:
        return False
    return data.ctypes.data % (_LINE if device.kind == "cpu" else _PAGE) == 0


def _count(value: Value, target: Target, shared: Shared, memory: Allocations) -> None:
    """A constant of the runtime's, unless another graph reads it in the same place."""
    assert value.data is not None
    key = b"at %d" % value.data.ctypes.data
    held = shared.get(key) if target.weight_sharing else None
    if held is None:
        memory.weight_bytes += value.nbytes
        held = shared[key] = _Weights(None, None)
    memory.keep.append(held)


def _on(context: Any, data: np.ndarray) -> Any:
    """A buffer of the very memory."""
    cl = pyopencl()
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=_bytes(data))


def _share(
    value: Value,
    device: Device,
    context: Any,
    queue: Any,
    shared: Shared,
    memory: Allocations,
    *,
    in_place: bool,
) -> None:
    """The buffer that another graph has of the same bytes, or a new one that others find."""
    data = value.data
    assert data is not None
    key = hashlib.sha256(_bytes(data).data).digest()
    held = shared.get(key)
    if held is None:
        if in_place:
            buffer = _on(context, data)
        else:
            buffer = new_buffer(context, device, pyopencl().mem_flags.READ_ONLY, value.nbytes)
            _write(queue, buffer, value)
        memory.weight_bytes += value.nbytes
        held = shared[key] = _Weights(buffer, data if in_place else None)
    memory.buffers[value] = held.buffer
    memory.keep.append(held)


def _owned(data: np.ndarray) -> bool:
    """Whether it is memory of numpy's, which lives as long as the array."""
    base: Any = data
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return isinstance(base, np.ndarray)


def _groups(values: Sequence[Value], device: Device) -> list[list[tuple[Value, int]]]:
    """Constants one behind the other, with their offsets, in as few buffers as there may be."""
    groups: list[list[tuple[Value, int]]] = []
    end = 0
    for value in values:
        offset = -(-end // device.alignment) * device.alignment
        if not groups or offset + value.nbytes > most_bytes(device):
            groups.append([])
            offset = 0
        groups[-1].append((value, offset))
        end = offset + max(value.nbytes, 1)
    return groups


def _write(queue: Any, buffer: Any, value: Value) -> None:
    assert value.data is not None
    if value.nbytes:
        pyopencl().enqueue_copy(queue, buffer, _bytes(value.data), is_blocking=True)


def _bytes(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
