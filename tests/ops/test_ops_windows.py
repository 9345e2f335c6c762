"""Windows that are mostly padding: results are those of what lies inside, at once, or the size is
refused. What a library generates for them must not take minutes or read elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support.fixed import Fixed, run_fixed
from support.one_node import KERNELS, close, pairs, run_op, u32

#: Padding, and the distance of a window's taps: within oneDNN's reach, behind it, near the limit.
FAR = [1000, 5000, 2**20, 2**29]
SCALE = Fixed(np.uint8, 0.5, -100)


def conv(op: str, far: int, channels: int) -> tuple[list[np.ndarray], np.ndarray, dict[str, Any]]:
    """Three taps along each dimension, of which the middle one alone meets the input."""
    r = np.random.default_rng(far)
    n = int(op[-2])
    depthwise = op.startswith("DepthWise")
    x = r.integers(-4, 5, (1, *range(5, 5 + n), channels)).astype(np.float32)
    w = r.integers(-2, 3, (3,) * n + (1 if depthwise else channels, channels)).astype(np.float32)
    middle = w[(1,) * n]
    params: dict[str, Any] = {"pad_amount": pairs([far] * n, [far] * n)}
    if n == 1:
        params |= {"stride": 1, "dilation": far, "pad_amount": u32(far, far)}
    else:
        params |= {"stride": u32(*[1] * n), "dilation": u32(*[far] * n)}
    return [x, w], x * middle[0] if depthwise else x @ middle, params


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("static", [(), (1,)])
@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("op", ["Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d"])
def test_taps_far_apart_meet_the_input_where_they_do(
    op: str, far: int, static: tuple[int, ...], kernels: str
) -> None:
    inputs, expected, params = conv(op, far, 32)
    (got,) = run_op(op, inputs, [expected.shape], params, static=static, kernels=kernels)
    close(got, expected)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("op", ["Conv1d", "Conv2d", "Conv3d", "DepthWiseConv2d"])
def test_taps_far_apart_of_fixed_point_numbers(op: str, far: int) -> None:
    (x, w), expected, params = conv(op, far, 32)
    one = Fixed(np.int8, 1.0, 0)
    wide = Fixed(np.int16, 1.0, 0)
    given = [(SCALE.quantize(x), SCALE), (one.quantize(w), one)]
    (got,) = run_fixed(op, given, [(expected.shape, wide)], params, static=(1,))
    assert np.array_equal(wide.dequantize(got), expected)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("far", [500, *FAR])
@pytest.mark.parametrize("op", ["PoolMax2d", "PoolAvg2d", "PoolMax3d", "PoolAvg3d"])
def test_a_window_wider_than_its_input_is_a_pool_of_all(op: str, far: int, kernels: str) -> None:
    n = int(op[-2])
    x = np.random.default_rng(far).standard_normal((1, *range(5, 5 + n), 32), np.float32)
    params = {
        "filter_size": u32(*[2 * far + 1] * n), "stride": u32(*[1] * n),
        "pad_amount": pairs([far] * n, [far] * n),
    }  # fmt: skip
    axes = tuple(range(1, 1 + n))
    all_ = (x.max if "Max" in op else x.mean)(axis=axes, keepdims=True)
    (got,) = run_op(op, [x], [x.shape], params, kernels=kernels)
    close(got, np.broadcast_to(all_, x.shape))
    given = [(SCALE.quantize(x), SCALE)]
    (got,) = run_fixed(op, given, [(x.shape, SCALE)], params, kernels=kernels)
    reals = SCALE.dequantize(given[0][0])
    all_ = (reals.max if "Max" in op else reals.mean)(axis=axes, keepdims=True)
    assert np.abs(SCALE.dequantize(got) - all_).max() <= 0.2501


@pytest.mark.parametrize("kernels", KERNELS)
def test_padding_that_counts_is_counted_to_the_last(kernels: str) -> None:
    x = np.ones((1, 3, 3, 8), np.float32)
    far = 2**29
    params = {
        "filter_size": u32(far, far), "stride": u32(1, 1), "count_pad_for_edges": True,
        "pad_amount": pairs([far - 3] * 2, [0, 0]),
    }  # fmt: skip
    (got,) = run_op("PoolAvg2d", [x], [(1, 1, 1, 8)], params, kernels=kernels)
    np.testing.assert_allclose(got, 9 / far**2, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "params"),
    [
        ("Conv2d", [(1, 5, 5, 8), (3, 3, 8, 8)], {"dilation": u32(2**30, 1)}),
        ("Conv2d", [(1, 5, 5, 8), (1, 1, 8, 8)], {"dilation": u32(1, 1)}),
        ("PoolMax2d", [(1, 5, 5, 8)], {"filter_size": u32(3, 3)}),
    ],
)
def test_more_padding_than_coordinates_reach_is_refused(
    op: str, inputs: list[tuple[int, ...]], params: dict[str, Any]
) -> None:
    params = {"stride": u32(1, 1), "pad_amount": pairs([2**30, 0], [2**30, 0]), **params}
    arrays = [np.ones(shape, np.float32) for shape in inputs]
    with pytest.raises(QnnError, match="the padded input would be 2147483653, above 2"):
        run_op(op, arrays, [(1, 5, 5, 8)], params)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("radius", [3, 2047, 3000, 2**31 - 1])
def test_a_normalisation_over_more_channels_than_there_are(radius: int, kernels: str) -> None:
    x = np.random.default_rng(radius).standard_normal((1, 4, 4, 32), np.float32)
    params = {"radius": radius, "alpha": np.float32(0.1), "beta": np.float32(0.75)}
    squares = np.stack(
        [(x[..., max(0, c - radius) : c + radius + 1] ** 2).sum(-1) for c in range(32)], -1
    )
    (got,) = run_op("Lrn", [x], [x.shape], params | {"bias": np.float32(1)}, kernels=kernels)
    close(got, x / (1 + np.float32(0.1) * squares) ** np.float32(0.75))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("stride", "kernel", "before", "after", "extra"),
    [(7, 2, 0, 0, 0), (7, 2, 1, 0, 5), (900, 3, 2, 40, 20), (900, 1, 0, 0, 899), (5, 4, 3, 3, 0)],
)
def test_a_stride_larger_than_the_kernel_leaves_the_bias_between(
    stride: int, kernel: int, before: int, after: int, extra: int, kernels: str
) -> None:
    r = np.random.default_rng(stride)
    x = r.standard_normal((1, 2, 3, 4), np.float32)
    w = r.standard_normal((kernel, kernel, 4, 5), np.float32)
    bias = r.standard_normal(5).astype(np.float32)
    params = {
        "stride": u32(stride, stride), "output_padding": u32(extra, extra),
        "pad_amount": pairs([before] * 2, [after] * 2),
    }  # fmt: skip
    whole = np.zeros((1, stride + kernel + extra, 2 * stride + kernel + extra, 5), np.float32)
    for h, c in np.ndindex(2, 3):
        for i, k in np.ndindex(kernel, kernel):
            whole[0, h * stride + i, c * stride + k] += x[0, h, c] @ w[i, k]
    size = whole.shape[1:3]
    expected = whole[:, before : size[0] - after, before : size[1] - after] + bias
    then = [("Relu", {})]
    (got,) = run_op(
        "TransposeConv2d", [x, w, bias], [expected.shape], params, static=(1, 2), kernels=kernels,
        then=then,
    )  # fmt: skip
    close(got, np.maximum(expected, 0))


def fixed_case(
    op: str, size: tuple[int, ...], kernel: tuple[int, ...], channels: tuple[int, int],
    params: dict[str, Any], dtype: type, out: tuple[int, ...],
) -> None:  # fmt: skip
    """Fixed-point results are those of float kernels to a step, whatever else is in the process."""
    r = np.random.default_rng(sum(size))
    x = r.integers(-4, 5, (1, *size, channels[0])).astype(np.float32)
    w = r.integers(-2, 3, (*kernel, *channels)).astype(np.float32)
    bias = r.integers(-9, 9, channels[1]).astype(np.float32)
    shape = (1, *out, channels[1])
    (reals,) = run_op(op, [x, w, bias], [shape], params, static=(1, 2), kernels="portable")
    offset = -100 if np.dtype(dtype).kind == "u" else 0
    given, codes = Fixed(dtype, 0.5, offset), Fixed(dtype, 4.0, offset)
    weight, sums = Fixed(np.int8, 1.0, 0), Fixed(np.int32, 0.5, 0)
    inputs = [
        (given.quantize(x), given), (weight.quantize(w), weight), (sums.quantize(bias), sums)
    ]  # fmt: skip
    for _ in range(3):
        (got,) = run_fixed(op, inputs, [(shape, codes)], params, static=(1, 2))
        assert np.abs(got.astype(np.int64) - codes.quantize(reals)).max() <= 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pads", "channels"),
    [
        ((5, 6, 7), (2, 2, 2), (1, 1, 1), (1, 128, 1), (1, 64, 1), (2, 4)),
        ((5, 30, 2), (3, 2, 3), (1, 3, 1), (1, 1, 128), (0, 0, 128), (8, 4)),
        ((60, 30), (3, 3), (7, 1), (5, 64), (9, 64), (32, 64)),
        ((4, 10), (2, 3), (3, 1), (200, 1), (200, 0), (32, 8)),
        ((6, 7), (7, 5), (50, 1), (1, 1), (900, 5), (32, 4)),
    ],
)
def test_windows_that_a_library_may_not_stand(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
    dilation: tuple[int, ...], pads: tuple[int, ...], channels: tuple[int, int], dtype: type,
) -> None:  # fmt: skip
    params = {"stride": u32(*stride), "dilation": u32(*dilation), "pad_amount": pairs(pads, pads)}
    out = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(size, kernel, stride, dilation, pads, strict=True)
    )
    fixed_case(f"Conv{len(size)}d", size, kernel, channels, params, dtype, out)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "extra"),
    [
        ((9, 7), (2, 2), (3, 1), (0, 0)),
        ((10, 5), (1, 7), (7, 50), (0, 0)),
        ((4, 11), (5, 3), (3, 1), (2, 0)),
        ((11, 7), (3, 3), (3, 1), (2, 0)),
        ((6, 6), (3, 3), (2, 2), (1, 1)),
    ],
)
def test_pixels_that_no_tap_reaches_are_the_bias_in_fixed_point(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
    extra: tuple[int, ...], dtype: type,
) -> None:  # fmt: skip
    params = {
        "stride": u32(*stride), "pad_amount": pairs([0, 0], [0, 0]), "output_padding": u32(*extra),
    }  # fmt: skip
    out = tuple((n - 1) * s + k + e for n, k, s, e in zip(size, kernel, stride, extra, strict=True))
    fixed_case("TransposeConv2d", size, kernel, (16, 32), params, dtype, out)
