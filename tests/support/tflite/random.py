"""Random networks as .tflite files: every step is an operator on results that are there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

from support.tflite.builder import ModelBuilder

F32, I32 = np.float32, np.int32
Shape = tuple[int, ...]
UNARY = ("RELU", "TANH", "LOGISTIC", "ABS", "NEG", "RELU6", "SIN")


class Network:
    """Tensors that are there, and steps that add more."""

    def __init__(self, seed: int, unary: tuple[str, ...]) -> None:
        self.unaries = unary
        self.b = ModelBuilder()
        self.chance = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[int, Shape] = {}
        for i in range(self.chance.choice((1, 1, 2))):
            shape = (1, self.chance.randint(4, 9), self.chance.randint(4, 9), 4)
            self.shapes[self.b.input(shape, name=f"x{i}")] = shape
        self.inputs = list(self.shapes.values())
        self.read: set[int] = set()

    def pick(self, rank: int = 0) -> int:
        """A tensor (of `rank`, when there is one), newer ones more often."""
        found = [t for t, s in self.shapes.items() if not rank or len(s) == rank]
        tensor = self.chance.choice(found[-4:] or list(self.shapes))
        self.read.add(tensor)
        return tensor

    def add(self, kind: str, inputs: list[int], shape: Shape, options: str | None = None,
            **fields: object) -> int:  # fmt: skip
        (made,) = self.b.op(kind, inputs, [(shape, F32)], options, **fields)
        self.shapes[made] = shape
        return made

    def weights(self, *shape: int) -> int:
        return self.b.const(self.rng.uniform(-0.5, 0.5, shape).astype(F32))

    def ints(self, *values: object) -> int:
        return self.b.const(np.array(values, I32))

    # ---- steps

    def conv(self) -> None:
        x = self.pick(4)
        if len(self.shapes[x]) != 4:
            return
        n, h, w, c = self.shapes[x]
        stride, k, out = self.chance.choice((1, 2)), self.chance.choice((1, 3)), 4
        size = (n, -(-h // stride), -(-w // stride))
        fields = {"padding": 0, "strideH": stride, "strideW": stride, "dilationHFactor": 1}
        fields |= {"dilationWFactor": 1, "fusedActivationFunction": self.chance.choice((0, 1, 3))}
        if self.chance.random() < 0.5:
            inputs = [x, self.weights(out, k, k, c), self.weights(out)]
            self.add("CONV_2D", inputs, (*size, out), "Conv2DOptions", **fields)
        else:
            inputs = [x, self.weights(1, k, k, c), self.weights(c)]
            fields["depthMultiplier"] = 1
            self.add("DEPTHWISE_CONV_2D", inputs, (*size, c), "DepthwiseConv2DOptions", **fields)

    def pool(self) -> None:
        x = self.pick(4)
        if len(self.shapes[x]) != 4:
            return
        n, h, w, c = self.shapes[x]
        fields = {"padding": 0, "strideH": 2, "strideW": 1, "filterHeight": 2, "filterWidth": 3}
        kind = self.chance.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
        self.add(kind, [x], (n, -(-h // 2), w, c), "Pool2DOptions", **fields)

    def unary(self) -> None:
        x = self.pick()
        kind = self.chance.choice(self.unaries)
        self.add(kind, [x], self.shapes[x])

    def binary(self) -> None:
        x = self.pick()
        same = [t for t, s in self.shapes.items() if s == self.shapes[x]]
        other = self.chance.choice([*same, self.weights(self.shapes[x][-1]), self.weights(1)])
        self.read.add(other)
        pair = [x, other] if self.chance.random() < 0.5 else [other, x]
        kind = self.chance.choice(("Add", "Mul", "Sub"))
        self.add(kind.upper(), pair, self.shapes[x], f"{kind}Options")

    def reshape(self) -> None:
        x = self.pick()
        size = math.prod(self.shapes[x])
        first = self.chance.choice([d for d in range(1, size + 1) if size % d == 0])
        shape = self.chance.choice(((first, size // first), (1, first, size // first)))
        self.add("RESHAPE", [x, self.ints(*shape)], shape, "ReshapeOptions")

    def transpose(self) -> None:
        x = self.pick()
        perm = list(range(len(self.shapes[x])))
        self.chance.shuffle(perm)
        shape = tuple(self.shapes[x][p] for p in perm)
        self.add("TRANSPOSE", [x, self.ints(*perm)], shape, "TransposeOptions")

    def join(self) -> None:
        x = self.pick()
        axis = self.chance.randrange(len(self.shapes[x]))
        shape = list(self.shapes[x])
        shape[axis] *= 2
        self.add("CONCATENATION", [x, x], tuple(shape), "ConcatenationOptions", axis=axis)

    def cut(self) -> None:
        x = self.pick()
        begin = [self.chance.randrange(min(d, 2)) for d in self.shapes[x]]
        size = [d - b for d, b in zip(self.shapes[x], begin, strict=True)]
        self.add("SLICE", [x, self.ints(*begin), self.ints(*size)], tuple(size), "SliceOptions")

    def pad(self) -> None:
        x = self.pick()
        pads = [[self.chance.randrange(2), self.chance.randrange(2)] for _ in self.shapes[x]]
        shape = tuple(d + sum(p) for d, p in zip(self.shapes[x], pads, strict=True))
        self.add("PAD", [x, self.ints(*pads)], shape, "PadOptions")

    def mean(self) -> None:
        x = self.pick()
        axis = self.chance.randrange(len(self.shapes[x]))
        shape = tuple(1 if i == axis else d for i, d in enumerate(self.shapes[x]))
        self.add("MEAN", [x, self.ints(axis)], shape, "ReducerOptions", keepDims=True)

    def dense(self) -> None:
        x = self.pick()
        inner = self.shapes[x][-1]
        shape = (math.prod(self.shapes[x]) // inner, 5)
        inputs = [x, self.weights(5, inner), self.weights(5)]
        self.add("FULLY_CONNECTED", inputs, shape, "FullyConnectedOptions")

    def softmax(self) -> None:
        x = self.pick()
        self.add("SOFTMAX", [x], self.shapes[x], "SoftmaxOptions", beta=1.0)


def random_network(seed: int, fixed: bool = False) -> tuple[bytes, list[Shape]]:
    """A file, and the shapes of its inputs. What nothing reads is an output.

    `fixed`: only operators that have any encoding in a quantized file, and kernels for it.
    """
    n = Network(seed, ("RELU", "ABS", "RELU6", "ELU") if fixed else UNARY)
    steps: list[Callable[[], None]] = [
        n.conv, n.conv, n.pool, n.unary, n.unary, n.binary, n.binary, n.reshape, n.transpose,
        n.join, n.cut, n.pad, n.mean, n.dense, n.softmax,
    ]  # fmt: skip
    if fixed:
        steps.pop()
    for _ in range(n.chance.randint(6, 16)):
        if max(math.prod(s) for s in n.shapes.values()) < 20_000:
            n.chance.choice(steps)()
    n.b.output(*(t for t in n.shapes if t not in n.read and t not in n.b.graph.inputs))
    if not n.b.graph.outputs:
        n.b.output(*list(n.shapes)[-1:])
    return n.b.build(), n.inputs
