"""What lies around the two products of an attention, in the form that others are written in."""

from __future__ import annotations

import numpy as np

from .graph import Edge, Op
from .rewriting import Graph


def _axes(op: Op) -> list[int]:
    return [int(a) for a in np.asarray(op.params["axes"]).reshape(-1)]


def find_softmax(graph: Graph) -> None:
    """exp(x - max(x)) / sum(exp(x - max(x))) along the last axis."""
    made: dict[int, list[Op]] = {}
    dropped: set[int] = set()
    for last in graph.ops:
        if last.type != "ElementWiseDivide":
            continue
        match = _softmax(graph, last)
        if match is not None:
            ops, source = match
            axis = np.uint32(len(source.shape) - 1)
            params: dict[str, object] = {"axis": axis, "beta": np.float32(1)}
            made[id(last)] = [Op("Softmax", [source], list(last.outputs), params, last.name)]
            dropped.update(id(op) for op in ops)
    graph.apply(made, dropped)


def _softmax(graph: Graph, last: Op) -> tuple[list[Op], Edge] | None:
    ops: list[Op] = [last]

    def made(edge: Edge | None, type_: str) -> Op | None:
        op = None if edge is None else graph.producer.get(edge)
        while op is not None and op.type in ("Reshape", "Tile") and type_.startswith("Reduce"):
            # Dimensions of one come back, or become what broadcasting makes of them.
            ops.append(op)
            edge = op.inputs[0]
            op = None if edge is None else graph.producer.get(edge)
        if op is None or op.type != type_:
            return None
        ops.append(op)
        return op

    power, total = last.inputs
    exp, reduced = made(power, "ElementWiseExp"), made(total, "ReduceSum")
    less = None if exp is None else made(exp.inputs[0], "ElementWiseSubtract")
    most = None if less is None else made(less.inputs[1], "ReduceMax")
    source = None if less is None else less.inputs[0]
    if reduced is None or most is None or source is None or power is None or total is None:
        return None
    axis = len(source.shape) - 1
    kept = (*source.shape[:-1], 1)
    along = _axes(reduced) == _axes(most) == [axis] and reduced.inputs[0] is power
    spread = [e.shape for e in (total, less.inputs[1]) if e is not None] if less else []
    fits = all(shape in (kept, source.shape) for shape in spread) and most.inputs[0] is source
    ids = {id(op) for op in ops}
    for op in ops:
        for edge in (*op.inputs, *op.outputs):
            if edge is None or edge.quantization is not None:
                return None
        for edge in op.outputs if op is not last else []:
            users = graph.consumers.get(edge, []) if edge is not None else []
            if edge in graph.outputs or any(id(user) not in ids for user in users):
                return None
    return (ops, source) if along and fits else None


def _is_softmax(graph: Graph, edge: Edge | None) -> bool:
    """Whether the edge has a Softmax's results, in whatever shape."""
    op = None if edge is None else graph.producer.get(edge)
    while op is not None and op.type in ("Cast", "Reshape", "Transpose"):
        edge = op.inputs[0]
        op = None if edge is None else graph.producer.get(edge)
    return op is not None and op.type == "Softmax"


def turn_products(graph: Graph) -> None:
    """The transposed product of two computed matrices is the product of the transposed ones, which
    is no work of its own. Keras writes the scores of an attention so."""
    made: dict[int, list[Op]] = {}
    dropped: set[int] = set()
    for op in graph.ops:
        if op.type != "MatMul" or len(op.inputs) != 2:
            continue
        a, b = op.inputs
        after = graph.only_consumer(op.outputs[0])
        if a is None or b is None or after is None or after.type != "Transpose":
            continue
        out, target = op.outputs[0], after.outputs[0]
        rank = 0 if out is None else len(out.shape)
        perm = [int(p) for p in np.asarray(after.params["perm"]).reshape(-1)]
        swap = [*range(rank - 2), rank - 1, rank - 2]
        if rank < 2 or perm != swap or a.data is not None or b.data is not None:
            continue
        if any(e is None or e.quantization is not None for e in (a, b, out, target)):
            continue
        if any(_is_softmax(graph, e) for e in (a, b)):
            continue  # an attention's second product is known as it is
        turned = [bool(op.params.get(f"transpose_in{i}", False)) for i in range(2)]
        params: dict[str, object] = {
            "transpose_in0": np.bool_(not turned[1]), "transpose_in1": np.bool_(not turned[0])
        }  # fmt: skip
        made[id(after)] = [Op("MatMul", [b, a], [target], params, op.name)]
        dropped.update((id(op), id(after)))
    graph.apply(made, dropped)


