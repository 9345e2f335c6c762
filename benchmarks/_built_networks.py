"""Networks that the onnx package does not ship, built node by node with seeded random weights."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Net:
    """Nodes and weights of a graph being built; each call gives the name of its result."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, spread: float | None = None) -> str:
        """Of the spread that keeps a signal's, [outputs, inputs, ..] as Conv has them."""
        name = f"w{len(self.weights)}"
        if spread is None:
            spread = 1 / math.sqrt(math.prod(shape[1:]))
        values = self.random.standard_normal(shape, np.float32) * np.float32(spread)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def model(
        self, name: str, shape: tuple[int | str, ...], y: str, type: int = TensorProto.FLOAT
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [y], ["y"])],
            name,
            [helper.make_tensor_value_info("x", type, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self.weights,
        )
        imports = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def tcn(channels: int = 32, steps: int = 128, blocks: int = 8, seed: int = 1) -> onnx.ModelProto:
    """A temporal convolutional network: blocks of two dilated causal convolutions and a residual,
    with the Pad in front of each that torch's causal convolutions are exported with."""
    net = _Net(seed)
    h = net.node("Conv", "x", net.weight(channels, 8, 1), kernel_shape=[1])
    for block in range(blocks):
        dilation = 2**block
        before = h
        for _ in range(2):
            pads = net.constant(np.array([0, 0, 2 * dilation, 0, 0, 0], np.int64))
            h = net.node("Pad", h, pads)
            w, b = net.weight(channels, channels, 3), net.weight(channels, spread=0.1)
            h = net.node("Conv", h, w, b, kernel_shape=[3], dilations=[dilation])
            h = net.node("Relu", h)
        h = net.node("Add", h, before)
    return net.model("tcn", (1, 8, steps), h)


def _transformer(
    net: _Net, h: str, layers: int, width: int, heads: int, sizes: tuple[int, int]
) -> str:
    """The layers of an encoder, as torch exports BERT's; `sizes` are those of its result's first
    two dimensions, 0: as they come in."""

    def linear(x: str, inputs: int, outputs: int) -> str:
        w = net.weight(inputs, outputs, spread=1 / math.sqrt(inputs))
        return net.node("Add", net.node("MatMul", x, w), net.weight(outputs, spread=0.1))

    def split(x: str, perm: list[int]) -> str:
        shape = net.constant(np.array([*sizes, heads, width // heads], np.int64))
        return net.node("Transpose", net.node("Reshape", x, shape), perm=perm)

    def number(value: float) -> str:
        return net.constant(np.array(value, np.float32))

    for _ in range(layers):
        q, k, v = (linear(h, width, width) for _ in range(3))
        scores = net.node("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
        scores = net.node("Div", scores, number(math.sqrt(width / heads)))
        found = net.node("MatMul", net.node("Softmax", scores, axis=-1), split(v, [0, 2, 1, 3]))
        found = net.node("Transpose", found, perm=[0, 2, 1, 3])
        found = net.node("Reshape", found, net.constant(np.array([*sizes, width], np.int64)))
        h = _normalized(net, net.node("Add", linear(found, width, width), h), width)
        up = linear(h, width, 4 * width)
        erf = net.node("Erf", net.node("Div", up, number(math.sqrt(2))))
        gelu = net.node("Mul", net.node("Mul", up, net.node("Add", erf, number(1))), number(0.5))
        h = _normalized(net, net.node("Add", linear(gelu, 4 * width, width), h), width)
    return h


def _normalized(net: _Net, x: str, width: int) -> str:
    gain, bias = net.constant(np.ones(width, np.float32)), net.weight(width, spread=0.1)
    return net.node("LayerNormalization", x, gain, bias, axis=-1)


def encoder(
    layers: int = 4, width: int = 768, heads: int = 12, steps: int = 64, seed: int = 1
) -> onnx.ModelProto:
    """A transformer's encoder, as torch exports BERT's: 7 MB of weights for a layer of width
    768."""
    net = _Net(seed)
    h = _transformer(net, "x", layers, width, heads, (1, steps))
    return net.model("encoder", (1, steps, width), h)


def bert(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    words: int = 30522,
    longest: int = 512,
    seed: int = 1,
) -> onnx.ModelProto:
    """BERT-base without types and masks: words in, [batch, steps] of any size."""
    net = _Net(seed)
    table = net.weight(words, width, spread=0.1)
    places = net.weight(longest, width, spread=0.1)
    steps = net.node("Shape", "x", start=1, end=2)
    zero = net.constant(np.array([0], np.int64))
    h = net.node(
        "Add", net.node("Gather", table, "x"), net.node("Slice", places, zero, steps, zero)
    )
    h = _transformer(net, _normalized(net, h, width), layers, width, heads, (0, 0))
    return net.model("bert", ("batch", "steps"), h, TensorProto.INT64)


def wide_cnn(channels: int = 512, layers: int = 8, size: int = 7, seed: int = 1) -> onnx.ModelProto:
    """Convolutions whose weights are large for what they compute: 9 MB each of 512 channels."""
    net = _Net(seed)
    h = net.node("Conv", "x", net.weight(channels, 8, 1, 1), kernel_shape=[1, 1])
    for _ in range(layers):
        w, b = net.weight(channels, channels, 3, 3), net.weight(channels, spread=0.1)
        h = net.node("Relu", net.node("Conv", h, w, b, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    return net.model("wide_cnn", (1, 8, size, size), h)
