"""Clean-up of the lowered graph: what only became visible once every node was lowered."""

from __future__ import annotations

import numpy as np

from ..dtypes import is_float
from . import encodings
from .flat_products import spread_products
from .graph import Edge, Op
from .layouts import turn_parts
from .rewriting import ROOTS, SCALED, Graph

__all__ = ["Graph", "run"]


def run(graph: Graph) -> None:
    """All passes, in the order in which they help each other."""
    for step in (
        drop_dead, merge_reshapes, spread_products, find_norms, find_means, merge_reshapes,
        channel_shuffles, merge_affine, find_attention, turn_parts, turn_matrices, merge_reshapes,
        narrow_doubles, drop_dead,
    ):  # fmt: skip
        graph.budget.check_time()
        step(graph)


#: Between these numbers are quantized.
CODED = {"Quantize", "Dequantize"}


def find_norms(graph: Graph) -> None:
    """What models write as arithmetic and QNN has as one operation, see `norms`."""
    if any(op.type in ROOTS or op.type == "ElementWisePower" for op in graph.ops):
        from . import norms

        norms.find_norms(graph)


def merge_affine(graph: Graph) -> None:
    """Scales and offsets behind normalizations become their weights, see `norms`."""
    if any(op.type in SCALED for op in graph.ops):
        from . import norms

        norms.merge_affine(graph)


def find_attention(graph: Graph) -> None:
    """Softmax that is written as arithmetic, and what surrounds one, see `attention`."""
    if any(op.type in ("ElementWiseDivide", "Gather", "Softmax") for op in graph.ops):
        from . import attention

        for step in (attention.slice_gathers, attention.find_softmax, attention.add_masks):
            graph.budget.check_time()
            step(graph)


def turn_matrices(graph: Graph) -> None:
    """Factors as they lie, and batches of products, see `attention`."""
    if any(op.type == "MatMul" for op in graph.ops):
        from . import attention

        attention.turn_products(graph)
        graph.budget.check_time()
        attention.spread_batches(graph)


def drop_dead(graph: Graph) -> None:
    """Operations of which no output is needed."""
    needed: set[Edge | None] = set(graph.outputs)
    dropped: set[int] = set()
    for op in reversed(graph.ops):
        if needed.isdisjoint(op.outputs):
            dropped.add(id(op))
        else:
            needed.update(op.inputs)
            needed.discard(None)
    if dropped:
        graph.keep(dropped)


def merge_reshapes(graph: Graph) -> None:
    """Reshape of a reshape reads the first one's input; a reshape to the same shape is removed.

    One between different encodings converts numbers, so it stays.
    """
    for op in graph.ops:
        if op.type != "Reshape":
            continue
        source = before = op.inputs[0]
        while source in graph.producer and _only_reshapes(graph.producer[source]):
            source = graph.producer[source].inputs[0]
        if source is not before and source is not None and before is not None:
            op.inputs = [source]
            graph.consumers[before].remove(op)
            graph.consumers.setdefault(source, []).append(op)
        out = op.outputs[0]
        if source is not None and out is not None:
            kept = out in graph.outputs
            same = encodings.same(source.quantization, out.quantization)
            if source.shape == out.shape and same and not kept:
                graph.replace(out, source)
    drop_dead(graph)


def _only_reshapes(op: Op) -> bool:
    source, out = op.inputs[0], op.outputs[0]
    if op.type != "Reshape" or source is None or out is None:
        return False
    return encodings.same(source.quantization, out.quantization)


def find_means(graph: Graph) -> None:
    """A sum over the number of what it adds up is a mean."""
    dropped: set[int] = set()
    for op in graph.ops:
        source, total = op.inputs[0] if op.inputs else None, op.outputs[0]
        if op.type != "ReduceSum" or source is None or total is None or not is_float(source.dtype):
            continue
        after = graph.only_consumer(total)
        if after is None or after.type not in ("ElementWiseMultiply", "ElementWiseDivide"):
            continue
        number = after.inputs[1] if after.inputs[0] is total else after.inputs[0]
        mean = after.outputs[0]
        if number is None or number.data is None or number.data.size != 1 or mean is None:
            continue
        if after.type == "ElementWiseDivide" and number is after.inputs[0]:
            continue
        if any(e.quantization is not None for e in (source, total, number, mean)):
            continue
        value = float(number.data.reshape(-1)[0])
        count = source.dtype.type(np.prod(source.shape) / np.prod(total.shape))
        share = 1 / count if after.type == "ElementWiseMultiply" else count
        if value == float(share) and mean.shape == total.shape:
            op.type, op.outputs = "ReduceMean", [mean]
            dropped.add(id(after))
    if dropped:
        graph.keep(dropped)


