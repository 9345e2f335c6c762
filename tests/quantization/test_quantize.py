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


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_a_mask_of_the_least_float_has_its_first_and_last_code(dtype: str) -> None:
    info, largest = np.iinfo(dtype), np.finfo(np.float32).max
    scale = np.float32(largest / (int(info.max) - int(info.min)))
    rng = np.random.default_rng(52)
    for near in (np.nextafter(scale, np.float32(0)), scale, np.nextafter(scale, largest)):
        of = Fixed(dtype, float(near), -int(info.max))
        x = np.array([-largest, -near * 1.5, -near * 2.5, -near * 0.4, -3, 0, 3, near], np.float32)
        x = np.concatenate([x, rng.uniform(-1, 1, 1000).astype(np.float32) * largest])
        x = np.append(x, np.float32([np.inf, -np.inf, np.nan]))
        [found] = run_fixed("Quantize", [x], [(x.shape, of)])
        steps = np.nan_to_num(np.rint(x / near), nan=0) + info.max
        np.testing.assert_array_equal(found, np.clip(steps, info.min, info.max).astype(dtype))


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


#: Type -> its bit widths with the ends of their ranges, the type's own first.
ENDS = {
    "int8": [(None, -128, 127), (8, -128, 127), (4, -8, 7), (2, -2, 1)],
    "uint8": [(None, 0, 255), (8, 0, 255), (4, 0, 15), (2, 0, 3)],
    "int16": [(None, -32768, 32767), (16, -32768, 32767), (12, -2048, 2047)],
    "uint16": [(None, 0, 65535), (16, 0, 65535), (12, 0, 4095)],
    "int32": [(None, -(2**31), 2**31 - 1), (32, -(2**31), 2**31 - 1), (20, -(2**19), 2**19 - 1)],
}


@pytest.mark.parametrize("dtype", ENDS)
def test_what_is_out_of_range_becomes_the_end_of_the_bit_width(dtype: str) -> None:
    for bitwidth, low, high in ENDS[dtype]:
        q = Quantization(1.0, 0, bitwidth=bitwidth)
        x = np.array([low - 1, low, high, high + 1], np.float64)
        found = qnnrt.quantize(x, q, dtype).tolist()
        if dtype == "int32":  # float32 has no 2**31 - 1
            assert qnnrt.quantize([-np.inf, np.inf], q, dtype).tolist() == [low, high]
        else:
            assert found == [low, low, high, high]


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3), (5, 7, 2)])
def test_one_scale_of_a_block_is_for_all_of_the_shape(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    codes = rng.integers(-128, 128, shape).astype(np.int8)
    for grid in (np.float32(0.5), np.full((1,) * len(shape), 0.5, np.float32)):
        q = Quantization(grid, np.int32(3), block=shape)
        real = qnnrt.dequantize(codes, q)
        assert real.shape == shape
        assert np.array_equal(real, (codes.astype(np.float32) + 3) * 0.5)
        assert np.array_equal(qnnrt.quantize(real, q, "int8"), codes)


def test_blocks_may_share_an_offset_or_a_scale() -> None:
    codes = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    grid = np.array([[0.5, 2], [4, 8]], np.float32)
    scales = np.repeat(np.repeat(grid, 2, 0), 3, 1)
    for offset in (3, np.array(3), np.array([3])):
        q = Quantization(grid, offset, block=(2, 3))
        assert np.array_equal(qnnrt.dequantize(codes, q), scales * (codes + 3))
    q = Quantization(0.5, grid.astype(np.int32), block=(2, 3))
    assert np.array_equal(qnnrt.dequantize(codes, q), 0.5 * (codes + np.trunc(scales)))


@pytest.mark.parametrize("block", [(3, 2), (2, 4), (4, 6, 1), (24,), (0, 2), (-2, 3), (5, 6)])
def test_blocks_divide_each_dimension(block: tuple[int, ...]) -> None:
    codes = np.zeros((4, 6), np.int8)
    with pytest.raises(ValueError, match="blocks of"):
        qnnrt.dequantize(codes, Quantization(np.ones(4, np.float32), 0, block=block))
