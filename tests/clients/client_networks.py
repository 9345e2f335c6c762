"""Networks for the clients: small ones made here, and the light models of the onnx package.

The light models' weights are constants, which hide a swapped layout: every one is replaced by
seeded random values with He's scale, so that activations neither vanish nor explode.
"""

from importlib import resources

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

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
    """A light model of the onnx package, e.g. "resnet50", with seeded random weights."""
    folder = resources.files(onnx) / "backend" / "test" / "data" / "light"
    model = onnx.load_from_string((folder / f"light_{name}.onnx").read_bytes())
    graph = model.graph
    given = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    nodes = []
    for node in graph.node:  # the large weights are made by ConstantOfShape: fold them
        if node.op_type == "ConstantOfShape" and node.input[0] in given:
            shape = given.pop(node.input[0])
            fill = numpy_helper.to_array(node.attribute[0].t)
            given[node.output[0]] = np.full(shape, fill[0], fill.dtype)
        else:
            nodes.append(node)
    random = np.random.default_rng(seed)
    fold_reshaped(nodes, given)
    used = [name for node in nodes for name in node.input]
    weights = {
        name: draw(name, given[name], nodes, random) for name in sorted(given) if name in used
    }
    inputs = [i for i in graph.input if i.name not in given and i.name in used]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in weights.items())
    model.ir_version = 8  # initializers are constants, not defaults of inputs
    onnx.checker.check_model(model)
    calibrate(model, random)
    return model


def calibrate(model: onnx.ModelProto, random: np.random.Generator) -> None:
    """Scales the last weights so that softmax sees logits of deviation 1: it must not saturate."""
    graph = model.graph
    made_by = {output: node for node in graph.node for output in node.output}
    softmax = next((n for n in graph.node if n.op_type == "Softmax"), None)
    if softmax is None:
        return
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(onnx.ValueInfoProto(name=softmax.input[0]))
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {
        i.name: random.standard_normal(i.shape, dtype=np.float32) for i in session.get_inputs()
    }
    deviation = session.run(None, feeds)[0].std()
    last = made_by[softmax.input[0]]
    while last.op_type not in ("Conv", "Gemm"):  # what lies between scales along
        last = made_by[last.input[0]]
    for tensor in graph.initializer:
        if tensor.name in last.input[1:]:
            scaled = numpy_helper.to_array(tensor) / deviation
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))


def fold_reshaped(nodes: list[onnx.NodeProto], given: dict[str, np.ndarray]) -> None:
    """Unsqueeze or Reshape of a weight becomes a weight itself."""
    for node in list(nodes):
        if not all(name in given for name in node.input):
            continue
        if node.op_type == "Unsqueeze":
            axes = next(tuple(a.ints) for a in node.attribute if a.name == "axes")
            given[node.output[0]] = np.expand_dims(given[node.input[0]], axes)
        elif node.op_type == "Reshape":
            given[node.output[0]] = given[node.input[0]].reshape(given[node.input[1]])
        else:
            continue
        nodes.remove(node)


def draw(
    name: str, old: np.ndarray, nodes: list[onnx.NodeProto], random: np.random.Generator
) -> np.ndarray:
    """Random values that suit what the first node to read `name` does with them."""
    if old.dtype != np.float32:
        return old  # a shape, an index
    reader = next(n for n in nodes if name in n.input)
    index = list(reader.input).index(name)
    if (reader.op_type, index) in {("Conv", 1), ("Gemm", 1)}:
        transposed = any(a.name == "transB" and a.i for a in reader.attribute)
        fan_in = old.shape[0] if reader.op_type == "Gemm" and not transposed else old[0].size
        gain = 2 if reader.op_type == "Conv" else 0.5
        values = random.normal(0, np.sqrt(gain / fan_in), old.shape)
    elif (reader.op_type, index) == ("BatchNormalization", 4):
        values = random.uniform(0.5, 1.5, old.shape)
    elif (reader.op_type, index) in {("BatchNormalization", 1), ("Mul", 0), ("Mul", 1)}:
        values = random.uniform(0.6, 1.0, old.shape)
    else:
        values = random.normal(0, 0.1, old.shape)
    return values.astype(np.float32)
