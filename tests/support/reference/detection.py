"""Boxes chosen by their scores."""

from __future__ import annotations

import itertools

import numpy as np

from qnnrt.model import Node

from .registry import integer, number, op


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The area that two boxes share over that which they cover; 0 if one of them has none."""
    (low_a, high_a), (low_b, high_b) = (np.sort(box.reshape(2, 2), axis=0) for box in (a, b))
    both = np.prod(np.maximum(np.minimum(high_a, high_b) - np.maximum(low_a, low_b), 0))
    areas = np.prod(high_a - low_a), np.prod(high_b - low_b)
    return float(both / (sum(areas) - both)) if min(areas) > 0 else 0.0


@op("NonMaxSuppression")
def non_max_suppression(n: Node, boxes: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    batches, classes, count = scores.shape
    limit = min(integer(n, "max_boxes_selected"), count)
    rows = []
    for batch, label in itertools.product(range(batches), range(classes)):
        given, kept = scores[batch, label], list[int]()
        for box in np.argsort(-given, kind="stable"):
            if len(kept) == limit or not given[box] > number(n, "score_threshold", 0):
                break
            if all(
                overlap(boxes[batch, box], boxes[batch, other]) <= number(n, "iou_threshold", 0)
                for other in kept
            ):
                kept.append(box)
        rows += [(batch, label, box) for box in kept]
    found = np.zeros((batches * classes * limit, 3), np.int64)
    found[: len(rows)] = np.reshape(rows, (-1, 3))
    return [found, np.array([len(rows)])]
