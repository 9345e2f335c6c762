"""Rules of matrix products, recurrent layers, reductions and sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .einsum import equation
from .infer import (
    INT64,
    Found,
    Shape,
    axes_of,
    axis_attribute,
    broadcast,
    exactly,
    given_or_input,
    infers,
    list_of,
    one_of,
    one_way,
    rank_of,
    same,
    single,
)
from .nodes import OnnxNode


def product_shape(a: Sequence[int], b: Sequence[int]) -> Shape:
    """The shape of numpy's matmul."""
    if not a or not b:
        raise ValueError("a product with a scalar")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(f"cannot multiply {list(a)} by {list(b)}")
    rows = tuple(a[-2:-1])
    columns = tuple(b[-1:]) if len(b) > 1 else ()
    return (*broadcast(a[:-2], b[:-2]), *rows, *columns)


@infers("MatMul")
def _matmul(n: OnnxNode) -> Found:
    return product_shape(n.input(0).shape, n.input(1).shape), n.input(0).dtype


@infers("MatMulInteger")
def _matmul_integer(n: OnnxNode) -> Found:
    a, b = n.input(0).shape, n.input(1).shape
    for index, along, name in ((2, a[-2:-1], "a_zero_point"), (3, b[-1:], "b_zero_point")):
        zeros = n.optional(index)
        if zeros is not None and zeros.rank < 2 and zeros.shape not in ((), (1,)):
            exactly(n, index, along, name)
    return product_shape(a, b), np.dtype(np.int32)


@infers("Gemm")
def _gemm(n: OnnxNode) -> Found:
    a, b = rank_of(n, 0, 2, 2), rank_of(n, 1, 2, 2)
    a = a[::-1] if n.integer("transA") else a
    b = b[::-1] if n.integer("transB") else b
    shape = product_shape(a, b)
    if n.has(2):
        one_way(n.input(2).shape, shape, "C")
    return shape, n.input(0).dtype


@infers("Einsum")
def _einsum(n: OnnxNode) -> Found:
    shapes = [n.input(i).shape for i in range(len(n.inputs))]
    _, result, sizes = equation(n.text("equation"), shapes)
    return tuple(sizes[letter] for letter in result), n.input(0).dtype


@infers("GRU", "LSTM", "RNN")
def _recurrent(n: OnnxNode) -> Found:
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[n.op]
    first, second, size = rank_of(n, 0, 3, 3)
    last = bool(n.integer("layout"))
    steps, batch = (second, first) if last else (first, second)
    direction = one_of(n, "direction", ("forward", "reverse", "bidirectional"), "forward")
    ways = 2 if direction == "bidirectional" else 1
    hidden = rank_of(n, 2, 3, 3)[2]
    if n.integer("hidden_size", hidden) != hidden or hidden < 1:
        raise ValueError(f"hidden_size is {n.integer('hidden_size')}; R has {hidden}")
    exactly(n, 1, (ways, gates * hidden, size), "W")
    exactly(n, 2, (ways, gates * hidden, hidden), "R")
    exactly(n, 3, (ways, 2 * gates * hidden), "B")
    exactly(n, 4, (batch,), "sequence_lens")
    lengths = n.input(4).data if n.has(4) else None
    if lengths is not None and not np.all((lengths >= 0) & (lengths <= steps)):
        raise ValueError(f"a length (sequence_lens) is not one of 0 to {steps}")
    state = (batch, ways, hidden) if last else (ways, batch, hidden)
    exactly(n, 5, state, "initial_h")
    exactly(n, 6, state, "initial_c")
    exactly(n, 7, (ways, 3 * hidden), "P")
    whole = (batch, steps, ways, hidden) if last else (steps, ways, batch, hidden)
    dtype = n.input(0).dtype
    return [(whole, dtype), (state, dtype), (state, dtype)]


# ---- reductions --------------------------------------------------------------------------------


@infers(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
def _reduce(n: OnnxNode) -> Found:
    x = n.input(0)
    given = given_or_input(n, "axes", 1)
    if not given and n.integer("noop_with_empty_axes"):
        return same(n)
    # An axis may be named twice: some exporters do.
    axes = {axes_of([a], x.rank)[0] for a in given or range(x.rank)}
    if n.integer("keepdims", 1):
        return tuple(1 if i in axes else d for i, d in enumerate(x.shape)), x.dtype
    return tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype


@infers("ArgMax", "ArgMin")
def _arg_extreme(n: OnnxNode) -> Found:
    shape = n.input(0).shape
    axis = axis_attribute(n, 0, len(shape))
    if not shape[axis]:
        raise ValueError(f"dimension {axis} of {list(shape)} is empty")
    kept = (1,) if n.integer("keepdims", 1) else ()
    return (*shape[:axis], *kept, *shape[axis + 1 :]), INT64


@infers("TopK")
def _top_k(n: OnnxNode) -> Found:
    x = n.input(0)
    axis = axis_attribute(n, -1, x.rank)
    if "k" in n.attrs:
        count = n.integer("k")
    else:
        single(n, 1, "K")
        count = (list_of(n, 1) or [0])[0]
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"k is {count}; dimension {axis} of {list(x.shape)} has fewer")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return [(shape, x.dtype), (shape, INT64)]


@infers("CumSum")
def _cumulative_sum(n: OnnxNode) -> Found:
    single(n, 1, "axis")
    axis = n.input(1).data
    if axis is not None:
        axes_of(axis.ravel().tolist(), n.input(0).rank)
    return same(n)
