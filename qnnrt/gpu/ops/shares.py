"""How work groups share rows of numbers: reductions, norms, softmax, extremes and running sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..target import Target
from .common import Defines
from .sizes import Grid, simt

__all__ = ["Shares", "shared"]

_GROUP: Final = 256  # the most work items that kernels have local memory for
_NEIGHBOURS: Final = 32  # rows side by side that a group takes at least: GPUs read whole lines
_RESIDENT: Final = 2048  # work items that a compute unit of a GPU has at once
#: Elements for a lane where rows are few, and where they are many.
_TURNS: Final = 4
_MANY_TURNS: Final = 16
#: Elements for a lane up to which a group has a row alone, and those of a part at least.
_ALONE: Final = 32
_LEAST: Final = 8
#: On a CPU, whose groups are loops: work items of one, parts for each core, elements of a part.
_LOOP: Final = 64
_BUSY: Final = 4
_LEAST_OF_LOOP: Final = 1 << 14
_MOST_PARTS: Final = 1 << 12


@dataclass(frozen=True)
class Shares:
    """Work groups for rows of elements, in kernels that have ITEM_LANE and what is beside it.

    Attributes:
        groups: of work items, for all rows.
        columns: rows of a group.
        lanes: work items that share the elements of a row; a power of two.
        parts: groups that share a row, each with ``chunk`` of its elements, the last with the rest.
        adjacent: lanes are neighbours in a group, since the elements of a row are neighbours in
            memory; else columns are.
    """

    groups: int
    columns: int
    lanes: int
    parts: int
    chunk: int
    adjacent: bool

    @property
    def grid(self) -> Grid:
        """The index space: groups of rows in its first dimension, parts in its third."""
        pair = (self.lanes, self.columns) if self.adjacent else (self.columns, self.lanes)
        return (pair[0] * self.groups, pair[1], self.parts), (*pair, 1)

    @property
    def defines(self) -> Defines:
        """What the kernels' macros ask for."""
        neighbours = (("ROWS", "1"),) if self.adjacent else ()
        return (*neighbours, *((("SHARED", "1"),) if self.lanes > 1 else ()))


def shared(
    rows: int,
    terms: int,
    apart: int,
    target: Target,
    *,
    at_once: int = 1,
    whole: bool = False,
    loop: int = _LOOP,
    least: int = _LEAST_OF_LOOP,
) -> Shares:
    """Groups for ``rows`` rows of ``terms`` elements.

    Args:
        apart: how many rows lie side by side, so that an element's neighbour in memory is another
            row's; 1 where it is the row's next one.
        at_once: neighbours of a row that a work item reads with one load.
        whole: a row is not cut into parts, however few there are.
        loop, least: on a CPU, rows of a group, and elements of a part.
    """
    units = max(int(target.device.raw.max_compute_units), 1)
    steps = -(-terms // at_once)
    if not simt(target):
        groups = -(-rows // loop)
        most = (
            1 if whole or groups >= units else min(_BUSY * units // max(groups, 1), terms // least)
        )
        chunk = -(-steps // max(most, 1)) * at_once
        return Shares(groups, loop, 1, _count(terms, chunk), chunk, False)
    group = 1 << (min(_GROUP, int(target.device.raw.max_work_group_size)).bit_length() - 1)
    wanted = units * _RESIDENT // group

    def turns_of(lanes: int) -> int:
        """What a lane takes at most before more lanes share a row: more where rows are many, since
        groups meet at as many barriers for a few elements."""
        many = at_once == 1 and lanes >= _NEIGHBOURS and rows * lanes >= wanted * group
        return _MANY_TURNS if many else _TURNS

    adjacent = apart <= 1
    if adjacent:
        sizes = [n for n in (1, 8, 32, 64, 128) if n < group] + [group]
        lanes = next(n for n in sizes if steps <= turns_of(n) * n or n == group)
    else:
        most = 1 << ((group // min(_NEIGHBOURS, apart, group)).bit_length() - 1)
        lanes = 1
        while lanes < most and steps > 8 * lanes:
            lanes *= 2
    columns = group // lanes
    if not adjacent and apart < columns:
        columns -= columns % apart
    groups = -(-rows // columns)
    turns = -(-steps // lanes)
    parts = 1
    if not whole and 2 * groups <= wanted and turns > _ALONE:
        parts = min(wanted // max(groups, 1), turns // _LEAST, _MOST_PARTS)
    chunk = -(-turns // parts) * lanes * at_once if parts > 1 else terms
    return Shares(groups, columns, lanes, _count(terms, chunk), chunk, adjacent)


def _count(terms: int, chunk: int) -> int:
    return max(1, -(-terms // max(chunk, 1)))
