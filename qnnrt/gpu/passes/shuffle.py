"""Convolutions of single channels read what a ChannelShuffle would leave."""

from __future__ import annotations

from collections import Counter

from ..ir import Ir, Node
from ..ops import takes_shuffle
from ..target import Target

__all__ = ["read_shuffled"]


def read_shuffled(ir: Ir, target: Target) -> None:
    """Leave out each ChannelShuffle of the last axis whose only reader can read what it shuffles:
    see ``Node.shuffle``. Not on a CPU, where neighbours are read at once."""
    if target.device.kind == "cpu":
        return
    readers = Counter(
        value.root
        for node in ir.nodes
        for value in (*node.inputs, *(v for post in node.post for v, _ in post.operands))
        if value is not None
    )
    shuffles = {node.outputs[0].root: node for node in ir.nodes if _is_shuffle(node)}
    dead = set()
    for node in ir.nodes:
        x = node.inputs[0] if node.type in takes_shuffle() else None
        shuffle = shuffles.get(x.root) if x is not None else None
        if x is None or shuffle is None or readers[x.root] != 1 or x.root.kind != "native":
            continue
        if x.shape != shuffle.outputs[0].shape or node.outputs[0].shape[-1] != x.shape[-1]:
            continue
        node.inputs[0] = shuffle.inputs[0]
        node.shuffle = int(shuffle.params["num_groups"])
        dead.add(id(shuffle))
    if dead:
        ir.nodes = [node for node in ir.nodes if id(node) not in dead]
        ir.passes.append(("read_shuffled", len(dead)))


def _is_shuffle(node: Node) -> bool:
    """Of the last axis, and nothing behind it."""
    rank = len(node.outputs[0].shape)
    return (
        node.type == "ChannelShuffle"
        and not node.post
        and int(node.params["axis"]) % rank == rank - 1
    )