def channel_shuffles(graph: Graph) -> None:
    """[.., C, ..] -> [.., g, k, ..] -> [.., k, g, ..] -> [.., C, ..] is one ChannelShuffle of g
    groups."""
    dropped: set[int] = set()
    for op in graph.ops:
        if op.type != "Reshape" or op.inputs[0] is None or op.outputs[0] is None:
            continue
        middle = graph.only_consumer(op.outputs[0])
        if middle is None or middle.type != "Transpose":
            continue
        last = graph.only_consumer(middle.outputs[0])
        if last is None or last.type != "Reshape":
            continue
        before, split, after = op.inputs[0].shape, op.outputs[0].shape, last.outputs[0]
        rank = len(before)
        if after is None or after.shape != before or len(split) != rank + 1:
            continue
        swapped = [int(p) for p in np.asarray(middle.params["perm"])]
        axis = next((i for i, p in enumerate(swapped) if p != i), rank)
        swap = [*range(axis), axis + 1, axis, *range(axis + 2, rank + 1)]
        if (
            swapped == swap
            and (split[:axis], split[axis + 2 :]) == (before[:axis], before[axis + 1 :])
            and _only_reshapes(op)
            and _only_reshapes(last)
        ):
            last.type = "ChannelShuffle"
            last.inputs = [op.inputs[0]]
            last.params = {"num_groups": np.uint32(split[axis]), "axis": np.uint32(axis)}
            dropped |= {id(op), id(middle)}
    if dropped:
        graph.keep(dropped)


#: Operations that move, compare or count, and those whose kernels compute in 64 bits, too.
_ANY_FLOAT = {
    "Argmax", "Argmin", "Cast", "ChannelShuffle", "Concat", "CumulativeSum", "DepthToSpace",
    "ElementWiseAbs", "ElementWiseAdd", "ElementWiseAsin", "ElementWiseAtan", "ElementWiseBinary",
    "ElementWiseCeil", "ElementWiseCos", "ElementWiseDivide", "ElementWiseEqual", "ElementWiseExp",
    "ElementWiseFloor", "ElementWiseGreater", "ElementWiseGreaterEqual", "ElementWiseLess",
    "ElementWiseLessEqual", "ElementWiseLog", "ElementWiseMaximum", "ElementWiseMinimum",
    "ElementWiseMultiply", "ElementWiseNeg", "ElementWisePower", "ElementWiseRound",
    "ElementWiseRsqrt", "ElementWiseSelect", "ElementWiseSign", "ElementWiseSin",
    "ElementWiseSquareRoot", "ElementWiseSubtract", "Elu", "Gather", "GatherElements", "GatherNd",
    "Gelu", "IsInf", "IsNan", "OneHot", "Pad", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "Reshape", "ScatterElements", "ScatterNd", "Sigmoid",
    "SpaceToDepth", "Split", "StridedSlice", "Tanh", "Tile", "TopK", "Transpose",
}  # fmt: skip

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


def _doubles(edges: list[Edge | None]) -> bool:
    for edge in edges:  # noqa: SIM110 (a generator for each operation takes longer)
        if edge is not None and edge.dtype == _DOUBLE:
            return True
    return False


def narrow_doubles(graph: Graph) -> None:
    """Other operations on doubles compute in 32 bits and are put between casts."""
    ops: list[Op] = []
    wide_of: dict[Edge, Edge] = {}  # a double -> the single that it was widened from
    narrow_of: dict[Edge, Edge] = {}
    for op in graph.ops:
        if op.type in _ANY_FLOAT or not (_doubles(op.inputs) or _doubles(op.outputs)):
            ops.append(op)
            continue
        for i, edge in enumerate(op.inputs):
            if edge is None or edge.dtype != _DOUBLE:
                continue
            if edge in wide_of:
                op.inputs[i] = wide_of[edge]
                continue
            if edge not in narrow_of:
                single = Edge(edge.shape, _SINGLE, name=f"{edge.name}.single" if edge.name else "")
                if edge.data is not None:
                    graph.budget.array(edge.shape, _SINGLE)
                    single.data = edge.data.astype(_SINGLE)
                else:
                    ops.append(Op("Cast", [edge], [single], {}, op.name))
                narrow_of[edge] = single
            op.inputs[i] = narrow_of[edge]
        ops.append(op)
        for i, edge in enumerate(op.outputs):
            if edge is not None and edge.dtype == _DOUBLE:
                single = Edge(edge.shape, _SINGLE)
                op.outputs[i] = single
                wide_of[edge] = single
                ops.append(Op("Cast", [single], [edge], {}, op.name))
    if len(ops) > len(graph.ops) or narrow_of:
        graph.ops = ops
        graph.index()
