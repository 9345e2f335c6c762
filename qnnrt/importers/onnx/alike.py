"""Nodes like one that was lowered before: the same operations again, without working them out anew.

A network has the same few kinds of nodes over and over, and a process often the same networks. What
a node of `ALIKE` becomes is decided by its operator, by what its attributes say, and by shapes,
types and orders of its inputs, with the elements of small constants. The first node of a kind is
lowered while a `Trace` sees where the tensors come from that its operations read, and a `Recipe` of
that does it again. There is none where the trace sees anything else at work, such as the elements
of a large constant, or what a tensor was transposed from.

Hardly two nodes that quantize have the same scales: each of them is lowered by itself, and only the
checks before that, which look at no elements, are done once for a kind. Constants that they decode
are held as integers; a recipe leaves it to the builder to decode them for the node at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..encodings import Coded
from ..graph import Edge, Op
from .bodies import LINEAR
from .types import TypeOf
from .values import Builder, Trace, Value

#: Operators whose lowering looks at nothing else.
ALIKE: Final = {
    "Abs", "Add", "And", "AveragePool", "BatchNormalization", "Ceil", "Clip", "Concat",
    "Conv", "ConvTranspose", "Cos", "DepthToSpace", "Div", "Elu",
    "Equal", "Erf", "Exp", "Flatten", "Floor", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "LessOrEqual",
    "Log", "LogSoftmax", "LRN", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mish", "Mul", "Neg",
    "Not", "Or", "Pad", "Pow", "PRelu", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "Relu", "Reshape", "Round", "Selu", "Sigmoid", "Sign", "Sin",
    "Slice", "Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish",
    "Tanh", "Transpose", "Unsqueeze", "Where", "Xor",
    "LayerNormalization", "RMSNormalization", "Shape", "Size", "SpaceToDepth",
    # of small constants alone
    "Cast", "Expand", "Gather", "Identity", "Range",
    # their checks
    "DequantizeLinear", "QuantizeLinear",
}  # fmt: skip
#: Of these, operators that are alike only where all inputs are small constants.
_FOLDED: Final = {"Cast", "Expand", "Gather", "Identity", "Range"}
#: Operators that look at the shape of their input, and at nothing else.
_MEASURES: Final = {"Shape", "Size"}
#: Operators that give the elements of their first input another shape.
_VIEWS: Final = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}
#: Of these, operators that do not look at the elements of any constant.
_UNREAD: Final = {
    "Add", "And", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "Div", "Equal", "Gemm",
    "Greater", "GreaterOrEqual", "LayerNormalization", "Less", "LessOrEqual", "MatMul", "Max",
    "Mean", "Min", "Mul", "Or", "PRelu", "RMSNormalization", "Sub", "Sum", "Where", "Xor",
}  # fmt: skip
#: Constants of up to so many bytes are known by their elements.
_SMALL: Final = 64
#: How many recipes are kept, and of how many operations.
_MOST, _LONGEST = 2048, 8

#: What a reference is to: an input, what an input is a reshape of, something made before, a tensor
#: of a constant input, a constant of the lowering's own, one that it computes of constant inputs,
#: the first input under another shape, what an input is a pending reshape of, or what that is a
#: reshape of.
_INPUT, _ORIGIN, _MADE, _STATIC, _OWN, _COMPUTED, _VIEW, _BASE, _BASE_ORIGIN = range(9)
_Ref = tuple[int, Any] | tuple[int, Any, Any, Any]


class NotAlike(Exception):
    """Something decided what a node became that a recipe does not know."""


def key_of(
    op: str, version: int, said: object, inputs: Sequence[Value | None], outputs: int
) -> tuple[object, ...] | None:
    """What decides what a node of `ALIKE` becomes; None where more than this does."""
    if op in _MEASURES:
        v = inputs[0] if inputs else None
        if v is None or v.count is not None or v.sizes is not None:
            return None
        return op, version, said, outputs, v.shape
    if op in LINEAR:
        checked: list[object] = [op, version, said, outputs]
        for v in inputs:
            if v is None:
                checked.append(None)
            elif v.count is not None or v.sizes is not None:
                return None
            else:
                checked += (v.shape, v.dtype)
        return tuple(checked)
    small = True
    for v in inputs:
        if v is not None and (v.held is None or not _is_small(v.held)):
            small = False
            break
    if not small and op in _FOLDED:
        return None
    unread = not small and op in _UNREAD
    kinds: list[object] = []
    tensors: list[object] = []
    for v in inputs:
        if v is None:
            kinds.append(None)
            continue
        if v.count is not None or v.sizes is not None:
            return None
        held, base = v.held, v.base
        if op == "Concat" and held is None and len(v.shape) == 1 and v.dtype.kind in "iu":
            return None  # it may count something, which is a size
        if base is not None:
            tensors.append(base.edge)
            kinds.append((v.shape, v.dtype, base.shape, base.perm))
            continue
        if held is None:
            tensors.append(v.edge)
            kinds.append((v.shape, v.dtype, v.perm))
            continue
        tensors.append(held)
        if isinstance(held, Coded):
            # Where its scales lie decides whether it can be reshaped.
            if not unread or (q := held.quantization).block is not None or q.packed:
                return None
            kinds.append((v.shape, v.dtype, v.perm, True, q.axis))
            continue
        if held.dtype.kind == "O":
            return None
        if unread or (not kinds and op in _VIEWS and held.flags.c_contiguous):
            kinds.append((v.shape, v.dtype, v.perm, True))
        elif small or held.nbytes <= _SMALL:
            kinds.append((v.shape, v.dtype, v.perm, held.tobytes()))
        else:
            return None
    # Of two that are one tensor it would not be known which was meant.
    if len(tensors) > 1 and not small and len(set(map(id, tensors))) != len(tensors):
        return None
    return op, version, said, outputs, *kinds


def _is_small(held: object) -> bool:
    """Whether it is a constant that is known by its elements."""
    return isinstance(held, np.ndarray) and held.nbytes <= _SMALL and held.dtype.kind != "O"


def _told(op: str, inputs: Sequence[Value | None]) -> bool:
    """Whether the kind of a node has the elements of all constants that it reads."""
    held = [v.held for v in inputs if v is not None]
    if op in _VIEWS:
        return not held or held[0] is None
    return op not in _UNREAD or all(map(_is_small, held)) or all(h is None for h in held)


@dataclass(frozen=True)
class Checked:
    """What the checks of a node found, for another one to be lowered without them."""

    attrs: dict[str, object]
    types: list[TypeOf]


_RECIPES: dict[tuple[object, ...], Recipe | Checked] = {}


def known(key: tuple[object, ...]) -> Recipe | Checked | None:
    return _RECIPES.get(key)


def keep(key: tuple[object, ...], recipe: Recipe | Checked) -> None:
    """For other nodes; the oldest goes when there are many."""
    if len(_RECIPES) >= _MOST:
        _RECIPES.pop(next(iter(_RECIPES)), None)
    _RECIPES[key] = recipe


class Recipe:
    """The operations of a node, with references in place of tensors.

    `start` is how many operations there were before it. Raises `NotAlike` where a tensor comes from
    somewhere else.
    """

    __slots__ = ("_computed", "_results", "_steps", "_values")

    def __init__(
        self,
        op: str,
        ops: Sequence[Op],
        start: int,
        results: Sequence[object],
        inputs: Sequence[Value | None],
        trace: Trace,
    ) -> None:
        if trace.lost or len(ops) - start > _LONGEST:
            raise NotAlike
        found = _References(inputs, trace, op)
        # Operations, and moves of tensors, which make those that they need: None, what, order.
        self._steps: list[tuple[Any, ...]] = []
        at = start
        decoded = set(trace.decoded)

        def steps(begin: int, end: int) -> None:
            """Constants are decoded by whoever reads them, and right before that."""
            for i in range(begin, end):
                if i not in decoded:
                    self._steps.append(found.step(ops[i]))
                elif ops[i].outputs[0] not in _read_next(ops, i, decoded):
                    raise NotAlike

        for begin, end, edge, relative, out in trace.moves:
            steps(at, begin)
            at = end
            if not found.moved(edge, relative, out):
                self._steps.append((None, [found.edge(edge)], relative, None))
                found.move(edge, relative, out)
        steps(at, len(ops))
        self._results = [None if v is None else found.value(v) for v in results]
        self._values = found.values
        self._computed = found.computed

    def follow(self, b: Builder, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The results of another node of the same kind."""
        computed = [
            function(*[inputs[i].const for i in given])  # type: ignore[union-attr]
            for function, given in self._computed
        ]
        made: list[Edge] = []
        for type_, refs, rest, params in self._steps:
            given: list[Edge | None] = []
            for ref in refs:
                if ref is None:
                    given.append(None)
                elif ref[0] == _INPUT:
                    given.append(inputs[ref[1]].edge)
                elif ref[0] == _MADE:
                    given.append(made[ref[1]])
                elif ref[0] == _BASE:
                    given.append(inputs[ref[1]].base.edge)
                else:
                    given.append(b.edge(_constant(ref, inputs, computed)))
            if type_ is None:
                made.append(b.move(given[0], rest))  # type: ignore[arg-type]
                continue
            edges = [Edge(shape, dtype) for shape, dtype in rest]
            b.add(Op(type_, given, [*edges], _own(params) if params else {}, b.scope))
            made += edges
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


