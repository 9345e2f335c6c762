"""Graphs of a context binary as shapes of one model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..model import BinaryGraph, ContextBinary, DynamicModel, Model
from ..model.dynamic import OpenInput, Shape

__all__ = ["binary_shapes", "described"]


def binary_shapes(binary: ContextBinary, names: Sequence[str]) -> dict[Shape, BinaryGraph] | None:
    """Graphs of a binary by the shapes of their inputs; None when they are not shapes of one model:
    other inputs, outputs or types, or two graphs of one shape."""
    graphs = [binary.graph(name) for name in names]
    alike = {
        (len(g.inputs), *((t.name, t.data_type) for t in (*g.inputs, *g.outputs))) for g in graphs
    }
    found = {tuple(t.shape for t in g.inputs): g for g in graphs}
    return found if len(alike) == 1 and len(found) == len(graphs) else None


def described(binary: ContextBinary, shapes: Mapping[Shape, BinaryGraph]) -> DynamicModel:
    """The graphs of a binary as a model of listed shapes, whose graphs are made already."""
    first = next(iter(shapes.values()))
    inputs = []
    for i, t in enumerate(first.inputs):
        found = [shape[i] for shape in shapes]
        ranks = {len(s) for s in found}
        dims: tuple[int | None, ...] | None = None
        if len(ranks) == 1:
            dims = tuple(s[0] if len(set(s)) == 1 else None for s in zip(*found, strict=True))
        inputs.append(OpenInput(t.name, dims))

    def refuse(sizes: object) -> Model:
        raise AssertionError("the graphs are those of the binary")

    return DynamicModel(
        os.path.basename(binary.path),
        binary.path,
        inputs,
        [t.name for t in first.outputs],
        list(shapes),
        refuse,
        (),
        first=False,
        remedy="Make the binary with this shape among its graphs",
    )
