"""From a model with a finding to a small one with the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np

from qnnrt.model import Model, Tensor

from .checks import Case
from .compare import evaluate
from .generate import generate, prune

#: Says whether a case still shows it.
Shows = Callable[[Case], bool]


def size(model: Model) -> int:
    """What is to become small: nodes first, then elements."""
    elements = sum(math.prod(t.shape) for t in model.tensors.values())
    return 100_000 * len(model.nodes) + elements


def shrink(case: Case, shows: Shows) -> Case:
    """Fewer outputs and nodes; what the nodes that are left read is fed instead of computed."""
    best = case
    for attempt in (_one_output, _cut):
        for smaller in attempt(best):
            if size(smaller.model) < size(best.model) and shows(smaller):
                best = smaller
                break
    # Nodes at the end that do not matter.
    again = True
    while again and len(best.model.nodes) > 1:
        again = False
        for smaller in (*_one_output(best), *_cut(best)):
            if size(smaller.model) < size(best.model) and shows(smaller):
                best, again = smaller, True
                break
    return best


def simpler(case: Case, shows: Shows, tries: int = 200) -> Case:
    """The smallest of other random models of the same ops and types that shows it, or the case."""
    ops = sorted({n.type for n in case.model.nodes})
    if len(ops) != 1:
        return case
    theme = _theme(case.model)
    best = case
    for number in range(tries):
        try:
            made = generate(case.seed, 1_000_000 + number, only=ops, theme=theme)
        except Exception:  # the generator's own: not what is looked for here
            continue
        other = Case(made.model, made.feeds, case.seed)
        if made.model.nodes and size(other.model) < size(best.model) and shows(other):
            best = other
    return best


def _theme(model: Model) -> str:
    t = model.tensors[model.nodes[0].inputs[0]]
    name, bits = t.dtype.name.rstrip("0123456789"), t.dtype.itemsize * 8
    if t.quantization is not None:
        return f"{'SU'[name == 'uint']}FIXED_POINT_{bits}"
    return f"{name.upper()}_{bits}"


def _one_output(case: Case) -> list[Case]:
    """For each tensor that a node makes: the nodes that it needs."""
    made = []
    for node in case.model.nodes:
        for name in filter(None, node.outputs):
            model = copy.copy(case.model)
            needed = {name}
            nodes = []
            for n in reversed(model.nodes):
                if needed & set(n.outputs):
                    nodes.append(n)
                    needed |= set(n.inputs)
            model.nodes = nodes[::-1]
            made.append(_pruned(case, model, [name], case.feeds))
    return made


def _cut(case: Case) -> list[Case]:
    """For each node but the first: it and what follows, fed with the values that it should get."""
    try:
        values = evaluate(case.model, case.feeds)
    except Exception:
        return []
    cases = []
    for first in range(len(case.model.nodes) - 1, 0, -1):
        model = copy.copy(case.model)
        model.nodes = case.model.nodes[first:]
        there = {n for node in model.nodes for n in node.outputs}
        read = {n for node in model.nodes for n in node.inputs if n}
        fed = [n for n in read - there if model.tensors[n].data is None]
        model.inputs = sorted(fed)
        outputs = [n for n in case.model.outputs if n in there]
        feeds = {n: np.asarray(values[n], model.tensors[n].dtype) for n in fed}
        if outputs:
            cases.append(_pruned(case, model, outputs, feeds))
    return cases


def _pruned(case: Case, model: Model, outputs: list[str], feeds: dict[str, np.ndarray]) -> Case:
    model.outputs = outputs
    model.inputs = list(model.inputs)
    model.tensors = dict(model.tensors)
    prune(model)
    return Case(model, {n: feeds[n] for n in model.inputs}, case.seed)


def described(case: Case) -> str:
    """The model, its encodings, and what is small enough of its values."""
    lines = [str(case.model)]
    for t in case.model.tensors.values():
        lines += _encoding(t)
        data = t.data if t.data is not None else case.feeds.get(t.name)
        if data is not None and data.size <= 40:
            lines.append(f"  {t.name} = {data.tolist()}")
    return "\n".join(lines)


def _encoding(t: Tensor) -> list[str]:
    q = t.quantization
    return [] if q is None else [f"  {t.name}: {q.scale} * (q + {q.offset}), axis {q.axis}"]
