"""Shorthand for networks of single operators, as converters write them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import qnnrt
from qnnrt.importers import tflite as importer
from support.tflite.builder import ModelBuilder
from support.tflite.reference import close, reference

F32 = np.float32


class Blocks:
    """A graph of float32 tensors; weights are random, of such a size that values keep theirs."""

    def __init__(self, *shapes: Sequence[int]) -> None:
        self.b = ModelBuilder()
        self.rng = np.random.default_rng(0)
        self.shapes = shapes
        self.inputs = [self.b.input(shape) for shape in shapes]

    def const(self, values: Any, dtype: Any = F32) -> int:
        return self.b.const(np.asarray(values, dtype))

    def ints(self, *values: Any) -> int:
        return self.const(values, np.int32)

    def weights(self, *shape: int, inner: int = 1) -> int:
        return self.const(self.rng.uniform(-1, 1, shape) * math.sqrt(3 / inner))

    def __call__(self, kind: str, *inputs: int, options: str | None = None, **fields: Any) -> int:
        version = fields.pop("version", 1)
        made = self.b.op(kind, list(inputs), [((), F32)], options, version=version, **fields)
        return made[0]

    def parts(self, kind: str, count: int, *inputs: int, options: str, **fields: Any) -> list[int]:
        return self.b.op(kind, list(inputs), [((), F32)] * count, options, **fields)

    def add(self, a: int, b: int, act: int = 0) -> int:
        return self("ADD", a, b, options="AddOptions", fusedActivationFunction=act)

    def sub(self, a: int, b: int) -> int:
        return self("SUB", a, b, options="SubOptions")

    def mul(self, a: int, b: int) -> int:
        return self("MUL", a, b, options="MulOptions")

    def div(self, a: int, b: int) -> int:
        return self("DIV", a, b, options="DivOptions")

    def times(self, x: int, factor: float) -> int:
        return self.mul(x, self.const(factor))

    def reduce(self, kind: str, x: int, *axes: int, keep: bool = True) -> int:
        return self(kind, x, self.ints(*axes), options="ReducerOptions", keepDims=keep)

    def mean(self, x: int, *axes: int, keep: bool = True) -> int:
        return self.reduce("MEAN", x, *axes, keep=keep)

    def reshape(self, x: int, *shape: int) -> int:
        return self("RESHAPE", x, self.ints(*shape))

    def transpose(self, x: int, *perm: int) -> int:
        return self("TRANSPOSE", x, self.ints(*perm))

    def dense(self, x: int, inner: int, units: int, *, bias: bool = True, act: int = 0) -> int:
        weights = self.weights(units, inner, inner=inner)
        return self(
            "FULLY_CONNECTED", x, weights, self.weights(units) if bias else -1,
            options="FullyConnectedOptions", keepNumDims=True, fusedActivationFunction=act,
        )  # fmt: skip

    def conv(
        self, x: int, inner: int, channels: int, kernel: int = 1, *, stride: int = 1, act: int = 0,
        valid: bool = False,
    ) -> int:  # fmt: skip
        weights = self.weights(channels, kernel, kernel, inner, inner=kernel * kernel * inner)
        return self(
            "CONV_2D", x, weights, self.weights(channels), options="Conv2DOptions",
            padding=int(valid), strideH=stride, strideW=stride, dilationHFactor=1,
            dilationWFactor=1, fusedActivationFunction=act,
        )  # fmt: skip

    def depthwise(self, x: int, channels: int, kernel: int, *, stride: int = 1) -> int:
        weights = self.weights(1, kernel, kernel, channels, inner=kernel * kernel)
        return self(
            "DEPTHWISE_CONV_2D", x, weights, self.weights(channels),
            options="DepthwiseConv2DOptions", padding=0, strideH=stride, strideW=stride,
            depthMultiplier=1, dilationHFactor=1, dilationWFactor=1,
        )  # fmt: skip

    def product(self, a: int, b: int, *, adj_y: bool = False) -> int:
        return self("BATCH_MATMUL", a, b, options="BatchMatMulOptions", adjX=False, adjY=adj_y)

    def softmax(self, x: int) -> int:
        return self("SOFTMAX", x, options="SoftmaxOptions", beta=1.0)

    def finish(self, *outputs: int) -> tuple[bytes, list[np.ndarray]]:
        """The file, and an array for each input."""
        self.b.output(*outputs)
        rng = np.random.default_rng(1)
        return self.b.build(), [rng.uniform(-2, 2, shape).astype(F32) for shape in self.shapes]


def steps(
    data: bytes, feeds: Sequence[np.ndarray], rtol: float = 1e-5, *, exact: bool = True
) -> list[str]:
    """The steps of the finalized graph, each with what was fused into it: "Conv2d+Relu".

    The results are compared with those of TFLite's own kernels: floats within `rtol`, fixed-point
    numbers that are not `exact` within a hundredth of their range.
    """
    model = importer.load(data)
    with qnnrt.Session(model, backend="cpu", threads=1) as session:
        plan = json.loads(session.graph.describe())
        given = {
            name: array.reshape(model.tensors[name].shape)
            for name, array in zip(model.inputs, feeds, strict=True)
        }
        found = session.run(given)
    for name, wanted in zip(model.outputs, reference(data, feeds), strict=True):
        given = found[name].reshape(wanted.shape)
        if exact:
            close(given, wanted, rtol)
        else:
            most = (np.iinfo(wanted.dtype).max + 1) / 50
            assert np.abs(given.astype(np.int64) - wanted).max() <= most
    return ["+".join([step["op"], *step["fused"]]) for step in plan["steps"]]
