"""Weights of few bits in blocks, two or more of them in a byte, as ONNX Runtime's operators have
them (domain com.microsoft).

The definitions are those of ONNX Runtime's documentation of its contrib operators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from ...dtypes import is_float
from ...model import Quantization
from ...quantization import limits, packed, with_positive_scales
from ..encodings import offsets_of
from ..graph import Edge
from .bodies import MICROSOFT, Body, body, direct
from .common import add, pad_constant
from .expanded import OPSET, array, ints
from .nodes import Lowering, OnnxNode, Unsupported, axis_of
from .values import Value, identity

#: Weights of fewer elements are made real numbers.
_LEAST = 4096

#: What the 16 codes of a MatMulBnb4 stand for, by its quant_type: FP4 and NF4 of bitsandbytes.
_FP4 = (0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 6 / 12, 2 / 12, 3 / 12)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
_BNB4 = {0: (*_FP4, *(-v for v in _FP4)), 1: _NF4}


@dataclass(frozen=True)
class _Blocks:
    """What a MatMulNBits multiplies by: `codes` has the bytes of [rows, blocks * size] numbers."""

    rows: int
    depth: int
    size: int
    bits: int
    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None

    @property
    def blocks(self) -> int:
        return -(-self.depth // self.size)

    def offsets(self) -> np.ndarray:
        """The zero points, [rows, blocks]."""
        if self.zeros is None:
            return np.broadcast_to(np.uint8(1 << (self.bits - 1)), (self.rows, self.blocks))
        if self.zeros.dtype != np.uint8:
            return self.zeros.reshape(self.rows, self.blocks)
        return unpacked(self.zeros.reshape(self.rows, -1), self.bits)[:, : self.blocks]


def _matrix(n: OnnxNode) -> _Blocks:
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
    m = _Blocks(rows, depth, size, n.integer("bits", 4), codes, scales, zeros)
    if codes.size != rows * m.blocks * size * m.bits // 8:
        raise ValueError(f"B has {codes.size} bytes for {rows} x {m.blocks} blocks of {size}")
    return m


@direct("MatMulNBits")
def _narrow_product(c: Lowering, n: OnnxNode) -> Value | None:
    """With weights that stay the bytes that they are in the file."""
    m, x = _matrix(n), n.input(0)
    whole = m.blocks * m.size
    if m.bits not in (4, 8) or m.rows * whole < _LEAST or x.rank < 2 or not is_float(x.dtype):
        return None
    zeros = m.offsets()
    if zeros.dtype.kind == "f" and not np.array_equal(zeros, np.rint(zeros)):
        return None
    low, high = limits(np.dtype(np.uint8), m.bits)
    if not np.all(np.isfinite(m.scales)) or zeros.min() < low or zeros.max() > high:
        return None
    codes, scales = m.codes, m.scales.reshape(m.rows, m.blocks)
    if np.any(scales <= 0):
        codes, scales, zeros = with_positive_scales(
            unpacked(codes.reshape(m.rows, m.blocks, -1), m.bits),
            scales,
            zeros,
            (low, high),
            lambda v: v[..., None],
        )
        codes = packed(codes) if m.bits == 4 else codes
    x = c.b.plain(x)
    if whole != m.depth:  # the last block is filled up, with numbers that zeros are multiplied by
        x = pad_constant(c, x, [(0, 0)] * (x.rank - 1) + [(0, whole - m.depth)], 0)
    ones = (1,) * (x.rank - 2)
    offsets = offsets_of(zeros.astype(np.int32) if zeros.dtype.kind == "f" else zeros)
    encoding = Quantization(
        scales.reshape(*ones, m.rows, m.blocks).astype(np.float32, copy=False),
        int(offsets.flat[0])
        if np.all(offsets == offsets.flat[0])
        else offsets.reshape(*ones, m.rows, m.blocks),
        bitwidth=4 if m.bits == 4 else None,
        block=(*ones, 1, m.size),
        packed=m.bits == 4,
    )
    shape = (*ones, m.rows, whole)
    codes = codes.reshape(-1 if m.bits == 4 else shape)
    edge = Edge(shape, codes.dtype, codes, quantization=encoding)
    c.levels[edge] = n.integer("accuracy_level")
    real = Value(
        shape, x.dtype, c.b.raw("Dequantize", [edge], [(shape, x.dtype)])[0], identity(x.rank)
    )
    full = (*x.shape[:-1], m.rows)
    y = c.b.op(
        "MatMul", [x, real], full, transpose_in0=np.bool_(False), transpose_in1=np.bool_(True)
    )
    return add(c, y, n.input(5)) if n.has(5) else y


@body(MICROSOFT, "MatMulNBits")
def _matmul_bits(n: OnnxNode) -> onnx.FunctionProto:
    """Beside activations in float, with weights that are made such, too."""
    b, m = Body(n), _matrix(n)
    q = unpacked(m.codes, m.bits).reshape(m.rows, m.blocks, -1)[..., : m.size].astype(np.float32)
    offset = m.offsets().astype(np.float32)
    real = (q - offset[..., None]) * m.scales.reshape(m.rows, m.blocks, 1).astype(np.float32)
    weights = real.reshape(m.rows, -1)[:, : m.depth].T.astype(m.scales.dtype)
    value = onnx.numpy_helper.from_array(np.ascontiguousarray(weights))
    y = b.op("MatMul", [b.given(0), b.op("Constant", [], value=value)])
    return b.proto(b.op("Add", [y, b.given(5)]) if n.has(5) else y)


@body(MICROSOFT, "MatMulBnb4")
def _matmul_codes(n: OnnxNode) -> onnx.FunctionProto:
    """Blocks go through all of [N, K], rows or not; of a byte the higher bits are the first."""
    b, codes, largest = Body(n), n.const_input(1, "B"), n.const_input(2, "absmax")
    assert codes is not None
    assert largest is not None
    if not n.integer("transB", 1):
        raise Unsupported("transB=0, as in training")
    rows, depth, size = (n.integer(name) for name in ("N", "K", "block_size"))
    if min(rows, depth, size) < 1:
        raise ValueError(f"N, K and block_size have to be positive, and are {rows, depth, size}")
    kind, count = n.integer("quant_type"), rows * depth
    if kind not in _BNB4:
        raise Unsupported(f"quant_type={kind}")
    if codes.dtype != np.uint8 or codes.size != -(-count // 2) or largest.size != -(-count // size):
        raise ValueError(
            f"B has {codes.size} bytes and absmax {largest.size} numbers for {rows} x {depth} "
            f"numbers in blocks of {size}"
        )
    q = np.stack([codes.ravel() >> 4, codes.ravel() & 15], -1).ravel()[:count]
    scales = np.repeat(largest.ravel().astype(np.float32), size)[:count]
    real = (np.array(_BNB4[kind], np.float32)[q] * scales).reshape(rows, depth)
    weights = np.ascontiguousarray(real.T.astype(largest.dtype))
    return b.proto(b.op("MatMul", [b.given(0), array(b, weights)]))


def unpacked(data: np.ndarray, bits: int) -> np.ndarray:
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
        codes = unpacked(codes, bits)
        zeros = None if zeros is None else unpacked(zeros, bits)
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
