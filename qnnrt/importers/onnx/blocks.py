"""Weights of few bits in blocks, two or more of them in a byte, as ONNX Runtime's operators have
them (domain com.microsoft).

The definitions are those of ONNX Runtime's documentation of its contrib operators.
"""

from __future__ import annotations

import numpy as np
import onnx

from .expanded import OPSET, array, ints
from .nodes import OnnxNode, Unsupported, axis_of
from .qlinear import MICROSOFT, Body, body


@body(MICROSOFT, "MatMulNBits")
def _matmul_bits(n: OnnxNode) -> onnx.FunctionProto:
    """Beside activations in float."""
    b = Body(n)
    if n.has(4):
        raise Unsupported("weights in another order (g_idx)")
    if n.integer("weight_prepacked"):
        raise Unsupported(f"weight_prepacked={n.integer('weight_prepacked')}")
    given = [n.const_input(i, what) for i, what in ((1, "B"), (2, "scales"), (3, "zero_points"))]
    codes, scales, zeros = given
    assert codes is not None
    assert scales is not None
    rows, depth, size = (n.integer(name) for name in ("N", "K", "block_size"))
    if min(rows, depth, size) < 1:
        raise ValueError(f"N, K and block_size have to be positive, and are {rows, depth, size}")
    bits = n.integer("bits", 4)
    blocks = -(-depth // size)
    if codes.size != rows * blocks * size * bits // 8:
        raise ValueError(f"B has {codes.size} bytes for {rows} x {blocks} blocks of {size}")
    q = _unpacked(codes, bits).reshape(rows, blocks, -1)[..., :size].astype(np.float32)
    if zeros is None:
        offset = np.full((rows, blocks), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        offset = _unpacked(zeros.reshape(rows, -1), bits)[:, :blocks].astype(np.float32)
    else:
        offset = zeros.reshape(rows, blocks).astype(np.float32)
    real = (q - offset[..., None]) * scales.reshape(rows, blocks, 1).astype(np.float32)
    weights = real.reshape(rows, -1)[:, :depth].T.astype(scales.dtype)
    value = onnx.numpy_helper.from_array(np.ascontiguousarray(weights))
    y = b.op("MatMul", [b.given(0), b.op("Constant", [], value=value)])
    return b.proto(b.op("Add", [y, b.given(5)]) if n.has(5) else y)


def _unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first, along the last dimension."""
    if bits not in (2, 4, 8):
        raise Unsupported(f"weights of {bits} bits")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (data[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(parts.reshape(*data.shape[:-1], -1))


@body(MICROSOFT, "GatherBlockQuantized")
def _gather(n: OnnxNode) -> onnx.FunctionProto:
    """Rows of a table. Where each has blocks of its own, they are gathered as integers."""
    b, (codes, scales, zeros) = Body(n), _table(n)
    rank, bits = codes.ndim, n.integer("bits", 4)
    gather = axis_of(n.integer("gather_axis"), rank)
    axis = axis_of(n.integer("quantize_axis", 1), rank)
    size = n.integer("block_size", 128)
    if size < 1:
        raise ValueError(f"block_size is {size}")
    if codes.dtype == np.uint8:
        codes = _unpacked(codes, bits)
        zeros = None if zeros is None else _unpacked(zeros, bits)
    blocks = tuple(-(-d // size) if i == axis else d for i, d in enumerate(codes.shape))
    if scales.shape != blocks:
        raise ValueError(f"scales of shape {list(scales.shape)} for blocks of {list(blocks)}")
    if zeros is not None:
        zeros = zeros[tuple(slice(d) for d in blocks)].astype(np.int16)
    elif codes.dtype == np.uint8:
        zeros = np.full(blocks, 1 << (bits - 1), np.int16)
    else:
        zeros = np.zeros(blocks, np.int16)
    n_values = codes.shape[axis]
    each = np.repeat(zeros, size, axis).take(np.arange(n_values), axis)
    numbers = codes.astype(np.int16) - each
    if np.abs(numbers).max(initial=0) < 128:
        numbers = numbers.astype(np.int8)
    kind = onnx.helper.np_dtype_to_tensor_dtype(scales.dtype)
    if gather != 0 or axis != rank - 1 or rank < 2 or n_values % size:
        factors = np.repeat(scales, size, axis).take(np.arange(n_values), axis)
        real = array(b, (numbers * factors).astype(scales.dtype))
        return b.proto(b.op("Gather", [real, b.given(1)], axis=gather))
    rows = b.op("Cast", [b.op("Gather", [array(b, numbers), b.given(1)], axis=0)], to=kind)
    shape = [*n.input(1).shape, *codes.shape[1:]]
    parts = b.op("Reshape", [rows, ints(b, [*shape[:-1], -1, size])])
    each_row = b.op("Gather", [array(b, scales[..., None]), b.given(1)], axis=0)
    y = b.op("Reshape", [b.op("Mul", [parts, each_row]), ints(b, shape)])
    return b.proto(y, opset=OPSET)


def _table(n: OnnxNode) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    found = [n.const_input(i, what) for i, what in ((0, "data"), (2, "scales"), (3, "zero_points"))]
    codes, scales, zeros = found
    assert codes is not None
    assert scales is not None
    if codes.dtype.name.startswith("float"):
        raise Unsupported(f"data of {codes.dtype.name}")
    return codes, scales, zeros
