"""Nodes like one that was lowered before: the same operations again, without working them out anew.

A network has the same few kinds of nodes over and over, and a process often the same networks. What
a node of `ALIKE` becomes is decided by its operator, by what its attributes say, and by shapes,
types and orders of its inputs, with the elements of small constants. The first node of a kind is
lowered while a `Trace` sees where the tensors come from that its operations read, and a `Recipe` of
that does it again. There is none where the trace sees anything else at work, such as the elements
of a large constant, or what a tensor was transposed from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..encodings import Coded
from ..graph import Edge, Op
from .values import Builder, Trace, Value

#: Operators whose lowering looks at nothing else.
ALIKE: Final = {
    "Abs", "Add", "And", "AveragePool", "Ceil", "Clip", "Concat", "Conv", "Cos", "Div", "Elu",
    "Equal", "Erf", "Exp", "Flatten", "Floor", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "LessOrEqual",
    "Log", "LogSoftmax", "LRN", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mish", "Mul", "Neg",
    "Not", "Or", "Pad", "Pow", "PRelu", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "Relu", "Reshape", "Round", "Selu", "Sigmoid", "Sign", "Sin",
    "Slice", "Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish",
    "Tanh", "Unsqueeze", "Where", "Xor",
}  # fmt: skip
#: Of these, operators that do not look at the elements of any constant.
_UNREAD: Final = {
    "Add", "And", "Concat", "Conv", "Div", "Equal", "Gemm", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "MatMul", "Max", "Mean", "Min", "Mul", "Or", "PRelu", "Sub", "Sum", "Where",
    "Xor",
}  # fmt: skip
#: Constants of up to so many bytes are known by their elements.
_SMALL: Final = 64
#: How many recipes are kept, and of how many operations.
_MOST, _LONGEST = 2048, 8

#: What a reference is to: an input, what an input is a reshape of, something made before, a tensor
#: of a constant input, or a constant of the lowering's own.
_INPUT, _ORIGIN, _MADE, _STATIC, _OWN = range(5)
_Ref = tuple[int, Any] | tuple[int, Any, Any, Any]


class NotAlike(Exception):
    """Something decided what a node became that a recipe does not know."""


def key_of(
    op: str, version: int, said: object, inputs: Sequence[Value | None], outputs: int
) -> tuple[object, ...] | None:
    """What decides what a node of `ALIKE` becomes; None where more than this does."""
    kinds: list[object] = []
    unread = op in _UNREAD
    for v in inputs:
        if v is None:
            kinds.append(None)
            continue
        if v.base is not None or v.count is not None or v.sizes is not None:
            return None
        held = v.held
        if held is None:
            kinds.append((v.shape, v.dtype, v.perm))
        elif isinstance(held, Coded) or held.dtype.kind == "O":
            return None
        elif unread:
            kinds.append((v.shape, v.dtype, v.perm, True))
        elif held.nbytes <= _SMALL:
            kinds.append((v.shape, v.dtype, v.perm, held.tobytes()))
        else:
            return None
    if len(inputs) > 1:  # of two that are one tensor it would not be known which was meant
        tensors = [v.edge or v.held for v in inputs if v is not None]
        if len(set(map(id, tensors))) != len(tensors):
            return None
    return op, version, said, outputs, *kinds


_RECIPES: dict[tuple[object, ...], Recipe] = {}


def known(key: tuple[object, ...]) -> Recipe | None:
    return _RECIPES.get(key)


def keep(key: tuple[object, ...], recipe: Recipe) -> None:
    """For other nodes; the oldest goes when there are many."""
    if len(_RECIPES) >= _MOST:
        _RECIPES.pop(next(iter(_RECIPES)), None)
    _RECIPES[key] = recipe


class Recipe:
    """The operations of a node, with references in place of tensors.

    Raises `NotAlike` where a tensor comes from somewhere else.
    """

    __slots__ = ("_ops", "_results", "_values")

    def __init__(
        self,
        ops: Sequence[Op],
        results: Sequence[object],
        inputs: Sequence[Value | None],
        trace: Trace,
    ) -> None:
        if trace.lost or len(ops) > _LONGEST:
            raise NotAlike
        found = _References(inputs, trace)
        self._ops = []
        for op in ops:
            read = [None if edge is None else found.edge(edge) for edge in op.inputs]
            made = [found.made(edge) for edge in op.outputs]
            self._ops.append((op.type, read, made, _own(op.params)))
        self._results = [None if v is None else found.value(v) for v in results]
        self._values = found.values

    def follow(self, b: Builder, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The results of another node of the same kind."""
        made: list[Edge] = []
        for type_, refs, outputs, params in self._ops:
            read: list[Edge | None] = []
            for ref in refs:
                if ref is None:
                    read.append(None)
                elif ref[0] == _INPUT:
                    read.append(inputs[ref[1]].edge)  # type: ignore[union-attr]
                elif ref[0] == _MADE:
                    read.append(made[ref[1]])
                else:
                    read.append(b.edge(_constant(ref, inputs)))
            edges = [Edge(shape, dtype) for shape, dtype in outputs]
            made += edges
            b.add(Op(type_, read, [*edges], _own(params), b.scope))
        values: list[Value] = []
        for shape, dtype, edge, perm, of, base in self._values:
            v = Value(shape, dtype, None, perm)
            if edge is not None:
                v.edge = _earlier(edge, inputs, values).edge if edge[0] != _MADE else made[edge[1]]
            if of is not None:
                v.of = _earlier(of, inputs, values)
            if base is not None:
                v.base = _earlier(base, inputs, values)
            values.append(v)
        return [None if ref is None else _earlier(ref, inputs, values) for ref in self._results]


