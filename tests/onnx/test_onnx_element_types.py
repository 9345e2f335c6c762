"""Every operator of the importer on every element type that its schema allows.

A file that loads runs: what the runtime cannot compute is named when the file is loaded, or, where
that depends on the backend, when the session is made.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx.nodes import TABLE
from support.onnx.models import model_of, node
from support.onnx.sweep import Case, cases, recipes

#: Where ONNX Runtime computes less exactly than the operator's definition.
_OTHERWISE = {
    "ConvInteger-0-int8-uint8": "on processors without VNNI its sums saturate in pairs",
    "ReduceL2-1-float16": "the sum of squares is beyond 65504; ONNX Runtime has it in 32 bits",
}
_TOLERANCE = {2: 2e-2, 4: 2e-5, 8: 1e-5}  # by the size of a float


@functools.cache
def loaded() -> list[tuple[Case, qnnrt.Model]]:
    """The cases of which the importer does not name what it cannot do."""
    found = []
    for case in cases():
        try:
            found.append((case, importer.load(case.model)))
        except qnnrt.ModelError:
            continue
    return found


def run(model: qnnrt.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with qnnrt.Session(model) as session:
        return list(session.run(feeds).values())


def difference(found: np.ndarray, wanted: np.ndarray) -> str:
    """What is wrong, or nothing."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if found.dtype.kind in "iub":
        wrong = np.count_nonzero(found != wanted)
        return f"{wrong} of {found.size} differ" if wrong else ""
    tolerance = _TOLERANCE[found.dtype.itemsize]
    close = np.allclose(
        found.astype(float), wanted.astype(float), tolerance, tolerance, equal_nan=True
    )
    return "" if close else f"{found.ravel()[:4]} instead of {wanted.ravel()[:4]}"


def test_there_is_a_recipe_for_every_operator() -> None:
    assert set(recipes()) == set(TABLE)


def test_what_loads_runs_on_the_cpu_backend() -> None:
    rng = np.random.default_rng(14)
    failed = []
    for case, model in loaded():
        try:
            run(model, case.feeds(rng))
        except qnnrt.Error as e:
            failed.append(f"{case.label}: {e}")
    assert not failed, "\n".join(failed)
    assert len(loaded()) > 1600


@pytest.mark.foreign
@pytest.mark.slow
def test_what_onnx_runtime_takes_agrees_with_it() -> None:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    rng = np.random.default_rng(14)
    wrong, counts = [], Counter()
    for case, model in loaded():
        if case.label in _OTHERWISE or case.label.startswith("Random"):  # other generators
            continue
        feeds = case.feeds(rng)
        try:
            other = ort.InferenceSession(case.model.SerializeToString(), options)
            wanted = other.run(None, feeds)
        except Exception:  # it has no kernel for these types, or not for these values
            counts["refused"] += 1
            continue
        for found, expected in zip(run(model, feeds), wanted, strict=True):
            if text := difference(found, expected):
                wrong.append(f"{case.label}: {text}")
        counts["compared"] += 1
    assert not wrong, "\n".join(wrong)
    assert counts["compared"] > 1300


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["htp", "lpai"])
def test_another_backend_names_what_it_does_not_take(backend: str) -> None:
    failed = []
    shared = qnnrt.qnn.Backend.open(backend)
    for case, model in loaded():
        try:
            qnnrt.Session(model, shared).close()
        except qnnrt.UnsupportedOpError:
            continue
        except qnnrt.Error as e:
            failed.append(f"{case.label}: {e}")
    shared.close()
    assert not failed, "\n".join(failed)


def test_lpai_names_a_hard_sigmoid_with_all_others() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("HardSigmoid", ["d"], ["h"], name="hard"),
        node("QuantizeLinear", ["h", "s", "z"], ["r"]),
        node("DequantizeLinear", ["r", "s", "z"], ["e"]),
        node("Sin", ["e"], ["f"], name="sine"),
        node("QuantizeLinear", ["f", "s", "z"], ["t"]),
        node("DequantizeLinear", ["t", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.05), "z": np.uint8(0)}
    model = importer.load(model_of(nodes, {"x": (2, 3)}, ["y"], constants, 17, {}))
    assert {"ElementWiseNeuron", "ElementWiseSin"} <= set(model.op_counts())
    with pytest.raises(qnnrt.UnsupportedOpError) as e:
        qnnrt.Session(model, "lpai")
    assert [n.op for n in e.value.nodes] == ["ElementWiseNeuron", "ElementWiseSin"]
    assert e.value.nodes[0].reason == (
        "lpai has ElementWiseNeuron without the operation 'hard_sigmoid'"
    )


