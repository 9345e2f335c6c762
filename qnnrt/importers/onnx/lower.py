"""The traversal of an ONNX graph: shapes, constants and functions resolved, each node lowered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference

from ...errors import ModelError, UnsupportedNode
from ..graph import Edge
from . import fold
from .functions import function_body, instantiate
from .nodes import TABLE, Lowering, OnnxNode, Result, Unsupported
from .patterns import OWN_DOMAIN
from .qlinear import BODIES, LINEAR, MICROSOFT
from .reader import array_of
from .types import TypeOf, type_of, type_proto
from .values import Value, constant

#: What keeps a constant with an encoding as the integers that it is.
_KEEP_CODES = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}

#: Constants of at most this many elements take part in shape inference.
_INFERENCE_ELEMENTS = 4096


class Lost(Exception):
    """A result comes from a node that is listed as unsupported already."""


class GraphLowering(Lowering):
    """State of one import: the builder, and what is known of every ONNX value."""

    def __init__(self, where: str, opsets: dict[str, int], stateful: bool = False) -> None:
        super().__init__(stateful)
        self.where = where
        self.opsets = opsets
        self.env: dict[str, Value] = {}
        self.poisoned: set[str] = set()  # outputs of nodes that could not be lowered
        self.unsupported: list[UnsupportedNode] = []
        self._calls = 0

    # ---- inputs ----------------------------------------------------------------------------

    def add_input(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, perm: tuple[int, ...]
    ) -> Edge:
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
        if value is None or not value.is_const or math.prod(value.shape) != 1:
            return None
        return float(value.const.reshape(-1)[0])

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
        except Lost:
            self.poisoned.update(filter(None, node.outputs))
            return
        except Unsupported as exc:
            self._refuse(node, str(exc))
            return
        except (ModelError, MemoryError):
            raise
        except Exception as exc:
            raise ModelError(
                f"{self.where}: node {name!r} ({node.op}) on {self._types(node)} is not valid: "
                f"{str(exc) or type(exc).__name__}"
            ) from exc
        for out, value in zip(node.outputs, results, strict=False):
            if out and value is not None:
                self.env[out] = value
                if value.edge is not None and not value.edge.name:
                    value.edge.name = out

    def _known(self, node: OnnxNode) -> bool:
        if (node.domain == "" and node.op in TABLE) or node.op in FOLDED_OPS:
            return True
        if node.op in LINEAR or (node.domain, node.op) in BODIES:
            return True
        schema = self._schema(node)
        return bool(
            schema is not None and (schema.has_function or schema.has_context_dependent_function)
        )

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
        if node.domain == "" and node.op == "EyeLike":
            return [constant(self._eye(node))]
        if node.domain == "" and node.op == "Constant":
            return [constant(self._constant(node))]
        if node.domain == "" and node.op == "If":
            return self._branch(node, opsets)
        if node.op in LINEAR and node.domain in ("", MICROSOFT, OWN_DOMAIN):
            self.b.scope = node.name
            return _listed(TABLE[node.op](self, node))
        if node.domain == OWN_DOMAIN:
            self.b.scope = node.name
            return _listed(TABLE[node.op](self, node))
        if (node.domain, node.op) in BODIES:
            return self._inline(node, BODIES[node.domain, node.op](node), opsets)
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
        folds = (
            node.op not in fold.RANDOM
            and all(v is None or v.is_const for v in node.inputs)
            and not any(a.type == onnx.AttributeProto.GRAPH for a in node.proto.attribute)
        )
        try:
            node.types = self._infer(node, schema, opsets)
        except shape_inference.InferenceError:
            if not folds:  # evaluating is more lenient: Range takes tensors of one element
                raise
        codes = node.op in _KEEP_CODES and any(v is not None and v.coded for v in node.inputs)
        if folds and not codes:
            return self._fold(node, opsets)
        lower = TABLE.get(node.op) if node.domain == "" else None
        refusal: Unsupported | None = None
        if lower is not None:
            for v in node.inputs:
                assert v is None or v.is_const or 0 not in v.shape
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
    def _schema(node: OnnxNode) -> Any:
        try:
            schema = onnx.defs.get_schema(node.op, node.version, node.domain)
        except (onnx.defs.SchemaError, TypeError):
            return None
        return None if schema.deprecated else schema

    def _infer(self, node: OnnxNode, schema: Any, opsets: dict[str, int]) -> list[TypeOf]:
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, value in zip(node.proto.input, node.inputs, strict=True):
            if not name or value is None:
                continue
            types[name] = type_proto(value)
            if value.is_const and math.prod(value.shape) <= _INFERENCE_ELEMENTS:
                data[name] = onnx.numpy_helper.from_array(np.array(value.const), name)
        imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
        found = shape_inference.infer_node_outputs(
            schema, node.proto, types, data, opset_imports=imports
        )
        return [type_of(found.get(name)) for name in node.outputs]

    def _measure(self, node: OnnxNode) -> np.ndarray:
        shape = node.input(0).shape
        if node.op == "Size":
            return np.array(math.prod(shape), np.int64)
        end = node.integer("end", len(shape))
        return np.array(shape[node.integer("start") : end], np.int64)

    def _eye(self, node: OnnxNode) -> np.ndarray:
        x = node.input(0)
        to = node.attrs.get("dtype")
        dtype = x.dtype
        if to is not None:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.integer("dtype")))
        rows, columns = x.shape
        return np.asarray(np.eye(rows, columns, node.integer("k")), dtype)

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
            raise Lost
        return [self.env.get(name) for name in names]

    def _expand(
        self, node: OnnxNode, schema: Any, opsets: dict[str, int]
    ) -> list[Value | None] | None:
        """The node through the function that ONNX defines it by, if there is one."""
        function = function_body(node, schema)
        if function is None:
            return None
        attributes = {a.name: a for a in node.proto.attribute}
        for key, attribute in schema.attributes.items():
            if key not in attributes and attribute.default_value.type:
                attributes[key] = attribute.default_value
        return self._inline(node, function, opsets, attributes)

    def _inline(
        self,
        node: OnnxNode,
        function: onnx.FunctionProto,
        opsets: dict[str, int],
        attributes: Mapping[str, onnx.AttributeProto] | None = None,
    ) -> list[Value | None]:
        """The body of a function instead of the node."""
        self._calls += 1
        prefix = f"{node.name}.{self._calls}."
        names = dict(zip(function.input, node.proto.input, strict=False))
        names |= dict.fromkeys(list(function.input)[len(node.proto.input) :], "")

        def renamed(name: str) -> str:
            return names.get(name, prefix + name) if name else ""

        inner = dict(opsets) | {
            ("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import
        }
        mark = len(self.unsupported)
        for index, body in enumerate(function.node):
            proto = instantiate(body, renamed, attributes or {})
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


def _listed(result: Result) -> list[Value | None]:
    return result if isinstance(result, list) else [result]


#: Operators that exist only among constants.
FOLDED_OPS = {"Constant", "ConstantOfShape", "Range", "Shape", "Size", "EyeLike"}
