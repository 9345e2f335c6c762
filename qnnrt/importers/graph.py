"""The graph that an importer builds: QNN operations over edges, before they have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model import Model, Node, Quantization, Tensor
from .budget import Budget

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Edge:
    """A tensor of the graph being built: physical shape, and constant data if it is static.

    Attributes:
        scalar: an input or output that has no dimensions in the file.
    """

    shape: Shape
    dtype: np.dtype
    data: np.ndarray | None = None
    name: str = ""
    quantization: Quantization | None = None
    scalar: bool = False


@dataclass(eq=False, slots=True)
class Op:
    """A QNN operation. None stands for an input or output that is omitted."""

    type: str
    inputs: list[Edge | None]
    outputs: list[Edge | None]
    params: dict[str, object]
    name: str = ""


def physical(shape: Sequence[int]) -> Shape:
    """The shape of the tensor: QNN tensors have at least one dimension."""
    return tuple(map(int, shape)) or (1,)


def finish(
    ops: list[Op], inputs: list[Edge], outputs: list[Edge], name: str, budget: Budget
) -> Model:
    """Names for everything, and the Model, checked. The names of `inputs` and `outputs` are
    kept."""
    budget.phase("naming what the graph has become")
    used: dict[str, int] = {}
    names: dict[Edge, str] = {}
    for edge in (*inputs, *outputs):
        names[edge] = edge.name
        used[edge.name] = 1
    model = Model(name)
    for edge in inputs:
        if edge.name not in model.tensors:
            model.tensors[edge.name] = _tensor(edge, edge.name)
            model.inputs.append(edge.name)
    node_names: dict[str, int] = {}
    tensors = model.tensors

    def labels(edges: list[Edge | None], node_name: str) -> list[str]:
        found = []
        for edge in edges:
            if edge is None:
                found.append("")
                continue
            label = names.get(edge)
            if label is None:
                kind = "const" if edge.data is not None else "out"
                label = names[edge] = unique(edge.name or f"{node_name}.{kind}", used)
            if label not in tensors:
                tensors[label] = _tensor(edge, label)
            found.append(label)
        return found

    for op in ops:
        budget.check_time()
        node_name = unique(op.name or op.type, node_names)
        read, made = labels(op.inputs, node_name), labels(op.outputs, node_name)
        model.nodes.append(Node(node_name, op.type, read, made, op.params))
    model.outputs = [names[edge] for edge in outputs]
    budget.phase("checking the model")
    model.check()
    budget.check_time()
    return model


def unique(name: str, used: dict[str, int]) -> str:
    """`name`, with a number when it is taken; adds it to `used`, which has the highest number that
    was given to each name."""
    if name not in used:
        used[name] = 1
        return name
    found, count = name, used[name]
    while found in used:
        count += 1
        found = f"{name}.{count}"
    used[name] = count
    used[found] = 1
    return found


def _tensor(edge: Edge, name: str) -> Tensor:
    return Tensor(name, edge.shape, edge.dtype, edge.data, edge.quantization, edge.scalar)
