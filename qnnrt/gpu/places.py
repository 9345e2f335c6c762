"""Where tensors lie in the device's memory: intermediates in an arena, constants beside it."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .. import planning
from .device import Device, pyopencl
from .ir import Launch, Value
from .target import Target

__all__ = ["Arena", "Places", "Shared", "arenas", "most_bytes", "place"]

_LINE: Final = 64  # what the runtime aligns constants to
_PAGE: Final = 4096  # what devices that share memory, but no caches, want


@dataclass
class Arena:
    """One buffer and what lies in it; ``shared`` lists more values that have an item's memory."""

    plan: planning.Plan
    items: list[planning.Item]
    values: list[Value]
    shared: dict[Value, list[Value]] = field(default_factory=dict)


@dataclass
class Places:
    """Where everything lies that is no input and no output.

    Attributes:
        buffers: a ``pyopencl.Buffer`` for each value that has memory of its own.
        arenas: of intermediates.
        weight_bytes: of constants, without those that another graph had already.
        kept: addresses of constants that are used where the runtime has them.
        keep: what must live as long.
    """

    buffers: dict[Value, Any] = field(default_factory=dict)
    arenas: list[Arena] = field(default_factory=list)
    weight_bytes: int = 0
    kept: list[int] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)


class _Weights:
    """A constant's buffer, which lives as long as a graph uses it."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


#: Constants of a backend's graphs by a hash of their bytes.
Shared = weakref.WeakValueDictionary[bytes, _Weights]


def place(
    launches: Sequence[Launch],
    target: Target,
    context: Any,
    queue: Any,
    shared: Shared,
) -> Places:
    """Memory for what kernels read and write, with constants in it."""
    places = Places()
    _intermediates(launches, target, context, places)
    _constants(_lives(launches, "static"), target, context, queue, shared, places)
    return places


def most_bytes(device: Device) -> int:
    """Of one buffer."""
    return int(device.raw.max_mem_alloc_size)


def _lives(launches: Sequence[Launch], kind: str) -> dict[Value, tuple[int, int]]:
    """Values of a kind that have memory of their own, with the first and last step of each."""
    found: dict[Value, tuple[int, int]] = {}
    for step, launch in enumerate(launches):
        for arg in launch.args:
            if isinstance(arg, Value) and arg.root.kind == kind:
                found[arg.root] = (found.get(arg.root, (step, step))[0], step)
    return found


# ---- intermediates


def _intermediates(
    launches: Sequence[Launch], target: Target, context: Any, places: Places
) -> None:
    """Give what lives between kernels its place."""
    cl = pyopencl()
    for arena in arenas(launches, target, most_bytes(target.device)):
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, arena.plan.peak)
        for value, item, offset in zip(arena.values, arena.items, arena.plan.offsets, strict=True):
            whole = not any(arena.plan.offsets)  # one after the other, each from the start
            part = buffer if whole else buffer.get_sub_region(offset, item.size)
            for each in (value, *arena.shared.get(value, ())):
                places.buffers[each] = part
        places.arenas.append(arena)


def arenas(launches: Sequence[Launch], target: Target, limit: int) -> list[Arena]:
    """As few as there may be of so many bytes; one for each value without memory optimizations.

    Where sub-buffers that overlap are slow, the values of an arena follow one another, so that each
    has the whole of it.
    """
    lives = _lives(launches, "native")
    shared: dict[Value, list[Value]] = {}
    if target.memory_optimizations:
        shared = _reuse(launches, lives)
    items = {
        v: planning.Item(first, last, max(v.nbytes, 1), target.device.alignment)
        for v, (first, last) in lives.items()
    }
    groups = [list(items)] if items else []
    if not target.memory_optimizations:
        groups = [[v] for v in items]
    elif not target.device.overlaps:
        groups = _in_turn(items)
    elif items and planning.plan(items.values()).peak > limit:
        groups = _split(items, limit)
    return [
        Arena(
            planning.plan([items[v] for v in group], milliseconds=target.plan_milliseconds),
            [items[v] for v in group],
            group,
            {v: shared[v] for v in group if v in shared},
        )
        for group in groups
    ]


def _reuse(
    launches: Sequence[Launch], lives: dict[Value, tuple[int, int]]
) -> dict[Value, list[Value]]:
    """Let results take the memory of operands that end there; ``lives`` loses these results."""
    holder: dict[Value, Value] = {}
    for step, launch in enumerate(launches):
        for written, read in launch.in_place:
            y, x = written.root, read.root
            x = holder.get(x, x)
            if x is y or y not in lives or x not in lives or x.nbytes != y.nbytes:
                continue
            if lives[x][1] == step == lives[y][0]:
                lives[x] = (lives[x][0], lives.pop(y)[1])
                holder[y] = x
                break
    shared: dict[Value, list[Value]] = {}
    for y, x in holder.items():
        shared.setdefault(x, []).append(y)
    return shared


def _in_turn(items: dict[Value, planning.Item]) -> list[list[Value]]:
    """Values into groups that are never needed at once: the largest first, into the group whose
    largest value is the nearest in size (Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference", 2020)."""
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
    places: Places,
) -> None:
    """Give constants their place: where they are if the device can read them there, else in one
    buffer, or in the buffer that another graph has of the same bytes."""
    cl = pyopencl()
    rest: list[Value] = []
    for value in values:
        assert value.data is not None
        if target.weight_sharing:
            _share(value, context, queue, shared, places)
        elif _usable(value.data, target.device):
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
            places.buffers[value] = cl.Buffer(context, flags, hostbuf=_bytes(value.data))
            places.kept.append(value.data.ctypes.data)
            places.keep.append(value.data)
            places.weight_bytes += value.nbytes
        else:
            rest.append(value)
    for group in _groups(rest, target.device):
        end = group[-1][1] + max(group[-1][0].nbytes, 1)
        buffer = cl.Buffer(context, cl.mem_flags.READ_ONLY, end)
        places.weight_bytes += end
        for value, offset in group:
            part = buffer.get_sub_region(offset, max(value.nbytes, 1))
            _write(queue, part, value)
            places.buffers[value] = part


def _usable(data: np.ndarray, device: Device) -> bool:
    """Whether a device can read it where it is."""
    if not device.shared or data.nbytes == 0:
        return False
    return data.ctypes.data % (_LINE if device.kind == "cpu" else _PAGE) == 0


def _share(value: Value, context: Any, queue: Any, shared: Shared, places: Places) -> None:
    cl = pyopencl()
    assert value.data is not None
    key = hashlib.sha256(_bytes(value.data).data).digest()
    held = shared.get(key)
    if held is None:
        buffer = cl.Buffer(context, cl.mem_flags.READ_ONLY, max(value.nbytes, 1))
        _write(queue, buffer, value)
        places.weight_bytes += value.nbytes
        held = shared[key] = _Weights(buffer)
    places.buffers[value] = held.buffer
    places.keep.append(held)


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
