"""Operands of the HTP table's nodes, with short names of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qnnrt.model import Quantization
from support.one_node import Case, case

#: numpy's names of element types; those of fixed point have an encoding, too.
TYPES = {
    "u8": "uint8",
    "s8": "int8",
    "u16": "uint16",
    "s16": "int16",
    "s32": "int32",
    "f32": "float32",
    "f16": "float16",
    "i32": "int32",
    "ui8": "uint8",
    "ui32": "uint32",
    "bool": "bool",
}


@dataclass
class Operand:
    """A tensor of a node: its type and encoding, and what is in it (None: an output)."""

    type: str
    shape: tuple[int, ...]
    q: Quantization | None = None
    data: np.ndarray | None = None
    static: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(TYPES[self.type])


def case_of(
    op: str,
    inputs: Sequence[Operand | None],
    outputs: Sequence[Operand],
    params: Mapping[str, Any] | None = None,
) -> Case:
    """The node of operands."""
    encodings = {f"in{i}": o.q for i, o in enumerate(inputs) if o is not None}
    encodings |= {f"out{i}": o.q for i, o in enumerate(outputs)}
    return case(
        op,
        [None if o is None else o.data for o in inputs],
        [o.shape for o in outputs],
        params,
        static=[i for i, o in enumerate(inputs) if o is not None and o.static],
        dtype=[o.dtype for o in outputs],
        encodings=encodings,
    )