def slice_gathers(graph: Graph) -> None:
    """What gathers one index that is known takes a slice, which may be a view."""
    for op in graph.ops:
        if op.type != "Gather" or len(op.inputs) != 2 or op.params.get("axis") is None:
            continue
        source, indices = op.inputs
        out = op.outputs[0]
        if source is None or indices is None or indices.data is None or indices.data.size != 1:
            continue
        axis, rank = int(np.asarray(op.params["axis"])), len(source.shape)
        axis += rank if axis < 0 else 0
        index, size = int(indices.data.reshape(-1)[0]), source.shape[axis]
        index += size if index < 0 else 0
        kept = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
        if out is None or out.shape != kept or not 0 <= index < size or source.data is not None:
            continue
        ranges = np.array([[0, n, 1] for n in source.shape], np.int32)
        ranges[axis] = index, index + 1, 1
        graph.consumers[indices].remove(op)
        op.type, op.inputs, op.params = "StridedSlice", [source], {"ranges": ranges}


def add_masks(graph: Graph) -> None:
    """A mask that is taken from scores is added to them."""
    for softmax in graph.ops:
        scores = softmax.inputs[0] if softmax.type == "Softmax" else None
        op = None if scores is None else graph.producer.get(scores)
        if op is None or op.type != "ElementWiseSubtract":
            continue
        mask = op.inputs[1]
        if mask is None or mask.data is None or any(
            e is None or e.quantization is not None for e in (*op.inputs, *op.outputs)
        ):  # fmt: skip
            continue
        graph.budget.array(mask.shape, mask.dtype)
        negative = Edge(mask.shape, mask.dtype, -mask.data)
        op.type, op.inputs = "ElementWiseAdd", [op.inputs[0], negative]
        graph.consumers[mask].remove(op)


def spread_batches(graph: Graph) -> None:
    """Products of matrices whose heads were joined with the batch, and what lies between them, are
    those of the tensors before the Reshape: the heads are seen, and so are Transposes before them.
    """
    products: set[Edge] = set()  # and what is computed of them
    for op in list(graph.ops):
        if op.type not in _BY_MATRIX or len(op.outputs) != 1:
            continue
        if op.type != "MatMul" and products.isdisjoint(e for e in op.inputs if e is not None):
            continue
        spread = [_spread(graph, edge) for edge in op.inputs]
        sources = {edge.shape[:-2] for edge in spread if edge is not None and edge.data is None}
        out, joined = op.outputs[0], spread != op.inputs
        if out is None or None in spread or len(sources) != 1 or not joined:
            continue
        if out in graph.outputs or out.quantization is not None:
            continue
        if op.type == "MatMul" and any(e is None or e.data is not None for e in spread):
            continue
        if op.type == "Softmax" and int(np.asarray(op.params["axis"])) != len(out.shape) - 1:
            continue
        (heads,) = sources
        wide = Edge((*heads, *out.shape[-2:]), out.dtype)
        at = graph.ops.index(op)
        graph.ops.insert(at + 1, Op("Reshape", [wide], [out], {}, op.name))
        op.inputs, op.outputs = spread, [wide]
        if op.type == "Softmax":
            op.params = {**op.params, "axis": np.uint32(len(wide.shape) - 1)}
        graph.producer[wide], graph.producer[out] = op, graph.ops[at + 1]
        products.add(out)
    if products:
        graph.index()


#: Operations on each matrix of a batch, and element by element.
_BY_MATRIX = {"MatMul", "Softmax", "ElementWiseMultiply", "ElementWiseDivide", "ElementWiseAdd"}


def _spread(graph: Graph, edge: Edge | None) -> Edge | None:
    """[B, H, m, n] of what was reshaped to [B H, m, n]; a constant that is the same for all of
    these; None of anything else."""
    if edge is None or edge.quantization is not None:
        return None
    if edge.data is not None:
        return edge if all(n == 1 for n in edge.shape[:-2]) and len(edge.shape) < 4 else None
    op = graph.producer.get(edge)
    source = op.inputs[0] if op is not None and op.type == "Reshape" else None
    if source is None or source.quantization is not None or source.data is not None:
        return None
    kept = source.shape[-2:] == edge.shape[-2:]
    return source if kept and (len(source.shape), len(edge.shape)) == (4, 3) else None
