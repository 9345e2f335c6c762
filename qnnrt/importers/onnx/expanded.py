"""Operators of ONNX that are written as others: in bodies of ONNX's own operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .bodies import AsDefined, Body, body, otherwise
from .nodes import OnnxNode, Unsupported, axis_of
from .windows import list_attr

#: The operator set that bodies are written in.
OPSET = 23

#: No matrix of a transform has more elements: a longer one wants an algorithm that is faster.
_LARGEST_TRANSFORM = 2**24


def array(b: Body, value: np.ndarray) -> str:
    value = np.ascontiguousarray(value).reshape(value.shape)  # which alone has no rank 0
    return b.op("Constant", [], value=numpy_helper.from_array(value))


def ints(b: Body, values: Sequence[int]) -> str:
    return array(b, np.array(values, np.int64))


def reshaped(b: Body, x: str, shape: Sequence[int]) -> str:
    return b.op("Reshape", [x, ints(b, shape)])


def _number(n: OnnxNode, index: int, what: str, default: int) -> int:
    value = n.const_input(index, what)
    if value is None:
        return default
    if value.size != 1:
        raise ValueError(f"input {index} ({what}) has {value.size} values, not one")
    return int(value.reshape(()))


def _list(n: OnnxNode, index: int, what: str) -> list[int]:
    value = n.const_input(index, what)
    if value is None:
        raise ValueError(f"input {index} ({what}) is missing")
    return [int(v) for v in value.ravel()]


# ---- transforms ----------------------------------------------------------------------------------


def _fourier(
    rows: int, length: int, parts: int, bins: int, sign: int, weights: np.ndarray
) -> np.ndarray:
    """The matrix from `rows` numbers of one or two parts to `bins` of two, of shape
    [rows * parts, bins * 2].

    Numbers beyond `length` do not count.
    """
    if rows * parts * bins * 2 > _LARGEST_TRANSFORM:
        raise Unsupported(f"a transform of {length} numbers as a matrix: it would be too large")
    places = np.arange(rows)
    turns = np.outer(places, np.arange(bins)) % length / length
    z = np.exp(sign * 2j * np.pi * turns) * np.where(places < length, weights, 0)[:, None]
    matrix = np.empty((rows, parts, bins, 2))
    matrix[:, 0] = np.stack([z.real, z.imag], -1)
    if parts == 2:
        matrix[:, 1] = np.stack([-z.imag, z.real], -1)
    return matrix.reshape(rows * parts, bins * 2)


def _parts_of(shape: Sequence[int]) -> int:
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise ValueError(f"numbers of one or two parts in a tensor of shape {list(shape)}")
    return shape[-1]


@body("", "DFT", to="MatMul")
def _dft(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    parts, rank = _parts_of(shape), len(shape)
    given = n.integer("axis", 1) if n.version < 20 else _number(n, 2, "axis", -2)
    axis = axis_of(given, rank)
    if axis == rank - 1:
        raise ValueError("its axis is the one of the parts")
    length = _number(n, 1, "dft_length", 0)
    inverse, half = n.integer("inverse"), n.integer("onesided")
    rows = shape[axis]
    if inverse and half:  # from half of the bins to real numbers
        length = length or 2 * (rows - 1)
        real = _from_half(rows, length, parts)
        matrix, bins, out = real, length, 1
    else:
        length = length or rows
        bins = length // 2 + 1 if half else length
        ones = np.full(rows, 1 / length if inverse else 1.0)
        matrix = _fourier(rows, length, parts, bins, 1 if inverse else -1, ones)
        out = 2
    if length < 1:
        raise ValueError(f"dft_length is {length}; it has to be 1 or more")
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    lead = [shape[i] for i in order[:-2]]
    x = reshaped(b, b.op("Transpose", [b.given(0)], perm=order), [*lead, rows * parts])
    y = b.op("MatMul", [x, array(b, matrix.astype(n.input(0).dtype))])
    y = reshaped(b, y, [*lead, bins, out])
    back = [int(i) for i in np.argsort(order)]
    return b.proto(b.op("Transpose", [y], perm=back), opset=OPSET)


def _from_half(rows: int, length: int, parts: int) -> np.ndarray:
    """Real numbers of bins 0, 1, ...; the others are their conjugates."""
    used = min(rows, length // 2 + 1)
    bins = np.arange(rows)
    twice = np.where((bins == 0) | ((length % 2 == 0) & (bins == length // 2)), 1.0, 2.0)
    weights = np.where(bins < used, twice / max(length, 1), 0)
    if rows * parts * length > _LARGEST_TRANSFORM:
        raise Unsupported(f"a transform of {length} numbers as a matrix: it would be too large")
    turns = np.outer(bins, np.arange(length)) % max(length, 1) / max(length, 1)
    z = np.exp(2j * np.pi * turns) * weights[:, None]
    return np.stack([z.real, -z.imag][:parts], 1).reshape(rows * parts, length)


@body("", "STFT", to="Gather, MatMul")
def _stft(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3:
        raise ValueError(f"a signal of shape {list(shape)}; it has to be [batch, length, parts]")
    parts, batch, total = _parts_of(shape), shape[0], shape[1]
    step = _number(n, 1, "frame_step", 0)
    size = n.input(2).shape[0] if n.has(2) else 0
    length = _number(n, 3, "frame_length", size)
    if step < 1 or not 1 <= length <= total or (size and size != length):
        raise ValueError(
            f"frames of {length} every {step} of a signal of {total}, a window of {size}"
        )
    bins = length // 2 + 1 if n.integer("onesided", 1) else length
    frames = (total - length) // step + 1
    where = np.arange(frames)[:, None] * step + np.arange(length)
    x = b.op("Gather", [reshaped(b, b.given(0), shape), array(b, where)], axis=1)
    window = np.ones(length)
    known = n.inputs[2].data if n.has(2) else None  # type: ignore[union-attr]
    if known is not None:
        window = known.astype(np.float64)
    elif n.has(2):
        x = b.op("Mul", [x, reshaped(b, b.given(2), [length, 1])])
    x = reshaped(b, x, [batch, frames, length * parts])
    matrix = _fourier(length, length, parts, bins, -1, window).astype(n.input(0).dtype)
    y = b.op("MatMul", [x, array(b, matrix)])
    return b.proto(reshaped(b, y, [batch, frames, bins, 2]), opset=OPSET)


# ---- windows -------------------------------------------------------------------------------------


@body("", "Col2Im", to="Transpose, Pad, ElementWiseAdd")
def _col2im(n: OnnxNode) -> onnx.FunctionProto:
    """One dimension of the image after the other: what overlaps along it is added up. That reads
    and writes the columns a few times, where a transposed convolution whose kernels hold a single
    one multiplies each of them with as many zeros as a block has elements.
    """
    b = Body(n)
    image, block = _list(n, 1, "image_shape"), _list(n, 2, "block_shape")
    rank, taps = len(block), math.prod(block)
    if n.input(0).rank != 3 or len(image) != rank or min(*image, *block) < 1:
        raise ValueError(
            f"columns of shape {list(n.input(0).shape)}, an image {image}, blocks of {block}"
        )
    batch, rows, columns = n.input(0).shape
    strides = list_attr(n, "strides", rank, 1)
    dilations = list_attr(n, "dilations", rank, 1)
    pads = list_attr(n, "pads", 2 * rank, 0, 0)
    spans = [d * (k - 1) + 1 for k, d in zip(block, dilations, strict=True)]
    whole = [image[i] + pads[i] + pads[rank + i] for i in range(rank)]
    counts = [(w - s) // t + 1 for w, s, t in zip(whole, spans, strides, strict=True)]
    if rows % taps or min(counts) < 1 or math.prod(counts) != columns:
        raise ValueError(
            f"{rows} x {columns} columns for blocks of {block} at {counts} places of {image}"
        )
    maps, x = batch * (rows // taps), b.given(0)
    for i in range(rank):
        # [maps, taps along i, taps to come and image so far, places along i, places to come]
        inner = math.prod(block[i + 1 :]) * math.prod(image[:i])
        shape = [maps, block[i], inner, counts[i], math.prod(counts[i + 1 :])]
        x = _overlapped(
            b, reshaped(b, x, shape), shape, n, image[i], strides[i], dilations[i], pads[i]
        )
    return b.proto(reshaped(b, x, [batch, rows // taps, *image]), opset=OPSET)


def _overlapped(
    b: Body,
    x: str,
    shape: list[int],
    n: OnnxNode,
    image: int,
    stride: int,
    dilation: int,
    pad: int,
) -> str:
    """[maps, taps, inner, places, outer] -> [maps, inner, image, outer]. Tap k of place p belongs
    at p * stride + k * dilation - pad: taps with one quotient of k * dilation by the stride lie
    between one another and become one piece, without overlap; the pieces are added.
    """
    maps, taps, inner, places, outer = shape
    rows = [[taps] * stride for _ in range((taps - 1) * dilation // stride + 1)]  # taps: none
    for k in range(taps):
        rows[k * dilation // stride][k * dilation % stride] = k
    if stride > 1 and any(taps in row for row in rows):
        x = b.op("Pad", [x, ints(b, [0] * 6 + [1] + [0] * 3)])
    size, total = places * stride, ""
    for at, row in enumerate(rows):
        begin = at * stride - pad
        if row == [taps] * stride or begin >= image or begin + size <= 0:
            continue
        piece = x
        if row != list(range(taps)):
            piece = b.op("Gather", [x, ints(b, row)], axis=1)
        if stride > 1:
            piece = b.op("Transpose", [piece], perm=[0, 2, 3, 1, 4])
        piece = reshaped(b, piece, [maps, inner, size, outer])
        if begin or size != image:
            around = [0, 0, begin, 0, 0, 0, image - begin - size, 0]
            piece = b.op("Pad", [piece, ints(b, around)])
        total = b.op("Add", [total, piece]) if total else piece
    if not total:  # padding alone lies in the image
        zero = helper.make_tensor("", helper.np_dtype_to_tensor_dtype(n.input(0).dtype), (1,), [0])
        total = b.op("ConstantOfShape", [ints(b, [maps, inner, image, outer])], value=zero)
    return total


@body("", "MaxUnpool", to="ScatterElements, Pad")
def _max_unpool(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    rank = len(shape) - 2
    kernel = n.integers("kernel_shape") or []
    if rank < 1 or len(kernel) != rank:
        raise ValueError(f"a kernel {kernel} over an input of shape {list(shape)}")
    strides = list_attr(n, "strides", rank, 1)
    pads = list_attr(n, "pads", 2 * rank, 0, 0)
    sizes = [
        (shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i in range(rank)
    ]
    if min(sizes) < 1:
        raise ValueError(f"an output of {sizes}")
    whole = [*shape[:2], *sizes]
    wanted = _list(n, 2, "output_shape") if n.has(2) else whole
    pooled = n.inputs[1].pooled if n.inputs[1] is not None else None
    if n.has(2) and pooled == tuple(wanted):
        # Its places count in what was pooled, of which the sizes alone do not tell the end.
        whole = wanted
    more = [w - s for w, s in zip(wanted, whole, strict=False)]
    if len(wanted) != len(whole) or min(more) < 0:
        raise ValueError(f"output_shape {wanted} of a result of shape {whole}")
    zero = helper.make_tensor("", helper.np_dtype_to_tensor_dtype(n.input(0).dtype), (1,), [0])
    flat = b.op("ConstantOfShape", [ints(b, [math.prod(whole)])], value=zero)
    parts = [reshaped(b, b.given(i), [-1]) for i in (1, 0)]
    y = reshaped(b, b.op("ScatterElements", [flat, *parts], axis=0), whole)
    if any(more):
        y = b.op("Pad", [y, ints(b, [*[0] * len(more), *more])])
    return b.proto(y, opset=OPSET)


# ---- along an axis -------------------------------------------------------------------------------


@body("", "CumProd", to="Pad, ElementWiseMultiply")
def _cumulative_product(n: OnnxNode) -> onnx.FunctionProto:
    """Products with what lies 1, 2, 4, ... further: each doubles how many are in."""
    b, rank = Body(n), n.input(0).rank
    axis = axis_of(_number(n, 1, "axis", 0), rank)
    size, reverse = n.input(0).shape[axis], bool(n.integer("reverse"))
    kind = helper.np_dtype_to_tensor_dtype(n.input(0).dtype)
    one = b.op("Constant", [], value=helper.make_tensor("", kind, (), [1]))

    def shifted(x: str, by: int) -> str:
        """Ones come in from the end that the products begin at."""
        amounts = [0] * (2 * rank)
        begin, end = (axis, rank + axis) if not reverse else (rank + axis, axis)
        amounts[begin], amounts[end] = by, -by
        return b.op("Pad", [x, ints(b, amounts), one])

    y = shifted(b.given(0), 1) if n.integer("exclusive") else b.op("Identity", [b.given(0)])
    step = 1
    while step < size:
        y = b.op("Mul", [y, shifted(y, step)])
        step *= 2
    return b.proto(y, opset=OPSET)


@body("", "TensorScatter", to="ScatterNd")
def _tensor_scatter(n: OnnxNode) -> onnx.FunctionProto:
    """A cache with new rows at places of each batch element."""
    b, cache, new = Body(n), n.input(0).shape, n.input(1).shape
    rank = len(cache)
    axis = axis_of(n.integer("axis", -2), rank)
    mode = n.text("mode", "linear")
    fits = len(new) == rank and all(
        a >= c if i == axis else a == c for i, (a, c) in enumerate(zip(cache, new, strict=False))
    )
    if axis == 0 or not fits or mode not in ("linear", "circular"):
        raise ValueError(f"an update {list(new)} of {list(cache)} along axis {axis}, mode {mode!r}")
    places = ints(b, range(new[axis]))
    if n.has(2):
        first = b.op("Cast", [b.given(2)], to=onnx.TensorProto.INT64)
        places = b.op("Add", [reshaped(b, first, [-1, 1]), places])
    if mode == "circular":
        places = b.op("Mod", [places, ints(b, [cache[axis]])])
    # Rows behind the axis go as they are: an index for each is all its dims up to there.
    rows = new[: axis + 1]
    shape = [-1 if i == 0 else new[axis] if i == axis else 1 for i in range(axis + 1)]
    if not n.has(2):
        shape[0] = 1
    places = b.op("Expand", [reshaped(b, places, [*shape, 1]), ints(b, [*rows, 1])])
    others = np.stack([*np.indices(rows)][:axis], -1)
    index = b.op("Concat", [array(b, others), places], axis=-1)
    y = b.op("ScatterND", [b.given(0), index, b.given(1)])
    return b.proto(y, opset=OPSET)


# ---- elements ------------------------------------------------------------------------------------


@body("", "BitwiseNot", to="ElementWiseSubtract")
def _bitwise_not(n: OnnxNode) -> onnx.FunctionProto:
    b, kind = Body(n), n.input(0).dtype
    info = np.iinfo(kind)
    ones = array(b, np.array(-1 if info.min else info.max, kind))
    return b.proto(b.op("Sub", [ones, b.given(0)]), opset=OPSET)


@body("", "Multinomial", to="RandomUniformLike, Argmax and elementwise")
def _multinomial(n: OnnxNode) -> onnx.FunctionProto:
    """The largest of the logits with Gumbel noise."""
    b = Body(n)
    if n.input(0).rank != 2:
        raise ValueError(f"logits of shape {list(n.input(0).shape)}; they have to be of rank 2")
    batch, classes = n.input(0).shape
    shape = [batch, n.integer("sample_size", 1), classes]
    how: dict[str, Any] = {"low": 2.0**-26, "high": 1.0, "shape": shape}
    if "seed" in n.attrs:
        how["seed"] = n.number("seed")
    noise = b.op("RandomUniform", [], **how)
    for _ in range(2):  # -log(-log(u))
        noise = b.op("Neg", [b.op("Log", [noise])])
    logits = b.op("Cast", [b.given(0)], to=onnx.TensorProto.FLOAT)
    logits = b.op("Unsqueeze", [logits, ints(b, [1])])
    chosen = b.op("ArgMax", [b.op("Add", [logits, noise])], axis=2, keepdims=0)
    y = b.op("Cast", [chosen], to=n.integer("dtype", onnx.TensorProto.INT32))
    return b.proto(y, opset=OPSET)


@body("", "Bernoulli", to="RandomUniformLike, ElementWiseLess, Cast")
def _bernoulli(n: OnnxNode) -> onnx.FunctionProto:
    """1 with the probability in the input, which ONNX's own function gives to 0."""
    b = Body(n)
    drawn = b.like("RandomUniformLike", [b.given(0)], "dtype")
    kind = helper.np_dtype_to_tensor_dtype(n.input(0).dtype)
    y = b.op("Less", [drawn, b.given(0)])
    return b.proto(b.op("Cast", [y], to=n.integer("dtype") or kind), opset=OPSET)


