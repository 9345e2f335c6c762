"""Convolutions write where a Concat of their channels would copy what they computed."""

from __future__ import annotations

from itertools import accumulate

from ..ir import Ir, Node, Value
from ..ops import takes_line
from ..target import Target

__all__ = ["write_in_place"]


def write_in_place(ir: Ir, target: Target) -> None:
    """Leave out each Concat along the last axis whose operands nobody else reads, and whose writers
    can write to a part of its lines: see ``Node.line``.

    Where a Concat adds to what another one has joined, and what else reads that can read the first
    part of each line (``Node.reads``), both are one, and only what has no such writer is copied
    there.
    """
    graph = _Graph(ir)
    left = []
    for node in ir.nodes:
        copies = graph.copies(node) if _joins_lines(node) else None
        left += [node] if copies is None else copies
    if len(left) < len(ir.nodes):
        ir.passes.append(("concat_in_place", len(ir.nodes) - len(left)))
    ir.nodes = left


class _Graph:
    """Who reads and who writes every value, by the memory that it lies in before the pass."""

    def __init__(self, ir: Ir) -> None:
        self.readers: dict[Value, list[Node]] = {}
        for node in ir.nodes:
            operands = (v for post in node.post for v, _ in post.operands)
            for value in (*node.inputs, *operands):
                if value is not None:
                    self.readers.setdefault(value.root, []).append(node)
        self.writers = {node.outputs[0].root: node for node in ir.nodes if len(node.outputs) == 1}
        # What a Concat has joined -> the one that adds to it.
        self.grows: dict[Value, Node] = {}
        self.begins: set[int] = set()  # those that add
        for node in ir.nodes:
            first = node.inputs[0].root if _joins_lines(node) and node.inputs[0] else None
            if first is not None and self._read_as_lines(first, node):
                self.grows[first] = node
                self.begins.add(id(node))

    def _read_as_lines(self, joined: Value, node: Node) -> bool:
        """Whether another Concat has joined it, and but for this one it is read by convolutions
        that can read lines."""
        writer = self.writers.get(joined)
        if writer is None or joined.kind != "native" or not _joins_lines(writer):
            return False
        shape = writer.outputs[0].shape
        others = [reader for reader in self.readers[joined] if reader is not node]
        values = [reader.inputs[0] for reader in (node, *others)]
        return (
            len(others) + 1 == len(self.readers[joined])
            and all(v is not None and v.root is joined and v.shape == shape for v in values)
            and all(reader.lead is not None for reader in others)
        )

    def copies(self, node: Node) -> list[Node] | None:
        """What is left of a Concat, whose operands have a place in its result from now on; None
        where it remains as it is."""
        y = node.outputs[0]
        joined, alone = y.root, id(node) not in self.begins and y.root not in self.grows
        whole = y
        while whole.root in self.grows:
            whole = self.grows[whole.root].outputs[0]
        width = whole.shape[-1]
        operands = [value for value in node.inputs if value is not None]
        ends = list(accumulate(value.shape[-1] for value in operands))
        there = 1 if id(node) in self.begins else 0
        parts = list(zip(operands, ends, strict=True))[there:]
        writers = [self._writer(value) for value, _ in parts]
        if alone and None in writers:
            return None
        left = []
        for (value, end), writer in zip(parts, writers, strict=True):
            line = (end - value.shape[-1], width)
            if writer is not None:
                writer.line = line
                value.root.base = whole
                continue
            part = Value(value.name, 0, value.shape, y.dtype, y.code, "native", base=whole)
            left.append(Node(node.name, node.type, [value], [part], node.params, line=line))
        if joined in self.grows:
            for reader in self.readers[joined]:
                reader.reads = width if reader.lead is not None else 0
            joined.base = whole
        return left

    def _writer(self, value: Value) -> Node | None:
        """Who can write an operand to its place; None where it has to be copied."""
        root = value.root
        if root.kind != "native" or len(self.readers[root]) != 1:
            return None
        writer = self.writers.get(root)
        if writer is None or writer.type not in takes_line() or not _writes_lines(writer, value):
            return None
        return writer


def _joins_lines(node: Node) -> bool:
    """Whether it is a Concat along the last axis, and nothing else."""
    if node.type != "Concat" or node.post or len(node.outputs) != 1:
        return False
    rank = len(node.outputs[0].shape)
    return int(node.params["axis"]) % rank == rank - 1 and None not in node.inputs


def _writes_lines(writer: Node, value: Value) -> bool:
    """Whether it writes lines of the operand's, and reads nothing at the same place."""
    return (
        writer.line is None
        and writer.outputs[0].shape[-1] == value.shape[-1]
        and not any(post.operands or post.keep for post in writer.post)
    )
