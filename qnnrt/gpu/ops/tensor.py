"""Kernels of tensor.cl: products on tensor cores, for NVIDIA's devices that have them."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..ir import Launch, Lead, Value
from ..target import Target
from .common import Defines, fused, reals
from .product import Product, in_tiles
from .tiles import PARTS

__all__ = ["BLOCKS", "Block", "Pace", "make", "multiplies", "offered", "ways"]

_F16: Final = np.dtype(np.float16)
_F32: Final = np.dtype(np.float32)
_WARP: Final = 32
_MOST_ROWS: Final = 16
#: Bytes that are copied at once at least: a pixel's channels become a multiple of so many numbers.
_LEAST: Final = 8
_WIDE: Final = 4
_TURNED: Final = 32  # rows and columns that a work group of turn.cl has
_WIDE_TURNED: Final = 64  # and one of prepare.cl
_ROUNDED: Final = 4096  # elements that one rounds as they lie
_PREPARERS: Final = 256  # its work items
#: Bytes of local memory beside the tiles, with tensor maps: results of a warp on their way out, and
#: the barriers of a stage.
_RESULTS: Final = 16 * (32 + 8) * 4
_BARRIERS: Final = 16
#: Lines of tensor maps are multiples of so many bytes, and a group has words for two of them.
_MAPPED_LINE: Final = 16
_MAPS: Final = 64


@dataclass(frozen=True)
class Pace:
    """How long a kernel takes, for guesses: microseconds on an H100.

    Attributes:
        start: from a group's begin to its end, without a step.
        alone: a step, of a group that has a multiprocessor for itself.
        each: a step of each group, where there are as many as run at a time.
    """

    start: float
    alone: float
    each: float


@dataclass(frozen=True)
class Block:
    """Sizes of a kernel of tensor.cl.

    Attributes:
        rows, columns: of what a work group makes.
        line: bytes of terms that it has at a time, of each row and column.
        down, across: its warps.
        stages: how many pairs of tiles are in local memory or on their way there.
        together: groups that a multiprocessor runs at a time, by their registers and memory.
        half, tf32: its pace with 16-bit floats and with tf32.
        ahead: a warp loads the words of its next product while it makes one.
        grouped: four warps multiply together, as devices of compute capability 9.0 can: see mma.cl.
        copiers: work items that do nothing but copy, for grouped blocks; without them all copy.
        maps: tiles are copied by the device's copy engine, which tensor maps tell how matrices lie,
            and groups are as many as run at a time; for grouped blocks.
        slices: that the sum is cut into, each of which has warps and stages of its own, for
            products that have fewer blocks than the device has multiprocessors.
    """

    rows: int
    columns: int
    line: int
    down: int
    across: int
    stages: int
    together: int = 1
    half: Pace = Pace(5.0, 0.1, 0.2)
    tf32: Pace = Pace(2.5, 0.1, 0.3)
    ahead: bool = False
    grouped: bool = False
    copiers: int = 0
    maps: bool = False
    slices: int = 1

    @property
    def items(self) -> int:
        """Work items of a group."""
        return self.slices * self.down * self.across * _WARP + self.copiers

    @property
    def copying(self) -> int:
        """Work items that copy a pair of tiles together."""
        return self.copiers or self.items // self.slices

    @property
    def local_bytes(self) -> int:
        tiles = self.slices * self.stages * self.line * (self.rows + self.columns)
        return tiles + self.maps * (self.down * _RESULTS + self.stages * _BARRIERS)

    def __str__(self) -> str:
        copiers = f"-{self.copiers}" if self.copiers else ""
        sizes = f"{self.rows}x{self.columns}x{self.line}x{self.stages}"
        slices = f"-{self.slices}slices" if self.slices > 1 else ""
        how = f"{'-grouped' * self.grouped}{copiers}{'-maps' * self.maps}{slices}"
        return f"tensor-{sizes}-{self.down}x{self.across}{how}"


#: A warp has 32 x 32 elements or a multiple, up to 64 x 64, whose sums are 128 registers of a work
#: item. Those of more than 48 KiB are for devices that let a kernel declare so much. Paces are fits
#: to 128 products and convolutions on an H100, of slices to 175: `decision 49`.
BLOCKS: Final = (
    Block(128, 128, 64, 2, 4, 3, 2, Pace(4.7, 0.10, 0.44), Pace(2.6, 0.20, 0.54)),
    Block(256, 128, 64, 4, 2, 6, 1, Pace(7.7, 0.57, 0.57), Pace(5.9, 0.71, 0.71), ahead=True),
    Block(128, 64, 64, 2, 2, 4, 4, Pace(4.8, 0.28, 0.22), Pace(2.3, 0.42, 0.30)),
    Block(64, 128, 64, 2, 2, 4, 4, Pace(4.6, 0.27, 0.22), Pace(1.9, 0.36, 0.27)),
    Block(64, 128, 64, 2, 2, 6, 3, Pace(5.3, 0.12, 0.20), Pace(2.6, 0.07, 0.25), ahead=True),
    Block(64, 64, 128, 2, 2, 3, 4, Pace(4.5, 0.12, 0.24), Pace(2.2, 0.44, 0.31)),
    Block(64, 64, 128, 2, 2, 4, 3, Pace(4.4, 0.12, 0.20), Pace(2.5, 0.12, 0.30), ahead=True),
    Block(64, 32, 128, 2, 1, 4, 4, Pace(5.2, 0.23, 0.14), Pace(3.0, 0.42, 0.19)),
    Block(32, 64, 128, 1, 2, 4, 4, Pace(4.5, 0.30, 0.15), Pace(2.2, 0.59, 0.25)),
    Block(64, 32, 128, 2, 1, 4, 1, Pace(3.8, 0.58, 0.58), Pace(2.6, 0.64, 0.64), slices=4),
    Block(32, 64, 128, 1, 2, 4, 1, Pace(3.2, 0.58, 0.58), Pace(2.0, 0.88, 0.88), slices=4),
    Block(32, 32, 128, 1, 1, 3, 1, Pace(3.5, 0.70, 0.70), Pace(1.4, 1.06, 1.06), slices=8),
    Block(64, 32, 128, 2, 1, 4, 2, Pace(3.5, 0.27, 0.34), Pace(2.3, 0.41, 0.34), slices=2),
    Block(32, 64, 128, 1, 2, 4, 2, Pace(3.2, 0.34, 0.28), Pace(1.1, 0.70, 0.58), slices=2),
    Block(32, 32, 128, 1, 1, 3, 2, Pace(2.9, 0.48, 0.40), Pace(0.8, 0.84, 0.70), slices=4),
)
#: The same for devices on which four warps multiply together.
_together = functools.partial(Block, line=128, across=1, grouped=True)
_copied = functools.partial(_together, down=8, copiers=128)
GROUPED: Final = (
    _copied(128, 256, stages=4, half=Pace(5.0, 0.72, 0.72), tf32=Pace(5.5, 0.62, 0.62)),
    _copied(256, 128, stages=4, half=Pace(3.6, 0.80, 0.80), tf32=Pace(4.5, 0.69, 0.69)),
    _copied(128, 128, stages=6, half=Pace(4.3, 0.46, 0.46), tf32=Pace(4.5, 0.40, 0.40)),
    _together(
        128,
        64,
        down=8,
        stages=4,
        together=2,
        half=Pace(5.0, 0.40, 0.34),
        tf32=Pace(3.3, 0.43, 0.34),
    ),
    _together(
        64,
        128,
        down=4,
        stages=4,
        together=2,
        half=Pace(5.0, 0.43, 0.32),
        tf32=Pace(3.0, 0.40, 0.31),
    ),
)
#: The same where the copy engine copies.
_mapped = functools.partial(_together, down=8, copiers=32, maps=True)
MAPPED: Final = (
    _mapped(128, 256, stages=4, half=Pace(5.0, 0.62, 0.62), tf32=Pace(5.5, 0.58, 0.58)),
    _mapped(256, 128, stages=4, half=Pace(5.0, 0.62, 0.62), tf32=Pace(5.5, 0.58, 0.58)),
    _mapped(128, 128, stages=6, half=Pace(5.0, 0.38, 0.38), tf32=Pace(5.0, 0.38, 0.38)),
)
#: Bytes of an H100's memory in a microsecond.
_MEMORY: Final = 2.6e6
#: Microseconds of one more kernel.
_KERNEL: Final = 4.0


def offered(x: Product, target: Target) -> bool:
    """Whether tensor cores compute a product."""
    return multiplies(x.a.dtype, target)


def multiplies(dtype: np.dtype[Any], target: Target) -> bool:
    """Whether tensor cores multiply floats: those of 16 bits, which they multiply exactly, and
    those of 32 bits where these may be rounded."""
    if not target.device.tensor_cores:
        return False
    return dtype == _F16 or (dtype == _F32 and target.tf32)


def ways(
    x: Product, target: Target, local_bytes: int, *, grouped: bool, maps: bool = False
) -> list[tuple[Block, int]]:
    """Blocks of at most so many bytes of local memory, ``grouped`` ones, and those with tensor
    ``maps``, and numbers of parts of the sum, those that are expected to be the fastest first."""
    raw = target.device.raw
    # A work item keeps where each row of a window begins that it copies from.
    at_once = _LEAST if _widens(x) else _a_bytes(x)
    most = _MOST_ROWS * at_once if x.window else math.inf
    found = [
        (_cost(x, block, parts, int(raw.max_compute_units)), block, parts)
        for block in (
            *BLOCKS,
            *(GROUPED if grouped and not x.lead and _aligned(x) else ()),
            *(MAPPED if maps and not x.lead and _mappable(x) else ()),
        )
        if block.items <= raw.max_work_group_size and block.local_bytes <= local_bytes
        if block.rows * block.line <= most * block.copying
        for parts in PARTS
        # Slices have two steps, but the last one; parts have four of these turns.
        if _steps(x, block) >= (4 * parts if parts > 1 else 1) * (2 * block.slices - 1)
    ]
    return [(block, parts) for _, block, parts in sorted(found, key=lambda way: way[0])]


def _steps(x: Product, block: Block) -> int:
    """Of the whole sum."""
    return -(-x.inner * x.a.dtype.itemsize // block.line)


def _cost(x: Product, block: Block, parts: int, units: int) -> float:
    """A guess at how long it takes, in microseconds."""
    size = x.a.dtype.itemsize
    pace = block.half if size == 2 else block.tf32
    groups = -(-x.rows // block.rows) * -(-x.columns // block.columns) * x.count * parts
    beside = min(block.together, -(-groups // units))
    step = max(pace.alone, beside * pace.each)
    steps = step * -(-_steps(x, block) // (parts * block.slices))
    rounds = groups / (units * block.together)
    # Groups that follow one another are not in step for long, but for those that take tile after
    # tile, which begin once.
    if block.maps:
        rounds = math.ceil(rounds)
        once = steps + pace.start / rounds
    else:
        once = steps + pace.start
        if rounds < 4:
            rounds = max(1.0, (rounds + math.ceil(rounds)) / 2)
    read = x.inner // (x.window.taps if x.window else 1) * x.rows + x.inner * x.columns
    written = x.rows * x.columns * x.count
    cost = max(rounds * once, size * (read * x.count + written) / _MEMORY)
    for value in _prepared(x, block):
        cost += _KERNEL + 2 * value.nbytes / _MEMORY
    # Writing parts, reading them, and one more kernel.
    return cost + (parts > 1) * (_KERNEL + 4 * (parts + 1) * written / _MEMORY)


def _prepared(x: Product, block: Block) -> list[Value]:
    """Matrices that kernels round to tf32 beforehand, and lay out as lines of terms. The copy
    engine rounds what lies so."""
    if not block.grouped or x.a.dtype != _F32:
        return []
    a = not (block.maps and x.a_step == 1)
    b = not (block.maps and x.b_column != 1) and not x.constant
    return [value for value, made in ((x.a, a), (x.b, b)) if made]


def make(x: Product, target: Target, block: Block, parts: int) -> list[Launch]:
    """A product by tensor.cl, whose sums are cut into ``parts``. Where the device has no tensor
    cores the kernel does their work itself, slowly."""
    post = fused(x.node)
    x, before = _widened(x, target)
    size = x.a.dtype.itemsize
    turns: list[Launch] = []
    prepared = _prepared(x, block)
    if x.a in prepared:
        x, turns = _rounded(x, target)
    b, b_matrix, b_row, b_turned, more = _second(x, target, x.b in prepared)
    turns += more
    a_turned = x.a_step != 1
    # A constant's rows are longer where they were made so, with zeros behind them.
    b_whole = (b_row, b_row if b is not x.b else x.inner if b_turned else x.columns)
    y_whole = (x.columns,) if parts > 1 else (x.columns, *x.place)
    defines: Defines = (
        *x.defines(post),
        *((("PTX", "1"),) if target.device.tensor_cores else ()),
        ("BM", str(block.rows)),
        ("BN", str(block.columns)),
        ("LINE", str(block.line)),
        ("DOWN", str(block.down)),
        ("ACROSS", str(block.across)),
        ("STAGES", str(block.stages)),
        *((("AHEAD", "1"),) if block.ahead else ()),
        *((("GROUPED", "1"),) if block.grouped else ()),
        *((("COPIERS", str(block.copiers)),) if block.copiers else ()),
        *((("SLICES", str(block.slices)),) if block.slices > 1 else ()),
        *((("LEAD", "1"),) if x.lead else ()),
        *((("LEAD_RELU", "1"),) if x.lead and x.lead.relu else ()),
        ("A_BYTES", str(_a_bytes(x))),
        ("B_BYTES", str(_at_once(size, *b_whole, b_matrix))),
        (
            "VY",
            str(next(at_once for at_once in (4, 2, 1) if not any(n % at_once for n in y_whole))),
        ),
        *((("B_ROUNDED", "1"),) if x.constant else ()),
        *((("WINDOW", "1"),) if x.window else ()),
        *((("A_TURNED", "1"),) if a_turned else ()),
        *((("B_TURNED", "1"),) if b_turned else ()),
    )
    sizes = (block.rows, block.columns, block.items)
    kernel = "mapped" if block.maps else "tensor"
    made = in_tiles(x, post, kernel, defines, sizes, (b, b_matrix, b_row), parts)
    if block.maps:
        made[0] = _one_by_one(made[0], target, block)
    if x.lead is not None:
        table = target.constant(_led(x, x.lead, block, parts))
        made[0] = dataclasses.replace(made[0], args=(table, *made[0].args))
    return before + _as_one(turns) + made


def _led(x: Product, lead: Lead, block: Block, parts: int) -> np.ndarray:
    """Scales and shifts as tensor.cl reads them: those of a word's terms, one after the other. It
    reads as many as there are terms in equal slices, and a stage more."""
    each = 4 // x.a.dtype.itemsize
    steps = -(-_steps(x, block) // (parts * block.slices)) * parts * block.slices + 1
    table = np.zeros((steps * block.line // 4, 2, each), x.a.dtype)
    for k, value in enumerate((lead.scale, lead.shift)):
        if value is not None and value.root.data is not None:
            terms = np.zeros(len(table) * each, x.a.dtype)
            terms[: x.inner] = value.root.data.reshape(-1)
            table[:, k] = terms.reshape(-1, each)
    return table


def _one_by_one(launch: Launch, target: Target, block: Block) -> Launch:
    """A launch whose groups, as many as run at a time, take one tile after the other."""
    across, down, layers = launch.total[0] // block.items, *launch.total[1:]
    groups = min(int(target.device.raw.max_compute_units), across * down * layers)
    maps = target.temporary((groups, _MAPS), np.uint32)
    args = (maps, layers, *launch.args)
    return dataclasses.replace(launch, total=(groups * block.items, 1, 1), args=args)


def _aligned(x: Product) -> bool:
    """Whether copies are not so small that products wait for them, however they are made."""
    if not _widens(x) and _a_bytes(x) < _LEAST:
        return False
    turned = x.b_column != 1
    sizes = (x.b_column, x.inner) if turned else (x.b_step, x.columns)
    made = x.constant or x.b.dtype == _F32
    return made or _at_once(x.b.dtype.itemsize, *sizes, x.b_matrix) >= _LEAST


def _mappable(x: Product) -> bool:
    """Whether tensor maps describe both matrices: no windows, and lines of whole pieces."""
    if x.window or (x.count > 1 and x.a_matrix and x.a_matrix < x.a_row):
        return False
    a = x.a_row if x.a_step == 1 else x.a_step
    b = x.b_column if x.b_column != 1 else x.b_step
    read = [] if x.constant else [b, x.b_matrix]
    if x.a.dtype == _F32:  # kernels make lines of those that they turn
        read = read if x.b_column != 1 else []
    if x.a.dtype == _F16 or x.a_step == 1:
        read += [a, x.a_matrix]
    return not any(n * x.a.dtype.itemsize % _MAPPED_LINE for n in read)


def _widens(x: Product) -> bool:
    return bool(x.window) and x.count == 1 and x.constant and _a_bytes(x) < _LEAST


def _widened(x: Product, target: Target) -> tuple[Product, list[Launch]]:
    """The same product over an image whose pixels have a few more channels, of zeros, so that they
    can be copied in pieces of 8 or 16 bytes, and the kernel that makes this image.

    Most networks begin with three channels, each of which would be copied by itself, for each tap.
    """
    if not _widens(x):
        return x, []
    w = x.window
    assert w is not None
    wide = -(-w.channels // _WIDE) * _WIDE
    pixels = x.a.size // w.channels
    image = target.temporary((pixels, wide), x.a.dtype)
    taps = x.weights().reshape(w.taps, x.depth, x.columns)
    weights = np.zeros((w.taps, wide, x.columns), x.b.dtype)
    weights[:, : x.depth] = taps
    more = dataclasses.replace(
        x,
        a=image,
        b=target.constant(weights),
        depth=wide,
        a_row=wide,
        b_step=x.columns,
        b_column=1,
        window=dataclasses.replace(w, channels=wide),
    )
    defines = (*reals(x.a, image), ("CHANNELS", str(w.channels)), ("WIDE", str(wide)))
    return more, [Launch("widen", "widen", defines, (pixels * wide,), (x.a, image))]


def _turn(
    value: Value, target: Target, matrices: int, lines: int, terms: int, width: int,
    matrix: int, line: int, *, turned: bool,
) -> tuple[Value, Launch]:  # fmt: skip
    """Matrices of terms, ``turned`` if lines are of terms already, as [line][width] of tf32."""
    to = target.temporary((matrices, lines, width), value.dtype)
    args: tuple[Value | int | float, ...]
    if turned and value.size == to.size and line == width:
        groups = -(-to.size // _ROUNDED)
        return to, _prepare("ROUND", groups, (value, to, to.size, groups))
    args = (value, to, terms, lines, width, matrix, line)
    if not turned and not any(n % 4 for n in (lines, line, matrix)):
        across, down = -(-width // _WIDE_TURNED), -(-lines // _WIDE_TURNED)
        return to, _prepare("TURN", across * down * matrices, (*args, across, down))
    defines = (("TURNED", "1"),) if turned else ()
    total = (-(-width // _TURNED) * _TURNED, -(-lines // _TURNED) * 8, matrices)
    return to, Launch("turn", "turn", defines, total, args, (_TURNED, 8, 1))


def _prepare(what: str, groups: int, args: tuple[Value | int | float, ...]) -> Launch:
    return Launch("prepare", "prepare", ((what, "1"),), (groups * _PREPARERS,), args, (_PREPARERS,))


def _as_one(launches: list[Launch]) -> list[Launch]:
    """One kernel instead of one that rounds and one that turns."""
    if [launch.defines for launch in launches] != [(("ROUND", "1"),), (("TURN", "1"),)]:
        return launches
    rounds, turns = launches
    return [
        dataclasses.replace(
            rounds,
            defines=rounds.defines + turns.defines,
            total=(rounds.total[0] + turns.total[0],),
            args=rounds.args + turns.args,
        )
    ]


def _rounded(x: Product, target: Target) -> tuple[Product, list[Launch]]:
    """The same product of an a that is rounded to tf32, and whose lines are of terms."""
    if x.a_step == 1:
        lines = x.a.size // x.a_row
        a, launch = _turn(x.a, target, 1, lines, x.a_row, x.a_row, 0, x.a_row, turned=True)
        return dataclasses.replace(x, a=a), [launch]
    width = -(-x.inner // 4) * 4
    count = x.a.size // (x.rows * x.inner)
    a, launch = _turn(
        x.a, target, count, x.rows, x.inner, width, x.a_matrix, x.a_step, turned=False
    )
    matrix = x.rows * width if x.a_matrix else 0
    return dataclasses.replace(x, a=a, a_matrix=matrix, a_row=width, a_step=1), [launch]


def _second(
    x: Product, target: Target, prepared: bool
) -> tuple[Value, int, int, bool, list[Launch]]:
    """b, its elements from matrix to matrix and from line to line, whether it is [n][k], and what
    makes it.

    A constant becomes [n][k], in lines of whole pieces of 16 bytes, and is rounded to tf32. 16-bit
    floats remain as they are if they are that, or their columns are whole pieces, which
    instructions turn. Those of four warps turn no 32-bit floats: kernels do.
    """
    turned = x.b_column != 1
    line = x.b_column if turned else x.b_step
    each = 16 // x.b.dtype.itemsize
    ready = x.b.dtype == _F16 and x.b_count == 1
    ready = ready and not any(n % each for n in (line, x.inner if turned else x.columns))
    width = -(-x.inner // each) * each
    matrix = x.columns * width if x.b_count > 1 else 0
    if prepared:
        value, launch = _turn(
            x.b, target, x.b_count, x.columns, x.inner, width, x.b_matrix, line, turned=turned
        )
        return value, matrix, width, True, [launch]
    if not x.constant or ready:
        return x.b, x.b_matrix, line, turned, []
    data = np.zeros((x.b_count, x.columns, width), x.b.dtype)
    data[:, :, : x.inner] = x.weights().swapaxes(1, 2)
    if x.b.dtype == _F32:
        _round(data)
    return target.constant(data), matrix, width, True, []


def _round(floats: np.ndarray) -> None:
    """To tf32, half away from zero, in place, as ``cvt.rna.tf32`` does."""
    bits = floats.view(np.uint32)
    all_ = np.uint32(0x7F800000)  # of the exponent: infinite, or not a number
    rounded = (bits + np.uint32(0x1000)) & ~np.uint32(0x1FFF)
    np.copyto(bits, rounded, where=(bits & all_) != all_)


def _a_bytes(x: Product) -> int:
    """Bytes of a that are copied at once."""
    if x.window:
        return _at_once(x.a.dtype.itemsize, x.window.channels, x.depth, x.a_matrix)
    line = (x.a_step, x.rows) if x.a_step != 1 else (x.a_row, x.inner)
    return _at_once(x.a.dtype.itemsize, *line, x.a_matrix)


def _at_once(size: int, *sizes: int) -> int:
    """Bytes into which lines of all these numbers of elements of a size can be cut."""
    return next(n for n in (16, 8, 4, 2) if not any(s * size % n for s in sizes))
