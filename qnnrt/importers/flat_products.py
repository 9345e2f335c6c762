"""Products of rows that were flattened to a matrix and are spread again afterwards."""

from __future__ import annotations

import numpy as np

from ..dtypes import is_float
from .graph import Edge, Op, Shape
from .rewriting import Graph


def spread_products(graph: Graph) -> None:
    """Reshape to [M, K] -> FullyConnected [M, N] -> Reshape to [.., N] is MatMul of [.., K].

    What follows element by element, an activation or a sum with what came in, then reads the
    product itself and not a Reshape of it, so that it becomes part of it.
    """
    made: dict[int, list[Op]] = {}
    dropped: set[int] = set()
    for op in graph.ops:
        if op.type != "FullyConnected" or not _plain(op):
            continue
        flat, product = op.inputs[0], op.outputs[0]
        before = None if flat is None else graph.producer.get(flat)
        after = graph.only_consumer(product)
        if before is None or before.type != "Reshape" or after is None or after.type != "Reshape":
            continue
        source, result = before.inputs[0], after.outputs[0]
        if flat is None or product is None or source is None or result is None:
            continue
        spread = len(result.shape) > 2 and result.shape[-1] == product.shape[-1]
        if not spread or source.quantization or result.quantization:
            continue
        made[id(op)] = _product(op, source, (*result.shape[:-1], flat.shape[-1]), result)
        dropped.add(id(after))
    graph.apply(made, dropped)


def _plain(op: Op) -> bool:
    """A product of floats, and nothing that only FullyConnected has."""
    edges = [e for e in (*op.inputs, *op.outputs) if e is not None]
    return not op.params and all(is_float(e.dtype) and not e.quantization for e in edges)


def _product(op: Op, source: Edge, rows: Shape, result: Edge) -> list[Op]:
    found: list[Op] = []
    if source.shape != rows:
        spread = Edge(rows, source.dtype)
        found.append(Op("Reshape", [source], [spread], {}, op.name))
        source = spread
    weights, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    turned: dict[str, object] = {"transpose_in0": np.bool_(False), "transpose_in1": np.bool_(True)}
    product = result if bias is None else Edge(result.shape, result.dtype)
    found.append(Op("MatMul", [source, weights], [product], turned, op.name))
    if bias is not None:
        found.append(Op("ElementWiseAdd", [product, bias], [result], {}, op.name))
    return found
