"""Operators of random shapes and options equal TFLite's own interpreter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.importers import tflite as importer
from support.tflite import delegated, reference
from support.tflite.quantized import KINDS, quantize
from support.tflite.random_cases import FAMILIES, random_case

#: TFLite's interpreter keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

SEEDS = range(12)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_options_give_the_interpreters_results(family: str) -> None:
    for seed in SEEDS:
        case = random_case(family, seed)
        data, feeds = case.build()
        print(seed, case)
        wanted = reference.reference(data, feeds)
        found = reference.run(importer.load(data), feeds)
        taken = delegated.run(delegated.interpreter(data, delegated.delegate()), feeds)
        for a, b, c in zip(found, taken, wanted, strict=True):
            assert a.size == c.size
            reference.close(a.reshape(c.shape), c)
            reference.close(b, c)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_random_options_are_within_a_step_in_fixed_point(family: str, kind: str) -> None:
    """Of real arithmetic, rounded once: TFLite has not all of them."""
    for seed in SEEDS:
        case = random_case(family, seed)
        if any(np.dtype(t) != np.float32 for t in case.outputs):
            continue
        print(seed, case)
        q = quantize(case, kind)
        for found, exact in zip(
            reference.run(importer.load(q.data), q.feeds), q.exact, strict=True
        ):
            apart = found.reshape(exact.shape).astype(np.int64) - exact.astype(np.int64)
            assert np.abs(apart).max(initial=0) <= 1
