"""The nine networks that the ``onnx`` package ships, as they are and with random weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
#: What is small and has something of every kind of layer: the tests of the others are slow.
SMALL = ("shufflenet", "squeezenet")


def path(name: str) -> Path:
    return FOLDER / f"light_{name}.onnx"


def reference(name: str) -> np.ndarray:
    """The output that belongs to `ramp()`."""
    tensor = onnx.TensorProto()
    tensor.ParseFromString((FOLDER / f"light_{name}_output_0.pb").read_bytes())
    return numpy_helper.to_array(tensor)


def ramp(shape: tuple[int, ...] = (1, 3, 224, 224)) -> np.ndarray:
    """The input that the reference outputs were made with."""
    return (np.arange(math.prod(shape)).reshape(shape) / math.prod(shape)).astype(np.float32)


def _value(kind: str, index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """A random initializer for input `index` of an operator, scaled so that signals neither
    vanish nor explode (He et al. for weights, statistics around one for normalizations)."""
    positive = (kind, index) in (("BatchNormalization", 1), ("BatchNormalization", 4), ("Mul", 1))
    if positive:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if kind in ("Conv", "Gemm") and index == 1:
        fan_in = math.prod(shape[1:])  # both hold [outputs, inputs, ..]
        scale = np.float32(math.sqrt(2 / fan_in))
        return rng.standard_normal(shape, np.float32) * scale
    return rng.standard_normal(shape, np.float32) * np.float32(0.1)


def _users(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """Name -> (op, input index) of who reads it, looking through Unsqueeze."""
    found: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            found.setdefault(name, (node.op_type, index))
    for node in graph.node:
        if node.op_type == "Unsqueeze" and node.output[0] in found:
            found[node.input[0]] = found[node.output[0]]
    return found


#: The width of the hidden fully connected layers of AlexNet, VGG-19 and ZFNet-512.
_HIDDEN = 4096


def _fills(graph: onnx.GraphProto, hidden: int) -> Iterator[tuple[onnx.NodeProto, tuple[int, ...]]]:
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = (int(d) for d in shapes[node.input[0]])
            yield node, tuple(hidden if d == _HIDDEN else d for d in shape)


@functools.lru_cache(maxsize=1)
def randomized(name: str, seed: int, hidden: int = _HIDDEN) -> onnx.ModelProto:
    """The network with every constant weight replaced by a seeded random one.

    With another number of `hidden` units the large classifiers take less time and memory.

    The values before the softmax are a second output, "logits", and the last layer is scaled so
    that they spread over a few units: probabilities of 0 and 1 would hide mistakes.
    """
    import onnxruntime

    model = onnx.load(path(name))
    graph = model.graph
    rng = np.random.default_rng(seed)
    users = _users(graph)
    weights: dict[str, np.ndarray] = {}
    for node, shape in list(_fills(graph, hidden)):
        kind, index = users[node.output[0]]
        weights[node.output[0]] = _value(kind, index, shape, rng)
        graph.node.remove(node)
    read = {name for node in graph.node for name in node.input}
    for initializer in [i for i in graph.initializer if i.name not in read]:  # of the fills
        graph.initializer.remove(initializer)
    for value_info in [i for i in graph.input if i.name not in read]:
        graph.input.remove(value_info)
    last = [n for n in graph.node if n.op_type in ("Conv", "Gemm")][-1]
    softmax = [n for n in graph.node if n.op_type == "Softmax"]
    logits = softmax[0].input[0] if softmax else graph.output[0].name
    if softmax:
        graph.output.append(onnx.ValueInfoProto(name=logits))
        graph.output[-1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for key, value in weights.items():
        graph.initializer.append(numpy_helper.from_array(value, key))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run([logits], {session.get_inputs()[0].name: image(seed)})[0]
    factor = np.float32(2 / found.std())
    for initializer in graph.initializer:
        if initializer.name in last.input[1:]:
            value = numpy_helper.to_array(initializer) * factor
            initializer.CopyFrom(numpy_helper.from_array(value, initializer.name))
    return model


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1).standard_normal((1, 3, 224, 224), np.float32)


def current(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` as it is written in opset 13, without a copy of its weights; changes it.

    ONNX Runtime's quantizer asks for that much, and ONNX's converter takes long for large models.
    """
    graph = model.graph
    for node in graph.node:
        if node.op_type == "Dropout":
            del node.attribute[:], node.output[1:]
        elif node.op_type == "Softmax":  # of a matrix: what follows the first dimension
            node.attribute.append(onnx.helper.make_attribute("axis", 1))
        elif node.op_type == "Unsqueeze":
            axes = np.array(node.attribute[0].ints, np.int64)
            graph.initializer.append(numpy_helper.from_array(axes, node.output[0] + ".axes"))
            node.input.append(node.output[0] + ".axes")
            del node.attribute[:]
    constants = {i.name for i in graph.initializer}
    for value in [i for i in graph.input if i.name in constants]:
        graph.input.remove(value)
    model.opset_import[0].version = 13
    model.ir_version = 8
    return model
