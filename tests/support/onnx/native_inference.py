"""The inference of the ``onnx`` package, node by node, beside the importer's own.

Only for nodes that are known to be valid: others can end the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import shape_inference

from qnnrt.importers.onnx import lower
from qnnrt.importers.onnx.infer import RULES
from qnnrt.importers.onnx.nodes import OnnxNode

Types = list[tuple[tuple[int, ...], np.dtype] | None]


def _type_proto(shape: tuple[int, ...], dtype: np.dtype) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(
        onnx.helper.np_dtype_to_tensor_dtype(dtype), list(shape)
    )


def _type_of(proto: onnx.TypeProto | None) -> tuple[tuple[int, ...], np.dtype] | None:
    if proto is None or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type)
    return tuple(d.dim_value for d in dims), np.dtype(dtype)


def native(n: OnnxNode) -> Types:
    """What onnx infers for a node. Raises its `InferenceError`."""
    version = n.version or onnx.defs.onnx_opset_version()
    schema = onnx.defs.get_schema(n.op, version, n.domain)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name, value in zip(n.written.proto.input, n.inputs, strict=True):
        if name and value is not None:
            types[name] = _type_proto(value.shape, value.dtype)
            if value.is_const and math.prod(value.shape) <= 4096:
                data[name] = onnx.numpy_helper.from_array(np.array(value.const), name)
    imports = [onnx.helper.make_opsetid(n.domain, version)]
    found = shape_inference.infer_node_outputs(
        schema, n.written.proto, types, data, opset_imports=imports
    )
    return [_type_of(found.get(name)) for name in n.outputs]


class Compared:
    """Counts what agrees, and keeps what differs."""

    def __init__(self) -> None:
        self.agreed: dict[str, int] = {}
        self.differences: list[str] = []

    def __call__(self, n: OnnxNode) -> Types:
        own = lower_infer(n)
        if n.op not in RULES or n.domain != "":
            return own
        try:
            theirs = native(n)
        except Exception as exc:
            self.differences.append(f"{self._text(n)}: {own}, and onnx: {str(exc)[:200]}")
            return own
        for index, (a, b) in enumerate(zip(own, theirs, strict=True)):
            if a is not None and b is not None and a == b:
                self.agreed[n.op] = self.agreed.get(n.op, 0) + 1
            elif b is not None and n.outputs[index]:
                self.differences.append(f"{self._text(n)} output {index}: {a}, and onnx: {b}")
        return own

    @staticmethod
    def _text(n: OnnxNode) -> str:
        inputs = [None if v is None else f"{v.dtype.name}{list(v.shape)}" for v in n.inputs]
        return f"{n.op}-{n.version} of {inputs} with {dict(n.attrs)}"


lower_infer = lower.infer


@contextmanager
def each_by_itself() -> Iterator[None]:
    """Every node that is loaded meanwhile is lowered, also where one like it was before."""
    alike = lower.ALIKE
    lower.ALIKE = set()  # type: ignore[misc]
    try:
        yield
    finally:
        lower.ALIKE = alike  # type: ignore[misc]


@contextmanager
def beside_the_importers_own() -> Iterator[Compared]:
    """Every node that is loaded meanwhile is inferred twice."""
    compared = Compared()
    lower.infer = compared  # type: ignore[assignment]
    try:
        with each_by_itself():
            yield compared
    finally:
        lower.infer = lower_infer