# ---- integers to the bit


def one(
    op: str, x: list[np.ndarray], opset: int = 17, **attrs: object
) -> tuple[np.ndarray, np.dtype]:
    names = [f"x{i}" for i in range(len(x))]
    types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in zip(names, x, strict=True)}
    proto = model_of(
        [node(op, names, ["y"], **attrs)],
        {n: a.shape for n, a in zip(names, x, strict=True)},
        ["y"],
        {},
        opset,
        types,
    )
    (y,) = run(importer.load(proto), dict(zip(names, x, strict=True)))
    return y, x[0].dtype


WIDE = [np.int32, np.int64, np.uint32, np.uint64]


def any_integers(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 7), (7, 3)), ((2, 1, 5, 7), (3, 7, 4)), ((7,), (2, 7, 3)), ((64, 300), (300, 70))],
)
def test_products_of_integers_wrap(dtype: type, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, y = any_integers(rng, dtype, a), any_integers(rng, dtype, b)
    found, kind = one("MatMul", [x, y])
    assert found.dtype == kind
    assert np.array_equal(found, np.matmul(x, y))


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_of_integers_wraps(dtype: type, transposed: int) -> None:
    rng = np.random.default_rng(4)
    a, b, c = (any_integers(rng, dtype, s) for s in ((6, 5), (5, 6), (6,)))
    if transposed:
        a, b = a.T.copy(), b.T.copy()
    found, _ = one("Gemm", [a, b, c], transA=transposed, transB=transposed)
    left, right = (a.T, b.T) if transposed else (a, b)
    assert np.array_equal(found, np.matmul(left, right) + c)


def test_a_constant_matrix_of_integers_multiplies_as_well() -> None:
    rng = np.random.default_rng(5)
    x, w = any_integers(rng, np.int64, (3, 4)), any_integers(rng, np.int64, (4, 2))
    types = {"x": TensorProto.INT64}
    proto = model_of([node("MatMul", ["x", "w"], ["y"])], {"x": (3, 4)}, ["y"], {"w": w}, 17, types)
    assert np.array_equal(run(importer.load(proto), {"x": x})[0], x @ w)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_abs_and_sign_of_what_has_no_sign(dtype: type) -> None:
    x = np.array([0, 1, 2, np.iinfo(dtype).max], dtype)
    assert np.array_equal(one("Abs", [x])[0], x)
    assert np.array_equal(one("Sign", [x])[0], np.sign(x))


def test_abs_of_doubles_is_exact() -> None:
    x = np.array([-1e300, 1 + 2**-50, -0.0, 5e-324, np.inf, -np.inf, np.nan])
    found, dtype = one("Abs", [x])
    assert dtype == np.float64
    assert np.array_equal(found, np.abs(x), equal_nan=True)


@pytest.mark.parametrize("version", [7, 11, 17])
def test_what_passes_doubles_through_is_exact(version: int) -> None:
    x = np.array([-1e300, -0.3, 0.1, 1 + 2**-50, 5e-324, 1e300])
    types = {"x": TensorProto.DOUBLE}
    clip: tuple[list[str], dict[str, float]] = (["x", "low", "high"], {})
    limits = {"low": np.array(-0.2), "high": np.array(0.7)}
    if version < 11:
        clip, limits = (["x"], {"min": -0.25, "max": 0.75}), {}
    low, high = (-0.2, 0.7) if limits else (-0.25, 0.75)
    nodes = [
        node("Relu", ["x"], ["relu"]),
        node("Neg", ["x"], ["neg"]),
        node("LeakyRelu", ["x"], ["leaky"], alpha=0.25),
        node("Clip", clip[0], ["clip"], **clip[1]),
    ]
    names = ["relu", "neg", "leaky", "clip"]
    proto = model_of(nodes, {"x": (6,)}, names, limits, version, types)
    found = run(importer.load(proto), {"x": x})
    wanted = [np.maximum(x, 0), -x, np.where(x < 0, x * 0.25, x), np.clip(x, low, high)]
    for name, y, expected in zip(names, found, wanted, strict=True):
        assert y.dtype == np.float64
        assert np.array_equal(y, expected), name


@pytest.mark.foreign
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_picks_doubles_is_exact(rank: int, dilation: int) -> None:
    ort = pytest.importorskip("onnxruntime")
    shape = (2, 3, 5, 6, 4)[: rank + 2]
    x = 1 + np.random.default_rng(rank).integers(0, 2**20, shape) * 2.0**-50
    window = {"kernel_shape": [2] * rank, "strides": [2] * rank, "dilations": [dilation] * rank}
    nodes = [
        node("MaxPool", ["x"], ["pool"], **window, pads=[1] * 2 * rank),
        node("GlobalMaxPool", ["x"], ["whole"]),
        node("Resize", ["x", "", "scales"], ["resize"], mode="nearest"),
    ]
    scales = {"scales": np.array([1, 1, *[2] * rank], np.float32)}
    names = ["pool", "whole", "resize"]
    types = {"x": TensorProto.DOUBLE}
    found = run(importer.load(model_of(nodes, {"x": shape}, names, scales, 17, types)), {"x": x})
    pool = model_of(nodes[:1], {"x": shape}, names[:1], {}, 17, types).SerializeToString()
    (pooled,) = ort.InferenceSession(pool).run(None, {"x": x})
    repeated = functools.reduce(lambda y, axis: y.repeat(2, axis), range(2, rank + 2), x)
    wanted = [pooled, x.max(tuple(range(2, rank + 2)), keepdims=True), repeated]
    for name, y, expected in zip(names, found, wanted, strict=True):
        assert y.dtype == np.float64
        assert np.array_equal(y, expected), name


_ODD = [
    -1e300,
    -3.7000000001,
    -2.5,
    -0.0,
    0.0,
    5e-324,
    0.1,
    0.5,
    1 + 2**-50,
    2.5,
    88.9,
    2**52 + 0.5,
]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("Ceil", np.ceil), ("Floor", np.floor), ("IsInf", np.isinf), ("IsNaN", np.isnan),
        ("Reciprocal", np.reciprocal), ("Round", np.round), ("Sign", np.sign), ("Sqrt", np.sqrt),
        ("Asin", np.arcsin), ("Atan", np.arctan), ("Cos", np.cos), ("Cosh", np.cosh),
        ("Elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
        ("Erf", np.vectorize(math.erf)), ("Exp", np.exp), ("Log", np.log),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("Sin", np.sin), ("Sinh", np.sinh),
        ("Tan", np.tan), ("Tanh", np.tanh),
    ],
)  # fmt: skip
def test_what_a_double_becomes_is_computed_in_64_bits(
    op: str, wanted: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.array([*_ODD, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        expected = wanted(x)
    proto = model_of(
        [node(op, ["x"], ["y"])], {"x": x.shape}, ["y"], {}, 20, {"x": TensorProto.DOUBLE}
    )
    (found,) = run(importer.load(proto), {"x": x})
    assert found.dtype == expected.dtype
    if op in ("Ceil", "Floor", "IsInf", "IsNaN", "Reciprocal", "Round", "Sign", "Sqrt"):
        assert np.array_equal(found, expected, equal_nan=True)
    else:
        np.testing.assert_allclose(found, expected, 1e-12)


def test_powers_and_sums_of_squares_of_doubles() -> None:
    x = np.array([[1e-200, 3 + 2**-45, 1e100], [2.0, 1 / 3, 7e-5]])
    for op, opset, wanted in (
        ("ReduceSumSquare", 17, (x * x).sum(1)),
        ("ReduceL2", 17, np.sqrt((x * x).sum(1))),
        ("ReduceL1", 17, x.sum(1)),
    ):
        found, _ = one(op, [x], opset, axes=[1], keepdims=0)
        np.testing.assert_allclose(found, wanted, 1e-14)
    found, _ = one("Pow", [x, np.array([[2.0, 0.5, -1.5]])])
    np.testing.assert_allclose(found, x ** np.array([[2.0, 0.5, -1.5]]), 1e-14)


@pytest.mark.parametrize(
    "value", [2**40, -(2**63), np.float64(0.1), np.float64(1e300), np.uint32(2**32 - 1)]
)
def test_paddings_and_one_hots_of_numbers_that_32_bits_do_not_hold(value: Any) -> None:
    filling = np.array(value)
    x = np.arange(6).reshape(2, 3).astype(filling.dtype)
    types = {"x": helper.np_dtype_to_tensor_dtype(x.dtype), "i": TensorProto.INT64}
    constants = {
        "pads": np.array([0, 1, 1, 0]),
        "value": filling,
        "depth": np.array(4),
        "values": np.array([value, 1], x.dtype),
    }
    nodes = [
        node("Pad", ["x", "pads", "value"], ["padded"]),
        node("OneHot", ["i", "depth", "values"], ["hot"]),
    ]
    proto = model_of(nodes, {"x": (2, 3), "i": (3,)}, ["padded", "hot"], constants, 17, types)
    padded, hot = run(importer.load(proto), {"x": x, "i": np.array([0, 2, 3])})
    assert np.array_equal(padded, np.pad(x, ((0, 1), (1, 0)), constant_values=filling))
    assert np.array_equal(hot, np.where(np.eye(4, dtype=bool)[[0, 2, 3]], x.dtype.type(1), filling))


def test_hyperbolic_functions_reach_the_end_of_floats() -> None:
    x = np.array([88.9, -89.4, 0.0, -0.0, 1e-30], np.float32)
    for op, wanted in (("Cosh", np.cosh), ("Sinh", np.sinh)):
        found, _ = one(op, [x])
        np.testing.assert_allclose(found, wanted(x.astype(np.float64)), 1e-6)
        assert np.array_equal(np.signbit(found), np.signbit(wanted(x)))


@pytest.mark.parametrize("dtype", WIDE)
def test_prelu_of_integers(dtype: type) -> None:
    rng = np.random.default_rng(6)
    x, slope = any_integers(rng, dtype, (2, 3, 4)), any_integers(rng, dtype, (3, 1))
    wanted = np.where(x < 0, x * slope, x)
    assert np.array_equal(one("PRelu", [x, slope])[0], wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_norm_of_integers_is_the_whole_part_of_the_root(dtype: type) -> None:
    near = [n * n + d for n in (2, 3, 4097, 46340, 30011) for d in (-1, 0, 1)]
    squares = [0, 1, 2, 3, *near, *((2**31 - 1, 2**62, 10**18 - 1) if dtype == np.int64 else ())]
    # Every total as a sum of four squares would be long: the root is taken of their squares.
    sides = np.array([[math.isqrt(s), 0] for s in squares], dtype)
    found, _ = one("ReduceL2", [sides], axes=[1], keepdims=0)
    assert found.tolist() == [math.isqrt(s) for s in squares]
    rng = np.random.default_rng(7)
    x = rng.integers(-20000, 20000, (500, 3)).astype(dtype)
    found, _ = one("ReduceL2", [x], axes=[1], keepdims=0)
    assert found.tolist() == [math.isqrt(int((r.astype(np.int64) ** 2).sum())) for r in x]


def test_a_logarithm_of_integers_is_named_when_the_file_is_loaded() -> None:
    for op in ("ReduceLogSumExp", "ReduceLogSum"):
        for opset in (13, 18, 21):
            types = {"x": TensorProto.INT64}
            proto = model_of([node(op, ["x"], ["y"])], {"x": (2, 3)}, ["y"], {}, opset, types)
            with pytest.raises(qnnrt.UnsupportedOpError, match="logarithms of integers"):
                importer.load(proto)


def test_a_number_that_parameters_do_not_hold_is_named_as_it_is() -> None:
    largest = np.array(2**64 - 5, np.uint64)
    types = {"x": TensorProto.UINT64}
    constants = {"pads": np.array([1, 1]), "value": largest}
    nodes = [node("Pad", ["x", "pads", "value"], ["y"])]
    model = importer.load(model_of(nodes, {"x": (2,)}, ["y"], constants, 17, types))
    with pytest.raises(qnnrt.QnnError, match=r"'pad_constant_value' is 18446744073709551611"):
        qnnrt.Session(model, backend="cpu")
