"""Many shapes of one model on the gpu backend, and tensors without elements."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt import _core
from qnnrt.importers import onnx as importer
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401

pytestmark = pytest.mark.foreign  # OpenCL drivers are

WEIGHTS = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)


def growing() -> onnx.ModelProto:
    """y = past joined by x @ w."""

    def value(name: str, dims: list[str | int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Concat", ["past", "p"], ["y"], axis=0),
        ],
        "grow",
        [value("x", ["n", 4]), value("past", ["m", 3])],
        [value("y", ["k", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.usefixtures("opencl_is_up")
def test_shapes_come_and_go_and_may_be_empty() -> None:
    with qnnrt.Session(
        importer.load(growing(), shapes="any"), "gpu", options={"max_shapes": 2}
    ) as session:
        past = np.zeros((0, 3), np.float32)
        for n in (2, 1, 0, 3):
            x = np.full((n, 4), n, np.float32)
            expected = np.concatenate([past, x @ WEIGHTS])
            past = session.run({"x": x, "past": past})["y"]
            np.testing.assert_allclose(past, expected, rtol=1e-4, atol=1e-5)
        assert _core.live_counts()["graphs"] == 2
        nothing = session.run({"x": x[:0], "past": past[:0]})["y"]
        assert nothing.shape == (0, 3)
