"""What RESHAPE, SQUEEZE, SLICE and STRIDED_SLICE select, for constants and for tensors alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .nodes import Damaged, TfliteNode, Unsupported, axis_of


def reshape_shape(node: TfliteNode, shape: Sequence[int]) -> tuple[int, ...]:
    """The new shape: input 1 when there is one, else the options'; one -1 is worked out."""
    if node.has(1) and len(node.input(1).shape) <= 1:
        wanted = node.ints(1, "the new shape")
    else:
        wanted = node.options.integers("NewShape")
        if wanted == [0]:  # written by old converters for scalars
            wanted = []
    size = math.prod(shape)
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise Damaged(f"its new shape is {wanted}")
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        if rest == 0 or size % rest:
            raise Damaged(f"{list(shape)} cannot become {wanted}")
        wanted[wanted.index(-1)] = size // rest
    if math.prod(wanted) != size:
        raise Damaged(f"{list(shape)} cannot become {wanted}")
    return tuple(wanted)


def squeeze_shape(node: TfliteNode, shape: Sequence[int]) -> tuple[int, ...]:
    """Without the named dimensions of size 1, or without all of them when none are named."""
    dims = {axis_of(d, len(shape)) for d in node.options.integers("SqueezeDims")}
    if any(shape[d] != 1 for d in dims):
        raise Damaged(f"it removes dimensions {sorted(dims)} of {list(shape)}, not all of size 1")
    if not dims:
        return tuple(d for d in shape if d != 1)
    return tuple(d for i, d in enumerate(shape) if i not in dims)


def begin_size(node: TfliteNode, shape: Sequence[int]) -> list[tuple[int, int]]:
    """SLICE: (begin, end) of every dimension; a size of -1 is all that is left."""
    begins, sizes = node.ints(1, "the beginning"), node.ints(2, "the size")
    if not len(begins) == len(sizes) == len(shape):
        raise Damaged(f"it slices {list(shape)} from {begins} by {sizes}")
    found = []
    for begin, size, dim in zip(begins, sizes, shape, strict=True):
        end = dim if size == -1 else begin + size
        if not 0 <= begin <= end <= dim:
            raise Damaged(f"it slices {list(shape)} from {begins} by {sizes}")
        found.append((begin, end))
    return found


@dataclass
class Cut:
    """Ranges of every input dimension, and the shape of what they select."""

    ranges: list[tuple[int, int, int]]  # begin, end, stride; end -1 with a negative stride: all
    sizes: list[int]  # selected of every input dimension
    shape: tuple[int, ...]  # with new dimensions of size 1, without the removed ones

    def index(self) -> tuple[slice, ...]:
        return tuple(slice(b, None if e < 0 else e, s) for b, e, s in self.ranges)


def strided(node: TfliteNode, shape: Sequence[int]) -> Cut:
    """STRIDED_SLICE as numpy's indexing, which its masks encode.

    Bit i of a mask is for entry i of begin, end and strides. Entries for new dimensions and the
    ellipsis select no dimension or several, all others the next one.
    """
    begins, ends = node.ints(1, "the beginning"), node.ints(2, "the end")
    strides = node.ints(3, "the strides")
    if not len(begins) == len(ends) == len(strides):
        raise Damaged(f"{len(begins)} begins, {len(ends)} ends and {len(strides)} strides")
    o = node.options
    masks = {
        key: o.integer(f"{key}Mask")
        for key in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")
    }

    def bit(mask: str, i: int) -> bool:
        return bool(masks[mask] >> i & 1)

    count = len(begins)
    if bin(masks["Ellipsis"] & ((1 << count) - 1)).count("1") > 1:
        raise Damaged("more than one ellipsis")
    if o.flag("Offset") and any(e < 0 for e in ends):
        raise Unsupported("ends relative to the beginning, and negative")
    explicit = sum(not bit("NewAxis", i) and not bit("Ellipsis", i) for i in range(count))
    hidden = len(shape) - explicit
    if hidden < 0:
        raise Damaged(f"{explicit} ranges for {len(shape)} dimensions")
    result = Cut([], [], ())
    out: list[int] = []

    def whole(dims: int) -> None:
        for _ in range(dims):
            size = shape[len(result.ranges)]
            result.ranges.append((0, size, 1))
            result.sizes.append(size)
            out.append(size)

    ellipsis = False
    for i in range(count):
        if bit("Ellipsis", i):
            ellipsis = True
            whole(hidden)
        elif bit("NewAxis", i):
            out.append(1)
        else:
            size = shape[len(result.ranges)]
            begin, end, stride = begins[i], ends[i], strides[i]
            if o.flag("Offset"):
                end += begin
            if bit("ShrinkAxis", i):
                at = begin + size if begin < 0 else begin
                if bit("Begin", i):
                    at = 0 if stride > 0 else size - 1
                if not 0 <= at < size:
                    raise Damaged(f"element {begin} of a dimension of {size}")
                result.ranges.append((at, at + 1, 1))
                result.sizes.append(1)
                continue
            if stride == 0:
                raise Damaged("a stride of 0")
            first = None if bit("Begin", i) else begin
            last = None if bit("End", i) else end
            b, e, s = slice(first, last, stride).indices(size)
            length = len(range(b, e, s))
            result.ranges.append((b, e, s))
            result.sizes.append(length)
            out.append(length)
    if not ellipsis:
        whole(hidden)
    result.shape = tuple(out)
    return result


def ranges_param(cut: Cut) -> np.ndarray:
    """QNN's ranges: an end below 0 with a negative stride means before element 0, as here."""
    return np.array(cut.ranges, np.int32)
