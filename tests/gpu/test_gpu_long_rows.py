"""Rows that several work groups share: reductions, softmax, norms, extremes, running sums.

Lengths around what a lane, a group and a part take, with the cpu backend or 64-bit floats beside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from support.gpu.cases import (
    against_cpu,
    joined,
    loops_and_lanes,  # noqa: F401
    normal,
    on_gpu,
    one_backend,  # noqa: F401
)
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are
both = pytest.mark.usefixtures("loops_and_lanes")

LENGTHS = (1, 2, 7, 31, 33, 257, 1021, 8193, 70_001)


def kernels(what: Case) -> int:
    return on_gpu(what.model, what.feeds)[1]


def sums_of(x: np.ndarray, axes: tuple[int, ...], op: str = "ReduceSum", **params: Any) -> Case:
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return case(op, [x], [shape], {"axes": u32(*axes), **params})


def check_sums(*cases: tuple[np.ndarray, tuple[int, ...]]) -> None:
    """Against 64-bit floats: the error is that of a few additions of the terms' sizes, however
    many terms there are."""
    for i in range(0, len(cases), 15):
        some = cases[i : i + 15]
        whole = joined([sums_of(*c) for c in some])
        got, _ = on_gpu(whole.model, whole.feeds)
        for (x, axes), found in zip(some, got.values(), strict=True):
            wide = x.astype(np.float64)
            room = np.abs(wide).sum(axis=axes) * (1e-3 if x.dtype == np.float16 else 1e-6)
            assert (np.abs(found - wide.sum(axis=axes)) <= room + 1e-30).all(), (x.shape, axes)


@pytest.mark.slow
@both
def test_sums_of_every_length_and_layout() -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for n in LENGTHS:
        shapes += [((n,), (0,)), ((3, n), (1,)), ((n, 3), (0,)), ((n, 40), (0,)), ((2, n, 5), (1,))]
    check_sums(*((normal(*shape), axes) for shape, axes in shapes))


@pytest.mark.slow
@both
def test_sums_over_axes_with_gaps() -> None:
    x, y = normal(7, 5, 83, 6), normal(3, 2, 5, 2, 7, 2, 41, 3)
    check_sums(
        (x, (0, 2)), (x, (1, 3)), (x, (0, 3)), (x, (0, 2, 3)), (x, (0, 1, 2, 3)),
        (y, (0, 2, 4, 6)), (y, (1, 3, 5, 7)), (y, (0, 3, 6)), (y, (6,)),
        (normal(200, 3, 40, 1, 2), (0, 2, 3)), (normal(3, 200, 2, 211), (1, 3)),
    )  # fmt: skip


@both
def test_the_error_of_a_sum_does_not_grow_with_its_terms() -> None:
    x = np.random.default_rng(1).random((1, 1 << 18), np.float32) + 0.5
    many = np.random.default_rng(2).random((1 << 13, 40), np.float32) + 0.5
    got = [on_gpu(c.model, c.feeds)[0]["out0"] for c in (sums_of(x, (1,)), sums_of(many, (0,)))]
    for found, terms, axis in zip(got, (x, many), (1, 0), strict=True):
        np.testing.assert_allclose(found, terms.sum(axis=axis, dtype=np.float64), rtol=3e-7)


@both
def test_sums_with_infinite_terms() -> None:
    x = np.ones((3, 20_000), np.float32)
    x[0, 7] = np.inf
    x[1, 7], x[1, 19_999] = np.inf, -np.inf
    x[2, 12_345] = np.nan
    x = np.concatenate([x, np.full((1, 20_000), 3e38, np.float32)])
    got, _ = on_gpu(*_parts(sums_of(x, (1,))))
    np.testing.assert_array_equal(got["out0"], [np.inf, np.nan, np.nan, np.inf])


def _parts(what: Case) -> tuple[Any, Any]:
    return what.model, what.feeds


@pytest.mark.slow
@both
def test_reductions_in_two_kernels() -> None:
    x = normal(2, 50_003)
    half = (x * 0.1).astype(np.float16)
    whole = np.random.default_rng(5).integers(-50, 50, (50_003, 2))
    last, first = {"axes": u32(1)}, {"axes": u32(0)}
    x[0, 40_000] = np.nan
    against_cpu(
        *(case(op, [x], [(2,)], last) for op in ("ReduceMax", "ReduceMin")),
        case("ReduceMax", [half], [(2,)], last),
        case("ReduceMean", [x.T.copy()], [(2,)], first),
        case("ReduceSumSquare", [x[:, :30_000]], [(2,)], last),
        case("ReduceProd", [1 + x[:, :20_000] / 1e4], [(2,)], last),
        *(
            case(op, [whole.astype(t)], [(2,)], first)
            for op in ("ReduceSum", "ReduceMin", "ReduceMean", "ReduceProd")
            for t in ("int32", "int64")
        ),
        case("ReduceMax", [whole.T.astype(np.uint8)], [(2,)], last),
        rtol=2e-3,
    )
    assert kernels(case("ReduceMax", [x], [(2,)], last)) == 2


@pytest.mark.slow
@both
def test_softmax_of_every_length() -> None:
    cases = []
    for n in LENGTHS:
        cases += [
            case("Softmax", [normal(2, n)], [(2, n)], {"axis": 1}),
            case("LogSoftmax", [normal(n, 5)], [(n, 5)], {"axis": 0, "beta": 2.0}),
            case("Softmax", [normal(2, n, 33)[:, :1021]], [(2, min(n, 1021), 33)], {"axis": 1}),
        ]
    against_cpu(*cases, rtol=2e-5, atol=1e-9)
    assert kernels(cases[-3]) == 2


@pytest.mark.slow
@both
def test_softmax_of_what_is_no_number_in_long_rows() -> None:
    far = normal(5, 40_001)
    far[0] = -np.inf
    far[1, 5:] = -np.inf
    far[2, 30_000] = np.nan
    far[3, 39_000] = np.inf
    for op in ("Softmax", "LogSoftmax"):
        got, _ = on_gpu(*_parts(case(op, [far], [far.shape], {"axis": 1})))
        assert np.isnan(got["out0"][[0, 2, 3]]).all(), "as the sum is"
        assert not np.isnan(got["out0"][[1, 4]]).any()
    against_cpu(
        case("Softmax", [far[[1, 4]]], [(2, 40_001)]),
        case("LogSoftmax", [far[[1, 4]]], [(2, 40_001)], {"axis": 1}),
        case("Softmax", [normal(2, 40_000, dtype=np.float16)], [(2, 40_000)]),
        rtol=2e-3,
        atol=1e-6,
    )


@pytest.mark.slow
@both
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_norms_of_long_rows(dtype: Any) -> None:
    x, y = normal(2, 40_001, dtype=dtype) * 3 + 5, normal(2, 200, 200, dtype=dtype) - 9
    scales = [normal(40_001, seed=i, dtype=dtype) for i in (1, 2)]
    image = (normal(1, 150, 150, 3, dtype=dtype) + 2).astype(dtype)
    short = [normal(3, seed=i, dtype=dtype) for i in (3, 4)]
    last = {"axes": u32(1), "epsilon": 1e-5}
    across = {"epsilon": 1e-5, "region": 2}
    against_cpu(
        case("LayerNorm", [x, *scales], [x.shape], last, static=(1, 2), then=[("Relu", {})]),
        case("LayerNorm", [x], [x.shape], last),
        case("LayerNorm", [y], [y.shape], {"axes": u32(1, 2), "epsilon": 1e-5}),
        case("LayerNorm", [x.T.copy()], [x.T.shape], {"axes": u32(0), "epsilon": 1e-5}),
        case("RmsNorm", [x, scales[0]], [x.shape], last, static=(1,)),
        case("RmsNorm", [y], [y.shape], {"axes": u32(0, 2), "epsilon": 1e-5}),
        case("L2Norm", [x.T.copy()], [x.T.shape], {"axes": u32(0)}),
        case("L2Norm", [normal(2, 1100, 9, 16, dtype=dtype)], [(2, 1100, 9, 16)],
             {"axes": u32(1)}, then=[("Relu", {})]),
        case("L2Norm", [x], [x.shape], {"axes": u32(1)}),
        case("InstanceNorm", [image, *short], [image.shape], {"epsilon": 1e-5}, static=(1, 2)),
        case("InstanceNorm", [image, *short], [image.shape], across, static=(1, 2)),
        case("GroupNorm", [image, *short], [image.shape], {"group": 1, "epsilon": 1e-5},
             static=(1, 2), then=[("Relu", {})]),
        case("GroupNorm", [normal(1, 90, 100, 8, dtype=dtype)], [(1, 90, 100, 8)],
             {"group": 2, "epsilon": 1e-5}),
        terms=4,
    )  # fmt: skip
    assert kernels(case("LayerNorm", [x[:1]], [(1, 40_001)], last)) == 2


@both
def test_the_deviation_of_numbers_far_from_0_keeps_its_digits() -> None:
    x = normal(2, 30_000) + 1000
    x[1, 0] = 0  # a first element that is far from the others
    (got,) = on_gpu(*_parts(case("LayerNorm", [x], [x.shape], {"axes": u32(1)})))[0].values()
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(got, wanted, atol=2e-4, rtol=1e-4)


@pytest.mark.slow
@both
def test_places_of_extremes_in_long_lines() -> None:
    x = np.random.default_rng(7).integers(0, 900, (3, 50_003)).astype(np.float32)
    x[0, 100] = x[0, 49_000] = 5000  # ties that are far apart
    x[0, 9], x[0, 40_000] = -1, -1
    x[1, 30_000], x[1, 45_000] = np.nan, np.nan
    x[2] = np.inf
    lines = x.T.copy()
    wide = np.random.default_rng(8).integers(-(2**62), 2**62, (50_003,))
    against_cpu(
        *(case(op, [x], [(3,)], {"axis": 1}, dtype=np.int32) for op in ("Argmax", "Argmin")),
        *(case(op, [lines], [(3,)], {"axis": 0}, dtype=np.uint32) for op in ("Argmax", "Argmin")),
        *(case(op, [wide], [()], {"axis": 0}, dtype=np.int64) for op in ("Argmax", "Argmin")),
        case("Argmax", [x[:1].astype(np.float16)], [(1,)], {"axis": 1}, dtype=np.int32),
        *(case("Argmax", [x[:, :n]], [(3,)], {"axis": 1}, dtype=np.int32) for n in LENGTHS[:8]),
    )
    assert kernels(case("Argmax", [x], [(3,)], {"axis": 1}, dtype=np.int32)) == 2


@pytest.mark.slow
@both
def test_the_best_of_long_rows() -> None:
    x = np.random.default_rng(7).integers(0, 900, (2, 20_011)).astype(np.float32)
    x[0, 30] = x[0, 19_000] = np.nan
    x[1, :300] = 2000  # ties within a part and beyond it
    pairs = [np.float32, np.int32]
    cases = [
        case("TopK", [x], [(2, k)] * 2, {"k": k, "largest": largest}, dtype=pairs)
        for k in (1, 3, 40)
        for largest in (True, False)
    ]
    cases += [
        case("TopK", [x[:, :n]], [(2, 5)] * 2, {"k": 5}, dtype=pairs) for n in (5, 255, 257, 4001)
    ]
    cases += [
        case(
            "TopK",
            [(np.nan_to_num(x) % 100).astype(np.int8)],
            [(2, 7)] * 2,
            {"k": 7},
            dtype=[np.int8, np.int64],
        ),
        case("TopK", [x.astype(np.float16)], [(2, 2)] * 2, {"k": 2}, dtype=[np.float16, np.int32]),
    ]
    against_cpu(*cases)


@pytest.mark.slow
@both
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_every_length(exclusive: bool, reverse: bool) -> None:
    params = {"exclusive": exclusive, "reverse": reverse}
    whole = np.random.default_rng(9).integers(-100, 100, (2, 40_001))

    def scanned(x: np.ndarray, axis: int) -> Case:
        return case("CumulativeSum", [x], [x.shape], {"axis": axis, **params})

    cases = [scanned(normal(2, n) / 16, 1) for n in LENGTHS]
    cases += [scanned(normal(n, 5) / 16, 0) for n in LENGTHS]
    cases += [scanned(normal(2, n, 40) / 16, 1) for n in LENGTHS[:7]]
    # Neighbours that are read at once.
    cases += [scanned(normal(3, n) / 16, 1) for n in (4, 36, 4096, 4100, 70_004)]
    cases.append(scanned(np.sign(normal(2, 4104)).astype(np.float16), 1))
    against_cpu(*cases, rtol=1e-5, atol=1e-4)
    against_cpu(
        scanned(whole.astype(np.int8), 1),
        scanned(whole.astype(np.int8)[:, :40_000], 1),
        scanned(whole.astype(np.int64)[:, :40_000], 1),
        scanned(whole.astype(np.int64).T.copy(), 0),
        scanned(whole.astype(np.uint16), 1),
    )
    assert kernels(scanned(whole.astype(np.int32), 1)) == 2


@both
def test_a_running_sum_keeps_its_digits() -> None:
    x = np.random.default_rng(3).random((1, 300_000), np.float32)
    (got,) = on_gpu(*_parts(case("CumulativeSum", [x], [x.shape], {"axis": 1})))[0].values()
    np.testing.assert_allclose(got, x.cumsum(axis=1, dtype=np.float64), rtol=5e-7)


@both
@pytest.mark.parametrize("precision", ["fp16", "hybrid"])
def test_long_rows_in_sixteen_bits_inside(precision: str) -> None:
    x = normal(2, 30_000)
    options = {"options": {"gpu": qnnrt.gpu.Options(precision=precision)}}
    against_cpu(
        sums_of(x / 100, (1,), "ReduceMean"),
        case("Softmax", [x * 3], [x.shape], {"axis": 1}),
        case("LayerNorm", [x], [x.shape], {"axes": u32(1)}),
        case("Argmax", [np.arange(2048, dtype=np.float32).repeat(5)], [()], {"axis": 0},
             dtype=np.int32),
        rtol=2e-2,
        atol=4e-3,
        **options,
    )  # fmt: skip


def test_rows_that_groups_share() -> None:
    """One of each kernel, as short as they may be: oclgrind takes these, too."""
    x = normal(1, 9001)
    lines = normal(9001, 3)
    last, first = {"axes": u32(1)}, {"axes": u32(0)}
    image = normal(1, 97, 97, 2)
    against_cpu(
        case("ReduceSum", [x], [(1,)], last),
        case("ReduceMax", [lines], [(3,)], first),
        case("Softmax", [x], [x.shape], {"axis": 1}),
        case("LogSoftmax", [lines], [lines.shape], {"axis": 0}),
        case("LayerNorm", [x], [x.shape], last),
        case("L2Norm", [lines], [lines.shape], first),
        case("InstanceNorm", [image, normal(2)], [image.shape], {"epsilon": 1e-3}, static=(1,)),
        case("GroupNorm", [image], [image.shape], {"epsilon": 1e-3, "group": 1}),
        case("Argmax", [x], [(1,)], {"axis": 1}, dtype=np.int32),
        case("Argmin", [lines], [(3,)], {"axis": 0}, dtype=np.int32),
        case("CumulativeSum", [x / 64], [x.shape], {"axis": 1, "reverse": True}),
        case("CumulativeSum", [lines / 64], [lines.shape], {"axis": 0, "exclusive": True}),
        terms=9001,
    )


def test_nothing_to_add_up() -> None:
    """Tensors without elements, where the runtime does not fold them first."""
    x = np.zeros((3, 0, 2), np.float32)
    against_cpu(
        case("ReduceSum", [x], [(3, 2)], {"axes": u32(1)}),
        case("ReduceSum", [x], [(0, 2)], {"axes": u32(0)}),
        case("CumulativeSum", [x], [x.shape], {"axis": 1}),
        case("Softmax", [x], [x.shape], {"axis": 1}),
    )
