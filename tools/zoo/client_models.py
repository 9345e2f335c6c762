"""ONNX models for the clients: a small one made here, and the light models of the onnx package."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import networks

OPSET = 17


def conv_net(seed: int) -> onnx.ModelProto:
    """Plain, strided, depthwise, grouped and pointwise convolutions with odd sizes between them."""
    random = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}

    def conv(x: str, y: str, shape: tuple[int, ...], **attributes: object) -> onnx.NodeProto:
        fan_in = int(np.prod(shape[1:]))
        weights[y + "_w"] = random.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        weights[y + "_b"] = random.normal(0, 0.1, shape[0]).astype(np.float32)
        return helper.make_node("Conv", [x, y + "_w", y + "_b"], [y], name=y, **attributes)

    def node(op: str, x: str, y: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(op, [x], [y], name=y, **attributes)

    nodes = [
        conv("x", "c1", (12, 3, 5, 5), strides=[2, 2], pads=[2, 1, 2, 1]),
        node("Relu", "c1", "r1"),
        conv("r1", "c2", (12, 1, 3, 3), group=12, pads=[1, 1, 1, 1]),
        node("Relu", "c2", "r2"),
        conv("r2", "c3", (18, 4, 3, 3), group=3, dilations=[2, 2], pads=[2, 2, 2, 2]),
        node("MaxPool", "c3", "p", kernel_shape=[3, 3], strides=[2, 2]),
        conv("p", "c4", (10, 18, 1, 1)),
        node("GlobalAveragePool", "c4", "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "conv_net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 31, 27])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10, 1, 1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="qnnrt"
    )


def light_model(name: str, seed: int) -> onnx.ModelProto:
    """A light model of the onnx package with seeded random weights, all of them constants.

    The values before the softmax are a second output.
    """
    model = onnx.ModelProto()
    model.CopyFrom(networks.randomized(name, seed))
    graph = model.graph
    read = {name for node in graph.node for name in node.input}
    weights = {t.name: t for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in weights]
    del graph.input[:], graph.initializer[:]
    graph.input.extend(inputs)
    graph.initializer.extend(t for name, t in weights.items() if name in read)
    model.ir_version = 8  # initializers are constants now, not defaults of inputs
    return model
