"""Softmax and LogSoftmax along any axis, with any beta."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  numpy knows bfloat16 by it
import numpy as np
import pytest

import qnnrt
from qnnrt.errors import QnnError
from qnnrt.model import Model, Node, Tensor
from support import reference
from support.one_node import run_op

#: The last two are longer than what is converted from 16 bits in the cache.
SHAPES = [
    (1,),
    (5,),
    (16,),
    (3, 1000),
    (2, 5, 7),
    (2, 17, 300),
    (1, 2, 3, 4, 5),
    (2, 300, 3),
    (2, 4100),
]
ROUNDING = {"float32": 5e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    """Floats of any width, rounded once, from FLOAT_32."""
    x = (np.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    rtol = ROUNDING[dtype]
    for axis in range(len(shape)):
        for beta in (1.0, 0.5):
            params = {"axis": axis, "beta": beta}
            for op, atol in (("Softmax", 1e-6), ("LogSoftmax", rtol)):
                (got,) = run_op(op, [x], [shape], params)
                expected = reference.of(op, [x.astype(np.float32)], params)
                np.testing.assert_allclose(got.astype(np.float32), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_between_products_of_another_width(op: str, axis: int, precision: str) -> None:
    """A graph's precision stores what goes in or comes out in 16 bits, and the other one not."""
    rng = np.random.default_rng(axis)
    w = rng.normal(size=(48, 48)).astype(np.float32) / 7
    model = Model("between")
    for name, data in (("x", None), ("w", w), ("scores", None), ("parts", None), ("y", None)):
        shape = (48, 48) if name == "w" else (2, 64, 48)
        model.tensors[name] = Tensor(name, shape, np.dtype(np.float32), data)
    model.nodes += [
        Node("in", "MatMul", ["x", "w"], ["scores"], {}),
        Node("op", op, ["scores"], ["parts"], {"axis": np.uint32(axis)}),
        Node("out", "MatMul", ["parts", "w"], ["y"], {}),
    ]
    model.inputs, model.outputs = ["x"], ["y"]
    x = rng.normal(size=(2, 64, 48)).astype(np.float32)
    (parts,) = [reference.of(op, [x @ w], {"axis": axis})]
    for keep in ([], ["in"], ["op"], ["out"]):
        with qnnrt.Session(model, precision=precision, options={"float32_nodes": keep}) as s:
            got = s.run({"x": x})["y"].copy()
        np.testing.assert_allclose(got, parts @ w, rtol=0, atol=0.01 * np.abs(parts @ w).max())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n", range(1, 50))
def test_rows_of_any_length(n: int, dtype: str) -> None:
    """Of one, too, and in rows that threads share; nothing is written beside them."""
    x = np.random.default_rng(n).normal(size=(1000, n)).astype(dtype)
    (got,) = run_op("Softmax", [x], [x.shape])
    expected = reference.of("Softmax", [x.astype(np.float32)])
    np.testing.assert_allclose(got.astype(np.float32), expected, rtol=ROUNDING[dtype], atol=1e-6)


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
