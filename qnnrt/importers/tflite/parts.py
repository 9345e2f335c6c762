"""A subgraph of a file in parts: models of some of its operators, between tensors by index.

A delegate takes some operators and leaves others. What is computed over the whole subgraph
(shapes, constants that are folded) holds in every part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import ModelError, UnsupportedNode
from ...model import Model
from .edges import model_of
from .lower import Lowering
from .schema import FileInfo, OperatorInfo, SubgraphInfo
from .values import constant

__all__ = ["Parts", "tensor_name"]


def tensor_name(index: int) -> str:
    """What a tensor is called in the model of a part."""
    return f"tensor_{index}"


class Parts:
    """A subgraph, looked at as a whole with certain sizes of its inputs.

    Attributes:
        graph: the subgraph.
        shapes: the shape of every tensor that has a value, by index; () for a scalar.
        constants: tensors with values that are known: the file's, and those folded.
        refused: operators without a counterpart in QNN.
    """

    def __init__(
        self, file: FileInfo, graph: SubgraphInfo, sizes: Mapping[int, Sequence[int]]
    ) -> None:
        self.file = file
        self.graph = graph
        lowered = self._lowered("kept", sizes)
        if lowered.unsupported:  # where an operation cannot keep its state, none does
            outside = self._lowered("io", sizes)
            if len(outside.unsupported) < len(lowered.unsupported):
                lowered = outside
        self._states = lowered.states
        self.refused: list[UnsupportedNode] = lowered.unsupported
        self.shapes = {i: v.shape for i, v in lowered.env.items()}
        folded = {i: v.data for i, v in lowered.env.items() if v.data is not None}
        stored = {t.index: t.data for t in graph.tensors if t.data is not None}
        self.constants: dict[int, np.ndarray] = stored | folded

    def _lowered(self, states: str, sizes: Mapping[int, Sequence[int]]) -> Lowering:
        """The whole subgraph."""
        lowering = Lowering(self.file, self.graph, states, unroll=False)
        for i in self.graph.inputs:
            if self.graph.tensors[i].constant:
                raise ModelError(f"{self.file.where}: input {lowering.label(i)} is a constant")
            lowering.add_input(i, tensor_name(i), tuple(sizes[i]))
        with np.errstate(all="ignore"):  # what overflows in constants would overflow when run
            lowering.run(self.graph.operators)
        return lowering

    def folds(self, operator: OperatorInfo) -> bool:
        """Whether an operator has been evaluated, so that nothing of it runs."""
        return all(i in self.constants for i in operator.outputs)

    def model(
        self, operators: Sequence[OperatorInfo], inputs: Sequence[int], outputs: Sequence[int]
    ) -> Model:
        """The model of some operators; its inputs and outputs are called by `tensor_name`.

        State of recurrent operators stays in the graph from run to run. Where an operation of the
        subgraph cannot keep its own, each state is an input besides, and an output with `.next`
        behind its name.

        Raises `UnsupportedOpError` never: operators in `refused` must not be among them.
        """
        lowering = Lowering(self.file, self.graph, self._states, unroll=False)
        made = {i for operator in operators for i in operator.outputs}
        for i, data in self.constants.items():
            if i not in made:
                info = self.graph.tensors[i]
                lowering.env[i] = constant(data, info.encoding, info.name)
        lowering.used.update(dict.fromkeys(map(tensor_name, (*inputs, *outputs)), 1))
        given = [lowering.add_input(i, tensor_name(i), self.shapes[i]) for i in inputs]
        with np.errstate(all="ignore"):
            lowering.run(list(operators))
        names = {i: tensor_name(i) for i in outputs}
        return model_of(lowering, given, names, self.graph.name or "part")
