"""Rotary embeddings and Hadamard transforms on OpenCL devices beside the cpu backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.gpu.cases import (
    against_cpu,
    loops_and_lanes,  # noqa: F401
    normal,
    one_backend,  # noqa: F401
)
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import case

pytestmark = pytest.mark.foreign  # OpenCL drivers are

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float16])


@BOTH
def test_rotary_embeddings(dtype: Any) -> None:
    cases = []
    for shape, turned in (((2, 3, 5, 8), 8), ((1, 2, 4, 12), 6)):
        inputs = [normal(*shape, dtype=dtype)]
        angles = (shape[0], shape[2], turned // 2)
        inputs += [normal(*angles, seed=i, dtype=dtype) for i in (1, 2)]
        for interleaved in (False, True):
            how = {"interleaved": interleaved, "rotary_embedding_dim": np.uint32(turned)}
            cases.append(case("RotaryEmbedding", inputs, [shape], how))
    against_cpu(*cases, terms=2)


@BOTH
@pytest.mark.usefixtures("loops_and_lanes")
def test_hadamard_transforms(dtype: Any) -> None:
    shapes = ((3, 1), (2, 3, 2), (5, 16), (2, 2, 64), (1024,), (9, 1024), (3, 4096), (2, 16384))
    cases = [case("HadamardTransform", [normal(*s, dtype=dtype)], [s]) for s in shapes]
    cases.append(case("HadamardTransform", [normal(4, 8, dtype=dtype)], [(4, 8)], {"scale": 0.5}))
    against_cpu(*cases, terms=16)
