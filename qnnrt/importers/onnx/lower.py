"""The walk over an ONNX graph: shapes, constants and functions resolved, each node lowered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import shape_inference

from ...errors import ModelError, UnsupportedNode
from ...model import ELEMENT_TYPES
from . import fold
from .nodes import TABLE, OnnxNode, Result, Unsupported
from .reader import array_of
from .values import Builder, Edge, Value, constant, identity

TypeOf = tuple[tuple[int, ...], np.dtype] | None

#: Constants of at most this many elements take part in shape inference.
_INFERENCE_ELEMENTS = 4096


class Lowering:
    """State of one import: the builder, and what is known of every ONNX value."""

    def __init__(self, where: str, opsets: dict[str, int]) -> None:
        self.where = where
        self.opsets = opsets
        self.b = Builder()
        self.env: dict[str, Value] = {}
        self.poisoned: set[str] = set()  # outputs of nodes that could not be lowered
        self.unsupported: list[UnsupportedNode] = []
        self._calls = 0

    # ---- inputs ----------------------------------------------------------------------------

    def add_input(self, name: str, shape: tuple[int, ...], dtype: np.dtype, perm: tuple[int, ...]):
        edge = Edge(tuple(shape[p] for p in perm) or (1,), dtype, name=name)
        self.env[name] = Value(shape, dtype, edge, perm)
        return edge

    def add_constant(
        self, name: str, value: np.ndarray, shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        if value.shape != shape or value.dtype != dtype:
            raise ModelError(
                f"{self.where}: input {name!r} is {dtype.name}{list(shape)}; constants= gives it "
                f"{value.dtype.name}{list(value.shape)}"
            )
        self.env[name] = constant(value)

    def scalar(self, name: str) -> float | None:
        """The value of a constant with one element."""
        value = self.env.get(name)
        if value is None or value.data is None or value.data.size != 1:
            return None
        return float(value.data.reshape(-1)[0])

    def add_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            self.env[tensor.name] = constant(array_of(tensor, self.where))
        for sparse in graph.sparse_initializer:
            values = array_of(sparse.values, self.where)
            index = array_of(sparse.indices, self.where)
            dense = np.zeros(tuple(sparse.dims), values.dtype)
            if index.ndim == 1:
                dense.reshape(-1)[index] = values
            else:
                dense[tuple(index.T)] = values
            self.env[sparse.values.name] = constant(dense)

    # ---- nodes -----------------------------------------------------------------------------

    def nodes(self, protos: Iterable[onnx.NodeProto], opsets: dict[str, int]) -> None:
        for index, proto in enumerate(protos):
            self.node(proto, opsets, proto.name or f"{proto.op_type}_{index}")

    def node(self, proto: onnx.NodeProto, opsets: dict[str, int], name: str) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        inputs = [self.env.get(i) if i else None for i in proto.input]
        node = OnnxNode(
            name,
            proto.op_type,
            domain,
            opsets.get(domain, 0),
            inputs,
            list(proto.output),
            [None] * len(proto.output),
            proto,
            attrs,
        )
        if any(i in self.poisoned for i in proto.input):
            if not self._known(node):
                self._refuse(node, "no QNN operation corresponds to it")
            self.poisoned.update(filter(None, node.outputs))
            return
        try:
            results = self._lower(node, opsets)
        except Unsupported as exc:
            self._refuse(node, str(exc))
            return
        except (ModelError, MemoryError):
            raise
        except Exception as exc:
            raise ModelError(
                f"{self.where}: node {name!r} ({node.op}) on {self._types(node)} is not valid: "
                f"{exc or type(exc).__name__}"
            ) from exc
        for out, value in zip(node.outputs, results, strict=False):
            if out and value is not None:
                self.env[out] = value
                if value.edge is not None and not value.edge.name:
                    value.edge.name = out

    def _known(self, node: OnnxNode) -> bool:
        if node.domain == "" and node.op in TABLE or node.op in _FOLDED_ONLY:
            return True
        schema = self._schema(node)
        return schema is not None and (schema.has_function or schema.has_context_dependent_function)

    def _refuse(self, node: OnnxNode, reason: str) -> None:
        op = node.op if not node.domain else f"{node.domain}.{node.op}"
        self.unsupported.append(UnsupportedNode(node.name, op, self._types(node), reason))
        self.poisoned.update(filter(None, node.outputs))

    @staticmethod
    def _types(node: OnnxNode) -> str:
        return ", ".join(
            "-" if v is None else f"{v.dtype.name}{list(v.shape)}" for v in node.inputs
        )

    def _lower(self, node: OnnxNode, opsets: dict[str, int]) -> list[Value | None]:
        if node.domain == "" and node.op in ("Shape", "Size"):
            return [constant(self._measure(node))]
        if node.domain == "" and node.op == "Constant":
            return [constant(self._constant(node))]
        if node.domain == "" and node.op == "If":
            return self._branch(node, opsets)
        schema = self._schema(node)
        if schema is None:
            raise Unsupported(
                f"not an operator of {node.domain or 'ONNX'} opset {node.version}"
                if node.version
                else f"the model does not import the operator set {node.domain!r}"
            )
        for key, attribute in schema.attributes.items():
            if key not in node.attrs and attribute.default_value.type:
                node.attrs[key] = onnx.helper.get_attribute_value(attribute.default_value)
        node.types = self._infer(node, schema, opsets)
        if (
            node.op not in fold.RANDOM
            and all(v is None or v.is_const for v in node.inputs)
            and not any(a.type == onnx.AttributeProto.GRAPH for a in node.proto.attribute)
        ):
            return self._fold(node, opsets)
        lower = TABLE.get(node.op) if node.domain == "" else None
        refusal: Unsupported | None = None
        if lower is not None:
            for v in node.inputs:
                if v is not None and 0 in v.shape and not v.is_const:
                    raise Unsupported("an input has no elements")
            self.b.scope = node.name
            try:
                return _listed(lower(self, node))
            except Unsupported as exc:
                refusal = exc  # what was emitted for it so far has no consumer and is dropped
        expanded = self._expand(node, schema, opsets)
        if expanded is not None:
            return expanded
        raise refusal or Unsupported("no QNN operation corresponds to it")

    # ---- what a node is ----------------------------------------------------------------------

    @staticmethod
    def _schema(node: OnnxNode) -> onnx.defs.OpSchema | None:
        try:
            schema = onnx.defs.get_schema(node.op, node.version, node.domain)
        except (onnx.defs.SchemaError, TypeError):
            return None
        return None if schema.deprecated else schema

    def _infer(
        self, node: OnnxNode, schema: onnx.defs.OpSchema, opsets: dict[str, int]
    ) -> list[TypeOf]:
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, value in zip(node.proto.input, node.inputs, strict=True):
            if not name or value is None:
                continue
            types[name] = type_proto(value)
            if value.data is not None and value.data.size <= _INFERENCE_ELEMENTS:
                data[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(value.data), name)
        imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
        found = shape_inference.infer_node_outputs(
            schema, node.proto, types, data, opset_imports=imports
        )
        return [type_of(found.get(name)) for name in node.outputs]

    def _measure(self, node: OnnxNode) -> np.ndarray:
        shape = node.input(0).shape
        if node.op == "Size":
            return np.array(math.prod(shape), np.int64)
        end = node.attrs.get("end")
        return np.array(shape[node.integer("start") : end], np.int64)  # type: ignore[misc]

    def _constant(self, node: OnnxNode) -> np.ndarray:
        for key, value in node.attrs.items():
            if key == "value" and isinstance(value, onnx.TensorProto):
                return array_of(value, self.where)
            if key in ("value_float", "value_floats"):
                return np.array(value, np.float32)
            if key in ("value_int", "value_ints"):
                return np.array(value, np.int64)
        raise Unsupported(f"a constant given by {', '.join(node.attrs) or 'nothing'}")

    def _fold(self, node: OnnxNode, opsets: dict[str, int]) -> list[Value | None]:
        arrays = fold.fold(node, [None if v is None else v.data for v in node.inputs], opsets)
        return [constant(a) if name else None for a, name in zip(arrays, node.outputs, strict=True)]

    # ---- nodes made of other nodes -----------------------------------------------------------

    def _branch(self, node: OnnxNode, opsets: dict[str, int]) -> list[Value | None]:
        condition = node.const_input(0, "the condition")
        assert condition is not None
        graph = node.attrs["then_branch" if condition.all() else "else_branch"]
        assert isinstance(graph, onnx.GraphProto)
        self.add_initializers(graph)
        self.nodes(graph.node, opsets)
        return self._results([o.name for o in graph.output])

    def _results(self, names: list[str]) -> list[Value | None]:
        lost = [name for name in names if name in self.poisoned]
        if lost:
            raise Unsupported("it contains a node that is not supported")
        return [self.env.get(name) for name in names]

    def _expand(
        self, node: OnnxNode, schema: onnx.defs.OpSchema, opsets: dict[str, int]
    ) -> list[Value | None] | None:
        """The node through the function that ONNX defines it by, if there is one."""
        function = function_body(node, schema)
        if function is None:
            return None
        self._calls += 1
        prefix = f"{node.name}.{self._calls}."
        names = {i: o for i, o in zip(function.input, node.proto.input, strict=False)}
        names |= {i: "" for i in list(function.input)[len(node.proto.input) :]}
        attributes = {a.name: a for a in node.proto.attribute}
        for key, attribute in schema.attributes.items():
            if key not in attributes and attribute.default_value.type:
                attributes[key] = attribute.default_value

        def renamed(name: str) -> str:
            return names.get(name, prefix + name) if name else ""

        inner = dict(opsets) | {("" if o.domain == "ai.onnx" else o.domain): o.version
                                for o in function.opset_import}
        mark = len(self.unsupported)
        for index, body in enumerate(function.node):
            proto = onnx.NodeProto(op_type=body.op_type, domain=body.domain)
            proto.input.extend(renamed(i) for i in body.input)
            proto.output.extend(renamed(o) for o in body.output)
            for attr in body.attribute:
                if attr.ref_attr_name:
                    if attr.ref_attr_name in attributes:
                        copy = proto.attribute.add()
                        copy.CopyFrom(attributes[attr.ref_attr_name])
                        copy.name = attr.name
                else:
                    proto.attribute.add().CopyFrom(attr)
            self.node(proto, inner, f"{prefix}{body.op_type}_{index}")
        inner_errors = self.unsupported[mark:]
        if inner_errors:
            del self.unsupported[mark:]
            raise Unsupported(
                "it is defined by a function with unsupported parts: "
                + "; ".join(f"{e.op} ({e.types}): {e.reason}" for e in inner_errors)
            )
        wanted = list(function.output)[: len(node.outputs)]
        return self._results([renamed(o) for o in wanted])


def function_body(node: OnnxNode, schema: onnx.defs.OpSchema) -> onnx.FunctionProto | None:
    """The function that defines the node's operator at its version."""
    text = b""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.version]
        if versions:
            text = schema.get_function_with_opset_version(max(versions))
    if not text and schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions]
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


