"""Activations equal their formulas to a few units of the last place, in float and half."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support.one_node import run_op

erfc = np.vectorize(math.erfc)

# Values to try: dense in the middle, ends of what float can say, and what is no number.
X = np.concatenate([
    np.linspace(-20, 20, 20001),
    np.random.default_rng(0).normal(size=5000) * 4,
    [0.0, -0.0, 1e-30, -1e-30, 1e-41, 88.0, 100.0, -100.0, 1e30, np.nan],
]).astype(np.float32)  # fmt: skip


def softplus(x: Any, beta: float = 1.0, threshold: float = math.inf) -> Any:
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


ACTIVATIONS: dict[str, tuple[str, dict[str, Any], Callable[[Any], Any]]] = {
    "relu": ("Relu", {}, lambda x: np.where(x < 0, 0, x)),
    "relu1": ("Relu1", {}, lambda x: np.clip(x, -1, 1)),
    "relu6": ("Relu6", {}, lambda x: np.clip(x, 0, 6)),
    "min_max": ("ReluMinMax", {"min_value": -2.5, "max_value": 3.0}, lambda x: np.clip(x, -2.5, 3)),
    "sigmoid": ("Sigmoid", {}, lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-abs(x)))),
    "tanh": ("Tanh", {}, np.tanh),
    "elu": ("Elu", {}, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu_alpha": ("Elu", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "gelu": ("Gelu", {}, lambda x: x * 0.5 * erfc(-x / math.sqrt(2))),
    "hard_swish": ("HardSwish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "n_elu": ("ElementWiseNeuron", {"operation": 0, "alpha": 2.0},
              lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
    "n_gelu": ("ElementWiseNeuron", {"operation": 1}, lambda x: x * 0.5 * erfc(-x / math.sqrt(2))),
    "n_hard_sigmoid": ("ElementWiseNeuron", {"operation": 2, "alpha": 0.25, "beta": 0.5},
                       lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    "n_hard_sigmoid_default": ("ElementWiseNeuron", {"operation": 2},
                               lambda x: np.clip(x + 0.5, 0, 1)),
    "n_hard_swish": ("ElementWiseNeuron", {"operation": 3},
                     lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "n_relu": ("ElementWiseNeuron", {"operation": 4}, lambda x: np.where(x < 0, 0, x)),
    "n_min_max": ("ElementWiseNeuron", {"operation": 5, "max_value": 1.0},
                  lambda x: np.minimum(x, 1)),
    "n_sigmoid": ("ElementWiseNeuron", {"operation": 6},
                  lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-abs(x)))),
    "n_softplus": ("ElementWiseNeuron", {"operation": 7}, softplus),
    "n_softplus_beta": ("ElementWiseNeuron", {"operation": 7, "beta": 2.0, "threshold": 20.0},
                        lambda x: softplus(x, 2.0, 20.0)),
    "n_tanh": ("ElementWiseNeuron", {"operation": 8}, np.tanh),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_in_float(name: str) -> None:
    op, params, reference = ACTIVATIONS[name]
    with np.errstate(all="ignore"):
        expected = reference(X.astype(np.float64))
    (got,) = run_op(op, [X], [X.shape], params)
    np.testing.assert_allclose(got, expected, rtol=2e-5 if "gelu" in name else 4e-7, atol=1e-35)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_in_half(name: str) -> None:
    op, params, reference = ACTIVATIONS[name]
    x = X[np.abs(X) < 60000].astype(np.float16)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
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


@pytest.mark.parametrize("slope", [(), (1,), (3,), (4, 1), (5, 1, 1), (5, 4, 3), (1, 5, 4, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_prelu_slopes_broadcast_to_the_input(slope: tuple[int, ...], dtype: str) -> None:
    r = np.random.default_rng(3)
    x, s = r.normal(size=(2, 5, 4, 3)).astype(dtype), r.normal(size=slope).astype(dtype)
    (got,) = run_op("Prelu", [x, s], [x.shape], static=(1,))
    np.testing.assert_allclose(
        got, np.where(x < 0, x * s, x), rtol=2e-3 if dtype[5:] == "16" else 0
    )


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


def test_only_relu_takes_integers() -> None:
    with pytest.raises(QnnError, match="INT_32"):
        run_op("Sigmoid", [np.zeros(2, np.int32)], [(2,)])
    with pytest.raises(QnnError, match="operation 6"):
        run_op("ElementWiseNeuron", [np.zeros(2, np.int32)], [(2,)], {"operation": 6})
