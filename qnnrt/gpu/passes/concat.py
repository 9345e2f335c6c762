"""Convolutions write where a Concat of their channels would copy what they computed."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from ..ir import Ir, Node, Value
from ..ops import takes_line
from ..target import Target

__all__ = ["write_in_place"]


def write_in_place(ir: Ir, target: Target) -> None:
    """Leave out each Concat along the last axis whose operands nobody else reads, and whose writers
    can write to a part of its lines: see ``Node.line``."""
    readers = Counter(
        value.root
        for node in ir.nodes
        for value in (*node.inputs, *(v for post in node.post for v, _ in post.operands))
        if value is not None
    )
    writers = {node.outputs[0].root: node for node in ir.nodes if len(node.outputs) == 1}
    left = []
    for node in ir.nodes:
        parts = _parts(node, readers, writers) if node.type == "Concat" else None
        if parts is None:
            left.append(node)
            continue
        y = node.outputs[0]
        widths = [value.shape[-1] for value, _ in parts]
        for (value, writer), end, width in zip(parts, accumulate(widths), widths, strict=True):
            writer.line = (end - width, y.shape[-1])
            value.root.base = y
    if len(left) < len(ir.nodes):
        ir.passes.append(("concat_in_place", len(ir.nodes) - len(left)))
        ir.nodes = left


def _parts(
    node: Node, readers: Counter[Value], writers: dict[Value, Node]
) -> list[tuple[Value, Node]] | None:
    """Each operand with its writer; None where one of them has to be copied."""
    y = node.outputs[0]
    rank = len(y.shape)
    if node.post or len(node.outputs) != 1 or int(node.params["axis"]) % rank != rank - 1:
        return None
    found = []
    for value in node.inputs:
        if value is None or value.root.kind != "native" or readers[value.root] != 1:
            return None
        writer = writers.get(value.root)
        if writer is None or writer.type not in takes_line() or not _writes_lines(writer, value):
            return None
        found.append((value, writer))
    return found


def _writes_lines(writer: Node, value: Value) -> bool:
    """Whether it writes lines of the operand's, and reads nothing at the same place."""
    return (
        writer.line is None
        and writer.outputs[0].shape[-1] == value.shape[-1]
        and not any(post.operands or post.keep for post in writer.post)
    )
