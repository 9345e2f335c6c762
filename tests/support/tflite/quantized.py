"""The one-operator models of the tests, quantized: int8, uint8, and int16 activations.

Ranges come from the data and from the float model's output. Operators whose encodings TFLite
prescribes get those.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.case import Case

F32 = np.dtype(np.float32)
KINDS = ("int8", "uint8", "int16")

#: Kernels that copy elements, or compare them as integers: one encoding for all.
SAME_ENCODING = frozenset({
    "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DILATE", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "EXPAND_DIMS", "FILL", "GATHER",
    "GATHER_ND",
    "MATRIX_DIAG", "MATRIX_SET_DIAG", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MIRROR_PAD", "ONE_HOT",
    "PACK", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR", "REVERSE_SEQUENCE", "REVERSE_V2", "SCATTER_ND", "SELECT",
    "SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPARSE_TO_DENSE", "SPLIT",
    "SPLIT_V", "SQUEEZE", "STABLEHLO_GATHER", "STABLEHLO_PAD", "STRIDED_SLICE", "TILE", "TOPK_V2",
    "TRANSPOSE", "UNPACK",
})  # fmt: skip

#: Where the weights are: (input, dimension with scales of its own), and the bias behind them.
WEIGHTS = {
    "CONV_2D": (1, 0),
    "DEPTHWISE_CONV_2D": (1, 3),
    "FULLY_CONNECTED": (1, 0),
    "TRANSPOSE_CONV": (1, 0),
}
BIAS = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
DATA = {"CONV_3D_TRANSPOSE": 2, "TRANSPOSE_CONV": 2}


@dataclass(frozen=True)
class Encoding:
    """``real = scale * (q - zero)``, one scale or one for each index along `axis`."""

    dtype: np.dtype
    scale: np.ndarray
    zero: int = 0
    axis: int = 0
    bits: int = 0

    def encode(self, real: np.ndarray) -> np.ndarray:
        bits = self.bits or 8 * self.dtype.itemsize
        low = 0 if self.dtype.kind == "u" else -(1 << (bits - 1))
        steps = np.rint(real / self.along(real.ndim)) + self.zero
        return np.clip(steps, low, low + (1 << bits) - 1).astype(self.dtype)

    def decode(self, q: np.ndarray) -> np.ndarray:
        return ((q.astype(np.float64) - self.zero) * self.along(q.ndim)).astype(F32)

    def along(self, rank: int) -> np.ndarray:
        if self.scale.size == 1:
            return self.scale.reshape(())
        return self.scale.reshape([-1 if i == self.axis else 1 for i in range(rank)])

    def fields(self) -> dict[str, Any]:
        zeros = [self.zero] * self.scale.size
        return {"scale": self.scale.tolist(), "zero": zeros, "axis": self.axis}


def spanning(dtype: Any, *arrays: np.ndarray) -> Encoding:
    """The encoding of activations in the range of `arrays`, which 0 belongs to."""
    kind = np.dtype(dtype)
    low = min(0.0, *(float(a.min()) for a in arrays))
    high = max(0.0, *(float(a.max()) for a in arrays))
    if kind == np.int16:
        return Encoding(kind, np.array([max(-low, high, 1e-3) / 32767], F32))
    step = F32.type(max(high - low, 1e-3) / 255)
    least = 0 if kind.kind == "u" else -128
    return Encoding(
        kind, np.array([step], F32), int(np.clip(round(least - low / step), least, least + 255))
    )


def prescribed(op: str, dtype: np.dtype, real: np.ndarray) -> Encoding:
    """What TFLite's kernels demand of an output, else the range of the float result."""
    wide, unsigned = dtype == np.int16, dtype.kind == "u"
    least = 0 if unsigned or wide else -128
    if op in ("LOGISTIC", "SOFTMAX"):
        return Encoding(dtype, np.array([1 / 32768 if wide else 1 / 256], F32), least)
    if op in ("TANH", "L2_NORMALIZATION"):
        return Encoding(
            dtype, np.array([1 / 32768 if wide else 1 / 128], F32), 128 if unsigned else 0
        )
    if op == "LOG_SOFTMAX":
        return Encoding(
            dtype, np.array([16 / 65536 if wide else 16 / 256], F32), 255 if unsigned else 127
        )
    return spanning(dtype, real)


def symmetric(real: np.ndarray, axis: int | None, bits: int = 8) -> Encoding:
    """Weights: int8 without a zero point, one scale for each index along `axis`."""
    others = None if axis is None else tuple(i for i in range(real.ndim) if i != axis)
    most = np.maximum(np.abs(real).max(axis=others), 1e-3)
    scale = np.atleast_1d(most / ((1 << (bits - 1)) - 1)).astype(F32)
    return Encoding(np.dtype(np.int8), scale, 0, axis or 0, bits)


def packed(q: np.ndarray) -> np.ndarray:
    """Two 4-bit numbers in a byte, the first one low."""
    flat = np.append(q.reshape(-1), np.zeros(q.size % 2, q.dtype)).astype(np.uint8)
    return (flat[::2] & 15) | (flat[1::2] << 4)


