"""Kernels of tiles.cl and dots.cl: products in local memory, for devices that have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..ir import Launch, Value
from ..target import Target
from .common import Defines, fused
from .product import Product, in_tiles

__all__ = ["PARTS", "Tile", "dots", "few_rows", "tiles", "ways"]


@dataclass(frozen=True)
class Tile:
    """Sizes of a kernel of tiles.cl.

    Attributes:
        rows, columns, depth: of what a work group makes, and of the terms that it has at a time.
        tall, wide: what a work item makes of it.
        speed: how near it comes to the device's best where there is enough to do; for guesses.
    """

    rows: int
    columns: int
    depth: int
    tall: int
    wide: int
    speed: float

    @property
    def items(self) -> int:
        """Work items of a group."""
        return (self.rows // self.tall) * (self.columns // self.wide)

    @property
    def local_bytes(self) -> int:
        return 2 * 4 * self.depth * (self.rows + 4 + self.columns + 4)

    @property
    def unroll(self) -> int:
        """Terms that are written out: as many as leave the registers for two groups at a time."""
        return min(self.depth, 128 // (self.tall * self.wide))

    def __str__(self) -> str:
        return f"tiles-{self.rows}x{self.columns}x{self.depth}-{self.tall}x{self.wide}"


#: Work items of a group are at least four rows of eight: see tiles.cl.
TILES: Final = (
    Tile(128, 128, 16, 8, 8, 1.0),
    Tile(128, 128, 8, 8, 8, 0.98),
    Tile(128, 64, 16, 8, 8, 0.85),
    Tile(64, 128, 16, 8, 8, 0.85),
    Tile(128, 64, 16, 8, 4, 0.85),
    Tile(64, 64, 16, 8, 4, 0.75),
    Tile(64, 64, 16, 4, 4, 0.7),
    Tile(64, 32, 16, 4, 4, 0.55),
    Tile(32, 64, 16, 4, 4, 0.55),
    Tile(32, 32, 32, 4, 4, 0.4),
    Tile(16, 64, 32, 4, 4, 0.4),
)
#: Into how many parts a sum may be cut.
PARTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_FEW: Final = 4  # rows that dots.cl takes: with more of them it reads a too often
_LANES, _GROUP = 32, 4


def ways(x: Product, target: Target) -> list[tuple[Tile, int]]:
    """Tiles and numbers of parts of the sum, those that are expected to be the fastest first."""
    raw = target.device.raw
    found = [
        (_cost(x, tile, parts, int(raw.max_compute_units)), tile, parts)
        for tile in TILES
        if tile.items <= raw.max_work_group_size and tile.local_bytes <= raw.local_mem_size
        for parts in PARTS
        if parts == 1 or -(-x.inner // tile.depth) >= 4 * parts
    ]
    return [(tile, parts) for _, tile, parts in sorted(found, key=lambda way: way[0])]


def _cost(x: Product, tile: Tile, parts: int, units: int) -> float:
    """A guess at how long it takes, in multiply-adds of a compute unit that has enough to do."""
    groups = -(-x.rows // tile.rows) * -(-x.columns // tile.columns) * x.count * parts
    each = -(-groups // units)  # the unit that has the most
    busy = min(1.0, min(each, 1024 // tile.items) * tile.items / 384)
    steps = -(-x.inner // (tile.depth * parts))
    area = tile.rows * tile.columns * tile.depth * (steps + 2)
    cost = each * area / (tile.speed * busy)
    # Writing parts, reading them, and one more kernel.
    return cost + (parts > 1) * (4e5 + 12.0 * parts * x.rows * x.columns * x.count / units)


def tiles(x: Product, target: Target, tile: Tile, parts: int) -> list[Launch]:
    """A product by tiles.cl, whose sums are cut into ``parts``."""
    post = fused(x.node)
    b, b_matrix, b_row, b_turned = _second(x, target)
    a_turned = x.a_step != 1
    a_row = x.a_step if a_turned else x.a_row
    a_whole = (a_row, x.rows if a_turned else x.inner)
    if x.window:
        a_whole = (x.window.channels, x.depth)
    b_whole = (b_row, x.inner if b_turned else b_row if x.constant else x.columns)
    y_whole = (x.columns,) if parts > 1 else (x.columns, *x.place)
    defines: Defines = (
        *x.defines(post),
        ("BM", str(tile.rows)),
        ("BN", str(tile.columns)),
        ("BK", str(tile.depth)),
        ("TM", str(tile.tall)),
        ("TN", str(tile.wide)),
        ("UNROLL", str(tile.unroll)),
        ("VA", _at_once(*a_whole, x.a_matrix)),
        ("VB", _at_once(*b_whole, b_matrix)),
        ("VY", _at_once(*y_whole)),
        *((("WINDOW", "1"),) if x.window else ()),
        *((("A_TURNED", "1"),) if a_turned else ()),
        *((("B_TURNED", "1"),) if b_turned else ()),
    )
    sizes = (tile.rows, tile.columns, tile.items)
    return in_tiles(x, post, "tiles", defines, sizes, (b, b_matrix, b_row), parts)


def _second(x: Product, target: Target) -> tuple[Value, int, int, bool]:
    """b, its elements from matrix to matrix and from row to row, and whether it is [n][k]."""
    if not x.constant:
        turned = x.b_column != 1
        return x.b, x.b_matrix, x.b_column if turned else x.b_step, turned
    if x.b_column == 1 and x.columns % 4 == 0 and x.b_step % 4 == 0 and x.b_count == 1:
        return x.b, x.b_matrix, x.b_step, False
    width = -(-x.columns // 4) * 4
    data = np.zeros((x.b_count, x.inner, width), x.b.dtype)
    data[:, :, : x.columns] = x.weights()
    return target.constant(data), x.inner * width if x.b_count > 1 else 0, width, False


def _at_once(*sizes: int) -> str:
    """Elements of a vector into which all of these can be cut."""
    return "1" if any(n % 4 for n in sizes) else "4"


def few_rows(x: Product) -> bool:
    """Whether dots.cl can make a product."""
    simple = x.window is None and x.a_step == 1
    return simple and x.rows <= _FEW and (x.constant or x.b_step == 1)


def dots(x: Product, target: Target) -> list[Launch]:
    """A product of few rows by dots.cl, which wants b as [n][k]."""
    post = fused(x.node)
    b, b_matrix, b_row = x.b, x.b_matrix, x.b_column
    if x.constant and x.b_step != 1:
        data = np.ascontiguousarray(x.weights().swapaxes(1, 2))
        b, b_matrix, b_row = target.constant(data), data[0].size if x.b_count > 1 else 0, x.inner
    sizes = (x.a_row, b_row, x.inner, x.a_matrix, b_matrix)
    # 16 bytes, where 16-bit floats lie in such.
    wide = x.b.dtype.itemsize == 2 and not any(n % 8 for n in sizes)
    defines = (
        *x.defines(post),
        ("TM", str(next(n for n in (1, 2, 4, 8) if n >= x.rows))),
        ("LANES", str(_LANES)),
        ("GROUP", str(_GROUP)),
        ("VA", "8" if wide else _at_once(*sizes)),
    )
    numbers = (x.rows, x.columns, x.inner, x.a_matrix, b_matrix, x.a_row, b_row)
    total = (_LANES, -(-x.columns // _GROUP) * _GROUP, x.count)
    args = (*x.operands(b), *numbers, *x.place, *post.args)
    return [Launch("dots", "dots", defines, total, args, (_LANES, _GROUP, 1), post.before)]
