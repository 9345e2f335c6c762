"""Resizing reads the source coordinates that each mode defines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support.one_node import close, run_op

HALF_PIXEL, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC = range(4)
NEAREST, LINEAR, CUBIC = range(3)
SIZES = [
    ((9, 7), (13, 4)),
    ((5, 6), (10, 12)),
    ((8, 8), (4, 2)),
    ((3, 1), (1, 5)),
    ((4, 4), (4, 4)),
]


def source(transform: int, out: int, n_in: int, n_out: int) -> float:
    if transform == HALF_PIXEL or (transform == PYTORCH_HALF_PIXEL and n_out > 1):
        return (out + 0.5) * n_in / n_out - 0.5
    if transform == ALIGN_CORNERS and n_out > 1:
        return out * (n_in - 1) / (n_out - 1)
    return out * n_in / n_out if transform == ASYMMETRIC else 0.0


def cubic_weight(x: float, a: float) -> float:
    """Keys' kernel: https://ieeexplore.ieee.org/document/1163711"""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def matrix(
    n_in: int, n_out: int, transform: int, interpolation: int, nearest: int, exclude: bool,
    coeff: float,
) -> np.ndarray:  # fmt: skip
    """[n_out, n_in]: how much of each input coordinate every output coordinate takes."""
    result = np.zeros((n_out, n_in))
    for out in range(n_out):
        x = source(transform, out, n_in, n_out)
        if interpolation == NEAREST:
            rounded = (math.ceil(x - 0.5), math.floor(x + 0.5), math.floor(x), math.ceil(x))
            weights = {rounded[nearest]: 1.0}
        else:
            reach = 1 if interpolation == LINEAR else 2
            near = range(math.floor(x) - reach + 1, math.floor(x) + reach + 1)
            weights = {
                i: 1 - abs(x - i) if interpolation == LINEAR else cubic_weight(x - i, coeff)
                for i in near
            }
        if exclude and interpolation == CUBIC:
            weights = {i: w for i, w in weights.items() if 0 <= i < n_in}
            total = sum(weights.values())
            weights = {i: w / total for i, w in weights.items()}
        for i, w in weights.items():
            result[out, min(max(i, 0), n_in - 1)] += w
    return result


def resized(x: np.ndarray, size: tuple[int, ...], *mode: Any) -> np.ndarray:
    y = x.astype(np.float64)
    for axis, n in enumerate(size, 1):
        m = matrix(y.shape[axis], n, *mode)
        y = np.moveaxis(np.tensordot(m, y, ([1], [axis])), 0, axis)
    return y


@pytest.mark.parametrize("transform", range(4))
@pytest.mark.parametrize(("before", "after"), SIZES)
def test_resize_in_every_mode(
    before: tuple[int, int], after: tuple[int, int], transform: int
) -> None:
    x = np.random.default_rng(0).standard_normal((2, *before, 5), np.float32)
    shape = (2, *after, 5)
    common = {"transformation_mode": transform}
    for nearest in range(4):
        params: dict[str, Any] = common | {"interpolation_mode": NEAREST, "nearest_mode": nearest}
        expected = resized(x, after, transform, NEAREST, nearest, False, 0)
        np.testing.assert_array_equal(run_op("Resize", [x], [shape], params)[0], expected)
    params = common | {"interpolation_mode": LINEAR}
    expected = resized(x, after, transform, LINEAR, 0, False, 0)
    close(run_op("Resize", [x], [shape], params)[0], expected)
    close(run_op("Resize", [x.astype(np.float16)], [shape], params)[0], expected)
    for exclude in (False, True):
        for coeff in (-0.75, -0.5):
            params = common | {
                "interpolation_mode": CUBIC, "exclude_outside": exclude, "cubic_coeff": coeff
            }  # fmt: skip
            expected = resized(x, after, transform, CUBIC, 0, exclude, coeff)
            close(run_op("Resize", [x], [shape], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), [((6,), (11,)), ((4, 5, 6), (7, 3, 9))])
def test_resize_in_one_and_three_dimensions(before: Any, after: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, *before, 3), np.float32)
    for interpolation in (NEAREST, LINEAR, CUBIC):
        expected = resized(x, after, HALF_PIXEL, interpolation, 0, False, -0.75)
        params = {"interpolation_mode": interpolation}
        close(run_op("Resize", [x], [(2, *after, 3)], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), SIZES)
@pytest.mark.parametrize(
    ("align", "half", "transform"),
    [(True, False, ALIGN_CORNERS), (False, True, HALF_PIXEL), (False, False, ASYMMETRIC)],
)
def test_resize_bilinear(before: Any, after: Any, align: bool, half: bool, transform: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, *before, 17), np.float32)
    params = {"align_corners": align, "half_pixel_centers": half}
    expected = resized(x, after, transform, LINEAR, 0, False, 0)
    for value in (x, x.astype(np.float16)):
        close(run_op("ResizeBilinear", [value], [(2, *after, 17)], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int32])
def test_resize_nearest_neighbor_moves_values_of_any_type(
    before: Any, after: Any, dtype: Any
) -> None:
    x = np.random.default_rng(0).integers(0, 200, (2, *before, 5)).astype(dtype)
    for align, half in [(False, False), (True, False), (False, True)]:
        index = []
        for n_in, n_out in zip(before, after, strict=True):
            if align and n_out > 1:
                at = [math.floor(i * (n_in - 1) / (n_out - 1) + 0.5) for i in range(n_out)]
            elif half:
                at = [math.floor((i + 0.5) * n_in / n_out) for i in range(n_out)]
            else:
                at = [0 if align else i * n_in // n_out for i in range(n_out)]
            index.append(at)
        params = {"align_corners": align, "half_pixel_centers": half}
        (got,) = run_op("ResizeNearestNeighbor", [x], [(2, *after, 5)], params)
        np.testing.assert_array_equal(got, x[:, index[0]][:, :, index[1]])


def test_a_bad_resize_is_refused_with_the_rule_it_breaks() -> None:
    x = np.zeros((1, 4, 4, 3), np.float32)
    shape = (1, 8, 8, 3)
    refused: list[tuple[str, np.ndarray, tuple[int, ...], dict[str, Any], str]] = [
        ("Resize", x, (1, 8, 8, 4), {}, "channels"),
        ("Resize", x, shape, {"nearest_mode": 4}, "nearest_mode"),
        ("Resize", x.astype(np.int32), shape, {"interpolation_mode": LINEAR}, "INT_32"),
        ("ResizeBilinear", x, shape, {"align_corners": True, "half_pixel_centers": True}, "align"),
        ("ResizeBilinear", x, shape, {"antialias": True}, "antialias"),
    ]
    for op, value, declared, params, word in refused:
        with pytest.raises(QnnError) as error:
            run_op(op, [value], [declared], params)
        assert word in str(error.value)
