"""A network whose first two dimensions are open, as a file; what it gives for a shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qnnrt import _core

WEIGHTS = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)


def network(dims: tuple[Any, ...] = ("batch", "seq", 4)) -> onnx.ModelProto:
    """y = relu(x @ w) + sum over the second dimension of x @ w, z = x."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("ReduceSum", ["p", "axes"], ["s"]),
        helper.make_node("Add", ["r", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(WEIGHTS, "w"),
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(x: np.ndarray) -> np.ndarray:
    p = x @ WEIGHTS
    return np.maximum(p, 0) + p.sum(1, keepdims=True)


def given(batch: int, seq: int) -> np.ndarray:
    return np.random.default_rng(batch * 100 + seq).standard_normal((batch, seq, 4), np.float32)


def saved(folder: Path) -> Path:
    file = folder / "net.onnx"
    onnx.save(network(), file)
    return file


def check(session: Any, batch: int, seq: int) -> None:
    x = given(batch, seq)
    found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def live_graphs() -> int:
    return _core.live_counts()["graphs"]
