"""Normalizations that models write as arithmetic, and scales that they write behind them."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import is_float
from .graph import Edge, Op, Shape
from .rewriting import Graph
from .shorthand import u32

_MULTIPLY, _ADD, _SUBTRACT = "ElementWiseMultiply", "ElementWiseAdd", "ElementWiseSubtract"
_DIVIDE, _POWER, _ROOT = "ElementWiseDivide", "ElementWisePower", "ElementWiseSquareRoot"


# ---- (x - mean) / sqrt(variance + epsilon), and its kin -----------------------------------------


class _Match:
    """What one normalization was found to be made of."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: list[Op] = []

    def made(self, edge: Edge | None, *types: str) -> Op | None:
        """The operation of one of these types that gives `edge`; it belongs to the match."""
        op = None if edge is None else self.graph.producer.get(edge)
        if op is None or op.type not in types:
            return None
        if not any(op is found for found in self.ops):
            self.ops.append(op)
        return op

    def is_closed(self, result: Edge) -> bool:
        """Whether nothing but the match needs what lies inside, and nothing there is rounded."""
        ids = {id(op) for op in self.ops}
        for op in self.ops:
            for edge in (*op.inputs, *op.outputs):
                if edge is not None and edge.quantization is not None:
                    return False
            for edge in op.outputs:
                if edge is None or edge is result:
                    continue
                if edge in self.graph.outputs:
                    return False
                if any(id(user) not in ids for user in self.graph.consumers.get(edge, [])):
                    return False
        return True


def _number(edge: Edge | None) -> float | None:
    if edge is None or edge.data is None or edge.data.size != 1 or edge.quantization is not None:
        return None
    return float(edge.data.reshape(-1)[0])


def _is(edge: Edge | None, value: float) -> bool:
    found = _number(edge)
    return found is not None and math.isclose(found, value, rel_tol=1e-6)


def _with_number(op: Op | None) -> tuple[Edge, float] | None:
    """The other operand and the number, of an operation on a tensor and a number."""
    if op is None or len(op.inputs) != 2:
        return None
    for edge, other in (op.inputs, op.inputs[::-1]):
        found = _number(other)
        if found is not None and edge is not None and edge.data is None:
            return edge, found
    return None


def _reduced(match: _Match, edge: Edge | None, type_: str) -> tuple[Edge, tuple[int, ...]] | None:
    """What is reduced, and along which axes, with these kept as dimensions of size 1."""
    op = match.made(edge, type_)
    if op is None or op.inputs[0] is None or not op.params.get("keep_dims"):
        return None
    axes = np.asarray(op.params["axes"]).reshape(-1)
    return op.inputs[0], tuple(sorted(int(a) for a in axes))


def _squared(match: _Match, edge: Edge | None) -> Edge | None:
    op = match.made(edge, _MULTIPLY, _POWER)
    if op is None:
        return None
    if op.type == _POWER:
        return op.inputs[0] if _is(op.inputs[1], 2) else None
    return op.inputs[0] if op.inputs[0] is op.inputs[1] else None


def _untiled(match: _Match, edge: Edge | None) -> Edge | None:
    """Before a Tile that does what broadcasting does."""
    op = match.made(edge, "Tile")
    return edge if op is None else op.inputs[0]


def _quotient(match: _Match, last: Op) -> tuple[Edge, Edge] | None:
    """x and d, of x / d and of x * (1 / d)."""
    if last.type == _DIVIDE:
        x, under = last.inputs
        return None if x is None or under is None or x.data is not None else (x, under)
    for x, factor in (last.inputs, last.inputs[::-1]):
        inverse = None if factor is None else match.graph.producer.get(factor)
        if x is None or inverse is None:
            continue
        if inverse.type == _DIVIDE and _is(inverse.inputs[0], 1) and inverse.inputs[1] is not None:
            match.made(factor, _DIVIDE)
            return x, inverse.inputs[1]
        if inverse.type in ("ElementWiseRsqrt", _POWER):
            return (x, factor) if factor is not None else None
    return None


def _under_root(match: _Match, edge: Edge) -> Edge | None:
    """The value whose square root divides."""
    op = match.made(edge, _ROOT, "ElementWiseRsqrt", _POWER)
    if op is None or (op.type == _POWER and not _is(op.inputs[1], -0.5)):
        return None
    return op.inputs[0]


