"""Gathers, scatters, OneHot, NonZero, GridSample, RoiAlign; an index outside is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op

TYPES = ("float32", "float16", "float64", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64", "bool")  # fmt: skip
INDICES = ("int32", "uint32", "int64")


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)


def picks(shape: tuple[int, ...], size: int, dtype: str, seed: int = 1) -> np.ndarray:
    """Indices into an axis, from its end too where the type has signs."""
    low = 0 if dtype == "uint32" else -size
    return np.random.default_rng(seed).integers(low, size, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_gather_is_take(dtype: str) -> None:
    for index in INDICES:
        for shape, chosen in [
            ((5,), ()),
            ((4, 5, 6), (2, 3)),
            ((3, 7), (4, 1, 2)),
            ((30, 40), (99,)),
        ]:
            x = values(shape, dtype)
            for axis in range(len(shape)):
                i = picks(chosen, shape[axis], index)
                params = {"axis": np.int32(axis)}
                expected = reference.of("Gather", [x, i], params)
                (got,) = run_op("Gather", [x, i], [expected.shape], params)
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_gather_and_scatter_elements(dtype: str) -> None:
    for n, index in enumerate(INDICES):
        for shape, chosen in [((5,), (8,)), ((4, 5, 6), (4, 3, 2)), ((3, 7), (2, 7))]:
            x = values(shape, dtype)
            axis = min(n, len(shape) - 1)
            i = picks(chosen, shape[axis], index)
            if all(c <= s for d, (c, s) in enumerate(zip(chosen, shape, strict=True)) if d != axis):
                expected = reference.of("GatherElements", [x, i], {"axis": axis})
                (got,) = run_op("GatherElements", [x, i], [chosen], {"axis": axis})
                np.testing.assert_array_equal(got, expected)
            updates = values(chosen, dtype, 2)
            for reduction in range(1 if dtype == "bool" else 4):
                params = {"axis": axis, "reduction": reduction}
                expected = reference.of("ScatterElements", [x, i, updates], params)
                (got,) = run_op("ScatterElements", [x, i, updates], [shape], params)
                np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype == "float16" else 0)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("threads", [1, 3])
def test_gather_elements_of_many_rows(axis: int, threads: int) -> None:
    """More than a thread takes at once, which begins inside of a row; some dims in part."""
    x = values((9, 70, 40), "float32")
    chosen = [9, 61, 37]
    chosen[axis] = 50
    i = picks(tuple(chosen), x.shape[axis], "int64")
    expected = reference.of("GatherElements", [x, i], {"axis": axis})
    (got,) = run_op("GatherElements", [x, i], [i.shape], {"axis": axis}, threads=threads)
    np.testing.assert_array_equal(got, expected)
    i[3, 20, 30] = i[8, 0, 0] = 100
    where = np.ravel_multi_index((3, 20, 30), i.shape)
    with pytest.raises(QnnError, match=rf"index 100 \(element {where}\D"):
        run_op("GatherElements", [x, i], [i.shape], {"axis": axis}, threads=threads)


@pytest.mark.parametrize("dtype", TYPES)
def test_gather_and_scatter_nd(dtype: str) -> None:
    shape = (3, 4, 5)
    x = values(shape, dtype)
    for batch, depth, more in [
        (0, 2, (6,)),
        (0, 1, (2, 3)),
        (0, 3, ()),
        (1, 1, (2,)),
        (2, 1, (3,)),
    ]:
        lead = shape[:batch] + more
        i = np.stack([picks(lead, shape[batch + d], "int32", d) for d in range(depth)], -1)
        expected = reference.of("GatherNd", [x, i], {"batch_dims": batch})
        (got,) = run_op("GatherNd", [x, i], [expected.shape], {"batch_dims": batch})
        np.testing.assert_array_equal(got, expected)
        if batch > 0:
            continue
        updates = values(expected.shape, dtype, 3)
        for reduction in range(1 if dtype == "bool" else 3):
            params = {"reduction": reduction}
            expected = reference.of("ScatterNd", [x, i, updates], params)
            (got,) = run_op("ScatterNd", [x, i, updates], [shape], params)
            np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype == "float16" else 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("places", ["a slice", "twice", "backwards", "alone"])
def test_places_that_are_known_beside_each_other(places: str, dtype: str) -> None:
    shape = (3, 40, 30, 2)
    x = values(shape, dtype)
    slices = {
        "a slice": [np.r_[0:3], np.r_[1:40], np.r_[1:30]],
        "twice": [np.r_[1, 1], np.r_[0:40], np.r_[5:30]],
        "backwards": [np.r_[2, 0], np.r_[30:10:-1], np.r_[-20:0]],
        "alone": [np.r_[0:3], np.r_[0:40], np.r_[0:30:2]],
    }[places]
    i = np.stack(np.meshgrid(*slices, indexing="ij"), -1).astype(np.int32)
    updates = values((*i.shape[:-1], 2), dtype, 3)
    for reduction in range(1 if dtype == "bool" else 3):
        params = {"reduction": reduction}
        expected = reference.of("ScatterNd", [x, i, updates], params)
        (got,) = run_op("ScatterNd", [x, i, updates], [shape], params, static=(1,))
        np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype == "float16" else 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_one_hot(dtype: str) -> None:
    for index in INDICES:
        for shape in [(4,), (2, 3)]:
            i = picks(shape, 6, index)  # -6, 5 are outside of depth 5: all off
            for axis in range(len(shape) + 1):
                for ends in ({}, {"on_value": 3, "off_value": 2}):
                    if ends and dtype == "bool":
                        continue
                    params = {"depth": 5, "axis": axis, **ends}
                    hot = reference.of("OneHot", [i], params)
                    (got,) = run_op("OneHot", [i], [hot.shape], params, dtype=dtype)
                    np.testing.assert_array_equal(got, hot.astype(dtype))


@pytest.mark.parametrize(("dtype", "off"), [("float32", 0.25), ("int64", -3), ("uint8", 7)])
def test_one_hot_of_many_classes(dtype: str, off: float) -> None:
    """More bytes than the block that a fill repeats, and no multiple of it."""
    i = np.arange(0, 1201, 400, np.int32)
    params = {"depth": 3001, "axis": 0, "on_value": 2, "off_value": off}
    hot = reference.of("OneHot", [i], params)
    (got,) = run_op("OneHot", [i], [hot.shape], params, dtype=dtype)
    np.testing.assert_array_equal(got, hot.astype(dtype))


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sample_is_torchs(padding: int) -> None:
    torch = pytest.importorskip("torch")
    r = np.random.default_rng(4)
    names = ("zeros", "border", "reflection")
    for image, points in [((5, 6), (4, 3)), ((3, 4, 5), (2, 3, 4)), ((1, 4), (3, 3))]:
        x = r.normal(size=(2, *image, 3)).astype(np.float32)
        grid = r.uniform(-1.7, 1.7, (2, *points, len(image))).astype(np.float32)
        for align in (True, False):
            for mode, name in enumerate(("bilinear", "nearest")):
                expected = torch.nn.functional.grid_sample(
                    torch.from_numpy(np.moveaxis(x, -1, 1).copy()), torch.from_numpy(grid),
                    mode=name, padding_mode=names[padding], align_corners=align,
                ).numpy()  # fmt: skip
                params = {"mode": mode, "padding_mode": padding, "align_corners": align}
                (got,) = run_op("GridSample", [x, grid], [(2, *points, 3)], params)
                np.testing.assert_allclose(got, np.moveaxis(expected, 1, -1), atol=2e-5)
                ours = reference.of("GridSample", [x, grid], params)
                np.testing.assert_allclose(ours, got, atol=2e-5)


def test_points_of_one_channel_are_those_of_several_and_read_nothing_outside() -> None:
    r = np.random.default_rng(5)
    x = r.normal(size=(3, 5, 6, 1)).astype(np.float32)
    grid = r.uniform(-1.6, 1.6, (3, 9, 11, 2)).astype(np.float32)  # more points than at once
    odd = [[np.nan, 0.0], [0.0, np.inf], [-np.inf, 0.0], [1e30, 1e30], [-1.0, -1.0]]
    grid[0, 0, :5] = np.array(odd, np.float32)
    (one,) = run_op("GridSample", [x, grid], [(3, 9, 11, 1)])
    (three,) = run_op("GridSample", [np.repeat(x, 3, -1), grid], [(3, 9, 11, 3)])
    np.testing.assert_allclose(np.repeat(one, 3, -1), three, atol=1e-6)
    usual = np.nan_to_num(grid, nan=9, posinf=9, neginf=9).clip(-9, 9)
    np.testing.assert_allclose(
        one,
        reference.of(
            "GridSample", [x, usual], {"mode": 0, "padding_mode": 0, "align_corners": False}
        ),
        atol=2e-5,
    )
    (outside,) = run_op("GridSample", [x + np.inf, grid + 9], [(3, 9, 11, 1)])
    assert not outside.any()


def regions(seed: int) -> list[np.ndarray]:
    """An image, regions within and beyond it, of no size, too, and which image they are of."""
    r = np.random.default_rng(seed)
    first = r.uniform(-4, 14, (9, 2))
    boxes = np.concatenate([first, first + r.uniform(-1, 12, (9, 2))], 1).astype(np.float32)
    x = r.normal(size=(2, 7, 9, 6)).astype(np.float32)
    return [x, boxes, r.integers(0, 2, 9).astype(np.int32)]


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
def test_roi_align_is_onnxs(mode: str) -> None:
    theirs = pytest.importorskip("onnx.reference.ops.op_roi_align").RoiAlign
    for samples in (0, 1, 3):
        x, boxes, images = regions(samples)
        expected = theirs.eval(
            np.moveaxis(x, -1, 1), boxes, images.astype(np.int64), output_height=3,
            output_width=4, sampling_ratio=samples, spatial_scale=0.5, mode="avg",
            coordinate_transformation_mode=mode,
        )  # fmt: skip
        params = {
            "img_size_ratio": np.array([2, 2], np.float32),
            "num_samples_y": np.int32(samples or -1),
            "num_samples_x": np.int32(samples or -1),
            "aligned": mode == "half_pixel",
        }
        (got,) = run_op("RoiAlign", [x, boxes, images], [(9, 3, 4, 6)], params)
        np.testing.assert_allclose(got, np.moveaxis(expected, 1, -1), rtol=1e-5, atol=1e-5)
        ours = reference.of("RoiAlign", [x, boxes, images], params, got.shape)
        np.testing.assert_allclose(ours, got, rtol=1e-5, atol=1e-5)
        half = [x.astype(np.float16), boxes.astype(np.float16), images]
        exact = [half[0].astype(np.float32), half[1].astype(np.float32), images]
        (wide,) = run_op("RoiAlign", exact, [(9, 3, 4, 6)], params)
        (got,) = run_op("RoiAlign", half, [(9, 3, 4, 6)], params)
        np.testing.assert_array_equal(got, wide.astype(np.float16))


@pytest.mark.parametrize("dtype", TYPES)
def test_places_of_what_is_not_zero(dtype: str) -> None:
    for n, shape in enumerate([(7,), (3, 5), (2, 3, 4, 2)]):
        x = values(shape, dtype) * values(shape, "bool", 1)
        found = np.argwhere(x)
        for room in (len(found), len(found) + 3):
            (got,) = run_op("NonZero", [x], [(room, len(shape))], dtype=INDICES[n])
            assert got.dtype == INDICES[n]
            np.testing.assert_array_equal(got[: len(found)], found)
            np.testing.assert_array_equal(got[len(found) :].astype(np.int32), -1)
        with pytest.raises(QnnError, match=rf"{len(found)} elements are not 0.* {len(found) - 1}"):
            run_op("NonZero", [x], [(len(found) - 1, len(shape))], dtype="int32")
    with pytest.raises(QnnError, match=r"room for 0 places.* 4 elements"):
        run_op("NonZero", [np.zeros((2, 2), dtype)], [(0, 2)], dtype="int32")
    (none,) = run_op("NonZero", [np.zeros((0, 2), dtype)], [(0, 2)], dtype="int32")
    assert none.shape == (0, 2)
    with pytest.raises(QnnError, match=r"\[4, 3\].*\[4, 2\]"):
        run_op("NonZero", [values((2, 2), dtype)], [(4, 3)], dtype="int32")


def test_an_index_outside_is_named_and_the_next_run_works() -> None:
    x = np.zeros((4, 5), np.float32)
    bad = np.array([1, 7], np.int32)
    for static in ((), (1,)):  # found when it runs, or already when the node is added
        with pytest.raises(QnnError, match=r"Gather.*index 7 \(element 1.*\[-5, 5\).*axis 1"):
            run_op("Gather", [x, bad], [(4, 2)], {"axis": np.int32(1)}, static=static)
    (got,) = run_op("Gather", [x, np.array([1, 4], np.int32)], [(4, 2)], {"axis": np.int32(1)})
    assert (got == 0).all()
    with pytest.raises(QnnError, match=r"index 4 .*axis 0"):
        run_op("GatherNd", [x, np.full((2, 2), 4, np.int32)], [(2,)])
    with pytest.raises(QnnError, match=r"index -6 .*axis 1"):
        run_op("GatherElements", [x, np.full((4, 5), -6, np.int32)], [(4, 5)], {"axis": 1})
    with pytest.raises(QnnError, match=r"index 9 .*axis 0"):
        run_op("ScatterNd", [x, np.full((1, 1), 9, np.int32), x[:1]], [(4, 5)])


def test_what_breaks_a_rule_is_refused() -> None:
    x, i = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.int32)
    cases: list[tuple[str, list[np.ndarray], tuple[int, ...], dict[str, Any], str]] = [
        ("Gather", [x, i[0]], (4, 5), {"axis": 2}, "axis"),
        ("Gather", [x, i[0]], (4, 5), {}, "axis"),
        ("Gather", [x, x[0]], (4, 5), {"axis": 1}, "FLOAT_32"),
        ("GatherElements", [x, np.zeros((5, 5), np.int32)], (5, 5), {"axis": 1}, "do not fit"),
        ("GatherNd", [x, np.zeros((5, 3), np.int32)], (5,), {}, "3 dims"),
        ("GatherNd", [x, np.zeros((5, 1), np.int32)], (5,), {"batch_dims": 1}, "agree"),
        ("ScatterNd", [x, i[:1, :2], x[0, :2]], (4, 5), {}, "updates"),
        ("ScatterNd", [x, i[:1, :2], x[0, :1]], (4, 5), {"reduction": 5}, "reduction"),
        ("ScatterElements", [x, i, x[:2]], (4, 5), {}, "updates"),
        ("OneHot", [i[0]], (5, 1), {"depth": 0}, "depth"),
        ("OneHot", [i[0]], (5, 2), {"depth": 2, "axis": 2}, "axis"),
        ("RoiAlign", [x.reshape(1, 4, 5, 1), x[:2, :4], i[0, :2] + 1], (2, 1, 1, 1),
         {"img_size_ratio": x[0, :2] + 1}, "index 1"),
        ("RoiAlign", [x.reshape(1, 4, 5, 1), x[:2, :4], i[0, :2]], (2, 1, 1, 1),
         {"img_size_ratio": x[0, :2]}, "img_size_ratio"),
        ("GridSample", [x.reshape(1, 4, 5, 1), np.zeros((1, 2, 2, 3), np.float32)],
         (1, 2, 2, 1), {}, "grid"),
        ("GridSample", [x.reshape(1, 4, 5, 1), np.zeros((1, 2, 2, 2), np.float32)],
         (1, 2, 2, 1), {"mode": 2}, "mode"),
    ]  # fmt: skip
    for op, inputs, shape, params, message in cases:
        with pytest.raises(QnnError, match=message) as e:
            run_op(op, inputs, [shape], params, dtype="float32")
        assert op in str(e.value)
