"""One node as a graph of its own, on any backend that speaks QNN: what it says, or its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qnnrt import qnn
from qnnrt.dtypes import data_type, numpy_dtype
from qnnrt.errors import QnnError
from qnnrt.model import Quantization

#: Short names of QNN data types.
TYPES = {
    "u8": "UFIXED_POINT_8",
    "s8": "SFIXED_POINT_8",
    "u16": "UFIXED_POINT_16",
    "s16": "SFIXED_POINT_16",
    "s32": "SFIXED_POINT_32",
    "s4": "SFIXED_POINT_4",
    "u4": "UFIXED_POINT_4",
    "f32": "FLOAT_32",
    "f16": "FLOAT_16",
    "i8": "INT_8",
    "i16": "INT_16",
    "i32": "INT_32",
    "i64": "INT_64",
    "ui8": "UINT_8",
    "ui16": "UINT_16",
    "ui32": "UINT_32",
    "bool": "BOOL_8",
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
        return numpy_dtype(data_type(TYPES[self.type]))


@dataclass
class Case:
    """A node."""

    op: str
    inputs: Sequence[Operand | None]
    outputs: Sequence[Operand]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of a case: the step that failed and its code, or the outputs."""

    stage: str  # "tensor", "validate", "node", "finalize", "execute", "crash" or "ran"
    code: int = 0
    text: str = ""
    outputs: list[np.ndarray] = field(default_factory=list)


def _add(graph: qnn.Graph, name: str, o: Operand | None, output: bool) -> Any:
    if o is None:
        return None
    kind = "app_read" if output else "static" if o.static else "app_write"
    data = np.ascontiguousarray(o.data) if o.static else None
    return graph.add_tensor(name, o.shape, TYPES[o.type], type=kind, data=data, quantization=o.q)


def run_case(backend: qnn.Backend, case: Case, **graph_options: Any) -> Outcome:
    """Make, check, finalize and execute the node."""
    stage = "tensor"
    try:
        with backend.create_context() as context:
            graph = context.create_graph("g", **graph_options)
            ins = [_add(graph, f"in{i}", o, False) for i, o in enumerate(case.inputs)]
            outs = [_add(graph, f"out{i}", o, True) for i, o in enumerate(case.outputs)]
            stage = "validate"
            backend.validate_op(case.op, ins, outs, case.params)
            stage = "node"
            graph.add_node("node", case.op, ins, outs, case.params)
            stage = "finalize"
            graph.finalize()
            stage = "execute"
            feeds = [np.ascontiguousarray(o.data) for o in case.inputs if o and not o.static]
            results = [np.full(o.shape, 77, o.dtype) for o in case.outputs]
            graph.execute(feeds, results)
            return Outcome("ran", outputs=results)
    except QnnError as e:
        return Outcome(stage, e.code, str(e))
