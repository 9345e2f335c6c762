"""Pools, depthwise and transposed convolutions, resizes: on OpenCL devices as on the cpu."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from qnnrt.model import Model, Node, Quantization, Tensor
from support.gpu.cases import (
    against_cpu,
    launches,
    loops_and_lanes,  # noqa: F401
    normal,
    one_backend,  # noqa: F401
)
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case, pairs, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float16])


def depthwise(
    x: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
    before: tuple[int, int] = (0, 0),
    after: tuple[int, int] = (0, 0),
    multiplier: int = 1,
    *,
    dtype: Any = np.float32,
    bias: bool = True,
    **more: Any,
) -> Case:
    out = [
        (n + b + a - (k - 1) * d - 1) // s + 1
        for n, b, a, k, d, s in zip(
            x[1:3], before, after, kernel, dilation, stride, strict=True
        )
    ]  # fmt: skip
    channels = x[-1] * multiplier
    inputs = [normal(*x, dtype=dtype), normal(*kernel, 1, channels, seed=1, dtype=dtype)]
    if bias:
        inputs.append(normal(channels, seed=2, dtype=dtype))
    params = {
        "stride": u32(*stride),
        "dilation": u32(*dilation),
        "pad_amount": pairs(before, after),
    }
    shape = (x[0], *out, channels)
    return case("DepthWiseConv2d", inputs, [shape], params, static=(1, 2), **more)


@pytest.mark.slow
@BOTH
def test_depthwise_convolutions(dtype: Any) -> None:
    against_cpu(
        depthwise((2, 6, 9, 16), (3, 3), (1, 1), before=(1, 1), after=(1, 1), dtype=dtype),
        depthwise((1, 7, 8, 3), (3, 2), (2, 2), before=(2, 0), after=(0, 1), dtype=dtype),
        terms=9,
    )


@pytest.mark.slow
def test_depthwise_convolutions_of_every_shape() -> None:
    line = normal(2, 16, 4)
    params = {"stride": np.uint32(2), "dilation": np.uint32(6), "pad_amount": u32(2, 1)}
    against_cpu(
        depthwise((1, 9, 9, 2), (2, 3), (1, 1), (3, 2), bias=False),
        depthwise((1, 5, 6, 3), (2, 2), (1, 1), multiplier=4, then=[("Relu", {})]),
        depthwise((1, 3, 24, 2), (1, 18), (1, 1), before=(0, 9)),
        case("DepthWiseConv1d", [line, normal(3, 1, 4)], [(2, 4, 4)], params),
        terms=18,
    )


def transposed(
    x: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    cout: int,
    groups: int = 1,
    before: tuple[int, int] = (0, 0),
    extra: tuple[int, int] = (0, 0),
    *,
    dtype: Any = np.float32,
    bias: bool = True,
    **more: Any,
) -> Case:
    out = [
        (n - 1) * s + k + e - b
        for n, s, k, e, b in zip(x[1:3], stride, kernel, extra, before, strict=True)
    ]
    weight = normal(*kernel, x[-1], cout // groups, seed=1, dtype=dtype)
    inputs = [normal(*x, dtype=dtype), weight]
    if bias:
        inputs.append(normal(cout, seed=2, dtype=dtype))
    params = {
        "stride": u32(*stride), "pad_amount": pairs(before, (0, 0)), "group": np.uint32(groups),
        "output_padding": u32(*extra),
    }  # fmt: skip
    return case("TransposeConv2d", inputs, [(x[0], *out, cout)], params, static=(1, 2), **more)


@pytest.mark.slow
@BOTH
def test_transposed_convolutions(dtype: Any) -> None:
    against_cpu(
        transposed((2, 3, 5, 8), (3, 3), (2, 2), 8, 1, (1, 1), (1, 1), dtype=dtype),
        transposed((1, 4, 3, 6), (2, 3), (3, 1), 4, 2, (0, 1), dtype=dtype, bias=False),
        transposed((1, 3, 3, 8), (1, 1), (2, 3), 6, 2, extra=(1, 2)),
        terms=32,
    )


@BOTH
def test_transposed_convolutions_of_volumes(dtype: Any) -> None:
    x, bias = normal(2, 3, 4, 2, 8, dtype=dtype), normal(12, seed=2, dtype=dtype)
    params = {
        "stride": u32(2, 1, 3), "pad_amount": pairs((1, 0, 2), (0, 1, 1)), "group": np.uint32(2),
        "output_padding": u32(1, 0, 2),
    }  # fmt: skip
    weight = normal(3, 2, 2, 8, 6, seed=1, dtype=dtype)
    plain = {"stride": u32(2, 2, 2), "pad_amount": pairs((0, 0, 0), (0, 0, 0))}
    relu = [("Relu", {})]
    against_cpu(
        case("TransposeConv3d", [x, weight, bias], [(2, 7, 4, 4, 12)], params, then=relu),
        case("TransposeConv3d", [x, weight[:1, :1, :1]], [(2, 6, 8, 4, 6)], plain),
        terms=96,
    )


@pytest.mark.slow
def test_convolutions_of_volumes() -> None:
    x, bias = normal(2, 4, 5, 6, 8), normal(6, seed=2)
    params = {
        "stride": u32(1, 2, 1), "pad_amount": pairs((1, 0, 1), (0, 1, 1)), "group": np.uint32(2),
        "dilation": u32(2, 1, 1),
    }  # fmt: skip
    weight = normal(2, 3, 3, 4, 6, seed=1)
    plain = {"stride": u32(1, 1, 2), "pad_amount": pairs((0, 0, 0), (0, 0, 0))}
    against_cpu(
        case("Conv3d", [x, weight, bias], [(2, 3, 2, 6, 6)], params, then=[("Relu", {})]),
        case("Conv3d", [normal(1, 2, 3, 9, 3), normal(2, 1, 2, 3, 4)], [(1, 1, 3, 4, 4)], plain),
        terms=72,
    )


def pool(
    op: str, x: np.ndarray, out: tuple[int, ...], *sizes: Any, encodings: Any = None, **more: Any
) -> Case:
    """Sizes: of windows, strides, paddings before and behind."""
    size, stride, before, after = sizes
    params = {"filter_size": u32(*size), "stride": u32(*stride), "pad_amount": pairs(before, after)}
    return case(op, [x], [(x.shape[0], *out, x.shape[-1])], params | more, encodings=encodings)


@pytest.mark.slow
@BOTH
def test_pools(dtype: Any) -> None:
    x, y = normal(2, 7, 8, 24, dtype=dtype), normal(1, 5, 4, 6, 3, dtype=dtype)
    three = (4, 2, 3), (3, 3, 2), (1, 2, 2), (1, 0, 1), (0, 1, 0)
    against_cpu(
        pool("PoolMax2d", x, (3, 4), (3, 3), (2, 2), (0, 1), (0, 0)),
        pool("PoolAvg2d", x, (7, 9), (3, 2), (1, 1), (1, 1), (1, 1)),
        pool("PoolAvg2d", x, (1, 1), (7, 8), (1, 1), (0, 0), (0, 0)),
        pool("PoolMax3d", y, *three),
        pool("PoolAvg3d", y, *three, count_pad_for_edges=True),
        terms=56,
    )


@pytest.mark.slow
def test_windows_that_hang_over_the_padding() -> None:
    x = normal(1, 5, 7, 4)
    sizes = (2, 3), (2, 3), (0, 1), (0, 1)
    behind = (1, 2), (1, 3), (0, 0), (0, 2)
    against_cpu(
        pool("PoolAvg2d", x, (3, 3), *sizes, rounding_mode=1, count_pad_for_edges=True),
        pool("PoolAvg2d", x, (3, 3), *sizes, rounding_mode=1),
        pool("PoolAvg2d", normal(1, 1, 5, 4), (1, 3), *behind, rounding_mode=1),
        pool("PoolAvg2d", normal(1, 1, 5, 4), (1, 2), *behind, rounding_mode=1),
    )


def test_the_greatest_of_integers() -> None:
    r = np.random.default_rng(0)
    sizes = (2, 2), (1, 2), (1, 0), (0, 0)
    cases = []
    for name, channels in (("int8", 8), ("uint8", 3), ("int16", 2), ("uint16", 4), ("int32", 1),
                           ("uint32", 8)):  # fmt: skip
        info = np.iinfo(name)
        x = r.integers(info.min, info.max, (2, 4, 4, channels), name, endpoint=True)
        cases.append(pool("PoolMax2d", x, (4, 2), *sizes))
    same = dict.fromkeys(("in0", "out0"), Quantization(0.1, -3))
    codes = r.integers(0, 255, (1, 4, 4, 8), np.uint8)
    cases.append(pool("PoolMax2d", codes, (4, 2), *sizes, encodings=same))
    against_cpu(*cases)


@pytest.mark.slow
@BOTH
def test_images_are_interpolated(dtype: Any) -> None:
    x = normal(2, 5, 4, 8, dtype=dtype)
    against_cpu(
        *(
            case("ResizeBilinear", [x], [(2, *size, 8)], params)
            for params in ({}, {"align_corners": True}, {"half_pixel_centers": True})
            for size in ((7, 9), (2, 1))
        ),
        terms=4,
    )


@pytest.mark.slow
def test_resizes_in_every_mode() -> None:
    line, plane, volume = normal(2, 7, 3), normal(1, 5, 6, 4), normal(1, 3, 4, 5, 2)
    modes = [
        {"transformation_mode": t, "interpolation_mode": i, "exclude_outside": bool(t & 1)}
        for t in range(4)
        for i in (1, 2)
    ]
    against_cpu(
        *(case("Resize", [plane], [(1, 9, 4, 4)], mode) for mode in modes),
        *(case("Resize", [line], [(2, 1, 3)], mode) for mode in modes[2:4]),
        case("Resize", [volume], [(1, 5, 3, 9, 2)], modes[0]),
        case("Resize", [volume], [(1, 5, 3, 9, 2)], modes[1] | {"cubic_coeff": -0.5}),
        terms=64,
    )


@pytest.mark.slow
@BOTH
def test_regions_of_images(dtype: Any) -> None:
    x, sides = normal(2, 6, 7, 8, dtype=dtype), np.array([[1, 2, 9, 8], [-4, 3, 20, 3.5], [5] * 4])
    boxes, images = sides.astype(dtype), np.array([1, 0, -1], np.int32)
    ratio = np.array([2, 1], np.float32)
    modes = [{}, {"aligned": True}, {"num_samples_y": np.int32(2), "num_samples_x": np.int32(3)}]
    against_cpu(
        *(
            case("RoiAlign", [x, boxes, images], [(3, 2, 3, 8)], {"img_size_ratio": ratio, **mode})
            for mode in modes
        ),
        case("RoiAlign", [x[..., :3], boxes, images], [(3, 1, 1, 3)], {"img_size_ratio": ratio}),
        terms=64,
    )


@pytest.mark.slow
def test_the_nearest_pixel_moves_whatever_its_type() -> None:
    modes = [{"transformation_mode": t, "nearest_mode": n} for t in range(4) for n in range(4)]
    x = np.arange(60, dtype=np.uint8).reshape(1, 5, 4, 3)
    against_cpu(
        *(case("Resize", [x], [(1, 8, 6, 3)], mode) for mode in modes),
        *(
            case("ResizeNearestNeighbor", [x], [(1, 9, 3, 3)], params)
            for params in ({}, {"align_corners": True}, {"half_pixel_centers": True})
        ),
        case("Resize", [normal(1, 3, 2, 2, 4)], [(1, 4, 4, 5, 4)], {}),
        case("Resize", [normal(2, 3, 5, dtype=np.float16)], [(2, 7, 5)], {}),
        case("ResizeNearestNeighbor", [normal(1, 2, 2, 2)], [(1, 4, 4, 2)], {}),
    )


@pytest.mark.slow
def test_one_kernel_for_each_op() -> None:
    model = depthwise((1, 6, 6, 8), (3, 3), (1, 1)).model
    assert launches(model) == 1
    assert launches(transposed((1, 3, 5, 8), (3, 3), (2, 2), 8).model) == 1


@BOTH
def test_samples_of_a_grid(dtype: Any, loops_and_lanes: str) -> None:  # noqa: F811
    image, volume = normal(2, 5, 4, 6, dtype=dtype), normal(1, 3, 4, 5, 3, dtype=dtype)
    r = np.random.default_rng(3)
    points = r.uniform(-1.4, 1.4, (2, 3, 7, 2)).astype(dtype)
    points[0, 0] = [[-1, -1], [1, 1], [0, 0], [-3, 2], [0.5, -0.5], [np.nan, 0], [1, -1]]
    places = r.uniform(-1.4, 1.4, (1, 2, 3, 4, 3)).astype(dtype)
    cases = []
    for mode, padding, align in itertools.product((0, 1), (0, 1, 2), (False, True)):
        params = {"mode": mode, "padding_mode": padding, "align_corners": align}
        if dtype == np.float32 or mode == 0:  # halves lie in the middle of pixels
            cases.append(case("GridSample", [image, points], [(2, 3, 7, 6)], params))
        if padding == 2:
            cases.append(case("GridSample", [volume, places], [(1, 2, 3, 4, 3)], params))
    against_cpu(*cases, terms=8)


@BOTH
@pytest.mark.parametrize(("channels", "groups"), [(24, 3), (16, 4), (10, 2), (9, 3)])
def test_shuffled_channels_are_read_where_they_are(
    loops_and_lanes: str,  # noqa: F811
    dtype: Any,
    channels: int,
    groups: int,
) -> None:
    """By one kernel, but on a CPU; by two where somebody else reads them, too."""
    shape = (2, 7, 6, channels)
    w = normal(3, 3, 1, channels, seed=1, dtype=dtype)
    made = {n: Tensor(n, shape, w.dtype) for n in ("x", "shuffled", "y")}
    made["w"] = Tensor("w", w.shape, w.dtype, w)
    ring = {"stride": u32(1, 1), "pad_amount": np.ones((2, 2), np.uint32)}
    nodes = [
        Node("shuffle", "ChannelShuffle", ["x"], ["shuffled"], {"num_groups": np.uint32(groups)}),
        Node("conv", "DepthWiseConv2d", ["shuffled", "w"], ["y"], ring),
    ]
    one = Model("shuffled", made, nodes, ["x"], ["y"])
    both = Model("both", made, nodes, ["x"], ["y", "shuffled"])
    against_cpu(one, terms=9)
    against_cpu(both, terms=9)
    assert launches(one) == (1 if loops_and_lanes == "lanes" else 2)
    assert launches(both) == 2
