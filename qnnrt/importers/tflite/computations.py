"""What an operator does with two values, where the file says it by a subgraph."""

from __future__ import annotations

from .refusal import Damaged, Unsupported
from .schema import FileInfo, OperatorInfo

__all__ = ["of"]

#: Operator -> the option that names its subgraph.
_NAMED = {
    "STABLEHLO_SCATTER": "UpdateComputationSubgraphIndex",
    "STABLEHLO_REDUCE_WINDOW": "BodySubgraphIndex",
}
#: The second value in the place of the first; the numbers are those of ReduceWindowFunction.
_REPLACE = 0
_OPERATORS = {
    "ADD": 1,
    "STABLEHLO_ADD": 1,
    "MUL": 2,
    "STABLEHLO_MULTIPLY": 2,
    "MINIMUM": 3,
    "STABLEHLO_MINIMUM": 3,
    "MAXIMUM": 4,
    "STABLEHLO_MAXIMUM": 4,
    "LOGICAL_AND": 5,
    "STABLEHLO_AND": 5,
    "LOGICAL_OR": 6,
}


def of(file: FileInfo, info: OperatorInfo) -> dict[str, int]:
    """The options that the subgraph stands for, none where the operator has no such subgraph.

    Raises:
        Unsupported: it is more than one operation on both values.
    """
    if info.op not in _NAMED:
        return {}
    index = info.options.integer(_NAMED[info.op])
    if not 0 <= index < len(file.subgraphs):
        raise Damaged(f"it names subgraph {index}; there are {len(file.subgraphs)}")
    graph = file.subgraphs[index]
    if len(graph.inputs) == 2 and len(graph.outputs) == 1:
        if graph.outputs[0] == graph.inputs[1]:
            return {"Computation": _REPLACE}
        needed = [op for op in graph.operators if graph.outputs[0] in op.outputs]
        if (
            len(needed) == 1
            and sorted(needed[0].inputs) == sorted(graph.inputs)
            and needed[0].options.integer("FusedActivationFunction") == 0
            and needed[0].op in _OPERATORS
        ):
            return {"Computation": _OPERATORS[needed[0].op]}
    raise Unsupported(f"its computation, subgraph {index}, is not one operation on both values")
