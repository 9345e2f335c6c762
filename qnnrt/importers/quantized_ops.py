"""Operations between Dequantize and Quantize as fixed-point operations."""

from __future__ import annotations

import functools

import numpy as np

from .._native.op_table import op_table
from ..dtypes import is_float
from ..model import Quantization
from .encodings import alike, decode
from .graph import Edge, Op
from .passes import Graph

_INT32 = np.dtype(np.int32)
_MOST = np.iinfo(np.int32).max


@functools.lru_cache(maxsize=1024)
def _computes(op: str) -> bool:
    """Whether it has a fixed-point form when all that it reads and writes is fixed-point."""
    record = op_table().get(op, {})
    return any(record.get(trait) for trait in ("fixed", "weights_axis", "may_move"))


def _weights_axis(op: Op) -> int:
    """The dimension of weights that may have scales of its own, from the end; 0: no weights."""
    axis: int = op_table()[op.type]["weights_axis"]
    return -3 - axis if axis and op.params.get("transpose_in1", False) else axis


def fuse(graph: Graph) -> None:
    """Operations that read from Dequantize and write to Quantize only become fixed-point ones."""
    codes: dict[Edge, Edge] = {}
    dropped: set[int] = set()
    ops: list[Op] = []
    for op in graph.ops:
        if op.type == "Dequantize" and op.inputs[0] is not None and op.outputs[0] is not None:
            codes[op.outputs[0]] = op.inputs[0]
        readers = _readers(graph, op)
        made = None if not readers else _fixed(op, codes, result(readers[0]))
        if made is None:
            ops.append(op)
            continue
        out = result(readers[0])
        for reader in readers:
            dropped.add(id(reader))
            if (other := result(reader)) is not out:
                graph.replace(other, out)
        ops += made
    graph.ops = ops
    graph.keep(dropped)


def result(op: Op) -> Edge:
    assert op.outputs[0] is not None
    return op.outputs[0]


def _readers(graph: Graph, op: Op) -> list[Op]:
    """The Quantize operations that read what `op` writes, if there is nothing else that does."""
    if not _computes(op.type) or len(op.outputs) != 1:
        return []
    return quantizers(graph, op.outputs[0])


def quantizers(graph: Graph, out: Edge | None) -> list[Op]:
    """The Quantize operations that read `out`, alike, if there is nothing else that does."""
    if out is None or out in graph.outputs or not is_float(out.dtype):
        return []
    readers = graph.consumers.get(out, [])
    if len(readers) == 1:  # as most tensors have
        return readers if readers[0].type == "Quantize" else []
    if not readers or any(r.type != "Quantize" for r in readers):
        return []
    first = result(readers[0])
    others = [result(r) for r in readers[1:]]
    if any(e.dtype != first.dtype or not alike(e.quantization, first.quantization) for e in others):
        return []
    return [] if any(e in graph.outputs for e in others) else readers


def _fixed(op: Op, codes: dict[Edge, Edge], out: Edge) -> list[Op] | None:
    """The operations on fixed-point tensors that write `out`; None when there are none."""
    first = codes.get(op.inputs[0]) if op.inputs[0] is not None else None
    if op.type == "Batchnorm":
        return None if first is None else _batchnorm(op, first, out)
    weights = _weights_axis(op)
    inputs: list[Edge | None] = list(op.inputs)
    kinds = [codes[e].dtype for e in op.inputs if e is not None and e in codes]
    if not kinds:
        return None
    for i, edge in enumerate(op.inputs):
        if edge is None or not is_float(edge.dtype) or (i == 2 and weights):
            continue
        fixed = codes.get(edge)
        if fixed is None:
            fixed = exact_constant(edge, kinds[0])
        if fixed is None or not _fits(op, i, fixed):
            return None
        inputs[i] = fixed
    if all(e is None or e.data is not None for e in inputs):
        return None
    if weights and len(inputs) > 2 and inputs[2] is not None:
        assert inputs[0] is not None
        assert inputs[1] is not None
        bias = _bias(codes.get(inputs[2], inputs[2]), inputs[0], inputs[1])
        if bias is None:
            return None
        inputs[2] = bias
    return [Op(op.type, inputs, [out], op.params, op.name)]


