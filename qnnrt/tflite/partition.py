"""Which operators run together: the subsets that TFLite's interpreter forms around a delegate."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from ..errors import ModelError
from ..importers.tflite.schema import OperatorInfo, SubgraphInfo

__all__ = ["Partition", "partitions"]


@dataclass
class Partition:
    """Operators that run together.

    Attributes:
        delegated: a delegate's, or the CPU's.
        operators: in execution order.
        inputs, outputs: tensors that come from outside, and that others or the caller read.
    """

    delegated: bool
    operators: list[OperatorInfo]
    inputs: list[int]
    outputs: list[int]


def partitions(
    graph: SubgraphInfo,
    operators: Sequence[OperatorInfo],
    known: Set[int],
    takes: Callable[[OperatorInfo], bool],
    variable: Callable[[OperatorInfo], object] = lambda _: None,
) -> list[Partition]:
    """Operators in as few subsets of one kind as their order allows, ready to run one by one.

    The rule is TFLite's: from the operators that are ready, all of the first one's kind, as long
    as any becomes ready; then the next subset.

    Args:
        operators: those that are left to be run, in execution order.
        known: constants.
        takes: whether the delegate takes an operator.
        variable: the resource variable that an operator reads or assigns, None for none.
    """
    waits = _waits(operators, variable)
    done: set[int] = set()
    # A variable has a value before any operator runs.
    missing = {
        i
        for operator in operators
        for i in operator.outputs
        if i >= 0 and not graph.tensors[i].variable
    }
    left = list(operators)
    found: list[Partition] = []
    while left:
        kind: bool | None = None
        chosen: list[OperatorInfo] = []
        grew = True
        while grew:
            grew = False
            rest: list[OperatorInfo] = []
            for operator in left:
                ready = missing.isdisjoint(operator.inputs)
                ready = ready and waits.get(operator.index, done) <= done
                if ready and kind in (None, takes(operator)):
                    kind = takes(operator)
                    chosen.append(operator)
                    missing.difference_update(operator.outputs)
                    done.add(operator.index)
                    grew = True
                else:
                    rest.append(operator)
            left = rest
        if kind is None:
            raise ModelError(
                f"subgraph {graph.index} is damaged: operator {left[0].index} ({left[0].op}) waits "
                "for what it or a later one produces; operators have to stand in an order in "
                "which they can run"
            )
        found.append(Partition(kind, chosen, [], []))
    for part in found:
        part.inputs, part.outputs = _edges(graph, part, found, known)
    return found


def _waits(
    operators: Sequence[OperatorInfo], variable: Callable[[OperatorInfo], object]
) -> dict[int, set[int]]:
    """Operator on a variable -> those before it that it has to stay behind."""
    waits: dict[int, set[int]] = {}
    read: dict[object, set[int]] = {}  # since the last assignment
    assigned: dict[object, set[int]] = {}
    for operator in operators:
        key = variable(operator)
        if key is None:
            continue
        waits[operator.index] = set(assigned.get(key, ()))
        if operator.op == "ASSIGN_VARIABLE":
            waits[operator.index] |= read.pop(key, set())
            assigned[key] = {operator.index}
        else:
            read.setdefault(key, set()).add(operator.index)
    return waits


def _edges(
    graph: SubgraphInfo, part: Partition, all_: Sequence[Partition], known: Set[int]
) -> tuple[list[int], list[int]]:
    inside = {i for operator in part.operators for i in operator.outputs}
    inputs: dict[int, None] = {}
    read: set[int] = set()
    for operator in part.operators:
        read.update(operator.inputs)
        for i in operator.inputs:
            if i >= 0 and i not in inside and i not in known and not graph.tensors[i].variable:
                inputs[i] = None
    elsewhere = set(graph.outputs)
    for other in all_:
        if other is not part:
            elsewhere.update(i for operator in other.operators for i in operator.inputs)
    outputs = [
        i
        for operator in part.operators
        for i in operator.outputs
        # What nobody reads is an output too: an operator has to have a result somewhere.
        if i in elsewhere or i not in read
    ]
    return list(inputs), outputs
