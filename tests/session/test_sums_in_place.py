"""What a product adds to its result: the result lies where that was, if nobody reads it later."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor

F32 = np.dtype(np.float32)
IMAGE = (1, 14, 14, 64)


class Net:
    """Products of random weights whose results are added to what was there, one after another."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(7)
        self.shape = shape
        self.tensors = {"x": Tensor("x", shape, F32)}
        self.nodes: list[Node] = []

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.tensors)}"
        scale = np.sqrt(np.prod(shape[:-1]))
        value = (self.rng.standard_normal(shape) / scale).astype(np.float32)
        self.tensors[name] = Tensor(name, shape, F32, value)
        return name

    def add(self, op: str, reads: list[str], **params: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.tensors[name] = Tensor(name, self.shape, F32)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, reads, [name], params))
        return name

    def product(self, op: str, x: str) -> str:
        c = self.shape[-1]
        if op == "FullyConnected":
            return self.add(op, [x, self.constant(c, c)])
        two = np.array([1, 1], np.uint32)
        params: dict[str, Any] = {"stride": two, "pad_amount": np.ones((2, 2), np.uint32)}
        if op == "DepthWiseConv2d":
            return self.add(op, [x, self.constant(3, 3, 1, c), self.constant(c)], **params)
        if op == "TransposeConv2d":
            return self.add(op, [x, self.constant(3, 3, c, c), self.constant(c)], **params)
        side = 3 if op == "Conv2d 3x3" else 1
        if side == 1:
            params["pad_amount"] = np.zeros((2, 2), np.uint32)
        return self.add("Conv2d", [x, self.constant(side, side, c, c), self.constant(c)], **params)

    def sum(self, a: str, b: str) -> str:
        return self.add("ElementWiseAdd", [a, b])

    def run(self, output: str, threads: int = 1, **options: Any) -> tuple[dict, np.ndarray]:
        model = Model("sums", self.tensors, self.nodes, ["x"], [output])
        x = np.random.default_rng(3).standard_normal(self.shape).astype(np.float32)
        with qnnrt.Session(model, threads=threads, **options) as session:
            plan = json.loads(session.graph.describe())
            session.run({"x": x})  # what a run leaves behind is not in the way of the next one
            return plan, session.run({"x": x})[output]


OPS = ["Conv2d", "Conv2d 3x3", "DepthWiseConv2d", "TransposeConv2d", "FullyConnected"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", OPS)
def test_sums_in_place_are_those_of_nodes_of_their_own(
    op: str, precision: str, threads: int
) -> None:
    """Blocks that pass their input by, an activation before the sum, behind it, and none."""
    net = Net((150, 96) if op == "FullyConnected" else IMAGE)
    x = net.product(op, "x")
    for kind in ("", "behind", "before", "", "behind"):
        y = net.product(op, net.add("ElementWiseAbs", [x]))
        if kind == "before":
            y = net.add("Relu", [y])
        x = net.sum(y, x)
        if kind == "behind":
            x = net.add("Relu", [x])
    output = net.product(op, x)
    _, found = net.run(output, threads, precision=precision)
    _, expected = net.run(output, 1, options={"kernels": "portable"})
    bound = 1e-5 if precision == "float32" else 0.02
    assert np.abs(found - expected).max() <= bound * np.abs(expected).max()


def test_a_convolution_writes_over_what_it_adds() -> None:
    net = Net(IMAGE)
    x = net.product("Conv2d", "x")
    x = net.sum(net.product("Conv2d", net.product("Conv2d 3x3", x)), x)
    x = net.add("Relu", [net.sum(net.product("Conv2d", net.product("Conv2d 3x3", x)), x)])
    plan, _ = net.run(net.product("Conv2d", x))
    if not any(step["kernel"].startswith("onednn") for step in plan["steps"]):
        pytest.skip("oneDNN is not there")
    names = [{i["name"], *i.get("shared", [])} for i in plan["arena"]["items"]]
    assert any({"t0", "t3", "t7"} <= each for each in names)


def test_what_is_read_later_is_not_written_over() -> None:
    net = Net(IMAGE)
    x = net.product("Conv2d", "x")
    y = net.sum(net.product("Conv2d", net.product("Conv2d 3x3", x)), x)
    output = net.sum(net.product("Conv2d", y), net.add("ElementWiseNeg", [x]))
    _, found = net.run(output)
    _, expected = net.run(output, options={"kernels": "portable"})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
