"""Operators of a subgraph, one by one: constants resolved, each lowered or its refusal noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ...abi import constants as abi
from ...dtypes import numpy_dtype
from ...errors import ModelError, UnsupportedNode
from ..budget import Budget, Limits
from ..encodings import decode
from ..graph import Edge, Op, physical, unique
from ..guard import shortened
from . import computations, control_flow, fold, native, spectrum, variables
from .native import TABLE
from .reasons import CONTROL, reason_for
from .refusal import Damaged, RefusedInside, Unsupported, WrongType
from .schema import FileInfo, OperatorInfo, SubgraphInfo
from .spectrum import COMPLEX
from .types import TensorInfo
from .values import Builder, TfliteNode, Value, constant

#: What constants may take in any case, and how many times the bytes of the file: a small file must
#: not ask for much memory.
_CONSTANTS = (64 * 2**20, 32)


#: What becomes of variable tensors: they are reset, inputs and outputs, or kept in the graph.
_STATES = {
    "reset": abi.QNNRT_TFLITE_STATES_RESET,
    "io": abi.QNNRT_TFLITE_STATES_INPUTS,
    "kept": abi.QNNRT_TFLITE_STATES_KEPT,
}


class Lowering:
    """State of one import: the builder, and what is known of every tensor."""

    def __init__(
        self,
        file: FileInfo,
        graph: SubgraphInfo,
        states: str = "reset",
        limits: Limits | None = None,
        unroll: bool = True,
    ) -> None:
        self.file = file
        self.graph = graph
        self.where = file.where
        self.states = states  # one of _STATES
        self.budget = Budget(limits, file.where, lambda: size_of(file), _CONSTANTS)
        self.b = Builder()
        self.env: dict[int, Value] = {}
        self.guessed: set[int] = set()  # tensors that depend on an operator that was refused
        # Those of them whose shape the file does not say, and those that may be such a shape.
        self.vague: set[int] = set()
        self.unsupported: list[UnsupportedNode] = []
        self.used: dict[str, int] = {}  # names of inputs and outputs, as unique() counts them
        self.state_inputs: list[Edge] = []
        self.state_outputs: list[tuple[str, Value]] = []
        self.variables = variables.Variables(file)
        self._states: dict[int, str] = {}  # variable tensor -> name of its input
        self._floats: dict[Value, Value] = {}
        self.running = [graph.index]  # and the subgraphs around it
        self.unroll = unroll  # whether operators that run subgraphs become what these hold
        self._constants: dict[int, dict[int, Value]] = {}  # of subgraphs that ran before

    # ---- subgraphs ---------------------------------------------------------------------------

    @contextmanager
    def inside(self, graph: SubgraphInfo, given: dict[int, Value]) -> Iterator[None]:
        """Another subgraph in the place of this one, its inputs `given`."""
        outside = self.graph, self.env, self.guessed, self.vague
        known = self._constants.setdefault(graph.index, {})
        self.graph, self.env, self.guessed, self.vague = graph, known | given, set(), set()
        self.running.append(graph.index)
        try:
            yield
        finally:
            # A constant is one tensor, however often the subgraph runs.
            known.update({i: v for i, v in self.env.items() if graph.tensors[i].constant})
            self.graph, self.env, self.guessed, self.vague = outside
            self.running.pop()

    def run(self, operators: list[OperatorInfo]) -> None:
        for operator in operators:
            self.operator(operator)

    def run_needed(self) -> None:
        """The operators that an output, or state that is an output, depends on."""
        wanted = set(self.graph.outputs)
        kept = []
        for operator in reversed(self.graph.operators):
            changes = self.states == "io" and any(
                i >= 0 and self.graph.tensors[i].variable for i in operator.inputs
            )
            changes = changes or self.variables.changes(operator)
            if changes or not wanted.isdisjoint(operator.outputs):
                wanted.update(operator.inputs)
                kept.append(operator)
        self.run(kept[::-1])

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
        edge = Edge(
            physical(shape), tensor.dtype, name=name, quantization=encoding, scalar=not shape
        )
        # One without elements has nothing to compute with: it is known, as a constant is.
        data = np.empty(shape, tensor.dtype) if 0 in shape else None
        self.env[index] = Value(shape, tensor.dtype, edge if data is None else None, data, encoding)
        return edge

    def tensor(self, index: int) -> Value | None:
        """The value of a tensor, None for one without."""
        if index in self.env:
            return self.env[index]
        info = self.graph.tensors[index]
        if info.variable or info.dtype is None:
            return None
        data = info.data
        if info.sparse is not None:
            self.budget.array(info.shape, info.dtype, f"sparse {self.label(index)}")
            data = info.sparse.dense(info.shape)
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
            self.budget.array(v.shape, np.float32, "a constant turned into float32")
            data = decode(v.data, v.quantization, np.dtype(np.float32))
            self._floats[v] = constant(data, None, v.name)
        return self._floats[v]

    def decoded(self) -> dict[Edge, Edge]:
        """Tensors of float32 constants -> the quantized ones that they stand for."""
        return {v.edge: self.b.edge(coded) for coded, v in self._floats.items() if v.edge}

    # ---- state -------------------------------------------------------------------------------

    def _state(self, tensor: TensorInfo, shape: tuple[int, ...]) -> Value:
        """The input of the model that a variable tensor is."""
        assert tensor.dtype is not None
        if tensor.index in self._states:
            raise Unsupported(f"its state {self.label(tensor.index)} belongs to another operator")
        name = unique(tensor.name or f"state_{tensor.index}", self.used)
        self._states[tensor.index] = name
        edge = Edge(shape, tensor.dtype, name=name, quantization=tensor.encoding)
        self.state_inputs.append(edge)
        return Value(shape, tensor.dtype, edge, None, tensor.encoding)

    def end(self) -> dict[str, str]:
        """Let variables be outputs as they are behind the last operator; input -> output."""
        pairs = {}
        for v in self.variables.all.values():
            if v.start is not None and v.start.edge is not None:
                old = v.start.edge.name
                pairs[old] = unique(f"{old}.next", self.used)
                self.state_outputs.append((pairs[old], v.now or v.start))
        return pairs

    def first(self) -> dict[str, np.ndarray]:
        """What variables hold before the first run, by input; zeros are left out."""
        return {
            v.start.edge.name: np.array(v.first.reshape(v.start.edge.shape))
            for v in self.variables.all.values()
            if v.first is not None and v.start is not None and v.start.edge is not None
        }

    # ---- operators ---------------------------------------------------------------------------

    def operator(self, info: OperatorInfo) -> None:
        self.budget.step(shortened(info.name))
        outputs = [self.graph.tensors[i] for i in info.outputs]
        for i in info.outputs:
            if i in self.env or self.graph.tensors[i].constant:
                raise ModelError(
                    f"{self.where}: {info.name} writes {self.label(i)}, which has a value already"
                )
        values = [None if i < 0 else self._input(i, info) for i in info.inputs]
        tensors = [None if i < 0 else self.graph.tensors[i] for i in info.inputs]
        node = TfliteNode(info, values, tensors, outputs)
        if not outputs and not self.variables.changes(info):
            raise self._wrong(node, "it has no output")
        guessing = not self.guessed.isdisjoint(info.inputs)
        results: list[Value | None] = []
        mark = len(self.b.ops)
        controls = info.op in control_flow.TABLE
        reason = CONTROL if controls and not self.unroll else reason_for(info.op)
        try:
            if reason is not None:
                raise Unsupported(reason)
            if controls and guessing:
                raise RefusedInside  # or before it: nothing is known of its turns
            if controls:
                results = control_flow.lower(self, node)
            elif info.op in variables.TABLE:
                results = variables.lower(self, node)
            else:
                results = self._lower(node)
        except RefusedInside:
            del self.b.ops[mark:]
            guessing = True
        except Unsupported as exc:
            del self.b.ops[mark:]
            # What has no shape because of an operator before it may be refused for that alone.
            if reason is not None or self.vague.isdisjoint(info.inputs):
                self._refuse(node, str(exc))
            guessing = True
        except WrongType as exc:
            if not guessing:
                tensor = outputs[exc.output]
                raise ModelError(
                    f"{self.where}: {info.name} gives {exc}; its output "
                    f"{self.label(tensor.index)} is declared {tensor.type}"
                ) from exc
        except ModelError:  # what it may take
            if not guessing:
                raise
        except (Damaged, ValueError, IndexError, TypeError, ArithmeticError) as exc:
            if not guessing:
                raise self._wrong(node, str(exc)) from exc
        if guessing:
            self._guess(info.outputs)
            return
        for tensor, value in zip(outputs, results, strict=False):
            if value is not None:
                self._set(tensor, value)

    def _guess(self, outputs: list[int]) -> None:
        """What the file says of the outputs of a refused operator.

        It stands in for them while the operators behind are looked at: all that have to be refused
        are to be listed, and nothing else comes of a model with a refused operator.
        """
        self.guessed.update(outputs)
        for i in outputs:
            tensor = self.graph.tensors[i]
            # The file has no dimensions for a tensor of unknown rank.
            unknown = not tensor.shape or any(d <= 0 for d in (*tensor.shape, *tensor.signature))
            if unknown or tensor.dtype in (np.int32, np.int64):
                self.vague.add(i)
            shape = tuple(max(d, 1) for d in tensor.shape)
            dtype = tensor.dtype if tensor.dtype is not None else np.dtype(np.float32)
            edge = Edge(physical(shape), dtype)
            self.env[i] = Value(shape, dtype, edge, None, tensor.encoding)
            if tensor.complex:
                self.env[i].imaginary = Value(shape, dtype, Edge(physical(shape), dtype))

    def _input(self, index: int, info: OperatorInfo) -> Value | None:
        value = self.tensor(index)
        tensor = self.graph.tensors[index]
        if value is None and not tensor.variable:
            if tensor.dtype is None or info.op not in TABLE:
                return None  # the operator is refused, or refuses this
            raise ModelError(
                f"{self.where}: {info.name} reads {self.label(index)}, which is neither an input, "
                "a constant, nor the output of an earlier operator"
            )
        return value

    def _lower(self, node: TfliteNode) -> list[Value | None]:
        if any(t is not None and t.complex for t in (*node.tensors, *node.outputs)):
            if not self.unroll:
                raise Unsupported(COMPLEX)
            return spectrum.lower(node, self._lower)
        info, wanted = node.info, TABLE[node.info.op].options
        if wanted and info.options.table not in ("", wanted):
            raise Damaged(f"it has {info.options.table} instead of {wanted}")
        for what, tensor in (
            *((f"input {i}", t) for i, t in enumerate(node.tensors) if t is not None),
            *((f"output {i}", t) for i, t in enumerate(node.outputs)),
        ):
            if tensor.dtype is None:
                raise Unsupported(
                    f"{what} is {tensor.type}, an element type that QNN does not have"
                )
        self.b.scope = info.name
        if all(v is None or v.data is not None for v in node.inputs):
            real = [None if v is None else self.real(v) for v in node.inputs]
            folded = fold.fold(self.budget, replace(node, inputs=real))
            if folded is not None:
                return [*folded]
        joined = computations.of(self.file, info)
        plan = native.lower(
            info,
            [None if t is None else (t, v) for t, v in zip(node.tensors, node.inputs, strict=True)],
            node.outputs,
            _STATES[self.states],
            min(int(self.budget.all_bytes_left), 2**62),
            joined,
        )
        if "refused" in plan:
            raise self._refusal(plan, node)
        self.budget.take(plan["spent"], f"what {info.name} is made of")
        return self._planned(plan, node)

    def _refusal(self, plan: dict[str, Any], node: TfliteNode) -> Exception:
        if plan["refused"] == "large":
            self.budget.refuse(plan["detail"], plan["text"])
        if plan["refused"] == "type":
            return WrongType(plan["text"], plan["detail"])
        return (Damaged if plan["refused"] == "damaged" else Unsupported)(plan["text"])

    def _planned(self, plan: dict[str, Any], node: TfliteNode) -> list[Value | None]:
        """The operations of a plan, and the values of the outputs."""
        values: dict[int, Value] = {}

        def value(i: int, shape: list[int] | None = None) -> Value:
            if i not in values:
                values[i] = self._tensor_of(plan["tensors"][i], node)
            return values[i] if shape is None else self.b.reshape(values[i], shape)

        for op in plan["ops"]:
            self.budget.step()
            inputs = [None if i < 0 else self.b.edge(value(i)) for i in op["inputs"]]
            outputs = [value(i).edge for i in op["outputs"]]
            params = {name: native.param(value) for name, value in op["params"].items()}
            self.b.ops.append(Op(op["type"], inputs, outputs, params, self.b.scope))
        for next_ in plan["states"]:
            tensor = node.tensors[next_["input"]]
            assert tensor is not None
            name = unique(f"{self._states[tensor.index]}.next", self.used)
            self.state_outputs.append((name, value(next_["tensor"], next_["shape"])))
        found = [
            None if o["tensor"] < 0 else value(o["tensor"], o["shape"]) for o in plan["outputs"]
        ]
        if all(v is None or v.data is not None for v in node.inputs):
            # What is worked out of constants has the name of the output.
            return [
                v
                if v is None or v.data is None or v.quantization is not None
                else constant(np.asarray(v.data, order="C"))
                for v in found
            ]
        return found

    def _tensor_of(self, planned: dict[str, Any], node: TfliteNode) -> Value:
        """A tensor of a plan."""
        shape, at = tuple(planned["shape"]), planned.get("input")
        encoding = native.quantization(planned)
        if at is None and "constant" not in planned:
            dtype = numpy_dtype(planned["dtype"])
            return Value(shape, dtype, Edge(shape, dtype, quantization=encoding), None, encoding)
        given: Value | None = None if at is None else node.inputs[at]
        tensor: TensorInfo | None = None if at is None else node.tensors[at]
        if "address" in planned:
            return constant(native.elements(planned), encoding, given.name if given else "")
        if "state" in planned:
            assert tensor is not None
            return self._state(tensor, shape)
        assert given is not None
        if "constant" not in planned:
            return given
        if "decoded" in planned:
            given = self.real(given)
        if encoding is not None:  # the same integers under another encoding
            return constant(given.const.reshape(shape), encoding, given.name)
        if "order" in planned:
            return self.b.transpose(self.b.reshape(given, planned["source"]), planned["order"])
        return given if physical(given.shape) == shape else self.b.reshape(given, shape)

    def _set(self, tensor: TensorInfo, value: Value) -> None:
        if value.data is not None:
            if 0 not in value.shape and not value.name:
                value.name = tensor.name
        elif value.edge is not None and not value.edge.name:
            value.edge.name = tensor.name
        self.env[tensor.index] = value

    def _refuse(self, node: TfliteNode, reason: str) -> None:
        info = node.info
        types = ", ".join("-" if t is None else str(t) for t in node.tensors)
        op = f"CUSTOM {info.custom!r}" if info.op == "CUSTOM" else info.op
        self.unsupported.append(UnsupportedNode(info.name, op, types, reason))

    def _wrong(self, node: TfliteNode, text: str) -> ModelError:
        types = ", ".join(
            "-" if v is None else f"{v.dtype.name}{list(v.shape)}" for v in node.inputs
        )
        return ModelError(f"{self.where}: {node.info.name} ({types}) is not valid: {text}")


def size_of(file: FileInfo) -> tuple[int, int]:
    """The bytes and operators of a file."""
    return file.size, sum(len(graph.operators) for graph in file.subgraphs)


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
                d >= 0 and s in (-1, d) for d, s in zip(shape, tensor.signature, strict=True)
            )
            if not fits:
                raise ModelError(
                    f"{file.where}: input {name!r} is {list(tensor.signature)}, where -1 is open; "
                    f"shapes= gives it {list(shape)}"
                )
        elif any(d < 0 for d in shape):
            open_.append(f"{name!r} {list(tensor.signature)}")
        found[index] = shape
    if open_:
        raise ModelError(
            f"{file.where}: the shape of {'an input' if len(open_) == 1 else 'some inputs'} is not "
            f"fixed: {', '.join(open_)}. Give it when loading: shapes={{name: (d0, d1, ...)}}"
        )
    return found
