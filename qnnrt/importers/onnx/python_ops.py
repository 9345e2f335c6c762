"""ONNX nodes of ops that ``qnnrt.qnn.register_op`` made."""

from __future__ import annotations

import onnx

from ... import custom_ops
from .nodes import Lowering, OnnxNode, Unsupported
from .reader import array_of
from .values import Value, identity


def lower(
    lowering: Lowering, node: OnnxNode, op: custom_ops.PythonOp, where: str
) -> list[Value | None]:
    """The node as one of the package of Python's ops, on tensors in ONNX's order."""
    b = lowering.b
    b.scope = node.name
    edges = [None if v is None else b.edge(b.plain(v)) for v in node.inputs]
    tensors = [None if e is None else custom_ops.OpTensor(e.shape, e.dtype) for e in edges]
    params = custom_ops.typed_params({k: _param(v, where) for k, v in node.attrs.items()})
    outputs = op.infer(tensors, params)
    if len(outputs) != len(node.outputs):
        raise ValueError(f"it has {len(node.outputs)} outputs; op {op.name!r} gives {len(outputs)}")
    made = b.raw(
        f"{custom_ops.PYTHON_PACKAGE}::{op.name}",
        edges,
        [(t.shape, t.dtype) for t in outputs],
        params,
    )
    return [
        Value(t.shape, t.dtype, e, identity(len(t.shape)))
        for t, e in zip(outputs, made, strict=True)
    ]


def _param(value: object, where: str) -> object:
    if isinstance(value, onnx.TensorProto):
        return array_of(value, where)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        return value
    raise Unsupported(f"an op in Python takes no attribute that is a {type(value).__name__}")
