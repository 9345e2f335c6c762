"""Kernels that follow one another, each with one work group, become one kernel.

Starting a kernel takes a driver several microseconds, a tiny kernel one or two. Within a work group
a barrier is enough for the next kernel to see what the last one wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from .ir import Launch, Node, Value

__all__ = ["each_kernel", "run_together", "source_of_parts"]

Launches: TypeAlias = list[tuple[Node, Launch]]

#: Kernels with barriers and local memory: all work items of a group have to come to them, so they
#: need a group of exactly their own size.
_MEET: Final = frozenset({"arg", "move", "norm", "pool", "reduce", "scan", "softmax"})
#: Kernels whose work items are independent.
_FREE: Final = frozenset(
    {"batchnorm", "combine", "copy", "elementwise", "gather", "pack", "rotary_embedding", "slices"}
)
#: Of one kernel: parts, which the driver's compiler takes some 30 milliseconds each for; parts with
#: code of their own, whose local memory adds up; arguments.
_MOST_PARTS: Final = 16
_MOST_SOURCES: Final = 8
_MOST_ARGS: Final = 160
#: Bytes of a kernel's tensors: with more, several compute units are faster than one.
_MOST_BYTES: Final = 1 << 16
_MOST_ITEMS: Final = 1024
_DEFINED: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)

#: Index functions of a part, for its own index space. `AT` picks a dimension's, `qnnrt_item` is the
#: work item.
_INDICES: Final = """\
#define get_local_size(d) AT(d, {0}, {1}, {2})
#define get_num_groups(d) AT(d, {3}, {4}, {5})
#define get_global_size(d) (get_local_size(d) * get_num_groups(d))
#define get_local_id(d) AT(d, qnnrt_item() % {0}, qnnrt_item() / {0} % {1}, \\
                           qnnrt_item() / ({0} * {1}) % {2})
#define get_group_id(d) AT(d, qnnrt_item() / {6} % {3}, qnnrt_item() / ({6} * {3}) % {4}, \\
                           qnnrt_item() / ({6} * {3} * {4}))
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))
"""
_BEFORE: Final = """\
static inline size_t qnnrt_item(void) { return get_local_id(0); }
#define AT(d, x, y, z) ((size_t)((d) == 0 ? (x) : (d) == 1 ? (y) : (d) == 2 ? (z) : 0))
"""


def each_kernel(launches: Iterable[tuple[Node, Launch]]) -> Iterator[tuple[Node, Launch]]:
    """With its parts in the place of one that has some."""
    for node, launch in launches:
        if launch.parts:
            yield from launch.parts
        else:
            yield node, launch


def run_together(launches: Launches, widest: int, nests: bool) -> Launches:
    """The same with one launch for kernels that can run one after the other in one work group.

    Args:
        widest: work items that a group may have.
        nests: whether the device's kernels may call those that have local memory.
    """
    widest = min(widest, _MOST_ITEMS)
    files = _MEET | _FREE if nests else _FREE
    found: Launches = []
    run = _Run(widest, files)
    for node, launch in launches:
        if run.takes(launch):
            run.add(node, launch)
            continue
        found += run.launches()
        run = _Run(widest, files)
        if run.takes(launch):
            run.add(node, launch)
        else:
            found.append((node, launch))
    return found + run.launches()


class _Run:
    """Kernels of these files that become one, of so many work items at most."""

    def __init__(self, widest: int, files: frozenset[str]) -> None:
        self.parts: Launches = []
        self._widest, self._files = widest, files
        self._items = 0  # the most of a part
        self._exact = 0  # that a part with barriers has; 0: there is none
        self._args = 0
        self._sources: set[str] = set()

    def takes(self, launch: Launch) -> bool:
        """Whether it may be the next one."""
        items = math.prod(launch.total)
        if launch.call is not None or launch.file not in self._files or items > self._widest:
            return False
        if any(v.kind == "faults" or v.nbytes > _MOST_BYTES for v in _memories(launch)):
            return False
        if launch.file in _MEET:
            if launch.group != launch.total or self._exact not in (0, items) or items < self._items:
                return False
        elif self._exact and items > self._exact:
            return False
        return (
            len(self.parts) < _MOST_PARTS
            and self._args + len(launch.args) <= _MOST_ARGS
            and len(self._sources | {_key(launch)}) <= _MOST_SOURCES
        )

    def add(self, node: Node, launch: Launch) -> None:
        items = math.prod(launch.total)
        self.parts.append((node, launch))
        self._items = max(self._items, items)
        self._exact = items if launch.file in _MEET else self._exact
        self._args += len(launch.args)
        self._sources.add(_key(launch))

    def launches(self) -> Launches:
        """One of all, or what there is."""
        if len(self.parts) < 2:
            return self.parts
        first, last = self.parts[0][0].name, self.parts[-1][0].name
        name = first if first == last else f"{first} ... {last}"
        width = (self._exact or self._items,)
        args = tuple(arg for _, launch in self.parts for arg in launch.args)
        node = Node(name, "", [], [], {})
        parts = tuple(self.parts)
        return [(node, Launch("together", "together", (), width, args, width, parts=parts))]


def _memories(launch: Launch) -> Iterator[Value]:
    return (v.root for v in launch.args if isinstance(v, Value))


def _key(launch: Launch) -> str:
    """What kernels have in common that are compiled once."""
    return repr((launch.file, launch.function, launch.defines, launch.before, _space(launch)))


def _space(launch: Launch) -> tuple[int, ...]:
    """Work items of a group in each of three dimensions, groups in each, items of a group."""
    total = (*launch.total, 1, 1)[:3]
    group = (*(launch.group or launch.total), 1, 1)[:3]
    return (*group, *(t // g for t, g in zip(total, group, strict=True)), math.prod(group))


def source_of_parts(launch: Launch, sources: Iterable[str]) -> str:
    """The text of a kernel that calls its parts.

    Args:
        sources: of each part, in which its kernel is ``KERNEL(its function)``.
    """
    texts: dict[str, str] = {}  # key -> prefix of the functions
    written = [_BEFORE]
    parameters: list[str] = []
    calls = []
    for (_, part), text in zip(launch.parts, sources, strict=True):
        key = _key(part)
        if key not in texts:
            texts[key] = f"qnnrt_part{len(texts)}_"
            named = f"#define KERNEL(name) {texts[key]}##name\n"
            text = named + _INDICES.format(*_space(part)) + text
            names = dict.fromkeys(_DEFINED.findall(text))
            # Its function is not inlined: compiled once, however often it is called.
            text = text.replace("__kernel void", "__attribute__((noinline)) __kernel void")
            written += [text, *(f"\n#undef {name}" for name in names), "\n"]
        own = []
        for arg in part.args:
            kind = (
                "__global void* a"
                if isinstance(arg, Value)
                else ("int a" if isinstance(arg, int) else "float a")
            )
            own.append(f"a{len(parameters)}")
            parameters.append(f"{kind}{len(parameters)}")
        call = f"{texts[key]}{part.function}({', '.join(own)});"
        if part.file in _FREE:
            call = f"if (qnnrt_item() < {math.prod(part.total)}) {call}"
        calls.append(f"  {call}\n")
    width = launch.total[0]
    return (
        f"{''.join(written)}__attribute__((reqd_work_group_size({width}, 1, 1)))\n"
        f"__kernel void qnnrt_together({', '.join(parameters)}) {{\n"
        + "  barrier(CLK_GLOBAL_MEM_FENCE);\n".join(calls)
        + "}\n"
    )
