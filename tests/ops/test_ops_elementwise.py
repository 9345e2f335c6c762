"""ElementWise ops equal numpy's, under its broadcasting, in every type that they claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op
from support.reference import elementwise
from support.reference.elementwise import COMPARE, NUMBER, UNARY_OPS

SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
NUMBERS = ("float32", "float16", "float64", *INTEGERS)
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((5,), ()),
    ((), (2, 3)),
    ((2, 3, 4), (4,)),
    ((3,), (50, 7, 3)),
    ((1000, 300), (300,)),
    ((1000, 17), (1000, 1)),
    ((2, 1, 4, 1), (1, 3, 1, 5)),
    ((2, 3, 1, 2, 1, 3, 1, 2), (1, 3, 2, 1, 2, 1, 2, 2)),
    ((70000,), (70000,)),
]


ARITHMETIC = [name for name in elementwise.ARITHMETIC if name != "Fmod"]  # no op of its own


def operands(
    name: str, dtype: str, a: tuple[int, ...], b: tuple[int, ...], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Values that the op is defined for, and that numpy treats alike."""
    r = np.random.default_rng(seed)
    if dtype.startswith("float"):
        x, y = r.normal(size=a) * 2, r.normal(size=b) * 2
        x = np.abs(x) if name == "Power" else x
        y = np.where(np.abs(y) < 0.25, 0.25, y) if name in ("Divide", "FloorDiv", "Mod") else y
        return np.asarray(x, dtype), np.asarray(y, dtype)
    x, y = r.integers(0, 100, a), r.integers(1, 5, b)
    if dtype in SIGNED:
        x = x * r.choice([-1, 1], a)
        y = y if name == "Power" else y * r.choice([-1, 1], b)
    return np.asarray(x, dtype), np.asarray(y, dtype)


def check(got: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    assert got.dtype == np.dtype(dtype)
    if dtype.startswith("float"):
        tolerance = 1e-3 if dtype == "float16" else 2e-6
        np.testing.assert_allclose(got, expected.astype(dtype), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_broadcasts_as_numpy(name: str) -> None:
    for shapes in SHAPES:
        for dtype in ("float32", "int32"):
            x, y = operands(name, dtype, *shapes)
            expected = reference.of("ElementWise" + name, [x, y])
            (got,) = run_op("ElementWise" + name, [x, y], [expected.shape])
            check(got, expected, dtype)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arithmetic_in_every_type(dtype: str) -> None:
    for name in ARITHMETIC:
        for a, b in [((3, 40, 5), (5,)), ((600,), ()), ((), (600,)), ((1100,), (1100,))]:
            x, y = operands(name, dtype, a, b)
            expected = reference.of("ElementWise" + name, [x, y])
            (got,) = run_op("ElementWise" + name, [x, y], [expected.shape])
            check(got, expected, dtype)
            params = {"operation": NUMBER[name]}
            (same,) = run_op("ElementWiseBinary", [x, y], [expected.shape], params)
            np.testing.assert_array_equal(same, got)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparisons_give_bools(dtype: str) -> None:
    for name in COMPARE:
        for a, b in [((3, 40, 5), (5,)), ((600,), ()), ((), (6,)), ((7, 1), (1, 5))]:
            r = np.random.default_rng(1)
            x, y = (r.integers(0, 4, s).astype(dtype) for s in (a, b))
            expected = np.asarray(reference.of("ElementWise" + name, [x, y]))
            (got,) = run_op("ElementWise" + name, [x, y], [expected.shape], dtype=bool)
            np.testing.assert_array_equal(got, expected)
            (got,) = run_op("ElementWiseBinary", [x, y], [expected.shape],
                            {"operation": NUMBER[name]}, dtype=bool)  # fmt: skip
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["And", "Or", "Xor", "Equal", "NotEqual"])
def test_logic_is_numpys(name: str) -> None:
    r = np.random.default_rng(2)
    for a, b in SHAPES:
        x, y = (r.integers(0, 2, s).astype(bool) for s in (a, b))
        expected = np.asarray(reference.of("ElementWise" + name, [x, y]))
        (got,) = run_op("ElementWise" + name, [x, y], [expected.shape])
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if np.dtype(d).kind in "iu"])
@pytest.mark.parametrize("name", ["And", "Or", "Xor"])
def test_logic_of_integers_is_of_each_bit(name: str, dtype: str) -> None:
    r, info = np.random.default_rng(3), np.iinfo(dtype)
    for a, b in SHAPES:
        x, y = (r.integers(info.min, info.max, s, dtype, endpoint=True) for s in (a, b))
        expected = np.asarray(reference.of("ElementWise" + name, [x, y]))
        for op, params in ((f"ElementWise{name}", {}), ("ElementWiseBinary", NUMBER[name])):
            how = {"operation": params} if params else {}
            (got,) = run_op(op, [x, y], [expected.shape], how)
            np.testing.assert_array_equal(got, expected)


