"""StableHLO's scatter and reduction over windows, beside LiteRT's kernels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.case import F32, I32, I64, Case, k, x
from support.tflite.stablehlo import (
    FUNCTIONS,
    JOINS,
    OWN_WINDOWS,
    SCATTERS,
    WINDOWS,
    Scatter,
    scattered,
    windows,
)

SEED = 20261127


# ---- scatter


def values(given: Scatter, dtype: type = F32) -> list[np.ndarray]:
    r = np.random.default_rng(SEED)
    there, new = (r.integers(-9, 10, shape).astype(dtype) for shape in (given[0], given[2]))
    return [there, np.array(given[1], I32), new]


@pytest.mark.parametrize("dtype", [F32, I32])
@pytest.mark.parametrize("kind", [None, *JOINS])
@pytest.mark.parametrize("given", SCATTERS)
def test_windows_at_indices(given: Scatter, kind: str | None, dtype: type) -> None:
    data, feeds = scattered(given, kind, dtype), values(given, dtype)
    reference.agree(data, feeds, rtol=0)


def test_indices_without_a_dimension_for_rows() -> None:
    """LiteRT's kernel reads beyond them."""
    given: Scatter = ((5, 4), [1, 3], (2, 4), [1], [0], [0], 1)
    there, indices, new = values(given)
    (found,) = reference.run(importer.load(scattered(given, None)), [there, indices, new])
    wanted = there.copy()
    wanted[[1, 3]] = new
    np.testing.assert_array_equal(found, wanted)


def test_a_scatter_of_nothing_is_refused() -> None:
    given: Scatter = ((5, 0), [[0], [2]], (2, 0), [1], [0], [0], 1)
    with pytest.raises(UnsupportedOpError, match="0 elements"):
        importer.load(scattered(given, None))


def test_what_meets_at_one_place_is_joined() -> None:
    given: Scatter = ((5, 4), [[1], [4], [1]], (3, 4), [1], [0], [0], 1)
    for kind in JOINS:
        reference.agree(scattered(given, kind), values(given), rtol=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        ((5, 4), [[1], [4]], (3, 4), [1], [0], [0], 1),  # more updates than indices
        ((5, 4), [[1], [4]], (2, 5), [1], [0], [0], 1),  # a larger window
        ((5, 4), [[1], [4]], (2, 4), [1], [0], [0, 1], 1),  # names more than there are
        ((5, 4), [[1], [4]], (2, 4), [1], [], [0], 1),
        ((5, 4), [[1], [4]], (2, 4), [1], [0], [2], 1),
        ((5, 4), [[1], [4]], (2, 4), [1], [0], [0], 3),
        ((5, 4), [[1], [4]], (2, 4), [1, 1], [0], [0], 1),
    ],
)
def test_a_damaged_scatter_is_one_error(given: Scatter) -> None:
    with pytest.raises(ModelError, match="STABLEHLO_SCATTER"):
        importer.load(scattered(given, None))


# ---- windows


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("fields", WINDOWS)
def test_reductions_over_windows(fields: tuple[list[int], ...], kind: str) -> None:
    r = np.random.default_rng(SEED)
    for first in (JOINS[kind], 0.75):
        data = windows(fields, kind, first)
        reference.agree(data, [r.uniform(0.5, 1.5, (2, 6, 7)).astype(F32)])


@pytest.mark.parametrize("kind", JOINS)
def test_reductions_of_integers(kind: str) -> None:
    limits = np.iinfo(I32)
    first = {"STABLEHLO_MAXIMUM": limits.min, "STABLEHLO_MINIMUM": limits.max}
    q = np.random.default_rng(SEED).integers(-3, 4, (2, 6, 7)).astype(I32)
    for fields in WINDOWS:
        data = windows(fields, kind, first.get(kind, int(kind == "STABLEHLO_MULTIPLY")), I32)
        reference.agree(data, [q])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tflites_own_windows(function: int) -> None:
    for size, stride, apart in OWN_WINDOWS:
        numbers = [k(size, I64), k(stride, I64), k(apart, I64)]
        given = [x(2, 6, 7, low=0.5, high=1.5), k(FUNCTIONS[function], F32), *numbers]
        options = {"reduceFunction": function}
        data, feeds = Case("REDUCE_WINDOW", given, "ReduceWindowOptions", options).build()
        reference.agree(data, feeds)


def test_a_long_window_far_apart_is_few_operations() -> None:
    fields = ([1, 1, 90], [1, 1, 80], [1, 1, 1], [1, 1, 1], [0, 0, 0, 0, 100, 100])
    data = windows(fields, "STABLEHLO_ADD", 0)
    q = np.random.default_rng(SEED).uniform(-1, 1, (2, 6, 7)).astype(F32)
    assert sum(reference.agree(data, [q]).op_counts().values()) < 40


def test_a_padding_beyond_32_bits_is_an_error() -> None:
    data = windows(([1, 2, 1], [1] * 3, [1] * 3, [1] * 3, [0, 0, -(2**62), 0, 0, 0]), "ADD", 0)
    with pytest.raises(ModelError, match="a padding beyond 32 bits"):
        importer.load(data)


def test_a_window_without_a_place_is_refused() -> None:
    data = windows(([1, 8, 1], [1] * 3, [1] * 3, [1] * 3, [0] * 6), "STABLEHLO_ADD", 0)
    with pytest.raises(UnsupportedOpError, match=r"a window of 8 in \[2, 6, 7\], which has"):
        importer.load(data)


# ---- computations


@pytest.mark.parametrize("fused", [False, True])
def test_a_computation_of_more_is_refused(fused: bool) -> None:
    b = ModelBuilder()
    given = [b.input((3, 4)), b.const(0, F32)]
    b.output(*b.op("STABLEHLO_REDUCE_WINDOW", given, [((), F32)], "StablehloReduceWindowOptions",
                   windowDimensions=[1, 2], bodySubgraphIndex=1))  # fmt: skip
    b.subgraph("computation")
    there, new = b.input(()), b.input(())
    if not fused:
        (new,) = b.op("MUL", [new, new], [((), F32)], "MulOptions")
    fields = {"fusedActivationFunction": int(fused)}
    b.output(*b.op("ADD", [there, new], [((), F32)], "AddOptions", **fields))
    with pytest.raises(UnsupportedOpError, match="subgraph 1, is not one operation on both"):
        importer.load(b.build())


def test_a_computation_that_is_not_there_is_an_error() -> None:
    b = ModelBuilder()
    given = [b.input((3, 4)), b.const(0, F32)]
    b.output(*b.op("STABLEHLO_REDUCE_WINDOW", given, [((), F32)], "StablehloReduceWindowOptions",
                   windowDimensions=[1, 2], bodySubgraphIndex=7))  # fmt: skip
    with pytest.raises(ModelError, match="it names subgraph 7; there are 1"):
        importer.load(b.build())
