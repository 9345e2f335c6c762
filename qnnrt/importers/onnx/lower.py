"""The traversal of an ONNX graph: shapes, constants and functions resolved, each node lowered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import onnx

from ... import custom_ops
from ...errors import ModelError, UnsupportedNode
from .. import admission
from ..budget import Budget
from ..encodings import Coded
from ..graph import Edge, Op, physical
from ..guard import shortened
from . import alike, constants, counted, fold, patterns
from .alike import ALIKE
from .bodies import (
    CLASSICAL,
    DIRECT,
    LINEAR,
    MICROSOFT,
    OTHERWISE,
    AsDefined,
    body_of,
    has_body,
)
from .checks import Spec, attributes_of, check, check_attributes, check_results, newest, spec_of
from .functions import Key, arguments, called, function_body, instantiate, needed
from .infer import empty, infer, misfit
from .nodes import TABLE, USUAL, OnnxNode, Refused, Result, Unsupported
from .nodes import needed as needed_input
from .order import in_order
from .patterns import OWN_DOMAIN, Scalar
from .reader import array_of, dense_of, opset_of
from .scope import CONTROL, ROWS, Lost, Scope
from .types import TypeOf
from .values import Thing, Trace, Value, constant
from .written import Initializer, Written, initializers, written

#: What keeps a constant with an encoding as the integers that it is.
_KEEP_CODES = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}

#: How many types of a node's inputs an error message lists.
_LISTED = 8


_OWN_LAYOUT = (
    "ONNX Runtime's own memory layout for one kind of processor, which it writes at optimization "
    "level ALL: have it write the file at level ORT_ENABLE_EXTENDED"
)
#: Domains of operators that are not computations of a model, but of one program's inside.
_LAID_OUT = {
    "com.microsoft.nchwc": _OWN_LAYOUT,
    "com.ms.internal.nhwc": _OWN_LAYOUT,
}


#: The first opset with LayerNormalization.
_LAYER_NORM = 17
#: Operators that only move and scale their constants.
_WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


class GraphLowering(Scope):
    """State of one import: the builder, and what is known of every ONNX value."""

    def __init__(
        self,
        where: str,
        opsets: dict[str, int],
        stateful: bool = False,
        budget: Budget | None = None,
        functions: Mapping[Key, onnx.FunctionProto] | None = None,
        capacities: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(where, stateful, budget)
        self.capacities = capacities or {}
        self.wanted: dict[str, Value] = {}  # what a tensor with a capacity would have been
        self.opsets = opsets
        self.functions = functions or {}
        self.unsupported: list[UnsupportedNode] = []
        self._made: set[int] = set()  # constants that were computed, by their id
        self._lowered: dict[str, tuple[str, list[Value | None]]] = {}  # operator and inputs

    # ---- inputs ----------------------------------------------------------------------------

    def add_input(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, perm: tuple[int, ...]
    ) -> Edge:
        edge = Edge(physical([shape[p] for p in perm]), dtype, name=name, scalar=not shape)
        # One without elements has nothing to compute with: it is known, as a constant is.
        known = constant(np.empty(shape, dtype)) if 0 in shape else None
        self.env[name] = known or Value(shape, dtype, edge, perm)
        if name in self.capacities:
            self._hold(name)
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

    def add_initializers(
        self,
        graph: onnx.GraphProto,
        found: Iterable[Initializer] | None = None,
        apart: Mapping[int, memoryview] | None = None,
    ) -> None:
        """`found`: those of the graph; `apart`: raw data that is not in it, by their index."""
        if found is None:
            found = initializers(graph)
        for index, each in enumerate(found):
            array = each.array
            if array is None:
                array = array_of(each.proto, self.where, apart.get(index) if apart else None)
            self.env[each.name] = constant(array)  # type: ignore[index]
        for sparse in graph.sparse_initializer:
            dense = dense_of(sparse, self.where, self.budget)
            self.env[sparse.values.name] = constant(dense)

    # ---- nodes -----------------------------------------------------------------------------

    def nodes(self, nodes: Iterable[Written], opsets: dict[str, int]) -> None:
        for index, node in enumerate(nodes):
            node.name = node.name or f"{node.op_type}_{index}"
            self.budget.step(node)
            tensor = self._plain_constant(node, opsets) if node.op_type == "Constant" else None
            if tensor is None:
                self.node(node, opsets)
            else:
                self.env[node.output[0]] = constant(tensor)

    def _plain_constant(self, node: Written, opsets: dict[str, int]) -> np.ndarray | None:
        """The one tensor that a Constant holds and gives; None where it is another kind of node.
        Some exports are full of such."""
        if node.domain not in ("", "ai.onnx") or opsets.get("", 0) <= 0 or self.functions:
            return None
        if node.value is not None:
            return node.value
        if (
            node.names == ["value"]
            and node.kinds == [onnx.AttributeProto.TENSOR]
            and (attribute := node.attribute[0]).HasField("t")
            and not attribute.ref_attr_name
            and len(node.tensors) == len(node.output) == 1
            and not (node.input or node.graphs)
        ):
            return array_of(node.tensors[0], self.where)
        return None

    def node(self, given: Written, opsets: dict[str, int]) -> None:
        name, domain = given.name, given.domain
        if domain == "ai.onnx":
            domain = ""
        names, outputs = given.input, given.output
        inputs = [self.env.get(i) if i else None for i in names]
        version = opsets.get(domain, 0)
        kind = checked = None
        if given.op_type in ALIKE and not domain and self._alone(given, inputs):
            kind = alike.key_of(given.op_type, version, given.said, inputs, len(outputs))
            recipe = None if kind is None else alike.known(kind)
            if isinstance(recipe, alike.Checked):
                checked = recipe
                if (made := self._usual(given, checked, inputs)) is not None:
                    self._give(given, [made])
                    return
            elif recipe is not None:
                self._lowered[name] = given.op_type, inputs
                self._weigh(given.op_type, inputs)
                self.b.scope = name
                self._give(given, recipe.follow(self.b, inputs))
                return
        untyped: list[TypeOf] = [None] * len(outputs)
        node = OnnxNode(name, given.op_type, domain, version, inputs, outputs, untyped, given, {})
        self._lowered[name] = given.op_type, inputs
        before, calls = len(self.b.ops), self.calls
        linear = given.op_type in LINEAR
        trace = self.b.trace = None if kind is None or linear else Trace()
        try:
            if self.poisoned and not self.poisoned.isdisjoint(names):
                if not self._known(node):
                    self._refuse(node, _LAID_OUT.get(domain, "no QNN operation corresponds to it"))
                self.poisoned.update(filter(None, node.outputs))
                return
            if None in inputs:
                for text, value in zip(names, inputs, strict=True):
                    if value is None and text and text not in self.other:
                        raise ValueError(f"it reads {shortened(repr(text))}, which nothing gives")
            if checked is not None:
                node.attrs, node.types = checked.attrs, checked.types
                results: Sequence[Thing | None] = self._own(node)
            else:
                node.attrs = attributes_of(given)
                results = self._lower(node, opsets)
                if linear and kind is not None:
                    alike.keep(kind, alike.Checked(node.attrs, node.types))
        except Lost:
            self.poisoned.update(filter(None, node.outputs))
            return
        except Unsupported as exc:
            self._refuse(node, str(exc) + self._held_by(given, inputs))
            return
        except ModelError:
            raise
        except MemoryError as exc:
            raise MemoryError(
                f"{self.where}: {str(exc) or f'{given}: there is not enough memory for it'}"
            ) from None
        except Exception as exc:
            raise ModelError(
                f"{self.where}: {given} on {self._types(node.inputs)} is not valid: "
                f"{shortened(str(exc), 500) or type(exc).__name__}"
            ) from exc
        finally:
            self.b.trace = None
        if trace is not None and kind is not None and calls == self.calls:
            with suppress(alike.NotAlike):
                recipe = alike.Recipe(given.op_type, self.b.ops, before, results, inputs, trace)
                alike.keep(kind, recipe)
        self._give(given, results)

    def _usual(
        self, given: Written, checked: alike.Checked, inputs: list[Value | None]
    ) -> Value | None:
        """What a node gives, if it is one as most are of its operator."""
        usual, wanted = USUAL.get(given.op_type), checked.types[0]
        if usual is None or wanted is None:
            return None
        self._lowered[given.name] = given.op_type, inputs
        self._weigh(given.op_type, inputs)
        self.b.scope = given.name
        return usual(self.b, given.op_type, inputs, wanted, checked.attrs)

    def _alone(self, given: Written, inputs: list[Value | None]) -> bool:
        """Whether a node is one of tensors that are there, and its operator is ONNX's."""
        return (
            given.said is not None
            and not (self.functions or self.other or self.poisoned)
            and "" not in given.output
            and (None not in inputs or all(map(self._is_there, given.input, inputs)))
        )

    @staticmethod
    def _is_there(name: str, value: Value | None) -> bool:
        return value is not None or not name

    def _give(self, given: Written, results: Sequence[Thing | None]) -> None:
        """The outputs of a node stand for its results from now on."""
        for out, thing in zip(given.output, results, strict=False):
            if not out:
                continue
            if isinstance(thing, Value):
                self.env[out] = thing
                if thing.is_const and given.op_type != "Constant":
                    self._made.add(id(thing))
                if thing.edge is not None and not thing.edge.name:
                    thing.edge.name = out
                if out in self.capacities:
                    self._hold(out)
            elif thing is not None or given.op_type in CONTROL:
                self.other[out] = thing

    def _held_by(self, node: Written, inputs: Sequence[Value | None]) -> str:
        """What a caller can do about a size that the data decide."""
        if node.domain or node.op_type not in counted.HELD:
            return ""
        from . import capacities

        places = counted.HELD[node.op_type]
        return capacities.advice(node.input[places], inputs[places])

    def _hold(self, name: str) -> None:
        """Holds a tensor to the capacity that was given for it."""
        from . import capacities

        most = self.capacities[name]
        try:
            self.env[name], wanted = capacities.held(self, name, self.env[name], most)
        except Unsupported as exc:
            raise ModelError(f"{self.where}: {exc}") from None
        if wanted is None:
            return
        before = self.wanted.get(name)
        self.wanted[name] = wanted if before is None else capacities.larger(self, before, wanted)

    def _known(self, node: OnnxNode) -> bool:
        if (node.domain == "" and node.op in TABLE) or node.op in constants.FOLDED_OPS:
            return True
        if node.domain == "" and node.op in ROWS:
            return True
        if node.op in LINEAR or has_body(node.domain, node.op):
            return True
        if node.domain == "" and node.op in CONTROL:
            return True
        if called(self.functions, node.written) is not None:
            return True
        spec = self._spec(node)
        if spec is None and custom_ops.find_onnx_op(node.domain, node.op) is not None:
            return True
        return spec is not None and spec.function

    def _refuse(self, node: OnnxNode, reason: str) -> None:
        op = shortened(node.op if not node.domain else f"{node.domain}.{node.op}")
        self.unsupported.append(
            UnsupportedNode(shortened(node.name), op, self._types(node.inputs), reason)
        )
        self.poisoned.update(filter(None, node.outputs))

    def refuse_types(self, ops: Sequence[Op]) -> None:
        """Note the nodes whose operations QNN has, but not for these types or ranks."""
        noted: set[str] = set()
        for op, reason in admission.refused(ops):
            if op.name not in noted:
                noted.add(op.name)
                onnx_op, given = self._lowered.get(op.name, (op.type, []))
                types = self._types(given)
                self.unsupported.append(UnsupportedNode(op.name, onnx_op, types, reason))

    @staticmethod
    def _types(inputs: list[Value | None]) -> str:
        listed = [
            "-" if v is None else f"{v.dtype.name}{shortened(str(list(v.shape)))}"
            for v in inputs[:_LISTED]
        ]
        if len(inputs) > _LISTED:
            listed.append(f"and {len(inputs) - _LISTED} more")
        return ", ".join(listed)

    def _lower(self, node: OnnxNode, opsets: dict[str, int]) -> Sequence[Thing | None]:
        function = called(self.functions, node.written) if self.functions else None
        if function is not None:
            return self._call(node, function, opsets)
        spec = self._spec(node)
        body = body_of(node.domain, node.op)
        if spec is None and (body is None or node.domain == CLASSICAL):
            if (op := custom_ops.find_onnx_op(node.domain, node.op)) is not None:
                if any(v is not None and v.count is not None for v in node.inputs):
                    raise Unsupported("an input with as many rows as the data decide")
                from . import python_ops

                return python_ops.lower(self, node, op, self.where)
            if node.domain in _LAID_OUT:
                raise Unsupported(_LAID_OUT[node.domain])
            raise Unsupported(
                f"not an operator of {shortened(node.domain) or 'ONNX'} opset {node.version}"
                if node.version
                else f"the model does not import the operator set {shortened(repr(node.domain))}"
            )
        other = self.other
        listed = bool(other) and any(other.get(name) is not None for name in node.written.input)
        rule = CONTROL.get(node.op) if node.domain == "" else None
        if rule is not None:
            self.b.scope = node.name
        if spec is not None and rule is not None and (listed or not spec.tensors):
            check_attributes(spec, node)
            node.attrs = spec.defaults | node.attrs
            return rule(self, node, opsets)
        if listed and node.op == "Identity":
            return [self.other[node.written.input[0]]]
        if listed:
            raise Unsupported("an input that is a sequence of tensors")
        if spec is not None:
            check(spec, node)
            node.attrs = spec.defaults | node.attrs
        # Of fixed shapes alone, or of sizes or of rows along two axes that the data decide.
        fixed, sized, twice = True, False, False
        if node.domain == "" and node.op in counted.SHAPED:
            counted.of_counts(self, node)
        for v in node.inputs:
            if v is not None:
                sized = sized or v.sizes is not None
                if v.count is not None:
                    fixed, twice = False, twice or v.second is not None
        if spec is not None:
            known = spec

            def lower() -> Sequence[Thing | None]:
                return self._tensors(node, known, opsets)

            def expand() -> Sequence[Thing | None] | None:
                return self._expand(node, known, opsets)

            if twice and body is None:
                return counted.along_two_axes(self, node, lower, expand)
            if sized:
                made = counted.of_sizes(self, node, opsets, lower, expand)
                if made is not None:
                    return made
        is_slice = node.op == "Slice" and node.domain == ""
        if is_slice and (part := counted.sliced(self, node)) is not None:
            return [part]
        if node.domain == MICROSOFT and (direct := DIRECT.get(node.op)) is not None:
            self.b.scope = node.name
            if (value := direct(self, node)) is not None:
                return [value]
        if body is not None:
            written_out = None
            with suppress(AsDefined):
                written_out = body(node)
            if written_out is not None:
                return self._inline(node, written_out, opsets)
        assert spec is not None
        if not _is_own(node) and node.domain != "":
            return self._other(node, spec, opsets)
        if node.op == "Constant":
            return [constant(constants.held(node, self.where, self.budget))]
        if rule is not None:
            return rule(self, node, opsets)
        if fixed and not sized and node.op not in ROWS:
            return self._tensors(node, spec, opsets)
        return counted.by_rows(self, node, lower, expand)

    def _tensors(
        self, node: OnnxNode, spec: Spec, opsets: dict[str, int]
    ) -> Sequence[Value | None]:
        """A node of which everything is a tensor of a fixed shape."""
        node.types = infer(node)
        check_results(spec, node.types)
        if (told := constants.of_shape(node, self.budget)) is not None:
            return [constant(told)]
        if _is_own(node):
            return self._own(node)
        return self._other(node, spec, opsets)

    def _own(self, node: OnnxNode) -> list[Value | None]:
        """A node by its entry in the table, whatever its inputs are."""
        self._weigh(node.op, node.inputs)
        self.b.scope = node.name
        return self._fitting(node, _listed(TABLE[node.op](self, node)))

    def _other(self, node: OnnxNode, spec: Spec, opsets: dict[str, int]) -> list[Value | None]:
        """A node by evaluating it, by its lowering, or by its function, whichever applies first."""
        lower = TABLE.get(node.op) if node.domain == "" else None
        nothing = empty(node)
        if nothing is not None:
            return nothing
        known, hollow, texts, some = True, False, False, False
        for v in node.inputs:
            if v is None:
                continue
            if v.held is not None:
                some = True
            else:
                known = False
                hollow = hollow or 0 in v.shape
            texts = texts or v.dtype.kind == "O"
        if (
            known
            and node.op not in fold.RANDOM
            and onnx.AttributeProto.GRAPH not in node.written.kinds
        ):
            codes = node.op in _KEEP_CODES and any(v is not None and v.coded for v in node.inputs)
            if not codes and not (lower is not None and fold.left_to_graph(node)):
                return self._fitting(node, self._fold(node, spec, opsets))
        if some:
            self._weigh(node.op, node.inputs)
        if texts:
            raise Unsupported("QNN has no texts")
        refusal: Unsupported | None = None
        if lower is not None:
            if hollow:
                raise Unsupported("an input without elements")
            self.b.scope = node.name
            try:
                return self._fitting(node, _listed(lower(self, node)))
            except Refused:
                raise
            except Unsupported as exc:
                refusal = exc  # what was emitted for it so far has no consumer and is dropped
        if refusal is not None and node.op in OTHERWISE:
            with suppress(AsDefined):
                made = self._inline(node, OTHERWISE[node.op](node), opsets)
                return self._fitting(node, [v if isinstance(v, Value) else None for v in made])
        if lower is None and node.op in constants.OF_CONSTANTS and node.domain == "":
            index = next(i for i, v in enumerate(node.inputs) if v is not None and v.held is None)
            raise Unsupported(needed_input(index, spec.formals[index].name))
        expanded = self._expand(node, spec, opsets)
        if expanded is not None:
            return self._fitting(node, expanded)
        raise refusal or Unsupported("no QNN operation corresponds to it")

    def _fitting(self, node: OnnxNode, results: list[Value | None]) -> list[Value | None]:
        """The results, which have to be what was inferred."""
        if misfit(node, results) is None:
            return results
        for i, (value, wanted) in enumerate(zip(results, node.types, strict=False)):
            if value is None or wanted is None or wanted[0] or not value.shape:
                continue
            # A number met a list of one: in Celu's function, or as a limit of Clip.
            if math.prod(value.shape) == 1:
                results[i] = self.b.reshape(value, ())
        difference = misfit(node, results)
        if difference is not None:
            raise ValueError(difference)
        return results

    # ---- what a node is ----------------------------------------------------------------------

    @staticmethod
    def _spec(node: OnnxNode) -> Spec | None:
        if node.domain == OWN_DOMAIN or (node.op in LINEAR and node.domain in ("", MICROSOFT)):
            return newest(node.op)
        if node.domain == MICROSOFT and has_body(MICROSOFT, node.op):
            from .contrib import CONTRIB

            return CONTRIB[node.op]
        if node.op == "LayerNormalization" and not node.domain:
            # ONNX Runtime writes it into files of opsets that have none, as its own was first.
            return spec_of(node.op, max(node.version, _LAYER_NORM), "")
        return spec_of(node.op, node.version, node.domain)

    def _fold(self, node: OnnxNode, spec: Spec, opsets: dict[str, int]) -> list[Value | None]:
        """A node whose inputs are constants, as constants."""
        inputs = [None if v is None else v.data for v in node.inputs]
        if not fold.evaluates(node):
            expanded = self._expand(node, spec, opsets)
            if expanded is not None:
                return expanded
        arrays = fold.fold(node, inputs, opsets, self.budget, lambda: self.child)
        return [constant(a) if name else None for a, name in zip(arrays, node.outputs, strict=True)]

    def _weigh(self, op: str, inputs: list[Value | None]) -> None:
        """Room for what lowering a node makes beside its tensors: copies of constants that the
        file does not hold as such."""
        for v in inputs:
            if v is None or v.held is None:
                continue
            held = v.held.codes if isinstance(v.held, Coded) else v.held
            if id(v) in self._made or 0 in held.strides:
                # Its elements in order, and once more: scaled, in double precision or as a list.
                more = held.itemsize if op in _WEIGHTED else 8
                self.budget.fits(
                    math.prod(v.shape) * (held.itemsize + more), "copies of a constant"
                )

    # ---- nodes made of other nodes -----------------------------------------------------------

    def _expand(
        self, node: OnnxNode, spec: Spec, opsets: dict[str, int]
    ) -> list[Value | None] | None:
        """The node through the function that ONNX defines it by, if there is one."""
        if not spec.function:
            return None
        schema = onnx.defs.get_schema(spec.op, spec.since, node.domain)
        function = function_body(node, schema, self.child)
        if function is None:
            return None
        attributes = {a.name: a for a in node.written.attribute}
        for key, attribute in schema.attributes.items():
            if key not in attributes and attribute.default_value.type:
                attributes[key] = attribute.default_value
        found = self._inline(node, function, opsets, attributes)
        return [value if isinstance(value, Value) else None for value in found]

    def _call(
        self, node: OnnxNode, function: onnx.FunctionProto, opsets: dict[str, int]
    ) -> list[Thing | None]:
        """The body of a function of the file instead of the node that calls it."""
        attributes = arguments(function, node.written)
        return self._inline(node, function, opsets, attributes, patterns.simplify)

    def _inline(
        self,
        node: OnnxNode,
        function: onnx.FunctionProto,
        opsets: dict[str, int],
        attributes: Mapping[str, onnx.AttributeProto] | None = None,
        simplify: Callable[[list[Written], Scalar], list[Written]] | None = None,
    ) -> list[Thing | None]:
        """The body of a function instead of the node: of it, what the used outputs depend on."""
        self.calls += 1
        prefix = f"{shortened(node.name)}.{self.calls}."
        names = dict(zip(function.input, node.written.input, strict=False))
        names |= dict.fromkeys(list(function.input)[len(node.written.input) :], "")

        def renamed(name: str) -> str:
            return names.get(name, prefix + name) if name else ""

        mark = len(self.unsupported)
        # Behind those that the function gives a node may have outputs without names.
        wanted = list(zip(function.output, node.outputs, strict=False))
        used = [o for o, out in wanted if out]
        with self.budget.inside(f"function {shortened(repr(function.name or node.op))}"):
            body = []
            for index, inner in needed(in_order(written(function.node)), used):
                self.budget.step()
                proto = instantiate(inner, renamed, attributes or {}, self.budget)
                proto.name = f"{prefix}{inner.op_type}_{index}"
                body.append(Written(proto))
            if simplify is not None:
                body = simplify(body, self.scalar)
            self.nodes(body, dict(opsets) | opset_of(function))
        inner_errors = self.unsupported[mark:]
        if inner_errors:
            del self.unsupported[mark:]
            shown = [f"{e.op} ({e.types}): {e.reason}" for e in inner_errors[:5]]
            more = len(inner_errors) - len(shown)
            raise Unsupported(
                "it is defined by a function with unsupported parts: "
                + shortened("; ".join(shown), 1000)
                + (f"; and {more} more" if more else "")
            )
        found = self.results([renamed(o) for o in used])
        by_name = dict(zip(used, found, strict=True))
        return [by_name.get(o) if out else None for o, out in wanted]


def _is_own(node: OnnxNode) -> bool:
    """Whether it has an entry in the table, with the domain that the table is for."""
    return node.domain == OWN_DOMAIN or node.op in LINEAR


def _listed(result: Result) -> list[Value | None]:
    return result if isinstance(result, list) else [result]