def test_integer_division_has_an_answer_for_everything() -> None:
    x = np.array([-128, -128, 7, -7, -7, 7], np.int8)
    y = np.array([-1, 0, 0, 2, -2, -2], np.int8)
    for name, expected in {
        "Divide": [-128, 0, 0, -3, 3, -3],  # towards 0; the least value wraps
        "FloorDiv": [-128, 0, 0, -4, 3, -4],
        "Mod": [0, 0, 0, 1, -1, -1],  # the sign of the divisor
    }.items():
        (got,) = run_op("ElementWise" + name, [x, y], [x.shape])
        np.testing.assert_array_equal(got, expected, name)
    (got,) = run_op("ElementWiseBinary", [x, y], [x.shape], {"operation": NUMBER["Fmod"]})
    np.testing.assert_array_equal(got, [0, 0, 0, -1, -1, 1])  # the sign of the dividend
    x, y = np.array([2, -1, -1, 5, 0], np.int32), np.array([-1, -3, -2, -2, -1], np.int32)
    (got,) = run_op("ElementWisePower", [x, y], [x.shape])
    np.testing.assert_array_equal(got, [0, -1, 1, 0, 0])


def test_remainders_of_floats_are_exact() -> None:
    r = np.random.default_rng(3)
    x, y = (
        (r.choice([-1, 1], 4000) * 10 ** r.uniform(-38, 38, 4000)).astype(np.float32)
        for _ in range(2)
    )
    y[:1500] = (x[:1500] / r.integers(1, 2**27, 1500)).astype(np.float32)  # close to whole times
    y[1500:2500] = r.uniform(0.1, 9, 1000)
    x[1500:2500] = (y[1500:2500] * r.integers(-(2**20), 2**20, 1000)).astype(np.float32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 1, -2.5], np.float32)
    x = np.concatenate([x, np.repeat(odd, 9)])
    y = np.concatenate([y, np.tile(odd, 9)])
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    (got,) = run_op("ElementWiseBinary", [x, y], [x.shape], {"operation": NUMBER["Fmod"]})
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


def test_arc_sines_to_two_units_in_the_last_place() -> None:
    one = np.nextafter(np.float32(1), np.float32(2))
    x = np.append(np.linspace(-1, 1, 4097), [0.5, -0.5, 1e-30, -0.0, np.inf, np.nan]).astype("f4")
    x = np.append(x, [one, -one, np.nextafter(np.float32(0.5), np.float32(1))])
    (got,) = run_op("ElementWiseAsin", [x], [x.shape])
    with np.errstate(invalid="ignore"):
        wanted = np.arcsin(x.astype(np.float64))
    near = np.spacing(np.abs(wanted).astype(np.float32))
    outside = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), outside)
    assert (np.abs(got - wanted) <= 2 * near)[~outside].all()
    np.testing.assert_array_equal(np.signbit(got)[~outside], np.signbit(x)[~outside])


def test_whole_powers_of_any_sign() -> None:
    x = np.array([-np.inf, -2.5, -1e-15, -0.0, 0.0, 1.5, 1e14, np.inf, np.nan], np.float32)
    for power in (2, 3, 4):
        (got,) = run_op("ElementWisePower", [x, np.float32([power])], [x.shape])
        with np.errstate(over="ignore", under="ignore"):
            np.testing.assert_allclose(got, x**power, rtol=3e-7)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(x**power))


def test_nan_wins_in_maximum_and_minimum() -> None:
    x = np.array([np.nan, 1, np.nan, 2], np.float32)
    y = np.array([1, np.nan, np.nan, 1], np.float32)
    for name, expected in (("Maximum", 2), ("Minimum", 1)):
        (got,) = run_op("ElementWise" + name, [x, y], [x.shape])
        np.testing.assert_array_equal(got, [np.nan, np.nan, np.nan, expected])


EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-41, 1e-30, 1e30, -1e30, 88.7, -103.0, -87.4,
         np.inf, -np.inf, np.nan]  # fmt: skip


def ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance from float64 results, in units of the last place of a float32."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        place = np.spacing(np.abs(rounded)).astype(np.float64)
        far = np.abs(got.astype(np.float64) - expected) / place
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0.0, np.where(np.isfinite(far), far, np.inf))


@pytest.mark.parametrize("name", UNARY_OPS)
def test_unary_within_two_ulps(name: str) -> None:
    r = np.random.default_rng(3)
    x = np.concatenate([
        r.normal(size=20000) * 3, np.linspace(-20, 20, 20001), r.uniform(-1, 1, 5000),
        10.0 ** r.uniform(-30, 30, 5000) * r.choice([-1, 1], 5000), EDGES,
    ]).astype(np.float32)  # fmt: skip
    expected = reference.of("ElementWise" + name, [x])
    (got,) = run_op("ElementWise" + name, [x], [x.shape])
    worst = ulps(got, expected)
    at = int(np.argmax(worst))
    assert worst[at] <= 2, f"{name}({x[at]!r}) = {got[at]!r}, expected {expected[at]!r}"
    (same,) = run_op("ElementWiseUnary", [x], [x.shape], {"operation": NUMBER[name]})
    np.testing.assert_array_equal(same, got)
    half = x[:3000].astype(np.float16)
    (got,) = run_op("ElementWise" + name, [half], [half.shape])
    with np.errstate(all="ignore"):
        expected = reference.of("ElementWise" + name, [half]).astype(np.float16)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-7)


