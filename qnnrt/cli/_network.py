"""The networks of ``qnnrt demo``, built node by node: nothing is downloaded.

The classifier has the topology of Sandler et al., "MobileNetV2: Inverted Residuals and Linear
Bottlenecks" (2018), at width 1.0 with 1000 classes, batch normalisation folded. The weights are
random with a fixed seed, scaled so that activations keep their size (He et al., 2015): the
arithmetic is the real network's, the classes mean nothing.
"""

from __future__ import annotations

import numpy as np

from ..model import Model, Node, Tensor

# Expansion, output channels, repeats, stride of the first: table 2 of the paper.
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class _Builder:
    """Adds layers to a model; every method returns the name of the activation that it makes."""

    def __init__(self, name: str, seed: int) -> None:
        self.model = Model(name=name)
        self.random = np.random.default_rng(seed)

    def tensor(self, name: str, shape: tuple[int, ...], data: np.ndarray | None = None) -> str:
        self.model.tensors[name] = Tensor(name, shape, np.dtype(np.float32), data)
        return name

    def weights(self, name: str, shape: tuple[int, ...], fan_in: int) -> str:
        values = self.random.standard_normal(shape, dtype=np.float32) * (2 / fan_in) ** 0.5
        return self.tensor(name, shape, values.astype(np.float32))

    def node(
        self,
        kind: str,
        inputs: list[str],
        shape: tuple[int, ...],
        params: dict[str, object] | None = None,
    ) -> str:
        name = f"{kind}_{len(self.model.nodes)}"
        output = self.tensor(f"{name}_out", shape)
        self.model.nodes.append(Node(name, kind, inputs, [output], params or {}))
        return output

    def shape(self, name: str) -> tuple[int, ...]:
        return self.model.tensors[name].shape

    def conv(
        self, x: str, channels: int, kernel: int, stride: int = 1, *, depthwise: bool = False
    ) -> str:
        n, h, w, c = self.shape(x)
        pad = kernel // 2
        out = (n, -(-h // stride), -(-w // stride), channels)
        name = f"w{len(self.model.nodes)}"
        fan_in = kernel * kernel * (1 if depthwise else c)
        inner = 1 if depthwise else c
        weights = self.weights(name, (kernel, kernel, inner, channels), fan_in)
        bias = self.tensor(f"{name}_bias", (channels,), np.zeros(channels, np.float32))
        params: dict[str, object] = {
            "stride": np.array([stride, stride], np.uint32),
            "pad_amount": np.array([[pad, pad], [pad, pad]], np.uint32),
        }
        kind = "DepthWiseConv2d" if depthwise else "Conv2d"
        return self.node(kind, [x, weights, bias], out, params)

    def relu6(self, x: str) -> str:
        params: dict[str, object] = {"min_value": np.float32(0), "max_value": np.float32(6)}
        return self.node("ReluMinMax", [x], self.shape(x), params)

    def add(self, x: str, y: str) -> str:
        return self.node("ElementWiseAdd", [x, y], self.shape(x))


def mobilenet_v2(resolution: int = 224, classes: int = 1000, seed: int = 0) -> Model:
    """The classifier: input "image" [1, r, r, 3], output "prob" [1, classes], both float32."""
    b = _Builder("mobilenet_v2", seed)
    x = b.tensor("image", (1, resolution, resolution, 3))
    x = b.relu6(b.conv(x, 32, 3, 2))
    for expansion, channels, repeats, first_stride in BLOCKS:
        for i in range(repeats):
            stride, inner = (first_stride if i == 0 else 1), b.shape(x)[3] * expansion
            y = b.relu6(b.conv(x, inner, 1)) if expansion > 1 else x
            y = b.relu6(b.conv(y, inner, 3, stride, depthwise=True))
            y = b.conv(y, channels, 1)
            x = b.add(x, y) if b.shape(x) == b.shape(y) else y
    x = b.relu6(b.conv(x, 1280, 1))
    n, h, w, c = b.shape(x)
    x = b.node(
        "PoolAvg2d",
        [x],
        (n, 1, 1, c),
        {
            "filter_size": np.array([h, w], np.uint32),
            "stride": np.array([1, 1], np.uint32),
            "pad_amount": np.zeros((2, 2), np.uint32),
        },
    )
    x = b.node("Reshape", [x], (n, c))
    weights = b.weights("classifier", (classes, c), c)
    bias = b.tensor("classifier_bias", (classes,), np.zeros(classes, np.float32))
    x = b.node("FullyConnected", [x, weights, bias], (n, classes))
    b.tensor("prob", (n, classes))
    b.model.nodes.append(Node("prob", "Softmax", [x], ["prob"], {}))
    b.model.inputs, b.model.outputs = ["image"], ["prob"]
    return b.model


def exposure(height: int, width: int) -> Model:
    """Gain for each colour, clipped: input "frame", output "corrected" [1, height, width, 3].

    float32; little arithmetic on much data, where copies cost most.
    """
    b = _Builder("exposure", 0)
    x = b.tensor("frame", (1, height, width, 3))
    gain = b.tensor("gain", (3,), np.array([1.1, 1.0, 1.3], np.float32))
    y = b.node("ElementWiseMultiply", [x, gain], (1, height, width, 3))
    b.tensor("corrected", (1, height, width, 3))
    params: dict[str, object] = {"min_value": np.float32(0), "max_value": np.float32(1)}
    b.model.nodes.append(Node("corrected", "ReluMinMax", [y], ["corrected"], params))
    b.model.inputs, b.model.outputs = ["frame"], ["corrected"]
    return b.model
