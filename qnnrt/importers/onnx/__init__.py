"""ONNX models, opset 7 to the newest that the installed ``onnx`` package knows.

NCHW graphs become QNN's channel-last operations without transposes in between: every value
remembers the order in which its dimensions are held, operations that do not care work in that
order, and a Transpose is emitted only where an operation needs another one. The model's own inputs
and outputs keep their layout unless ``layout="nhwc"`` asks otherwise.

In quantized models QuantizeLinear and DequantizeLinear become encodings of tensors, and what lies
between them fixed-point operations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import onnx

from ...dtypes import has_data_type, is_float
from ...errors import ModelError, UnsupportedOpError
from ...model import DynamicModel, Model
from .. import passes
from ..budget import Budget, Limits
from ..graph import Edge, finish
from ..guard import importing, shortened
from ..shapes import Shapes, check_form, wants_many
from . import patterns
from .bodies import BODIES, CLASSICAL, LINEAR, MICROSOFT
from .constants import FOLDED_OPS
from .cut import Cutter, named_apart
from .functions import local_functions
from .lower import GraphLowering
from .nodes import TARGETS
from .reader import Source, opset_of, read, size_of
from .tables import import_all
from .types import graph_inputs
from .values import Builder, Value, channel_last, identity

__all__ = ["FOLDED_OPS", "classical_ops", "contrib_ops", "load", "supported_ops"]

#: What may multiply floats by weights of 4 and 8 bits as they are.
_PRODUCTS = {"Conv2d", "FullyConnected", "MatMul"}


def supported_ops() -> dict[str, str]:
    """ONNX operator -> the QNN operations that it becomes."""
    import_all()
    return {name: TARGETS[name] for name in sorted(TARGETS)}


def contrib_ops() -> list[str]:
    """The operators of ONNX Runtime's domain, com.microsoft."""
    return sorted(LINEAR | {*BODIES[MICROSOFT]})


def classical_ops() -> list[str]:
    """The operators of classical machine learning, ai.onnx.ml."""
    return sorted(BODIES[CLASSICAL])


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    layout: Literal["keep", "nhwc"] = "keep",
    shapes: Shapes | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    capacities: Mapping[str, int] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    quantized_io: bool = False,
    stateful: bool = False,
    limits: Limits | None = None,
) -> Model | DynamicModel:
    """The model of an ONNX file (or its bytes, or a ModelProto).

    - `layout`: ``"keep"`` leaves inputs and outputs as the file declares them; ``"nhwc"`` makes
      every input and output of rank 4 or 5 channel-last: [N, C, spatial...] in the file is
      [N, spatial..., C] in the model.
    - `shapes`: sizes for what the file leaves open, by input name (a full shape, in the file's
      order) or by the name of a symbolic dimension (one size). Nothing is guessed. Lists of shapes
      or sizes mean all combinations, a list of dicts these, ``"any"`` (for a dimension, an input,
      or all in place of the dict) whatever is fed: it is a `DynamicModel` then.
    - `constants`: values for inputs that decide shapes or parameters (the shape of a Reshape, the
      axes of a reduction): QNN has these fixed in the graph. They are no inputs of the model then.
    - `capacities`: the most that tensors may be whose value decides a size when the model runs (the
      length of what a Range gives), by name; of a tensor with as many rows as the data decide, the
      most rows. The output called as it with ``.count`` behind says what it would have been: where
      that is more, there was no room for the rest. See docs/onnx.md.
    - `inputs`, `outputs`: names of tensors of the file's graph that become the model's inputs and
      outputs, in this order, in place of the file's: what lies before and behind them is not
      loaded. `outputs` alone leaves those inputs of the file that they depend on. The shape of an
      input is what the file says, with `shapes`, or what gives the tensor in it.
    - `quantized_io`: an input that a quantized model quantizes first, and an output that it
      dequantizes last, is a fixed-point tensor with its `quantization` instead of a float one.

    - `stateful`: LSTM and GRU nodes keep their state from run to run, so that the steps of a
      sequence may come one by one: the first run starts from the initial state that the file
      gives, or zeros, each later one from what the last one left. Nodes whose initial state is
      an input of the model, or computed, are as they are without this.
    - `limits`: what the file may take while it is loaded: memory for constants, steps, operations
      and time, see `qnnrt.Limits`. What a file of a few hundred bytes asks for has no bounds of
      its own.

    An output with as many rows as the data decide (of NonZero, Compress, TopK with k computed) has
    room for the most there can be; the output behind the others that is called as it with
    ``.count`` says how many of them count (two numbers where that is so along two axes).

    An output that is an input, too, or is listed a second time, is a tensor of its own with a
    number behind its name: ``x.2``.

    An initializer that is also listed as an input is a constant. Inputs and outputs keep the
    element types of the file; what is 64-bit float inside is computed in 32 bits where QNN has no
    64-bit operation.

    Raises `ModelError` for a file that cannot be used, and `UnsupportedOpError` with every node
    that has no counterpart in QNN.
    """
    if layout not in ("keep", "nhwc"):
        raise ValueError(f"layout must be 'keep' or 'nhwc', not {layout!r}")
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits is a qnnrt.Limits, not {type(limits).__name__}")
    fixed = {name: np.asarray(value) for name, value in (constants or {}).items()}
    ends = _names("inputs", inputs), _names("outputs", outputs)
    if ends[1] == []:
        raise ValueError("outputs names no tensor: a model has one output or more")
    shapes = {} if shapes is None else shapes
    check_form(shapes)
    most: Mapping[str, int] = {}
    if capacities is not None:
        from .capacities import checked

        most = checked(capacities)
    return _load(source, layout, shapes, fixed, ends, quantized_io, stateful, limits, most)


