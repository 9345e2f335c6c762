"""Reductions, positions of extremes, cumulative sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..shorthand import u32
from .common import cast
from .nodes import Damaged, Result, TfliteNode, Unsupported, axis_of, lowers
from .values import Value

if TYPE_CHECKING:
    from .lower import Lowering

_REDUCE = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_PROD": "ReduceProd",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
}


def _reduced(c: Lowering, node: TfliteNode, type_: str, x: Value) -> Value:
    axes = sorted({axis_of(a, x.rank) for a in node.ints(1, "the axes")})
    keep = node.options.flag("KeepDims")
    if not axes or x.rank == 0:
        return c.b.op("Reshape", [x], x.shape)
    kept = [1 if i in axes else d for i, d in enumerate(x.shape)]
    shape = kept if keep else [d for i, d in enumerate(x.shape) if i not in axes]
    # QNN has no tensors of rank 0: a full reduction keeps its dimensions, then loses them.
    out = c.b.op(
        type_,
        [x],
        shape or kept,
        axes=u32(axes),
        keep_dims=np.bool_(keep or not shape),
    )
    return c.b.reshape(out, shape)


def _register() -> None:
    for op, type_ in _REDUCE.items():

        def reduce(c: Lowering, node: TfliteNode, type_: str = type_) -> Result:
            return _reduced(c, node, type_, node.input())

        lowers(op, to=type_, options="ReducerOptions")(reduce)


_register()


@lowers("REDUCE_ANY", "REDUCE_ALL", to="ReduceMax, ReduceMin, Cast", options="ReducerOptions")
def reduce_bool(c: Lowering, node: TfliteNode) -> Result:
    """The greatest or the least of 0 and 1."""
    type_ = "ReduceMax" if node.op == "REDUCE_ANY" else "ReduceMin"
    numbers = cast(c, node.input(), np.uint8)
    return cast(c, _reduced(c, node, type_, numbers), np.bool_)


@lowers("ARG_MAX", "ARG_MIN", to="Argmax, Argmin")
def arg_extreme(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    axis = axis_of(node.scalar(1, "the axis"), x.rank)
    if x.rank == 0:
        raise Damaged("a scalar has no axis")
    if x.dtype.kind == "b":
        raise Unsupported("booleans")
    type_ = "Argmax" if node.op == "ARG_MAX" else "Argmin"
    shape = [d for i, d in enumerate(x.shape) if i != axis]
    kept = [1 if i == axis else d for i, d in enumerate(x.shape)]
    out = c.b.op(
        type_,
        [x],
        shape or kept,
        np.int32,
        axis=np.uint32(axis),
        keep_dims=np.bool_(not shape),
    )
    return cast(c, c.b.reshape(out, shape), node.dtype())


@lowers("CUMSUM", to="CumulativeSum", options="CumsumOptions")
def cumsum(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return c.b.op(
        "CumulativeSum",
        [x],
        x.shape,
        axis=np.uint32(axis_of(node.scalar(1, "the axis"), x.rank)),
        exclusive=np.bool_(node.options.flag("Exclusive")),
        reverse=np.bool_(node.options.flag("Reverse")),
    )


@lowers("TOPK_V2", to="TopK")
def top_k(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    k = node.scalar(1, "k")
    if x.rank == 0 or not 1 <= k <= x.shape[-1]:
        raise Damaged(f"the {k} largest of {list(x.shape)}")
    shape = (*x.shape[:-1], k)
    values, at = c.b.ops_of(
        "TopK", [x], [(shape, x.dtype), (shape, np.dtype(np.int32))], k=np.uint32(k)
    )
    return [values, cast(c, at, node.dtype(1)) if len(node.outputs) > 1 else at]