def _fits(op: Op, i: int, edge: Edge) -> bool:
    """Whether input `i` may have this encoding."""
    q = edge.quantization
    assert q is not None
    if q.block is not None:
        return edge.data is not None and i == 1 and _weights_axis(op) != 0
    if q.axis is None:
        # 32 bits are for biases.
        return edge.dtype.itemsize <= 2 or (i == 2 and op.type.endswith("Norm"))
    if edge.data is None or i != 1:
        return False
    axis = _weights_axis(op)
    return axis != 0 and q.axis == axis % len(edge.shape)


def exact_constant(edge: Edge, dtype: np.dtype) -> Edge | None:
    """A constant of one value, or of one and 0, without loss in any integer type."""
    if edge.data is None:
        return None
    data = edge.data.astype(np.float32)
    found = np.unique(data[data != 0])
    if found.size > 1 or not np.all(np.isfinite(data)):
        return None
    value = float(found[0]) if found.size else 1.0
    # real = |value| * q, or |value| * (q - 1) for a negative value.
    below = int(value < 0)
    held = ((data != 0) ^ bool(below)).astype(dtype)
    return Edge(edge.shape, dtype, held, quantization=Quantization(abs(value), -below))


def _bias(given: Edge, x: Edge, w: Edge) -> Edge | None:
    """The bias in 32 bits with the product of the scales of input and weights."""
    if given.data is None or x.quantization is None or w.quantization is None:
        return None
    weights = np.asarray(w.quantization.scale, np.float64)
    if w.quantization.block is not None:  # a sum has many scales; 32 bits hold them all
        weights = weights.max()
    scale = np.float64(x.quantization.scale) * weights
    return _coded_bias(given, scale.astype(np.float32).astype(np.float64))


def _coded_bias(given: Edge, scale: np.ndarray) -> Edge | None:
    data, q = given.data, given.quantization
    assert data is not None
    kept = q is not None and data.dtype == _INT32 and np.count_nonzero(q.offset) == 0
    if q is not None and kept and _close(np.asarray(q.scale), scale):
        codes = data
        if codes.size and np.minimum.reduce(codes, axis=None) < -_MOST:
            return None
    else:
        real = data if q is None else decode(data, q, np.dtype(np.float32))
        exact = np.rint(real.astype(np.float64) / scale)
        if not np.all(np.abs(exact) <= _MOST):  # NaN is not, either
            return None
        codes = exact.astype(np.int32)
    if scale.ndim == 0:
        encoding = Quantization(float(scale), 0)
    else:
        encoding = Quantization(scale, np.zeros(scale.shape, np.int32), 0)
    return Edge(given.shape, _INT32, codes, given.name, encoding)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """As ``numpy.allclose``, which takes a few times as long for few numbers."""
    return bool(((np.abs(a - b) <= 1e-5 * np.abs(b)) & np.isfinite(b)).all())


def _batchnorm(op: Op, x: Edge, out: Edge) -> list[Op] | None:
    """With weights and biases in 32 bits, which are as good as floats."""
    constants = [_fine(e) for e in op.inputs[1:] if e is not None]
    if x.quantization is None or x.quantization.axis is not None or None in constants:
        return None
    return [Op(op.type, [x, *constants], [out], op.params, op.name)]


def _fine(given: Edge) -> Edge | None:
    """A constant in 32 bits, with the finest scale that reaches all of its elements."""
    if given.data is None:
        return None
    real = given.data
    if given.quantization is not None:
        real = decode(real, given.quantization, np.dtype(np.float32))
    most = float(np.max(np.abs(real.astype(np.float64)), initial=0))
    if not np.isfinite(most):
        return None
    # A margin for the rounding of the scale, and of floats to integers.
    scale = max(np.float32(most / (2**31 - 2**9)), np.finfo(np.float32).tiny)
    return _coded_bias(given, np.asarray(scale, np.float64))
