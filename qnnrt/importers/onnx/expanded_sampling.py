"""Operators of ONNX that read pixels at positions that are computed, written as others."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .bodies import AsDefined, Body, body, otherwise
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported
from .windows import list_attr

#: No grid of constants has more numbers.
_LARGEST_GRID = 2**25


@body("", "DeformConv", to="GridSample, Conv3d")
def _deform_conv(n: OnnxNode) -> onnx.FunctionProto:
    """Every tap's pixels sampled, one tap in a slice of a volume; a convolution over the slices."""
    b = Body(n)
    x, w = n.input(0).shape, n.input(1).shape
    if len(x) != 4 or len(w) != 4:
        raise Unsupported(f"a deformable convolution over {len(x) - 2} dimensions")
    batch, channels, *size = x
    group, parts = n.integer("group", 1), n.integer("offset_group", 1)
    kernel, taps = list(w[2:]), w[2] * w[3]
    strides, dilations = list_attr(n, "strides", 2, 1), list_attr(n, "dilations", 2, 1)
    pads = list_attr(n, "pads", 4, 0, 0)
    out = [
        (size[i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]
    if group < 1 or parts < 1 or channels % parts or channels != w[1] * group or min(out) < 1:
        raise ValueError(f"{channels} channels, weights {list(w)}, group {group}, offsets {parts}")
    for index, each in ((2, 2), (4, 1)):
        wanted = (batch, parts * taps * each, *out)
        if n.has(index) and n.input(index).shape != wanted:
            raise ValueError(f"input {index} has the shape {list(n.input(index).shape)}: {wanted}")
    kind = n.input(0).dtype
    places = np.zeros((1, taps, *out, 2))
    for i, (row, column) in enumerate(np.ndindex(*kernel)):
        for d, tap in enumerate((row, column)):
            line = np.arange(out[d]) * strides[d] - pads[d] + tap * dilations[d]
            places[0, i, ..., d] = line[:, None] if d == 0 else line
    # Pixel p of a dim of size s is at (2 p + 1) / s - 1; columns come first in a grid.
    scale = 2 / np.array(size, float)
    start = (2 * places + 1) / np.array(size, float) - 1
    moved = reshaped(b, b.given(2), [batch * parts, taps, 2, *out])
    moved = b.op("Transpose", [moved], perm=[0, 1, 3, 4, 2])
    grid = b.op("Mul", [moved, array(b, scale.astype(kind))])
    grid = b.op("Add", [grid, array(b, start.astype(kind))])
    grid = b.op("Gather", [grid, ints(b, [1, 0])], axis=4)
    grid = reshaped(b, grid, [batch * parts, taps * out[0], out[1], 2])
    images = reshaped(b, b.given(0), [batch * parts, channels // parts, *size])
    found = b.op("GridSample", [images, grid], mode="linear", padding_mode="zeros")
    if n.has(4):
        mask = reshaped(b, b.given(4), [batch * parts, 1, taps * out[0], out[1]])
        found = b.op("Mul", [found, mask])
    volume = reshaped(b, found, [batch, channels, taps, *out])
    inputs = [volume, reshaped(b, b.given(1), [*w[:2], taps, 1, 1]), b.given(3)]
    y = b.op("Conv", inputs, group=group)
    return b.proto(reshaped(b, y, [batch, w[0], *out]), opset=OPSET)


@body("", "AffineGrid", to="MatMul")
def _affine_grid(n: OnnxNode) -> onnx.FunctionProto:
    """Positions of pixels, which are constants, by a matrix for each of the batch. ONNX's own
    function does not hold for a batch of one."""
    b, theta = Body(n), n.input(0).shape
    given = n.const_input(1, "size")
    assert given is not None
    size = [int(v) for v in given.ravel()]
    rank = len(size) - 2
    if rank not in (2, 3) or theta != (size[0], rank, rank + 1) or min(size) < 1:
        raise ValueError(f"theta of shape {list(theta)} for a grid of size {size}")
    aligned, lines = n.integer("align_corners"), []
    for d in size[2:]:
        ends = 1.0 if aligned else 1 - 1 / d
        # A single one is in the middle, as torch has it. ONNX's function divides by 0 there.
        lines.append(np.linspace(-ends, ends, d) if d > 1 else np.zeros(1))
    n_places = math.prod(size[2:])
    if n_places * (rank + 1) > _LARGEST_GRID:
        raise Unsupported(f"a grid of {n_places} positions: it would be too large")
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size[2:])], -1)
    flat = array(b, places.reshape(-1, rank + 1).astype(n.input(0).dtype))
    y = b.op("MatMul", [flat, b.op("Transpose", [b.given(0)], perm=[0, 2, 1])])
    return b.proto(reshaped(b, y, [size[0], *size[2:], rank]), opset=OPSET)


#: The coefficient of the cubic polynomials, as ONNX Runtime and torch have it.
_CUBIC = -0.75


def _cubic(b: Body, t: str, kind: np.dtype) -> str:
    """The weights of the four pixels around one that lies `t` behind the second: [..., 4]."""
    a = _CUBIC
    # Of the distances t + 1, t, 1 - t and 2 - t, as polynomials in t, the highest power first.
    powers = np.array(
        [
            [a, -2 * a, a, 0],
            [a + 2, -(a + 3), 0, 1],
            [-(a + 2), 2 * a + 3, -a, 0],
            [-a, a, 0, 0],
        ]
    )
    t = b.op("Unsqueeze", [t, ints(b, [-1])])
    y = array(b, powers[:, 0].astype(kind))
    for column in powers.T[1:]:
        y = b.op("Add", [b.op("Mul", [y, t]), array(b, column.astype(kind))])
    return y


@otherwise("GridSample")
def _grid_sample(n: OnnxNode) -> onnx.FunctionProto:
    """Cubic: the 16 pixels around each position, one below the other in one tall image, and the sum
    of them by their weights."""
    b, (x, grid) = Body(n), (n.input(0), n.input(1))
    if n.text("mode", "linear") not in ("cubic", "bicubic") or x.rank != 4:
        raise Unsupported(f"mode {n.text('mode', 'linear')!r} of rank {x.rank}")
    aligned, size = n.integer("align_corners"), x.shape[:1:-1]  # columns come first in a grid
    if aligned and 1 in size:
        raise Unsupported("align_corners of an image of one row or column")
    batch, height, width, _ = grid.shape
    kind = grid.dtype
    # Pixel p of a dim of size s is at 2 p / (s - 1) - 1, or at (2 p + 1) / s - 1.
    step = 2 / (np.array(size) - aligned)
    start = np.zeros(2) - 1 + (0 if aligned else step / 2)
    place = b.op("Sub", [b.given(1), array(b, start.astype(kind))])
    place = b.op("Div", [place, array(b, step.astype(kind))])
    whole = b.op("Floor", [place])
    weights = _cubic(b, b.op("Sub", [place, whole]), kind)  # [batch, height, width, 2, 4]
    columns, rows = (
        b.op("Gather", [weights, b.op("Constant", [], value_int=i)], axis=3) for i in (0, 1)
    )
    columns = b.op("Unsqueeze", [columns, ints(b, [3])])
    each = b.op("Mul", [b.op("Unsqueeze", [rows, ints(b, [4])]), columns])
    each = reshaped(b, each, [batch, height, width, 16])
    each = b.op("Unsqueeze", [b.op("Transpose", [each], perm=[0, 3, 1, 2]), ints(b, [1])])
    near = np.stack(np.meshgrid(*[np.arange(-1, 3)] * 2), -1).reshape(1, 16, 1, 1, 2)
    places = b.op("Add", [b.op("Unsqueeze", [whole, ints(b, [1])]), array(b, near.astype(kind))])
    places = b.op("Mul", [places, array(b, step.astype(kind))])
    places = b.op("Add", [places, array(b, start.astype(kind))])
    places = reshaped(b, places, [batch, 16 * height, width, 2])
    found = b.like("GridSample", [b.given(0), places], "mode", mode="nearest")
    found = reshaped(b, found, [batch, x.shape[1], 16, height, width])
    y = b.op("ReduceSum", [b.op("Mul", [found, each]), ints(b, [2])], keepdims=0)
    return b.proto(y, opset=OPSET)


@otherwise("RoiAlign")
def _largest_of_regions(n: OnnxNode) -> onnx.FunctionProto:
    """The largest of the four pixels around each sample, each times its weight, as ONNX's reference
    and ONNX Runtime have it: not the largest of what is interpolated there."""
    if n.text("mode", "avg") != "max":
        raise AsDefined
    b, (images, channels, *size), regions = Body(n), n.input(0).shape, n.input(1).shape[0]
    bins = [n.integer("output_height", 1), n.integer("output_width", 1)]
    samples = n.integer("sampling_ratio")
    if not samples:
        raise Unsupported("mode 'max' with sampling_ratio 0: the regions decide how many samples")
    if 0 in size:
        raise ValueError("the input has no pixels")
    if math.prod(bins) * samples**2 > _LARGEST_GRID or images * math.prod(size) >= 2**31:
        raise Unsupported(f"{bins} bins of {samples**2} samples: they would be too many")
    real, held = np.dtype(np.float32), n.input(0).dtype
    real = max(real, held, key=lambda d: d.itemsize)
    kind = onnx.helper.np_dtype_to_tensor_dtype(real)

    def number(value: float) -> str:
        return array(b, np.array(value, real))

    # Before opset 16 pixels lie at their index.
    moved = "output_half_pixel" if n.version < 16 else "half_pixel"
    moved = n.text("coordinate_transformation_mode", moved)
    boxes = b.op("Cast", [b.given(1)], to=kind)
    boxes = b.op("Mul", [boxes, number(n.number("spatial_scale", 1.0))])
    if moved == "half_pixel":
        boxes = b.op("Sub", [boxes, number(0.5)])
    places, weights = [], []  # of each dim: those of both neighbours of each sample
    for d in range(2):
        start, end = (
            b.op("Slice", [boxes, ints(b, [i]), ints(b, [i + 1]), ints(b, [1])])
            for i in (1 - d, 3 - d)
        )
        length = b.op("Sub", [end, start])
        if moved != "half_pixel":
            length = b.op("Max", [length, number(1)])
        share = (np.arange(bins[d] * samples) + 0.5) / (samples * bins[d])
        at = b.op("Add", [start, b.op("Mul", [length, array(b, share.astype(real))])])
        inside = b.op("LessOrEqual", [at, number(size[d])])
        inside = b.op("And", [b.op("GreaterOrEqual", [at, number(-1)]), inside])
        at = b.op("Where", [inside, at, number(0)])
        at = b.op("Max", [b.op("Min", [at, number(size[d] - 1)]), number(0)])
        low = b.op("Floor", [at])
        high = b.op("Min", [b.op("Add", [low, number(1)]), number(size[d] - 1)])
        second = b.op("Sub", [at, low])
        counts = b.op("Cast", [inside], to=kind)
        first = b.op("Sub", [counts, b.op("Mul", [second, counts])])
        shape = [regions, *(bins[i] * samples if i == d else 1 for i in range(2))]
        places.append(
            [b.op("Cast", [reshaped(b, v, shape)], to=onnx.TensorProto.INT64) for v in (low, high)]
        )
        weights.append([reshaped(b, v, [*shape, 1]) for v in (first, second)])
    pixels = b.op("Transpose", [b.given(0)], perm=[0, 2, 3, 1])
    pixels = reshaped(b, pixels, [images * math.prod(size), channels])
    image = b.op("Cast", [b.given(2)], to=onnx.TensorProto.INT64)
    # An image counted from the last one is none.
    known = b.op("GreaterOrEqual", [image, array(b, np.array(0))])
    image = b.op("Where", [known, image, array(b, np.array(images))])
    image = reshaped(b, b.op("Mul", [image, array(b, np.array(math.prod(size)))]), [regions, 1, 1])
    corners = []
    for row, column in np.ndindex(2, 2):
        index = b.op("Mul", [places[0][row], array(b, np.array(size[1]))])
        index = b.op("Add", [b.op("Add", [index, image]), places[1][column]])
        weight = b.op("Mul", [weights[0][row], weights[1][column]])
        found = b.op("Cast", [b.op("Gather", [pixels, index])], to=kind)
        found = b.op("Mul", [found, weight])
        apart = reshaped(b, found, [regions, bins[0], samples, bins[1], samples, channels])
        corners.append(b.op("ReduceMax", [apart, ints(b, [2, 4])], keepdims=0))
    y = b.op("Transpose", [b.op("Max", corners)], perm=[0, 3, 1, 2])
    return b.proto(b.op("Cast", [y], to=onnx.helper.np_dtype_to_tensor_dtype(held)), opset=OPSET)
