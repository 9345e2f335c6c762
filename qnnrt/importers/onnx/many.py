"""One ONNX file as a model of many shapes: it is read once, and its graph lowered for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from ...model import DynamicModel, Model
from ...model.dynamic import OpenInput, Pattern
from ..budget import Budget
from ..guard import importing
from ..shapes import Shapes, patterns
from .cut import Cutter, named_apart
from .functions import local_functions
from .reader import Source
from .types import is_size

Ends = tuple[list[str] | None, list[str] | None]


def dynamic_model(
    found: Source,
    shapes: Shapes,
    order: Callable[[int], tuple[int, ...]],
    fixed: Mapping[str, np.ndarray],
    ends: Ends,
    make: Callable[[Source, dict[str, tuple[int, ...]]], Model],
    again: tuple[Any, ...],
) -> DynamicModel:
    """The model of many shapes.

    Args:
        shapes: as the caller of ``load`` gave them.
        order: of the dimensions of an input of so many, in the model.
        fixed, ends: ``constants``, and ``inputs`` and ``outputs``.
        make: the model of a file that was read, for the shapes of its inputs.
        again: how another process makes it, as from ``__reduce__``.
    """
    where, graph = found.where, found.model.graph
    values, outputs = _ends(_fresh(found), fixed, ends)
    inputs = [_open(v) for v in values if v.name not in fixed]
    outputs = named_apart(outputs, [i.name for i in inputs])
    others = {v.name for v in graph.input}
    others |= {d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim}
    chosen = patterns(shapes, inputs, others - {""}, where)

    def turned(dims: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dims[p] for p in order(len(dims)))

    def held(pattern: Pattern) -> Pattern:
        return tuple(None if p is None else turned(p) for p in pattern)

    @importing
    def one(where: str, sizes: dict[str, tuple[int, ...]]) -> Model:
        for file in found.mapped:
            file.check()
        written: dict[str, tuple[int, ...]] = {}
        for name, shape in sizes.items():
            places = order(len(shape))
            written[name] = tuple(shape[places.index(i)] for i in range(len(shape)))
        return make(_fresh(found), written)

    return DynamicModel(
        graph.name or "graph",
        where,
        [replace(i, dims=None if i.dims is None else turned(i.dims)) for i in inputs],
        outputs,
        [held(p) for p in chosen],
        lambda sizes: one(where, sizes),
        again,
    )


def _fresh(found: Source) -> Source:
    """The file for one import, which changes its nodes."""
    return replace(found, nodes=[node.again() for node in found.nodes])


def _ends(
    found: Source, fixed: Mapping[str, np.ndarray], ends: Ends
) -> tuple[list[onnx.ValueInfoProto], list[str]]:
    """The inputs, as the file says them, and the names of the outputs."""
    budget = Budget(None, found.where)
    cutter = Cutter(found, local_functions(found.model, found.where))
    if ends[0] is None:
        part = cutter.part(None, ends[1], {}, fixed, budget)
        return part.inputs, part.outputs
    graph = found.model.graph
    stated = {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}
    outputs = [o.name for o in graph.output] if ends[1] is None else ends[1]
    return [stated.get(n, onnx.ValueInfoProto(name=n)) for n in ends[0]], outputs


def _open(value: onnx.ValueInfoProto) -> OpenInput:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return OpenInput(value.name, None)
    return OpenInput(value.name, tuple(map(_dim, tensor.shape.dim)))


def _dim(given: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return given.dim_value if is_size(given) else given.dim_param or None
