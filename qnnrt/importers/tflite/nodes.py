"""One TFLite operator, with what it reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .options import Options
from .refusal import Damaged, Unsupported
from .types import TensorInfo
from .values import Value

__all__ = ["Damaged", "TfliteNode", "Unsupported", "axis_of"]


@dataclass
class TfliteNode:
    """An operator with its inputs resolved. Optional inputs left out are None."""

    name: str
    op: str
    index: int
    version: int
    inputs: list[Value | None]
    tensors: list[TensorInfo | None]  # of the inputs
    outputs: list[TensorInfo]
    options: Options

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int = 0) -> Value:
        value = self.optional(index)
        if value is None:
            raise Damaged(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def dtype(self, index: int = 0) -> np.dtype:
        """The declared element type of an output."""
        found = self.outputs[index].dtype if index < len(self.outputs) else None
        if found is None:
            raise Damaged(f"output {index} is missing")
        return found

    def const(self, index: int, what: str) -> np.ndarray:
        """The value of an input that QNN takes as a parameter."""
        value = self.input(index)
        if value.data is None:
            raise Unsupported(
                f"{what} (input {index}) is computed when the model runs; a QNN graph has it fixed"
            )
        return value.data

    def ints(self, index: int, what: str) -> list[int]:
        return [int(v) for v in np.asarray(self.const(index, what)).reshape(-1)]

    def scalar(self, index: int, what: str) -> int:
        found = self.ints(index, what)
        if len(found) != 1:
            raise Damaged(f"{what} (input {index}) has {len(found)} elements instead of one")
        return found[0]


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis."""
    if not -rank <= axis < max(rank, 1):
        raise Damaged(f"axis {axis} is not one of a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
