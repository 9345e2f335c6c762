"""Rules of convolutions, pools, resizes and samplers of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .infer import (
    INT64,
    Found,
    Shape,
    axes_of,
    exactly,
    infers,
    list_of,
    one_of,
    rank_of,
    single,
)
from .nodes import OnnxNode
from .windows import list_attr, moved, padding, transpose_padding


def _kernel(n: OnnxNode) -> tuple[Shape, Shape, list[int], list[int], list[int]]:
    """Shapes of input and weights, and kernel, strides, dilations of a convolution."""
    x, w = rank_of(n, 0, 3), n.input(1).shape
    if len(w) != len(x):
        raise ValueError(f"weights {list(w)} on an input of shape {list(x)}")
    kernel = list(w[2:])
    said = n.integers("kernel_shape")
    if said and said != kernel:
        raise ValueError(f"kernel_shape is {said}; the weights have the shape {list(w)}")
    if min(kernel) < 1:
        raise ValueError(f"the weights have the shape {list(w)}")
    rank = len(kernel)
    if n.integer("group", 1) < 1:
        raise ValueError(f"group is {n.integer('group')}; it has to be 1 or more")
    return x, w, kernel, list_attr(n, "strides", rank, 1), list_attr(n, "dilations", rank, 1)


@infers("ConvInteger")
def _conv_integer(n: OnnxNode) -> Found:
    shape = _windows(n)
    single(n, 2, "x_zero_point")
    zeros = n.optional(3)
    if zeros is not None and zeros.shape not in ((), (1,)):
        exactly(n, 3, n.input(1).shape[:1], "w_zero_point")
    return shape, np.dtype(np.int32)


@infers("Conv")
def _conv(n: OnnxNode) -> Found:
    shape = _windows(n)
    exactly(n, 2, n.input(1).shape[:1], "B")
    return shape, n.input(0).dtype


def _windows(n: OnnxNode) -> Shape:
    x, w, kernel, stride, dilation = _kernel(n)
    group = n.integer("group", 1)
    if w[1] * group != x[1] or w[0] % group or not w[0]:
        raise ValueError(f"weights {list(w)} and group {group} on an input of shape {list(x)}")
    size = list(x[2:])
    out = moved(size, kernel, stride, dilation, padding(n, size, kernel, stride, dilation))
    return (x[0], w[0], *out)


@infers("ConvTranspose")
def _conv_transpose(n: OnnxNode) -> Found:
    x, w, kernel, stride, dilation = _kernel(n)
    group = n.integer("group", 1)
    if w[0] != x[1] or x[1] % group or not w[1]:
        raise ValueError(f"weights {list(w)} and group {group} on an input of shape {list(x)}")
    channels = w[1] * group
    exactly(n, 2, (channels,), "B")
    size = list(x[2:])
    pads, extra = transpose_padding(n, size, kernel, stride, dilation)
    out = [
        stride[i] * (size[i] - 1) + extra[i] + (kernel[i] - 1) * dilation[i] + 1 - sum(pads[i])
        for i in range(len(size))
    ]
    if min(out) < 1:
        raise ValueError(f"its padding {pads} leaves the output {out}")
    return (x[0], channels, *out), n.input(0).dtype


@infers("AveragePool", "LpPool", "MaxPool")
def _pool(n: OnnxNode) -> Found:
    x = rank_of(n, 0, 3)
    kernel = n.integers("kernel_shape") or []
    if len(kernel) != len(x) - 2 or min(kernel) < 1:
        raise ValueError(f"kernel_shape is {kernel} for an input of shape {list(x)}")
    if n.op == "LpPool" and n.integer("p", 2) < 1:
        raise ValueError(f"p is {n.integer('p')}; it has to be 1 or more")
    stride = list_attr(n, "strides", len(kernel), 1)
    dilation = list_attr(n, "dilations", len(kernel), 1)
    size = list(x[2:])
    pads = padding(n, size, kernel, stride, dilation)
    if min(map(min, pads)) < 0:
        raise ValueError(f"pads are {pads}; they have to be 0 or more")
    out = moved(size, kernel, stride, dilation, pads, bool(n.integer("ceil_mode")))
    shape = (*x[:2], *out)
    return [(shape, n.input(0).dtype), (shape, INT64)]


@infers("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def _global_pool(n: OnnxNode) -> Found:
    x = rank_of(n, 0, 3)
    if n.op == "GlobalLpPool" and n.integer("p", 2) < 1:
        raise ValueError(f"p is {n.integer('p')}; it has to be 1 or more")
    return (*x[:2], *[1] * (len(x) - 2)), n.input(0).dtype


# ---- resizes -----------------------------------------------------------------------------------

_TRANSFORMS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@infers("Upsample")
def _upsample(n: OnnxNode) -> Found:
    one_of(n, "mode", ("nearest", "linear", "bilinear"), "nearest")
    given: Any = n.attrs.get("scales") if n.version < 9 else list_of(n, 1)
    return _scaled(n, list(range(n.input(0).rank)), given or []), n.input(0).dtype


@infers("Resize")
def _resize(n: OnnxNode) -> Found:
    x = n.input(0)
    mode = one_of(n, "mode", ("nearest", "linear", "cubic"), "nearest")
    if n.version < 11:
        return _scaled(n, list(range(x.rank)), list_of(n, 1) or []), x.dtype
    transform = one_of(n, "coordinate_transformation_mode", _TRANSFORMS, "half_pixel")
    if mode == "nearest":
        one_of(n, "nearest_mode", _ROUNDINGS, "round_prefer_floor")
    axes = axes_of(n.integers("axes") or range(x.rank), x.rank)
    scales, sizes = list_of(n, 2), list_of(n, 3)
    if bool(scales) == bool(sizes):
        raise ValueError("either scales or sizes have to be given, and not both")
    if transform == "tf_crop_and_resize":
        exactly(n, 1, (2 * len(axes),), "roi")
    shape = _scaled(n, axes, scales) if scales else _sized(n, axes, sizes or [])
    return shape, x.dtype


def _scaled(n: OnnxNode, axes: list[int], scales: list[float]) -> Shape:
    shape = list(n.input(0).shape)
    if len(scales) != len(axes):
        raise ValueError(f"{len(scales)} scales for {len(axes)} axes of {shape}")
    for axis, scale in zip(axes, scales, strict=True):
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"the scales are {scales}; they have to be positive")
        # In single precision, as the scales are.
        product = float(np.float32(shape[axis]) * np.float32(scale))
        if not product < 2**31:
            raise ValueError(f"{shape[axis]} elements scaled by {scale} are too many")
        shape[axis] = math.floor(product)
    return tuple(shape)


def _sized(n: OnnxNode, axes: list[int], sizes: list[int]) -> Shape:
    x = n.input(0).shape
    if len(sizes) != len(axes) or min(sizes) < 0:
        raise ValueError(f"the sizes {sizes} for {len(axes)} axes of {list(x)}")
    policies = ("stretch", "not_larger", "not_smaller")
    policy = one_of(n, "keep_aspect_ratio_policy", policies, "stretch")
    shape = list(x)
    if policy == "stretch":
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
        return tuple(shape)
    if not all(x[a] for a in axes):
        raise ValueError(f"an aspect ratio of {list(x)}")
    ratios = [size / x[a] for a, size in zip(axes, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    for axis in axes:
        shape[axis] = math.floor(x[axis] * scale + 0.5)
    return tuple(shape)


# ---- samplers ----------------------------------------------------------------------------------


@infers("GridSample")
def _grid_sample(n: OnnxNode) -> Found:
    x = rank_of(n, 0, 3)
    grid = n.input(1).shape
    if len(grid) != len(x) or grid[0] != x[0] or grid[-1] != len(x) - 2:
        raise ValueError(f"a grid of shape {list(grid)} for an input of shape {list(x)}")
    modes = (
        ("linear", "nearest", "cubic") if n.version >= 20 else ("bilinear", "nearest", "bicubic")
    )
    one_of(n, "mode", modes, modes[0])
    one_of(n, "padding_mode", ("zeros", "border", "reflection"), "zeros")
    return (*x[:2], *grid[1:-1]), n.input(0).dtype


@infers("RoiAlign")
def _roi_align(n: OnnxNode) -> Found:
    x, regions = rank_of(n, 0, 4, 4), rank_of(n, 1, 2, 2)
    exactly(n, 1, (regions[0], 4), "rois")
    exactly(n, 2, (regions[0],), "batch_indices")
    one_of(n, "mode", ("avg", "max"), "avg")
    modes = ("half_pixel", "output_half_pixel")
    one_of(n, "coordinate_transformation_mode", modes, modes[0])
    bins = n.integer("output_height", 1), n.integer("output_width", 1)
    scale, samples = n.number("spatial_scale", 1.0), n.integer("sampling_ratio")
    if min(bins) < 1 or samples < 0 or not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"an output of {bins}, sampling_ratio {samples}, spatial_scale {scale}: sizes and "
            "scale have to be positive"
        )
    return (regions[0], x[1], *bins), n.input(0).dtype


@infers("DepthToSpace")
def _depth_to_space(n: OnnxNode) -> Found:
    batch, depth, height, width = rank_of(n, 0, 4, 4)
    size = _block(n)
    if depth % (size * size):
        raise ValueError(f"{depth} channels cannot be divided by blocksize {size} twice")
    return (batch, depth // size**2, height * size, width * size), n.input(0).dtype


@infers("SpaceToDepth")
def _space_to_depth(n: OnnxNode) -> Found:
    batch, depth, height, width = rank_of(n, 0, 4, 4)
    size = _block(n)
    if height % size or width % size:
        raise ValueError(f"{height} x {width} cannot be divided by blocksize {size}")
    return (batch, depth * size**2, height // size, width // size), n.input(0).dtype


def _block(n: OnnxNode) -> int:
    one_of(n, "mode", ("DCR", "CRD"), "DCR")
    size = n.integer("blocksize")
    if size < 1:
        raise ValueError(f"blocksize is {size}; it has to be 1 or more")
    return size
