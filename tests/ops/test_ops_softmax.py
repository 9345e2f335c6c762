"""Softmax and LogSoftmax along any axis, with any beta."""

from __future__ import annotations

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import run_op


@pytest.mark.parametrize("kernels", ["portable", "auto"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 1000), (2, 5, 7), (2, 17, 300), (1, 2, 3, 4, 5)])
def test_softmax_is_numpys(shape: tuple[int, ...], dtype: str, kernels: str) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    for axis in range(len(shape)):
        for beta in (1.0, 0.5):
            params = {"axis": axis, "beta": beta}
            expected = reference.of("Softmax", [x], params)
            rtol = 4e-3 if dtype == "float16" else 5e-6
            (got,) = run_op("Softmax", [x], [shape], params, kernels=kernels)
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-6)
            (got,) = run_op("LogSoftmax", [x], [shape], params, kernels=kernels)
            np.testing.assert_allclose(
                got, reference.of("LogSoftmax", [x], params), rtol=rtol, atol=rtol
            )


def test_large_values_do_not_overflow() -> None:
    x = np.array([[1e4, 1e4 - 1, -1e4], [-3e38, 3e38, 0]], np.float32)
    (got,) = run_op("Softmax", [x], [x.shape])
    np.testing.assert_allclose(got, reference.of("Softmax", [x]), rtol=1e-6)
    assert not np.isnan(run_op("LogSoftmax", [x], [x.shape], {"axis": 1})[0]).any()


def test_masked_places_get_nothing() -> None:
    x = np.array([1, -np.inf, 2, -np.inf], np.float32)
    (got,) = run_op("Softmax", [x], [x.shape])
    assert got[1] == got[3] == 0
    np.testing.assert_allclose(got.sum(), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "params", "message"),
    [
        ("Softmax", {"axis": 2}, "axis"),
        ("LogSoftmax", {}, "axis"),
        ("Softmax", {"beta": True}, "beta"),
    ],
)
def test_what_breaks_a_rule_is_refused(op: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(QnnError, match=message) as e:
        run_op(op, [np.zeros((2, 3), np.float32)], [(2, 3)], params)
    assert op in str(e.value)


def test_no_softmax_of_integers_or_scalars() -> None:
    with pytest.raises(QnnError, match="INT_32"):
        run_op("Softmax", [np.zeros((2, 3), np.int32)], [(2, 3)])
    with pytest.raises(QnnError, match="rank"):
        run_op("Softmax", [np.zeros((), np.float32)], [()])
