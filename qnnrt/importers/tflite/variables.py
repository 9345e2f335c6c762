"""Resource variables: state that a file's operators read and assign by name, through handles.

An assignment gives the variable another value, in the order of the operators; what it holds when
a run begins is a tensor of the model's, and what it holds at the end is that tensor's next value.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from ...errors import UnsupportedNode
from ..encodings import same
from ..graph import Edge, physical, unique
from .native import Mapping
from .refusal import Damaged, RefusedInside, Unsupported, WrongType
from .schema import FileInfo, OperatorInfo, SubgraphInfo
from .values import Key, TfliteNode, Value, Variable, constant

__all__ = ["TABLE", "Variables", "handle", "lower"]

#: BuiltinOperator -> what becomes of it.
TABLE: dict[str, Mapping] = {
    "VAR_HANDLE": Mapping("a tensor that runs update in place", "VarHandleOptions", ""),
    "READ_VARIABLE": Mapping("the variable's value", "ReadVariableOptions", ""),
    "ASSIGN_VARIABLE": Mapping(
        "the variable's next value",
        "AssignVariableOptions",
        "of the shape, type and encoding that it is read with",
    ),
    "CALL_ONCE": Mapping(
        "what state holds at first", "CallOnceOptions", "its subgraph assigns constants"
    ),
}

#: What has to run though nothing reads a result of it.
_EFFECTS = ("ASSIGN_VARIABLE", "CALL_ONCE")


class Variables:
    """The variables of one import."""

    def __init__(self, file: FileInfo) -> None:
        self.all: dict[Key, Variable] = {}
        self.once: set[int] = set()  # subgraphs that have run
        self.initializing = False
        self._assigned = _assigned(file)
        self._with_effects = _with_effects(file)

    def changes(self, operator: OperatorInfo) -> bool:
        """Whether an operator has to run though nothing may read its results."""
        return operator.op in _EFFECTS or not self._with_effects.isdisjoint(_runs(operator))

    def find(self, key: Key) -> Variable:
        if key not in self.all:
            self.all[key] = Variable(key, self._assigned is None or key in self._assigned)
        return self.all[key]

    def values(self) -> dict[Variable, Value | None]:
        """What all of them hold now."""
        return {v: v.now for v in self.all.values()}

    def go_back(self, values: dict[Variable, Value | None]) -> None:
        """Let each hold what it held when ``values`` was asked for."""
        for v in self.all.values():
            v.now = values.get(v)


class Lowering(Protocol):
    """What lower.py lowers operators with."""

    file: FileInfo
    running: list[int]
    unsupported: list[UnsupportedNode]
    used: dict[str, int]
    state_inputs: list[Edge]
    variables: Variables

    def inside(
        self, graph: SubgraphInfo, given: dict[int, Value]
    ) -> AbstractContextManager[None]: ...

    def run_needed(self) -> None: ...


def handle(variable: Variable) -> Value:
    """The value of a handle."""
    return Value((), np.dtype(object), variable=variable)


def key_of(operator: OperatorInfo) -> Key:
    """The variable that a VAR_HANDLE names."""
    found = (operator.options.fields.get(f) or b"" for f in ("Container", "SharedName"))
    container, name = (f.decode(errors="replace") if isinstance(f, bytes) else f for f in found)
    return container, name


def lower(c: Lowering, node: TfliteNode) -> list[Value | None]:
    op = node.info.op
    if op == "CALL_ONCE":
        _once(c, node.info.options.integer("InitSubgraphIndex"))
        return []
    if op == "VAR_HANDLE":
        return [handle(c.variables.find(key_of(node.info)))]
    given = node.inputs[0] if node.inputs else None
    if given is None or given.variable is None:
        raise Damaged("its first input is no handle of a variable")
    if op == "READ_VARIABLE":
        return [_read(c, given.variable, node)]
    if len(node.inputs) != 2:
        raise Damaged(f"it has {len(node.inputs)} inputs instead of 2")
    value, tensor = node.inputs[1], node.tensors[1]
    if value is None or value.variable is not None:
        kind = "omitted" if tensor is None else tensor.type
        raise Unsupported(f"input 1 is {kind}, which no tensor of QNN's holds")
    _assign(c, given.variable, value)
    return []


def _once(c: Lowering, index: int) -> None:
    if not 0 <= index < len(c.file.subgraphs):
        raise Damaged(f"it names subgraph {index}; there are {len(c.file.subgraphs)}")
    if index in c.running:
        raise Damaged(f"subgraph {index} runs itself")
    graph = c.file.subgraphs[index]
    if graph.inputs or graph.outputs:
        raise Damaged(f"subgraph {index}, which runs once, has inputs or outputs")
    if index in c.variables.once:
        return
    c.variables.once.add(index)
    mark, before = len(c.unsupported), c.variables.initializing
    c.variables.initializing = True
    try:
        with c.inside(graph, {}):
            c.run_needed()
    finally:
        c.variables.initializing = before
    if len(c.unsupported) > mark:
        raise RefusedInside


def _read(c: Lowering, v: Variable, node: TfliteNode) -> Value:
    tensor = node.outputs[0]
    if tensor.dtype is None:
        raise Unsupported(f"output 0 is {tensor.type}, an element type that QNN does not have")
    found = v.now
    if found is None and (c.variables.initializing or not v.assigned):
        first = v.first
        if first is None:
            raise Damaged(f"nothing assigns the variable {v.key[1]!r}")
        found = constant(first, tensor.encoding, v.key[1])
    if found is None:
        shape = tuple(max(d, 1) for d in tensor.shape) if v.first is None else v.first.shape
        dtype = tensor.dtype if v.first is None else v.first.dtype
        found = v.now = _start(c, v, Value(shape, dtype, quantization=tensor.encoding))
    if found.dtype != tensor.dtype:
        raise WrongType(found.dtype.name, 0)
    if not same(found.quantization, tensor.encoding):
        raise Unsupported(f"the variable {v.key[1]!r} is read with another encoding than it has")
    return found


def _assign(c: Lowering, v: Variable, value: Value) -> None:
    if not c.variables.initializing:
        start = _start(c, v, value)
        if start.shape != value.shape or start.dtype != value.dtype:
            raise Unsupported(
                f"the variable {v.key[1]!r} is {start.dtype.name}{list(start.shape)} and becomes "
                f"{value.dtype.name}{list(value.shape)}; state keeps its shape and type"
            )
        if not same(start.quantization, value.quantization):
            raise Unsupported(f"the variable {v.key[1]!r} is assigned in another encoding")
        v.now = value
        return
    if v.start is not None:
        raise Unsupported(f"the variable {v.key[1]!r} is used before what sets it once")
    if value.data is None:
        raise Unsupported(f"what the variable {v.key[1]!r} holds at first is no constant")
    v.first = value.data


def _start(c: Lowering, v: Variable, like: Value) -> Value:
    """The variable as an input of the model; of the shape and type of its first value, if any."""
    if v.start is None:
        first = v.first
        shape, dtype = (like.shape, like.dtype) if first is None else (first.shape, first.dtype)
        name = unique(v.name or v.key[1] or "variable", c.used)
        edge = Edge(
            physical(shape), dtype, name=name, quantization=like.quantization, scalar=not shape
        )
        c.state_inputs.append(edge)
        v.start = Value(shape, dtype, edge, None, like.quantization)
    return v.start


# ---- of a file


def _runs(operator: OperatorInfo) -> set[int]:
    """The subgraphs that an operator runs."""
    return {
        value
        for name, value in operator.options.fields.items()
        if name.endswith(("Subgraph", "SubgraphIndex")) and isinstance(value, int)
    }


def _with_effects(file: FileInfo) -> set[int]:
    """The subgraphs that assign variables, themselves or in others that they run."""
    callers: dict[int, set[int]] = {}
    left = []
    for graph in file.subgraphs:
        for operator in graph.operators:
            if operator.op in _EFFECTS:
                left.append(graph.index)
            for i in _runs(operator):
                callers.setdefault(i, set()).add(graph.index)
    found: set[int] = set()
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            left += callers.get(index, ())
    return found


def _assigned(file: FileInfo) -> set[Key] | None:
    """The variables that are assigned, not only once; None where that may be any."""
    once = {
        o.options.integer("InitSubgraphIndex")
        for graph in file.subgraphs
        for o in graph.operators
        if o.op == "CALL_ONCE"
    }
    found: set[Key] = set()
    for graph in file.subgraphs:
        if graph.index in once:
            continue
        handles = {i: key_of(o) for o in graph.operators if o.op == "VAR_HANDLE" for i in o.outputs}
        for o in graph.operators:
            if o.op == "ASSIGN_VARIABLE" and o.inputs:
                if o.inputs[0] not in handles:  # it comes from outside
                    return None
                found.add(handles[o.inputs[0]])
    return found
