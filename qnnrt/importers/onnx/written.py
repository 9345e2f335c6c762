"""Nodes as a file writes them, with everything taken out of protobuf once.

Each look at a field of a message makes a Python object of it, and a node is looked at by every step
from the check of its names to its lowering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from ..guard import shortened


class Written:
    """A node of a graph, a function or a branch. The names are those of the message.

    Attributes:
        names: of the attributes.
        name: may be changed, as may `output`: the message is the caller's.
        bodies: what is known of its graphs, by attribute, once it was run.
        graphs, tensors: what its attributes hold, by field, not by what they say that they are:
            whoever reads another field is safe, too.
    """

    __slots__ = (
        "attribute", "bodies", "domain", "graphs", "input", "name", "names", "op_type", "output",
        "overload", "proto", "tensors",
    )  # fmt: skip

    def __init__(self, proto: onnx.NodeProto) -> None:
        self.proto = proto
        self.name: str = proto.name
        self.op_type: str = proto.op_type
        self.domain: str = proto.domain
        self.overload: str = proto.overload
        self.input: list[str] = list(proto.input)
        self.output: list[str] = list(proto.output)
        self.attribute: list[onnx.AttributeProto] = list(proto.attribute)
        self.graphs: list[onnx.GraphProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.bodies: dict[str, Any] = {}
        self.names: list[str] = []
        for attr in self.attribute:
            self.names.append(attr.name)
            parts(attr, self.graphs, self.tensors)

    def again(self) -> Written:
        """The node as it was read, for another import of the same message."""
        found = Written.__new__(Written)
        for field in ("attribute", "domain", "graphs", "input", "name", "names", "op_type"):
            setattr(found, field, getattr(self, field))
        found.overload, found.proto, found.tensors = self.overload, self.proto, self.tensors
        found.output, found.bodies = list(self.output), {}
        return found

    def __str__(self) -> str:
        """What messages call it."""
        return f"node {shortened(repr(self.name))} ({shortened(self.op_type)})"


def parts(
    attr: onnx.AttributeProto, graphs: list[onnx.GraphProto], tensors: list[onnx.TensorProto]
) -> None:
    """Adds the graphs and tensors that an attribute holds itself."""
    if attr.HasField("t"):
        tensors.append(attr.t)
    if attr.HasField("g"):
        graphs.append(attr.g)
    if attr.HasField("sparse_tensor"):
        tensors += (attr.sparse_tensor.values, attr.sparse_tensor.indices)
    tensors += attr.tensors
    graphs += attr.graphs
    for sparse in attr.sparse_tensors:
        tensors += (sparse.values, sparse.indices)


def written(nodes: Iterable[onnx.NodeProto]) -> list[Written]:
    return [Written(node) for node in nodes]
