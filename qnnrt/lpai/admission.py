"""Which models an LPAI backend takes: those on fixed-point numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from .._native.op_table import choices, op_table
from ..dtypes import is_float
from ..errors import UnsupportedNode, UnsupportedOpError
from ..model import Model, Node
from ..qnn.backend_base import BackendBase

_FIXED_POINT: Final = "lpai computes on fixed-point numbers alone"
_QUANTIZE: Final = ": quantize the model first, see docs/quantization.md"


def refuse_floats(model: Model, backend: BackendBase) -> None:
    """Raises ``UnsupportedOpError`` with every node that computes on floats, or that this backend
    does not know, before anything is built."""
    known = set(backend.supported_ops) if backend.library.has_extensions else None
    refused = []
    for node in model.nodes:
        floats = list(dict.fromkeys(_floats(model, node)))
        shared = ""
        if floats:
            names = ", ".join(map(repr, floats))
            which = f"tensor {names} is" if len(floats) == 1 else f"tensors {names} are"
            reason = f"{_FIXED_POINT}, and {which} float{_QUANTIZE}"
            shared = _FIXED_POINT + _QUANTIZE
        elif known is not None and node.type not in known:
            reason = "lpai has no such operation"
        elif known is not None and (operation := _refused_operation(node)) is not None:
            reason = f"lpai has {node.type} without the operation {operation}"
        else:
            continue
        types = ", ".join(model.tensors[n].dtype.name for n in node.inputs if n)
        refused.append(UnsupportedNode(node.name, node.type, types, reason, shared))
    if refused:
        source = os.fspath(model.source) if model.source else None
        raise UnsupportedOpError(refused, source)


def _refused_operation(node: Node) -> str | None:
    """The name of what an op that has several operations is to do, where lpai has it without."""
    record = op_table().get(node.type)
    if record is None or "operation" not in node.params:
        return None
    number = int(np.asarray(node.params["operation"]))
    if number >= 32 or record["lpai_operations"] >> number & 1:
        return None
    names = choices(node.type, "operation")
    return repr(names[number]) if number < len(names) else str(number)


def _floats(model: Model, node: Node) -> Iterator[str]:
    record = op_table().get(node.type)
    for side, names in (("inputs", node.inputs), ("outputs", node.outputs)):
        if record is None or not (record["converts"] and record[side][0]["real"]):
            for name in names:
                if name and is_float(model.tensors[name].dtype):
                    yield name
