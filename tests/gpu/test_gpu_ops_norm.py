"""Normalizations give on OpenCL devices what the cpu backend gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.gpu.cases import against_cpu, launches, normal, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float16])


def norm(
    op: str, x: np.ndarray, params: dict[str, Any], *scales: tuple[int, ...] | None, **more: Any
) -> Case:
    """Scales: shapes of weight and bias; None for one left out."""
    given = [
        None if shape is None else normal(*shape, seed=i + 1, dtype=x.dtype)
        for i, shape in enumerate(scales)
    ]
    return case(op, [x, *given], [x.shape], params, static=(1, 2), **more)


@pytest.mark.slow
@BOTH
def test_batch_norms(dtype: Any) -> None:
    against_cpu(
        norm("Batchnorm", normal(2, 3, 5, 8, dtype=dtype), {}, (8,), (8,), then=[("Relu", {})]),
        norm("Batchnorm", normal(4, 3, dtype=dtype), {}, (3,)),
        atol=1e-6,
    )


@pytest.mark.slow
@BOTH
def test_norms_of_rows(dtype: Any) -> None:
    x = normal(3, 4, 6, dtype=dtype) * 3 + 5
    last, both = {"axes": u32(2)}, {"axes": u32(1, 2)}
    against_cpu(
        norm("LayerNorm", x, last, (6,), (6,)),
        norm("LayerNorm", x, both, (4, 6), (4, 6), then=[("Relu", {})]),
        norm("RmsNorm", x, last | {"epsilon": 1e-6}, (6,)),
        norm("L2Norm", x, both),
        terms=4,
    )


@pytest.mark.slow
def test_norms_along_axes_that_are_no_rows() -> None:
    x = normal(3, 4, 5) + 1
    against_cpu(
        norm("LayerNorm", x, {"axes": u32(0, 1)}, (3, 4), (3, 4)),
        norm("LayerNorm", x, {"axes": u32(2, 0)}, (5, 3), (5, 3)),
        norm("RmsNorm", x, {"axes": u32(1)}, None, (4,)),
        norm("L2Norm", x, {"axis": 1}),
        norm("L2Norm", x, {"axis": np.int32(-3)}),
        norm("LayerNorm", x, {"axes": np.int32([-2, -1])}, (4, 5), (4, 5)),
        norm("L2Norm", x * 1e-20, {"axes": u32(0), "epsilon": 1e-3}),
        terms=4,
    )


@pytest.mark.slow
@BOTH
def test_norms_of_images(dtype: Any) -> None:
    x = normal(2, 3, 5, 8, dtype=dtype) * 3 + 5
    against_cpu(
        norm("InstanceNorm", x, {"epsilon": 1e-3}, (8,), (8,)),
        norm("InstanceNorm", x, {"epsilon": 1e-3, "region": 1}, (8,), (8,)),
        norm("GroupNorm", x, {"epsilon": 1e-5, "group": 2}, (8,), (8,), then=[("Relu", {})]),
        terms=4,
    )


@pytest.mark.slow
def test_instance_norms_in_every_mode() -> None:
    x = normal(2, 6, 3) * 3 + 5
    against_cpu(
        *(
            norm("InstanceNorm", x, {"epsilon": 1e-3, "region": region} | mode, (3,))
            for region in (0, 2)
            for mode in ({"mode": 1}, {"normalize_variance": False})
        ),
        norm("InstanceNorm", x, {"region": 2, "epsilon": 1e-3}, (3,), (3,)),
        norm("GroupNorm", x, {"epsilon": 1e-5, "group": 3}),
        norm("GroupNorm", normal(3, 6), {"epsilon": 1e-5, "group": 2}, (6,)),
        terms=4,
    )


def test_statistics_of_images_that_are_taken_in_parts() -> None:
    x = normal(1, 41, 53, 4) + 100
    case = norm("InstanceNorm", x, {"epsilon": 1e-3}, (4,), (4,))
    against_cpu(case, terms=4)
    assert launches(case.model) == 3


@pytest.mark.slow
@BOTH
def test_local_responses(dtype: Any) -> None:
    x = normal(2, 3, 4, 16, dtype=dtype) * 3
    params = {"radius": np.int32(2), "alpha": 0.01, "beta": 0.75, "bias": 2.0}
    against_cpu(
        norm("Lrn", x, params),
        norm("Lrn", x, params | {"region": 1, "beta": 0.5, "radius": np.int32(1)}),
        terms=2,
    )


@pytest.mark.slow
def test_local_responses_of_every_exponent_and_radius() -> None:
    x = normal(2, 3, 5)
    params = {"alpha": 0.01, "bias": 2.0}
    against_cpu(
        *(
            norm("Lrn", x, params | {"beta": beta, "radius": np.int32(radius)})
            for beta, radius in ((0.5, 0), (1.0, 2), (0.6, 2**31 - 1))
        ),
        terms=2,
    )
