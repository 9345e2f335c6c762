"""Small networks as .tflite files: convolutional, depthwise, segmenting and fully connected."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from support.tflite.builder import ModelBuilder

F32, F16 = np.float32, np.float16
SAME, VALID, NONE, RELU6 = 0, 1, 0, 3


class Layers:
    """Adds layers with random weights of a size that keeps signals alive (He et al., 2015)."""

    def __init__(self, shape: tuple[int, ...], seed: int, half: bool = False) -> None:
        self.b = ModelBuilder()
        self.rng = np.random.default_rng(seed)
        self.half = half
        self.shape = shape  # of the last layer's output
        self.x = self.b.input(shape, name="input:0")

    def weights(self, shape: tuple[int, ...], fan_in: int) -> int:
        values = self.rng.standard_normal(shape) * math.sqrt(2 / fan_in)
        if not self.half:
            return self.b.const(values, F32)
        stored = self.b.const(values, F16)
        return self.b.op("DEQUANTIZE", [stored], [(shape, F32)], "DequantizeOptions")[0]

    def conv(self, x: int, channels: int, kernel: int, stride: int, act: int = RELU6) -> int:
        n, h, w, c = self.shape
        weights = self.weights((channels, kernel, kernel, c), kernel * kernel * c)
        bias = self.weights((channels,), 50)
        self.shape = (n, -(-h // stride), -(-w // stride), channels)
        fields = {"padding": SAME, "strideH": stride, "strideW": stride}
        fields |= {"dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": act}
        out = [(self.shape, F32)]
        return self.b.op("CONV_2D", [x, weights, bias], out, "Conv2DOptions", **fields)[0]

    def depthwise(self, x: int, kernel: int, stride: int) -> int:
        n, h, w, c = self.shape
        weights = self.weights((1, kernel, kernel, c), kernel * kernel)
        bias = self.weights((c,), 50)
        self.shape = (n, -(-h // stride), -(-w // stride), c)
        fields = {"padding": SAME, "strideH": stride, "strideW": stride, "depthMultiplier": 1}
        fields |= {"dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": RELU6}
        out, table = [(self.shape, F32)], "DepthwiseConv2DOptions"
        return self.b.op("DEPTHWISE_CONV_2D", [x, weights, bias], out, table, **fields)[0]

    def upscaled(self, x: int, channels: int) -> int:
        """A transposed convolution to twice the size."""
        n, h, w, c = self.shape
        weights, bias = self.weights((channels, 3, 3, c), 9 * c // 4), self.weights((channels,), 50)
        self.shape = (n, 2 * h, 2 * w, channels)
        fields = {"padding": SAME, "strideH": 2, "strideW": 2}
        inputs, out = [self.b.const(self.shape, np.int32), weights, x, bias], [(self.shape, F32)]
        return self.b.op("TRANSPOSE_CONV", inputs, out, "TransposeConvOptions", **fields)[0]

    def resized(self, x: int, height: int, width: int) -> int:
        self.shape = (self.shape[0], height, width, self.shape[3])
        inputs, out = [x, self.b.const([height, width], np.int32)], [(self.shape, F32)]
        fields = {"halfPixelCenters": True}
        return self.b.op("RESIZE_BILINEAR", inputs, out, "ResizeBilinearOptions", **fields)[0]

    def hard_swish(self, x: int) -> int:
        return self.b.op("HARD_SWISH", [x], [(self.shape, F32)], "HardSwishOptions")[0]

    def pool(self, x: int, op: str) -> int:
        n, h, w, c = self.shape
        self.shape = (n, -(-h // 2), -(-w // 2), c)
        fields = {"padding": SAME, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 3}
        return self.b.op(op, [x], [(self.shape, F32)], "Pool2DOptions", **fields)[0]

    def mean(self, x: int) -> int:
        self.shape = (self.shape[0], self.shape[3])
        axes = self.b.const([1, 2], np.int32)
        return self.b.op("MEAN", [x, axes], [(self.shape, F32)], "ReducerOptions")[0]

    def dense(self, x: int, units: int, act: int = NONE) -> int:
        inner = math.prod(self.shape[1:])
        weights, bias = self.weights((units, inner), inner), self.weights((units,), 50)
        self.shape = (self.shape[0], units)
        fields = {"fusedActivationFunction": act}
        out, table = [(self.shape, F32)], "FullyConnectedOptions"
        return self.b.op("FULLY_CONNECTED", [x, weights, bias], out, table, **fields)[0]

    def softmax(self, x: int) -> int:
        return self.b.op("SOFTMAX", [x], [(self.shape, F32)], "SoftmaxOptions", beta=1.0)[0]

    def finish(self, y: int) -> bytes:
        self.b.output(y)
        self.b.signature("serving_default", {"image": self.x}, {"scores": y})
        return self.b.build()


def convolutional() -> tuple[bytes, tuple[int, ...]]:
    """With a residual connection, both poolings and a concatenation."""
    n = Layers((1, 32, 32, 3), 1)
    y = n.pool(n.conv(n.x, 16, 5, 1), "MAX_POOL_2D")
    z = n.conv(n.conv(y, 16, 3, 1), 16, 3, 1, NONE)
    (y,) = n.b.op("ADD", [y, z], [(n.shape, F32)], "AddOptions", fusedActivationFunction=1)
    y = n.pool(y, "AVERAGE_POOL_2D")
    before, kept = n.shape, y
    left = n.conv(kept, 8, 1, 1)
    n.shape = before
    right = n.conv(kept, 24, 3, 1)
    n.shape = (*before[:3], 32)
    parts, out = [left, right], [(n.shape, F32)]
    (y,) = n.b.op("CONCATENATION", parts, out, "ConcatenationOptions", axis=3)
    return n.finish(n.softmax(n.dense(n.mean(n.conv(y, 32, 3, 2)), 10))), (1, 32, 32, 3)


def depthwise() -> tuple[bytes, tuple[int, ...]]:
    """Depthwise separable convolutions (Howard et al., "MobileNets", 2017)."""
    n = Layers((1, 33, 31, 3), 2)
    y = n.conv(n.x, 8, 3, 2)
    for channels, stride in ((16, 1), (32, 2), (32, 1)):
        y = n.conv(n.depthwise(y, 3, stride), channels, 1, 1)
    return n.finish(n.softmax(n.dense(n.mean(y), 10))), (1, 33, 31, 3)


def segmenting() -> tuple[bytes, tuple[int, ...]]:
    """Down in two steps with hard-swish (Howard et al., "MobileNetV3", 2019), up by a transposed
    convolution and a resize, with the finer features added; a class for each pixel."""
    n = Layers((1, 24, 40, 3), 4)
    fine = n.hard_swish(n.conv(n.x, 8, 3, 2, NONE))
    y = n.hard_swish(n.conv(n.depthwise(fine, 3, 2), 16, 1, 1, NONE))
    y = n.upscaled(y, 8)
    (y,) = n.b.op("ADD", [y, fine], [(n.shape, F32)], "AddOptions")
    return n.finish(n.softmax(n.resized(n.conv(y, 4, 1, 1, NONE), 24, 40))), (1, 24, 40, 3)


def dense() -> tuple[bytes, tuple[int, ...]]:
    n = Layers((4, 28, 28), 3)
    y = n.dense(n.x, 128, RELU6)
    y = n.dense(y, 64, RELU6)
    return n.finish(n.softmax(n.dense(y, 10))), (4, 28, 28)


NETWORKS: dict[str, Callable[[], tuple[bytes, tuple[int, ...]]]] = {
    "convolutional": convolutional,
    "depthwise": depthwise,
    "dense": dense,
}