def _norm_at(graph: Graph, last: Op) -> tuple[_Match, Op] | None:
    """The normalization that `last` ends."""
    match = _Match(graph)
    match.ops.append(last)
    out = last.outputs[0]
    parts = _quotient(match, last)
    if parts is None or out is None or not is_float(out.dtype) or out.dtype.itemsize > 4:
        return None
    x, under = parts
    under = _untiled(match, under) or under
    if x.shape != out.shape:
        return None
    if graph.producer.get(under) is not None and graph.producer[under].type == "ReluMinMax":
        return _length_at(match, last, x, under)
    variance = _under_root(match, under)
    terms = _with_number(match.made(variance, _ADD))
    if terms is None or not terms[1] > 0:
        return None
    mean = _reduced(match, terms[0], "ReduceMean")
    square = None if mean is None else _squared(match, mean[0])
    if mean is None or square is None or not mean[1]:
        return None
    centred = _centred(match, x, square, mean[1])
    if centred is None and square is not x:
        return None
    params: dict[str, object] = {"epsilon": np.float32(terms[1]), "axes": u32(mean[1])}
    type_ = "RmsNorm" if centred is None else "LayerNorm"
    return match, Op(type_, [x if centred is None else centred], [out], params, last.name)


def _centred(match: _Match, x: Edge, square: Edge, axes: tuple[int, ...]) -> Edge | None:
    """What has its mean taken away in both the numerator and the square."""
    found: list[Edge] = []
    for edge in (x, square):
        op = match.graph.producer.get(edge)
        if op is None or op.type != _SUBTRACT or op.inputs[0] is None:
            return None
        trial = _Match(match.graph)
        mean = _reduced(trial, op.inputs[1], "ReduceMean")
        if mean is None or mean[0] is not op.inputs[0] or mean[1] != axes:
            return None
        match.made(edge, _SUBTRACT)
        match.made(op.inputs[1], "ReduceMean")
        found.append(op.inputs[0])
    return found[0] if found[0] is found[1] else None


def _length_at(match: _Match, last: Op, x: Edge, under: Edge) -> tuple[_Match, Op] | None:
    """x / max(sqrt(the sum of squares), epsilon)."""
    limit = match.made(under, "ReluMinMax")
    root = match.made(limit.inputs[0], _ROOT) if limit is not None else None
    total = _reduced(match, root.inputs[0], "ReduceSum") if root is not None else None
    if limit is None or total is None or not total[1] or _squared(match, total[0]) is not x:
        return None
    least, most = (float(np.asarray(limit.params[k])) for k in ("min_value", "max_value"))
    if not least > 0 or most < 3e38:
        return None
    params: dict[str, object] = {"epsilon": np.float32(least), "axes": u32(total[1])}
    return match, Op("L2Norm", [x], list(last.outputs), params, last.name)


def find_norms(graph: Graph) -> None:
    """Arithmetic that is a LayerNorm, an RmsNorm or an L2Norm; those over the pixels of an image
    become an InstanceNorm or a GroupNorm, whose kernels go through memory in order."""
    made: dict[int, list[Op]] = {}
    dropped: set[int] = set()
    for last in graph.ops:
        if last.type not in (_DIVIDE, _MULTIPLY) or id(last) in dropped:
            continue
        found = _norm_at(graph, last)
        if found is None or last.outputs[0] is None or not found[0].is_closed(last.outputs[0]):
            continue
        match, norm = found
        dropped.update(id(op) for op in match.ops)
        made[id(last)] = _over_pixels(graph, norm)
    graph.apply(made, dropped)


def _over_pixels(graph: Graph, norm: Op) -> list[Op]:
    """A LayerNorm without weights as the norm that QNN has for these axes."""
    x, out = norm.inputs[0], norm.outputs[0]
    assert x is not None
    assert out is not None
    axes, rank = tuple(int(a) for a in np.asarray(norm.params["axes"])), len(x.shape)
    epsilon = {"epsilon": norm.params["epsilon"]}
    pixels = tuple(range(1, rank - 1))
    if norm.type != "LayerNorm" or rank < 3:
        return [norm]
    if axes == (*pixels, rank - 1):  # one group
        after = graph.only_consumer(out)
        if after is not None and after.type in (_MULTIPLY, _ADD):
            other = next((e for e in after.inputs if e is not out), None)
            if _spread(other, x.shape[-1:]) is None and _spread(other, x.shape[1:]) is not None:
                return [norm]  # whose weights these are
        return [Op("GroupNorm", [x], [out], epsilon | {"group": np.uint32(1)}, norm.name)]
    if axes == pixels and rank == 4:
        ones = Edge((x.shape[-1],), x.dtype, np.ones(x.shape[-1], x.dtype))
        return [Op("InstanceNorm", [x, ones], [out], epsilon, norm.name)]
    # [N, pixels.., C] seen as [N, pixels.., groups, C / groups]
    split = graph.producer.get(x)
    if split is None or split.type != "Reshape" or rank < 4:
        return [norm]
    source, groups = split.inputs[0], x.shape[-2]
    if (
        axes != (*range(1, rank - 2), rank - 1)
        or source is None
        or len(source.shape) < 3
        or (source.shape[0], source.shape[-1]) != (x.shape[0], groups * x.shape[-1])
        or source.quantization is not None
    ):
        return [norm]
    whole = Edge(source.shape, x.dtype)
    group = epsilon | {"group": np.uint32(groups)}
    return [
        Op("GroupNorm", [source], [whole], group, norm.name),
        Op("Reshape", [whole], [out], {}, norm.name),
    ]


