"""Models with StableHLO's scatter and reduction over windows."""

from __future__ import annotations

import numpy as np

from support.tflite.builder import ModelBuilder
from support.tflite.case import F32, I32

#: What a subgraph does with two values; where sums begin.
JOINS = {
    "STABLEHLO_ADD": 0.0,
    "STABLEHLO_MULTIPLY": 1.0,
    "STABLEHLO_MAXIMUM": -np.inf,
    "STABLEHLO_MINIMUM": np.inf,
}


def computation(b: ModelBuilder, kind: str | None, dtype: type = F32) -> None:
    """A subgraph of one operator, or one that gives what comes."""
    b.subgraph("computation")
    there, new = b.input((), dtype), b.input((), dtype)
    b.output(*([new] if kind is None else b.op(kind, [there, new], [((), dtype)])))


#: The shape, indices, the shape of updates, their window's dimensions, dimensions that no window
#: has, dimensions that indices name, and the one along which they lie.
Scatter = tuple[
    tuple[int, ...], list[object], tuple[int, ...], list[int], list[int], list[int], int
]
SCATTERS: list[Scatter] = [
    ((5, 4), [[1], [4], [0]], (3, 4), [1], [0], [0], 1),  # rows
    ((5, 4), [[1], [9], [-1]], (3, 4), [1], [0], [0], 1),  # some of them beyond
    ((5, 4), [[1, 2], [4, 3], [0, 0]], (3,), [], [0, 1], [0, 1], 1),
    ((5, 6), [[1, 2], [0, 0], [3, 1]], (3, 2, 3), [1, 2], [], [0, 1], 1),
    ((5, 6), [[4, 5], [-1, 2], [2, -2]], (3, 2, 3), [1, 2], [], [0, 1], 1),  # parts of windows
    ((3, 4, 5), [[0, 1], [2, 3]], (4, 2), [0], [0, 2], [0, 2], 1),
    ((3, 4, 5), [[0, 2], [1, 3]], (4, 2), [0], [0, 2], [0, 2], 0),
    ((4, 3), [[[0], [2]], [[3], [1]]], (2, 2, 3), [2], [0], [0], 2),
]


def scattered(given: Scatter, kind: str | None, dtype: type = F32) -> bytes:
    shape, indices, updates, window, inserted, named, along = given
    b = ModelBuilder()
    inputs = [b.input(shape, dtype), b.input(np.shape(indices), I32), b.input(updates, dtype)]
    fields = {
        "updateWindowDims": window,
        "insertedWindowDims": inserted,
        "scatterDimsToOperandDims": named,
        "indexVectorDim": along,
        "updateComputationSubgraphIndex": 1,
    }
    b.output(*b.op("STABLEHLO_SCATTER", inputs, [(shape, dtype)], "StablehloScatterOptions",
                   **fields))  # fmt: skip
    computation(b, kind, dtype)
    return b.build()


#: Sizes, strides, distances in the input and in a window, and padding before and after.
WINDOWS = [
    ([1, 2, 3], [1, 2, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0, 0, 1, 1]),
    ([2, 5, 1], [1, 1, 1], [1, 1, 2], [1, 1, 1], [0, 0, 4, 0, 0, 0]),
    ([2, 6, 7], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0] * 6),
    ([1, 2, 3], [1, 1, 2], [1, 2, 1], [1, 2, 2], [0, 0, 1, 1, -1, 2]),
    ([1, 1, 7], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0, 0, 6, 0]),  # a running sum
    ([1, 6, 1], [1, 1, 1], [1, 1, 1], [1, 2, 1], [0, 0, 9, 3, 0, 0]),
]


def windows(fields: tuple[list[int], ...], kind: str, first: float, dtype: type = F32) -> bytes:
    names = ("windowDimensions", "windowStrides", "baseDilations", "windowDilations", "padding")
    b = ModelBuilder()
    given = [b.input((2, 6, 7), dtype), b.const(first, dtype)]
    options = dict(zip(names, fields, strict=True))
    b.output(*b.op("STABLEHLO_REDUCE_WINDOW", given, [((), dtype)], "StablehloReduceWindowOptions",
                   bodySubgraphIndex=1, **options))  # fmt: skip
    computation(b, kind, dtype)
    return b.build()


#: Of TFLite's own operator: sizes, strides and distances.
OWN_WINDOWS = [([1, 2, 3], [1, 2, 1], [1, 1, 2]), ([2, 5, 1], [1, 1, 1], [1, 1, 1])]
#: ReduceWindowFunction -> where it begins.
FUNCTIONS = {1: 0.0, 2: 1.0, 3: np.inf, 4: -np.inf}

#: How many models the tests have of each operator.
COUNTS = {
    "STABLEHLO_SCATTER": 2 * len(SCATTERS) * (1 + len(JOINS)),
    "STABLEHLO_REDUCE_WINDOW": 3 * len(WINDOWS) * len(JOINS),
    "REDUCE_WINDOW": len(OWN_WINDOWS) * len(FUNCTIONS),
}