@otherwise("BatchNormalization")
def _batch_statistics(n: OnnxNode) -> onnx.FunctionProto:
    """In training mode, by the statistics of its input: weights are standardized so."""
    if not n.integer("training_mode"):
        raise AsDefined
    b, rank = Body(n), n.input(0).rank
    axes = ints(b, [i for i in range(rank) if i != 1])

    def along(x: str) -> str:
        return reshaped(b, x, [-1, *[1] * (rank - 2)])

    def number(value: float) -> str:
        return array(b, np.array(value, n.input(0).dtype))

    mean = b.op("ReduceMean", [b.given(0), axes])
    centred = b.op("Sub", [b.given(0), mean])
    variance = b.op("ReduceMean", [b.op("Mul", [centred, centred]), axes])
    root = b.op("Sqrt", [b.op("Add", [variance, number(n.number("epsilon", 1e-5))])])
    y = b.op("Mul", [b.op("Div", [centred, root]), along(b.given(1))])
    outputs = [b.op("Add", [y, along(b.given(2))])]
    kept = n.number("momentum", 0.9)
    for index, now in ((3, mean), (4, variance)):
        old = b.op("Mul", [b.given(index), number(kept)])
        new = b.op("Mul", [reshaped(b, now, [-1]), number(1 - kept)])
        outputs.append(b.op("Add", [old, new]))
    return b.proto(*outputs, opset=OPSET)
