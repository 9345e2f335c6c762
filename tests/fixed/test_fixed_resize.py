"""Interpolation between fixed-point pixels, line by line in float."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from support.fixed import Fixed, run_fixed, via_float, within
from support.one_node import KERNELS
from support.outside import printed

TYPES = [np.uint8, np.int8, np.uint16, np.int16]
CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("ResizeBilinear", (2, 5, 7, 3), (2, 10, 14, 3), {}),
    ("ResizeBilinear", (1, 9, 8, 65), (1, 4, 13, 65), {"align_corners": True}),
    ("ResizeBilinear", (1, 9, 8, 17), (1, 9, 16, 17), {"half_pixel_centers": True}),
    ("Resize", (1, 6, 7, 5), (1, 9, 5, 5), {"interpolation_mode": np.uint32(1)}),
    ("Resize", (1, 6, 7, 5), (1, 9, 5, 5), {"interpolation_mode": np.uint32(2)}),
    ("Resize", (1, 4, 5, 3, 9), (1, 7, 5, 6, 9), {"interpolation_mode": np.uint32(1)}),
]


def check(case: Any, dtype: Any, kernels: str, steps: int) -> None:
    op, shape, out, params = case
    of, to = Fixed.covering(dtype, -1.0, 2.0), Fixed.covering(dtype, -0.9, 1.7)
    x = of.random(np.random.default_rng(4), shape)
    for result in (of, to):
        got = run_fixed(op, [(x, of)], [(out, result)], params, kernels=kernels)[0]
        within(got, via_float(op, [(x, of)], [(out, result)], params)[0], steps)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_interpolation(case, dtype, kernels):
    """One step apart at most: the float kernel may round a multiply and an add once."""
    check(case, dtype, kernels, 1)


def check_all() -> None:
    for case, dtype in product(CASES, TYPES):
        check(case, dtype, "portable", 0)


def test_interpolation_is_that_of_floats_where_these_round_twice() -> None:
    printed("from fixed import test_fixed_resize as t; t.check_all()", QNNRT_ISA="base")
