"""The functions that ONNX defines some operators by, and how a node is replaced by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx

from .nodes import OnnxNode
from .types import type_proto


def instantiate(
    body: onnx.NodeProto,
    renamed: Callable[[str], str],
    attributes: Mapping[str, onnx.AttributeProto],
) -> onnx.NodeProto:
    """A node of a function's body with the caller's names and attributes, subgraphs included."""
    proto = onnx.NodeProto(op_type=body.op_type, domain=body.domain, name=body.name)
    proto.input.extend(renamed(i) for i in body.input)
    proto.output.extend(renamed(o) for o in body.output)
    for attr in body.attribute:
        if attr.ref_attr_name:
            if attr.ref_attr_name in attributes:
                copy = proto.attribute.add()
                copy.CopyFrom(attributes[attr.ref_attr_name])
                copy.name = attr.name
            continue
        copy = proto.attribute.add()
        copy.CopyFrom(attr)
        if attr.type == onnx.AttributeProto.GRAPH:
            del copy.g.node[:]
            copy.g.node.extend(instantiate(n, renamed, attributes) for n in attr.g.node)
            for value in (*copy.g.input, *copy.g.output, *copy.g.initializer):
                value.name = renamed(value.name)
    return proto


def function_body(node: OnnxNode, schema: Any) -> onnx.FunctionProto | None:
    """The function that defines the node's operator at its version."""
    text = b""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.version]
        if versions:
            text = schema.get_function_with_opset_version(max(versions))
    if not text and schema.has_context_dependent_function:
        versions = list(schema.context_dependent_function_opset_versions)
        fitting = [v for v in versions if v <= node.version] or versions
        types = [b"" if v is None else type_proto(v).SerializeToString() for v in node.inputs]
        text = schema.get_context_dependent_function_with_opset_version(
            max(fitting), node.proto.SerializeToString(), types
        )
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function