def type_proto(value: Value) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(
        onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    )


def type_of(proto: onnx.TypeProto | None) -> TypeOf:
    """Shape and element type, or None when either is not fully known."""
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return None
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        return None
    return tuple(d.dim_value for d in dims), np.dtype(dtype)


def _listed(result: Result) -> list[Value | None]:
    return result if isinstance(result, list) else [result]


def graph_inputs(
    graph: onnx.GraphProto,
    where: str,
    shapes: Mapping[str, object],
    constants: Mapping[str, np.ndarray],
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of every real input, symbolic dimensions filled from `shapes`."""
    initialized = {i.name for i in graph.initializer}
    initialized |= {s.values.name for s in graph.sparse_initializer}
    found: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    unknown: list[str] = []
    names = set()
    for value in graph.input:
        if value.name in initialized:
            continue
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "nothing"
            raise ModelError(f"{where}: input {value.name!r} is a {kind}, not a tensor")
        names.add(value.name)
        tensor = value.type.tensor_type
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except KeyError:
            raise ModelError(
                f"{where}: input {value.name!r} has the unknown element type {tensor.elem_type}"
            ) from None
        if value.name not in constants and dtype not in ELEMENT_TYPES:
            raise ModelError(f"{where}: input {value.name!r} is {dtype.name}; QNN has no such type")
        names |= {d.dim_param for d in tensor.shape.dim if d.dim_param}
        given = shapes.get(value.name)
        if given is not None:
            wanted = tuple(int(d) for d in given)  # type: ignore[attr-defined]
            _check_given(value, wanted, where)
        else:
            dims = [shapes.get(d.dim_param, d.dim_param or "?") if not d.HasField("dim_value")
                    else d.dim_value for d in tensor.shape.dim]
            if not tensor.HasField("shape") or not all(isinstance(d, int) for d in dims):
                text = ", ".join(map(str, dims)) if tensor.HasField("shape") else "any rank"
                unknown.append(f"{value.name!r} [{text}]")
                continue
            wanted = tuple(dims)  # type: ignore[arg-type]
        if not all(d > 0 for d in wanted) and value.name not in constants:
            raise ModelError(f"{where}: input {value.name!r} has the shape {list(wanted)}")
        found[value.name] = (wanted, dtype)
    unknown = [u for u in unknown if u.split("'")[1] not in constants]
    if unknown:
        raise ModelError(
            f"{where}: the shape of {'an input' if len(unknown) == 1 else 'some inputs'} is not "
            f"fixed: {', '.join(unknown)}. Give it when loading: shapes={{name: (d0, d1, ...)}}, "
            "or shapes={dimension name: size}"
        )
    stray = sorted((set(shapes) | set(constants)) - names)
    if stray:
        raise ModelError(f"{where} has no input or dimension named {', '.join(map(repr, stray))}")
    return found


def _check_given(value: onnx.ValueInfoProto, wanted: tuple[int, ...], where: str) -> None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    dims = tensor.shape.dim
    fits = len(dims) == len(wanted) and all(
        not d.HasField("dim_value") or d.dim_value == w for d, w in zip(dims, wanted, strict=True)
    )
    if not fits:
        text = ", ".join(str(d.dim_value or d.dim_param or "?") for d in dims)
        raise ModelError(
            f"{where}: input {value.name!r} is [{text}]; shapes= gives it {list(wanted)}"
        )


_FOLDED_ONLY = {"Constant", "ConstantOfShape", "Range", "Shape", "Size", "EyeLike"}

__all__ = ["Lowering", "graph_inputs", "identity"]
