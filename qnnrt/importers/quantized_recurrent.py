"""Lstm and Gru between Dequantize and Quantize, as operations on fixed-point tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..dtypes import is_float
from ..model import Quantization
from .graph import Edge, Op
from .passes import Graph
from .quantized_ops import exact_constant, quantizers, result

#: Inputs that are matrices of weights; those of a quantized operation are quantized, too.
_WEIGHTS = {"Lstm": {1, 2, 3, 4, 5, 6, 16, 17, 22}, "Gru": {1, 2, 3, 4, 5, 6}}

_INT32 = np.dtype(np.int32)


def fuse(graph: Graph, constants: Mapping[Edge, Edge] | None = None) -> None:
    """Those that read from Dequantize and write to Quantize only become fixed-point ones.

    constants: fixed-point ones that were decoded while the graph was made, by what came of them.
    """
    codes: dict[Edge, Edge] = dict(constants or {})
    dropped: set[int] = set()
    ops: list[Op] = []
    for op in graph.ops:
        if op.type == "Dequantize" and op.inputs[0] is not None and op.outputs[0] is not None:
            codes[op.outputs[0]] = op.inputs[0]
        outputs = _outputs(graph, op) if op.type in _WEIGHTS else None
        inputs = None if outputs is None else _inputs(op, codes)
        if outputs is None or inputs is None:
            ops.append(op)
            continue
        for out in op.outputs:
            for i, reader in enumerate(quantizers(graph, out)):
                dropped.add(id(reader))
                if i > 0:
                    graph.replace(result(reader), result(quantizers(graph, out)[0]))
        ops.append(replace(op, inputs=inputs, outputs=outputs))
    if dropped:
        graph.ops = ops
        graph.keep(dropped)


def _outputs(graph: Graph, op: Op) -> list[Edge | None] | None:
    """What is written instead; None when some of it is wanted in float."""
    found: list[Edge | None] = []
    for out in op.outputs:
        readers = quantizers(graph, out)
        if not readers and out is not None and (out in graph.outputs or graph.consumers.get(out)):
            return None
        found.append(result(readers[0]) if readers else None)
    like = next((e for e in found if e is not None), None)
    if like is None or op.outputs[0] is None:
        return None
    if found[0] is None:  # nobody reads it, but the operation has it
        found[0] = Edge(op.outputs[0].shape, like.dtype, quantization=like.quantization)
    while found[-1] is None:
        found.pop()
    return found


def _inputs(op: Op, codes: dict[Edge, Edge]) -> list[Edge | None] | None:
    """The fixed-point tensors that are read instead; None when one of them is none."""
    if op.inputs[0] is None or op.inputs[0] not in codes:
        return None
    found: list[Edge | None] = []
    for i, edge in enumerate(op.inputs):
        if edge is None or not is_float(edge.dtype):
            found.append(edge)
            continue
        fixed = codes.get(edge)
        if fixed is None and i not in _WEIGHTS[op.type]:
            fixed = _constant(edge, codes[op.inputs[0]].dtype)
        if fixed is None or fixed.quantization is None or fixed.quantization.block is not None:
            return None
        if fixed.data is None and fixed.quantization.axis is not None:
            return None
        found.append(fixed)
    return found


def _constant(edge: Edge, dtype: np.dtype) -> Edge | None:
    """A bias or an initial state in 32 bits, which keeps what a float has."""
    exact = exact_constant(edge, dtype)
    if exact is not None or edge.data is None:
        return exact
    data = edge.data.astype(np.float64)
    most = float(np.abs(data).max())
    if not np.isfinite(most):
        return None
    scale = float(np.float32(most / 2**30))
    if scale < np.finfo(np.float32).tiny:
        return None
    held = np.rint(data / scale).astype(_INT32)
    return Edge(edge.shape, _INT32, held, edge.name, Quantization(scale, 0))
