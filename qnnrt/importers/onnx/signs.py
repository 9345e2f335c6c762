"""Which integers of a graph are never below 0, whatever the data: indices that need no look."""

from __future__ import annotations

import numpy as np

from ..graph import Edge, Op

#: By op type, the output that is places. Not NonZero's: rows without a place are -1.
_PLACES = {"Argmax": 0, "Argmin": 0, "TopK": 1}

#: What moves places and makes no others.
_MOVES = {"Cast", "Gather", "GatherElements", "GatherNd", "Reshape", "Split", "StridedSlice",
          "Transpose"}  # fmt: skip

#: By op type, the inputs of which the results are made without a sign being added.
_MADE_OF = {
    "Cast": slice(1), "Concat": slice(None), "ElementWiseAdd": slice(2),
    "ElementWiseMultiply": slice(2), "ElementWiseSelect": slice(1, 3), "Gather": slice(1),
    "GatherElements": slice(1), "GatherNd": slice(1), "Pack": slice(None), "Reshape": slice(1),
    "Split": slice(1), "StridedSlice": slice(1), "Tile": slice(1), "Transpose": slice(1),
    "UnPack": slice(1),
}  # fmt: skip


class Signs:
    """Of the tensors that operations made so far, those that are never below 0."""

    def __init__(self) -> None:
        self._known: set[Edge] = set()
        self._constants: dict[Edge, bool] = {}
        #: Those that are places in all of their rows, also in rows that do not count.
        self.places: set[Edge] = set()

    def _stays(self, op: Op) -> bool:
        """Whether no result of an operation is below 0, for all that it is given."""
        if op.type == "ElementWiseMaximum":
            return any(edge is not None and self.never_negative(edge) for edge in op.inputs)
        if op.type == "ElementWiseMinimum":  # of unsigned numbers one limit keeps them small
            unsigned = all(edge is not None and edge.dtype.kind == "u" for edge in op.inputs)
            some = any if unsigned else all
            return some(
                edge is not None
                and self.never_negative(edge)
                and not (unsigned and edge.data is not None and np.any(edge.data >= 2**31))
                for edge in op.inputs
            )
        which = _MADE_OF.get(op.type)
        given = op.inputs[which] if which is not None else []
        return bool(given) and all(edge is not None and self.never_negative(edge) for edge in given)

    def add(self, op: Op) -> None:
        if (place := _PLACES.get(op.type)) is not None:
            if place < len(op.outputs) and (edge := op.outputs[place]) is not None:
                self._known.add(edge)
        elif self._stays(op):
            self._known.update(edge for edge in op.outputs if edge is not None)
        if op.type in _PLACES or op.type == "NonZero" or (
            op.type in _MOVES and op.inputs[0] in self.places
        ):  # fmt: skip
            self.places.update(edge for edge in op.outputs if edge is not None)

    def never_negative(self, edge: Edge) -> bool:
        if edge.quantization is not None:
            return False
        if edge.data is None:
            # Of 32 bits and more a Cast may make numbers below 0.
            return edge in self._known or (edge.dtype.kind in "bu" and edge.dtype.itemsize < 4)
        if edge.dtype.kind not in "biu":
            return False
        known = self._constants.get(edge)
        if known is None:
            known = self._constants[edge] = not np.any(edge.data < 0)
        return known
