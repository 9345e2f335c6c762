"""Transposes around operations that compute in any order of the dimensions.

Files that were converted from channels first have one before and one behind each convolution, with
whatever lies between in channels first. Such a part is computed in the other order where that
saves transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .encodings import same
from .graph import Edge, Op, Shape
from .rewriting import Graph
from .shorthand import u32

Perm = tuple[int, ...]

#: Element by element, of operands that broadcast.
_ELEMENTWISE = {
    "ElementWiseAbs", "ElementWiseAdd", "ElementWiseAnd", "ElementWiseAsin", "ElementWiseAtan",
    "ElementWiseBinary", "ElementWiseCeil", "ElementWiseCos", "ElementWiseDivide",
    "ElementWiseEqual", "ElementWiseExp", "ElementWiseFloor", "ElementWiseFloorDiv",
    "ElementWiseGreater", "ElementWiseGreaterEqual", "ElementWiseLess", "ElementWiseLessEqual",
    "ElementWiseLog", "ElementWiseMaximum", "ElementWiseMinimum", "ElementWiseMod",
    "ElementWiseMultiply", "ElementWiseNeg", "ElementWiseNeuron", "ElementWiseNot",
    "ElementWiseNotEqual", "ElementWiseOr", "ElementWisePower", "ElementWiseRound",
    "ElementWiseRsqrt", "ElementWiseSelect", "ElementWiseSign", "ElementWiseSin",
    "ElementWiseSquareRoot", "ElementWiseSquaredDifference", "ElementWiseSubtract", "Elu", "Gelu",
    "HardSwish", "Relu", "Relu1", "Relu6", "ReluMinMax", "Sigmoid", "Tanh", "Cast", "Convert",
    "Quantize", "Dequantize",
}  # fmt: skip
_ALONG_ONE = {"ChannelShuffle", "Concat", "LogSoftmax", "Softmax", "Split"}
_REDUCTIONS = {
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
}  # fmt: skip

Params = dict[str, object]


def _axis(params: Params, perm: Perm) -> Params | None:
    if "axis" not in params:
        return None
    axis = int(np.asarray(params["axis"]))
    return {**params, "axis": np.asarray(params["axis"]).dtype.type(perm[axis % len(perm)])}


def _reduced(params: Params, perm: Perm) -> Params | None:
    axes = [int(a) for a in np.asarray(params["axes"]).reshape(-1)]
    if not params.get("keep_dims"):
        # What is left has to be in the same order.
        left = [perm[i] for i in range(len(perm)) if i not in axes]
        if left != sorted(left):
            return None
    return {**params, "axes": u32(sorted(perm[a] for a in axes))}


def _rows(name: str) -> Callable[[Params, Perm], Params | None]:
    """A row for each dimension."""

    def moved(params: Params, perm: Perm) -> Params | None:
        masks = ("begin_mask", "end_mask", "shrink_axes", "new_axes_mask")
        if any(int(np.asarray(params.get(mask, 0))) for mask in masks):
            return None
        rows = np.asarray(params[name])
        if rows.shape[:1] != (len(perm),):
            return None
        return {**params, name: rows[np.argsort(perm)]}

    return moved


_MOVED: dict[str, Callable[[Params, Perm], Params | None]] = {
    **dict.fromkeys(_ALONG_ONE, _axis),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    "Pad": _rows("pad_amount"),
    "StridedSlice": _rows("ranges"),
}


def _params(op: Op, perm: Perm) -> Params | None:
    """Those of the same operation on tensors of which this is the transposed form."""
    if op.type in _ELEMENTWISE:
        return op.params
    moved = _MOVED.get(op.type)
    return None if moved is None else moved(op.params, perm)


def _keeps_rank(op: Op, rank: int) -> bool:
    return all(e is None or len(e.shape) == rank for e in op.outputs)


def _perms(op: Op | None) -> list[Perm]:
    """What it may be said to transpose by, where it leaves numbers as they are.

    Where only dimensions of one move, a Reshape is a Transpose, too.
    """
    if op is None or op.type not in ("Transpose", "Reshape"):
        return []
    source, target = op.inputs[0], op.outputs[0]
    if source is None or target is None or len(source.shape) != len(target.shape):
        return []
    if not same(source.quantization, target.quantization):
        return []
    if op.type == "Transpose":
        return [tuple(int(p) for p in np.asarray(op.params["perm"]).reshape(-1))]
    rank = len(source.shape)
    found: list[Perm] = []
    if rank < 3:
        return found
    for perm in ((0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)):
        longer = [p for p in perm if source.shape[p] > 1]
        if longer == sorted(longer) and _turned(source.shape, perm) == target.shape:
            found.append(perm)
    return found


def _is_number(edge: Edge) -> bool:
    return edge.data is not None and edge.data.size == 1


@dataclass
class _Part:
    """Operations that hang together, and what lies around them."""

    ops: list[Op] = field(default_factory=list)
    read: set[Edge] = field(default_factory=set)  # computed elsewhere
    made: set[Edge] = field(default_factory=set)


def _parts(graph: Graph) -> Iterator[_Part]:
    """Those with at least one Transpose before them."""
    met: set[int] = set()
    for first in graph.ops:
        out = first.outputs[0]
        if out is None or not _perms(first):
            continue
        for op in graph.consumers.get(out, []):
            part = _part_of(graph, op, len(out.shape), met)
            if part.ops:
                yield part


def _belongs(op: Op, rank: int) -> bool:
    for edge in (*op.inputs, *op.outputs):
        if edge is None or (edge.quantization is not None and edge.quantization.axis is not None):
            return False
        if edge.data is not None and edge.data.ndim > rank:
            return False  # the result has its rank
    computed = [e for e in op.inputs if e is not None and e.data is None]
    if not computed or any(len(e.shape) != rank and e.shape != (1,) for e in computed):
        return False
    return _params(op, tuple(range(rank))) is not None


def _part_of(graph: Graph, first: Op, rank: int, met: set[int]) -> _Part:
    part = _Part()
    open_ = [first]
    while open_:
        op = open_.pop()
        if id(op) in met or not _belongs(op, rank):
            continue
        met.add(id(op))
        part.ops.append(op)
        for edge in op.inputs:
            before = None if edge is None else graph.producer.get(edge)
            if before is not None and _keeps_rank(before, rank):
                open_.append(before)
        if not _keeps_rank(op, rank):
            continue  # it takes dimensions away: the part ends there
        for edge in op.outputs:
            open_ += [] if edge is None else graph.consumers.get(edge, [])
    part.made = {e for op in part.ops for e in op.outputs if e is not None}
    for op in part.ops:
        part.read.update(e for e in op.inputs if e is not None and e.data is None)
    part.read -= part.made
    return part


class _Turning:
    """A part in the order that it has before Transposes by `perm`."""

    def __init__(self, graph: Graph, part: _Part, perm: Perm) -> None:
        self.graph, self.part, self.perm = graph, part, perm
        self.back = tuple(int(i) for i in np.argsort(perm))
        self.inside = {id(op) for op in part.ops}
        self.moved = {id(op): _params(op, perm) for op in part.ops}

    def is_possible(self) -> bool:
        return all(params is not None for params in self.moved.values())

    def saved(self) -> int:
        """Elements that need not be transposed any more, less those that then have to be."""
        total = 0
        for edge in self.part.read:
            size = int(np.prod(edge.shape))
            if self._source(edge) is None:
                needed = len(edge.shape) == len(self.perm) and self._there(edge) is None
                total -= size if needed else 0
            elif edge not in self.graph.outputs and all(
                id(op) in self.inside for op in self.graph.consumers[edge]
            ):
                total += size
        for edge in self.part.made:
            if len(edge.shape) != len(self.perm):
                continue
            size = int(np.prod(edge.shape))
            turned, others = self._readers(edge)
            total += size * sum(self.back in _perms(op) for op in turned)
            if others or edge in self.graph.outputs:
                total -= size
        return total

    def _readers(self, edge: Edge) -> tuple[list[Op], list[Op]]:
        """Outside: those that transpose it, which can do so from another order, and the others."""
        outside = [op for op in self.graph.consumers.get(edge, []) if id(op) not in self.inside]
        turned = [op for op in outside if _perms(op)]
        return turned, [op for op in outside if not _perms(op)]

    def _source(self, edge: Edge) -> Edge | None:
        op = self.graph.producer.get(edge)
        source = op.inputs[0] if op is not None and self.perm in _perms(op) else None
        # What the part makes itself is turned, too.
        return None if source in self.part.made else source

    def _there(self, edge: Edge) -> Op | None:
        """What has transposed it back already."""
        return next((op for op in self.graph.consumers[edge] if self.back in _perms(op)), None)

    def apply(self) -> None:
        graph, rank = self.graph, len(self.perm)
        before: dict[Edge, Edge] = {}  # transposed tensor -> the one that it is made of
        first: list[Op] = []
        for edge in self.part.read:
            source = self._source(edge)
            if source is not None:
                before[edge] = source
            elif len(edge.shape) == rank:
                op = self._there(edge)
                if op is None:
                    turned = Edge(
                        _turned(edge.shape, self.back), edge.dtype, quantization=edge.quantization
                    )
                    op = _transpose(edge, turned, self.back)
                assert op.outputs[0] is not None
                before[edge] = op.outputs[0]
                first.append(op)
        for edge in self.part.made:
            if len(edge.shape) == rank:
                shape = _turned(edge.shape, self.back)
                before[edge] = Edge(shape, edge.dtype, quantization=edge.quantization)
        needed: dict[int, list[Op]] = {}
        for op in self.part.ops:
            op.params = self.moved[id(op)] or {}
            op.inputs = [self._operand(e, before) for e in op.inputs]
            after = needed[id(op)] = []
            for out in op.outputs:
                if out is None or out not in before:
                    continue
                users, others = self._readers(out)
                for user in users:
                    self._compose(user, before[out])
                if others or out in graph.outputs:
                    after.append(_transpose(before[out], out, self.perm))
            op.outputs = [None if e is None else before.get(e, e) for e in op.outputs]
        self._put(first, needed)

    def _compose(self, user: Op, source: Edge) -> None:
        """A transpose of the tensor in the order that it had, from the one that it has now."""
        perms = _perms(user)
        user.inputs = [source]
        if self.back in perms:  # to the same shape
            user.type, user.params = "Reshape", {}
        else:
            user.type, user.params = "Transpose", {"perm": u32([self.perm[p] for p in perms[0]])}

    def _operand(self, edge: Edge | None, before: dict[Edge, Edge]) -> Edge | None:
        if edge is None or edge in before or edge.data is None or _is_number(edge):
            return None if edge is None else before.get(edge, edge)
        wide = edge.data.reshape((1,) * (len(self.perm) - edge.data.ndim) + edge.data.shape)
        data = wide.transpose(self.back)
        return Edge(data.shape, edge.dtype, data, edge.name, edge.quantization)

    def _producer(self, op: Op) -> Op | None:
        return None if op.inputs[0] is None else self.graph.producer.get(op.inputs[0])

    def _put(self, first: list[Op], needed: dict[int, list[Op]]) -> None:
        """Operations in an order in which they can be computed: the first ones right behind what
        they read."""
        moved = {id(op) for op in first}
        early = [op for op in first if self._producer(op) is None]
        ops = early
        for op in self.graph.ops:
            if id(op) in moved:
                continue
            ops.append(op)
            ops += needed.get(id(op), [])
            ops += [behind for behind in first if self._producer(behind) is op]
        self.graph.ops = ops
        self.graph.index()


def _turned(shape: Shape, perm: Perm) -> Shape:
    return tuple(shape[p] for p in perm)


def _transpose(source: Edge, target: Edge, perm: Perm) -> Op:
    return Op("Transpose", [source], [target], {"perm": u32(perm)}, target.name or source.name)


def _share(graph: Graph) -> None:
    """One Transpose of a tensor for all that want it."""
    made: dict[tuple[Edge, Perm], Edge] = {}
    for op in graph.ops:
        source, target = (op.inputs[0], op.outputs[0]) if op.type == "Transpose" else (None, None)
        if source is None or target is None or not _perms(op):
            continue
        other = made.setdefault((source, _perms(op)[0]), target)
        if other is not target and target not in graph.outputs:
            graph.replace(target, other)


def turn_parts(graph: Graph) -> None:
    """Computes parts of the graph in another order of dimensions where that saves transposes."""
    _share(graph)
    for part in list(_parts(graph)):
        graph.budget.check_time()
        perms = {perm for edge in part.read for perm in _perms(graph.producer.get(edge))}
        best, most = None, 0
        for perm in sorted(perms):
            turning = _Turning(graph, part, perm)
            saved = turning.saved() if turning.is_possible() else 0
            if saved > most:
                best, most = turning, saved
        if best is not None:
            best.apply()
