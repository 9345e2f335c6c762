"""A part of a file's graph: tensors of it as the inputs and outputs of the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ...errors import ModelError
from ..budget import Budget
from ..graph import unique
from ..guard import shortened
from .bodies import CLASSICAL
from .functions import Key, called, needed, subgraph_reads
from .lower import GraphLowering
from .reader import Source, opset_of
from .types import graph_inputs, is_open
from .values import identity
from .written import Written

#: Among more names, or longer ones, none is looked for that a wrong one may have been meant to be.
_MOST_NAMES, _LONGEST_NAME = 2**14, 256


@dataclass
class Part:
    """What is loaded of a graph.

    Attributes:
        inputs: with their types, as far as the file has them; those that are given as constants
            are among them.
        outputs: their names.
        nodes: those that an output depends on, in the file's order, each with a name.
    """

    inputs: list[onnx.ValueInfoProto]
    outputs: list[str]
    nodes: list[Written]


class Cutter:
    """Finds parts of one file."""

    def __init__(self, found: Source, functions: Mapping[Key, onnx.FunctionProto]) -> None:
        self.found = found
        self.functions = functions
        self.graph = found.model.graph
        self.where = found.where
        self._initializers = {i.name: i.proto for i in found.initializers}
        self._constants = {s.values.name for s in self.graph.sparse_initializer}
        self._constants |= self._initializers.keys()

    def part(
        self,
        inputs: Sequence[str] | None,
        outputs: Sequence[str] | None,
        shapes: Mapping[str, object],
        constants: Mapping[str, np.ndarray],
        budget: Budget,
    ) -> Part:
        """The part between `inputs` and `outputs`; None stands for those of the file."""
        ends = self._own_outputs() if outputs is None else list(outputs)
        if inputs is None and outputs is None:
            return Part(self.real_inputs(), ends, self._needed(self.found.nodes, ends))
        self.check_known("inputs", inputs or ())
        self.check_known("outputs", outputs or ())
        nodes = self.found.nodes
        if inputs is not None:
            cut = set(inputs)
            for node in nodes:
                if not cut.isdisjoint(node.output):
                    node.output = ["" if name in cut else name for name in node.output]
        kept = self._needed(nodes, ends)
        read = set(ends)
        for node in kept:
            read.update(node.input)
            read.update(subgraph_reads(node))
        there = {v.name: v for v in self.real_inputs()}
        if inputs is None:
            return Part([v for v in there.values() if v.name in read], ends, kept)
        needless = [name for name in inputs if name not in read]
        if needless:
            raise ModelError(
                f"{self.where}: no output depends on {_listed(needless)}, which inputs= lists"
            )
        more = [name for name in there if name in read and name not in {*inputs, *constants}]
        if more:
            raise ModelError(
                f"{self.where}: the outputs depend on {_listed(more)}, too, which inputs= does not "
                "list"
            )
        typed = self._typed(inputs, there, shapes, constants, budget)
        fixed = [v for name, v in there.items() if name in constants and name not in inputs]
        return Part([*typed, *(v for v in fixed if v.name in read)], ends, kept)

    def _own_outputs(self) -> list[str]:
        for output in self.graph.output:
            kind = output.type.WhichOneof("value")
            if kind not in (None, "tensor_type"):
                raise ModelError(
                    f"{self.where}: output {output.name!r} is a {kind}, not a tensor: outputs= "
                    "chooses those that are, such as what a ZipMap reads"
                )
        return [output.name for output in self.graph.output]

    def real_inputs(self) -> list[onnx.ValueInfoProto]:
        """Those of the file that are not constants."""
        return [v for v in self.graph.input if v.name not in self._constants]

    def _needed(self, nodes: list[Written], outputs: Iterable[str]) -> list[Written]:
        """The nodes that an output depends on. Outputs that nobody reads have no names where a node
        is made of others, so that what only they need is left out, too."""
        read = set(outputs)
        found = needed(nodes, read)
        made = [
            node
            for _, node in found
            if node.domain == CLASSICAL
            or (self.functions and called(self.functions, node) is not None)
        ]
        if made:
            for _, node in found:
                read.update(node.input)
                read.update(subgraph_reads(node))
        for index, node in found:
            node.name = node.name or f"{node.op_type}_{index}"
        for node in made:
            node.output = [name if name in read else "" for name in node.output]
        return [node for _, node in found]

    # ---- names -----------------------------------------------------------------------------

    def check_known(self, option: str, names: Iterable[str]) -> None:
        known = {v.name for v in self.graph.input} | self._constants
        known |= {name for node in self.found.nodes for name in node.output if name}
        unknown = [name for name in names if name not in known]
        if unknown and option == "capacities":  # those of bodies, too
            known |= _inside(self.found.nodes)
            unknown = [name for name in unknown if name not in known]
        if unknown:
            each = ", ".join(repr(shortened(name)) + _nearest(name, known) for name in unknown)
            raise ModelError(f"{self.where} has no tensor {each}: {option}= names tensors of it")

    # ---- types -----------------------------------------------------------------------------

    def _typed(
        self,
        inputs: Sequence[str],
        there: Mapping[str, onnx.ValueInfoProto],
        shapes: Mapping[str, object],
        constants: Mapping[str, np.ndarray],
        budget: Budget,
    ) -> list[onnx.ValueInfoProto]:
        """The inputs with shapes and element types: of the file where it has them, else of what
        gives them in it."""
        stated = {v.name: v for v in (*self.graph.value_info, *self.graph.output)}
        stated |= {
            name: _value(name, i.dims, i.data_type)
            for name, i in self._initializers.items()
            if isinstance(name, str)  # a name that is no text names no input
        }
        stated |= there
        found = {name: stated.get(name, onnx.ValueInfoProto(name=name)) for name in inputs}
        for name, value in found.items():
            if name in constants and name not in there and is_open(value, shapes):
                given = constants[name]
                kind = onnx.helper.np_dtype_to_tensor_dtype(given.dtype)
                found[name] = _value(name, given.shape, kind)
        open_ = [name for name, v in found.items() if name not in there and is_open(v, shapes)]
        if open_:
            computed = self._computed(open_, shapes, constants, budget)
            for name in open_:
                shape, dtype = computed[name]
                kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
                found[name] = _value(name, shape, kind)
        return list(found.values())

    def _computed(
        self,
        names: Sequence[str],
        shapes: Mapping[str, object],
        constants: Mapping[str, np.ndarray],
        budget: Budget,
    ) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of tensors, by importing what gives them in the file."""
        opsets = opset_of(self.found.model)
        lowering = GraphLowering(self.where, opsets, False, budget, self.functions)
        nodes = [Written(node.proto) for node in self.found.nodes]
        reason = ""
        try:
            source = self.found
            lowering.add_initializers(self.graph, source.initializers, source.apart)
            part = self._needed(nodes, names)
            read = {*names, *(name for node in part for name in node.input)}
            values = [v for v in self.real_inputs() if v.name in read]
            mine = {k: v for k, v in shapes.items() if k not in names}
            types = graph_inputs(self.graph, self.where, mine, constants, values)
            for name, (shape, dtype) in types.items():
                if name in constants:
                    lowering.add_constant(name, constants[name], shape, dtype)
                else:
                    lowering.add_input(name, shape, dtype, identity(len(shape)))
            with np.errstate(all="ignore"):
                lowering.nodes(part, opsets)
        except ModelError as exc:
            reason = str(exc)
        finally:
            lowering.close()
        found = {}
        for name in names:
            value = lowering.env.get(name)
            if value is None:
                why = reason or "; ".join(
                    f"{node.name} ({node.op}): {node.reason}" for node in lowering.unsupported[:3]
                )
                raise ModelError(
                    f"{self.where}: {shortened(repr(name))} cannot become an input, since its "
                    f"shape or type is not known: the file does not say it, and {why}. "
                    "onnx.shape_inference.infer_shapes may add it to the file"
                )
            found[name] = (value.shape, value.dtype)
        return found


def named_apart(outputs: Sequence[str], inputs: Collection[str]) -> list[str]:
    """Names of a model's outputs: a tensor of a QNN graph is an input or an output, once."""
    used = dict.fromkeys((*inputs, *outputs), 1)
    taken, found = set(inputs), []
    for name in outputs:
        found.append(unique(name, used) if name in taken else name)
        taken.add(found[-1])
    return found


def _value(name: str, shape: Iterable[int], kind: int) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, kind, list(shape))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(shortened(repr(name)) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _nearest(name: str, known: Collection[str]) -> str:
    """What may have been meant, as a remark."""
    if len(known) > _MOST_NAMES or len(name) > _LONGEST_NAME:
        return ""
    import difflib  # for messages alone

    short = [k for k in known if len(k) <= _LONGEST_NAME]
    found = difflib.get_close_matches(name, sorted(short), 3)
    return f" (nearest: {', '.join(map(repr, found))})" if found else ""


def _inside(nodes: Iterable[Written]) -> set[str]:
    """The names of what the bodies of these nodes compute."""
    found: set[str] = set()
    graphs = [graph for node in nodes for graph in node.graphs]
    while graphs:
        for node in graphs.pop().node:
            found.update(filter(None, node.output))
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs
    return found
