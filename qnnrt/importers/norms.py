"""Normalizations that models write as arithmetic, and scales that they write behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .graph import Edge, Op, Shape
from .rewriting import SCALED, Graph
from .shorthand import u32

if TYPE_CHECKING:
    from .norm_algebra import Norm

_MULTIPLY, _ADD, _DIVIDE = "ElementWiseMultiply", "ElementWiseAdd", "ElementWiseDivide"


# ---- (x - mean) / sqrt(variance + epsilon), and its kin -----------------------------------------


def find_norms(graph: Graph) -> None:
    """Arithmetic that is a LayerNorm, an RmsNorm or an L2Norm; those over the pixels of an image
    become an InstanceNorm or a GroupNorm, whose kernels go through memory in order."""
    from .norm_algebra import norms_in  # most networks have scales alone

    made: dict[int, list[Op]] = {}
    dropped: set[int] = set()

    def take(ops: Iterable[Op], out: Edge, written: list[Op]) -> None:
        dropped.update(id(op) for op in ops)
        made[id(graph.producer[out])] = written

    for norms in norms_in(graph):
        for norm in norms:
            if any(id(op) in dropped for op in norm.ops):
                continue
            written = _written(graph, norm)
            if written is not None:
                take(norm.ops, norm.out, written)
                break
    for last in graph.ops:
        if last.type == _DIVIDE and id(last) not in dropped:
            match = _length_at(graph, last)
            if match is not None:
                out = last.outputs[0]
                assert out is not None
                take(match[0], out, [match[1]])
    graph.apply(made, dropped)


def _length_at(graph: Graph, last: Op) -> tuple[list[Op], Op] | None:
    """x / max(sqrt(the sum of squares), epsilon)."""
    ops: list[Op] = [last]

    def made(edge: Edge | None, *types: str) -> Op | None:
        op = None if edge is None else graph.producer.get(edge)
        if op is None or op.type not in types:
            return None
        ops.append(op)
        return op

    x, under = last.inputs
    tile = made(under, "Tile")  # does what broadcasting does
    limit = made(tile.inputs[0] if tile is not None else under, "ReluMinMax")
    root = made(limit.inputs[0], "ElementWiseSquareRoot") if limit is not None else None
    total = made(root.inputs[0], "ReduceSum", "ReduceSumSquare") if root is not None else None
    if x is None or limit is None or total is None or x.shape != _shape(last):
        return None
    if total.type == "ReduceSumSquare":
        squares = total.inputs[0] is x
    else:
        square = made(total.inputs[0], _MULTIPLY, "ElementWisePower")
        squares = square is not None and square.inputs[0] is x
        if squares and square is not None:
            by = square.inputs[1]
            squares = by is x if square.type == _MULTIPLY else _is(by, 2)
    axes = tuple(sorted(int(a) for a in np.asarray(total.params["axes"]).reshape(-1)))
    least, most = (float(np.asarray(limit.params[k])) for k in ("min_value", "max_value"))
    exact = any(e is not None and e.quantization is not None for op in ops for e in op.inputs)
    if not squares or not axes or not least > 0 or most < 3e38 or exact:
        return None
    if not total.params.get("keep_dims") or not _closed(graph, ops, last):
        return None
    params: dict[str, object] = {"epsilon": np.float32(least), "axes": u32(axes)}
    return ops, Op("L2Norm", [x], list(last.outputs), params, last.name)


def _shape(op: Op) -> Shape | None:
    return None if op.outputs[0] is None else op.outputs[0].shape


def _is(edge: Edge | None, value: float) -> bool:
    if edge is None or edge.data is None or edge.data.size != 1 or edge.quantization is not None:
        return False
    return math.isclose(float(edge.data.reshape(-1)[0]), value, rel_tol=1e-6)


def _closed(graph: Graph, ops: list[Op], last: Op) -> bool:
    """Whether nothing else needs what lies before the last one."""
    ids = {id(op) for op in ops}
    between = [e for op in ops if op is not last for e in op.outputs if e is not None]
    return all(
        e not in graph.outputs and all(id(user) in ids for user in graph.consumers.get(e, []))
        for e in between
    )


def _written(graph: Graph, norm: Norm) -> list[Op] | None:
    """The operations that QNN has for it; None where it has none with these weights."""
    x, out = norm.x, norm.out
    source = graph.producer.get(x)
    inside = {id(op) for op in norm.ops}
    only_here = all(id(user) in inside for user in graph.consumers.get(x, []))
    if source is not None and source.type == "Transpose" and only_here:
        # The norm of what was transposed, transposed. Where that is transposed back nothing is
        # left of both, see `layouts`.
        turned = _turned(norm, source)
        if turned is not None:
            return turned
    found = _channels_first(graph, norm) or _in_the_middle(graph, norm)
    found = found or _plain(norm) or _grouped(graph, norm)
    if found is None and _is_one(norm.weight) and _is_zero(norm.bias):
        found = [_norm_of(norm, x, out, {"axes": u32(norm.axes)}, ())]
    return found


def _in_the_middle(graph: Graph, norm: Norm) -> list[Op] | None:
    """Of channels first that no Transpose has made, in a file whose convolutions have channels
    last: the sum that the norm of a residual block reads. `layouts` takes the transposes away."""
    split = graph.producer.get(norm.x)
    planes, rank = norm.x, len(norm.x.shape)
    if split is not None and split.type == "Reshape" and split.inputs[0] is not None:
        planes = split.inputs[0]
    elif norm.axes not in ((1,), tuple(range(2, rank))):
        return None
    rank = len(planes.shape)
    there, back = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    before = graph.producer.get(planes)
    turned_already = before is not None and before.type == "Transpose"
    if rank < 4 or turned_already or planes.quantization is not None:
        return None
    if not any(op.type == "Transpose" and _perm(op) == there for op in graph.ops):
        return None
    last = Edge(tuple(planes.shape[p] for p in there), planes.dtype)
    turn = Op("Transpose", [last], [planes], {"perm": u32(back)}, norm.ops[0].name)
    found = _turned(norm, turn) if planes is norm.x else _channels_first(graph, norm, turn)
    if found is None:
        return None
    return [Op("Transpose", [planes], [last], {"perm": u32(there)}, turn.name), *found]


def _perm(op: Op) -> tuple[int, ...]:
    return tuple(int(p) for p in np.asarray(op.params["perm"]).reshape(-1))


def _turned(norm: Norm, transpose: Op) -> list[Op] | None:
    source, perm = transpose.inputs[0], _perm(transpose)
    if source is None or source.quantization is not None:
        return None
    back = np.argsort(perm)

    def moved(values: float | np.ndarray) -> float | np.ndarray:
        if not isinstance(values, np.ndarray):
            return values
        wide = values.reshape((1,) * (len(perm) - values.ndim) + values.shape)
        return wide.transpose(back)

    before = Edge(source.shape, source.dtype)
    axes = tuple(sorted(perm[a] for a in norm.axes))
    inner = replace(
        norm, x=source, out=before, axes=axes, weight=moved(norm.weight), bias=moved(norm.bias)
    )
    found = _plain(inner)
    if found is None:
        return None
    return [*found, Op("Transpose", [before], [norm.out], dict(transpose.params), found[-1].name)]


def _norm_of(
    norm: Norm, x: Edge, out: Edge, params: dict[str, object], shape: Shape, type_: str = ""
) -> Op:
    """`shape`: of the weights, where it has any."""
    inputs: list[Edge | None] = [x]
    plain = _is_one(norm.weight) and _is_zero(norm.bias)
    if shape and (not plain or type_ == "InstanceNorm"):
        for values in (norm.weight, norm.bias):
            spread = _spread(values, shape)
            assert spread is not None
            inputs.append(Edge(shape, x.dtype, spread.astype(x.dtype)))
        if _is_zero(norm.bias):
            inputs.pop()
    name = norm.ops[0].name
    type_ = type_ or ("LayerNorm" if norm.centred else "RmsNorm")
    return Op(type_, inputs, [out], {"epsilon": np.float32(norm.epsilon), **params}, name)


def _has(norm: Norm, shape: Shape) -> bool:
    """Whether its weights are no more than some of this shape."""
    return all(_spread(values, shape) is not None for values in (norm.weight, norm.bias))


def _plain(norm: Norm) -> list[Op] | None:
    """Along the last axes, or over the pixels of an image."""
    shape, axes = norm.x.shape, norm.axes
    rank = len(shape)
    pixels = tuple(range(1, rank - 1))
    if norm.centred and rank > 2 and _has(norm, shape[-1:]):
        if axes == (*pixels, rank - 1):
            params: dict[str, object] = {"group": np.uint32(1)}
            return [_norm_of(norm, norm.x, norm.out, params, shape[-1:], "GroupNorm")]
        if axes == pixels and rank == 4:
            return [_norm_of(norm, norm.x, norm.out, {}, shape[-1:], "InstanceNorm")]
    if axes == tuple(range(axes[0], rank)) and _has(norm, shape[axes[0] :]):
        return [_norm_of(norm, norm.x, norm.out, {"axes": u32(axes)}, shape[axes[0] :])]
    return None


def _grouped(graph: Graph, norm: Norm) -> list[Op] | None:
    """Of [N, pixels.., C] seen as [N, pixels.., groups, C / groups]."""
    x, rank = norm.x, len(norm.x.shape)
    split = graph.producer.get(x)
    if split is None or split.type != "Reshape" or rank < 4 or not norm.centred:
        return None
    source, groups = split.inputs[0], x.shape[-2]
    if (
        norm.axes != (*range(1, rank - 2), rank - 1)
        or source is None
        or len(source.shape) < 3
        or (source.shape[0], source.shape[-1]) != (x.shape[0], groups * x.shape[-1])
        or source.quantization is not None
        or not _has(norm, x.shape[-2:])
    ):
        return None
    channels = source.shape[-1:]
    spread = [_spread(values, x.shape[-2:]) for values in (norm.weight, norm.bias)]
    weight, bias = (np.asarray(v).reshape(channels) for v in spread)
    whole = Edge(source.shape, x.dtype)
    inner = replace(norm, weight=weight, bias=bias)
    params: dict[str, object] = {"group": np.uint32(groups)}
    made = _norm_of(inner, source, whole, params, channels, "GroupNorm")
    return [made, Op("Reshape", [whole], [norm.out], {}, made.name)]


def _channels_first(graph: Graph, norm: Norm, turn: Op | None = None) -> list[Op] | None:
    """Of [N, pixels.., C] that `turn` transposes to [N, C, pixels..], seen as [N, groups, ...]."""
    x, rank = norm.x, len(norm.x.shape)
    split = graph.producer.get(x)
    planes = None if split is None or split.type != "Reshape" else split.inputs[0]
    if turn is None and planes is not None:
        turn = graph.producer.get(planes)
    source = None if turn is None or turn.type != "Transpose" else turn.inputs[0]
    if planes is None or source is None or turn is None or not norm.centred or rank < 3:
        return None
    inner_rank, groups = len(source.shape), x.shape[1]
    if (
        norm.axes != tuple(range(2, rank))
        or x.shape[0] != source.shape[0]
        or _perm(turn) != (0, inner_rank - 1, *range(1, inner_rank - 1))
        or source.shape[-1] % groups != 0
        or source.quantization is not None
        or not (_is_one(norm.weight) and _is_zero(norm.bias))
    ):
        return None
    whole, back = Edge(source.shape, x.dtype), Edge(planes.shape, x.dtype)
    params: dict[str, object] = {"group": np.uint32(groups)}
    made = _norm_of(norm, source, whole, params, (), "GroupNorm")
    return [
        made,
        Op("Transpose", [whole], [back], dict(turn.params), made.name),
        Op("Reshape", [back], [norm.out], {}, made.name),
    ]


def _is_one(values: float | np.ndarray) -> bool:
    return bool(np.all(np.abs(np.asarray(values) - 1) <= 1e-7))


def _is_zero(values: float | np.ndarray) -> bool:
    return not np.any(values)


# ---- scales and offsets behind a normalization -------------------------------------------------


def _scaled_shape(op: Op) -> Shape | None:
    """The shape of the weights, when these run over the last dimensions in order."""
    x = op.inputs[0]
    assert x is not None
    if op.type not in ("LayerNorm", "RmsNorm"):
        return x.shape[-1:]
    axes = tuple(int(a) for a in np.asarray(op.params["axes"]).reshape(-1))
    rank = len(x.shape)
    return x.shape[axes[0] :] if axes == tuple(range(axes[0], rank)) else None


def _spread(values: float | np.ndarray, shape: Shape) -> np.ndarray | None:
    """A constant that only changes along the last dimensions, which are `shape`."""
    array = np.asarray(values)
    own = array.shape[-len(shape) :]
    if own == shape and array.size == math.prod(shape):  # as nearly all are
        return array.reshape(shape)
    if any(d != 1 for d in array.shape[: -len(shape)]):
        return None
    if any(d not in (1, n) for d, n in zip(own[::-1], shape[::-1], strict=False)):
        return None
    return np.broadcast_to(array.reshape(own), shape)


def _constant(edge: Edge | None, shape: Shape, perm: list[int] | None) -> np.ndarray | None:
    """The values of a constant edge, spread over `shape`; behind a Transpose by `perm`."""
    if edge is None or edge.data is None or edge.quantization is not None:
        return None
    data = edge.data.reshape(edge.shape)
    if perm is not None and data.size > 1:
        wide = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
        data = wide.transpose(np.argsort(perm))
    return _spread(data, shape)


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


#: What may begin a chain that goes into the weights of a normalization.
_AFFINE = {_MULTIPLY, _ADD, "Batchnorm", "Transpose"}


def merge_affine(graph: Graph) -> None:
    """A multiplication or addition by constants for each channel behind a normalization is folded
    into its weights, as is a Batchnorm.

    Models converted from other frameworks write the scale of a normalization as nodes of its own.
    """
    dropped: set[int] = set()
    for op in graph.ops:
        if op.type not in SCALED or id(op) in dropped:
            continue
        x = op.inputs[0]
        if x is None or x.quantization is not None:
            continue  # what comes after it meets rounded numbers
        after = graph.only_consumer(op.outputs[0])
        if after is None or after.type not in _AFFINE:
            continue
        shape = _scaled_shape(op)
        found = None if shape is None else _weights(op, shape)
        if shape is None or found is None:
            continue
        w, c = found
        changed = False
        turn, perm = None, None  # a Transpose that the scales are behind
        while True:
            end = op if turn is None else turn
            out = end.outputs[0]
            after = graph.only_consumer(out)
            if turn is None and after is not None and after.type == "Transpose":
                turn, perm = after, [int(p) for p in np.asarray(after.params["perm"])]
                continue
            if after is None or out is None or out.quantization is not None:
                break
            if after.type not in (_MULTIPLY, _ADD, "Batchnorm") or after.inputs.count(out) != 1:
                break
            other = [e for e in after.inputs if e is not out]
            target = after.outputs[0]
            if (after.inputs[0] is not out and after.type == "Batchnorm") or target is None:
                break
            if turn is not None and after.type == "Batchnorm":
                break
            values = [_constant(e, shape, perm) for e in other if e]
            if not values or any(v is None for v in values) or target.shape != out.shape:
                break
            first = np.asarray(values[0], np.float64)
            if after.type == _ADD:
                c = c + first
            else:
                w, c = w * first, c * first
                if after.type == "Batchnorm" and len(values) > 1:
                    c = c + np.asarray(values[1], np.float64)
            end.outputs = [target]
            dropped.add(id(after))
            graph.producer[target] = end
            changed = True
        if changed:
            fresh = [Edge(shape, x.dtype, v.astype(x.dtype)) for v in (w, c)]
            op.inputs = [x, *fresh]
    if dropped:
        graph.keep(dropped)
