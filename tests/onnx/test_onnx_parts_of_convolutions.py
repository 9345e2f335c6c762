"""Channels beside convolutions are neither joined nor taken apart by nodes of their own where the
convolutions can be arranged for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import random, steps_and_result
from support.onnx.models import GraphMaker

CHANNELS, HEIGHT, WIDTH = 64, 9, 7


class Net(GraphMaker):
    def __init__(self) -> None:
        super().__init__(1)
        self("MaxPool", "image", kernel_shape=[3, 3], pads=[1] * 4)
        self.nodes[0].output[0] = "x"
        self.width = {"x": CHANNELS}

    def split(self, x: str, *sizes: int) -> list[str]:
        self("Split", x, self.const(np.array(sizes)), outputs=len(sizes), axis=1)
        names = list(self.nodes[-1].output)
        self.width |= dict(zip(names, sizes, strict=True))
        return names

    def conv(
        self, x: str, cout: int, k: int = 1, groups: int = 1, stride: int = 1, bias: bool = True
    ) -> str:
        w = self.weight(cout, self.width[x] // groups, k, k)
        more = [self.weight(cout)] if bias else []
        steps = {"group": groups, "strides": [stride] * 2, "pads": [k // 2] * 4}
        y = self("Conv", x, w, *more, **steps)
        self.width[y] = cout
        return y

    def apart(self, x: str, k: int = 3) -> str:  # channel by channel
        return self.conv(x, self.width[x], k, groups=self.width[x])

    def join(self, *parts: str) -> str:
        y = self("Concat", *parts, axis=1)
        self.width[y] = sum(self.width[p] for p in parts)
        return y

    def relu(self, x: str) -> str:
        y = self("Relu", x)
        self.width[y] = self.width[x]
        return y


def convolved(net: Net, groups: int = 2, cout: int = 24, **attrs: int | bool) -> list[str]:
    parts = net.split("x", *[CHANNELS // groups] * groups)
    return [net.conv(p, cout, **attrs) for p in parts]


Build = Callable[[Net], str]

ONE: dict[str, Build] = {
    "of two parts": lambda n: n.join(*convolved(n)),
    "of eight narrow parts": lambda n: n.join(*convolved(n, 8, 8, k=3)),
    "of a few channels each": lambda n: n.join(
        *(n.conv(p, 12) for p in n.split("x", 16, 16, 16, 16))
    ),
    "with strides": lambda n: n.join(*convolved(n, k=3, stride=2)),
    "without a bias": lambda n: n.join(*convolved(n, bias=False)),
    "in groups themselves": lambda n: n.join(*convolved(n, groups=2, cout=32)),
    "each channel by itself": lambda n: n.join(*map(n.apart, n.split("x", 32, 32))),
    "with an activation each": lambda n: n.join(*map(n.relu, convolved(n))),
    "with one of all": lambda n: n.relu(n.join(*convolved(n))),
    "with something added": lambda n: n("Add", "x", n.join(*convolved(n, cout=CHANNELS // 2))),
}
PASSED_ON: dict[str, Build] = {
    "as they were": lambda n: n(
        "Mul",
        *map(n.apart, n.split(n.relu(n.join(n.conv("x", 32), n.conv("x", 32, 3))), 32, 32)),
    ),
    "in halves": lambda n: n(
        "Sum",
        *map(n.apart, n.split(n.join(n.conv("x", 64), n.conv("x", 64)), 32, 32, 32, 32)),
    ),
    "of one convolution": lambda n: n("Mul", *map(n.relu, n.split(n.conv("x", 96), 48, 48))),
    "of one with an activation": lambda n: n(
        "Mul", *map(n.apart, n.split(n.relu(n.conv("x", 96)), 48, 48))
    ),
}
KEPT: dict[str, Build] = {
    "in another order": lambda n: n.join(*reversed(convolved(n))),
    "of different widths": lambda n: n.join(
        *(n.conv(p, 24) for p in n.split("x", CHANNELS - 8, 8))
    ),
    "of different windows": lambda n: (lambda p: n.join(n.conv(p[0], 8), n.conv(p[1], 8, 3)))(
        n.split("x", 32, 32)
    ),
    "of which one is clamped": lambda n: (lambda p: n.join(n.relu(p[0]), p[1]))(convolved(n)),
    "with another reader": lambda n: (lambda p: n("Mul", n.join(*p), n.join(p[0], p[0])))(
        convolved(n)
    ),
    "not all parts": lambda n: (lambda p: n.join(n.conv(p[0], 8), n.conv(p[1], 8)))(
        n.split("x", 24, 24, 16)
    ),
    "along the rows": lambda n: n("Concat", *(n.conv(p, 8) for p in n.split("x", 32, 32)), axis=2),
    "narrow parts of one": lambda n: n("Mul", *n.split(n.conv("x", 8), 4, 4)),
    "parts that leave tiles unused": lambda n: n("Mul", *n.split(n.conv("x", 80, 3), 40, 40)),
    "parts that straddle": lambda n: n(
        "Concat",
        *map(n.apart, n.split(n.join(n.conv("x", 30), n.conv("x", 30, 3)), 20, 20, 20)),
        axis=2,
    ),
}


def run(build: Build, precision: str = "float32") -> tuple[list[str], np.ndarray, np.ndarray]:
    net = Net()
    y = build(net)
    shape = (onnx.TensorProto.FLOAT, (2, CHANNELS, HEIGHT, WIDTH))
    proto = net.model({"image": shape}, {"y": net("MaxPool", y, kernel_shape=[1, 1])}, 17)
    ops, found, expected = steps_and_result(proto, {"image": random(1, *shape[1])}, precision)
    wanted = ("onv", "lement", "Concat", "Split")
    return [op for op in ops if any(w in op for w in wanted)], found, expected


@pytest.mark.parametrize("form", ONE)
def test_convolutions_of_parts_that_are_joined_are_one_in_groups(form: str) -> None:
    steps, found, expected = run(ONE[form])
    assert len(steps) == 1, steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", PASSED_ON)
def test_what_is_joined_and_taken_apart_again_is_not_moved(form: str) -> None:
    steps, found, expected = run(PASSED_ON[form])
    assert "Concat" not in steps
    assert "Split" not in steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", KEPT)
def test_parts_that_do_not_fit_stay_apart(form: str) -> None:
    steps, found, expected = run(KEPT[form])
    assert len(steps) > 1, steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ONE)
def test_in_sixteen_bits_they_are_one_too(form: str) -> None:
    steps, found, expected = run(ONE[form], "bfloat16")
    assert "Concat" not in steps
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-2 * np.abs(expected).max())


@pytest.mark.parametrize("form", [ONE["of two parts"], PASSED_ON["of one convolution"]])
def test_convolutions_that_are_kept_in_floats_are_so_in_parts(form: Build) -> None:
    net = Net()
    shape = (onnx.TensorProto.FLOAT, (2, CHANNELS, HEIGHT, WIDTH))
    model = importer.load(net.model({"image": shape}, {"y": form(net)}, 17))
    image = random(1, *shape[1])
    every = [n.name for n in model.nodes]
    with qnnrt.Session(model, backend="cpu") as session:
        wanted = session.run({"image": image})["y"].copy()
    kept = {"float32_nodes": every}
    with qnnrt.Session(model, backend="cpu", precision="bfloat16", options=kept) as session:
        found = session.run({"image": image})["y"]
    # Sums of groups are added up in another order.
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
