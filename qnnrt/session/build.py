"""From what a session is given to a graph: choices for each tensor, options, tensors and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..model.binary import MEM_TYPES

if TYPE_CHECKING:
    from ..model import Model
    from ..qnn.graph import Graph

#: How tensors are bound, or were prepared: one word for all, or a mapping from names.
Choice: TypeAlias = "str | Mapping[str, str]"


def check_choice(what: str, value: Choice | None) -> None:
    """Raises ``ValueError`` for a word that is neither "memhandle" nor "raw", nor "scratch" where
    that is one."""
    words = value.items() if isinstance(value, Mapping) else [("", value or "raw")]
    known = (*MEM_TYPES, "scratch") if what == "io" else tuple(MEM_TYPES)
    for name, told in words:
        if told not in known:
            where = f"{what}[{name!r}]" if name else what
            raise ValueError(f"{where} must be {' or '.join(map(repr, known))}, not {told!r}")


def choices(
    what: str, value: Choice | None, names: Sequence[str], default: Mapping[str, str]
) -> dict[str, str]:
    """The word for each tensor; those that a mapping leaves out get the default's.

    Raises:
        ValueError: the mapping names a tensor that is no input or output.
    """
    if isinstance(value, str):
        return dict.fromkeys(names, value)
    given = dict(value or {})
    if unknown := [name for name in given if name not in names]:
        raise ValueError(
            f"{what}: no input or output {unknown[0]!r}; there are {', '.join(map(repr, names))}"
        )
    return {name: given.get(name, default[name]) for name in names}


def one_word(words: Iterable[str]) -> str:
    """The word that all of them are, or "mixed"."""
    found = set(words)
    return found.pop() if len(found) == 1 else "mixed"


def add_model(
    graph: Graph, model: Model, prepare: Mapping[str, str], scalar: tuple[int, ...] = ()
) -> None:
    """A model's tensors and nodes, into a graph that has none yet.

    Args:
        graph: where to; not finalized here.
        model: a valid one.
        prepare: "raw" or "memhandle" for each input and output.
        scalar: the shape of a tensor without dimensions: () or (1,).
    """
    types = dict.fromkeys(model.inputs, "app_write") | dict.fromkeys(model.outputs, "app_read")
    used = {n for node in model.nodes for n in (*node.inputs, *node.outputs) if n}
    for name in (*model.inputs, *model.outputs, *sorted(used - types.keys())):
        t = model.tensors[name]
        kind = types.get(name, "native" if t.data is None else "static")
        graph.add_tensor(
            name,
            t.shape or scalar,
            t.dtype,
            type=kind,
            data=None if t.data is None else np.ascontiguousarray(t.data),
            quantization=t.quantization,
            mem_type=prepare[name] if name in types else "raw",
        )
    tensors = graph.tensors
    for node in model.nodes:
        graph.add_node(
            node.name,
            node.type,
            [tensors[n] if n else None for n in node.inputs],
            [tensors[n] if n else None for n in node.outputs],
            node.params,
        )
