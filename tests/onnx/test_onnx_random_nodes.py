"""Nodes with random attributes, beside ONNX Runtime: loops, what is written as other operators, and
the fused operators of its tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from support.onnx.contrib import ours, theirs
from support.onnx.random_nodes import NODES, RandomNode

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

#: Of each kind.
COUNT = 12


def expected(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], op: str) -> list[np.ndarray]:
    if op == "DeformConv":  # ONNX Runtime's CPU provider has none
        return list(ReferenceEvaluator(proto).run(None, feeds))
    return theirs(proto, feeds)


def compared(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    assert found.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":  # a result that is rounded may fall to either side
        most = 1 if wanted.dtype.itemsize == 1 else 0
        assert found.shape == wanted.shape
        assert np.abs(found.astype(np.int64) - wanted).max(initial=0) <= most
        return
    np.testing.assert_allclose(
        found.reshape(wanted.shape), wanted, rtol=tolerance, atol=tolerance, equal_nan=True
    )


def check(kind: str, seed: int) -> bool:
    """Whether there was something to compare: ONNX Runtime may refuse a node."""
    made: Any = NODES[kind](np.random.default_rng([seed, *kind.encode()]))
    if isinstance(made, RandomNode):
        (proto, feeds), op, tolerance, rows = made.model(), made.op, made.tolerance, made.rows
    else:
        (proto, feeds), op, tolerance, rows = made, kind, 1e-4, None
    try:
        wanted = expected(proto, feeds, op)
    except Exception:
        return False
    try:
        for i, (a, b) in enumerate(zip(ours(proto, feeds), wanted, strict=True)):
            if rows is None or i == 0:
                compared(a, b, tolerance)
                continue
            for batch, count in enumerate(rows):
                compared(a[batch, :, :count], b[batch, :, :count], tolerance)
    except Exception as error:
        raise AssertionError(f"{kind}, seed {seed}: {made}") from error
    return True


@pytest.mark.parametrize("kind", NODES)
def test_nodes_of_random_attributes(kind: str) -> None:
    assert sum(check(kind, seed) for seed in range(COUNT)) > COUNT / 2