def _own(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with arrays of their own: a model may be changed."""
    return {k: v.copy() if type(v) is np.ndarray else v for k, v in params.items()}


def _constant(ref: _Ref, inputs: Sequence[Value | None]) -> Value:
    """A constant in an order."""
    what, which, shape, perm = ref  # type: ignore[misc]
    if what == _OWN:
        return Value(which.shape, which.dtype, None, perm, which.copy())
    source = inputs[which]
    assert source is not None
    assert isinstance(source.held, np.ndarray)
    if shape is not None:
        return Value(shape, source.dtype, None, perm, source.held.reshape(shape))
    if source.statics is None:
        source.statics = {}
    return Value(source.shape, source.dtype, None, perm, source.held, statics=source.statics)


def _earlier(ref: _Ref, inputs: Sequence[Value | None], values: Sequence[Value]) -> Value:
    if ref[0] == _MADE:
        return values[ref[1]]
    v = inputs[ref[1]]
    assert v is not None
    return v.of or v if ref[0] == _ORIGIN else v


class _References:
    """Places of what a lowering read and made."""

    def __init__(self, inputs: Sequence[Value | None], trace: Trace) -> None:
        self._inputs, self._trace = inputs, trace
        self.values: list[tuple[Any, ...]] = []
        self._known: dict[Value, _Ref] = {}
        self._edges: dict[Edge, _Ref] = {}
        for i, v in enumerate(inputs):
            if v is None:
                continue
            self._known[v] = _INPUT, i
            if v.edge is not None:
                self._edges[v.edge] = _INPUT, i
        self._count = 0

    def made(self, edge: Edge | None) -> tuple[Any, np.dtype]:
        if edge is None or edge.data is not None or edge.quantization is not None or edge.scalar:
            raise NotAlike
        self._edges[edge] = _MADE, self._count
        self._count += 1
        return edge.shape, edge.dtype

    def edge(self, edge: Edge) -> _Ref:
        """Of what an operation reads."""
        found = self._edges.get(edge)
        if found is None:
            v = self._trace.laid_out.get(edge)
            if v is None:
                raise NotAlike
            found = self._edges[edge] = self._static(v)
        return found

    def _static(self, v: Value) -> _Ref:
        root = next((r for c, r in self._trace.reshaped.items() if c.statics is v.statics), None)
        for i, given in enumerate(self._inputs):
            if given is None or given.held is None:
                continue
            if given.statics is v.statics:
                return _STATIC, i, None, v.perm
            if given is root:
                return _STATIC, i, v.shape, v.perm
        if not isinstance(v.held, np.ndarray) or v.held.nbytes > _SMALL:
            raise NotAlike
        return _OWN, v.held.copy(), None, v.perm

    def value(self, v: object) -> _Ref:
        """Of a result, or what that is made of."""
        if not isinstance(v, Value) or v.held is not None or v.count is not None:
            raise NotAlike
        found = self._known.get(v)
        if found is None:
            edge = None if v.edge is None else self._edges.get(v.edge)
            if (v.edge is not None and edge is None) or v.sizes is not None:
                raise NotAlike
            of = None if v.of is None else self._origin(v.of)
            base = None if v.base is None else self.value(v.base)
            found = self._known[v] = _MADE, len(self.values)
            self.values.append((v.shape, v.dtype, edge, v.perm, of, base))
        return found

    def _origin(self, v: Value) -> _Ref:
        for i, given in enumerate(self._inputs):
            if given is not None and v is (given.of or given):
                return _ORIGIN, i
        return self.value(v)
