"""NonMaxSuppression: every type, ties, limits, and each rule broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support import reference
from support.one_node import KERNELS, run_op

RNG = np.random.default_rng


def boxes_of(seed: int, batches: int, count: int) -> np.ndarray:
    """Boxes that overlap, their corners in any order, some without an area."""
    r = RNG(seed)
    first = r.uniform(0, 20, (batches, count, 2))
    other = first + r.uniform(-8, 8, (batches, count, 2))
    other[:, ::7, 0] = first[:, ::7, 0]
    return np.concatenate([first, other], 2).astype(np.float32)


def suppressed(
    boxes: np.ndarray, scores: np.ndarray, **params: Any
) -> tuple[np.ndarray, np.ndarray]:
    """What the cpu backend gives, the same with every kind of kernel."""
    batches, classes, count = scores.shape
    rows = batches * classes * min(int(params["max_boxes_selected"]), count)
    types = [np.int32, np.uint32]
    found = [
        run_op(
            "NonMaxSuppression", [boxes, scores], [(rows, 3), (1,)], params, dtype=types, kernels=k
        )
        for k in KERNELS
    ]
    for one in found:
        np.testing.assert_array_equal(one[0], found[0][0])
        np.testing.assert_array_equal(one[1], found[0][1])
    return found[0][0], found[0][1]


@pytest.mark.parametrize("limit", [1, 5, 200])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("threshold", [None, 0.0, 0.6, 2.0])
def test_boxes_are_chosen_as_the_definition_says(
    limit: int, overlap: float, threshold: float | None
) -> None:
    boxes, scores = boxes_of(1, 2, 150), RNG(2).normal(size=(2, 3, 150)).astype(np.float32)
    params = {"iou_threshold": np.float32(overlap), "max_boxes_selected": np.uint32(limit)}
    if threshold is not None:
        params["score_threshold"] = np.float32(threshold)
    found, count = suppressed(boxes, scores, **params)
    rows, number = reference.of("NonMaxSuppression", [boxes, scores], params)
    np.testing.assert_array_equal(found, rows)
    assert count == number


def test_of_equal_scores_the_lower_index_comes_first() -> None:
    boxes = np.zeros((1, 40, 4), np.float32)
    boxes[0, :, 0] = np.arange(40)
    boxes[0, :, 2:] = boxes[0, :, :2] + 0.5
    scores = np.round(RNG(0).random((1, 2, 40)) * 4).astype(np.float32)
    params = {"iou_threshold": np.float32(0.5), "max_boxes_selected": np.uint32(40)}
    found, (count,) = suppressed(boxes, scores, **params)
    wanted = [
        [0, c, b] for c in range(2) for b in np.argsort(-scores[0, c], kind="stable")
        if scores[0, c, b] > 0
    ]  # fmt: skip
    assert found[:count].tolist() == wanted
    assert not found[count:].any()


def test_scores_that_are_no_numbers_and_boxes_without_end() -> None:
    """NaN is above no threshold, and suppresses nothing; the rest is as if it were not there."""
    boxes, scores = boxes_of(3, 1, 30), RNG(4).random((1, 1, 30)).astype(np.float32)
    scores[0, 0, ::3] = np.nan
    boxes[0, 1] = np.nan
    boxes[0, 2] = [-np.inf, -np.inf, np.inf, np.inf]
    params = {"iou_threshold": np.float32(0.4), "max_boxes_selected": np.uint32(30)}
    found, (count,) = suppressed(boxes, scores, **params)
    kept = found[:count, 2].tolist()
    assert 1 in kept
    assert 2 in kept
    assert not any(b % 3 == 0 for b in kept)
    rest = [i for i in range(30) if i % 3 and i > 2]
    alone, (fewer,) = suppressed(boxes[:, rest], scores[:, :, rest], **params)
    assert [b for b in kept if b > 2] == [rest[i] for i in alone[:fewer, 2]]


@pytest.mark.parametrize("threads", [1, 4])
def test_thousands_of_boxes_and_many_classes(threads: int) -> None:
    """Whoever computes a class; as one class after the other."""
    boxes, scores = boxes_of(5, 1, 3000), RNG(6).random((1, 24, 3000)).astype(np.float32)
    params = {"iou_threshold": np.float32(0.5), "score_threshold": np.float32(0.5),
              "max_boxes_selected": np.uint32(200)}  # fmt: skip
    found, count = run_op(
        "NonMaxSuppression", [boxes, scores], [(24 * 200, 3), (1,)], params,
        dtype=[np.int32, np.uint32], threads=threads,
    )  # fmt: skip
    at = 0
    for label in range(24):
        one, (number,) = suppressed(boxes, scores[:, label : label + 1], **params)
        one[:, 1] = label
        np.testing.assert_array_equal(found[at : at + number], one[:number])
        at += number
    assert count == at


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int16"])
def test_narrow_numbers_are_what_they_stand_for(dtype: str) -> None:
    r = RNG(7)
    params = {"iou_threshold": np.float32(0.3), "max_boxes_selected": np.uint32(20),
              "score_threshold": np.float32(0.2)}  # fmt: skip
    encodings: dict[str, Quantization | None] = {}
    if dtype == "float16":
        boxes, scores = boxes_of(8, 1, 60).astype(dtype), r.random((1, 2, 60)).astype(dtype)
        real = boxes, scores
    else:
        boxes = r.integers(0, 100, (1, 60, 4)).astype(dtype)
        scores = r.integers(0, 100, (1, 2, 60)).astype(dtype)
        encodings = {"in0": Quantization(0.25, -10), "in1": Quantization(0.01, 0)}
        real = ((boxes - 10.0) * np.float32(0.25)), scores * np.float32(0.01)
    found, count = run_op(
        "NonMaxSuppression", [boxes, scores], [(40, 3), (1,)], params,
        dtype=[np.int32, np.uint32], encodings=encodings,
    )  # fmt: skip
    rows, number = reference.of("NonMaxSuppression", list(real), params)
    np.testing.assert_array_equal(found, rows)
    assert count == number


@pytest.mark.parametrize(
    ("shapes", "change", "message"),
    [
        (((1, 8, 4), (1, 2, 8), (6, 3)), {}, r"\[16, 3\]"),
        (((1, 7, 4), (1, 2, 8), (16, 3)), {}, "boxes"),
        (((1, 8, 5), (1, 2, 8), (16, 3)), {}, "boxes"),
        (((2, 8, 4), (1, 2, 8), (16, 3)), {}, "boxes"),
        (((1, 8, 4), (1, 2, 8), (16, 3)), {"max_boxes_selected": np.uint32(0)}, "max_boxes_sel"),
        (((1, 8, 4), (1, 2, 8), (16, 3)), {"iou_threshold": np.float32(1.5)}, r"\[0, 1\], got 1.5"),
        (((1, 8, 4), (1, 2, 8), (16, 3)), {"iou_threshold": np.float32("nan")}, r"\[0, 1\]"),
        (((1, 8, 4), (1, 2, 8), (16, 3)), {"iou_threshold": None}, "'iou_threshold' is missing"),
    ],
)
def test_each_rule(shapes: Any, change: dict[str, Any], message: str) -> None:
    params = {"iou_threshold": np.float32(0.5), "max_boxes_selected": np.uint32(9), **change}
    params = {k: v for k, v in params.items() if v is not None}
    boxes, scores, rows = shapes
    with pytest.raises(QnnError, match=message):
        run_op(
            "NonMaxSuppression", [np.zeros(boxes, np.float32), np.zeros(scores, np.float32)],
            [rows, (1,)], params, dtype=[np.int32, np.uint32],
        )  # fmt: skip


def test_the_number_of_rows_may_be_left_out() -> None:
    boxes, scores = boxes_of(9, 1, 20), RNG(9).random((1, 1, 20)).astype(np.float32)
    params = {"iou_threshold": np.float32(0.5), "max_boxes_selected": np.uint32(20)}
    whole, _ = suppressed(boxes, scores, **params)
    (found,) = run_op("NonMaxSuppression", [boxes, scores], [(20, 3)], params, dtype=np.int32)
    np.testing.assert_array_equal(found, whole)
