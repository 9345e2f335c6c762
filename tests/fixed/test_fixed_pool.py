"""Pools of fixed-point numbers: the greatest as integers, averages rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support import reference
from support.fixed import Fixed, run_fixed, via_float, within
from support.one_node import KERNELS, pairs, u32

TYPES = [np.uint8, np.int8, np.uint16, np.int16]

# input, output, filter, stride, pads
GEOMETRIES: list[tuple[Any, Any, Any, Any, Any]] = [
    ((1, 9, 7, 3), (1, 8, 6, 3), (2, 2), (1, 1), pairs((0, 0), (0, 0))),
    ((2, 9, 8, 83), (2, 5, 4, 83), (3, 3), (2, 2), pairs((1, 1), (1, 0))),
    ((1, 7, 7, 300), (1, 1, 1, 300), (7, 7), (1, 1), pairs((0, 0), (0, 0))),
    ((1, 6, 5, 257), (1, 1, 1, 257), (6, 5), (1, 1), pairs((0, 0), (0, 0))),
    ((1, 40, 20, 17), (1, 1, 1, 17), (40, 20), (1, 1), pairs((0, 0), (0, 0))),
    ((1, 40, 20, 150), (1, 1, 1, 150), (40, 20), (1, 1), pairs((0, 0), (0, 0))),
    ((1, 3, 300, 83), (1, 1, 1, 83), (3, 300), (1, 1), pairs((0, 0), (0, 0))),
    ((1, 30, 20, 1), (1, 29, 20, 1), (4, 3), (1, 1), pairs((1, 1), (1, 1))),
]


def pool_params(geometry: tuple[Any, ...]) -> dict[str, Any]:
    _, _, kernel, stride, pads = geometry
    return {"filter_size": u32(*kernel), "stride": u32(*stride), "pad_amount": pads}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("count_pads", [False, True])
def test_an_average_is_the_exact_one_rounded_once(geometry, dtype, kernels, count_pads):
    rng = np.random.default_rng(11)
    of = Fixed.covering(dtype, -1.1, 2.0)
    params = pool_params(geometry) | {"count_pad_for_edges": count_pads}
    x = of.random(rng, geometry[0])
    for to in (of, Fixed.covering(dtype, -0.4, 0.9)):
        (got,) = run_fixed("PoolAvg2d", [(x, of)], [(geometry[1], to)], params, kernels=kernels)
        # The exact average of each window, times its scale and over the output's.
        exact = reference.of("PoolAvg2d", [x.astype(float) + int(of.offset)], params)
        exact = exact * (np.float64(np.float32(of.scale)) / np.float32(to.scale)) - to.offset
        exact = np.clip(exact, *to.limits)
        # What is left is the last bit of a float where the exact average is close to a tie.
        assert np.abs(got - exact).max() <= 0.5 + 2**-7
        if to is of:
            ties = np.abs(exact % 1 - 0.5) < 1e-9
            np.testing.assert_array_equal(
                got[ties], (np.rint(exact + of.offset) - of.offset)[ties].astype(dtype)
            )
        (floats,) = via_float("PoolAvg2d", [(x, of)], [(geometry[1], to)], params)
        within(got, floats, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("channels", [7, 32, 64])
@pytest.mark.parametrize("size", [(16, 16), (16, 17), (2, 513)])
def test_no_sum_of_bytes_overflows(dtype, channels, size):
    of = Fixed(dtype, 0.3, -5)
    params = {"filter_size": u32(*size), "stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    for code in of.limits:
        x = np.full((1, *size, channels), code, dtype)
        (got,) = run_fixed("PoolAvg2d", [(x, of)], [((1, 1, 1, channels), of)], params)
        assert (got == code).all()


def test_averages_half_way_between_two_integers_are_rounded_to_the_even_one():
    x = np.zeros((1, 2, 2, 40), np.uint8)
    x[0, 0, 0] = np.arange(40)
    params = {"filter_size": u32(2, 2), "stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    of = Fixed(np.uint8, 0.3)
    (got,) = run_fixed("PoolAvg2d", [(x, of)], [((1, 1, 1, 40), of)], params)
    assert got.ravel().tolist() == [round(i / 4) for i in range(40)]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_greatest_integer_is_the_greatest_number(geometry, dtype, kernels):
    rng = np.random.default_rng(12)
    of = Fixed.covering(dtype, -1.1, 2.0)
    x = of.random(rng, geometry[0])
    for to in (of, Fixed.covering(dtype, -0.4, 0.9), Fixed.covering(np.int16, -2.0, 2.0)):
        case = [(x, of)], [(geometry[1], to)], pool_params(geometry)
        (got,) = run_fixed("PoolMax2d", *case, kernels=kernels)
        within(got, via_float("PoolMax2d", *case)[0])


@pytest.mark.parametrize("op", ["PoolAvg3d", "PoolMax3d"])
@pytest.mark.parametrize("dtype", TYPES)
def test_volumes(op, dtype):
    of = Fixed.covering(dtype, -1.1, 2.0)
    x = of.random(np.random.default_rng(13), (2, 3, 5, 6, 19))
    params = {
        "filter_size": u32(2, 3, 2),
        "stride": u32(1, 2, 2),
        "pad_amount": pairs((0, 1, 0), (1, 0, 1)),
    }
    case = [(x, of)], [((2, 3, 2, 3, 19), of)], params
    within(run_fixed(op, *case)[0], via_float(op, *case)[0], 1 if op == "PoolAvg3d" else 0)


@pytest.mark.parametrize("op", ["PoolAvg2d", "PoolMax2d"])
def test_sizes_rounded_up(op):
    of = Fixed.covering(np.uint8, -1.1, 2.0)
    x = of.random(np.random.default_rng(13), (1, 6, 6, 33))
    params = {
        "filter_size": u32(3, 3),
        "stride": u32(2, 2),
        "pad_amount": pairs((0, 0), (0, 0)),
        "rounding_mode": np.uint32(1),
    }
    case = [(x, of)], [((1, 3, 3, 33), of)], params
    within(run_fixed(op, *case)[0], via_float(op, *case)[0], 1 if op == "PoolAvg2d" else 0)


def test_what_32_bits_cannot_sum_up_goes_through_floats():
    of = Fixed(np.uint16, 1e-4, -65535)
    x = of.random(np.random.default_rng(13), (1, 200, 150, 2))
    params = {
        "filter_size": u32(200, 150),
        "stride": u32(1, 1),
        "pad_amount": pairs((0, 0), (0, 0)),
    }
    (got,) = run_fixed("PoolAvg2d", [(x, of)], [((1, 1, 1, 2), of)], params)
    assert np.abs(got[0, 0, 0] - x.mean((0, 1, 2))).max() <= 1