@dataclass
class Quantized:
    """A file, integers for its inputs, and what real numbers would give, rounded at the end."""

    data: bytes
    feeds: list[np.ndarray]
    exact: list[np.ndarray]


def quantize(case: Case, dtype: Any, *, per_channel: bool = True, bits: int = 8) -> Quantized:
    """`case` with activations of `dtype` (and weights of int8, of `bits` bits)."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(zlib.crc32(f"{case.op} {case.label} {kind}".encode()))
    arrays = [None if g is None else g.array(rng) for g in case.inputs]
    floats = [a for a in arrays if a is not None and a.dtype == F32]
    shared = spanning(kind, *floats) if case.op in SAME_ENCODING and floats else None
    w_at, w_axis = WEIGHTS.get(case.op, (-1, 0))
    encodings: list[Encoding | None] = []
    for i, array in enumerate(arrays):
        if array is None or array.dtype != F32 or i == BIAS.get(case.op):
            encodings.append(None)
        elif i == w_at and kind.kind == "i":
            encodings.append(symmetric(array, w_axis if per_channel else None, bits))
        else:
            encodings.append(shared or spanning(kind, array))
    at = BIAS.get(case.op, len(arrays))
    if at < len(arrays) and arrays[at] is not None:
        x, w = encodings[DATA.get(case.op, 0)], encodings[w_at]
        assert x is not None
        assert w is not None
        wide = np.dtype(np.int64 if kind == np.int16 else np.int32)
        encodings[at] = Encoding(wide, (x.scale * w.scale).astype(F32))
    decoded = [
        a if a is None or e is None else e.decode(e.encode(a))
        for a, e in zip(arrays, encodings, strict=True)
    ]
    none: list[Encoding | None] = [None] * max(len(arrays), len(case.outputs))
    real = reference.reference(
        *_build(case, decoded, none[: len(arrays)], none[: len(case.outputs)])
    )
    outputs = [
        None if np.dtype(t) != F32 else shared or prescribed(case.op, kind, r)
        for t, r in zip(case.outputs, real, strict=True)
    ]
    exact = [r if e is None else e.encode(r) for r, e in zip(real, outputs, strict=True)]
    return Quantized(*_build(case, arrays, encodings, outputs), exact)


def hybrid(case: Case) -> tuple[bytes, bytes, list[np.ndarray]]:
    """`case` with integer weights under float activations; with the numbers that these stand for;
    and inputs."""
    rng = np.random.default_rng(zlib.crc32(f"{case.op} {case.label}".encode()))
    arrays = [None if g is None else g.array(rng) for g in case.inputs]
    at, axis = WEIGHTS[case.op]
    given = arrays[at]
    assert given is not None
    weights = symmetric(given, axis)
    encodings = [weights if i == at else None for i in range(len(arrays))]
    data, feeds = _build(case, arrays, encodings, [None])
    arrays[at] = weights.decode(weights.encode(given))
    return data, _build(case, arrays, [None] * len(arrays), [None])[0], feeds


def _build(
    case: Case,
    arrays: Sequence[np.ndarray | None],
    encodings: Sequence[Encoding | None],
    outputs: Sequence[Encoding | None],
) -> tuple[bytes, list[np.ndarray]]:
    b, feeds, at = ModelBuilder(), [], []
    for given, array, e in zip(case.inputs, arrays, encodings, strict=True):
        if given is None or array is None:
            at.append(-1)
            continue
        q, fields = (array, {}) if e is None else (e.encode(array), e.fields())
        if not given.constant:
            at.append(b.input(q.shape, q.dtype, **fields))
            feeds.append(q)
        elif e is not None and e.bits == 4:
            fields["type_"] = schema.TensorType.INT4
            at.append(b.tensor(q.shape, q.dtype, data=packed(q), **fields))
        else:
            at.append(b.const(q, **fields))
    made = [
        b.tensor(case.shape, t) if e is None else b.tensor(case.shape, e.dtype, **e.fields())
        for t, e in zip(case.outputs, outputs, strict=True)
    ]
    b.output(*b.op(case.op, at, made, case.options, version=case.version, **case.fields))
    return b.build(), feeds


#: Scale and zero point that conversions start from and arrive at.
ENCODINGS = {"int8": (0.03, -20), "uint8": (0.05, 77), "int16": (0.0005, 0)}


def conversion(op: str, source: tuple[Any, ...], sink: tuple[Any, ...]) -> bytes:
    """QUANTIZE or DEQUANTIZE between types, each (type,) or (type, scale, zero point)."""
    b = ModelBuilder()
    first, last = ({} if len(t) == 1 else {"scale": t[1], "zero": t[2]} for t in (source, sink))
    given = b.input((3, 50), source[0], name="x", **first)
    b.output(*b.op(op, [given], [b.tensor((3, 50), sink[0], name="y", **last)]))
    return b.build()
