"""Nodes that only give a value another shape: no kernel, both lie in the same memory."""

from __future__ import annotations

from typing import Final

from ..ir import Ir, Node, Value
from ..target import Target

__all__ = ["is_view", "same_encoding", "share"]

_RESHAPES: Final = ("ExpandDims", "Reshape", "Squeeze")


def share(ir: Ir, target: Target) -> None:
    """Make views of what such nodes write, or read where that is an output of the graph.

    A node stays, and becomes a copy, where both of its sides have memory of their own already: from
    an input or a constant to an output, or from one output to another.
    """
    # Backwards, so that a chain that ends in an output is written there from its start.
    for node in reversed(ir.nodes):
        if is_view(node):
            x, y = _roots(node)
            if x is not y and x.kind == "native" and y.kind in ("native", "output"):
                x.base = y
    for node in ir.nodes:
        if is_view(node):
            x, y = _roots(node)
            if x is not y and y.kind == "native":
                y.base = x
    kept = []
    for node in ir.nodes:
        if is_view(node):
            x, y = _roots(node)
            if x is y:
                continue
            node.type = "Reshape"
        kept.append(node)
    ir.nodes = kept


def is_view(node: Node) -> bool:
    """Whether the output's bytes are the input's."""
    x, y = node.inputs[0] if node.inputs else None, node.outputs[0]
    if x is None or x.code != y.code or x.size != y.size or not same_encoding(x, y):
        return False
    if node.type == "Transpose":
        return [n for n in x.shape if n > 1] == _moved(x, node)
    return node.type in _RESHAPES or (node.type in ("Cast", "Convert") and x.shape == y.shape)


def same_encoding(x: Value, y: Value) -> bool:
    """Whether the same bytes are the same numbers in both."""
    a, b = x.quantization, y.quantization
    if a is None or b is None:
        return a is b
    if a.axis is not None or b.axis is not None or a.block is not None or b.block is not None:
        return False
    return (a.scale, a.offset, a.bitwidth) == (b.scale, b.offset, b.bitwidth)


def _moved(x: Value, node: Node) -> list[int] | None:
    """Sizes of a transposed value without ones, None where dims have changed their order."""
    order = [int(n) for n in node.params["perm"]]
    long = [n for n in order if x.shape[n] > 1]
    return [x.shape[n] for n in long] if long == sorted(long) else None


def _roots(node: Node) -> tuple[Value, Value]:
    x = node.inputs[0]
    assert x is not None
    return x.root, node.outputs[0].root
