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
from .values import Key, constant
from .variables import TABLE as VARIABLES
from .variables import handle

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
        variables: handles of resource variables -> which one each is.
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
        self.variables = {i: v.variable.key for i, v in lowered.env.items() if v.variable}
        self._names = {k: f"variable_{n}" for n, k in enumerate(sorted({*self.variables.values()}))}
        self._first = {key: v.first for key, v in lowered.variables.all.items()}
        self.shapes = {i: v.shape for i, v in lowered.env.items() if v.variable is None}
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
        if operator.op in ("VAR_HANDLE", "CALL_ONCE"):
            return True
        return operator.op != "ASSIGN_VARIABLE" and all(
            i in self.constants for i in operator.outputs
        )

    def variable(self, operator: OperatorInfo) -> Key | None:
        """The resource variable that an operator reads or assigns."""
        touches = operator.op in VARIABLES and operator.inputs
        return self.variables.get(operator.inputs[0]) if touches else None

    def variable_of(self, state: str) -> Key:
        """The variable that a state of a part's model is."""
        return next(key for key, name in self._names.items() if name == state)

    def model(
        self, operators: Sequence[OperatorInfo], inputs: Sequence[int], outputs: Sequence[int]
    ) -> Model:
        """The model of some operators; its inputs and outputs are called by `tensor_name`.

        State of recurrent operators stays in the graph from run to run. Where an operation of the
        subgraph cannot keep its own, each state is an input besides, and an output with `.next`
        behind its name. Resource variables are `Model.state`, whose names
        `variable_of` knows.

        Raises `UnsupportedOpError` never: operators in `refused` must not be among them.
        """
        lowering = Lowering(self.file, self.graph, self._states, unroll=False)
        made = {i for operator in operators for i in operator.outputs}
        for i, data in self.constants.items():
            if i not in made:
                info = self.graph.tensors[i]
                lowering.env[i] = constant(data, info.encoding, info.name)
        for i, key in self.variables.items():
            variable = lowering.variables.find(key)
            variable.first, variable.name = self._first[key], self._names[key]
            lowering.env[i] = handle(variable)
        lowering.used.update(dict.fromkeys(map(tensor_name, (*inputs, *outputs)), 1))
        given = [lowering.add_input(i, tensor_name(i), self.shapes[i]) for i in inputs]
        with np.errstate(all="ignore"):
            lowering.run(list(operators))
        names = {i: tensor_name(i) for i in outputs}
        pairs = lowering.end()
        model = model_of(lowering, given, names, self.graph.name or "part")
        model.initial = lowering.first()
        model.set_state(pairs)
        return model
