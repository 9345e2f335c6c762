"""Operations on single elements give on OpenCL devices what the cpu backend gives."""

from __future__ import annotations

import pytest
from gpu_cases import against_cpu, case, launches, normal, one_backend  # noqa: F401
from opencl import gpu, opencl_is_up  # noqa: F401
from toy import add_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def test_ops_of_two_inputs() -> None:
    a, b = normal(2, 3, 4), normal(3, 1, seed=1)
    against_cpu(
        *(
            case(f"ElementWise{op}", [a, b], [(2, 3, 4)])
            for op in ("Add", "Subtract", "Multiply", "Divide", "SquaredDifference")
        )
    )


def test_a_model_with_two_outputs() -> None:
    against_cpu(add_model())
    assert launches(add_model()) == 2
