"""Integers at the ends of their types: computed as such, on tensors and on constants alike."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def edges(dtype: str) -> np.ndarray:
    ends = np.iinfo(dtype)
    low, high = ends.min, ends.max
    near = {low, low + 1, *range(max(low, -3), 4), 99, 100, 101, high // 2, high - 1, high}
    return np.array(sorted(near), dtype)


def results(
    op: str, attrs: dict[str, object], inputs: list[np.ndarray], fixed: int = 9
) -> list[np.ndarray]:
    """The result from a session, and that of the importer on constants. Inputs from `fixed` on are
    constants in both."""
    found = []
    names = [f"i{k}" for k in range(len(inputs))]
    for first in (fixed, 0):
        given = dict(zip(names[:first], inputs, strict=False))
        held = dict(zip(names[first:], inputs[first:], strict=False))
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            [helper.make_node(op, names, ["y"], **attrs)],
            "integers",
            [helper.make_tensor_value_info(k, kind(x.dtype), x.shape) for k, x in given.items()],
            [onnx.ValueInfoProto(name="y")],
            [numpy_helper.from_array(x, k) for k, x in held.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        with qnnrt.Session(importer.load(model)) as session:
            found.append(session.run(given)["y"])
    return found


def wrapped(number: int, dtype: str) -> int:
    ends = np.iinfo(dtype)
    return (number - ends.min) % (1 << ends.bits) + ends.min


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shrink_of_integers_is_exact_and_wraps(dtype: str) -> None:
    x = edges(dtype)
    for bias, lambd in (
        (0.0, 0.5), (1.0, 0.5), (1.5, 2.0), (1.5, 1.5), (-10.0, 100.0), (-2.25, 0.0), (300.0, 0.0),
        (2.0, -5.0), (1.0, 1e30), (1.0, -1e30), (3e9, 1.0),
    ):  # fmt: skip
        wanted = []
        for v in x.tolist():
            moved = v + Fraction(bias) if v < -lambd else v - Fraction(bias) if v > lambd else 0
            wanted.append(wrapped(math.trunc(moved), dtype))
        for found in results("Shrink", {"bias": bias, "lambd": lambd}, [x]):
            assert found.dtype == dtype
            assert found.tolist() == wanted, (bias, lambd)


def test_shrink_of_a_scalar_integer_stays_a_scalar() -> None:
    for found in results("Shrink", {"bias": 1.5, "lambd": 1.0}, [np.array(-7, np.int32)]):
        assert found.shape == ()
        assert found == -5


def test_a_bias_that_is_no_number_is_named() -> None:
    with pytest.raises(ModelError, match="inf cannot be added to int8"):
        results("Shrink", {"bias": float("inf")}, [np.ones(3, np.int8)])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_powers_of_large_integers_are_exact(dtype: str) -> None:
    """By a float exponent, too: 2**31 - 2 is no float of 32 bits."""
    x = edges(dtype)
    for exponent in (0, 1, 2, 3):
        power = np.array(exponent, np.float32)
        wanted = [v**exponent for v in x.tolist()]
        inside = [np.iinfo(dtype).min <= w <= np.iinfo(dtype).max for w in wanted]
        session, _ = results("Pow", {}, [x, power], fixed=1)
        kept = [w for w, fits in zip(wanted, inside, strict=True) if fits]
        assert session[inside].tolist() == kept


@pytest.mark.parametrize("dtype", INTEGERS)
def test_arithmetic_of_integers_wraps_as_numpys_does(dtype: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(edges(dtype), edges(dtype)))
    with np.errstate(all="ignore"):
        wanted = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Max": np.maximum(a, b),
                  "Min": np.minimum(a, b)}  # fmt: skip
        for op, values in wanted.items():
            for found in results(op, {}, [a, b]):
                np.testing.assert_array_equal(found, values, op)
        x = edges(dtype)
        one = {"Abs": np.abs(x)} | ({} if dtype.startswith("u") else {"Neg": -x})
        for op, values in one.items():
            for found in results(op, {}, [x]):
                np.testing.assert_array_equal(found, values, op)
    keep = (b != 0) & ~((a == np.iinfo(dtype).min) & (b.astype(float) == -1))
    for fmod, of in ((0, np.mod), (1, np.fmod)):
        for found in results("Mod", {"fmod": fmod}, [a[keep], b[keep]]):
            np.testing.assert_array_equal(found, of(a[keep], b[keep]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_clip_keeps_large_integers(dtype: str) -> None:
    x = edges(dtype)
    ends = np.iinfo(dtype)
    for low, high in ((ends.min + 1, ends.max - 1), (5, 2), (2, 5), (3, 3)):
        bounds = [np.array(low, dtype), np.array(high, dtype)]
        for found in results("Clip", {}, [x, *bounds], fixed=1):
            np.testing.assert_array_equal(found, np.minimum(np.maximum(x, bounds[0]), bounds[1]))
