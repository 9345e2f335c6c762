"""Branches that convolve one tensor and are added up again are one convolution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import random, steps_and_result
from support.onnx.models import GraphMaker

CHANNELS, HEIGHT, WIDTH = 12, 9, 7


class Block(GraphMaker):
    """`groups` and `stride` are those of all its convolutions."""

    def __init__(self, groups: int = 1, stride: int = 1) -> None:
        super().__init__(1)
        self.groups, self.stride = groups, stride

    def conv(self, x: str, *taps: int, dilation: int = 1) -> str:
        around = [t // 2 * dilation for t in taps] * 2
        w = self.weight(CHANNELS, CHANNELS // self.groups, *taps)
        size = {"kernel_shape": list(taps), "pads": around, "dilations": [dilation] * 2}
        steps = {"group": self.groups, "strides": [self.stride] * 2}
        return self.norm(self("Conv", x, w, self.weight(CHANNELS), **size, **steps))

    def norm(self, x: str) -> str:
        scale, shift, mean = (self.weight(CHANNELS) for _ in range(3))
        variance = self.const(np.linspace(0.5, 2, CHANNELS, dtype=np.float32))
        return self("BatchNormalization", x, scale, shift, mean, variance)

    def pool(self, x: str) -> str:
        return self("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)

    def scaled(self, x: str) -> str:
        return self("Mul", x, self.weight(CHANNELS, 1, 1))


Build = Callable[[Block], str]

MERGED: dict[str, Build] = {
    "a smaller window": lambda b: b("Add", b.conv("x", 1, 1), b.conv("x", 3, 3)),
    "rows within a window": lambda b: b("Add", b.conv("x", 3, 5), b.conv("x", 1, 5)),
    "of one size": lambda b: b("Add", b.conv("x", 3, 3), b.conv("x", 3, 3)),
    "three": lambda b: b("Add", b("Add", b.conv("x", 1, 1), b.conv("x", 3, 3)), b.conv("x", 5, 5)),
    "a difference": lambda b: b("Sub", b.conv("x", 1, 1), b.conv("x", 3, 3)),
    "the center of a dilated window": lambda b: b(
        "Add", b.conv("x", 3, 3, dilation=2), b.conv("x", 1, 1)
    ),
}
SKIPPING: dict[str, Build] = {
    "the tensor itself": lambda b: b("Add", "x", b.conv("x", 3, 3)),
    "its norm": lambda b: b("Add", b.norm("x"), b.conv("x", 3, 3)),
    "less of it": lambda b: (lambda x: b("Sub", b.conv(x, 3, 3), b.scaled(x)))(b.pool("x")),
    "less of the convolution": lambda b: b("Sub", "x", b.conv("x", 3, 3)),
    "all kinds": lambda b: b("Add", b("Add", b.conv("x", 1, 1), b.norm("x")), b.conv("x", 3, 3)),
    "a scaled difference beside it": lambda b: b(
        "Add", "x", b.scaled(b("Sub", b.conv("x", 3, 3), b.norm("x")))
    ),
}
KEPT: dict[str, Build] = {
    "a window that leaves the other one": lambda b: b("Add", b.conv("x", 1, 3), b.conv("x", 3, 1)),
    "between the taps": lambda b: b("Add", b.conv("x", 3, 3, dilation=2), b.conv("x", 3, 3)),
    "of another tensor": lambda b: b("Add", b.conv("x", 3, 3), b.conv(b("Relu", "x"), 3, 3)),
    "with another reader": lambda b: (lambda y: b("Mul", b("Add", y, b.conv("x", 3, 3)), y))(
        b("Identity", b.conv("x", 1, 1))
    ),
}


def run(
    block: Block, y: str, precision: str = "float32"
) -> tuple[list[str], np.ndarray, np.ndarray]:
    shape = (onnx.TensorProto.FLOAT, (2, CHANNELS, HEIGHT, WIDTH))
    proto = block.model({"x": shape}, {"y": y}, 17)
    ops, found, expected = steps_and_result(proto, {"x": random(1, *shape[1])}, precision)
    return [op for op in ops if "onv" in op or "lement" in op], found, expected


@pytest.mark.parametrize("groups", [1, 3, CHANNELS])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("form", MERGED)
def test_sums_of_convolutions_of_one_tensor_are_one(form: str, stride: int, groups: int) -> None:
    block = Block(groups, stride)
    steps, found, expected = run(block, MERGED[form](block))
    assert len(steps) == 1, steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 3, CHANNELS])
@pytest.mark.parametrize("form", SKIPPING)
def test_what_skips_a_convolution_is_part_of_its_weights(form: str, groups: int) -> None:
    block = Block(groups)
    steps, found, expected = run(block, SKIPPING[form](block))
    assert len(steps) == 1, steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_in_sixteen_bits_what_skips_a_convolution_keeps_its_digits() -> None:
    block = Block(CHANNELS)
    y = block("Add", "x", block("Mul", block.conv("x", 3, 3), block.const(1e-3)))
    _, merged, expected = run(block, y, "bfloat16")
    # The weights alone have some 2^-9 of a thousandth; beside a one they would have 2^-9.
    x = random(1, 2, CHANNELS, HEIGHT, WIDTH)
    np.testing.assert_allclose(merged - x, expected - x, atol=2e-2 * np.abs(x).max())


@pytest.mark.parametrize("form", KEPT)
def test_branches_that_are_no_part_of_each_other_stay(form: str) -> None:
    block = Block()
    steps, found, expected = run(block, KEPT[form](block))
    assert len(steps) > 1, steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_branches_of_which_one_is_a_result_stay() -> None:
    block = Block()
    part = block.conv("x", 1, 1)
    y = block("Add", part, block.conv("x", 3, 3))
    shape = (onnx.TensorProto.FLOAT, (2, CHANNELS, HEIGHT, WIDTH))
    proto = block.model({"x": shape}, {"y": y, "part": part}, 17)
    x = random(1, *shape[1])
    expected = ReferenceEvaluator(proto).run(None, {"x": x})
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        found = session.run({"x": x})
    for got, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
