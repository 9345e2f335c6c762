"""Whether the operations of a graph are such that the runtime has: what ports and ranks say.

An importer asks before it gives a model away: what no backend takes is then an error of the file's
node, not of a graph that is built from it later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._native.op_table import op_table
from ..dtypes import data_type, data_type_name
from .graph import Edge, Op

__all__ = ["refused"]


def refused(ops: Sequence[Op]) -> Iterator[tuple[Op, str]]:
    """The operations that a graph would not take, each with the reason."""
    table = op_table()
    for op in ops:
        record = table.get(op.type)
        if record is None:
            continue
        inputs = _types(op.inputs)
        for edges, ports in ((op.inputs, record["inputs"]), (op.outputs, record["outputs"])):
            reason = _reason(op.type, edges, ports, inputs)
            if reason is not None:
                yield op, reason
                break


def _types(edges: Sequence[Edge | None]) -> list[str]:
    return ["" if e is None else _type_of(e) for e in edges]


def _type_of(edge: Edge) -> str:
    try:
        return data_type_name(data_type(edge.dtype, quantized=edge.quantization is not None))
    except TypeError:  # a type that QNN does not have at all
        return edge.dtype.name


def _reason(
    op: str,
    edges: Sequence[Edge | None],
    ports: Sequence[Mapping[str, Any]],
    inputs: Sequence[str],
) -> str | None:
    for i, edge in enumerate(edges):
        if edge is None or not ports:
            continue
        port = ports[min(i, len(ports) - 1)]
        found = _type_of(edge)
        if found not in port["types"]:
            return f"QNN's {op} takes {', '.join(port['types'])} as {port['name']}, not {found}"
        other = port.get("type_of_input")
        like = inputs[other] if other is not None and other < len(inputs) else found
        both_fixed = "FIXED" in like and "FIXED" in found
        if like and like != found and not both_fixed:
            return f"QNN's {op} takes one type, not {like} and {found}"
        if not port["min_rank"] <= len(edge.shape) <= port["max_rank"]:
            return (
                f"QNN's {op} takes {port['name']} of rank {port['min_rank']} to "
                f"{port['max_rank']}, not {len(edge.shape)}"
            )
    return None