# ---- scales and offsets behind a normalization -------------------------------------------------

#: Operations that end in * weight + bias, their inputs 1 and 2.
_SCALED = {"Batchnorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RmsNorm"}


def _scaled_shape(op: Op) -> Shape | None:
    """The shape of the weights, when these run over the last dimensions in order."""
    x = op.inputs[0]
    assert x is not None
    if op.type not in ("LayerNorm", "RmsNorm"):
        return x.shape[-1:]
    axes = tuple(int(a) for a in np.asarray(op.params["axes"]).reshape(-1))
    rank = len(x.shape)
    return x.shape[axes[0] :] if axes == tuple(range(axes[0], rank)) else None


def _spread(edge: Edge | None, shape: Shape) -> np.ndarray | None:
    """A constant that only changes along the last dimensions, which are `shape`."""
    if edge is None or edge.data is None or edge.quantization is not None:
        return None
    own = edge.shape[-len(shape) :]
    if any(d != 1 for d in edge.shape[: -len(shape)]):
        return None
    if any(d not in (1, n) for d, n in zip(own[::-1], shape[::-1], strict=False)):
        return None
    return np.broadcast_to(edge.data.reshape(own), shape)


def _weights(op: Op, shape: Shape) -> tuple[np.ndarray, np.ndarray] | None:
    """Weight and bias of a normalization, in double precision."""
    values = []
    for index, default in ((1, 1.0), (2, 0.0)):
        edge = op.inputs[index] if index < len(op.inputs) else None
        if edge is None:
            values.append(np.full(shape, default))
        elif edge.data is None or edge.quantization is not None:
            return None
        else:
            values.append(edge.data.astype(np.float64).reshape(shape))
    return values[0], values[1]


def merge_affine(graph: Graph) -> None:
    """A multiplication or addition by constants for each channel behind a normalization is folded
    into its weights, as is a Batchnorm.

    Models converted from other frameworks write the scale of a normalization as nodes of its own.
    """
    dropped: set[int] = set()
    for op in graph.ops:
        if op.type not in _SCALED or id(op) in dropped:
            continue
        x = op.inputs[0]
        if x is None or x.quantization is not None:
            continue  # what comes after it meets rounded numbers
        shape = _scaled_shape(op)
        found = None if shape is None else _weights(op, shape)
        if shape is None or found is None:
            continue
        w, c = found
        changed = False
        while True:
            out = op.outputs[0]
            after = graph.only_consumer(out)
            if after is None or out is None or out.quantization is not None:
                break
            if after.type not in (_MULTIPLY, _ADD, "Batchnorm") or after.inputs.count(out) != 1:
                break
            other = [e for e in after.inputs if e is not out]
            target = after.outputs[0]
            if (after.inputs[0] is not out and after.type == "Batchnorm") or target is None:
                break
            values = [_spread(e, shape) for e in other if e]
            if not values or any(v is None for v in values) or target.shape != out.shape:
                break
            first = np.asarray(values[0], np.float64)
            if after.type == _ADD:
                c = c + first
            else:
                w, c = w * first, c * first
                if after.type == "Batchnorm" and len(values) > 1:
                    c = c + np.asarray(values[1], np.float64)
            op.outputs = [target]
            dropped.add(id(after))
            graph.producer[target] = op
            changed = True
        if changed:
            fresh = [Edge(shape, x.dtype, v.astype(x.dtype)) for v in (w, c)]
            op.inputs = [x, *fresh]
    if dropped:
        graph.keep(dropped)
