"""The walk over a subgraph: constants resolved, each operator lowered or its refusal noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...errors import ModelError, UnsupportedNode
from ..encodings import decode, same
from ..graph import Edge, Op, physical, unique
from . import fold
from .nodes import TABLE, Damaged, LowerFn, NotFixed, Result, TfliteNode, Unsupported
from .reasons import reason_for
from .schema import FileInfo, OperatorInfo, SubgraphInfo
from .types import TensorInfo
from .values import Builder, Value, constant

#: What constants made while importing may take: a small file must not ask for much memory.
_LEAST_BUDGET = 64 * 2**20
_BUDGET_FACTOR = 32


class Lowering:
    """State of one import: the builder, and what is known of every tensor."""

    def __init__(
        self,
        file: FileInfo,
        graph: SubgraphInfo,
        variables: str = "reset",
        stateful: bool = False,
    ) -> None:
        self.file = file
        self.graph = graph
        self.where = file.where
        self.variables = variables
        self.stateful = stateful  # the graph keeps the variables of recurrent operators
        self.b = Builder()
        self.env: dict[int, Value] = {}
        self.guessed: set[int] = set()  # tensors that depend on an operator that was refused
        self.unsupported: list[UnsupportedNode] = []
        self.used: set[str] = set()  # names of inputs and outputs
        self.state_inputs: list[Edge] = []
        self.state_outputs: list[tuple[str, Value]] = []
        self._states: dict[int, str] = {}  # variable tensor -> name of its input
        self._budget = max(_LEAST_BUDGET, _BUDGET_FACTOR * file.size)
        self._floats: dict[Value, Value] = {}

    # ---- tensors -----------------------------------------------------------------------------

    def label(self, index: int) -> str:
        name = self.graph.tensors[index].name
        return repr(name) if name else f"tensor {index}"

    def add_input(self, index: int, name: str, shape: tuple[int, ...]) -> Edge:
        tensor = self.graph.tensors[index]
        if tensor.dtype is None:
            raise ModelError(
                f"{self.where}: input {name!r} is {tensor.type}, an element type that QNN does "
                "not have"
            )
        encoding = tensor.encoding
        edge = Edge(physical(shape), tensor.dtype, name=name, quantization=encoding)
        self.env[index] = Value(shape, tensor.dtype, edge, None, encoding)
        return edge

    def materialize(self, nbytes: int, what: str) -> None:
        """A constant of `nbytes` is about to be made."""
        self._budget -= nbytes
        if self._budget < 0:
            raise ModelError(
                f"{self.where}: {what} would be a constant of {nbytes} bytes, out of proportion "
                f"to the {self.file.size} bytes of the file"
            )

    def tensor(self, index: int) -> Value | None:
        """The value of a tensor, None for one without."""
        if index in self.env:
            return self.env[index]
        info = self.graph.tensors[index]
        if info.variable or info.dtype is None:
            return None
        data = info.data
        if data is None and 0 in info.shape and -1 not in info.shape:
            data = np.empty(info.shape, info.dtype)  # a constant without elements has no buffer
        if data is None:
            return None
        self.env[index] = constant(data, info.encoding, info.name)
        return self.env[index]

    def real(self, v: Value) -> Value:
        """A quantized constant as the float32 numbers that it stands for."""
        if v.data is None or v.quantization is None:
            return v
        if v not in self._floats:
            self.materialize(4 * v.size, "a constant turned into float32")
            data = decode(v.data, v.quantization, np.dtype(np.float32))
            self._floats[v] = constant(data, None, v.name)
        return self._floats[v]

    def decoded(self) -> dict[Edge, Edge]:
        """Tensors of float32 constants -> the quantized ones that they stand for."""
        return {v.edge: self.b.edge(coded) for coded, v in self._floats.items() if v.edge}

    # ---- state -------------------------------------------------------------------------------

    def state(self, node: TfliteNode, position: int, shape: tuple[int, ...]) -> Value | None:
        """The state that `node` starts from, None for zeros.

        A tensor that is no variable is a state given by the graph itself.
        """
        tensor = node.tensors[position] if position < len(node.tensors) else None
        if tensor is None or tensor.dtype is None:
            raise Damaged(f"its state (input {position}) is missing")
        if not tensor.variable:
            return self.b.reshape(node.input(position), shape)
        if self.variables == "reset":
            return None
        if tensor.index in self._states:
            raise Unsupported(f"its state {self.label(tensor.index)} belongs to another operator")
        name = unique(tensor.name or f"state_{tensor.index}", self.used)
        self._states[tensor.index] = name
        edge = Edge(physical(shape), tensor.dtype, name=name, quantization=tensor.encoding)
        self.state_inputs.append(edge)
        return self.b.dequantize(Value(shape, tensor.dtype, edge, None, tensor.encoding))

    def keeps(self, node: TfliteNode, *positions: int) -> bool:
        """Whether the operation keeps these states itself, from run to run."""
        return self.stateful and all(
            (t := node.tensors[p]) is not None and t.variable for p in positions
        )

    def next_state(self, node: TfliteNode, position: int, value: Value) -> None:
        """The state that `node` leaves behind."""
        tensor = node.tensors[position]
        if tensor is not None and tensor.index in self._states:
            name = unique(f"{self._states[tensor.index]}.next", self.used)
            if tensor.encoding is not None and tensor.dtype is not None:
                value = self.b.quantize(value, tensor.dtype, tensor.encoding)
            self.state_outputs.append((name, value))

    # ---- operators ---------------------------------------------------------------------------

    def run(self, operators: list[OperatorInfo]) -> None:
        for operator in operators:
            self.operator(operator)

    def operator(self, info: OperatorInfo) -> None:
        outputs = [self.graph.tensors[i] for i in info.outputs]
        for i in info.outputs:
            if i in self.env or self.graph.tensors[i].data is not None:
                raise ModelError(
                    f"{self.where}: {info.name} writes {self.label(i)}, which has a value already"
                )
        values = [None if i < 0 else self._input(i, info) for i in info.inputs]
        node = TfliteNode(
            info.name,
            info.op,
            info.index,
            info.version,
            values,
            [None if i < 0 else self.graph.tensors[i] for i in info.inputs],
            outputs,
            info.options,
        )
        if not outputs:
            raise self._wrong(info, node, "it has no output")
        guessing = not self.guessed.isdisjoint(info.inputs)
        results: list[Value] = []
        mark = len(self.b.ops)
        try:
            if (reason := reason_for(info)) is not None:
                raise Unsupported(reason)
            results = self._lower(node, info)
        except Unsupported as exc:
            self._refuse(info, node, str(exc))
            guessing = True
        except (Damaged, ValueError, IndexError, TypeError, ArithmeticError) as exc:
            if not guessing:
                raise self._wrong(info, node, str(exc)) from exc
        if guessing:
            self._guess(info.outputs)
            return
        made = self.b.ops[mark:]
        if outputs[0].quantized is not None:
            self._encode(made, outputs[0])
        for i, tensor, value in zip(info.outputs, outputs, results, strict=False):
            self._set(info, i, tensor, value, made)

    def _guess(self, outputs: list[int]) -> None:
        """What the file says of the outputs of a refused operator.

        It stands in for them while the operators behind are looked at: all that have to be refused
        are to be listed, and nothing else comes of a model with a refused operator.
        """
        self.guessed.update(outputs)
        for i in outputs:
            tensor = self.graph.tensors[i]
            shape = tuple(max(d, 1) for d in tensor.shape)
            dtype = tensor.dtype if tensor.dtype is not None else np.dtype(np.float32)
            edge = Edge(physical(shape), dtype)
            self.env[i] = Value(shape, dtype, edge, None, tensor.encoding)

    def _input(self, index: int, info: OperatorInfo) -> Value | None:
        value = self.tensor(index)
        tensor = self.graph.tensors[index]
        if value is None and not tensor.variable:
            if tensor.sparse or tensor.dtype is None or info.op not in TABLE:
                return None  # the operator is refused, or refuses this
            raise ModelError(
                f"{self.where}: {info.name} reads {self.label(index)}, which is neither an input, "
                "a constant, nor the output of an earlier operator"
            )
        return value

    def _lower(self, node: TfliteNode, info: OperatorInfo) -> list[Value]:
        mapping = TABLE[node.op]
        if mapping.options and node.options.table not in ("", mapping.options):
            raise Damaged(f"it has {node.options.table} instead of {mapping.options}")
        for what, tensor in (
            *((f"input {i}", t) for i, t in enumerate(node.tensors) if t is not None),
            *((f"output {i}", t) for i, t in enumerate(node.outputs)),
        ):
            if tensor.dtype is None:
                raise Unsupported(
                    f"{what} is {tensor.type}, an element type that QNN does not have"
                )
            if tensor.sparse:
                raise Unsupported(f"{what} is stored as a sparse tensor")
        self.b.scope = node.name
        floats = self._is_float(node)
        if floats:
            node.inputs = [None if v is None else self.real(v) for v in node.inputs]
        if all(v is None or v.data is not None for v in node.inputs):
            folded = fold.fold(self, node)
            if folded is not None:
                return folded
        mark = len(self.b.ops)
        try:
            if mapping.steps and not floats:
                return self._through_floats(mapping.lower, node)
            try:
                return _listed(mapping.lower(self, node))
            except NotFixed:
                del self.b.ops[mark:]
                return self._through_floats(mapping.lower, node)
        except Unsupported:
            del self.b.ops[mark:]
            raise

    @staticmethod
    def _is_float(node: TfliteNode) -> bool:
        """No fixed-point number goes in or comes out; quantized constants are numbers with scales.

        CAST and the like are not of this kind: they take quantized constants as they are.
        """
        moving = [t for t, v in zip(node.tensors, node.inputs, strict=True) if v and v.data is None]
        return all(t is None or t.quantized is None for t in (*moving, *node.outputs))

    def _through_floats(self, lower: LowerFn, node: TfliteNode) -> list[Value]:
        """An operator that takes several operations, whose results in between have no encoding."""
        wanted = node.outputs
        node.inputs = [None if v is None else self.b.dequantize(self.real(v)) for v in node.inputs]
        single = np.dtype(np.float32)
        node.outputs = [
            t if t.quantized is None else replace(t, dtype=single, quantized=None) for t in wanted
        ]
        found = _listed(lower(self, node))
        return [
            self.b.quantize(value, tensor.dtype, tensor.encoding)
            if tensor.encoding is not None and tensor.dtype is not None
            else value
            for value, tensor in zip(found, wanted, strict=False)
        ]

    def _set(
        self, info: OperatorInfo, index: int, tensor: TensorInfo, value: Value, made: list[Op]
    ) -> None:
        if value.data is not None and 0 in value.shape:
            self.env[index] = value
            return
        if value.data is not None and not value.name:
            value.name = tensor.name
        own = any(value.edge is e for op in made for e in op.outputs)
        if tensor.dtype is not None and value.dtype != tensor.dtype:
            if not own or value.edge is None or tensor.quantized is None:
                raise ModelError(
                    f"{self.where}: {info.name} gives {value.dtype.name}; its output "
                    f"{self.label(index)} is declared {tensor.type}"
                )
            value.dtype = value.edge.dtype = tensor.dtype  # of 8 bits in, of 16 out
        if value.edge is not None and value.edge.data is None:
            if own:
                value.edge.quantization = value.quantization = tensor.encoding
            elif not same(value.quantization, tensor.encoding):
                value = self.b.convert(value, tensor.encoding)
            if value.edge is not None and not value.edge.name:
                value.edge.name = tensor.name
        self.env[index] = value

    @staticmethod
    def _encode(ops: list[Op], tensor: TensorInfo) -> None:
        """What lies between the operations of one operator has its output's encoding."""
        for edge in (e for op in ops for e in op.outputs):
            if edge is not None and edge.quantization is None and edge.dtype == tensor.dtype:
                edge.quantization = tensor.encoding

    def _refuse(self, info: OperatorInfo, node: TfliteNode, reason: str) -> None:
        types = ", ".join("-" if t is None else str(t) for t in node.tensors)
        op = f"CUSTOM {info.custom!r}" if info.op == "CUSTOM" else info.op
        self.unsupported.append(UnsupportedNode(info.name, op, types, reason))

    def _wrong(self, info: OperatorInfo, node: TfliteNode, text: str) -> ModelError:
        types = ", ".join(
            "-" if v is None else f"{v.dtype.name}{list(v.shape)}" for v in node.inputs
        )
        return ModelError(f"{self.where}: {info.name} ({types}) is not valid: {text}")


