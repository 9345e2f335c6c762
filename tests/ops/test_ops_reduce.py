"""Reductions, arg reductions, running sums and TopK equal numpy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op, u32
from support.reference.reduce import REDUCE

NUMBERS = ("float32", "float16", "float64", "int8", "int16", "int32", "int64",
           "uint8", "uint16", "uint32", "uint64")  # fmt: skip
SHAPES = [(7,), (1000,), (3, 4, 5), (2, 1, 7, 200), (5, 300, 3), (1, 2, 1, 3, 1), (40, 5, 130)]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    r = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return r.normal(size=shape).astype(dtype)
    return r.integers(0 if dtype[0] == "u" else -100, 100, shape).astype(dtype)


@pytest.mark.parametrize("name", REDUCE)
def test_every_set_of_axes(name: str) -> None:
    for shape in SHAPES:
        x = values(shape, "float32")
        ranks = range(1, len(shape) + 1)
        for axes in itertools.chain(*(itertools.combinations(range(len(shape)), n) for n in ranks)):
            for keep in (True, False):
                params = {"axes": u32(*axes), "keep_dims": keep}
                expected = reference.of("Reduce" + name, [x], params)
                (got,) = run_op("Reduce" + name, [x], [expected.shape], params)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_type(dtype: str) -> None:
    for name in REDUCE:
        x = values((4, 6, 50), dtype, 1)
        for axes in ((0,), (2,), (0, 2), (1, 2)):
            params = {"axes": u32(*axes)}
            expected = reference.of("Reduce" + name, [x], params)
            (got,) = run_op("Reduce" + name, [x], [expected.shape], params)
            if dtype[0] == "f":
                tolerance = 4e-3 if dtype == "float16" else 1e-5
                np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, expected.astype(dtype))


def test_long_sums_keep_their_accuracy() -> None:
    x = np.random.default_rng(2).random((1_000_000, 2)).astype(np.float32)
    expected = x.astype("f8").sum(0)
    for value, axis in ((x, 0), (np.ascontiguousarray(x.T), 1)):
        (got,) = run_op("ReduceSum", [value], [(2,)], {"axes": u32(axis)})
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 50), (50, 9)])
def test_nan_wins_in_max_and_min(shape: tuple[int, int]) -> None:
    x = np.ones(shape, np.float32)
    x[1, 7] = x[2, 3] = np.nan
    for name in ("Max", "Min"):
        for axis in (0, 1):
            (got,) = run_op("Reduce" + name, [x], [(x.shape[1 - axis],)], {"axes": u32(axis)})
            np.testing.assert_array_equal(np.isnan(got), np.isnan(x).any(axis))
            how = {"axis": axis}
            (at,) = run_op("Arg" + name.lower(), [x], [got.shape], how, dtype="int32")
            np.testing.assert_array_equal(at, getattr(np, "arg" + name.lower())(x, axis))


@pytest.mark.parametrize("name", REDUCE)
def test_many_rows_of_every_length(name: str) -> None:
    """Short ones are reduced side by side; long ones in vectors with a rest."""
    for size in (*range(1, 18), 31, 33, 96, 1024, 1025):
        x = 1 + values((37, size), "float32") / 50
        params = {"axes": u32(1)}
        expected = reference.of("Reduce" + name, [x], params)
        (got,) = run_op("Reduce" + name, [x], [(37,)], params)
        np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", [t for t in NUMBERS if "int" in t])
def test_extremes_of_integers_keep_every_digit(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([[info.min, info.min + 1, 0], [info.max - 1, info.max, 1]], dtype)
    for name, wanted in (("Max", x.max(1)), ("Min", x.min(1))):
        for given, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            (got,) = run_op("Reduce" + name, [given], [(2,)], {"axes": u32(axis)})
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arg_reductions_take_the_first_of_equals(dtype: str) -> None:
    for index in ("int32", "uint32", "int64"):
        for shape in [(7,), (100,), (3, 4, 5), (2, 50, 7), (3, 1, 200)]:
            x = np.round(values(shape, dtype, 3))
            for axis in range(len(shape)):
                for name in ("Argmax", "Argmin"):
                    params = {"axis": axis, "keep_dims": True}
                    expected = reference.of(name, [x], params)
                    (got,) = run_op(name, [x], [expected.shape], params, dtype=index)
                    np.testing.assert_array_equal(got, expected)
        (got,) = run_op("Argmax", [x], [x.shape[:-1]], {"axis": x.ndim - 1}, dtype=index)
        np.testing.assert_array_equal(got, np.argmax(x, -1))


def test_the_x87_stack_is_left_empty() -> None:
    """A loop over an MMX register makes the next fprem of the process no number."""
    for dtype in NUMBERS:
        for name in ("Argmax", "Argmin", "ReduceMax", "ReduceSum"):
            arg = name.startswith("Arg")
            x = values((3, 40), dtype, 3)
            params = {"axis": 1} if arg else {"axes": u32(1)}
            run_op(name, [x], [(3,)], params, dtype="int32" if arg else dtype)
            assert np.remainder(np.full(9, 5.5, np.float32), np.float32(2)).tolist() == [1.5] * 9


@pytest.mark.parametrize("dtype", NUMBERS)
def test_running_sums(dtype: str) -> None:
    for shape, axis in [((9,), 0), ((3, 4, 5), 0), ((3, 4, 5), 1), ((3, 4, 5), 2)]:
        x = values(shape, dtype, 4)
        for exclusive, reverse in itertools.product((False, True), repeat=2):
            params = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
            expected = reference.of("CumulativeSum", [x], params)
            (got,) = run_op("CumulativeSum", [x], [shape], params)
            if dtype[0] == "f":
                tolerance = 2e-2 if dtype == "float16" else 1e-5
                np.testing.assert_allclose(got, expected, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, expected.astype(dtype))


def check_top_k(x: np.ndarray, k: int, largest: bool, dtype: str) -> None:
    params = {"k": k, "largest": largest}
    most, order = reference.of("TopK", [x], params)
    got, where = run_op("TopK", [x], [order.shape] * 2, params, dtype=[dtype, "int32"])
    np.testing.assert_array_equal(where, order)
    np.testing.assert_array_equal(got, most)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_is_sorted_and_stable(dtype: str, largest: bool) -> None:
    for shape in [(1,), (9,), (100,), (3, 2, 40)]:
        x = np.round(values(shape, dtype, 5))
        for k in sorted({1, shape[-1] // 2, shape[-1]} - {0}):
            check_top_k(x, k, largest, dtype)


def test_top_k_puts_nan_first() -> None:
    x = np.array([1, np.nan, 3, np.nan], np.float32)
    _, where = run_op("TopK", [x], [(3,)] * 2, {"k": 3}, dtype=["float32", "int64"])
    assert where.tolist() == [1, 3, 2]


@pytest.mark.parametrize(
    ("op", "params", "message"),
    [
        ("ReduceSum", {}, "axes"),
        ("ReduceSum", {"axes": u32(2)}, "axes"),
        ("ReduceSum", {"axes": u32(1, 1)}, "twice"),
        ("Argmax", {"axis": 2}, "axis"),
        ("Argmin", {}, "axis"),
        ("TopK", {"k": 5}, "'k'"),
        ("CumulativeSum", {"axis": 2}, "axis"),
        ("CumulativeSum", {"axis": 0, "excl": True}, "excl"),
    ],
)
def test_what_breaks_a_rule_is_refused(op: str, params: Any, message: str) -> None:
    outputs: dict[str, Any] = {"TopK": [(3, 4)] * 2}
    dtypes: Any = {"TopK": ["float32", "int32"], "Argmax": "int32", "Argmin": "int32"}
    with pytest.raises(QnnError, match=message) as e:
        run_op(op, [np.zeros((3, 4), np.float32)], outputs.get(op, [(3,)]), params,
               dtype=dtypes.get(op))  # fmt: skip
    assert op in str(e.value)


def test_a_wrong_declared_shape_is_named() -> None:
    with pytest.raises(QnnError, match=r"\[3, 4\].*\[3\]"):
        run_op("ReduceSum", [np.zeros((3, 4), np.float32)], [(3, 4)], {"axes": u32(1)})
