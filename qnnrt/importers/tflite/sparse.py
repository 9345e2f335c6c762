"""Constants that a file stores without their zeros.

Such a tensor is a tree: a level for each of its dimensions, and for each dimension of the blocks
that some of them are cut into, in the order of traversal. Below a node of a dense level lies every
index; below one of a compressed level (CSR) lie those that its segment of an array names. The
leaves are the elements that are stored. From the schema's description of ``SparsityParameters``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from .reader import Reader

_VECTORS: dict[int, type] = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}


@dataclass(frozen=True)
class Sparse:
    """The elements that are stored, and where each of them is in the dense tensor."""

    values: np.ndarray
    places: np.ndarray  # of int64, by the row-major order of the dense tensor

    def dense(self, shape: tuple[int, ...]) -> np.ndarray:
        """All elements; what is not stored is 0."""
        found = np.zeros(math.prod(shape), self.values.dtype)
        found[self.places] = self.values
        return found.reshape(shape)


def read_sparse(
    reader: Reader,
    table: Any,
    raw: np.ndarray,
    shape: tuple[int, ...],
    dtype: np.dtype,
    what: str,
) -> Sparse:
    """A constant of `dtype` and `shape`, whose elements `raw` lie where `table` says.

    Raises `ModelError` where a ``SparsityParameters`` contradicts itself or the shape.
    """
    sizes, steps = _levels(reader, table, shape, what)
    stored, odd = divmod(raw.size, dtype.itemsize)
    if odd:
        raise reader.fail(f"{what} stores {raw.size} bytes of {dtype.name}")
    places = np.zeros(1, np.int64)
    levels = list(reader.tables(table, "DimMetadata", f"the dimensions of {what}"))
    for i, (level, size, step) in enumerate(zip(levels, sizes, steps, strict=True)):
        named = f"level {i} of sparse {what}"
        if int(level.Format()) == tflite.DimensionType.DENSE:
            if int(level.DenseSize()) != size:
                raise reader.fail(f"{named} has {level.DenseSize()} indices for {size}")
            if places.size * size > math.prod(shape):
                raise reader.fail(f"{named} has more elements than {list(shape)}")
            below = np.tile(np.arange(size), places.size)
            counts: Any = size
        else:
            segments = _vector(reader, level, "ArraySegments", named)
            below = _vector(reader, level, "ArrayIndices", named)
            counts = np.diff(segments)
            if (
                segments.size != places.size + 1
                or segments[0] != 0
                or segments[-1] != below.size
                or (counts < 0).any()
            ):
                raise reader.fail(f"{named} has segments that do not divide its indices")
            if below.size and (below.min() < 0 or below.max() >= size):
                raise reader.fail(f"{named} has an index outside of its {size}")
        places = np.repeat(places, counts) + below * step
    if places.size != stored:
        raise reader.fail(f"{what} stores {stored} elements and says where {places.size} are")
    return Sparse(np.frombuffer(raw.tobytes(), dtype), places)


def _levels(
    reader: Reader, table: Any, shape: tuple[int, ...], what: str
) -> tuple[list[int], list[int]]:
    """Of each level, as it is traversed: its indices, and the elements between two of them."""
    rank = len(shape)
    if any(d < 0 for d in shape):
        raise reader.fail(f"{what} is a constant of shape {list(shape)}")
    order = reader.ints(table, "TraversalOrder", f"the traversal of {what}")
    blocked = reader.ints(table, "BlockMap", f"the blocks of {what}")
    count = rank + len(blocked)
    if (
        sorted(order) != list(range(count))
        or table.DimMetadataLength() != count
        or len(set(blocked)) != len(blocked)
        or not set(blocked) <= set(range(rank))
    ):
        raise reader.fail(f"{what} is sparse in dimensions that it does not have")
    sizes = list(shape)
    steps = [math.prod(shape[d + 1 :]) for d in range(rank)]
    for k, dim in enumerate(blocked):
        block = int(table.DimMetadata(order.index(rank + k)).DenseSize())
        if block < 1 or shape[dim] % block:
            raise reader.fail(f"{what} has blocks of {block} in a dimension of {shape[dim]}")
        sizes.append(block)
        steps.append(steps[dim])
        sizes[dim] //= block
        steps[dim] *= block
    return [sizes[d] for d in order], [steps[d] for d in order]


def _vector(reader: Reader, level: Any, field: str, what: str) -> np.ndarray:
    """A vector of indices, whatever its integers are, as int64."""
    kind = _VECTORS.get(int(getattr(level, f"{field}Type")()))
    raw = getattr(level, field)()
    if kind is None or raw is None:
        raise reader.fail(f"{what} has no {field}")
    vector = kind()
    vector.Init(raw.Bytes, raw.Pos)
    count = reader.spend(vector.ValuesLength(), 1, f"{field} of {what}")
    return np.array(vector.ValuesAsNumpy() if count else [], np.int64)
