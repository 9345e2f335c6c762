"""A graph as a file, with what it is fed."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import elementwise, images, moves, norms, sequences  # noqa: F401
from .mutations import Mutable, in_order, mutate
from .net import BLOCKS, F32, LARGEST, RANK, Batch, Skip


@dataclass
class Graph:
    """`blocks`: by name, what it was made of."""

    proto: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    blocks: list[str]


def generate(seed: int, number: int, size: int | None = None, batch: str = "") -> Graph | None:
    """`size`: how many blocks. `batch`: the name of the first dimension; none: it is fixed.
    None where nothing came of this number."""
    g = Mutable(seed, number)
    kind = g.between(0, 2)
    if kind != 1:
        g.input(g.batch, g.choice([3, 4, 6, 8]), g.between(4, 9), g.between(4, 9))
    if kind != 0:
        g.input(g.batch, g.between(3, 8), g.choice([6, 8, 12, 16]))
    blocks: list[str] = []
    wanted = size or g.between(3, 12)
    for _ in range(wanted * 6):
        if len(blocks) == wanted:
            break
        name = _grown(g)
        if name:
            blocks.append(name)
    for _ in range(g.choice([0, 0, 0, 1, 1, 2, 3]) if g.nodes else 0):
        mutate(g)
    nodes = in_order(g)
    if not nodes:
        return None
    read = {n for node in nodes for n in node.input}
    outputs = [
        n for node in nodes for n in node.output
        if n in g.exposed or (n not in g.aside and (n not in read or g.chance(0.02)))
    ]  # fmt: skip
    return Graph(_proto(g, nodes, outputs, batch), _feeds(g, read), blocks) if outputs else None


def _grown(g: Mutable) -> str:
    """By a block, of which nothing stays where it does not fit."""
    names = ("nodes", "constants", "inputs", "shapes", "aside")
    before = {name: copy.copy(getattr(g, name)) for name in names}
    block = g.choice(BLOCKS)
    try:
        shape = g.shape(block(g))
    except Skip:
        shape = ()
    if 0 < len(shape) <= RANK and 0 < math.prod(shape) <= LARGEST:
        return block.__name__
    for name, value in before.items():
        setattr(g, name, value)
    return ""


def _feeds(g: Mutable, read: set[str]) -> dict[str, np.ndarray]:
    feeds = {
        n: g.rng.normal(size=[int(d) for d in s]).astype(F32)
        for n, s in g.inputs.items()
        if n in read
    }
    return feeds | {n: g.constants[n] for n in sorted(g.fed) if n in read}


def _proto(
    g: Mutable, nodes: list[onnx.NodeProto], outputs: Sequence[str], batch: str
) -> onnx.ModelProto:
    read = {n for node in nodes for n in node.input}
    shapes = g.inputs | {n: g.constants[n].shape for n in sorted(g.fed)}
    inputs = [
        helper.make_tensor_value_info(
            n, TensorProto.FLOAT, [batch if isinstance(d, Batch) and batch else int(d) for d in s]
        )
        for n, s in shapes.items()
        if n in read
    ]
    graph = helper.make_graph(
        nodes, "random", inputs, [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(x, n) for n, x in g.constants.items()
         if n in read and n not in g.fed],
    )  # fmt: skip
    imports = [helper.make_opsetid("", g.opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
