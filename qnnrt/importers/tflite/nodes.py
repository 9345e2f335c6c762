"""One TFLite operator as the lowering functions see it, and the table of those functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .options import Options
from .refusal import Damaged, NotFixed, Unsupported
from .types import TensorInfo
from .values import Value

__all__ = [
    "TABLE",
    "Damaged",
    "LowerFn",
    "Mapping",
    "NotFixed",
    "Result",
    "TfliteNode",
    "Unsupported",
    "axis_of",
    "lowers",
]

if TYPE_CHECKING:
    from .lower import Lowering

Result = Value | list[Value]
LowerFn = Callable[["Lowering", "TfliteNode"], Result]


@dataclass(frozen=True)
class Mapping:
    """How a builtin operator is lowered."""

    lower: LowerFn
    to: str  # the QNN ops that it becomes, for the coverage page
    options: str  # its options table; "" when it has none that matters
    note: str  # limits, for the coverage page
    steps: bool  # fixed-point tensors become floats before it and fixed-point numbers behind it


#: BuiltinOperator -> how it is lowered.
TABLE: dict[str, Mapping] = {}


def lowers(
    *ops: str, to: str, options: str = "", note: str = "", steps: bool = False
) -> Callable[[LowerFn], LowerFn]:
    """Register a lowering for builtin operators `ops`.

    `steps`: it computes in several operations (or with constants of its own), so that fixed-point
    tensors have to become floats around it.
    """

    def register(fn: LowerFn) -> LowerFn:
        for op in ops:
            TABLE[op] = Mapping(fn, to, options, note, steps)
        return fn

    return register


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

    def all_inputs(self) -> list[Value]:
        return [self.input(i) for i in range(len(self.inputs))]

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
