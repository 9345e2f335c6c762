"""Cuts, updates and reversals at places that are computed when the model runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.case import F32, I32, I64, Case, Given, k, v, x
from support.tflite.quantized import KINDS, quantize


def updates() -> Iterator[Case]:
    for kind in (I32, I64):
        for start in ([0, 0, 0], [1, 2, 0], [2, 1, 3], [9, -1, 2]):
            at = v(start, kind)
            for block in ((2, 3, 2), (1, 3, 6), (2, 5, 6), (4, 5, 6), (1, 1, 1)):
                yield Case("DYNAMIC_UPDATE_SLICE", [x(4, 5, 6), x(*block), at])
    integers = [x(4, 3, dtype=I32, high=99), x(2, 3, dtype=I32, high=99), v([1, 0])]
    yield Case("DYNAMIC_UPDATE_SLICE", integers, outputs=(I32,))


def slices() -> Iterator[Case]:
    for begin, size in (
        ([0, 0, 0], [4, 5, 6]),
        ([1, 2, 0], [2, 3, 6]),
        ([3, 0, 4], [1, 5, 2]),
        ([2, 4, 5], [1, 1, 1]),
    ):
        yield Case("SLICE", [x(4, 5, 6), v(begin), k(size)])
    yield Case("SLICE", [x(4, 5, dtype=I64), v([1, 3], I64), k([2, 2], I64)], outputs=(I64,))


def strided_slices() -> Iterator[Case]:
    for begin, end, fields in (
        ([0, 2, 0], [0, 3, 0], {"beginMask": 5, "endMask": 5, "shrinkAxisMask": 2}),
        ([-1, 0, 0], [0, 0, 0], {"beginMask": 6, "endMask": 6, "shrinkAxisMask": 1}),
        ([3, 4, -2], [4, 5, -1], {"shrinkAxisMask": 7}),
        ([2], [3], {"shrinkAxisMask": 1}),
        ([0, 4], [0, 5], {"ellipsisMask": 1, "shrinkAxisMask": 2}),
        ([0, 3, 1], [0, 4, 2], {"newAxisMask": 1, "shrinkAxisMask": 6}),
        ([1, 0], [2, 3], {"beginMask": 2, "shrinkAxisMask": 1}),
    ):
        constant_end = fields.get("endMask", 0) | fields["shrinkAxisMask"] != (1 << len(begin)) - 1
        last = (k if constant_end and "ellipsisMask" not in fields else v)(end)
        if "newAxisMask" in fields:
            last = v(end)
        ones = k([1] * len(begin))
        given = [x(4, 5, 6), v(begin), last, ones]
        yield Case("STRIDED_SLICE", given, "StridedSliceOptions", fields)


def reversals() -> Iterator[Case]:
    for seq, batch in ((1, 0), (0, 1), (2, 0), (1, 2)):
        fields = {"seqDim": seq, "batchDim": batch}
        for kind in (I32, I64):
            lengths = v([2, 3, 1] if batch < 2 else [0, 1, 3, 2], kind)
            given = [x(3, 3, 4), lengths]
            yield Case("REVERSE_SEQUENCE", given, "ReverseSequenceOptions", fields)


CASES = {
    f"{case.op} {i}": case
    for make in (updates, slices, strided_slices, reversals)
    for i, case in enumerate(make())
}


@pytest.mark.parametrize("name", CASES)
def test_places_that_inputs_give(name: str) -> None:
    data, feeds = CASES[name].build()
    reference.agree(data, feeds, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case",
    [
        Case("DYNAMIC_UPDATE_SLICE", [x(4, 5), x(2, 3), v([1, 2])]),
        Case("SLICE", [x(4, 5), v([1, 2]), k([2, 3])]),
        Case("REVERSE_SEQUENCE", [x(3, 4), v([2, 4, 1])], "ReverseSequenceOptions", {"seqDim": 1}),
    ],
    ids=lambda case: case.op,
)
def test_fixed_point_numbers_are_moved_as_they_are(case: Case, kind: str) -> None:
    q = quantize(case, kind)
    for found, exact in zip(reference.run(importer.load(q.data), q.feeds), q.exact, strict=True):
        np.testing.assert_array_equal(found, exact)


def test_a_slice_that_would_reach_beyond_its_input_is_moved_into_it() -> None:
    """TFLite stops there."""
    data, feeds = Case("SLICE", [x(4, 5), v([3, -2]), k([2, 3])]).build()
    (found,) = reference.run(importer.load(data), feeds)
    np.testing.assert_array_equal(found, feeds[0][2:4, 0:3])


def cache() -> bytes:
    """Rows that come one by one, and the sum of what is there: a decoder's cache."""
    b = ModelBuilder()
    kept = b.input((1, 8, 2, 3), name="cache")
    row, at = b.input((1, 1, 2, 3), name="row"), b.input((1,), I32, name="position")
    zero = b.const([0], I32)
    fields = {"axis": 0}
    (start,) = b.op("CONCATENATION", [zero, at, zero, zero], [((4,), I32)],
                    "ConcatenationOptions", **fields)  # fmt: skip
    (now,) = b.op("DYNAMIC_UPDATE_SLICE", [kept, row, start], [((1, 8, 2, 3), F32)])
    (total,) = b.op("SUM", [now, b.const([1], I32)], [((1, 2, 3), F32)], "ReducerOptions")
    b.output(now, total)
    return b.build()


def test_a_cache_of_a_decoder_fills_row_by_row() -> None:
    model = importer.load(cache())
    rng = np.random.default_rng(3)
    kept, rows = np.zeros((1, 8, 2, 3), F32), rng.standard_normal((8, 1, 1, 2, 3)).astype(F32)
    with qnnrt.Session(model) as session:
        for position, row in enumerate(rows):
            feeds = {"cache": kept, "row": row, "position": np.array([position], I32)}
            now, total = session.run(feeds).values()
            kept = np.array(now)
            np.testing.assert_allclose(total, rows[: position + 1, 0].sum(1).sum(0)[None], 1e-5)
    np.testing.assert_array_equal(kept[0], rows[:, 0, 0])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([x(4, 5), v([1, 2]), k([2, -1])], "a size that follows from the beginning"),
        ([x(4, 5), v([1, 2]), v([2, 1])], "the size .input 2. is computed"),
    ],
)
def test_a_size_that_the_data_decide_is_refused(given: list[Given], reason: str) -> None:
    data, _ = Case("SLICE", given).build()
    with pytest.raises(UnsupportedOpError, match=reason):
        importer.load(data)


@pytest.mark.parametrize("op", ["DYNAMIC_UPDATE_SLICE", "STRIDED_SLICE"])
def test_a_block_without_elements_is_refused(op: str) -> None:
    if op == "STRIDED_SLICE":
        fields = {"shrinkAxisMask": 1}
        given = [x(4, 0), v([1]), v([2]), k([1])]
        data, _ = Case(op, given, "StridedSliceOptions", fields).build()
    else:
        data, _ = Case(op, [x(4, 0), x(2, 0), v([1, 0])]).build()
    with pytest.raises(UnsupportedOpError, match="a block of"):
        importer.load(data)


def test_a_range_that_the_data_decide_is_refused() -> None:
    given = [x(4, 5), v([1, 2]), v([2, 4]), k([1, 1])]
    data, _ = Case("STRIDED_SLICE", given, "StridedSliceOptions", {"shrinkAxisMask": 1}).build()
    with pytest.raises(UnsupportedOpError, match=r"the beginning \(input 1\) is computed"):
        importer.load(data)
