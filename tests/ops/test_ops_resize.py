"""Resizing reads the source coordinates that each mode defines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import close, run_op
from support.reference.resize import CUBIC, LINEAR, NEAREST

SIZES = [
    ((9, 7), (13, 4)),
    ((5, 6), (10, 12)),
    ((8, 8), (4, 2)),
    ((3, 1), (1, 5)),
    ((4, 4), (4, 4)),
]


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
        expected = reference.of("Resize", [x], params, shape)
        np.testing.assert_array_equal(run_op("Resize", [x], [shape], params)[0], expected)
    params = common | {"interpolation_mode": LINEAR}
    expected = reference.of("Resize", [x], params, shape)
    close(run_op("Resize", [x], [shape], params)[0], expected)
    close(run_op("Resize", [x.astype(np.float16)], [shape], params)[0], expected)
    for exclude in (False, True):
        for coeff in (-0.75, -0.5):
            params = common | {
                "interpolation_mode": CUBIC, "exclude_outside": exclude, "cubic_coeff": coeff
            }  # fmt: skip
            expected = reference.of("Resize", [x], params, shape)
            close(run_op("Resize", [x], [shape], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), [((6,), (11,)), ((4, 5, 6), (7, 3, 9))])
def test_resize_in_one_and_three_dimensions(before: Any, after: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, *before, 3), np.float32)
    for interpolation in (NEAREST, LINEAR, CUBIC):
        params, shape = {"interpolation_mode": interpolation}, (2, *after, 3)
        expected = reference.of("Resize", [x], params, shape)
        close(run_op("Resize", [x], [shape], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), SIZES)
@pytest.mark.parametrize(
    ("align", "half", "transform"), [(True, False, 2), (False, True, 0), (False, False, 3)]
)
def test_resize_bilinear(before: Any, after: Any, align: bool, half: bool, transform: int) -> None:
    """transform: what Resize calls it."""
    x = np.random.default_rng(0).standard_normal((2, *before, 17), np.float32)
    params = {"align_corners": align, "half_pixel_centers": half}
    shape = (2, *after, 17)
    expected = reference.of("ResizeBilinear", [x], params, shape)
    same = {"interpolation_mode": LINEAR, "transformation_mode": transform}
    np.testing.assert_array_equal(reference.of("Resize", [x], same, shape), expected)
    for value in (x, x.astype(np.float16)):
        close(run_op("ResizeBilinear", [value], [shape], params)[0], expected)


@pytest.mark.parametrize(("before", "after"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int32])
def test_resize_nearest_neighbor_moves_values_of_any_type(
    before: Any, after: Any, dtype: Any
) -> None:
    for channels in range(1, 6):
        x = np.random.default_rng(0).integers(0, 200, (2, *before, channels)).astype(dtype)
        shape = (2, *after, channels)
        for align, half in [(False, False), (True, False), (False, True)]:
            params = {"align_corners": align, "half_pixel_centers": half}
            (got,) = run_op("ResizeNearestNeighbor", [x], [shape], params)
            expected = reference.of("ResizeNearestNeighbor", [x], params, shape)
            np.testing.assert_array_equal(got, expected)


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
