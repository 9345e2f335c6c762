"""Ops that move or compare fixed-point numbers do it on their integers, whatever the encodings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.fixed import Fixed, run_fixed, via_float, within
from support.one_node import KERNELS, pairs, u32

TYPES = [np.uint8, np.int8, np.uint16, np.int16]


def encoding(dtype: Any, seed: int = 0) -> Fixed:
    """Of about [-1, 2], each seed a little wider."""
    return Fixed.covering(dtype, -1.0 - 0.07 * seed, 2.0 + 0.13 * seed)


# op, shapes of the data inputs, shapes of the outputs, params
SHAPE = (2, 6, 4, 5)
CASES: dict[str, tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], dict[str, Any]]] = {
    "reshape": ("Reshape", [SHAPE], [(12, 20)], {}),
    "transpose": ("Transpose", [SHAPE], [(2, 5, 6, 4)], {"perm": u32(0, 3, 1, 2)}),
    "planes_to_pixels": (
        "Transpose",
        [(2, 3, 61, 70)],
        [(2, 61, 70, 3)],
        {"perm": u32(0, 2, 3, 1)},
    ),
    "pixels_to_planes": (
        "Transpose",
        [(1, 61, 70, 4)],
        [(1, 4, 61, 70)],
        {"perm": u32(0, 3, 1, 2)},
    ),
    "two_rows_in_turn": ("Transpose", [(2, 5000)], [(5000, 2)], {"perm": u32(1, 0)}),
    "concat_last": ("Concat", [(3, 7, 5), (3, 7, 64), (3, 7, 33)], [(3, 7, 102)], {}),
    "concat_rows": (
        "Concat",
        [(3, 70, n) for n in (1, 16, 55, 24, 130)],
        [(3, 70, 226)],
        {},
    ),
    "concat_first": ("Concat", [(2, 9), (3, 9)], [(5, 9)], {"axis": np.uint32(0)}),
    "pack": ("Pack", [(5, 7), (5, 7)], [(5, 2, 7)], {"axis": np.uint32(1)}),
    "split": (
        "Split",
        [(4, 9)],
        [(4, 2), (4, 7)],
        {"axis": np.uint32(1), "split_index": u32(2)},
    ),
    "unpack": ("UnPack", [(2, 9)], [(9,), (9,)], {"axis": np.uint32(0)}),
    "tile": ("Tile", [(2, 3)], [(4, 9)], {"multiples": u32(2, 3)}),
    "slice": (
        "StridedSlice",
        [(7, 9)],
        [(3, 4)],
        {"ranges": np.array([[1, 7, 2], [0, 8, 2]], np.int32)},
    ),
    "depth_to_space": ("DepthToSpace", [(1, 2, 3, 8)], [(1, 4, 6, 2)], {"block_size": u32(2, 2)}),
    "space_to_batch": (
        "SpaceToBatch",
        [(1, 3, 5, 3)],
        [(4, 3, 3, 3)],
        {"block_size": u32(2, 2), "pad_amount": pairs((1, 0), (2, 1))},
    ),
    "batch_to_space": (
        "BatchToSpace",
        [(4, 2, 3, 2)],
        [(1, 3, 6, 2)],
        {"block_size": u32(2, 2), "crops": pairs((1, 0), (0, 0))},
    ),
    "pad": (
        "Pad",
        [(3, 5)],
        [(5, 9)],
        {"scheme": np.uint32(0), "pad_amount": pairs((1, 3), (1, 1))},
    ),
    "pad_edge": (
        "Pad",
        [(3, 5)],
        [(5, 9)],
        {"scheme": np.uint32(3), "pad_amount": pairs((1, 3), (1, 1))},
    ),
    "nearest": ("ResizeNearestNeighbor", [(1, 3, 5, 3)], [(1, 6, 9, 3)], {}),
    "resize_nearest": (
        "Resize",
        [(1, 3, 5, 3)],
        [(1, 2, 9, 3)],
        {"interpolation_mode": np.uint32(0)},
    ),
    "pool_max": (
        "PoolMax2d",
        [(1, 7, 6, 70)],
        [(1, 4, 3, 70)],
        {"filter_size": u32(3, 3), "stride": u32(2, 2), "pad_amount": pairs((1, 1), (1, 0))},
    ),
    "reduce_max": ("ReduceMax", [(3, 5, 7)], [(3, 7)], {"axes": u32(1)}),
    "reduce_min": ("ReduceMin", [(3, 5, 70)], [(3, 5)], {"axes": u32(2)}),
}


def run(case: str, ins: list[Fixed], outs: list[Fixed], kernels: str, runner: Any) -> Any:
    op, shapes, results, params = CASES[case]
    rng = np.random.default_rng(7)
    inputs = [
        (of.random(rng, shape), of) for shape, of in zip(shapes, ins * len(shapes), strict=False)
    ]
    outputs = list(zip(results, outs * len(results), strict=False))
    return runner(op, inputs, outputs, params, kernels=kernels)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_moves_keep_integers_where_encodings_are_alike(case, dtype, kernels):
    of = encoding(dtype)
    got = run(case, [of], [of], kernels, run_fixed)
    for g, e in zip(got, run(case, [of], [of], kernels, via_float), strict=True):
        within(g, e)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_moves_bring_values_to_the_encoding_of_the_output(case, dtype, to):
    ins = [encoding(dtype, 1), encoding(to), encoding(dtype, 2)]
    shapes = len(CASES[case][1])
    outs = [encoding(to), encoding(to, 3)]
    got = run(case, ins[:shapes], outs, "auto", run_fixed)
    for g, e in zip(got, run(case, ins[:shapes], outs, "auto", via_float), strict=True):
        within(g, e)


def test_a_narrow_bitwidth_saturates_where_a_move_requantizes():
    of, narrow = Fixed(np.uint8, 0.5, -8), Fixed(np.int8, 0.5, 0, bitwidth=4)
    x = of.codes().reshape(16, 16)
    (got,) = run_fixed("Transpose", [(x, of)], [((16, 16), narrow)], {"perm": u32(1, 0)})
    assert (got.min(), got.max()) == (-8, 7)
    within(got, narrow.quantize(of.dequantize(x)).T)


def test_a_scale_for_each_index_of_an_axis_moves_by_its_real_values():
    of = Fixed(np.int8, np.array([0.5, 0.25, 2.0], np.float32), np.zeros(3, np.int32), axis=0)
    x = of.random(np.random.default_rng(1), (3, 40))
    to = Fixed(np.int8, 0.5)
    (got,) = run_fixed("Transpose", [(x, of)], [((40, 3), to)], {"perm": u32(1, 0)})
    within(got, to.quantize(of.dequantize(x).T))


def test_a_reshape_computes_where_the_same_axis_has_other_elements():
    of = Fixed(np.uint8, np.array([0.5, 1, 2, 4], np.float32), np.array([0, -1, -2, -3]), axis=1)
    x = of.random(np.random.default_rng(2), (4, 4))
    (got,) = run_fixed("Reshape", [(x, of)], [((2, 4, 2), of)])
    within(got, of.quantize(of.dequantize(x).reshape(2, 4, 2)))


@pytest.mark.parametrize(
    ("op", "shape", "axis", "to", "at"),
    [
        ("Reshape", (2, 3, 4, 5), 2, (6, 4, 5), 1),
        ("Reshape", (2, 3, 4, 5), 3, (4, 6, 5), 2),
        ("Reshape", (4, 15), 0, (4, 3, 5), 0),
        ("Squeeze", (1, 4, 1, 5), 1, (4, 5), 0),
        ("ExpandDims", (4, 5), 1, (1, 4, 5), 2),
    ],
)
@pytest.mark.parametrize("static", [(), (0,)])
def test_scales_along_an_axis_that_stays_leave_the_integers_as_they_are(
    op, shape, axis, to, at, static
):
    """Of 32 bits a float would not hold them all."""
    rng = np.random.default_rng(2)
    for dtype in (np.int8, np.int32):
        n = shape[axis]
        of = Fixed(dtype, rng.uniform(0.1, 2, n).astype(np.float32), np.zeros(n, int), axis)
        out = replace(of, axis=at)
        x = of.random(rng, shape)
        params = {"axis": np.uint32(0)} if op == "ExpandDims" else {}
        (got,) = run_fixed(op, [(x, of)], [(to, out)], params, static=static)
        within(got, x.reshape(to))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, 10),  # real 0
        (np.float32(3.0), 16),  # a real number
        (np.float32(1000.0), 255),
        (np.int32(3), 3),  # an integer as it is stored
        (np.uint8(200), 200),
    ],
)
def test_pad_takes_real_numbers_and_stored_integers(value, code):
    of = Fixed(np.uint8, 0.5, -10)
    x = np.array([[50, 51]], np.uint8)
    params = {"scheme": np.uint32(0), "pad_amount": pairs((0, 1), (1, 0))}
    if value is not None:
        params["pad_constant_value"] = value
    (got,) = run_fixed("Pad", [(x, of)], [((2, 3), of)], params)
    assert got.tolist() == [[code, 50, 51], [code, code, code]]


def test_an_integer_to_pad_with_is_in_the_encoding_of_the_input():
    of, to = Fixed(np.uint8, 0.5, -10), Fixed(np.uint8, 1.0, -20)
    x = np.array([[50, 52]], np.uint8)
    params = {"scheme": np.uint32(0), "pad_amount": pairs((0, 1), (0, 0))}
    params["pad_constant_value"] = np.int32(100)  # real 45
    (got,) = run_fixed("Pad", [(x, of)], [((1, 3), to)], params)
    assert got.tolist() == [[65, 40, 41]]


def test_one_hot_writes_the_integers_of_its_values():
    of = Fixed(np.int8, 0.25, 3)
    (got,) = run_fixed("OneHot", [np.array([2, 0], np.int32)], [((2, 3), of)], {"depth": u32(3)[0]})
    assert got.tolist() == [[0, 0, 1], [1, 0, 0]]  # stored integers by default
    params = {"depth": u32(3)[0], "on_value": np.float32(2.0), "off_value": np.int32(7)}
    (got,) = run_fixed("OneHot", [np.array([2, 0], np.int32)], [((2, 3), of)], params)
    assert got.tolist() == [[7, 7, 5], [5, 7, 7]]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("out", [0, 2])
def test_gathers_and_scatters(dtype, out):
    of, to = encoding(dtype), encoding(dtype, out)
    rng = np.random.default_rng(3)
    x, updates = (of.random(rng, (6, 9)), of), (of.random(rng, (2, 9)), encoding(dtype, 1))
    rows = np.array([4, 1], np.int32)
    cases: list[tuple[str, list[Any], tuple[int, ...], dict[str, Any]]] = [
        ("Gather", [x, rows], (2, 9), {"axis": np.int32(0)}),
        ("GatherNd", [x, rows.reshape(2, 1)], (2, 9), {}),
        ("GatherElements", [x, np.tile(rows[:, None], 9)], (2, 9), {"axis": np.uint32(0)}),
        ("ScatterNd", [x, rows.reshape(2, 1), updates], (6, 9), {}),
        ("ScatterNd", [x, rows.reshape(2, 1), updates], (6, 9), {"reduction": np.uint32(1)}),
        ("ScatterNd", [x, rows.reshape(2, 1), updates], (6, 9), {"reduction": np.uint32(3)}),
        ("ScatterElements", [x, np.tile(rows[:, None], 9), updates], (6, 9), {}),
    ]
    for op, inputs, shape, params in cases:
        got = run_fixed(op, inputs, [(shape, to)], params)
        within(got[0], via_float(op, inputs, [(shape, to)], params)[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["Argmax", "Argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_place_of_the_best_does_not_depend_on_the_encoding(op, axis, dtype):
    of = encoding(dtype)
    x = of.random(np.random.default_rng(5), (37, 41))
    (got,) = run_fixed(
        op, [(x, of)], [((41, 37)[axis : axis + 1], np.int32)], {"axis": u32(axis)[0]}
    )
    find = np.argmax if op == "Argmax" else np.argmin
    np.testing.assert_array_equal(got, find(x, axis))


@pytest.mark.parametrize("to", [np.uint8, np.int16])
def test_top_k_keeps_the_order_of_what_the_output_cannot_tell_apart(to):
    of, coarse = encoding(np.uint8), Fixed(to, 1.0)
    x = of.random(np.random.default_rng(5), (3, 50))
    outputs = [((3, 7), coarse), ((3, 7), np.int32)]
    values, indices = run_fixed("TopK", [(x, of)], outputs, {"k": u32(7)[0]})
    expected = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(indices, expected)
    within(values, coarse.quantize(of.dequantize(np.take_along_axis(x, expected, 1))))


def test_equal_scales_of_fewer_bits_are_another_encoding():
    of, narrow = Fixed(np.int8, 0.5, 0), Fixed(np.int8, 0.5, 0, bitwidth=4)
    x = of.codes().reshape(16, 16)
    for op, params in (("Transpose", {"perm": u32(1, 0)}), ("Concat", {}), ("Reshape", {})):
        (got,) = run_fixed(op, [(x, of)], [((16, 16), narrow)], params)
        expected = x.T if op == "Transpose" else x
        np.testing.assert_array_equal(got, np.clip(expected, -8, 7))
