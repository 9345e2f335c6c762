"""Activations equal their formulas to a few units of the last place, in float and half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support import reference
from support.one_node import KERNELS, run_op

# Values to try: dense in the middle, ends of what float can say, and what is no number.
X = np.concatenate([
    np.linspace(-20, 20, 20001),
    np.random.default_rng(0).normal(size=5000) * 4,
    [0.0, -0.0, 1e-30, -1e-30, 1e-41, 88.0, 100.0, -100.0, 1e30, np.nan],
]).astype(np.float32)  # fmt: skip


ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("Relu", {}),
    "relu1": ("Relu1", {}),
    "relu6": ("Relu6", {}),
    "min_max": ("ReluMinMax", {"min_value": -2.5, "max_value": 3.0}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "elu": ("Elu", {}),
    "elu_alpha": ("Elu", {"alpha": 0.5}),
    "gelu": ("Gelu", {}),
    "hard_swish": ("HardSwish", {}),
    "n_elu": ("ElementWiseNeuron", {"operation": 0, "alpha": 2.0}),
    "n_gelu": ("ElementWiseNeuron", {"operation": 1}),
    "n_hard_sigmoid": ("ElementWiseNeuron", {"operation": 2, "alpha": 0.25, "beta": 0.5}),
    "n_hard_sigmoid_default": ("ElementWiseNeuron", {"operation": 2}),
    "n_hard_swish": ("ElementWiseNeuron", {"operation": 3}),
    "n_relu": ("ElementWiseNeuron", {"operation": 4}),
    "n_min_max": ("ElementWiseNeuron", {"operation": 5, "max_value": 1.0}),
    "n_sigmoid": ("ElementWiseNeuron", {"operation": 6}),
    "n_softplus": ("ElementWiseNeuron", {"operation": 7}),
    "n_softplus_beta": ("ElementWiseNeuron", {"operation": 7, "beta": 2.0, "threshold": 20.0}),
    "n_tanh": ("ElementWiseNeuron", {"operation": 8}),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_in_float(name: str) -> None:
    op, params = ACTIVATIONS[name]
    expected = reference.of(op, [X], params)
    (got,) = run_op(op, [X], [X.shape], params)
    np.testing.assert_allclose(got, expected, rtol=2e-5 if "gelu" in name else 4e-7, atol=1e-35)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_in_half(name: str) -> None:
    op, params = ACTIVATIONS[name]
    x = X[np.abs(X) < 60000].astype(np.float16)
    expected = reference.of(op, [x], params)
    (got,) = run_op(op, [x], [x.shape], params)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4, 5, 6), (300, 1001)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    for op, expected in (("Relu", np.maximum(x, 0)), ("Tanh", np.tanh(x))):
        (got,) = run_op(op, [x], [shape])
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_infinities_go_to_the_limits() -> None:
    x = np.array([np.inf, -np.inf], np.float32)
    for op, params, expected in [
        ("Sigmoid", {}, [1, 0]),
        ("Tanh", {}, [1, -1]),
        ("Elu", {}, [np.inf, -1]),
        ("Gelu", {}, [np.inf, 0]),
        ("Relu6", {}, [6, 0]),
        ("ElementWiseNeuron", {"operation": 7}, [np.inf, 0]),
    ]:
        (got,) = run_op(op, [x], [x.shape], params)
        np.testing.assert_array_equal(got, np.array(expected, np.float32), op)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_relu_of_integers(dtype: str) -> None:
    x = np.random.default_rng(2).integers(-100, 100, (3, 77)).astype(dtype)
    (got,) = run_op("Relu", [x], [x.shape])
    np.testing.assert_array_equal(got, np.maximum(x, 0))
    (got,) = run_op("ElementWiseNeuron", [x], [x.shape], {"operation": 4})
    np.testing.assert_array_equal(got, np.maximum(x, 0))


@pytest.mark.parametrize(
    "dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
def test_limits_of_integers_lose_what_is_behind_their_point(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(info.min, info.max, (3, 77), dtype, endpoint=True)
    x[0] = np.arange(77) if info.min == 0 else np.arange(-40, 37)
    for low, high, least, most in (
        (-3.0, 5.0, -3, 5),
        (-1.5, 2.5, -1, 2),
        (1.5, 30.9, 1, 30),
        (-np.inf, 7.0, info.min, 7),
        (0.0, 1e30, 0, info.max),
    ):
        expected = np.clip(x, max(least, info.min), most)
        for op, more in (("ReluMinMax", {}), ("ElementWiseNeuron", {"operation": 5})):
            (got,) = run_op(op, [x], [x.shape], {"min_value": low, "max_value": high, **more})
            np.testing.assert_array_equal(got, expected, f"{low} {high}")


def test_limits_behind_a_sum_of_integers() -> None:
    x = np.arange(-50, 50, dtype=np.int32)
    then = [("ReluMinMax", {"min_value": -7.0, "max_value": 9.0})]
    (got,) = run_op("ElementWiseAdd", [x, x], [x.shape], then=then)
    np.testing.assert_array_equal(got, np.clip(2 * x, -7, 9))


@pytest.mark.parametrize("slope", [(), (1,), (3,), (4, 1), (5, 1, 1), (5, 4, 3), (1, 5, 4, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_prelu_slopes_broadcast_to_the_input(slope: tuple[int, ...], dtype: str) -> None:
    r = np.random.default_rng(3)
    x, s = r.normal(size=(2, 5, 4, 3)).astype(dtype), r.normal(size=slope).astype(dtype)
    (got,) = run_op("Prelu", [x, s], [x.shape], static=(1,))
    np.testing.assert_allclose(
        got, reference.of("Prelu", [x, s]).astype(dtype), rtol=2e-3 if dtype[5:] == "16" else 0
    )


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("static", [(), (1,)])
def test_prelu_slopes_of_dim_1_are_those_of_channels_first(static: Any, kernels: str) -> None:
    """As clients ask for the node that put channels last only then."""
    x = np.random.default_rng(3).standard_normal((2, 5, 4, 3)).astype(np.float32)
    slopes = np.linspace(-1, 2, 5, dtype=np.float32)
    (y,) = run_op("Prelu", [x, slopes], [x.shape], static=static, kernels=kernels)
    np.testing.assert_array_equal(y, np.where(x < 0, x * slopes[:, None, None], x))
    codes = (x[..., :1] * 20).astype(np.int8)
    encodings = dict.fromkeys(("in0", "out0"), Quantization(0.05, 0))
    encodings["in1"] = Quantization(np.full(5, 0.25, np.float32), np.zeros(5, np.int32), axis=0)
    fixed = [codes, np.arange(5, dtype=np.int8)]
    (y,) = run_op("Prelu", fixed, [codes.shape], static=(1,), encodings=encodings, kernels=kernels)
    wanted = np.where(codes < 0, codes * np.arange(5)[:, None, None] / 4, codes)
    np.testing.assert_array_equal(y, np.clip(np.rint(wanted), -128, 127))


@pytest.mark.parametrize(
    ("op", "shapes", "params", "message"),
    [
        ("ReluMinMax", [(3,)], {"min_value": 2.0, "max_value": 1.0}, "min_value"),
        ("ReluMinMax", [(3,)], {"min_value": 2.0}, "max_value"),
        ("ElementWiseNeuron", [(3,)], {}, "operation"),
        ("ElementWiseNeuron", [(3,)], {"operation": 9}, "operation"),
        ("ElementWiseNeuron", [(3,)], {"operation": 7, "beta": 0.0}, "beta"),
        ("ElementWiseNeuron", [(3,)],
         {"operation": 5, "min_value": 2.0, "max_value": 1.0}, "min_value"),
        ("Prelu", [(3,), (4,)], {}, "broadcast"),
        ("Prelu", [(3,), (2, 3)], {}, "broadcast"),
        ("Elu", [(3,)], {"beta": 1.0}, "beta"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_refused(op: str, shapes: Any, params: Any, message: str) -> None:
    with pytest.raises(QnnError, match=message) as e:
        run_op(op, [np.zeros(s, np.float32) for s in shapes], [shapes[0]], params)
    assert op in str(e.value)


def test_only_relu_and_limits_take_integers() -> None:
    with pytest.raises(QnnError, match="INT_32"):
        run_op("Sigmoid", [np.zeros(2, np.int32)], [(2,)])
    with pytest.raises(QnnError, match="operation 6"):
        run_op("ElementWiseNeuron", [np.zeros(2, np.int32)], [(2,)], {"operation": 6})
