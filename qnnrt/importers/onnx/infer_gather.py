"""Rules of reading and writing at indices."""

from __future__ import annotations

from collections.abc import Sequence

from .infer import (
    Found,
    axes_of,
    axis_attribute,
    data_of,
    exactly,
    infers,
    one_of,
    rank_of,
    same,
    single,
)
from .nodes import OnnxNode


@infers("Gather")
def _gather(n: OnnxNode) -> Found:
    x = n.input(0)
    axis = axis_attribute(n, 0, x.rank)
    return (*x.shape[:axis], *n.input(1).shape, *x.shape[axis + 1 :]), x.dtype


def _within(index: Sequence[int], shape: Sequence[int], axis: int) -> None:
    """Indices of single elements have the rank of the data, and lie inside but for `axis`."""
    fits = len(index) == len(shape) and all(
        i <= d or at == axis for at, (i, d) in enumerate(zip(index, shape, strict=True))
    )
    if not fits:
        raise ValueError(
            f"indices of shape {list(index)} for data of shape {list(shape)} along axis {axis}: "
            "their rank has to be one, and they may be longer along the axis only"
        )


@infers("GatherElements")
def _gather_elements(n: OnnxNode) -> Found:
    x, index = n.input(0), n.input(1)
    _within(index.shape, x.shape, axis_attribute(n, 0, x.rank))
    return index.shape, x.dtype


@infers("GatherND")
def _gather_nd(n: OnnxNode) -> Found:
    shape, index = rank_of(n, 0, 1), rank_of(n, 1, 1)
    batch, depth = n.integer("batch_dims"), index[-1]
    if not 0 <= batch < min(len(shape), len(index)):
        raise ValueError(
            f"batch_dims is {batch} for data {list(shape)} and indices {list(index)}; it has to be "
            f"one of 0 to {min(len(shape), len(index)) - 1}"
        )
    if index[:batch] != shape[:batch]:
        raise ValueError(
            f"data {list(shape)} and indices {list(index)} differ in the first {batch} dimensions"
        )
    if not 1 <= depth <= len(shape) - batch:
        raise ValueError(f"indices of shape {list(index)} for data of shape {list(shape)}")
    return (*index[:-1], *shape[batch + depth :]), n.input(0).dtype


@infers("Scatter", "ScatterElements")
def _scatter_elements(n: OnnxNode) -> Found:
    x, index = n.input(0), n.input(1)
    _reduction(n)
    _within(index.shape, x.shape, axis_attribute(n, 0, x.rank))
    exactly(n, 2, index.shape, "updates")
    return same(n)


@infers("ScatterND")
def _scatter_nd(n: OnnxNode) -> Found:
    shape, index = rank_of(n, 0, 1), rank_of(n, 1, 1)
    _reduction(n)
    depth = index[-1]
    if not 1 <= depth <= len(shape):
        raise ValueError(f"indices of shape {list(index)} for data of shape {list(shape)}")
    exactly(n, 2, (*index[:-1], *shape[depth:]), "updates")
    return same(n)


def _reduction(n: OnnxNode) -> None:
    one_of(n, "reduction", ("none", "add", "mul", "max", "min"), "none")


@infers("OneHot")
def _one_hot(n: OnnxNode) -> Found:
    index = n.input(0)
    single(n, 1, "depth")
    exactly(n, 2, (2,), "values")
    axis = axes_of([n.integer("axis", -1)], index.rank + 1)[0]
    depth = data_of(n, 1)
    assert depth is not None
    number = depth.reshape(()).item()
    # A depth may be a float; NaN is equal to no integer.
    if not 1 <= number < 2**31 or number != int(number):
        raise ValueError(f"depth is {number}; it has to be a positive integer")
    return (*index.shape[:axis], int(number), *index.shape[axis:]), n.input(2).dtype
