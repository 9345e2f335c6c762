"""qnnrt.quantize and qnnrt.dequantize give the numbers of the runtime's ops, for every encoding."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Quantization
from support.fixed import Fixed, run_fixed

TYPES = {
    "uint8": Fixed("uint8", 0.037, -117),
    "int8": Fixed("int8", 0.0041, 12),
    "uint16": Fixed("uint16", 1.7e-4, -30011),
    "int16": Fixed("int16", 3.3e-4, 0),
    "int32": Fixed("int32", 2.5e-7, 0),
    "4 bits": Fixed("int8", 0.5, 3, bitwidth=4),
    "axis": Fixed("uint8", np.array([0.5, 0.03, 7.0], np.float32), np.array([0, -3, -255]), 1),
}


@pytest.mark.parametrize("name", TYPES)
def test_they_are_what_the_ops_compute(name: str) -> None:
    of = TYPES[name]
    rng = np.random.default_rng(51)
    codes = of.random(rng, (50, 3, 7))
    real = qnnrt.dequantize(codes, of.quantization)
    assert real.dtype == np.float32
    [expected] = run_fixed("Dequantize", [(codes, of)], [(codes.shape, np.float32)])
    assert np.array_equal(real, expected)
    # Between the numbers, half-way between them, and far outside.
    step = np.abs(real).max()
    x = np.concatenate(
        [real, real + of.dequantize(codes[::-1]) / 2, rng.normal(0, step, real.shape)]
    )
    x = np.append(x.astype(np.float32).reshape(-1, 3, 7), np.zeros((1, 3, 7), np.float32), 0)
    x[-1, 0] = [np.inf, -np.inf, np.nan, 1e30, -1e30, -0.0, 1e-30]
    found = qnnrt.quantize(x, of.quantization, of.dtype)
    assert found.dtype == of.dtype
    [expected] = run_fixed("Quantize", [x], [(x.shape, of)])
    assert np.array_equal(found, expected)
    if name != "int32":  # more than float32 tells apart
        assert np.array_equal(qnnrt.quantize(real, of.quantization, of.dtype), codes)


def test_halves_go_to_the_even_integer() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert qnnrt.quantize(x, Quantization(1.0, 0), "int8").tolist() == [-2, -2, 0, 0, 2, 2]
    assert qnnrt.quantize(0.5, Quantization(1.0, -3), "UFIXED_POINT_8") == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_have_their_scales(axis: int) -> None:
    codes = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    grid = np.array([[0.5, 2], [4, 8]], np.float32)
    q = Quantization(grid, np.array([[0, 1], [2, 3]]), block=(2, 3))
    each = [np.repeat(np.repeat(v, 2, 0), 3, 1) for v in (grid, q.offset)]
    assert np.array_equal(qnnrt.dequantize(codes, q), each[0] * (codes + each[1]))
    assert np.array_equal(qnnrt.quantize(qnnrt.dequantize(codes, q), q, "int8"), codes)
    size = codes.shape[axis]
    scales = np.linspace(0.25, 2, size, dtype=np.float32)
    factors = np.arange(1, 2 * size + 1, dtype=np.uint8).reshape(size, 2)
    q = Quantization(scales, 0, axis=axis, block_scales=factors)
    table = (scales[:, None] * factors).repeat(codes.shape[1 - axis] // 2, axis=1)
    expected = codes * (table if axis == 0 else table.T)
    assert np.array_equal(qnnrt.dequantize(codes, q), expected)


def test_what_does_not_fit_is_refused() -> None:
    x, scales = np.zeros((2, 3), np.float32), np.ones(4, np.float32)
    for bad in (
        Quantization(scales, 0),
        Quantization(scales, 0, axis=1),
        Quantization(scales, 0, axis=2),
        Quantization(scales, 0, axis=-1),
        Quantization(scales, 0, block=(2, 2)),
        Quantization(np.ones(3), 0, axis=1, block_scales=np.ones((3, 4), np.uint8)),
    ):
        with pytest.raises(ValueError, match=r"axis|block"):
            qnnrt.quantize(x, bad, "int8")
    for dtype in ("float32", "int64", "FLOAT_32", "INT_8"):
        with pytest.raises(TypeError, match="fixed-point"):
            qnnrt.quantize(x, Quantization(1, 0), dtype)
    with pytest.raises(TypeError, match="fixed-point"):
        qnnrt.dequantize(x, Quantization(1, 0))
