"""Reshapes, transposes and block rearrangements move every element where numpy puts it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op, u32

TYPES = ("float32", "float16", "float64", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64", "bool")  # fmt: skip


def values(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return (
        np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    )


def moved(op: str, x: np.ndarray, shape: tuple[int, ...], params: Any = None) -> np.ndarray:
    (got,) = run_op(op, [x], [shape], params)
    return got


def same(op: str, x: np.ndarray, params: dict[str, Any]) -> np.ndarray:
    """What an op gives, which is what its reference gives."""
    expected = reference.of(op, [x], params).astype(x.dtype)
    np.testing.assert_array_equal(
        moved(op, x, expected.shape, params), expected, f"{op} {x.shape} {params}"
    )
    return np.ascontiguousarray(expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_other_shapes_of_the_same_elements(dtype: str) -> None:
    x = values((1, 3, 1, 8), dtype)
    for shape in [(24,), (4, 6), (2, 3, 2, 2, 1), (1, 3, 1, 8)]:
        np.testing.assert_array_equal(moved("Reshape", x, shape), x.reshape(shape))
    one = values((1,), dtype)
    np.testing.assert_array_equal(moved("Reshape", one, ()), one.reshape(()))
    for shape, params in [((3, 8), {}), ((1, 3, 8), {}), ((3, 1, 8), {"axes": u32(0)})]:
        np.testing.assert_array_equal(moved("Squeeze", x, shape, params), x.reshape(shape))
    for axis in range(5):
        y = np.expand_dims(x, axis)
        np.testing.assert_array_equal(moved("ExpandDims", x, y.shape, {"axis": axis}), y)
    y = np.expand_dims(x, (0, 5))
    np.testing.assert_array_equal(moved("ExpandDims", x, y.shape, {"axes": u32(0, 5)}), y)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_permutation(dtype: str) -> None:
    for shape in [(), (5,), (37, 53), (32, 48), (3, 100, 16), (2, 17, 33, 5), (2, 3, 4, 5, 6)]:
        x = values(shape, dtype)
        perms = list(itertools.permutations(range(len(shape))))
        for perm in perms[:: max(1, len(perms) // 24)]:
            same("Transpose", x, {"perm": u32(*perm)})


@pytest.mark.parametrize("shape", [(1, 224, 224, 3), (1, 64, 64, 48), (4, 1000, 1000)])
def test_large_transposes_on_threads(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).random(shape, np.float32)
    for perm in [(0, *range(2, len(shape)), 1), tuple(reversed(range(len(shape))))]:
        same("Transpose", x, {"perm": u32(*perm)})


@pytest.mark.parametrize("dtype", TYPES)
def test_planes_become_channels(dtype: str) -> None:
    """Two to four planes are interleaved in bands; bands and vectors both leave a rest."""
    for planes in (2, 3, 4, 5):
        for pixels in [(1, 7), (65, 67), (64, 64), (91, 97)]:
            x = values((2, planes, *pixels), dtype)
            same("Transpose", x, {"perm": u32(0, 2, 3, 1)})


@pytest.mark.parametrize("dtype", TYPES)
def test_channels_become_planes(dtype: str) -> None:
    for channels in (2, 3, 4, 5):
        for pixels in [(1, 7), (65, 67), (64, 64)]:
            x = values((2, *pixels, channels), dtype)
            same("Transpose", x, {"perm": u32(0, 3, 1, 2)})


def test_channel_shuffle() -> None:
    x = values((2, 5, 24, 3))
    for axis, groups in [(2, 4), (2, 24), (1, 5), (3, 3), (0, 2), (2, 1)]:
        same("ChannelShuffle", x, {"num_groups": groups, "axis": axis})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("groups", [2, 3, 4, 5, 8, 16])
def test_channel_shuffle_within_pixels(groups: int, dtype: str) -> None:
    for columns in (1, 3, 16, 17, 37):
        x = values((3, 7, groups * columns), dtype)
        same("ChannelShuffle", x, {"num_groups": groups, "axis": 2})


@pytest.mark.parametrize("dtype", TYPES)
def test_depth_to_space_and_back(dtype: str) -> None:
    for bh, bw in [(2, 2), (1, 3), (3, 2)]:
        n, h, w, c = 2, 3, 5, 4
        x = values((n, h, w, bh * bw * c), dtype)
        for mode in range(2):
            params = {"block_size": u32(bh, bw), "mode": mode}
            y = same("DepthToSpace", x, params)
            np.testing.assert_array_equal(same("SpaceToDepth", y, params), x)


@pytest.mark.parametrize("pads", [None, [[0, 0], [0, 0]], [[1, 2], [0, 3]], [[3, 0], [2, 1]]])
def test_space_to_batch_and_back(pads: Any) -> None:
    for bh, bw in [(2, 2), (1, 3), (3, 2)]:
        p = pads or [[0, 0], [0, 0]]
        x = values((2, -sum(p[0]) % bh + 2 * bh, -sum(p[1]) % bw + 3 * bw, 3))
        to, back = ({"block_size": u32(bh, bw)} for _ in range(2))
        if pads is not None:
            to["pad_amount"] = back["crops"] = np.array(pads, np.uint32)
        y = same("SpaceToBatch", x, to)
        np.testing.assert_array_equal(same("BatchToSpace", y, back), x)


def test_what_breaks_a_rule_is_refused() -> None:
    flat, image = (2, 3, 4), (1, 4, 4, 8)
    for op, shape, out, params, message in [
        ("Reshape", flat, (5, 5), {}, "elements"),
        ("Squeeze", flat, (6, 4), {}, "size 1"),
        ("Squeeze", flat, (2, 4), {"axes": u32(1)}, "size 3"),
        ("ExpandDims", flat, (1, 2, 3, 4), {}, "axis"),
        ("ExpandDims", flat, (1, 2, 3, 4), {"axis": 4}, "axis"),
        ("Transpose", flat, flat, {}, "perm"),
        ("Transpose", flat, flat, {"perm": u32(0, 0, 1)}, "permutation"),
        ("Transpose", flat, flat, {"perm": u32(0, 1)}, "perm"),
        ("ChannelShuffle", flat, flat, {"num_groups": 3}, "num_groups"),
        ("DepthToSpace", image, image, {"block_size": u32(3, 3)}, "multiple of 9"),
        ("DepthToSpace", image, image, {"block_size": u32(2)}, "block_size"),
        ("SpaceToDepth", image, image, {"block_size": u32(3, 3)}, "height"),
        ("SpaceToDepth", image, image, {"block_size": u32(2, 2), "mode": 2}, "mode"),
        ("BatchToSpace", image, image, {"block_size": u32(2, 2)}, "batch"),
        ("SpaceToBatch", image, image, {"block_size": u32(3, 3)}, "height"),
    ]:  # fmt: skip
        with pytest.raises(QnnError, match=message) as e:
            run_op(str(op), [values(shape)], [out], params)  # type: ignore[list-item, arg-type]
        assert str(op) in str(e.value)
