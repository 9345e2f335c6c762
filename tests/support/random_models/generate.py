"""A model by its seed and number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qnnrt import qnn
from qnnrt.errors import QnnError
from qnnrt.model import Model, Node

from . import (  # noqa: F401
    rules_areas,
    rules_elementwise,
    rules_move,
    rules_products,
    rules_transform,
)
from .growing import RULES, Growing, Unfit


@dataclass
class Made:
    """A model, what it is fed, and what came of the nodes that were tried for it."""

    model: Model
    feeds: dict[str, np.ndarray]
    kinds: dict[str, str]
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)  # op, type
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # op, why
    tried: Counter[str] = field(default_factory=Counter)


class _Probe:
    """Whether the cpu backend accepts the nodes, one after the other."""

    def __init__(self, g: Growing, backend: qnn.Backend, context: qnn.Context) -> None:
        self.g, self.backend = g, backend
        self.graph = context.create_graph("probe")
        self.made: dict[str, object] = {"": None}

    def _tensor(self, name: str) -> object:
        if name not in self.made:
            t = self.g.model.tensors[name]
            kind = "app_write" if name in self.g.feeds else "native"
            self.made[name] = self.graph.add_tensor(
                name, t.shape, t.dtype, type="static" if t.data is not None else kind, data=t.data,
                quantization=t.quantization,
            )  # fmt: skip
        return self.made[name]

    def __call__(self, node: Node) -> None:
        ins = [self._tensor(n) for n in node.inputs]
        outs = [self._tensor(n) for n in node.outputs]
        self.backend.validate_op(node.type, ins, outs, node.params)  # type: ignore[arg-type]
        self.graph.add_node(node.name, node.type, ins, outs, node.params)  # type: ignore[arg-type]


def generate(seed: int, number: int, *, only: Sequence[str] = (), theme: str | None = None) -> Made:
    """The model of a seed and a number; only: ops to choose from, all of them unless given."""
    g = Growing(seed, number, theme)
    made = Made(g.model, g.feeds, g.kinds)
    ops = list(only) or sorted(RULES)
    wanted = g.choice((1, 1, 2, 3, 4, 5, 6, 8, 10, 12))
    with qnn.Backend.shared("cpu") as backend, backend.create_context() as context:
        g.accepts = _Probe(g, backend, context)
        for _ in range(wanted * 12):
            if len(g.model.nodes) >= wanted:
                break
            op = g.choice(ops)
            made.tried[op] += 1
            try:
                g.node(op, RULES[op](g, op))
            except Unfit as e:
                made.refused[op, f"unfit: {e}"] += 1
                continue
            except QnnError as e:
                made.refused[op, str(e)] += 1
                continue
    _finish(g)
    for node in g.model.nodes:
        first = next(n for n in (*node.inputs, *node.outputs) if n)
        made.taken[node.type, g.kinds[first]] += 1
    return made


def _finish(g: Growing) -> None:
    """Outputs are what nobody reads, and some of the rest; what was made in vain goes."""
    model = g.model
    read = {n for node in model.nodes for n in node.inputs}
    made = [n for node in model.nodes for n in node.outputs if n]
    model.outputs = [n for n in made if n not in read or g.chance(0.1)]
    prune(model)
    for name in g.feeds.keys() - set(model.inputs):
        del g.feeds[name]


def prune(model: Model) -> None:
    """Drops the inputs and constants that no node reads."""
    used = {n for node in model.nodes for n in (*node.inputs, *node.outputs)}
    model.inputs[:] = [n for n in model.inputs if n in used]
    for name in [n for n in model.tensors if n not in used]:
        del model.tensors[name]
