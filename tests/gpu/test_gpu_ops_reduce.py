"""Reductions, places of extremes, running sums and softmax on the gpu backend."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from support.gpu.cases import against_cpu, loops_and_lanes, normal, one_backend  # noqa: F401
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.one_node import case, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are
both = pytest.mark.usefixtures("loops_and_lanes")


def ints(*shape: int, dtype: str = "int32", low: int = -50, high: int = 50) -> np.ndarray:
    return np.random.default_rng(5).integers(low, high, shape).astype(dtype)


@pytest.mark.slow
@both
def test_floats_are_reduced() -> None:
    x = normal(3, 70, 5)
    half = x.astype(np.float16)
    against_cpu(
        case("ReduceSum", [x], [(3, 5)], {"axes": u32(1)}),
        case("ReduceSum", [normal(2, 3, 50, 40)], [(2, 1, 50, 1)],
             {"axes": u32(1, 3), "keep_dims": True}),
        case("ReduceMean", [normal(4, 300)], [(4,)], {"axes": u32(1)}),
        case("ReduceMean", [normal(2, 9, 10, 36)], [(2, 36)], {"axes": u32(1, 2)}),
        case("ReduceMean", [half], [(3,)], {"axes": u32(1, 2)}),
        case("ReduceSumSquare", [x], [(70,)], {"axes": u32(0, 2)}),
        case("ReduceSum", [x], [()], {"axes": u32(0, 1, 2)}),
        terms=300,
    )  # fmt: skip
    against_cpu(case("ReduceProd", [x], [(70, 5)], {"axes": u32(0)}), rtol=1e-5)


@both
def test_extremes_are_exact_and_nan_wins() -> None:
    x = normal(3, 70, 5)
    x[1, 40, 2] = np.nan
    x[2, :, 4] = -np.inf
    against_cpu(
        *(case(op, [x], [(3, 5)], {"axes": u32(1)}) for op in ("ReduceMax", "ReduceMin")),
        case("ReduceMax", [x.astype(np.float16)], [(5,)], {"axes": u32(0, 1)}),
        case("ReduceMax", [ints(4, 60, dtype="int64")], [(4,)], {"axes": u32(1)}),
        case("ReduceMin", [ints(4, 60, dtype="uint8", low=3)], [(4,)], {"axes": u32(1)}),
    )


@pytest.mark.slow
@both
def test_integers_wrap_and_their_mean_is_truncated() -> None:
    big = ints(3, 90, low=2**29, high=2**31 - 1)
    against_cpu(
        case("ReduceSum", [big], [(3,)], {"axes": u32(1)}),
        case("ReduceProd", [ints(2, 40, dtype="int64")], [(2,)], {"axes": u32(1)}),
        case("ReduceSumSquare", [ints(3, 90, dtype="uint8", low=0, high=255)], [(3,)],
             {"axes": u32(1)}),
        case("ReduceMean", [ints(5, 33)], [(5,)], {"axes": u32(1)}),
        case("CumulativeSum", [ints(300, dtype="int8")], [(300,)], {"axis": 0}),
    )  # fmt: skip


@pytest.mark.slow
@both
def test_places_of_extremes() -> None:
    x = ints(3, 80, 40, low=0, high=9).astype(np.float32)  # ties
    x[0, 50:, 3] = np.nan
    against_cpu(
        *(case(op, [x], [(3, 40)], {"axis": 1}, dtype=np.int32) for op in ("Argmax", "Argmin")),
        case("Argmax", [x[:, :, 3]], [(3, 1)], {"axis": 1, "keep_dims": True}, dtype=np.int64),
        case("Argmax", [ints(300, 3, dtype="uint8", low=0)], [(300,)], {"axis": 1},
             dtype=np.uint32),
        case("TopK", [x[:, :, 3]], [(3, 7), (3, 7)], {"k": 7}, dtype=[np.float32, np.int32]),
        case("TopK", [ints(2, 9)], [(2, 9), (2, 9)], {"k": 9, "largest": False},
             dtype=[np.int32, np.int64]),
        case("TopK", [x[1].astype(np.float16)], [(80, 1), (80, 1)], {"k": 1},
             dtype=[np.float16, np.int32]),
    )  # fmt: skip


@pytest.mark.slow
@both
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    params = {"exclusive": exclusive, "reverse": reverse}
    against_cpu(
        case("CumulativeSum", [normal(3, 600)], [(3, 600)], {"axis": 1, **params}),
        case("CumulativeSum", [normal(3, 40, 5)], [(3, 40, 5)], {"axis": 1, **params}),
        terms=600,
    )


@pytest.mark.slow
@both
def test_softmax() -> None:
    x, far = normal(3, 70, 5), normal(4, 90)
    far[0] = -np.inf
    far[1, 5:] = -np.inf
    far[2, 3] = np.nan
    against_cpu(
        *(case(op, [x], [x.shape], {"axis": 1}) for op in ("Softmax", "LogSoftmax")),
        case("Softmax", [normal(2, 50, 33)], [(2, 50, 33)], {"axis": 1}),
        case("Softmax", [normal(6, 1000)], [(6, 1000)], {"beta": 2.0}),
        case("LogSoftmax", [normal(2, 3, 100)], [(2, 3, 100)], {"axis": 2, "beta": -0.5}),
        case("Softmax", [normal(5, 7)], [(5, 7)]),
        case("Softmax", [far], [far.shape]),
        case("Softmax", [x.astype(np.float16)], [x.shape], {"axis": 0}),
        case("LogSoftmax", [normal(4, 64, dtype=np.float16)], [(4, 64)], {"axis": 1}),
        rtol=2e-3,
        atol=2e-6,
    )


def test_numbers_without_a_kernel_are_refused() -> None:
    x = case("ReduceSum", [normal(2, 3).astype(np.float64)], [(2,)], {"axes": u32(1)})
    with pytest.raises(qnnrt.UnsupportedOpError, match="'in0' is float64"), \
            qnnrt.Session(x.model, "gpu"):  # fmt: skip
        pass
