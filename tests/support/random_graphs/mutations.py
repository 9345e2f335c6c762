"""Changes after which a pattern is no longer the one that a pass looks for, or still is.

Whether the graph stays valid ONNX Runtime says.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from .net import F32, Net


class Mutable(Net):
    """A graph that is complete but for changes."""

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(seed, number)
        #: Results that are outputs though they are read; constants that are inputs.
        self.exposed: set[str] = set()
        self.fed: set[str] = set()

    def numbers(self, node: onnx.NodeProto) -> list[str]:
        """Its constants that are not parameters."""
        constants = (n for n in node.input if n in self.constants)
        return [n for n in constants if self.constants[n].dtype == F32 and self.constants[n].size]

    def operands(self, node: onnx.NodeProto) -> list[int]:
        return [i for i, n in enumerate(node.input) if n in self.shapes and n not in self.aside]


def _exchanged(g: Mutable, node: onnx.NodeProto) -> None:
    if len(node.input) >= 2:
        first, second = (1, 2) if node.op_type == "Where" else (0, 1)
        node.input[first], node.input[second] = node.input[second], node.input[first]


def _read_besides(g: Mutable, node: onnx.NodeProto) -> None:
    if node.output[0] not in g.aside:
        g.op(g.choice(["Relu", "Neg", "Identity"]), [node.output[0]])


def _exposed(g: Mutable, node: onnx.NodeProto) -> None:
    g.exposed.add(node.output[0])


def _another_number(g: Mutable, node: onnx.NodeProto) -> None:
    for name in g.numbers(node)[:1]:
        g.constants[name] *= F32(g.choice([1.02, 0.5, -1.0, 2.0]))


def _constant_fed(g: Mutable, node: onnx.NodeProto) -> None:
    g.fed.update(g.numbers(node)[:1])


def _something_between(g: Mutable, node: onnx.NodeProto) -> None:
    for i in g.operands(node)[:1]:
        x = node.input[i]
        rank, form = len(g.shape(x)), g.between(0, 3)
        at = g.nodes.index(node)
        if form == 0:
            perm = g.order(rank)
            y = g.transpose(g.transpose(x, *perm), *(perm.index(d) for d in range(rank)))
        elif form == 1:
            y = g.squeeze(g.unsqueeze(x, rank), rank)
        else:
            y = g.op("Identity" if form == 2 else "Relu", [x])
        node.input[i] = y
        g.nodes.append(g.nodes.pop(at))


def _another_axis(g: Mutable, node: onnx.NodeProto) -> None:
    for a in node.attribute:
        if a.name == "axis":
            a.i = g.between(-2, 2)
        elif a.name == "keepdims":
            a.i = 1 - a.i
        elif a.name == "axes":
            a.ints[0] = g.between(-2, 2)
        elif a.name == "perm":
            a.ints[:] = g.order(len(a.ints))


def _one_operand_twice(g: Mutable, node: onnx.NodeProto) -> None:
    if len(node.input) >= 2 and node.input[0] in g.shapes:
        node.input[1] = node.input[0]


def _another_operand(g: Mutable, node: onnx.NodeProto) -> None:
    for i in g.operands(node)[:1]:
        node.input[i] = g.choice(g.same_shape(node.input[i]))


MUTATIONS: tuple[Callable[[Mutable, onnx.NodeProto], None], ...] = (
    _exchanged, _read_besides, _exposed, _another_number, _constant_fed, _something_between,
    _another_axis, _one_operand_twice, _another_operand,
)  # fmt: skip


def mutate(g: Mutable) -> None:
    g.choice(MUTATIONS)(g, g.choice(g.nodes))


def in_order(g: Mutable) -> list[onnx.NodeProto] | None:
    """The nodes behind what they read; None: one reads what is made of it."""
    known, left = {"", *g.inputs, *g.constants}, list(g.nodes)
    nodes: list[onnx.NodeProto] = []
    while left:
        ready = next((n for n in left if known.issuperset(n.input)), None)
        if ready is None:
            return None
        left.remove(ready)
        nodes.append(ready)
        known.update(ready.output)
    return nodes
