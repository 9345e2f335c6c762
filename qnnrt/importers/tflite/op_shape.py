"""Moving elements: reshape, transpose, concatenation, splitting, slicing, padding, tiling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tflite

from ..shorthand import u32
from . import slicing
from .activations import fused
from .common import cut, padded, rank_is
from .nodes import Damaged, Result, TfliteNode, Unsupported, axis_of, lowers
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering

FOLDED = "folded into constants"


@lowers("SHAPE", "RANK", to=FOLDED)
def measure(c: Lowering, node: TfliteNode) -> Result:
    """Shapes are fixed, so they are constants whatever the data."""
    shape = node.input().shape
    found = np.array(shape if node.op == "SHAPE" else len(shape))
    return constant(found.astype(node.dtype()))


def _only_constants(c: Lowering, node: TfliteNode) -> Result:
    for i in range(len(node.inputs)):
        node.const(i, "what decides the result")
    raise Unsupported("a result of a quantized type")


for _op in ("RANGE", "BROADCAST_ARGS"):
    lowers(_op, to=FOLDED)(_only_constants)


@lowers("FILL", to=FOLDED)
def fill(c: Lowering, node: TfliteNode) -> Result:
    """Of fixed-point numbers here; of all others where constants are folded."""
    shape = node.ints(0, "the shape")
    node.const(1, "the value")
    value = node.input(1)
    if value.size != 1 or any(d < 0 for d in shape):
        raise Damaged(f"{value.size} values for {shape}")
    c.materialize(math.prod(shape) * value.dtype.itemsize, f"the result of {node.name}")
    return constant(np.full(shape, value.const.reshape(-1)[0]), value.quantization)


@lowers("RESHAPE", to="Reshape", options="ReshapeOptions")
def reshape(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return c.b.reshape(x, slicing.reshape_shape(node, x.shape))


@lowers("SQUEEZE", to="Reshape", options="SqueezeOptions")
def squeeze(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return c.b.reshape(x, slicing.squeeze_shape(node, x.shape))


@lowers("EXPAND_DIMS", to="Reshape")
def expand_dims(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    axis = axis_of(node.scalar(1, "the axis"), x.rank + 1)
    return c.b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@lowers("TRANSPOSE", to="Transpose")
def transpose(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    perm = [axis_of(p, x.rank) for p in node.ints(1, "the order of dimensions")]
    if sorted(perm) != list(range(x.rank)):
        raise Damaged(f"dimensions {list(x.shape)} in the order {perm}")
    return c.b.transpose(x, perm)


@lowers("CONCATENATION", to="Concat", options="ConcatenationOptions")
def concatenation(c: Lowering, node: TfliteNode) -> Result:
    values = node.all_inputs()
    rank = values[0].rank
    axis = axis_of(node.options.integer("Axis"), rank)
    shape = list(values[0].shape)
    for v in values[1:]:
        if v.rank != rank or any(
            a != b for i, (a, b) in enumerate(zip(v.shape, shape, strict=True)) if i != axis
        ):
            raise Damaged(f"{[list(v.shape) for v in values]} along {axis}")
    shape[axis] = sum(v.shape[axis] for v in values)
    parts = [v for v in values if 0 not in v.shape]
    if len(parts) == 1:
        return fused(c, node, c.b.op("Reshape", parts, shape))
    return fused(c, node, c.b.op("Concat", parts, shape, axis=np.uint32(axis)))


def _split(c: Lowering, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    if any(s < 1 for s in sizes) or sum(sizes) != x.shape[axis]:
        raise Damaged(f"dimension {axis} of {list(x.shape)} in parts of {list(sizes)}")
    if len(sizes) == 1:
        return [c.b.op("Reshape", [x], x.shape)]
    shapes = [(*x.shape[:axis], s, *x.shape[axis + 1 :]) for s in sizes]
    starts = np.cumsum(sizes)[:-1]
    return c.b.ops_of(
        "Split",
        [x],
        [(s, x.dtype) for s in shapes],
        axis=np.uint32(axis),
        split_index=u32(starts),
    )


@lowers("SPLIT", to="Split", options="SplitOptions")
def split(c: Lowering, node: TfliteNode) -> Result:
    x = node.input(1)
    axis = axis_of(node.scalar(0, "the axis"), x.rank)
    count = len(node.outputs)
    if node.options.integer("NumSplits", count) != count or x.shape[axis] % count:
        raise Damaged(f"dimension {axis} of {list(x.shape)} in {count} parts")
    return _split(c, x, [x.shape[axis] // count] * count, axis)


@lowers("SPLIT_V", to="Split")
def split_v(c: Lowering, node: TfliteNode) -> Result:
    x, sizes = node.input(), node.ints(1, "the sizes")
    axis = axis_of(node.scalar(2, "the axis"), x.rank)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - (sum(sizes) + 1)
    if len(sizes) != len(node.outputs):
        raise Damaged(f"{len(sizes)} sizes for {len(node.outputs)} outputs")
    return _split(c, x, sizes, axis)


@lowers("PACK", to="Pack", options="PackOptions")
def pack(c: Lowering, node: TfliteNode) -> Result:
    values = node.all_inputs()
    first = values[0].shape
    if any(v.shape != first for v in values):
        raise Damaged(f"{[list(v.shape) for v in values]}")
    axis = axis_of(node.options.integer("Axis"), len(first) + 1)
    shape = (*first[:axis], len(values), *first[axis:])
    if not first:  # QNN has no tensors of rank 0 to pack
        parts = [c.b.reshape(v, (1,)) for v in values]
        if len(parts) == 1:
            return c.b.op("Reshape", parts, shape)
        return c.b.op("Concat", parts, shape, axis=np.uint32(0))
    return c.b.op("Pack", values, shape, axis=np.uint32(axis))


@lowers("UNPACK", to="UnPack", options="UnpackOptions")
def unpack(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    axis = axis_of(node.options.integer("Axis"), x.rank)
    if x.rank == 0 or x.shape[axis] != len(node.outputs):
        raise Damaged(f"{len(node.outputs)} outputs from dimension {axis} of {list(x.shape)}")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if not shape:
        return [c.b.reshape(v, ()) for v in _split(c, x, [1] * x.shape[0], 0)]
    return c.b.ops_of("UnPack", [x], [(shape, x.dtype)] * x.shape[axis], axis=np.uint32(axis))


@lowers("SLICE", to="StridedSlice")
def slice_(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return cut(c, x, [(b, e, 1) for b, e in slicing.begin_size(node, x.shape)])


@lowers("STRIDED_SLICE", to="StridedSlice", options="StridedSliceOptions")
def strided_slice(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    found = slicing.strided(node, x.shape)
    return c.b.reshape(cut(c, x, found.ranges), found.shape)


@lowers("REVERSE_V2", to="StridedSlice")
def reverse(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    axes = {axis_of(a, x.rank) for a in node.ints(1, "the axes")}
    ranges = [(d - 1, -1, -1) if i in axes else (0, d, 1) for i, d in enumerate(x.shape)]
    return cut(c, x, ranges)


def _pads(node: TfliteNode, x: Value) -> np.ndarray:
    pads = np.asarray(node.const(1, "the padding")).astype(np.int64)
    if pads.shape != (x.rank, 2) or (pads < 0).any():
        raise Damaged(f"padding {pads.tolist()} for {list(x.shape)}")
    return pads


@lowers("PAD", "PADV2", to="Pad")
def pad(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    pads = _pads(node, x)
    value = 0.0
    if node.op == "PADV2":
        node.const(2, "the padding's value")
        found = c.real(node.input(2)).const.reshape(-1)
        if found.size != 1:
            raise Damaged(f"{found.size} padding values")
        value = found[0]
    return padded(c, x, pads.tolist(), value)


@lowers("MIRROR_PAD", to="Pad", options="MirrorPadOptions")
def mirror_pad(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    pads = _pads(node, x)
    reflect = node.options.integer("Mode") == int(tflite.MirrorPadMode.REFLECT)
    limit = np.array(x.shape)[:, None] - reflect
    if (pads > limit).any():
        raise Damaged(f"padding {pads.tolist()} mirrors more than {list(x.shape)} has")
    if not pads.any():
        return x
    shape = [d + b + e for d, (b, e) in zip(x.shape, pads.tolist(), strict=True)]
    return c.b.op("Pad", [x], shape, scheme=np.uint32(2 if reflect else 1), pad_amount=u32(pads))


@lowers("TILE", to="Tile")
def tile(c: Lowering, node: TfliteNode) -> Result:
    x, times = node.input(), node.ints(1, "the multiples")
    if len(times) != x.rank or any(t < 1 for t in times):
        raise Damaged(f"{list(x.shape)} times {times}")
    return _tiled(c, x, times)


@lowers("BROADCAST_TO", to="Tile")
def broadcast_to(c: Lowering, node: TfliteNode) -> Result:
    x, shape = node.input(), node.ints(1, "the shape")
    own = (*(1,) * (len(shape) - x.rank), *x.shape)
    if len(own) != len(shape) or any(a not in (1, b) for a, b in zip(own, shape, strict=True)):
        raise Damaged(f"{list(x.shape)} to {shape}")
    return _tiled(c, c.b.reshape(x, own), [b // a for a, b in zip(own, shape, strict=True)])


def _tiled(c: Lowering, x: Value, times: Sequence[int]) -> Value:
    if all(t == 1 for t in times):
        return x
    shape = [d * t for d, t in zip(x.shape, times, strict=True)]
    return c.b.op("Tile", [x], shape, multiples=u32(times))


@lowers("SPACE_TO_DEPTH", to="SpaceToDepth", options="SpaceToDepthOptions")
def space_to_depth(c: Lowering, node: TfliteNode) -> Result:
    n, h, w, depth = rank_is(node.input(), 4).shape
    b = node.options.integer("BlockSize")
    if b < 1 or h % b or w % b:
        raise Damaged(f"blocks of {b} in {h} by {w}")
    shape = (n, h // b, w // b, depth * b * b)
    return c.b.op("SpaceToDepth", [node.input()], shape, block_size=u32([b, b]))


@lowers("DEPTH_TO_SPACE", to="DepthToSpace", options="DepthToSpaceOptions")
def depth_to_space(c: Lowering, node: TfliteNode) -> Result:
    n, h, w, depth = rank_is(node.input(), 4).shape
    b = node.options.integer("BlockSize")
    if b < 1 or depth % (b * b):
        raise Damaged(f"blocks of {b} from {depth} channels")
    shape = (n, h * b, w * b, depth // (b * b))
    return c.b.op("DepthToSpace", [node.input()], shape, block_size=u32([b, b]), mode=np.uint32(0))


def _blocks(node: TfliteNode, x: Value, what: str) -> tuple[list[int], list[list[int]]]:
    """Block sizes and [before, after] of both spatial dimensions; a missing one has size 1."""
    block = node.ints(1, "the block sizes")
    amounts = np.asarray(node.const(2, what)).reshape(-1, 2).tolist()
    spatial = x.rank - 2
    if len(block) != spatial or len(amounts) != spatial or min(block) < 1:
        raise Damaged(f"blocks of {block} and {what} {amounts} for {list(x.shape)}")
    if any(a < 0 for pair in amounts for a in pair):
        raise Damaged(f"{what} {amounts}")
    return [*block, 1][:2], [*amounts, [0, 0]][:2]


def _image(c: Lowering, x: Value) -> Value:
    """[N, L, C] as [N, L, 1, C]."""
    rank_is(x, 3, 4)
    return c.b.reshape(x, (*x.shape[:-1], 1, x.shape[-1])) if x.rank == 3 else x


@lowers("SPACE_TO_BATCH_ND", to="SpaceToBatch")
def space_to_batch(c: Lowering, node: TfliteNode) -> Result:
    block, pads = _blocks(node, node.input(), "the padding")
    x = _image(c, node.input())
    sizes = [d + sum(p) for d, p in zip(x.shape[1:3], pads, strict=True)]
    if any(s % b for s, b in zip(sizes, block, strict=True)):
        raise Damaged(f"blocks of {block} in {sizes}")
    shape = [x.shape[0] * math.prod(block), *(s // b for s, b in zip(sizes, block, strict=True))]
    out = c.b.op(
        "SpaceToBatch",
        [x],
        [*shape, x.shape[3]],
        block_size=u32(block),
        pad_amount=u32(pads),
    )
    return c.b.reshape(out, (*out.shape[:2], out.shape[3])) if node.input().rank == 3 else out


@lowers("BATCH_TO_SPACE_ND", to="BatchToSpace")
def batch_to_space(c: Lowering, node: TfliteNode) -> Result:
    block, crops = _blocks(node, node.input(), "the crops")
    x = _image(c, node.input())
    if x.shape[0] % math.prod(block):
        raise Damaged(f"blocks of {block} from a batch of {x.shape[0]}")
    sizes = [d * b - sum(p) for d, b, p in zip(x.shape[1:3], block, crops, strict=True)]
    if min(sizes) < 1:
        raise Damaged(f"crops {crops} of {list(x.shape)} in blocks of {block}")
    out = c.b.op(
        "BatchToSpace",
        [x],
        [x.shape[0] // math.prod(block), *sizes, x.shape[3]],
        block_size=u32(block),
        crops=u32(crops),
    )
    return c.b.reshape(out, (*out.shape[:2], out.shape[3])) if node.input().rank == 3 else out
