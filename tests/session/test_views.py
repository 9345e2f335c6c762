"""Concat, Split and slices whose parts lie in the whole: nothing is copied for them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor

F32 = np.dtype(np.float32)


class Net:
    """A graph in the making: each call adds a node and gives the name of its result."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.tensors = {name: Tensor(name, shape, F32) for name, shape in inputs.items()}
        self.nodes: list[Node] = []
        self.inputs = list(inputs)

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, value.shape, F32, value.astype(np.float32))
        return name

    def add(self, op: str, reads: list[str], *shapes: tuple[int, ...], **params: Any) -> Any:
        names = [f"t{len(self.nodes)}.{i}" for i in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            self.tensors[name] = Tensor(name, shape, F32)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, reads, names, params))
        return names if len(names) > 1 else names[0]

    def abs(self, x: str) -> str:
        return self.add("ElementWiseAbs", [x], self.tensors[x].shape)

    def neg(self, x: str) -> str:
        return self.add("ElementWiseNeg", [x], self.tensors[x].shape)

    def concat(self, parts: list[str], axis: int) -> str:
        shape = list(self.tensors[parts[0]].shape)
        shape[axis] = sum(self.tensors[p].shape[axis] for p in parts)
        return self.add("Concat", parts, tuple(shape), axis=np.int32(axis))

    def run(self, *outputs: str) -> tuple[Counter[str], list[np.ndarray], dict[str, np.ndarray]]:
        """How many steps each op has, the results, and what went in."""
        model = Model("views", self.tensors, self.nodes, self.inputs, list(outputs))
        rng = np.random.default_rng(5)
        feeds = {
            name: rng.standard_normal(self.tensors[name].shape).astype(np.float32)
            for name in self.inputs
        }
        with qnnrt.Session(model, threads=1) as session:
            plan = json.loads(session.graph.describe())
            session.run(feeds)  # what a run leaves behind is not in the way of the next one
            found = session.run(feeds)
        steps = Counter(step["op"] for step in plan["steps"])
        return steps, [found[name] for name in outputs], feeds


def test_parts_of_the_outermost_axis_are_computed_in_place() -> None:
    net = Net(x=(1, 3, 4), y=(1, 5, 4))
    joined = net.concat([net.abs("x"), net.neg("y")], 1)
    steps, (found,), feeds = net.run(net.abs(joined))
    assert steps["Concat"] == 0
    np.testing.assert_array_equal(found, np.abs(np.concatenate([feeds["x"], feeds["y"]], axis=1)))


def test_a_joined_output_of_the_graph_is_written_by_those_who_compute_its_parts() -> None:
    net = Net(x=(2, 4))
    joined = net.concat([net.abs("x"), net.neg("x")], 0)
    steps, (found,), feeds = net.run(joined)
    assert steps["Concat"] == 0
    np.testing.assert_array_equal(found, np.concatenate([abs(feeds["x"]), -feeds["x"]]))


def test_reshapes_in_between_do_not_matter() -> None:
    net = Net(x=(2, 4))
    flat = [net.add("Reshape", [t], (1, 8)) for t in (net.abs("x"), net.neg("x"))]
    joined = net.concat(flat, 0)
    steps, (found,), feeds = net.run(net.neg(net.add("Reshape", [joined], (16,))))
    assert steps == {"ElementWiseAbs": 1, "ElementWiseNeg": 2}
    both = np.concatenate([abs(feeds["x"]), -feeds["x"]]).ravel()
    np.testing.assert_array_equal(found, -both)


def test_packed_tensors_are_computed_in_place_and_unpacked_ones_read_there() -> None:
    net = Net(x=(3, 4))
    packed = net.add("Pack", [net.abs("x"), net.neg("x")], (2, 3, 4), axis=np.int32(0))
    first, second = net.add("UnPack", [net.abs(packed)], (3, 4), (3, 4), axis=np.int32(0))
    steps, found, feeds = net.run(net.neg(first), net.abs(second))
    assert steps["Pack"] == steps["UnPack"] == 0
    np.testing.assert_array_equal(found[0], -abs(feeds["x"]))
    np.testing.assert_array_equal(found[1], abs(feeds["x"]))