def _read_next(ops: Sequence[Op], at: int, decoded: set[int]) -> Sequence[Edge | None]:
    """What the next operation that is not among the `decoded` reads."""
    behind = (op.inputs for i, op in enumerate(ops[at:], at) if i not in decoded)
    return next(behind, ())


def _own(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with arrays of their own: a model may be changed."""
    return {k: v.copy() if type(v) is np.ndarray else v for k, v in params.items()}


def _constant(ref: _Ref, inputs: Sequence[Value | None], computed: Sequence[Any] = ()) -> Value:
    """A constant in an order."""
    what, which, shape, perm = ref  # type: ignore[misc]
    if what == _OWN:
        return Value(which.shape, which.dtype, None, perm, which.copy())
    if what == _COMPUTED:
        array = computed[which][shape]
        return Value(array.shape, array.dtype, None, perm, array)
    source = inputs[which]
    assert source is not None
    assert source.held is not None
    if shape is not None:
        return Value(shape, source.dtype, None, perm, source.held.reshape(shape))
    if source.statics is None:
        source.statics = {}
    return Value(source.shape, source.dtype, None, perm, source.held, statics=source.statics)


def _earlier(ref: _Ref, inputs: Sequence[Value | None], values: Sequence[Value]) -> Value:
    what = ref[0]
    if what == _MADE:
        return values[ref[1]]
    if what in (_OWN, _VIEW):
        return _constant(ref, inputs)
    v = inputs[ref[1]]
    assert v is not None
    if what in (_BASE, _BASE_ORIGIN):
        v = v.base
        assert v is not None
        return v.of or v if what == _BASE_ORIGIN else v
    return v.of or v if what == _ORIGIN else v


class _References:
    """Places of what a lowering read and made."""

    def __init__(self, inputs: Sequence[Value | None], trace: Trace, op: str) -> None:
        self._inputs, self._trace, self._view = inputs, trace, op in _VIEWS
        self._decided = op in _MEASURES or all(v is None or _is_small(v.held) for v in inputs)
        self._told = _told(op, inputs)
        self.values: list[tuple[Any, ...]] = []
        self.computed: list[tuple[Any, tuple[int, ...]]] = []
        self._known: dict[Value, _Ref] = {}
        self._edges: dict[Edge, _Ref] = {}
        self._moved: dict[tuple[Edge, Any], Edge] = {}
        for i, v in enumerate(inputs):
            if v is None:
                continue
            self._known[v] = _INPUT, i
            if v.edge is not None:
                self._edges[v.edge] = _INPUT, i
            if v.base is not None and v.base.edge is not None:
                self._known[v.base] = self._edges[v.base.edge] = _BASE, i
        self._count = 0

    def step(self, op: Op) -> tuple[Any, ...]:
        """An operation."""
        read = [None if edge is None else self.edge(edge) for edge in op.inputs]
        return op.type, read, [self._made(edge) for edge in op.outputs], _own(op.params)

    def _made(self, edge: Edge | None) -> tuple[Any, np.dtype]:
        if edge is None or edge.data is not None or edge.quantization is not None or edge.scalar:
            raise NotAlike
        self._edges[edge] = _MADE, self._count
        self._count += 1
        return edge.shape, edge.dtype

    def moved(self, edge: Edge, relative: Any, out: Edge) -> bool:
        """Whether a tensor was put into this order before."""
        return self._moved.get((edge, relative)) is out

    def move(self, edge: Edge, relative: Any, out: Edge) -> None:
        """A tensor in another order. Where that is one that is known by itself, it would be by
        chance: elsewhere it may be another."""
        if out in self._edges:
            raise NotAlike
        self._moved[edge, relative] = out
        self._edges[out] = _MADE, self._count
        self._count += 1

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
        for c, (function, given_, index) in self._trace.computed.items():
            if c is root:
                raise NotAlike
            if c.statics is v.statics:
                return _COMPUTED, self._computation(function, given_), index, v.perm
        return self._owned(v, v.perm)

    def _computation(self, function: Any, given: Sequence[Value]) -> int:
        refs = [self._known.get(v, (_MADE, 0)) for v in given]
        if any(what != _INPUT for what, *_ in refs):
            raise NotAlike
        computation = function, tuple(ref[1] for ref in refs)
        if computation not in self.computed:
            self.computed.append(computation)
        return self.computed.index(computation)

    def _owned(self, v: Value, perm: Any) -> _Ref:
        """A constant that nothing but the kind of the node decides."""
        if not self._told:  # it may be made of elements that differ between nodes of this kind
            raise NotAlike
        if not isinstance(v.held, np.ndarray) or v.held.nbytes > _SMALL or v.held.dtype.kind == "O":
            raise NotAlike
        return _OWN, v.held.copy(), None, perm

    def value(self, v: object) -> _Ref:
        """Of a result, or what that is made of."""
        if not isinstance(v, Value) or v.count is not None:
            raise NotAlike
        found = self._known.get(v)
        if found is None and v.held is not None:
            first = self._inputs[0] if self._view else None
            if first is None or first.held is None:
                if not self._decided:  # by elements that the kind of the node does not have
                    raise NotAlike
                found = self._known[v] = self._owned(v, v.perm)
            else:
                found = self._known[v] = _VIEW, 0, v.shape, v.perm
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
            if given is None:
                continue
            if v is (given.of or given):
                return _ORIGIN, i
            if given.base is not None and v is (given.base.of or given.base):
                return _BASE_ORIGIN, i
        return self.value(v)
