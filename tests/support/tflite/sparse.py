"""Constants that are stored without their zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .builder import ModelBuilder

VECTORS = {np.int32: "Int32Vector", np.uint16: "Uint16Vector", np.uint8: "Uint8Vector"}


#: Shape, order of traversal, compressed dimensions, blocks.
FORMS: dict[str, tuple[Any, ...]] = {
    "rows": ((6, 8), (0, 1), (1,), {}),
    "columns": ((6, 8), (1, 0), (0,), {}),
    "both compressed": ((6, 8), (0, 1), (0, 1), {}),
    "all dense": ((6, 8), (0, 1), (), {}),
    "blocks of 1x4": ((6, 8), (0, 1, 2), (1,), {1: 4}),
    "blocks of 2x4": ((6, 8), (0, 1, 2, 3), (1,), {0: 2, 1: 4}),
    "blocks, traversed the other way": ((6, 8), (1, 0, 3, 2), (0,), {0: 2, 1: 4}),
    "a filter, as of 1x1": ((12, 1, 1, 8), (0, 1, 2, 3), (3,), {}),
    "a filter, blocks along outputs": ((12, 3, 3, 8), (0, 1, 2, 3, 4), (3,), {0: 4}),
}


def const(
    b: ModelBuilder,
    array: np.ndarray,
    order: Sequence[int],
    compressed: Sequence[int],
    blocks: Mapping[int, int] | None = None,
    kind: type = np.int32,
    **more: Any,
) -> int:
    """`order`: its dimensions and then those of its blocks (dimension -> size), as they are
    traversed; `compressed`: those of which only indices with elements are stored."""
    blocks = blocks or {}
    rank = array.ndim
    outer = [n // blocks.get(d, 1) for d, n in enumerate(array.shape)]
    cut = array.reshape([v for d, n in enumerate(outer) for v in (n, blocks.get(d, 1))])
    inside = [2 * d + 1 for d in blocks]
    rest = [2 * d + 1 for d in range(rank) if d not in blocks]
    tree = cut.transpose([2 * d for d in range(rank)] + inside + rest)
    tree = tree.reshape(*outer, *blocks.values()).transpose(order)
    table = schema.SparsityParametersT()
    table.traversalOrder, table.blockMap = list(order), list(blocks)
    table.dimMetadata = []
    nodes: list[tuple[int, ...]] = [()]
    for size, dim in zip(tree.shape, order, strict=True):
        level = schema.DimensionMetadataT()
        level.denseSize = size
        below = []
        if dim in compressed:
            level.format = schema.DimensionType.SPARSE_CSR
            segments, indices = [0], []
            for node in nodes:
                found = [i for i in range(size) if np.any(tree[(*node, i)])]
                indices += found
                segments.append(len(indices))
                below += [(*node, i) for i in found]
            for field, values in (("Segments", segments), ("Indices", indices)):
                vector = getattr(schema, f"{VECTORS[kind]}T")()
                vector.values = np.array(values, kind)
                setattr(level, f"array{field}", vector)
                number = getattr(schema.SparseIndexVector, VECTORS[kind])
                setattr(level, f"array{field}Type", number)
        else:
            level.format = schema.DimensionType.DENSE
            below = [(*node, i) for node in nodes for i in range(size)]
        table.dimMetadata.append(level)
        nodes = below
    stored = np.array([tree[node] for node in nodes], array.dtype)
    index = b.tensor(array.shape, array.dtype, data=stored, **more)
    b.graph.tensors[index].sparsity = table
    return index