def _names(option: str, given: Sequence[str] | None) -> list[str] | None:
    if given is None:
        return None
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{option} is a list of names of tensors, not {shortened(repr(given))}")
    found = list(given)
    if len(set(found)) != len(found):
        raise ValueError(f"{option} names a tensor twice: {shortened(repr(found))}")
    return found


@importing
def _load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    layout: str,
    shapes: Shapes,
    fixed: Mapping[str, np.ndarray],
    ends: tuple[list[str] | None, list[str] | None],
    *options: Any,
) -> Model | DynamicModel:
    found = read(source)
    if not wants_many(shapes, {*(ends[0] or ()), *(i.name for i in found.model.graph.input)}):
        return _model(found, layout, cast(Mapping[str, Any], shapes), fixed, ends, *options)
    from .many import dynamic_model

    again = (_load, (source, layout, shapes, fixed, ends, *options))
    return dynamic_model(
        found,
        shapes,
        lambda n: _edge_perm(layout, n),
        fixed,
        ends,
        lambda part, sizes: _model(part, layout, sizes, fixed, ends, *options),
        again,
    )


def _model(
    found: Source,
    layout: str,
    shapes: Mapping[str, int | Sequence[int]],
    fixed: Mapping[str, np.ndarray],
    ends: tuple[list[str] | None, list[str] | None],
    quantized_io: bool,
    stateful: bool,
    limits: Limits | None,
    capacities: Mapping[str, int],
) -> Model:
    proto, where = found.model, found.where
    opsets = opset_of(proto)
    budget = Budget(limits, where, lambda: size_of(found))
    functions = local_functions(proto, where)
    graph = proto.graph
    cutter = Cutter(found, functions)
    if capacities:
        cutter.check_known("capacities", capacities)
    part = cutter.part(*ends, shapes, fixed, budget)
    inputs = graph_inputs(graph, where, shapes, fixed, part.inputs)
    labels = named_apart(part.outputs, [name for name in inputs if name not in fixed])
    lowering = GraphLowering(where, opsets, stateful, budget, functions, capacities)
    lowering.add_initializers(graph, found.initializers, found.apart)
    given: list[Edge] = []
    for name, (shape, dtype) in inputs.items():
        if name in fixed:
            lowering.add_constant(name, fixed[name], shape, dtype)
        else:
            given.append(lowering.add_input(name, shape, dtype, _edge_perm(layout, len(shape))))
    nodes = patterns.simplify(part.nodes, lowering.scalar)
    try:
        with np.errstate(all="ignore"):  # what overflows in constants would overflow when run
            lowering.nodes(nodes, opsets)
    finally:
        lowering.close()
    if lowering.unsupported:
        raise UnsupportedOpError(lowering.unsupported, where)
    outputs: list[Edge] = []
    taken = set(given)
    counts: dict[str, Value] = {}
    for name, label in zip(part.outputs, labels, strict=True):
        outputs.append(_output(lowering, name, label, layout, taken))
        taken.add(outputs[-1])
        if lowering.env[name].count is not None:
            counts[f"{label}.count"] = _counts(lowering, lowering.env[name])
    counts |= {f"{name}.count": wanted for name, wanted in lowering.wanted.items()}
    lowering.env.update(counts)
    for name in counts:
        if name in labels or any(name == edge.name for edge in given):
            raise ModelError(f"{where}: the number of rows of an output is {name!r}, too")
        outputs.append(_output(lowering, name, name, "keep", taken))
        taken.add(outputs[-1])
    budget.phase("the clean-up of the graph")
    lowered = passes.Graph(lowering.b.ops, given, outputs, budget)
    if quantized_io or any(op.type in passes.CODED for op in lowered.ops):
        from .. import quantized

        quantized.run(lowered, quantized_io)
    passes.run(lowered)
    lowering.refuse_types(lowered.ops)
    if lowering.unsupported:
        raise UnsupportedOpError(lowering.unsupported, where)
    model = finish(lowered.ops, given, outputs, graph.name or "graph", budget)
    model.source = where
    model.byte_activations = _may_round(lowered, lowering.levels)
    model._mapped = found.mapped
    return model


