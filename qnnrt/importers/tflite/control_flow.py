"""Operators that run subgraphs: loops are unrolled, branches taken or both computed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from ...errors import UnsupportedNode
from ..budget import Budget
from ..encodings import same
from ..graph import Edge, Op, physical
from .native import Mapping
from .refusal import Damaged, RefusedInside, Unsupported
from .schema import FileInfo, SubgraphInfo
from .values import Builder, TfliteNode, Value
from .variables import Variables

__all__ = ["TABLE", "lower"]

#: BuiltinOperator -> how it is lowered.
TABLE: dict[str, Mapping] = {
    "CALL": Mapping("the operators of its subgraph", "CallOptions", ""),
    "STABLEHLO_COMPOSITE": Mapping(
        "the operators of its decomposition", "StableHLOCompositeOptions", ""
    ),
    "IF": Mapping(
        "the branch taken, or both and ElementWiseSelect",
        "IfOptions",
        "where the data decide, both results have one shape",
    ),
    "WHILE": Mapping(
        "the operators of its body, once for each turn",
        "WhileOptions",
        "the number of turns does not depend on the data",
    ),
}

#: No subgraph runs inside of more others.
_DEEPEST = 16


class Lowering(Protocol):
    """What lower.py lowers operators with."""

    b: Builder
    budget: Budget
    file: FileInfo
    running: list[int]
    unsupported: list[UnsupportedNode]
    variables: Variables

    def inside(
        self, graph: SubgraphInfo, given: dict[int, Value]
    ) -> AbstractContextManager[None]: ...

    def run_needed(self) -> None: ...

    def tensor(self, index: int) -> Value | None: ...


def lower(c: Lowering, node: TfliteNode) -> list[Value | None]:
    options, given = node.info.options, node.inputs
    for i, (tensor, value) in enumerate(zip(node.tensors, given, strict=True)):
        handle = value is not None and value.variable is not None
        if tensor is not None and tensor.dtype is None and not handle:
            raise Unsupported(f"input {i} is {tensor.type}, an element type that QNN does not have")
    values = [v for v in given if v is not None]
    if len(values) != len(given):
        raise Unsupported("an input that is omitted, or is state")
    if node.info.op == "CALL":
        return [*_run(c, options.integer("Subgraph"), values)]
    if node.info.op == "STABLEHLO_COMPOSITE":
        return [*_run(c, options.integer("DecompositionSubgraphIndex"), values)]
    if node.info.op == "WHILE":
        condition, body = options.integer("CondSubgraphIndex"), options.integer("BodySubgraphIndex")
        while _known(_run(c, condition, values)):
            c.budget.step()
            values = _run(c, body, values)
        return [*values]
    if not values:
        raise Damaged("it has no condition")
    branches = [options.integer("ThenSubgraphIndex"), options.integer("ElseSubgraphIndex")]
    taken = _boolean(values[:1])
    if taken.data is not None:
        return [*_run(c, branches[0 if taken.data.reshape(-1)[0] else 1], values[1:])]
    before, results, held = c.variables.values(), [], []
    for branch in branches:
        c.variables.go_back(before)
        results.append(_run(c, branch, values[1:]))
        held.append(c.variables.values())
    for variable, a in held[1].items():  # what the first branch has seen the second knows, too
        first, second = held[0].get(variable) or variable.start, a or variable.start
        if first is not None and second is not None and first is not second:
            second = _either(c, taken, first, second)
        variable.now = second
    return [_either(c, taken, a, b) for a, b in zip(*results, strict=True)]


def _boolean(values: list[Value]) -> Value:
    if len(values) != 1 or values[0].dtype != np.bool_ or values[0].size != 1:
        raise Damaged("its condition is not one boolean")
    return values[0]


def _known(values: list[Value]) -> bool:
    condition = _boolean(values).data
    if condition is None:
        raise Unsupported("control flow: how often its body runs depends on the data")
    return bool(condition.reshape(-1)[0])


def _either(c: Lowering, condition: Value, a: Value, b: Value) -> Value:
    if a.variable is not None or b.variable is not None:
        if a.variable is not b.variable:
            raise Unsupported("control flow: the data decide which variable it is")
        return a
    if a.shape != b.shape or a.dtype != b.dtype or not same(a.quantization, b.quantization):
        raise Unsupported(
            f"control flow: the data decide, and its branches give {a.dtype.name}{list(a.shape)} "
            f"and {b.dtype.name}{list(b.shape)}"
        )
    if not a.size:
        return a
    out = Edge(physical(a.shape), a.dtype, quantization=a.quantization)
    if len(condition.shape) > 1:  # more dimensions than a result may have
        condition = c.b.copy(condition, ())
    inputs: list[Edge | None] = [c.b.edge(v) for v in (condition, a, b)]
    c.b.ops.append(Op("ElementWiseSelect", inputs, [out], {}, c.b.scope))
    return Value(a.shape, a.dtype, out, None, a.quantization)


def _run(c: Lowering, index: int, values: list[Value]) -> list[Value]:
    """The outputs of a subgraph."""
    if not 0 <= index < len(c.file.subgraphs):
        raise Damaged(f"it names subgraph {index}; there are {len(c.file.subgraphs)}")
    graph = c.file.subgraphs[index]
    _check(graph, values)
    if index in c.running:
        raise Damaged(f"subgraph {index} runs itself")
    if len(c.running) > _DEEPEST:
        raise Unsupported(f"control flow: subgraphs inside of more than {_DEEPEST} others")
    mark = len(c.unsupported)
    scope = c.b.scope
    with c.inside(graph, dict(zip(graph.inputs, values, strict=True))):
        c.run_needed()
        if len(c.unsupported) > mark:
            raise RefusedInside
        found = [c.tensor(i) for i in graph.outputs]
    c.b.scope = scope
    results = [v for v in found if v is not None]
    if len(results) != len(found):
        raise Damaged(f"nothing produces an output of subgraph {index}")
    return results


def _check(graph: SubgraphInfo, values: list[Value]) -> None:
    if len(graph.inputs) != len(values) or len(set(graph.inputs)) != len(values):
        raise Damaged(
            f"it gives subgraph {graph.index} {len(values)} inputs; it takes {len(graph.inputs)}"
        )
    if any(t.variable for t in graph.tensors):
        raise Unsupported(f"control flow: subgraph {graph.index} has state of its own")
    for i, value in zip(graph.inputs, values, strict=True):
        tensor = graph.tensors[i]
        if value.variable is not None and tensor.type == "resource":
            continue
        if tensor.dtype != value.dtype:
            raise Damaged(
                f"input {tensor.name!r} of subgraph {graph.index} is {tensor.type}; it is given "
                f"{value.dtype.name}"
            )
        if not same(tensor.encoding, value.quantization):
            raise Unsupported(
                f"control flow: the encoding of {tensor.name!r} in subgraph {graph.index} is "
                "another one than outside"
            )
