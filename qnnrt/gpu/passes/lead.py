"""Scales of joined channels move into the convolutions of single pixels that read them.

Networks whose layers read what all layers before have made (DenseNet) normalize a Concat anew for
each of them. What comes behind a Concat is done by its kernel, so that there would be one for each
layer, which writes all channels twice. A convolution that scales what it reads lets the next pass
leave out the Concat.
"""

from __future__ import annotations

from ..ir import Ir, Lead, Node, Value
from ..ops.common import given
from ..ops.conv import takes_lead
from ..target import Target

__all__ = ["scale_first"]


def scale_first(ir: Ir, target: Target) -> None:
    """Leave out each Batchnorm, and the Relu behind it, of a Concat's result for one convolution
    that can do it to what it reads: see ``Node.lead``."""
    readers: dict[Value, list[Node]] = {}
    for node in ir.nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value.root, []).append(node)
    joined = {node.outputs[0].root for node in ir.nodes if node.type == "Concat"}
    dead = set()
    for node in ir.nodes:
        x = node.inputs[0] if node.type == "Batchnorm" else None
        if x is None or x.root not in joined or not _constant(node):
            continue
        chain = [node]
        follower = _only_reader(node, readers)
        relu = follower is not None and follower.type == "Relu"
        if relu and follower is not None:
            chain.append(follower)
            follower = _only_reader(follower, readers)
        if follower is None or follower.inputs[0] is not chain[-1].outputs[0]:
            continue
        if follower.inputs[0].shape != x.shape or not takes_lead(follower, target):
            continue
        scale, shift = node.inputs[1], given(node, 2)
        assert scale is not None
        follower.lead = Lead(scale, shift, relu)
        follower.inputs[0] = x
        dead |= {id(gone) for gone in chain}
    if dead:
        ir.nodes = [node for node in ir.nodes if id(node) not in dead]
        ir.passes.append(("scale_first", len(dead)))


def _constant(node: Node) -> bool:
    """Whether a Batchnorm's numbers are known, one for each channel, of its input's type."""
    x, *rest = (value for value in node.inputs if value is not None)
    return all(
        v.root.data is not None and v.size == x.shape[-1] and v.dtype == x.dtype for v in rest
    )


def _only_reader(node: Node, readers: dict[Value, list[Node]]) -> Node | None:
    """The one node that reads what a node writes, if nobody outside of the graph does."""
    (y,) = node.outputs
    found = readers.get(y.root, [])
    return found[0] if y.root.kind == "native" and len(found) == 1 else None
