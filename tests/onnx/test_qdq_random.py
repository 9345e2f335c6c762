"""Random quantized graphs: on both sets of kernels and in numpy what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from qnnrt.importers import onnx as importer
from support.quantizing import KERNELS, Graph, codes, run
from support.reference import run as run_in_numpy
from zoo.quantizing import reference

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

Shape = tuple[int, ...]
SHAPE = (2, 4, 6, 6)


class Random:
    """A graph that grows by one operation at a time, on any tensor that is there."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.g = Graph(17)
        first = self.g.qdq("x", 1 / 32, 128)
        self.shapes: dict[str, Shape] = {first: SHAPE}
        self.made: list[str] = []

    def pick(self, shape: Shape | None = None) -> str:
        fitting = [n for n, s in self.shapes.items() if shape in (None, s)]
        return fitting[self.rng.integers(len(fitting))]

    def requantized(self, x: str) -> str:
        dtype = (np.uint8, np.int8)[self.rng.integers(2)]
        least = int(np.iinfo(dtype).min)
        zero = least + int(self.rng.choice([0, self.rng.integers(100, 156)]))
        return self.g.qdq(x, 2.0 ** -int(self.rng.integers(3, 6)), zero, dtype)

    def grow(self) -> None:
        x = self.pick()
        step = STEPS[self.rng.integers(len(STEPS))]
        found = step(self, x, self.shapes[x])
        if found is None or np.prod(found[1]) > 3000:
            return
        y, shape = found
        if self.rng.random() < 0.75:  # otherwise a float between two operations
            y = self.requantized(y)
        self.shapes[y] = shape
        self.made.append(y)

    def proto(self) -> onnx.ModelProto:
        while len(self.made) < 8:
            self.grow()
        return self.g.proto({"x": SHAPE}, self.made[-1 : -1 - int(self.rng.integers(1, 4)) : -1])


Found = tuple[str, Shape] | None


def convolution(r: Random, x: str, s: Shape) -> Found:
    if len(s) != 4:
        return None
    count = int(r.rng.integers(1, 7))
    w = r.g.weights(codes(count, s[1], 3, 3), np.linspace(0.5, 1, count) / 300)
    return r.g.op("Conv", [x, w], pads=[1] * 4), (s[0], count, *s[2:])


def product(r: Random, x: str, s: Shape) -> Found:
    scale = r.rng.choice([np.linspace(0.5, 2, 5), np.ones(5)]) / 500
    return r.g.op("MatMul", [x, r.g.weights(codes(s[-1], 5), scale, axis=1)]), (*s[:-1], 5)


def pool(r: Random, x: str, s: Shape) -> Found:
    kind = str(r.rng.choice(["MaxPool", "AveragePool"]))
    return None if len(s) != 4 else (r.g.op(kind, [x], kernel_shape=[2, 2], pads=[1, 1, 0, 0]), s)


def function(r: Random, x: str, s: Shape) -> Found:
    return r.g.op(str(r.rng.choice(["Relu", "Sigmoid", "Softmax"])), [x]), s


def clip(r: Random, x: str, s: Shape) -> Found:
    ends = [r.g.const(np.float32(v)) for v in (-1, 3 * r.rng.random())]
    return r.g.op("Clip", [x, *ends]), s


def arithmetic(r: Random, x: str, s: Shape) -> Found:
    if r.rng.random() < 0.5:
        return r.g.op("Mul", [x, r.g.const(np.float32(r.rng.choice([0.5, -1.5])))]), s
    return r.g.op("Add", [x, r.pick(s)]), s


def concat(r: Random, x: str, s: Shape) -> Found:
    return r.g.op("Concat", [x, r.pick(s)], axis=-1), (*s[:-1], 2 * s[-1])


def split(r: Random, x: str, s: Shape) -> Found:
    if s[-1] % 2:
        return None
    first = r.g.op("Split", [x], count=2, axis=-1)
    half = (*s[:-1], s[-1] // 2)
    r.shapes |= dict.fromkeys(r.g.nodes[-1].output, half)
    return first, half


def transpose(r: Random, x: str, s: Shape) -> Found:
    perm = r.rng.permutation(len(s)).tolist()
    return r.g.op("Transpose", [x], perm=perm), tuple(s[i] for i in perm)


def reshape(r: Random, x: str, s: Shape) -> Found:
    shape = (s[0], int(np.prod(s[1:])))
    return r.g.op("Reshape", [x, r.g.const(np.array(shape))]), shape


def cut(r: Random, x: str, s: Shape) -> Found:
    axis = int(r.rng.integers(len(s)))
    if s[axis] == 1:
        return None
    ends = [r.g.const(np.array([v])) for v in (1, s[axis], axis)]
    return r.g.op("Slice", [x, *ends]), tuple(d - (i == axis) for i, d in enumerate(s))


def pad(r: Random, x: str, s: Shape) -> Found:
    amounts = np.eye(1, 2 * len(s), len(s) - 1, np.int64)[0]
    value = r.g.const(np.float32(r.rng.choice([0, 0.3])))
    return r.g.op("Pad", [x, r.g.const(amounts), value]), (*s[:-1], s[-1] + 1)


STEPS: list[Callable[[Random, str, Shape], Found]] = [
    convolution, product, pool, function, clip, arithmetic, concat, split, transpose, reshape, cut,
    pad,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_quantized_graphs(seed: int) -> None:
    r = Random(seed)
    proto = r.proto()
    feeds = {"x": r.rng.standard_normal(SHAPE, np.float32)}
    wanted = reference(proto, feeds)
    model = importer.load(proto)
    found = {kernels: run(model, feeds, kernels) for kernels in KERNELS}
    plain = run_in_numpy(model, feeds)
    found["numpy"] = [plain[name] for name in model.outputs]
    for kind, outputs in found.items():
        for y, ref in zip(outputs, wanted, strict=True):
            # A rounding that falls the other way is a step of 1/8 at most, and seldom.
            apart = np.abs(y.reshape(ref.shape) - ref)
            assert np.mean(apart > 1e-4) <= 0.05, kind
            assert np.mean(apart > 0.3) <= 0.01, kind
