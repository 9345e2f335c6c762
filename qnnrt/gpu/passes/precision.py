"""Option ``precision``: the floats inside of a graph in another width than its tensors say.

Inputs and outputs keep their types; casts stand at the borders, but where a kernel casts what it
writes.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from ...abi import constants as abi
from ..ir import Ir, Node, Value
from ..ops import widens
from ..target import Target

__all__ = ["apply"]

Type: TypeAlias = tuple[np.dtype[Any], int]  # and the QNN data type
_F16: Final[Type] = (np.dtype(np.float16), abi.QNN_DATATYPE_FLOAT_16)
_F32: Final[Type] = (np.dtype(np.float32), abi.QNN_DATATYPE_FLOAT_32)
_INSIDE: Final = {"fp16": _F16, "hybrid": _F16, "fp32": _F32}


def apply(ir: Ir, target: Target) -> None:
    """Change what is inside to the width of the option; "user" changes nothing."""
    if target.precision not in _INSIDE:
        return
    inside = _INSIDE[target.precision]
    outside = _F32 if inside is _F16 else _F16
    changed: set[Value] = set()
    borders: dict[Value, Value] = {}
    for node in ir.nodes:
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.code == outside[1]:
                if value.kind in ("input", "output"):
                    borders.setdefault(value, _border(value, inside))
                else:
                    _change(value, inside)
                    changed.add(value)
        node.inputs = [None if v is None else borders.get(v, v) for v in node.inputs]
        node.outputs = [borders.get(v, v) for v in node.outputs]
    if inside is _F16:
        _widen_outputs(ir, borders)
    casts = {
        kind: [
            Node(f"{v.name} as {inside[0].name}", "Cast", [v], [b], {})
            if kind == "input"
            else Node(f"{v.name} from {inside[0].name}", "Cast", [b], [v], {})
            for v, b in borders.items()
            if v.kind == kind
        ]
        for kind in ("input", "output")
    }
    ir.nodes = [*casts["input"], *ir.nodes, *casts["output"]]
    if changed:
        ir.passes.append((f"{target.precision} inside", len(changed) + len(borders)))


def _widen_outputs(ir: Ir, borders: dict[Value, Value]) -> None:
    """Let nodes write outputs as they are where kernels can, and nobody reads what is inside."""
    read = {v for node in ir.nodes for v in node.inputs}
    for node in ir.nodes:
        for value in node.outputs if node.type in widens() else ():
            outside = next((v for v, b in borders.items() if b is value), None)
            if outside is not None and value not in read:
                node.outputs = [outside]
                del borders[outside]


def _border(value: Value, inside: Type) -> Value:
    return Value(f"{value.name} inside", 0, value.shape, *inside, "native")


def _change(value: Value, inside: Type) -> None:
    value.dtype, value.code = inside
    if value.data is not None:
        value.data = _narrow(value.data) if inside is _F16 else value.data.astype(np.float32)


def _narrow(data: np.ndarray) -> np.ndarray:
    """As 16-bit floats. Finite numbers stay finite: masks are often the lowest 32-bit float."""
    limit = np.finfo(np.float16).max
    with np.errstate(over="ignore"):
        small = data.astype(np.float16)
    over = np.isinf(small) & np.isfinite(data)
    if over.any():
        small[over] = np.copysign(limit, data[over])
    return small