@pytest.mark.parametrize("of_graph", [True, False])
def test_split_and_sliced_tensors_are_read_where_they_lie(of_graph: bool) -> None:
    net = Net(x=(1, 7, 3))
    x = "x" if of_graph else net.neg("x")
    cut = np.array([2], np.uint32)
    a, b = net.add("Split", [x], (1, 2, 3), (1, 5, 3), axis=np.int32(1), split_index=cut)
    ranges = np.array([[0, 1, 1], [4, 6, 1], [0, 3, 1]], np.int32)
    c = net.add("StridedSlice", [x], (1, 2, 3), ranges=ranges)
    corner = np.array([[0, 1, 1], [3, 4, 1], [1, 3, 1]], np.int32)
    d = net.add("StridedSlice", [x], (1, 1, 2), ranges=corner)
    steps, found, feeds = net.run(*(net.abs(part) for part in (a, b, c, d)))
    assert set(steps) == ({"ElementWiseAbs"} if of_graph else {"ElementWiseAbs", "ElementWiseNeg"})
    x_abs = abs(feeds["x"])
    for part, rows in zip(
        found, (x_abs[:, :2], x_abs[:, 2:], x_abs[:, 4:6], x_abs[:, 3:4, 1:]), strict=True
    ):
        np.testing.assert_array_equal(part, rows)


def test_a_part_that_is_read_in_place_stays_until_its_last_reader() -> None:
    # Every other result could lie where the split tensor was, if that were not still read.
    net = Net(x=(2, 64))
    a, b = net.add(
        "Split",
        [net.neg("x")],
        (1, 64),
        (1, 64),
        axis=np.int32(0),
        split_index=np.array([1], np.uint32),
    )
    t = net.abs(a)
    for _ in range(4):
        t = net.add("ElementWiseAdd", [t, t], (1, 64))
    steps, (found,), feeds = net.run(net.add("ElementWiseAdd", [t, b], (1, 64)))
    assert steps["Split"] == 0
    np.testing.assert_allclose(found, 16 * abs(feeds["x"][:1]) - feeds["x"][1:], rtol=1e-6)


def test_one_tensor_twice_is_copied_once() -> None:
    net = Net(x=(2, 4))
    t = net.abs("x")
    steps, (found,), feeds = net.run(net.neg(net.concat([t, t], 0)))
    assert steps["Concat"] == 1
    np.testing.assert_array_equal(found, -np.tile(abs(feeds["x"]), (2, 1)))


def test_inputs_of_the_graph_are_copied() -> None:
    net = Net(x=(2, 4), y=(1, 4))
    steps, (found,), feeds = net.run(net.concat(["x", net.neg("y")], 0))
    assert steps["Concat"] == 1
    np.testing.assert_array_equal(found, np.concatenate([feeds["x"], -feeds["y"]]))


@pytest.mark.parametrize("reshaped", [False, True])
def test_a_concat_that_grows_along_channels_is_one_buffer(reshaped: bool) -> None:
    """As in DenseNet: norms read a part of each row of the largest one."""
    rng = np.random.default_rng(7)
    net = Net(x=(1, 6, 6, 8))
    grown = net.abs("x")
    sizes = [8]
    for _ in range(4):
        channels = sum(sizes)
        scale, shift = (net.constant(rng.standard_normal(channels)) for _ in range(2))
        normed = net.add("Batchnorm", [grown, scale, shift], (1, 6, 6, channels))
        weights = net.constant(rng.standard_normal((1, 1, channels, 4)))
        new = net.add(
            "Conv2d", [normed, weights], (1, 6, 6, 4),
            stride=np.array([1, 1], np.uint32), pad_amount=np.zeros((2, 2), np.uint32),
        )  # fmt: skip
        grown = net.concat([grown, new], 3)
        sizes.append(4)
    output = net.neg(net.add("Reshape", [grown], (36, 24)) if reshaped else grown)
    model = Model("dense", net.tensors, net.nodes, ["x"], [output])
    feeds = {"x": rng.standard_normal((1, 6, 6, 8)).astype(np.float32)}
    results = []
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, threads=2, options={"kernels": kernels}) as session:
            items = json.loads(session.graph.describe())["arena"]["items"]
            results.append(session.run(feeds)[output])
        wholes = [item for item in items if item["size"] == 36 * 24 * 4 and "shared" in item]
        concats = {node.outputs[0] for node in net.nodes if node.type == "Concat"}
        assert any(len(concats & {w["name"], *w["shared"]}) == 4 for w in wholes)
    t = abs(feeds["x"].astype(np.float64))
    for node in net.nodes:
        constants = [net.tensors[n].data for n in node.inputs[1:]]
        if node.type == "Batchnorm":
            normed64 = t * constants[0] + constants[1]
        elif node.type == "Conv2d":
            t = np.concatenate([t, normed64 @ constants[0][0, 0].astype(np.float64)], axis=3)
    for result in results:
        np.testing.assert_allclose(result, -t.reshape(result.shape), rtol=1e-4, atol=1e-4)
