"""Names and tensors of a model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import ModelError
from ...model import Model
from .. import passes, quantized, quantized_recurrent
from ..graph import Edge, finish, unique
from .lower import Lowering
from .values import Value

__all__ = ["model_of", "names_of"]


def names_of(
    lowering: Lowering, tensors: Sequence[int], given: Mapping[int, str], used: dict[str, int]
) -> dict[int, str]:
    names: dict[int, str] = {}
    for i in tensors:
        if i not in names:
            name = given.get(i) or lowering.graph.tensors[i].name or f"tensor_{i}"
            names[i] = unique(name, used)
    return names


def model_of(
    lowering: Lowering,
    given: list[Edge],
    names: Mapping[int, str],
    title: str,
    *,
    quantized_io: bool = False,
) -> Model:
    """The model of what has been lowered: from its inputs to the tensors with these names."""
    outputs = _outputs(lowering, names, given)
    lowering.budget.phase("the clean-up of the graph")
    lowered = passes.Graph(lowering.b.ops, given, outputs, lowering.budget)
    quantized_recurrent.fuse(lowered, lowering.decoded())
    if quantized_io:
        quantized.fixed_io(lowered)
    passes.run(lowered)
    model = finish(lowered.ops, given, outputs, title, lowering.budget)
    model.source = lowering.where
    return model


def _outputs(lowering: Lowering, names: Mapping[int, str], given: list[Edge]) -> list[Edge]:
    """The tensors of the outputs, each produced by an operation and listed once."""
    given += lowering.state_inputs
    wanted: list[tuple[str, Value]] = []
    for i, name in names.items():
        value = lowering.tensor(i)
        if value is None:
            raise ModelError(f"{lowering.where}: nothing produces the output {name!r}")
        if lowering.graph.tensors[i].complex:
            raise ModelError(
                f"{lowering.where}: output {name!r} is complex64, an element type that QNN does "
                "not have; end the model in its real and imaginary parts"
            )
        wanted.append((name, value))
    wanted += lowering.state_outputs
    found: list[Edge] = []
    for name, value in wanted:
        lowering.b.scope = name
        edge = lowering.b.edge(value)
        if edge.data is not None or edge in given or edge in found:
            edge = lowering.b.edge(lowering.b.copy(value, value.shape))
        edge.name = name
        edge.scalar = not value.shape
        found.append(edge)
    return found
