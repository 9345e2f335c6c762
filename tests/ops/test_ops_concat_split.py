"""Concat, Split, Pack, UnPack, Tile, StridedSlice and Pad equal numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op, u32
from support.slices import TYPES, random_slice, values


@pytest.mark.parametrize("dtype", TYPES)
def test_concat_and_split_are_each_others_inverse(dtype: str) -> None:
    for axis in range(3):
        parts = [
            values(tuple(k if i == axis else d for i, d in enumerate((3, 4, 5))), dtype, k)
            for k in (1, 4, 2)
        ]
        whole = reference.of("Concat", parts, {"axis": axis}).astype(dtype)
        (got,) = run_op("Concat", parts, [whole.shape], {"axis": axis})
        np.testing.assert_array_equal(got, whole)
        back = run_op("Split", [whole], [p.shape for p in parts],
                      {"axis": axis, "split_index": u32(1, 5)})  # fmt: skip
        for a, b in zip(back, parts, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", TYPES)
def test_pack_and_unpack_are_each_others_inverse(dtype: str) -> None:
    for axis in range(3):
        parts = [values((3, 4), dtype, k) for k in range(3)]
        whole = reference.of("Pack", parts, {"axis": axis}).astype(dtype)
        (got,) = run_op("Pack", parts, [whole.shape], {"axis": axis})
        np.testing.assert_array_equal(got, whole)
        back = run_op("UnPack", [whole], [(3, 4)] * 3, {"axis": axis})
        for a, b in zip(back, parts, strict=True):
            np.testing.assert_array_equal(a, b)
    (got,) = run_op("Pack", [values((), dtype)] * 2, [(2,)], {"axis": 0})
    np.testing.assert_array_equal(got, [values((), dtype)] * 2)


@pytest.mark.parametrize("dtype", TYPES)
def test_tile_repeats_as_numpy(dtype: str) -> None:
    x = values((3, 1, 4), dtype)
    for multiples in [(1, 1, 1), (2, 3, 4), (1, 50, 1), (3, 1, 1)]:
        params = {"multiples": u32(*multiples)}
        expected = reference.of("Tile", [x], params)
        (got,) = run_op("Tile", [x], [expected.shape], params)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_pad_in_all_schemes(dtype: str) -> None:
    for shape, pads in [
        ((4, 5, 3), [(1, 2), (0, 1), (0, 0)]),
        ((4, 5, 3), [(0, 0), (2, 3), (1, 2)]),
        ((6,), [(2, 3)]),
        ((2, 4, 4, 3), [(0, 0), (1, 1), (2, 1), (0, 0)]),
        ((3, 4), [(0, 0), (0, 0)]),
    ]:
        x = values(shape, dtype)
        for scheme in range(4):
            params = {"scheme": scheme, "pad_amount": np.array(pads, np.uint32),
                      "pad_constant_value": 1}  # fmt: skip
            expected = reference.of("Pad", [x], params)
            (got,) = run_op("Pad", [x], [expected.shape], params)
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(8))
def test_strided_slices_are_numpys(seed: int) -> None:
    r = np.random.default_rng(seed)
    done = 0
    while done < 60:
        shape = tuple(int(n) for n in r.integers(1, 7, r.integers(1, 5)))
        x = values(shape, TYPES[done % len(TYPES)])
        params = random_slice(r, shape)
        expected = reference.of("StridedSlice", [x], params)
        if expected.size == 0:  # a graph has no empty outputs
            continue
        (got,) = run_op("StridedSlice", [x], [expected.shape], params)
        np.testing.assert_array_equal(got, expected, f"{shape} {params}")
        done += 1


@pytest.mark.parametrize("stride", [2**31, 2**32 + 1, 2**63 - 1])
def test_a_stride_beyond_the_end_takes_one_element(stride: int) -> None:
    x = np.arange(5, dtype=np.float32)
    for begin, end, step in [(1, 5, stride), (3, 0, -stride), (4, 0, -stride - 1)]:
        ranges = np.array([[begin, end, step]], np.int64)
        (got,) = run_op("StridedSlice", [x], [(1,)], {"ranges": ranges})
        np.testing.assert_array_equal(got, x[begin : begin + 1])


def test_what_breaks_a_rule_is_refused() -> None:
    x = values((2, 3, 4), "int32")
    ranges = np.array([[0, 2, 1], [3, 4, 1], [0, 4, 1]], np.int32)
    no_stride = np.zeros((3, 3), np.int32)
    pad = {"scheme": 0, "pad_amount": u32(1, 0, 0, 0, 0, 0)}
    cases: list[tuple[str, list[np.ndarray], int, dict[str, Any], str]] = [
        ("Concat", [x, x[:1]], 1, {"axis": 1}, "input 1"),
        ("Concat", [x, x], 1, {"axis": 3}, "axis"),
        ("Split", [x], 2, {"axis": 1, "split_index": u32(7)}, "split_index"),
        ("Split", [x], 2, {"axis": 1, "split_index": u32(1, 2)}, "split_index"),
        ("Split", [x], 2, {"axis": 1}, "split_index"),
        ("Pack", [x, x[:1]], 1, {"axis": 0}, "input 1"),
        ("UnPack", [x], 1, {"axis": 0}, "outputs"),
        ("Tile", [x], 1, {"multiples": u32(1, 0, 1)}, "multiples"),
        ("Pad", [x], 1, {**pad, "scheme": 4}, "scheme"),
        ("Pad", [x], 1, {"scheme": 2, "pad_amount": u32(2, 0, 0, 0, 0, 0)}, "pad_amount"),
        ("Pad", [x], 1, {"scheme": 0, "pad_amount": u32(2, 0)}, "pad_amount"),
        ("Pad", [x], 1, {**pad, "pad_constant_value": 1.5}, "pad_constant_value"),
        ("StridedSlice", [x], 1, {"ranges": ranges[:2]}, "rows"),
        ("StridedSlice", [x], 1, {"ranges": no_stride}, "stride 0"),
        ("Tile", [x], 1, {"multiples": np.array([1, 2**32 + 1, 1])}, "multiples"),
        ("StridedSlice", [x], 1, {"ranges": ranges, "shrink_axes": 2}, "element 3 of axis 1"),
    ]
    for op, inputs, outputs, params, message in cases:
        with pytest.raises(QnnError, match=message) as e:
            run_op(op, inputs, [(2, 3, 4)] * outputs, params)
        assert op in str(e.value)
    with pytest.raises(QnnError, match="pad_constant_value"):
        run_op("Pad", [x.astype(np.int8)], [(3, 3, 4)], {**pad, "pad_constant_value": 300})
