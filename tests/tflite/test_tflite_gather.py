"""StableHLO's gather, as its text defines it: LiteRT's kernel ends the process on most of these."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import tflite as importer
from support.tflite.case import Case, Given, k, v, x

#: The dimensions of the result that go through a slice, those of the input that are left out of
#: it, those that indices name, the one along which indices lie, and the sizes of a slice.
NAMES = ("offsetDims", "collapsedSliceDims", "startIndexMap", "indexVectorDim", "sliceSizes")
Fields = tuple[list[int], list[int], list[int], int, list[int]]
GATHERS: list[tuple[tuple[int, ...], list[object], Fields]] = [
    # one row each; one column; a row of two dimensions at once
    ((5, 4), [[1], [4], [0]], ([1], [0], [0], 1, [1, 4])),
    ((5, 4), [1, 3, 0], ([0], [1], [1], 1, [5, 1])),
    ((3, 4, 5), [[2, 1], [0, 3]], ([1], [0, 1], [0, 1], 1, [1, 1, 5])),
    # windows, which are moved inside; indices in another order, along the first dimension
    ((5, 6), [[1, 2], [4, 5], [-1, 0]], ([1, 2], [], [0, 1], 1, [2, 3])),
    ((5, 6), [[1, 4, 2], [2, 5, 0]], ([0, 1], [], [0, 1], 0, [2, 3])),
    ((3, 4, 5), [[2, 1], [0, 2]], ([0, 2], [2], [2, 0], 1, [2, 4, 1])),
    # indices in two dimensions, with what they name between
    ((4, 5), [[[1], [2], [0]], [[3], [3], [1]]], ([1], [0], [0], 2, [1, 5])),
    ((4, 5), [[1, 2, 0], [3, 3, 1]], ([0], [0], [0], 2, [1, 3])),
]


def gathered(values: np.ndarray, indices: np.ndarray, fields: Fields) -> np.ndarray:
    through, left_out, named, along, sizes = fields
    if along == indices.ndim:
        indices = indices[..., None]
    indices = np.moveaxis(indices, along, -1)
    slices = []
    for row in indices.reshape(-1, indices.shape[-1]):
        start = [0] * values.ndim
        for at, d in zip(row, named, strict=True):
            start[d] = int(np.clip(at, 0, values.shape[d] - sizes[d]))
        part = values[tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))]
        slices.append(part.squeeze(tuple(left_out)))
    rows = indices.shape[:-1]
    found = np.array(slices).reshape(*rows, *slices[0].shape)
    outer = [d for d in range(found.ndim) if d not in through]
    return np.moveaxis(found, range(found.ndim), [*outer, *through])


def case_of(shape: tuple[int, ...], indices: Given, fields: Fields) -> Case:
    options = dict(zip(NAMES, fields, strict=True))
    return Case("STABLEHLO_GATHER", [x(*shape), indices], "StablehloGatherOptions", options)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("shape", "indices", "fields"), GATHERS)
def test_slices_at_indices(
    shape: tuple[int, ...], indices: list[object], fields: Fields, constant: bool
) -> None:
    data, feeds = case_of(shape, (k if constant else v)(indices), fields).build()
    with qnnrt.Session(importer.load(data)) as session:
        (y,) = session.run(dict(zip(session.inputs, feeds, strict=True))).values()
    np.testing.assert_array_equal(y, gathered(feeds[0], np.array(indices), fields))


@pytest.mark.parametrize(
    "fields",
    [
        ([1], [0], [0], 1, [1, 5]),  # larger than the input
        ([1], [0], [0], 1, [2, 4]),  # left out, and not one
        ([1], [0], [0, 1], 1, [1, 4]),  # names more than there are
        ([1], [0], [2], 1, [1, 4]),
        ([1], [0], [0], 3, [1, 4]),
        ([1, 1], [0], [0], 1, [1, 4]),
        ([0, 1], [0], [0], 1, [1, 4]),
        ([1], [0, 1], [0], 1, [1, 4]),
        ([1], [0], [0], 1, [1]),
    ],
)
def test_a_damaged_gather_is_one_error(fields: Fields) -> None:
    data, _ = case_of((5, 4), k([[1], [4]]), fields).build()
    with pytest.raises(ModelError, match="STABLEHLO_GATHER"):
        importer.load(data)
