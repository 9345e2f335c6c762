"""Models that more than one mutator begins with."""

from __future__ import annotations

from onnx import TensorProto, helper


def relu_onnx() -> bytes:
    """y = max(x, 0) of float32[1, 16]."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())
