"""Pooling takes the maximum or the mean of each window, edges and rounding included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import KERNELS, close, pairs, run_op, u32


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(60))
def test_pooling_matches_its_definition(seed: int, kernels: str) -> None:
    r = np.random.default_rng(seed)
    spatial = 3 if seed % 5 == 0 else 2
    kernel, stride = r.integers(1, 5, spatial), r.integers(1, 4, spatial)
    before, after = (np.array([int(r.integers(0, k // 2 + 1)) for k in kernel]) for _ in range(2))
    x = r.standard_normal((2, *(kernel + r.integers(0, 8, spatial)), 3 + seed % 20), np.float32)
    ceil = bool(seed & 1)
    counted = (None, True, False)[seed % 3]
    params = {
        "filter_size": u32(*kernel), "stride": u32(*stride), "pad_amount": pairs(before, after),
        "rounding_mode": int(ceil),
    }  # fmt: skip
    if counted is not None:
        params["count_pad_for_edges"] = counted
    op = f"Pool{'Max' if counted is None else 'Avg'}{spatial}d"
    expected = reference.of(op, [x], params)
    (got,) = run_op(op, [x], [expected.shape], params, kernels=kernels)
    close(got, expected, 1e-5)
    (half,) = run_op(op, [x.astype(np.float16)], [expected.shape], params, kernels=kernels)
    close(half, expected)


@pytest.mark.parametrize("shape", [(2, 37, 29, 32), (1, 7, 7, 1280), (3, 5, 1, 3), (1, 64, 64, 70)])
@pytest.mark.parametrize("counted", [False, True])
def test_the_mean_of_an_image_is_the_same_with_any_number_of_threads(
    shape: tuple[int, ...], counted: bool
) -> None:
    x = np.random.default_rng(1).standard_normal(shape, np.float32) + 3
    # The window has one row and one column of padding, before and behind; they may count.
    params = {
        "filter_size": u32(shape[1] + 2, shape[2] + 2), "stride": u32(1, 1),
        "pad_amount": pairs((1, 1), (1, 1)), "count_pad_for_edges": counted,
    }  # fmt: skip
    out = (shape[0], 1, 1, shape[3])
    count = (shape[1] + 2) * (shape[2] + 2) if counted else shape[1] * shape[2]
    expected = x.astype(np.float64).sum((1, 2), keepdims=True) / count
    results = [
        run_op("PoolAvg2d", [x], [out], params, kernels="auto", threads=threads)[0]
        for threads in (1, 2, 3)
    ]
    close(results[0], expected, 1e-6)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("shape", [(2, 37, 29, 32), (1, 7, 7, 1280), (3, 5, 1, 3), (1, 64, 64, 70)])
@pytest.mark.parametrize("kernels", KERNELS)
def test_the_mean_of_an_image_in_sixteen_bits_is_rounded_once(
    shape: tuple[int, ...], kernels: str
) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(1).standard_normal(shape, np.float32) + 3
    params = {
        "filter_size": u32(*shape[1:3]), "stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0)),
    }  # fmt: skip
    out = (shape[0], 1, 1, shape[3])
    for dtype in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)):
        narrow = x.astype(dtype)
        (wide,) = run_op("PoolAvg2d", [narrow.astype(np.float32)], [out], params, kernels=kernels)
        for threads in (1, 2, 3):
            (got,) = run_op("PoolAvg2d", [narrow], [out], params, kernels=kernels, threads=threads)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, wide.astype(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_max_pooling_takes_integers(dtype: type[np.integer]) -> None:
    info = np.iinfo(dtype)
    r = np.random.default_rng(0)
    x = r.integers(info.min, info.max, (2, 6, 4, 5), dtype, endpoint=True)
    params = {"filter_size": u32(2, 2), "stride": u32(2, 2), "pad_amount": pairs((0, 0), (0, 0))}
    for kernels in KERNELS:
        (got,) = run_op("PoolMax2d", [x], [(2, 3, 2, 5)], params, kernels=kernels)
        np.testing.assert_array_equal(got, x.reshape(2, 3, 2, 2, 2, 5).max((2, 4)))


def test_a_last_window_behind_the_input_follows_the_declared_output() -> None:
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5, 1)
    params = {
        "filter_size": u32(1, 2), "stride": u32(1, 3), "pad_amount": pairs((0, 0), (0, 2)),
        "rounding_mode": 1,
    }  # fmt: skip
    (short,) = run_op("PoolAvg2d", [x], [(1, 1, 2, 1)], params)
    np.testing.assert_array_equal(short.ravel(), [1.5, 4.5])
    (long,) = run_op("PoolAvg2d", [x], [(1, 1, 3, 1)], params)
    np.testing.assert_array_equal(long.ravel(), [1.5, 4.5, 0])


def test_a_bad_pool_is_refused_with_the_rule_it_breaks() -> None:
    x = np.zeros((1, 5, 5, 2), np.float32)
    good = {"filter_size": u32(2, 2), "stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    huge = pairs((2**31 - 1, 0), (2**31 - 1, 0))  # 2^32 + 2 rows, which is 2 in 32 bits
    run_op("PoolMax2d", [x], [(1, 4, 4, 2)], good)
    refused: list[tuple[dict[str, Any], tuple[int, ...], str]] = [
        (good | {"filter_size": u32(6, 2)}, (1, 4, 4, 2), "filter size 6"),
        (good | {"stride": u32(0, 1)}, (1, 4, 4, 2), "stride"),
        (good | {"rounding_mode": 2}, (1, 4, 4, 2), "rounding_mode"),
        (good | {"count_pad_for_edges": True}, (1, 4, 4, 2), "count_pad_for_edges"),
        (good, (1, 5, 4, 2), "[1, 4, 4, 2]"),
        (good | {"pad_amount": huge}, (1, 2, 4, 2), "height of the padded input would be"),
        ({"stride": u32(1, 1), "pad_amount": good["pad_amount"]}, (1, 4, 4, 2), "filter_size"),
    ]
    for params, shape, word in refused:
        with pytest.raises(QnnError) as error:
            run_op("PoolMax2d", [x], [shape], params)
        assert word in str(error.value)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("channels", [1, 5, 8, 16, 27, 40, 64, 72, 128, 200, 300])
def test_the_greatest_of_a_window_is_exact_for_any_number_of_channels(
    channels: int, kernels: str
) -> None:
    """Of windows that hang over or are all of the least number, on one thread and several."""
    r = np.random.default_rng(channels)
    x = r.standard_normal((1, 19, 23, channels), np.float32).astype(ml_dtypes.bfloat16)
    x[0, :7, :9] = -np.inf if kernels == "portable" else -3e38  # oneDNN's least is no infinity
    for side, stride in ((3, 2), (3, 1), (2, 2), (5, 3)):
        before = side // 2
        params = {
            "filter_size": u32(side, side), "stride": u32(stride, stride),
            "pad_amount": pairs((before, before), (before, before)),
        }  # fmt: skip
        wide = x.astype(np.float32)
        padded = np.pad(
            wide, ((0, 0), (before, before), (before, before), (0, 0)), constant_values=-np.inf
        )
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2))
        expected = windows[:, ::stride, ::stride].max((-2, -1))
        for given in (wide, x):
            for threads in (1, 2, 3):
                (got,) = run_op(
                    "PoolMax2d", [given], [expected.shape], params, kernels=kernels, threads=threads
                )
                np.testing.assert_array_equal(got.astype(np.float32), expected)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(40))
def test_planes_are_pooled_as_each_of_many_channels_is(seed: int, kernels: str) -> None:
    """Images of one channel, whose vectors are neighbours of a line, beside three equal ones."""
    r = np.random.default_rng(seed)
    spatial = 3 if seed % 4 == 0 else 2
    kernel, stride = r.integers(1, 5, spatial), r.integers(1, 4, spatial)
    kernel[-1], stride[-1] = r.integers(1, 20), r.integers(1, 3)
    before, after = (r.integers(0, kernel // 2 + 1) for _ in range(2))
    size = kernel + r.integers(0, 8, spatial)
    size[-1] = kernel[-1] + r.integers(3, 80)
    x = r.standard_normal((3, *size, 1), np.float32)
    counted = (None, True, False)[seed % 3]
    if counted is None:
        x[r.random(x.shape) < 0.3] = np.nan  # what is no number is passed over
    params = {
        "filter_size": u32(*kernel), "stride": u32(*stride), "pad_amount": pairs(before, after),
        "rounding_mode": seed & 1,
    }  # fmt: skip
    if counted is not None:
        params["count_pad_for_edges"] = counted
    op = f"Pool{'Max' if counted is None else 'Avg'}{spatial}d"
    shape = reference.of(op, [np.zeros_like(x)], params).shape
    wide = np.repeat(x, 3, -1)
    (expected,) = run_op(op, [wide], [(*shape[:-1], 3)], params, kernels="portable")
    results = [
        run_op(op, [x], [shape], params, kernels=kernels, threads=threads)[0]
        for threads in (1, 2, 3)
    ]
    if counted is None:
        np.testing.assert_array_equal(results[0], expected[..., :1])
    else:
        close(results[0], expected[..., :1], 1e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
