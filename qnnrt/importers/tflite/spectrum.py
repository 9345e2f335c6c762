"""Complex numbers of a TFLite file, between the transform that makes them and what reads reals.

QNN has no such element type: a complex tensor is two float32 ones, its real part and, as
`Value.imaginary`, the other. What only moves elements is done to both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .refusal import Unsupported
from .types import TensorInfo
from .values import TfliteNode, Value

COMPLEX = "complex numbers (complex64): QNN has no such element type"

#: Operators that move elements, whatever these are.
_MOVING = {
    "CONCATENATION", "EXPAND_DIMS", "GATHER", "PACK", "RESHAPE", "REVERSE_V2", "SLICE", "SPLIT",
    "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE", "UNPACK",
}  # fmt: skip


def _real(tensor: TensorInfo) -> TensorInfo:
    """The tensor of one part of its numbers."""
    if not tensor.complex:
        return tensor
    return replace(tensor, type="float32", dtype=np.dtype(np.float32))


def lower(
    node: TfliteNode, reals: Callable[[TfliteNode], list[Value | None]]
) -> list[Value | None]:
    """The outputs of an operator some of whose tensors are complex; `reals` lowers one of floats.

    Raises `Unsupported` for operators that compute with complex numbers.
    """
    op, outputs = node.info.op, [_real(t) for t in node.outputs]
    parts: list[list[Value | None]] = [list(node.inputs), list(node.inputs)]
    for i, tensor in enumerate(node.tensors):
        value = node.inputs[i]
        if tensor is None or not tensor.complex:
            continue
        if value is None or value.imaginary is None:
            raise Unsupported(COMPLEX)
        parts[0][i], parts[1][i] = replace(value, imaginary=None), value.imaginary
    tensors = [None if t is None else _real(t) for t in node.tensors]
    made = [t.complex for t in node.outputs]
    if op == "RFFT2D" and made == [True]:
        real, imaginary = reals(replace(node, outputs=outputs * 2))
        return [_joined(real, imaginary)]
    if op in ("COMPLEX_ABS", "IMAG", "REAL") and made == [False]:
        return reals(replace(node, inputs=[p[0] for p in parts], tensors=tensors * 2))
    if op == "CAST" and made == [False]:
        return reals(replace(node, inputs=parts[0], tensors=tensors))
    if op in _MOVING and all(made):
        halves = [reals(replace(node, inputs=p, tensors=tensors, outputs=outputs)) for p in parts]
        return [_joined(*both) for both in zip(*halves, strict=True)]
    raise Unsupported(COMPLEX)


def _joined(real: Value | None, imaginary: Value | None) -> Value:
    assert real is not None
    return replace(real, imaginary=imaginary)
