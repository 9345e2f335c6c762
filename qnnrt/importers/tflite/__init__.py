"""TFLite models, of floats and of fixed-point numbers: builtin operators onto QNN's operations.

Both are channel-last, so an operator becomes one QNN operation, mostly. Shapes are worked out
again from the inputs' (what a file says of the tensors in between is not relied on), as TFLite's
own interpreter does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from ...errors import ModelError, UnsupportedOpError
from ...model import DynamicModel, Model
from ...model.dynamic import OpenInput
from ..budget import Limits
from ..graph import Edge
from ..guard import importing
from ..shapes import Shapes, check_form, patterns, wants_many
from .control_flow import TABLE as CONTROL
from .edges import model_of, names_of
from .lower import Lowering, given_shapes
from .native import TABLE
from .reasons import reason_for
from .schema import OPERATORS, FileInfo, SignatureInfo, SubgraphInfo, read
from .types import TensorInfo
from .variables import TABLE as VARIABLES

__all__ = ["load", "refused_ops", "supported_ops"]


def supported_ops() -> dict[str, tuple[str, str]]:
    """Builtin operator -> the QNN operations that it becomes, and its limits ("" for none)."""
    mapped = TABLE | CONTROL | VARIABLES
    return {op: (mapped[op].to, mapped[op].note) for op in sorted(mapped)}


def refused_ops() -> dict[str, str]:
    """Every other builtin operator that the schema names -> why it is refused."""
    return {
        op: reason_for(op) or ""
        for op in sorted(set(OPERATORS.values()) - set(TABLE | CONTROL | VARIABLES))
    }


def load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    signature: str | None = None,
    shapes: Shapes | None = None,
    variables: Literal["reset", "io"] = "reset",
    quantized_io: bool = False,
    stateful: bool = False,
    limits: Limits | None = None,
) -> Model | DynamicModel:
    """The model of a ``.tflite`` file (or its bytes).

    - `signature`: the key of the signature to load, for files with several. Omitted: the first
      subgraph. Inputs and outputs have the names of the signature when there is one, else those
      of the tensors; their order is the subgraph's.
    - `shapes`: other sizes for inputs, by name, where the file leaves dimensions open (``-1`` in
      its shape signature). Omitted: the sizes that the file was saved with, which are what
      TFLite's interpreter starts with too (a batch of 1, mostly). Lists of shapes mean all their
      combinations, a list of dicts these, ``"any"`` (for a dimension, an input, or all in place of
      the dict) whatever is fed: it is a `DynamicModel` then. Not with ``variables="io"``.
    - `variables`: what becomes of state that recurrent operators keep between runs. ``"reset"``:
      every run starts from zeros, as after ``reset_all_variables``. ``"io"``: each variable
      tensor is an input under its name, and an output with ``.next`` behind it. Resource
      variables (VAR_HANDLE) are `state` of the model under ``"reset"``: runs update them in place.
    - `quantized_io`: a float input that is quantized first, and a float output that is dequantized
      last, is a fixed-point tensor with its `quantization`.

    - `stateful`: LSTM and SVDF operators keep their variables in the graph from run to run, as
      TFLite's interpreter does; instead of ``variables="io"``.
    - `limits`: what the file may take while it is loaded: memory for constants, steps, operations
      and time, see `qnnrt.Limits`.

    Raises `ModelError` for a file that cannot be used, and `UnsupportedOpError` with every
    operator that has no counterpart in QNN.
    """
    if variables not in ("reset", "io"):
        raise ValueError(f"variables must be 'reset' or 'io', not {variables!r}")
    if stateful and variables == "io":
        raise ValueError(
            "stateful keeps state in the graph, variables='io' outside of it: take one"
        )
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits is a qnnrt.Limits, not {type(limits).__name__}")
    shapes = {} if shapes is None else shapes
    check_form(shapes)
    return _load(source, signature, shapes, variables, quantized_io, stateful, limits)


@importing
def _load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    signature: str | None,
    shapes: Shapes,
    variables: Literal["reset", "io"],
    *options: Any,
) -> Model | DynamicModel:
    file = read(source)
    entry = _entry(file, signature)
    named, outputs = _ends(file, *entry)
    if not wants_many(shapes, {*named, *(shapes if isinstance(shapes, Mapping) else ())}):
        return _model(file, *entry, cast(Mapping[str, Any], shapes), variables, *options)
    if variables == "io":
        raise ModelError(
            f"{file.where}: with variables='io' states are inputs, whose shapes follow from the "
            "others': load one shape at a time, or take stateful=True"
        )
    saved = isinstance(shapes, Mapping)
    inputs = []
    for name, t in named.items():
        dims = t.shape if saved and name not in shapes else t.signature
        inputs.append(OpenInput(name, tuple(None if d < 0 else d for d in dims)))

    @importing
    def one(where: str, sizes: dict[str, tuple[int, ...]]) -> Model:
        return _model(file, *entry, sizes, variables, *options)

    return DynamicModel(
        _title(*entry),
        file.where,
        inputs,
        outputs,
        patterns(shapes, inputs, (), file.where),
        lambda sizes: one(file.where, sizes),
        (_load, (source, signature, shapes, variables, *options)),
    )


def _ends(
    file: FileInfo, graph: SubgraphInfo, entry: SignatureInfo | None
) -> tuple[dict[str, TensorInfo], list[str]]:
    """The inputs by name, and the names of the outputs."""
    lowering = Lowering(file, graph)
    names = names_of(lowering, graph.inputs, entry.inputs if entry else {}, lowering.used)
    ends = names_of(lowering, graph.outputs, entry.outputs if entry else {}, lowering.used)
    return {name: graph.tensors[i] for i, name in names.items()}, list(ends.values())


def _title(graph: SubgraphInfo, entry: SignatureInfo | None) -> str:
    return entry.key if entry else graph.name or "main"


def _model(
    file: FileInfo,
    graph: SubgraphInfo,
    entry: SignatureInfo | None,
    shapes: Mapping[str, Sequence[int]],
    variables: Literal["reset", "io"],
    quantized_io: bool,
    stateful: bool,
    limits: Limits | None,
) -> Model:
    lowering = Lowering(file, graph, "kept" if stateful else variables, limits)
    given = _inputs(lowering, entry, shapes)
    with np.errstate(all="ignore"):  # what overflows in constants would overflow when run
        lowering.run_needed()
    if lowering.unsupported:
        raise UnsupportedOpError(lowering.unsupported, file.where)
    pairs = lowering.end()
    if not graph.outputs and not pairs:
        raise ModelError(f"{lowering.where}: subgraph {graph.index} has no output")
    names = names_of(lowering, graph.outputs, entry.outputs if entry else {}, lowering.used)
    title = _title(graph, entry)
    model = model_of(lowering, given, names, title, quantized_io=quantized_io)
    model.initial = lowering.first()
    if variables != "io":
        model.set_state(pairs)
    return model


def _entry(file: FileInfo, key: str | None) -> tuple[SubgraphInfo, SignatureInfo | None]:
    """The subgraph to load, and the signature that names its inputs and outputs."""
    if key is not None:
        for found in file.signatures:
            if found.key == key:
                return file.subgraphs[found.subgraph], found
        there = ", ".join(repr(s.key) for s in file.signatures) or "none"
        raise ModelError(f"{file.where} has no signature {key!r}; there are: {there}")
    graph = file.subgraphs[0]
    mine = [s for s in file.signatures if s.subgraph == 0]
    default = [s for s in mine if s.key == "serving_default"]
    return graph, next(iter(default or mine), None)


def _inputs(
    lowering: Lowering, entry: SignatureInfo | None, shapes: Mapping[str, Sequence[int]]
) -> list[Edge]:
    graph = lowering.graph
    for i in graph.inputs:
        if graph.tensors[i].constant:
            raise ModelError(f"{lowering.where}: input {lowering.label(i)} is a constant")
    names = names_of(lowering, graph.inputs, entry.inputs if entry else {}, lowering.used)
    sizes = given_shapes(lowering.file, graph, names, shapes)
    return [lowering.add_input(i, name, sizes[i]) for i, name in names.items()]
