"""Whether the operations of a graph are such that the runtime has: what ports and ranks say.

An importer asks before it gives a model away: what no backend takes is then an error of the file's
node, not of a graph that is built from it later.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._native.op_table import op_table
from ..dtypes import data_type, data_type_name
from .graph import Edge, Op

__all__ = ["refused"]


def refused(ops: Sequence[Op]) -> Iterator[tuple[Op, str]]:
    """The operations that a graph would not take, each with the reason."""
    for op in ops:
        reason = _refusal(op.type, _kinds(op.inputs), _kinds(op.outputs))
        if reason is not None:
            yield op, reason


#: Of a tensor: element type, whether it is in fixed point, and rank.
_Kind = tuple[np.dtype, bool, int]


def _kinds(edges: Sequence[Edge | None]) -> tuple[_Kind | None, ...]:
    return tuple(
        [
            None if edge is None else (edge.dtype, edge.quantization is not None, len(edge.shape))
            for edge in edges
        ]
    )


@functools.lru_cache(maxsize=1024)
def _refusal(
    op: str, inputs: tuple[_Kind | None, ...], outputs: tuple[_Kind | None, ...]
) -> str | None:
    """Networks have the same few kinds of nodes over and over."""
    record = op_table().get(op)
    if record is None:
        return None
    types = ["" if kind is None else _type_of(kind) for kind in inputs]
    reason = _reason(op, inputs, record["inputs"], types)
    return _reason(op, outputs, record["outputs"], types) if reason is None else reason


def _type_of(kind: _Kind) -> str:
    dtype, quantized, _ = kind
    try:
        return data_type_name(data_type(dtype, quantized=quantized))
    except TypeError:  # a type that QNN does not have at all
        return dtype.name


def _reason(
    op: str,
    kinds: Sequence[_Kind | None],
    ports: Sequence[Mapping[str, Any]],
    inputs: Sequence[str],
) -> str | None:
    for i, kind in enumerate(kinds):
        if kind is None or not ports:
            continue
        port = ports[min(i, len(ports) - 1)]
        found, rank = _type_of(kind), kind[2]
        if found not in port["types"]:
            return f"QNN's {op} takes {', '.join(port['types'])} as {port['name']}, not {found}"
        other = port.get("type_of_input")
        like = inputs[other] if other is not None and other < len(inputs) else found
        both_fixed = "FIXED" in like and "FIXED" in found
        if like and like != found and not both_fixed:
            return f"QNN's {op} takes one type, not {like} and {found}"
        if not port["min_rank"] <= rank <= port["max_rank"]:
            return (
                f"QNN's {op} takes {port['name']} of rank {port['min_rank']} to "
                f"{port['max_rank']}, not {rank}"
            )
    return None
