"""Value numbering: which tensors of a graph that is being made are computed alike."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from ...dtypes import is_number
from ..graph import Edge, Op

#: Constants with more bytes are compared by identity.
_COMPARED = 4096

#: Each execution gives something else.
_CHANGING = {"Buffer", "Gru", "Lstm", "RandomUniformLike", "RandomNormalLike", "Rnn"}

#: Operations that keep the elements, in some order.
_MOVING = {"Reshape", "Transpose"}


class Numbering:
    """Numbers for the tensors of a growing list of operations: equal ones hold the same."""

    def __init__(self, ops: list[Op]) -> None:
        self._ops = ops
        self._done = 0
        self._number: dict[Edge, int] = {}
        self._known: dict[Hashable, int] = {}
        self._producer: dict[Edge, Op] = {}

    def of(self, edge: Edge) -> int:
        for op in self._ops[self._done :]:
            self._add(op)
        self._done = len(self._ops)
        return self._numbered(edge)

    def elements(self, edge: Edge) -> int:
        """The number of what has the same elements, in whatever order and shape."""
        self.of(edge)
        return self._numbered(self._source(edge, _MOVING))

    def repeated(self, edge: Edge) -> Edge:
        """What a tensor has the elements of, each of them as often as the others."""
        self.of(edge)
        return self._source(edge, _MOVING | {"Tile"}) if math.prod(edge.shape) else edge

    def joined(self, edge: Edge) -> list[Edge] | None:
        """What a tensor is a Concat of."""
        self.of(edge)
        op = self._producer.get(edge)
        if op is None or op.type != "Concat":
            return None
        return [e for e in op.inputs if e is not None]

    def apart(self, start: Edge, end: Edge) -> int | None:
        """How much one number is more than another, if that is known: it is the sum of both."""
        number = self.elements(start)
        self.of(end)
        op = self._producer.get(self._source(end, _MOVING | {"Cast"}))
        if op is None or op.type != "ElementWiseAdd":
            return None
        for one, other in (op.inputs, op.inputs[::-1]):
            if one is None or other is None or other.data is None or other.data.size != 1:
                continue
            near = self._source(one, _MOVING | {"Cast"})
            if self._numbered(near) in (number, self._numbered(self._source(start, {"Cast"}))):
                return int(other.data.reshape(-1)[0])
        return None

    def counted(self, edge: Edge) -> Edge | None:
        """The booleans of which a tensor of one element counts those that are true."""
        self.of(edge)
        op = self._producer.get(self._source(edge, _MOVING | {"Cast"}))
        if op is None or op.type != "ReduceSum" or (added := op.inputs[0]) is None:
            return None
        found = self._source(added, _MOVING)
        while found.dtype.kind in "iu" and (cast := self._producer.get(found)) is not None:
            if cast.type != "Cast" or (given := cast.inputs[0]) is None:
                return None
            found = self._source(given, _MOVING)
        return found if found.dtype.kind == "b" else None

    def _source(self, edge: Edge, through: set[str]) -> Edge:
        """What operations of these types made a tensor of; a Cast among integers alone."""
        while (op := self._producer.get(edge)) is not None and op.type in through:
            given = op.inputs[0]
            if given is None or given.quantization is not None:
                break
            if op.type == "Cast" and not (edge.dtype.kind in "iu" and given.dtype.kind in "iu"):
                break
            edge = given
        return edge

    def _numbered(self, edge: Edge) -> int:
        number = self._number.get(edge)
        if number is None:
            key: Hashable = edge
            data, plain = edge.data, edge.quantization is None
            if data is not None and plain and is_number(data.dtype) and data.nbytes <= _COMPARED:
                key = _content(data)
            number = self._number[edge] = self._known.setdefault(key, len(self._known))
        return number

    def _add(self, op: Op) -> None:
        inputs = tuple(None if e is None else self._numbered(e) for e in op.inputs)
        params = tuple((name, _content(np.asarray(v))) for name, v in sorted(op.params.items()))
        own = "::" in op.type or op.type in _CHANGING
        for index, edge in enumerate(op.outputs):
            if edge is None:
                continue
            self._producer[edge] = op
            if own or edge.quantization is not None:
                self._numbered(edge)
                continue
            key = (op.type, inputs, params, index, edge.shape, str(edge.dtype))
            self._number[edge] = self._known.setdefault(key, len(self._known))


def _content(data: np.ndarray) -> Hashable:
    return (str(data.dtype), data.shape, data.tobytes())
