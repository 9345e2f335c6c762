"""Softmax and normalizations of fixed-point rows: in float, some rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.fixed import Fixed, run_fixed, via_float, within
from support.one_node import KERNELS, u32

TYPES = [np.uint8, np.int8, np.uint16, np.int16]
SHAPES = [((1, 1000), 1), ((37, 2, 65), 2), ((5, 33, 9), 1), ((300, 130), 1), ((7, 5), 0)]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax(op, shape, axis, dtype, kernels):
    of = Fixed.covering(dtype, -8.0, 5.0)
    low = 0.0 if op == "Softmax" else -20.0
    to = Fixed.covering(dtype, low, 1.0)
    x = of.random(np.random.default_rng(5), shape)
    for beta in (1.0, 0.37, -1.0):
        params = {"axis": np.uint32(axis), "beta": np.float32(beta)}
        case = [(x, of)], [(shape, to)], params
        got = run_fixed(op, *case, kernels=kernels)[0]
        # Rows of 8 bits have a kernel of their own; what it rounds may be close to a tie.
        table = of.codes().size == 256 and beta > 0 and np.prod(shape[axis + 1 :]) == 1
        within(got, via_float(op, *case, kernels="portable")[0], 1 if table else 0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scale", [1 / 255, 1e-6, 1e-30])
@pytest.mark.parametrize("step", [0.3, 0.6, 40.0])
def test_softmax_of_rows_with_masks(step, scale, dtype):
    """Steps are large behind a mask of -10000: most exponentials are as good as 0, or denormal."""
    of, to = Fixed.covering(dtype, -255 * step, 0.0), Fixed(dtype, scale, 0)
    x = of.random(np.random.default_rng(6), (300, 24))
    case = [(x, of)], [((300, 24), to)], {"axis": np.uint32(1)}
    got = run_fixed("Softmax", *case)[0]
    within(got, via_float("Softmax", *case, kernels="portable")[0], 1)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_softmax_of_rows_of_any_length(dtype, op):
    """A block's end, the last length without a table, the first with one; threads meet in rows."""
    rng = np.random.default_rng(7)
    of = Fixed.covering(dtype, -8.0, 5.0)
    to = Fixed.covering(dtype, 0.0 if op == "Softmax" else -13.0, 1.0)
    for n in (*range(1, 35), 63, 64, 255, 256, 511, 512, 513, 1024, 1025):
        shape = (rng.integers(1, 3) + 40000 // n, n)
        x = of.random(rng, shape)
        got = run_fixed(op, [(x, of)], [(shape, to)], {"axis": u32(1)[0]})[0]
        expected = via_float(op, [(x, of)], [(shape, to)], {"axis": u32(1)[0]}, kernels="portable")
        within(got, expected[0], 1)
        assert np.mean(got != expected[0]) < 1e-3


def cases(of: Fixed, rng: np.random.Generator) -> list[tuple[str, list[Any], Any, dict[str, Any]]]:
    weight = Fixed.covering(np.uint8, -1.0, 2.0)

    def vector(n: int) -> tuple[np.ndarray, Fixed]:
        return weight.random(rng, (n,)), weight

    x = (of.random(rng, (37, 3, 65)), of)
    image = (of.random(rng, (3, 5, 4, 66)), of)
    last = {"axes": u32(2)}
    return [
        ("LayerNorm", [x, vector(65), vector(65)], (37, 3, 65), last),
        ("RmsNorm", [x, vector(65), vector(65)], (37, 3, 65), last),
        ("L2Norm", [x], (37, 3, 65), last),
        ("L2Norm", [x], (37, 3, 65), {"axis": u32(1)[0]}),
        ("L2Norm", [x], (37, 3, 65), {"axis": u32(1)[0], "axes": u32()}),
        ("InstanceNorm", [image, vector(66), vector(66)], (3, 5, 4, 66), {}),
        (
            "GroupNorm",
            [image, vector(66), vector(66)],
            (3, 5, 4, 66),
            {"group": u32(6)[0], "epsilon": np.float32(1e-3)},
        ),
        ("Lrn", [image], (3, 5, 4, 66), {"radius": np.int32(2)}),
        ("Lrn", [image], (3, 5, 4, 66), {"radius": np.int32(40), "beta": np.float32(0.3)}),
        ("Lrn", [image], (3, 5, 4, 66), {"radius": np.int32(1), "region": u32(1)[0]}),
    ]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_normalizations(dtype, static, kernels):
    of, to = Fixed.covering(dtype, -3.0, 4.0), Fixed.covering(dtype, -2.5, 2.5)
    for op, inputs, shape, params in cases(of, np.random.default_rng(8)):
        constant = range(1, len(inputs)) if static else ()
        case = inputs, [(shape, to)], params
        got = run_fixed(op, *case, static=constant, kernels=kernels)[0]
        expected = via_float(op, *case, kernels="portable")[0]
        within(got, expected)
