"""Results larger than the caches are stored past them: the same values, to the last element."""

from __future__ import annotations

import numpy as np
import pytest

from support import reference
from support.one_node import run_op

STREAM_BYTES = 16 << 20  # csrc/ops/stream.h

UNARY = ("ElementWiseAbs", "ElementWiseNeg", "Relu")
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")


@pytest.fixture(scope="module")
def operands() -> tuple[np.ndarray, np.ndarray]:
    """Just over the size at which the kernels stream, and not a whole number of their blocks."""
    random = np.random.default_rng(5)
    a, b = random.standard_normal((2, STREAM_BYTES // 4 + 37), dtype=np.float32)
    a[[0, 63, 64, -1]] = np.nan, np.inf, -0.0, np.nan
    b[b == 0] = 1
    return a, b


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", UNARY)
def test_one_operand(operands, op: str, threads: int) -> None:
    a, _ = operands
    (found,) = run_op(op, [a], [a.shape], threads=threads)
    np.testing.assert_array_equal(found, reference.of(op, [a]).astype(np.float32))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", [f"ElementWise{name}" for name in BINARY])
def test_two_operands(operands, op: str, threads: int) -> None:
    a, b = operands
    (found,) = run_op(op, [a, b], [a.shape], threads=threads)
    np.testing.assert_array_equal(found, reference.of(op, [a, b]).astype(np.float32))


def test_a_scalar_operand_and_a_clamp(operands) -> None:
    a, b = operands
    (found,) = run_op("ElementWiseAdd", [a, b[:1]], [a.shape])
    np.testing.assert_array_equal(found, a + b[0])
    limits = {"min_value": np.float32(-0.5), "max_value": np.float32(0.25)}
    (found,) = run_op("ReluMinMax", [b], [b.shape], limits)
    np.testing.assert_array_equal(found, np.clip(b, -0.5, 0.25))
