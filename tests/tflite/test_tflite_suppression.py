"""NON_MAX_SUPPRESSION, beside TFLite's own kernels: rows for as many boxes as the file wants."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.case import F32, I32, Case, k, v
from support.tflite.suppression import BOXES, SETTINGS, case


@pytest.mark.parametrize("sigma", [None, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("count", BOXES)
@pytest.mark.parametrize(("most", "overlap", "score"), SETTINGS)
def test_the_boxes_that_are_left(
    most: int, overlap: float, score: float, count: int, sigma: float | None
) -> None:
    data, feeds = case(most, overlap, score, count, sigma).build()
    found = reference.run(importer.load(data), feeds)
    wanted = reference.reference(data, feeds)
    for a, b in zip(found, wanted, strict=True):
        reference.close(a.reshape(b.shape), b)


def test_an_overlap_of_just_the_threshold_is_one() -> None:
    corners = [[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0.75, 1, 1]]
    given = [v(corners, F32), v([3, 2, 1], F32), k(3), k(0.5, F32), k(0, F32)]
    data, feeds = Case("NON_MAX_SUPPRESSION_V4", given, outputs=(I32, I32)).build()
    found, count = reference.run(importer.load(data), feeds)
    np.testing.assert_array_equal(found, [0, 2, 0])
    assert count == 2
    np.testing.assert_array_equal(found, reference.reference(data, feeds)[0])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (case(2000, 0.5, 0.1, 1100, sigma=0.5), "soft_nms_sigma"),
        (case(2000, 0.0, 0.1, 1100), "an overlap of 0"),
        (case(5, 1.5, 0.1, 9), "an overlap of 1.5"),
    ],
)
def test_what_a_graph_is_not_to_have_is_refused(made: Case, reason: str) -> None:
    with pytest.raises(UnsupportedOpError, match=reason):
        importer.load(made.build()[0])


def test_a_number_of_boxes_that_the_data_decide_is_refused() -> None:
    made = case(5, 0.5, 0.1, 9)
    data, _ = Case(made.op, [*made.inputs[:2], v(5), *made.inputs[3:]], outputs=(I32, I32)).build()
    with pytest.raises(UnsupportedOpError, match=r"the number of boxes \(input 2\) is computed"):
        importer.load(data)
