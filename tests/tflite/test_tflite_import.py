"""TFLite files equal TFLite's own interpreter: every operator, and random networks of them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from support.tflite import cases as tflite_cases
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.case import Case
from support.tflite.random import random_network

#: TFLite's interpreter keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

CASES = tflite_cases.cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{c.label}")
def test_an_operator_equals_the_interpreter(case: Case) -> None:
    data, feeds = case.build()
    reference.agree(data, feeds)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_network_equals_the_interpreter(seed: int) -> None:
    """Operators on each other's results: what one leaves behind suits the next."""
    data, shapes = random_network(seed)
    rng = np.random.default_rng(seed)
    feeds = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    reference.agree(data, feeds, rtol=3e-5)


def test_a_channel_shuffle_is_one_operation() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 6))
    for shape, perm in (((1, 4, 4, 2, 3), (0, 1, 2, 4, 3)), ((1, 4, 4, 6), None)):
        to = b.const(np.array(shape, np.int32))
        (x,) = b.op("RESHAPE", [x, to], [(shape, np.float32)], "ReshapeOptions")
        if perm is not None:
            order = b.const(np.array(perm, np.int32))
            swapped = tuple(shape[p] for p in perm)
            (x,) = b.op("TRANSPOSE", [x, order], [(swapped, np.float32)], "TransposeOptions")
    b.output(x)
    rng = np.random.default_rng(0)
    model = reference.agree(b.build(), [rng.uniform(-1, 1, (1, 4, 4, 6)).astype(np.float32)])
    assert model.op_counts() == {"ChannelShuffle": 1}
