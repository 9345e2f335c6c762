"""Normalizations."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..ir import Launch, Node
from ..target import Target
from .common import Fused, fused, given, reals
from .shares import shared
from .sizes import simt
from .spatial import Arg, Space, flat, launch, over_channels, present, scratch, width

TAKES_POST: Final = frozenset(
    {
        "Batchnorm",
        "GroupNorm",
        "InstanceNorm",
        "L2Norm",
        "LayerNorm",
        "Lrn",
        "RmsNorm",
    }
)
#: What rows and groups are divided by: ``scale`` in kernels
_NOTHING, _DEVIATION, _LENGTH = range(3)
#: Elements, and those of a column, for which three kernels are faster than one or two.
_LARGE: Final = 1 << 18
_COLUMN: Final = 256
#: Pixels whose statistics one work item finds at least, on CPUs
_PIXELS: Final = 1024


def _batchnorm(node: Node, target: Target) -> list[Launch]:
    x, weight, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert weight is not None
    channels, vector, items = over_channels(x, y, target)
    if items == 0:
        return []
    post = fused(node)
    optional, operands = present(BIAS=bias)
    defines = [*reals(x, weight, bias, y, *post.args), *optional, ("WIDTH", str(vector))]
    args: tuple[Arg, ...] = (x, weight, *operands, y, items, channels)
    return [launch("batchnorm", "batchnorm", defines, flat(items, target), args, post)]


def _rows(
    node: Node,
    target: Target,
    axes: tuple[int, ...],
    epsilon: float,
    scale: int,
    centre: bool,
    period: int = 0,
) -> list[Launch]:
    """Statistics over ``axes``, weights by their elements, in their order.

    ``period``: weights are of the last dim alone, of so many elements.
    """
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if x.size == 0:
        return []
    rank = len(x.shape)
    inner = math.prod(x.shape[a] for a in axes)
    rows = x.size // inner
    scales, weights = present(WEIGHT=given(node, 1), BIAS=given(node, 2))
    neighbours = axes == tuple(range(rank - len(axes), rank))
    vector = width(period or inner, x.dtype, target) if neighbours else 1
    apart = 1 if rank - 1 in axes else x.shape[-1]
    shares = shared(rows, inner, apart, target, at_once=vector, loop=1)
    post = fused(node)
    defines = [
        *reals(x, *weights, y, *post.args),
        ("WIDTH", str(vector)),
        ("LANES", str(shares.lanes)),
        ("COLUMNS", str(shares.columns)),
        *shares.defines,
    ]
    tables: tuple[Arg, ...] = ()
    if not neighbours:
        defines.append(("TABLES", "1"))
        others = tuple(a for a in range(rank) if a not in axes)
        tables = tuple(
            target.constant(_offsets(x.shape, which), f"{node.name}.{name}")
            for which, name in ((others, "starts"), (axes, "steps"))
        )
    last = [*defines, *scales, *((("PERIOD", "1"),) if period else ())]
    found = []
    function = "rows"
    parts: tuple[Arg, ...] = ()
    sizes: tuple[Arg, ...] = (rows, inner, period)
    if shares.parts > 1:
        parts = tuple(scratch(f"{node.name}.{n}", shares.parts, rows) for n in ("means", "squares"))
        function, sizes = "rows_of_parts", (*sizes, shares.chunk)
        args = (x, *tables, *parts, rows, inner, shares.chunk, int(centre))
        found.append(_only("row_parts", defines, shares.grid, args))
    args = (x, *weights, *tables, *parts, y, *sizes, int(centre), scale, epsilon)
    return [*found, _only(function, last, shares.grid, args, post)]


def _only(
    function: str,
    defines: list[tuple[str, str]],
    space: Space,
    args: tuple[Arg, ...],
    post: Fused | None = None,
) -> Launch:
    """A launch of norm.cl without its other functions."""
    return launch(
        "norm", function, [*defines, (f"ONLY_{function.upper()}", "1")], space, args, post
    )


def _offsets(shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """Of all elements over ``axes``, the last one fastest."""
    at = np.zeros(1, np.int64)
    for axis in axes:
        step = math.prod(shape[axis + 1 :])
        at = (at[:, None] + np.arange(shape[axis]) * step).reshape(-1)
    return at.astype(np.int32)


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    axes = node.params.get("axes")
    if axes is None or not np.size(axes):
        axes = [node.params["axis"]]
    return tuple(int(a) % rank for a in np.asarray(axes).reshape(-1))


def _along_axes(node: Node, target: Target) -> list[Launch]:
    x = node.inputs[0]
    assert x is not None
    axes = _axes(node, len(x.shape))
    epsilon = float(node.params["epsilon"])
    if node.type == "L2Norm":
        first, last = min(axes), max(axes) + 1
        image = tuple(
            math.prod(part) for part in (x.shape[:first], x.shape[first:last], x.shape[last:])
        )
        side_by_side = last - first == len(axes) and last < len(x.shape)
        if side_by_side and simt(target) and x.size >= _LARGE and image[1] >= _COLUMN:
            # Long columns are channels of images, several of which are read at once.
            return _channels(node, target, image, image[2], epsilon, _LENGTH, False)
        return _rows(node, target, axes, epsilon, _LENGTH, False)
    return _rows(node, target, axes, epsilon, _DEVIATION, node.type == "LayerNorm")


def _instance(node: Node, target: Target) -> list[Launch]:
    x = node.inputs[0]
    assert x is not None
    epsilon = float(node.params["epsilon"])
    centre = node.params["mode"] == 0
    divide = not centre or node.params["normalize_variance"]
    scale = _DEVIATION if divide else _NOTHING
    region = node.params["region"]
    if region == 1:  # every pixel by itself
        return _rows(node, target, (len(x.shape) - 1,), epsilon, scale, centre)
    groups = x.shape[-1] if region == 0 else 1
    return _groups(node, target, groups, epsilon, scale, centre)


def _group(node: Node, target: Target) -> list[Launch]:
    groups, epsilon = int(node.params["group"]), float(node.params["epsilon"])
    return _groups(node, target, groups, epsilon, _DEVIATION, True)


def _groups(
    node: Node, target: Target, groups: int, epsilon: float, scale: int, centre: bool
) -> list[Launch]:
    """Statistics of groups of channels over all pixels of an image."""
    x = node.inputs[0]
    assert x is not None
    if x.size == 0:
        return []
    batch, channels = x.shape[0], x.shape[-1]
    if groups == 1:  # an image is one row then
        axes = tuple(range(1, len(x.shape)))
        return _rows(node, target, axes, epsilon, scale, centre, channels)
    image = (batch, math.prod(x.shape[1:-1]), channels)
    return _channels(node, target, image, groups, epsilon, scale, centre)


def _channels(
    node: Node,
    target: Target,
    image: tuple[int, ...],
    groups: int,
    epsilon: float,
    scale: int,
    centre: bool,
) -> list[Launch]:
    """The same of images, pixels and channels, whatever the tensor's dims are."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    batch, pixels, channels = image
    size = channels // groups
    vector = width(channels if size == 1 else size, x.dtype, target)
    count = batch * channels // vector
    shares = shared(count, pixels, channels // vector, target, least=_PIXELS)
    chunk, chunks = shares.chunk, shares.parts
    joined = shared(batch * groups, chunks * size, 1, target, whole=True)
    lanes = max(joined.lanes, 32) if joined.adjacent else 1
    scales, operands = present(WEIGHT=given(node, 1), BIAS=given(node, 2))
    post = fused(node)
    reads = [*reals(x, *operands, y, *post.args), ("SPATIAL", "1"), ("WIDTH", str(vector))]
    means, squares = (scratch(f"{node.name}.{n}", batch, chunks, channels) for n in "ms")
    stats = scratch(f"{node.name}.stats", 2, batch, groups)
    vectors = x.size // vector
    split = (pixels, chunk, chunks, int(centre))
    sizes = [("LANES", str(shares.lanes)), ("COLUMNS", str(shares.columns)), *shares.defines]
    return [
        _only(
            "moments",
            [*reads, *sizes],
            shares.grid,
            (x, means, squares, count, channels, *split),
        ),
        _only(
            "join",
            [*reads, ("LANES", str(lanes)), ("ROWS", "1")],
            ((batch * groups * lanes,), (lanes,)),
            (means, squares, stats, channels, size, *split, scale, epsilon),
        ),
        _only(
            "normalize",
            [*reads, *scales, ("LANES", "1"), *((("EACH", "1"),) if size == 1 else ())],
            flat(vectors, target),
            (x, stats, *operands, y, vectors, channels, size, pixels, batch * groups),
            post,
        ),
    ]


def _lrn(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    across = node.params["region"] == 0
    channels, vector, items = over_channels(x, y, target)
    if items == 0:
        return []
    post = fused(node)
    defines = [*reals(x, y, *post.args), ("WIDTH", str(vector))]
    plane: tuple[int, ...] = x.shape[1:3]
    if across:
        defines.append(("ACROSS", "1"))
        plane = ()
    radius = min(int(node.params["radius"]), max(x.shape))
    numbers = (float(node.params[name]) for name in ("alpha", "beta", "bias"))
    args: tuple[Arg, ...] = (x, y, items, channels, radius, *numbers, *plane)
    return [launch("lrn", "lrn", defines, flat(items, target), args, post)]


OPS: Final = {
    "Batchnorm": _batchnorm,
    "GroupNorm": _group,
    "InstanceNorm": _instance,
    "L2Norm": _along_axes,
    "LayerNorm": _along_axes,
    "Lrn": _lrn,
    "RmsNorm": _along_axes,
}
