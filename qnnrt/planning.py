"""Static memory planning: where buffers with known lifetimes lie in one arena.

The planner of the runtime's own graphs, for any buffers::

    plan = qnnrt.planning.plan([(0, 1, 4096), (1, 2, 8192), (2, 3, 4096)])
    plan.offsets, plan.peak  # ((8192, 0, 8192), 12288)
"""

from __future__ import annotations

import csv
import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ._native import _core
from .abi import constants as abi
from .abi.structs import Qnnrt_ArenaItem_t
from .support import named, uint32

__all__ = ["Item", "Plan", "check", "plan", "read_csv", "write_csv"]

_EFFORTS: Final = {
    "size": abi.QNNRT_PLAN_BY_SIZE,
    "portfolio": abi.QNNRT_PLAN_PORTFOLIO,
    "exact": abi.QNNRT_PLAN_EXACT,
}
_ITEM: Final = np.dtype(
    {
        "names": list(Qnnrt_ArenaItem_t.fields),
        "formats": [kind for _, kind in Qnnrt_ArenaItem_t.fields.values()],
        "offsets": [offset for offset, _ in Qnnrt_ArenaItem_t.fields.values()],
        "itemsize": Qnnrt_ArenaItem_t.size,
    }
)
_CHUNK: Final = 1 << 22  # pairs that `check` looks at together


class Item(NamedTuple):
    """A buffer.

    Attributes:
        first, last: the steps in which it is alive, both inclusive.
        size: bytes.
        alignment: of its offset, a power of two.
    """

    first: int
    last: int
    size: int
    alignment: int = 64


@dataclass(frozen=True)
class Plan:
    """Where items lie.

    Attributes:
        offsets: bytes from the start of the arena, one for each item.
        peak: bytes that the arena needs.
        lower_bound: the largest sum of sizes alive in one step: no arena is smaller.
        sum: the sum of all sizes, what nothing shared would take.
        order: the order of the portfolio that won, or "exact".
        proved: whether it is known that no plan has a smaller peak.
        steps: decisions that the exact search tried.
    """

    offsets: tuple[int, ...]
    peak: int
    lower_bound: int
    sum: int
    order: str
    proved: bool
    steps: int


def _items(given: Iterable[Item | Sequence[int]]) -> list[Item]:
    found = []
    for i, item in enumerate(given):
        try:
            found.append(Item(*map(operator.index, item)))
        except TypeError:
            raise ValueError(
                f"item {i} is {item!r}: expected the whole numbers first, last, size and, if need "
                "be, alignment"
            ) from None
    return found


def plan(
    items: Iterable[Item | Sequence[int]],
    *,
    effort: str | None = None,
    milliseconds: int = 0,
    steps: int = 0,
) -> Plan:
    """Find offsets with a small peak.

    Args:
        items: ``Item``, or tuples of its members.
        effort: "size" (the largest first, each into the first gap), "portfolio" (what graphs get:
            several orders and an improvement of the best) or "exact" (then a search until the peak
            is proved to be the smallest, or a limit is reached). "exact" when there is a limit,
            "portfolio" without one.
        milliseconds: how long the search may take; 0: any time. How far it comes depends on the
            machine, unless it ends before.
        steps: decisions that it may try; 0: any number. The same plan on every machine.

    Raises:
        ValueError: an item that is none, an alignment that is no power of two, an item that ends
            before it begins, sizes that add up to more than 2^62, "exact" without a limit, a limit
            out of range.
    """
    uint32("milliseconds", milliseconds)
    if not 0 <= steps < 1 << 64:
        raise ValueError(f"steps must be from 0 to 2^64 - 1, not {steps}")
    limited = milliseconds > 0 or steps > 0
    effort = effort or ("exact" if limited else "portfolio")
    named("effort", effort, _EFFORTS)
    if (effort == "exact") != limited:
        raise ValueError("milliseconds or steps limit an exact search, which takes at least one")
    try:
        given = np.array(list(map(tuple, _items(items))), _ITEM)
    except OverflowError:
        raise ValueError("steps are from 0 to 2^32 - 1, sizes from 0 to 2^64 - 1") from None
    offsets = np.zeros(len(given), np.uint64)
    info = _core.plan_arena(given, offsets, _EFFORTS[effort], milliseconds, steps)
    return Plan(offsets=tuple(offsets.tolist()), **info)


def check(items: Iterable[Item | Sequence[int]], offsets: Sequence[int], peak: int) -> None:
    """Look at every pair of items: independent of the planner and of its own verifier.

    Raises:
        ValueError: two items share a byte in a step, one is off its alignment or ends beyond the
            peak; the message says which.
    """
    given = _items(items)
    if len(given) != len(offsets):
        raise ValueError(f"{len(offsets)} offsets for {len(given)} items")
    for i, (item, offset) in enumerate(zip(given, offsets, strict=True)):
        if item.size and (offset % item.alignment or offset + item.size > peak):
            raise ValueError(
                f"item {i} lies at {offset} with {item.size} bytes: it must be a multiple of "
                f"{item.alignment}, and end at {peak} at most"
            )
    numbers = np.array([i for i, item in enumerate(given) if item.size], np.int64)
    first, last, size = (
        np.array([given[i][column] for i in numbers], np.int64) for column in range(3)
    )
    begin = np.array([offsets[i] for i in numbers], np.int64)
    end = begin + size
    rows = max(1, _CHUNK // max(1, len(numbers)))
    for start in range(0, len(numbers), rows):
        part = slice(start, start + rows)
        both = (first[part, None] <= last) & (first <= last[part, None])
        both &= (begin[part, None] < end) & (begin < end[part, None])
        both[np.arange(len(both)), np.arange(start, start + len(both))] = False
        if both.any():
            a, b = np.argwhere(both)[0]
            raise ValueError(
                f"items {numbers[start + a]} and {numbers[b]} share bytes while both are alive"
            )


def read_csv(path: str | os.PathLike[str], alignment: int = 1) -> list[Item]:
    """Items of a file in MiniMalloc's format: columns id, lower, upper (exclusive), size.

    Raises:
        ValueError: a line or a column that is not so.
        FileNotFoundError: no such file.
    """
    items = []
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            try:
                lower, upper, size = (int(row[key] or "") for key in ("lower", "upper", "size"))
            except (KeyError, ValueError):
                raise ValueError(
                    f"{os.fspath(path)}:{rows.line_num}: expected the columns id, lower, upper and "
                    "size, with whole numbers"
                ) from None
            items.append(Item(lower, upper - 1, size, alignment))
    return items


def write_csv(
    path: str | os.PathLike[str],
    items: Iterable[Item | Sequence[int]],
    offsets: Sequence[int] | None = None,
) -> None:
    """Write items in MiniMalloc's format, with a column "offset" when there are offsets."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "lower", "upper", "size"] + ["offset"] * (offsets is not None))
        for i, item in enumerate(_items(items)):
            row = [i, item.first, item.last + 1, item.size]
            writer.writerow(row if offsets is None else [*row, offsets[i]])