def test_reciprocal_and_not() -> None:
    x = np.random.default_rng(4).normal(size=(3, 5, 7)).astype(np.float32)
    (got,) = run_op("ElementWiseUnary", [x], [x.shape], {"operation": 10})
    np.testing.assert_array_equal(got, 1 / x)
    (got,) = run_op("ElementWiseNot", [x > 0], [x.shape])
    np.testing.assert_array_equal(got, ~(x > 0))


@pytest.mark.parametrize("dtype", SIGNED)
def test_signed_integers_have_abs_neg_and_sign(dtype: str) -> None:
    x = np.random.default_rng(5).integers(-100, 100, 333).astype(dtype)
    for name, expected in (("Abs", np.abs(x)), ("Neg", -x), ("Sign", np.sign(x))):
        (got,) = run_op("ElementWise" + name, [x], [x.shape])
        np.testing.assert_array_equal(got, expected)


def test_nan_and_infinity_are_found() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
    for dtype in ("float32", "float16"):
        v = x.astype(dtype)
        (got,) = run_op("IsNan", [v], [v.shape], dtype=bool)
        np.testing.assert_array_equal(got, np.isnan(v))
        (got,) = run_op("IsInf", [v], [v.shape], dtype=bool)
        np.testing.assert_array_equal(got, np.isinf(v))
        for side in ("negative", "positive"):
            (got,) = run_op("IsInf", [v], [v.shape], {f"detect_{side}": False}, dtype=bool)
            np.testing.assert_array_equal(
                got, np.isposinf(v) if side == "negative" else np.isneginf(v)
            )


def test_logit_follows_its_definition() -> None:
    x = np.linspace(0.001, 0.999, 4001).astype(np.float32)
    (got,) = run_op("Logit", [x], [x.shape])
    np.testing.assert_allclose(got, reference.of("Logit", [x]), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_select_takes_one_or_the_other(dtype: str) -> None:
    r = np.random.default_rng(6)
    for c, a, b in [
        ((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (3,), (2, 1)), ((500, 30), (30,), ()),
        ((5,), (), ()), ((), (), ()),
    ]:  # fmt: skip
        condition = r.integers(0, 2, c).astype(bool)
        x, y = (r.integers(0, 2, s).astype(dtype) for s in (a, b))
        expected = np.where(condition, x, y)
        (got,) = run_op("ElementWiseSelect", [condition, x, y], [expected.shape], dtype=dtype)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kernels", ["portable", "auto"])
def test_an_activation_after_an_add(dtype: str, kernels: str) -> None:
    r = np.random.default_rng(7)
    for a, b in [((40, 300), (300,)), ((9, 3), (3,)), ((5000,), (5000,)), ((7, 1), (1, 9))]:
        x, y = (r.normal(size=s).astype(dtype) for s in (a, b))
        total = x.astype("f8") + y.astype("f8")
        (got,) = run_op(
            "ElementWiseAdd", [x, y], [total.shape], kernels=kernels, then=[("Relu", {})]
        )
        tolerance = 4e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(got, np.maximum(total, 0), atol=tolerance)


@pytest.mark.parametrize(
    ("op", "shapes", "params", "message"),
    [
        ("ElementWiseAdd", [(2, 3), (4,)], {}, "do not broadcast"),
        ("ElementWiseAdd", [(2, 3)], {}, "missing"),
        ("ElementWiseBinary", [(2,), (2,)], {"operation": 20}, "operation"),
        ("ElementWiseBinary", [(2,), (2,)], {"operation": 1}, "BOOL_8"),
        ("ElementWiseBinary", [(2,), (2,)], {"operation": 3}, "BOOL_8"),
        ("ElementWiseUnary", [(2,)], {"operation": 16}, "operation"),
        ("ElementWiseUnary", [(2,)], {"operation": 9}, "BOOL_8"),
        ("ElementWiseUnary", [(2,)], {}, "operation"),
        ("ElementWiseAbs", [(2,)], {"axis": 1}, "axis"),
        ("ElementWiseNot", [(2,)], {}, "BOOL_8"),
        ("ElementWiseSelect", [(2,), (2,), (2,)], {}, "BOOL_8"),
    ],
)
def test_what_breaks_a_rule_is_refused(op: str, shapes: Any, params: Any, message: str) -> None:
    with pytest.raises(QnnError, match=message) as e:
        run_op(op, [np.zeros(s, np.float32) for s in shapes], [shapes[0]], params)
    assert op in str(e.value)


def test_types_do_not_mix() -> None:
    with pytest.raises(QnnError, match="INT_32"):
        run_op("ElementWiseAdd", [np.zeros(2, "f4"), np.zeros(2, "i4")], [(2,)])
