"""Rearrangements: elements that go somewhere else, as they are."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..ir import Launch, Node, Value
from ..target import Target
from .broadcast import magic
from .common import Refused, fused, reals
from .sizes import axis_of, launch, moved, over, plain, simt, strides, unit_type

__all__ = ["Loop", "copies", "filled", "packed"]

Loop = tuple[int, int, int]  # iterations, and elements from one to the next: source, destination
_TILE: Final = 32  # as in move.cl
_MOST_LAUNCHES: Final = 256
_MOST_SLICES: Final = 8  # of a kernel


def copies(
    src: Value,
    dst: Value,
    loops: Sequence[Loop],
    target: Target,
    start: tuple[int, int] = (0, 0),
) -> list[Launch]:
    """Move the elements of nested loops, the outermost first, that begin at ``start`` of the
    source and of the destination."""
    if math.prod(n for n, _, _ in loops) == 0:
        return []
    width, merged, start = _units(_merged(loops), src.dtype.itemsize, start)
    inner, outer = merged[:8], merged[8:]
    launches = math.prod(n for n, _, _ in outer)
    if launches > _MOST_LAUNCHES:
        raise Refused("there is no kernel for a pattern of so many dims")
    found = []
    for at in itertools.product(*(range(n) for n, _, _ in outer)):
        offset = [sum(i * x[k] for i, x in zip(at, outer, strict=True)) for k in (1, 2)]
        begin = (start[0] + offset[0], start[1] + offset[1])
        found.append(_launch(src, dst, inner, width, begin, target))
    return found


def _merged(loops: Sequence[Loop]) -> list[Loop]:
    """The fewest loops that do the same, the innermost in the destination first."""
    found: list[Loop] = []
    for n, s, t in sorted((x for x in loops if x[0] > 1), key=lambda x: abs(x[2])):
        if found and (s, t) == (found[-1][1] * found[-1][0], found[-1][2] * found[-1][0]):
            found[-1] = (found[-1][0] * n, *found[-1][1:])
        else:
            found.append((n, s, t))
    return found


def _units(
    loops: list[Loop], element: int, start: tuple[int, int]
) -> tuple[int, list[Loop], tuple[int, int]]:
    """Elements that stay together are moved by up to 16 bytes: (bytes, loops, start) in those."""
    if not loops or loops[0][1:] != (1, 1):
        return element, loops, start
    whole = math.gcd(loops[0][0], *start, *(x for _, s, t in loops[1:] for x in (s, t)))
    width = math.gcd(whole * element, 16)
    by = width // element
    if by <= 1:
        return element, loops, start
    rest = [(n, s // by, t // by) for n, s, t in loops[1:]]
    first = [(loops[0][0] // by, 1, 1)] if loops[0][0] > by else []
    return width, first + rest, (start[0] // by, start[1] // by)


def _launch(
    src: Value, dst: Value, loops: list[Loop], width: int, start: tuple[int, int], target: Target
) -> Launch:
    total = math.prod(n for n, _, _ in loops)
    turned = _turned(loops) if simt(target) else None
    grid = over(total, target)
    if turned is not None:
        loops = turned
        (n0, _, _), (n1, _, _) = loops[:2]
        tiles = -(-n0 // _TILE) * -(-n1 // _TILE) * math.prod(n for n, _, _ in loops[2:])
        grid = ((tiles * 256,), (256,))
    rank = _rank(loops, target)
    loops = [*loops, *[(1, 0, 0)] * (rank - len(loops))]
    sizes = [x for n, s, t in loops for x in (n, s, t, *magic(n))]
    function = "copy" if turned is None else "transpose"
    args: tuple[Value | int, ...] = (src, dst, total, *start, *sizes)
    return launch("move", function, _defines(width, rank), args, grid)


def _rank(loops: Sequence[Any], target: Target) -> int:
    """For how many loops a kernel is made. Each has its price at run time on lanes; where they are
    loops, each further kernel is one more for the driver to compile."""
    return next(r for r in ((2, 4, 8) if simt(target) else (4, 8)) if len(loops) <= r)


def _turned(loops: list[Loop]) -> list[Loop] | None:
    """The loops with that along the source as the second, where tiles are worth it."""
    if len(loops) < 2 or loops[0][2] != 1 or loops[0][1] == 1 or loops[0][0] < 8:
        return None
    for i, (n, s, _) in enumerate(loops):
        if s == 1 and n >= 8:
            return [loops[0], loops[i], *loops[1:i], *loops[i + 1 :]]
    return None


def _defines(width: int, rank: int) -> tuple[tuple[str, str], ...]:
    return (("WIDTH", str(width)), ("UNIT", unit_type(width)), ("RANK", str(rank)))


def packed(value: Any, dtype: np.dtype[Any]) -> tuple[int, int, int, int]:
    """16 bytes of a value over and over, as the kernels' four ints."""
    if dtype.kind in "iub":
        value = bool(value) if dtype.kind == "b" else int(value)
    data = np.asarray([value]).astype(dtype).tobytes()
    a, b, c, d = struct.unpack("<4i", data * (16 // len(data)))
    return a, b, c, d


def filled(dst: Value, value: Any, target: Target) -> Launch:
    """All elements are one value."""
    width = math.gcd(dst.nbytes, 16)
    total = dst.nbytes // width
    grid = over(total, target)
    args = (dst, total, *packed(value, dst.dtype))
    return launch("move", "fill", _defines(width, 2), args, grid)


def _transpose(node: Node, target: Target) -> list[Launch]:
    x, y = _one(node)
    perm = [int(p) for p in node.params["perm"]]
    s, t = strides(x.shape), strides(y.shape)
    loops = [(n, s[p], t[i]) for i, (n, p) in enumerate(zip(y.shape, perm, strict=True))]
    return copies(x, y, loops, target)


def _parts(
    node: Node,
    whole: Value,
    axis: int,
    parts: Sequence[tuple[Value, int]],
    joined: bool,
    target: Target,
) -> list[Launch]:
    """Between a tensor and its slices along an axis, each with its size there: some slices in each
    kernel."""
    found: list[Launch] = []
    outer, row = math.prod(whole.shape[:axis]), math.prod(whole.shape[axis:])
    begin = 0
    if node.line:
        begin, row = node.line
    step = math.prod(whole.shape[axis + 1 :])
    sizes = [(part, size * step) for part, size in parts if outer * size * step]
    if len(sizes) == 1 and not node.post and not node.line:
        ((part, _),) = sizes
        return copies(*((part, whole) if joined else (whole, part)), [(whole.size, 1, 1)], target)
    lengths = [own for _, own in sizes]
    lengths += node.line or ()
    width = math.gcd(16, *(n * whole.dtype.itemsize for n in lengths))
    if node.post:
        width = whole.dtype.itemsize
    by = max(width // whole.dtype.itemsize, 1)
    first = begin // by
    for k in range(0, len(sizes), _MOST_SLICES):
        some = [(part, own // by) for part, own in sizes[k : k + _MOST_SLICES]]
        found.append(_slices(node, whole, some, (outer, row // by, first), width, joined, target))
        first += sum(own for _, own in some)
    return found


def _slices(
    node: Node,
    whole: Value,
    parts: Sequence[tuple[Value, int]],
    rows: tuple[int, int, int],
    width: int,
    joined: bool,
    target: Target,
) -> Launch:
    """One kernel of slices.cl: (how many rows, of how many units, the unit where these begin)."""
    outer, row, first = rows
    ends = list(itertools.accumulate(own for _, own in parts))
    to, of = ("", "const ") if joined else ("const ", "")
    params, moves, begin = "", [], "0"
    for k in range(len(parts)):
        params += f"__global {of}UNIT* part{k}, const int end{k}, "
        here = f"part{k}[o * (end{k} - {begin}) + r - {begin}]"
        if node.post:
            moves.append(f"STORE(whole, w, POST(LOAD(&{here}, 0), w));")
        else:
            moves.append(f"whole[w] = {here};" if joined else f"{here} = whole[w];")
        begin = f"end{k}"
    tests = [f"if (r < end{k}) " for k in range(len(parts) - 1)]
    tests.append("")
    text = " else ".join(test + move for test, move in zip(tests, moves, strict=True))
    post = fused(node, by_sizes=True)
    defines = (
        *(
            (*reals(whole, *post.args), ("UNIT", "REAL"))
            if node.post
            else (("UNIT", unit_type(width)),)
        ),
        *post.defines,
        ("SLICES", params),
        ("WHOLE", f"__global {to}UNIT* whole"),
        ("MOVE", text),
    )
    total = outer * ends[-1]
    args = [x for (part, _), end in zip(parts, ends, strict=True) for x in (part, end)]
    args += [whole, total, ends[-1], *magic(ends[-1]), row, first, *post.args, *post.sizes]
    grid = over(total, target)
    return Launch("slices", "slices", defines, grid[0], tuple(args), grid[1], post.before)


def _concat(node: Node, target: Target) -> list[Launch]:
    ins, y = [v for v in node.inputs if v is not None], node.outputs[0]
    moved(y, *ins)
    axis = axis_of(node, len(y.shape))
    return _parts(node, y, axis, [(v, v.shape[axis]) for v in ins], True, target)


def _pack(node: Node, target: Target) -> list[Launch]:
    ins, y = [v for v in node.inputs if v is not None], node.outputs[0]
    moved(y, *ins)
    return _parts(node, y, axis_of(node, len(y.shape)), [(v, 1) for v in ins], True, target)


def _split(node: Node, target: Target) -> list[Launch]:
    x, _ = _one(node)
    axis = axis_of(node, len(x.shape))
    return _parts(node, x, axis, [(v, v.shape[axis]) for v in node.outputs], False, target)


def _unpack(node: Node, target: Target) -> list[Launch]:
    x, _ = _one(node)
    return _parts(
        node, x, axis_of(node, len(x.shape)), [(v, 1) for v in node.outputs], False, target
    )


def _tile(node: Node, target: Target) -> list[Launch]:
    x, y = _one(node)
    s, t = strides(x.shape), strides(y.shape)
    loops: list[Loop] = []
    for i, n in enumerate(x.shape):
        loops += [(y.shape[i] // max(n, 1), 0, t[i] * n), (n, s[i], t[i])]
    return copies(x, y, loops, target)


def _channel_shuffle(node: Node, target: Target) -> list[Launch]:
    x, y = _one(node)
    axis = axis_of(node, len(x.shape))
    groups = int(node.params["num_groups"])
    each, inner = x.shape[axis] // groups, math.prod(x.shape[axis + 1 :])
    whole = inner * x.shape[axis]
    loops = [
        (math.prod(x.shape[:axis]), whole, whole),
        (each, inner, inner * groups),
        (groups, inner * each, inner),
        (inner, 1, 1),
    ]
    return copies(x, y, loops, target)


def _strided_slice(node: Node, target: Target) -> list[Launch]:
    x, y = _one(node)
    masks = {
        name: int(node.params[name])
        for name in ("begin_mask", "end_mask", "shrink_axes", "new_axes_mask")
    }
    ranges = np.asarray(node.params["ranges"]).reshape(-1, 3).tolist()
    s = strides(x.shape)
    loops: list[Loop] = []
    first = axis = 0
    t = y.size
    if t == 0:
        return []
    for i, (begin, end, step) in enumerate(ranges):
        bit = {name: mask >> i & 1 for name, mask in masks.items()}
        if bit["new_axes_mask"]:
            continue
        size = x.shape[axis]
        if bit["shrink_axes"]:
            at, n = (0 if bit["begin_mask"] else begin % size), 1
        else:
            at, n = _range(
                None if bit["begin_mask"] else begin, None if bit["end_mask"] else end, step, size
            )
        first += at * s[axis]
        t //= n
        loops.append((n, s[axis] * step, t))
        axis += 1
    return copies(x, y, loops, target, (first, 0))


def _range(begin: int | None, end: int | None, step: int, size: int) -> tuple[int, int]:
    """Where a slice begins, and how many it takes: the rule of csrc/ops/movement/slice.cc."""
    if begin is not None and begin < 0:
        begin += size
    if step > 0:
        if end is not None and end < 0:
            end += size
        begin = 0 if begin is None else min(max(begin, 0), size)
        end = size if end is None else min(max(end, 0), size)
    else:
        begin = size - 1 if begin is None else min(max(begin, -1), size - 1)
        end = -1 if end is None else min(max(end, -1), size - 1)
    return begin, len(range(begin, end, step))


def _pad(node: Node, target: Target) -> list[Launch]:
    x, y = _one(node)
    if int(node.params["scheme"]) == 0:
        plain(x)  # the constant would have to be encoded
    amount = np.asarray(node.params["pad_amount"]).reshape(-1, 2).tolist()
    dims: list[tuple[int, int, int]] = []  # the innermost first: of the output, the input, before
    for o, n, (before, _) in list(zip(y.shape, x.shape, amount, strict=True))[::-1]:
        if dims and o == n and dims[-1][0] == dims[-1][1]:
            dims[-1] = (dims[-1][0] * o, dims[-1][1] * n, 0)
        elif (o, n) != (1, 1):
            dims.append((o, n, before))
    width = x.dtype.itemsize
    if dims and dims[0][0] == dims[0][1]:
        width = math.gcd(dims[0][0] * width, 16)
        by = width // x.dtype.itemsize
        dims[0] = (dims[0][0] // by, dims[0][1] // by, 0)
    rank = _rank(dims, target)
    args: list[Value | int] = [x, y, math.prod(o for o, _, _ in dims), int(node.params["scheme"])]
    args += packed(node.params["pad_constant_value"], x.dtype)
    step = 1
    for o, n, before in [*dims, *[(1, 1, 0)] * (rank - len(dims))]:
        args += [o, n, before, step]
        step *= n
    grid = over(math.prod(o for o, _, _ in dims), target)
    return [launch("move", "pad", _defines(width, rank), args, grid)]


def _block(node: Node) -> tuple[int, int]:
    height, width = (int(v) for v in np.asarray(node.params["block_size"]).reshape(-1))
    return height, width


def _depth_space(node: Node, target: Target) -> list[Launch]:
    """Depth is (block row, block column, C) in mode 0 and (C, block row, block column) in 1."""
    x, y = _one(node)
    to_space = node.type == "DepthToSpace"
    height, width = _block(node)
    deep, flat = (x, y) if to_space else (y, x)
    channels = flat.shape[3]
    d, f = strides(deep.shape), strides(flat.shape)
    by_row, by_column, by_channel = (width * channels, channels, 1)
    if node.params["mode"] == 1:
        by_row, by_column, by_channel = (width, 1, height * width)
    loops = [
        (deep.shape[0], d[0], f[0]),
        (deep.shape[1], d[1], f[1] * height),
        (height, by_row, f[1]),
        (deep.shape[2], d[2], f[2] * width),
        (width, by_column, f[2]),
        (channels, by_channel, 1),
    ]
    return copies(x, y, loops if to_space else [(n, b, a) for n, a, b in loops], target)


def _batch_space(node: Node, target: Target) -> list[Launch]:
    """The batch is (block row, block column, N); the image lies in its borders."""
    x, y = _one(node)
    to_space = node.type == "BatchToSpace"
    height, width = _block(node)
    border = node.params["crops" if to_space else "pad_amount"]
    top, bottom, left, right = (int(v) for v in np.asarray(border).reshape(-1))
    batched, image = (x, y) if to_space else (y, x)
    b, m = strides(batched.shape), strides(image.shape)
    found: list[Launch] = []
    if (top, bottom, left, right) == (0, 0, 0, 0):
        n = image.shape[0]
        loops = [
            (n, b[0], m[0]),
            (height, b[0] * n * width, m[1]),
            (width, b[0] * n, m[2]),
            (batched.shape[1], b[1], m[1] * height),
            (batched.shape[2], b[2], m[2] * width),
            (image.shape[3], 1, 1),
        ]
        return copies(x, y, loops if to_space else [(c, t, s) for c, s, t in loops], target)
    if height * width > _MOST_LAUNCHES:
        raise Refused(f"there is no kernel for blocks of {height} x {width} with borders")
    if not to_space:
        plain(x)  # the border would have to be encoded
        found.append(filled(y, 0, target))
    for i, j in itertools.product(range(height), range(width)):
        rows = _inside(batched.shape[1], height, i - top, image.shape[1])
        columns = _inside(batched.shape[2], width, j - left, image.shape[2])
        in_batch = (i * width + j) * image.shape[0] * b[0]
        in_batch += rows.start * b[1] + columns.start * b[2]
        in_image = (rows.start * height + i - top) * m[1]
        in_image += (columns.start * width + j - left) * m[2]
        loops = [
            (image.shape[0], b[0], m[0]),
            (len(rows), b[1], m[1] * height),
            (len(columns), b[2], m[2] * width),
            (image.shape[3], 1, 1),
        ]
        start = (in_batch, in_image)
        if not to_space:
            loops, start = [(c, t, s) for c, s, t in loops], (in_image, in_batch)
        found += copies(x, y, loops, target, start)
    return found


def _inside(limit: int, step: int, offset: int, size: int) -> range:
    """The i below ``limit`` with ``i * step + offset`` in [0, size)."""
    first = max(0, -(offset // step))
    return range(first, max(first, min(limit, -(-(size - offset) // step))))


def _one(node: Node) -> tuple[Value, Value]:
    """Input and first output of a node that moves the elements of one tensor."""
    x = node.inputs[0]
    assert x is not None
    moved(x, *node.outputs)
    return x, node.outputs[0]


#: Kernels of these do ``Node.post``.
TAKES_POST: Final = frozenset({"Concat", "Pack"})
OPS: Final = {
    "BatchToSpace": _batch_space,
    "ChannelShuffle": _channel_shuffle,
    "Concat": _concat,
    "DepthToSpace": _depth_space,
    "Pack": _pack,
    "Pad": _pad,
    "SpaceToBatch": _batch_space,
    "SpaceToDepth": _depth_space,
    "Split": _split,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "UnPack": _unpack,
}
MOVES_INTEGERS: Final = frozenset(OPS)
