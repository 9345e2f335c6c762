"""Reductions of fixed-point numbers: sums of integers, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

from support import reference
from support.fixed import Fixed, run_fixed, via_float, within
from support.one_node import KERNELS, u32

TYPES = [np.uint8, np.int8, np.uint16, np.int16]
CASES = [  # shape, reduced axes
    ((3, 5, 7, 70), (1, 2)),
    ((3, 4, 5, 7), (2, 3)),
    ((3, 97), (1,)),
    ((97, 3), (0,)),
    ((2, 3, 4), (0, 1, 2)),
    ((2, 9, 1, 300), (1, 2)),
    ((4, 5, 6, 7), (1, 3)),  # axes apart from each other
    ((1, 1, 3), (0,)),
]


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    sizes = [1 if i in axes else n for i, n in enumerate(shape)]
    return tuple(n for i, n in enumerate(sizes) if keep or i not in axes)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_reductions(op, shape, axes, dtype, kernels):
    of = Fixed.covering(dtype, -1.0, 1.3)
    x = of.random(np.random.default_rng(5), shape)
    for keep, to in ((False, of), (True, Fixed.covering(dtype, -9.0, 20.0))):
        params = {"axes": u32(*axes), "keep_dims": keep}
        case = [(x, of)], [(reduced(shape, axes, keep), to)], params
        (got,) = run_fixed(op, *case, kernels=kernels)
        (floats,) = via_float(op, *case)
        within(got, floats, 1 if op in ("ReduceMean", "ReduceSum") else 0)
        if op in ("ReduceMean", "ReduceSum"):
            real = reference.of(op, [x.astype(float) + of.offset], params)
            exact = real * (np.float64(np.float32(of.scale)) / np.float32(to.scale)) - to.offset
            assert np.abs(got - np.clip(exact, *to.limits)).max() <= 0.5 + 2**-6


def test_a_mean_between_two_integers_is_the_even_one():
    of = Fixed(np.int8, 0.7, 5)
    x = np.array([[1, 2], [2, 3], [-1, 0], [-2, -1]], np.int8)
    (got,) = run_fixed("ReduceMean", [(x, of)], [((4,), of)], {"axes": u32(1)})
    # Half to even is said of q + offset: 1.5 + 5 is 6, 2.5 + 5 is 8.
    assert got.tolist() == [1, 3, -1, -1]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums(axis, dtype):
    of, to = Fixed.covering(dtype, -1.0, 1.3), Fixed.covering(dtype, -2.0, 9.0)
    x = of.random(np.random.default_rng(5), (5, 6, 7))
    case = [(x, of)], [((5, 6, 7), to)], {"axis": u32(axis)[0]}
    within(run_fixed("CumulativeSum", *case)[0], via_float("CumulativeSum", *case)[0])
