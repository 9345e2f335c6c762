"""Random numbers of ONNX models: with a seed always the same, without one new in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from support import reference


def runs(op: str, count: int = 2, x: np.ndarray | None = None, **attrs: Any) -> list[np.ndarray]:
    inputs = []
    if x is not None:
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        inputs = [helper.make_tensor_value_info("x", kind, x.shape)]
    # A graph has an input, and an output that is not all constants.
    one = helper.make_tensor_value_info("one", TensorProto.FLOAT, [1])
    nodes = [
        helper.make_node(op, ["x"] if inputs else [], ["r"], name="node", **attrs),
        helper.make_node("Identity", ["r"], ["y"]),
        helper.make_node("Identity", ["one"], ["z"]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in "yz"]
    graph = helper.make_graph(nodes, "g", [*inputs, one], outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    feeds = {"one": np.ones(1, np.float32)} | ({} if x is None else {"x": x})
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        wanted = {name: feeds[name] for name in session.model.inputs}
        return [session.run(wanted)["y"].copy() for _ in range(count)]


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
@pytest.mark.parametrize("like", [False, True])
def test_numbers_of_a_seed(op: str, like: bool) -> None:
    how: dict[str, Any] = {"seed": 5.0}
    how |= {"low": -1.0, "high": 3.0} if op == "RandomUniform" else {"mean": 2.0, "scale": 0.5}
    x = np.zeros((3, 4, 5), np.float32)
    if like:
        first, second = runs(op + "Like", x=x, **how)
        (double,) = runs(op + "Like", 1, x, dtype=TensorProto.DOUBLE, **how)
        assert double.dtype == np.float64
        (half,) = runs(op + "Like", 1, x.astype(np.float16), **how)
        np.testing.assert_array_equal(half, first.astype(np.float16))
    else:
        first, second = runs(op, shape=[3, 4, 5], **how)
    params = {k: v for k, v in how.items() if k != "seed"}
    seed = np.array([5], np.float32)
    expected = reference.of(op + "Like", [np.array([3, 4, 5]), seed], params)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(first, second)


def test_numbers_without_a_seed_go_on() -> None:
    first, second = runs("RandomUniform", shape=[100])
    assert not np.array_equal(first, second)
    again = runs("RandomUniform", shape=[100])
    np.testing.assert_array_equal([first, second], again)  # another session begins again


def test_draws() -> None:
    p = np.linspace(0, 1, 4000, dtype=np.float32).reshape(40, 100)
    for dtype in (None, TensorProto.INT32, TensorProto.BOOL):
        how = {} if dtype is None else {"dtype": dtype}
        (drawn,) = runs("Bernoulli", 1, p, seed=3.0, **how)
        drawn = drawn.astype(np.float64)
        assert set(np.unique(drawn)) == {0.0, 1.0}
        np.testing.assert_allclose(drawn.mean(1), p.mean(1), atol=0.2)
        assert abs(drawn.mean() - 0.5) < 0.03
    share = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]], np.float32)
    (drawn,) = runs("Multinomial", 1, np.log(share), sample_size=4000, seed=1.0)
    assert (drawn.shape, drawn.dtype) == ((2, 4000), np.int32)
    for row, wanted in zip(drawn, share, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 4000, wanted, atol=0.03)
    (drawn,) = runs("Multinomial", 1, share, sample_size=2, dtype=TensorProto.INT64)
    assert drawn.dtype == np.int64


def test_random_integers_are_refused() -> None:
    with pytest.raises(ModelError, match="would be int32"):
        runs("RandomUniformLike", x=np.zeros(3, np.int32))
