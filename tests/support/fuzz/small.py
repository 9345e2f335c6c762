"""Which models are small enough to be run: honest ones may want more than a case has."""

from __future__ import annotations

import math

import qnnrt
from qnnrt.model import Model

_MOST_BYTES = 16 << 20
_MOST_WORK = 2e7
_MOST_NODES = 200


def is_small(model: Model) -> bool:
    """By the sizes of its tensors: a node's work is at most its outputs times an input."""
    sizes = {n: math.prod(t.shape) for n, t in model.tensors.items()}
    used = {n for node in model.nodes for n in (*node.inputs, *node.outputs) if n}
    if sum(sizes[n] * model.tensors[n].dtype.itemsize for n in used) > _MOST_BYTES:
        return False
    work = 0.0
    for node in model.nodes:
        read = max((sizes[n] for n in node.inputs if n), default=1)
        work += sum(sizes[n] for n in node.outputs if n) * float(max(read, 1))
    return work <= _MOST_WORK and len(model.nodes) <= _MOST_NODES


def run_small(model: Model, backend: str = "cpu") -> str:
    """Run a model once on zeros, if it is small."""
    if not is_small(model):
        return "loaded, too large to run"
    quick = {} if backend == "gpu" else {"threads": 1, "options": {"plan_milliseconds": 0}}
    with qnnrt.Session(model, backend, **quick) as session:
        for tensor in session.inputs.values():
            tensor.array[...] = 0
        session.run()
    return "ran"
