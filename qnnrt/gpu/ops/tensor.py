"""Kernels of tensor.cl: products on tensor cores, for NVIDIA's devices that have them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..ir import Launch, Value
from ..target import Target
from .common import Defines, fused
from .product import Product, combined, scratch
from .tiles import PARTS

__all__ = ["BLOCKS", "Block", "make", "offered", "ways"]

_F16: Final = np.dtype(np.float16)
_F32: Final = np.dtype(np.float32)
_WARP: Final = 32
_MOST_ROWS: Final = 16


@dataclass(frozen=True)
class Block:
    """Sizes of a kernel of tensor.cl.

    Attributes:
        rows, columns: of what a work group makes.
        line: bytes of terms that it has at a time, of each row and column.
        down, across: its warps.
        stages: how many pairs of tiles are in local memory or on their way there.
        speed: how near it comes to the device's best where there is enough to do; for guesses.
    """

    rows: int
    columns: int
    line: int
    down: int
    across: int
    stages: int
    speed: float

    @property
    def items(self) -> int:
        """Work items of a group."""
        return self.down * self.across * _WARP

    @property
    def local_bytes(self) -> int:
        return self.stages * self.line * (self.rows + self.columns)

    def __str__(self) -> str:
        return f"tensor-{self.rows}x{self.columns}x{self.line}-{self.down}x{self.across}"


#: Local memory that a kernel declares is 48 KiB at most on the devices that there are. A warp has
#: 32 x 32 elements or a multiple, up to 64 x 64, whose sums are 128 registers of a work item.
BLOCKS: Final = (
    Block(128, 128, 64, 2, 4, 3, 1.0),
    Block(128, 128, 64, 2, 2, 3, 1.0),
    Block(128, 256, 64, 2, 4, 2, 0.95),
    Block(256, 128, 64, 4, 2, 2, 0.95),
    Block(128, 64, 64, 2, 2, 4, 0.8),
    Block(64, 128, 64, 2, 2, 4, 0.8),
    Block(64, 64, 128, 2, 2, 3, 0.65),
    Block(64, 32, 128, 2, 1, 4, 0.45),
    Block(32, 64, 128, 1, 2, 4, 0.45),
)


def offered(x: Product, target: Target) -> bool:
    """Whether tensor cores compute a product: of 16-bit floats, which they multiply exactly, and
    of 32-bit ones where these may be rounded."""
    if not target.device.tensor_cores:
        return False
    return x.a.dtype == _F16 or (x.a.dtype == _F32 and target.tf32)


def ways(x: Product, target: Target) -> list[tuple[Block, int]]:
    """Blocks and numbers of parts of the sum, those that are expected to be the fastest first."""
    raw = target.device.raw
    # A work item keeps where each row of a window begins that it copies from.
    most = _MOST_ROWS * _a_bytes(x) if x.window else math.inf
    found = [
        (_cost(x, block, parts, int(raw.max_compute_units)), block, parts)
        for block in BLOCKS
        if block.items <= raw.max_work_group_size and block.local_bytes <= raw.local_mem_size
        if block.rows * block.line <= most * block.items
        for parts in PARTS
        if parts == 1 or -(-x.inner * x.a.dtype.itemsize // block.line) >= 4 * parts
    ]
    return [(block, parts) for _, block, parts in sorted(found, key=lambda way: way[0])]


def _cost(x: Product, block: Block, parts: int, units: int) -> float:
    """A guess at how long it takes, in multiply-adds of a compute unit that has enough to do."""
    depth = block.line // x.a.dtype.itemsize
    groups = -(-x.rows // block.rows) * -(-x.columns // block.columns) * x.count * parts
    each = -(-groups // units)  # the unit that has the most
    # Sixteen warps hide each other's waiting. Of those with 128 sums for a lane eight have room.
    fitting = 512 if block.rows * block.columns <= 64 * block.items else 256
    busy = min(1.0, min(each, fitting // block.items) * block.items / fitting)
    steps = -(-x.inner // (depth * parts))
    area = block.rows * block.columns * depth * (steps + block.stages)
    cost = each * area / (block.speed * busy)
    # Writing parts, reading them, and one more kernel.
    return cost + (parts > 1) * (2e6 + 60.0 * parts * x.rows * x.columns * x.count / units)


def make(x: Product, target: Target, block: Block, parts: int) -> list[Launch]:
    """A product by tensor.cl, whose sums are cut into ``parts``. Where the device has no tensor
    cores the kernel does their work itself, slowly."""
    post = fused(x.node)
    size = x.a.dtype.itemsize
    b, b_matrix, b_row, b_turned = _second(x, target)
    a_turned = x.a_step != 1
    a_row = x.a_step if a_turned else x.a_row
    # A constant's rows are longer where they were made so, with zeros behind them.
    b_whole = (b_row, b_row if b is not x.b else x.inner if b_turned else x.columns)
    y_whole = (x.columns,) if parts > 1 else (x.columns, x.y_row, x.y_matrix)
    defines: Defines = (
        *x.defines(post),
        *((("PTX", "1"),) if target.device.tensor_cores else ()),
        ("BM", str(block.rows)),
        ("BN", str(block.columns)),
        ("LINE", str(block.line)),
        ("DOWN", str(block.down)),
        ("ACROSS", str(block.across)),
        ("STAGES", str(block.stages)),
        ("A_BYTES", str(_a_bytes(x))),
        ("B_BYTES", str(_at_once(size, *b_whole, b_matrix))),
        ("VY", "1" if any(n % 2 for n in y_whole) else "2"),
        *((("WINDOW", "1"),) if x.window else ()),
        *((("A_TURNED", "1"),) if a_turned else ()),
        *((("B_TURNED", "1"),) if b_turned else ()),
        *((("PARTIAL", "1"),) if parts > 1 else ()),
    )
    sizes = (x.rows, x.columns, x.depth, x.inner, parts, x.a_matrix, b_matrix, b_row)
    window = x.window.args if x.window else (a_row,)
    args = (*sizes, x.y_matrix, x.y_row, *window)
    groups = (-(-x.columns // block.columns), -(-x.rows // block.rows), x.count * parts)
    total = (groups[0] * block.items, *groups[1:])
    group = (block.items, 1, 1)
    if parts == 1:
        whole = (*x.operands(b), *args, *post.args)
        return [Launch("tensor", "tensor", defines, total, whole, group, post.before)]
    # Neither bias nor what comes behind is done to a part.
    later = ("BIAS", *(name for name, _ in post.defines))
    defines = tuple(d for d in defines if d[0] not in later)
    pieces = scratch(parts, x.count, x.rows, x.columns)
    return [
        Launch("tensor", "tensor", defines, total, (x.a, b, pieces, *args), group),
        combined(x, post, pieces, parts),
    ]


def _second(x: Product, target: Target) -> tuple[Value, int, int, bool]:
    """b, its elements from matrix to matrix and from line to line, and whether it is [n][k].

    A constant becomes [n][k], in lines of whole pieces of 16 bytes, unless it is that, or 16-bit
    floats whose columns are whole pieces: instructions turn these.
    """
    turned = x.b_column != 1
    line = x.b_column if turned else x.b_step
    each = 16 // x.b.dtype.itemsize
    ready = turned or x.b.dtype == _F16
    ready = ready and not any(n % each for n in (line, x.inner if turned else x.columns))
    if not x.constant or (ready and x.b_count == 1):
        return x.b, x.b_matrix, line, turned
    width = -(-x.inner // each) * each
    data = np.zeros((x.b_count, x.columns, width), x.b.dtype)
    data[:, :, : x.inner] = x.weights().swapaxes(1, 2)
    return target.constant(data), x.columns * width if x.b_count > 1 else 0, width, True


def _a_bytes(x: Product) -> int:
    """Bytes of a that are copied at once."""
    if x.window:
        return _at_once(x.a.dtype.itemsize, x.window.channels, x.depth, x.a_matrix)
    line = (x.a_step, x.rows) if x.a_step != 1 else (x.a_row, x.inner)
    return _at_once(x.a.dtype.itemsize, *line, x.a_matrix)


def _at_once(size: int, *sizes: int) -> int:
    """Bytes into which lines of all these numbers of elements of a size can be cut."""
    return next(n for n in (16, 8, 4, 2) if not any(s * size % n for s in sizes))