def _listed(result: Result) -> list[Value]:
    return result if isinstance(result, list) else [result]


def given_shapes(
    file: FileInfo,
    graph: SubgraphInfo,
    names: dict[int, str],
    shapes: Mapping[str, object],
) -> dict[int, tuple[int, ...]]:
    """The shape of every input: the file's, or the one in `shapes`."""
    stray = sorted(set(shapes) - set(names.values()))
    if stray:
        there = ", ".join(map(repr, names.values()))
        raise ModelError(
            f"{file.where} has no input named {', '.join(map(repr, stray))}; there are {there}"
        )
    found: dict[int, tuple[int, ...]] = {}
    open_: list[str] = []
    for index, name in names.items():
        tensor = graph.tensors[index]
        shape = tensor.shape
        if name in shapes:
            shape = tuple(int(d) for d in np.asarray(shapes[name]).reshape(-1))
            fits = len(shape) == len(tensor.shape) and all(
                d > 0 and s in (-1, d) for d, s in zip(shape, tensor.signature, strict=True)
            )
            if not fits:
                raise ModelError(
                    f"{file.where}: input {name!r} is {list(tensor.signature)}, where -1 is open; "
                    f"shapes= gives it {list(shape)}"
                )
        elif any(d <= 0 for d in shape):
            open_.append(f"{name!r} {list(tensor.signature)}")
        found[index] = shape
    if open_:
        raise ModelError(
            f"{file.where}: the shape of {'an input' if len(open_) == 1 else 'some inputs'} is not "
            f"fixed: {', '.join(open_)}. Give it when loading: shapes={{name: (d0, d1, ...)}}"
        )
    return found