def _edge_perm(layout: str, rank: int) -> tuple[int, ...]:
    return channel_last(rank) if layout == "nhwc" and rank in (4, 5) else identity(rank)


def _may_round(graph: passes.Graph, levels: Mapping[Edge, int]) -> bool:
    """Whether the file lets every product with narrow weights round what multiplies them."""
    found = []
    for op in graph.ops:
        if op.type not in _PRODUCTS or op.inputs[0] is None or not is_float(op.inputs[0].dtype):
            continue
        weights = op.inputs[1]
        real = graph.producer.get(weights) if weights is not None else None
        if real is not None and real.type == "Dequantize":
            weights = real.inputs[0]
        if weights is not None and weights.data is not None and weights.quantization is not None:
            found.append(levels.get(weights))
    return bool(found) and all(level == 4 for level in found)


def _counts(lowering: GraphLowering, value: Value) -> Value:
    """How many rows count: one number for each axis along which the data decide it."""
    from .common import concat
    from .counts import axes_of

    numbers = [number for _, number in sorted(axes_of(value).items())]
    return numbers[0] if len(numbers) == 1 else concat(lowering, numbers, 0)


def _output(lowering: GraphLowering, name: str, label: str, layout: str, taken: set[Edge]) -> Edge:
    """The tensor of an output: produced by an operation, in the order that was asked for, and
    called `label`."""
    b: Builder = lowering.b
    b.scope = name
    value = lowering.env.get(name)
    if value is not None and value.sizes is not None:
        from . import sizes

        value = sizes.itself(lowering, value)
    if value is None:  # a node's that gives fewer than it lists
        raise ModelError(
            f"{lowering.where}: no node gives the output {shortened(repr(name))}, but one lists it"
        )
    if not has_data_type(value.dtype):
        kind = "text" if value.dtype.kind == "O" else value.dtype.name
        raise ModelError(f"{lowering.where}: output {name!r} is {kind}; QNN has no such type")
    value = b.with_perm(value, _edge_perm(layout, value.rank))
    edge = b.edge(value)
    if edge.data is not None or edge in taken:
        edge = b.raw("Reshape", [edge], [(edge.shape, edge.dtype)])[0]
    edge.name = label
    edge.scalar = not value.shape
    return edge
