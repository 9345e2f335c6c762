"""The functions that a file brings along or ONNX defines operators by, and how a node is replaced
by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx

from ...errors import ModelError
from ..budget import Budget
from ..guard import shortened
from .nodes import OnnxNode
from .types import type_proto
from .written import Written, written

if TYPE_CHECKING:
    from .child import Child

#: Bodies that depend on their node, by what they depend on: a network asks for few, often.
_BODIES: dict[tuple[object, ...], bytes] = {}
_MOST_BODIES = 256

#: (domain, name, overload) of a function that a file brings along.
Key = tuple[str, str, str]


def _domain(text: str) -> str:
    return "" if text == "ai.onnx" else text


def local_functions(model: onnx.ModelProto, where: str) -> dict[Key, onnx.FunctionProto]:
    """The functions of a file by what calls them."""
    found: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (_domain(function.domain), function.name, function.overload)
        if key in found:
            raise ModelError(
                f"{where}: function {shortened(repr(function.name))} of domain "
                f"{shortened(repr(function.domain))} is there twice"
            )
        found[key] = function
    return found


def called(functions: Mapping[Key, onnx.FunctionProto], node: Written) -> onnx.FunctionProto | None:
    """The function of the file that a node calls."""
    return functions.get((_domain(node.domain), node.op_type, node.overload))


def arguments(function: onnx.FunctionProto, node: Written) -> dict[str, onnx.AttributeProto]:
    """The attributes of a call: the caller's, and the function's defaults."""
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise ValueError(
            f"the function has {len(function.input)} inputs and {len(function.output)} outputs; "
            f"it is called with {len(node.input)} and {len(node.output)}"
        )
    given = {a.name: a for a in function.attribute_proto}
    known = {*given, *function.attribute}
    for attr in node.attribute:
        if attr.name in known:
            given[attr.name] = attr
    missing = sorted(set(function.attribute) - set(given))
    # An attribute that is left out is left out of the nodes that refer to it, too.
    for name in missing:
        given.pop(name, None)
    return given


def function_body(node: OnnxNode, schema: Any, child: Child) -> onnx.FunctionProto | None:
    """The function that defines the node's operator at its version."""
    text = b""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.version]
        if versions:
            text = schema.get_function_with_opset_version(max(versions))
    if not text and schema.has_context_dependent_function:
        versions = list(schema.context_dependent_function_opset_versions)
        fitting = [v for v in versions if v <= node.version] or versions
        text = _context_dependent(node, max(fitting), child)
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def _context_dependent(node: OnnxNode, version: int, child: Child) -> bytes:
    """A body that onnx's native code writes for this node: in a process of its own."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.written.proto)
    # The body does not depend on names, so nodes that differ in nothing else share it.
    proto.name = proto.doc_string = ""
    for names, letter in ((proto.input, "i"), (proto.output, "o")):
        for index, name in enumerate(names):
            names[index] = f"{letter}{index}" if name else ""
    text = proto.SerializeToString(deterministic=True)
    types = tuple(b"" if v is None else type_proto(v).SerializeToString() for v in node.inputs)
    key = (node.op, node.domain, version, text, types)
    body = _BODIES.get(key)
    if body is None:
        body = child.expand(node.op, node.domain, version, text, types)
        if len(text) + len(body) < 2**16:
            if len(_BODIES) >= _MOST_BODIES:
                _BODIES.clear()
            _BODIES[key] = body
    return body


def instantiate(
    body: Written | onnx.NodeProto,
    renamed: Callable[[str], str],
    attributes: Mapping[str, onnx.AttributeProto],
    budget: Budget,
) -> onnx.NodeProto:
    """A node of a function's body with the caller's names and attributes, subgraphs included."""
    proto = onnx.NodeProto(
        op_type=body.op_type, domain=body.domain, name=body.name, overload=body.overload
    )
    proto.input.extend(renamed(i) for i in body.input)
    proto.output.extend(renamed(o) for o in body.output)
    for attr in body.attribute:
        source = attributes.get(attr.ref_attr_name) if attr.ref_attr_name else attr
        if source is None:
            continue
        copy = proto.attribute.add()
        if attr.ref_attr_name:
            _copy(copy, source, budget)  # the caller's subgraphs have the caller's names
        else:
            _copy(copy, source, budget, renamed, attributes)
        copy.name = attr.name
    return proto


def _copy(
    copy: onnx.AttributeProto,
    source: onnx.AttributeProto,
    budget: Budget,
    renamed: Callable[[str], str] | None = None,
    attributes: Mapping[str, onnx.AttributeProto] | None = None,
) -> None:
    """An attribute of a body for one call. Its bytes count: a body can be called very often."""
    if renamed is None or not (source.HasField("g") or source.graphs):
        budget.take(source.ByteSize(), "an attribute in the body of a function")
        copy.CopyFrom(source)
        return
    copy.type = source.type
    pairs = [(copy.graphs.add(), graph) for graph in source.graphs]
    if source.HasField("g"):
        pairs.append((copy.g, source.g))
    for target, graph in pairs:
        budget.step()
        target.name = graph.name
        for node in graph.node:
            budget.step()
            target.node.append(instantiate(node, renamed, attributes or {}, budget))
        for kind in ("input", "output", "initializer", "sparse_initializer"):
            for value in getattr(graph, kind):
                budget.take(value.ByteSize(), "a value in the body of a function")
                added = getattr(target, kind).add()
                added.CopyFrom(value)
                named = added.values if kind == "sparse_initializer" else added
                named.name = renamed(named.name)


def needed(nodes: Sequence[Written], outputs: Iterable[str]) -> list[tuple[int, Written]]:
    """The nodes that `outputs` depend on, in their order, with their places."""
    wanted = set(outputs)
    kept: list[tuple[int, Written]] = []
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if not wanted.isdisjoint(node.output):
            wanted.update(node.input)
            if node.graphs:
                wanted.update(subgraph_reads(node))
            wanted.discard("")  # left out
            kept.append((index, node))
    return kept[::-1]


def subgraph_reads(node: Written) -> Iterator[str]:
    """Every name of the graph around them that the subgraphs of a node read."""
    for graph in node.graphs:
        nodes = written(graph.node)
        own = defined(graph, nodes)
        yield from (o.name for o in graph.output if o.name not in own)
        for inner in nodes:
            yield from (name for name in inner.input if name not in own)
            yield from (name for name in subgraph_reads(inner) if name not in own)


def defined(graph: onnx.GraphProto, nodes: Iterable[Written]) -> set[str]:
    """The names that a graph gives a meaning, whatever they stand for around it."""
    found = {value.name for value in (*graph.input, *graph.initializer)}
    found.update(sparse.values.name for sparse in graph.sparse_initializer)
    return found.union(*(node.output for node in nodes)) - {""}
