"""Nodes as a file writes them, with everything taken out of protobuf once.

Each look at a field of a message makes a Python object of it, and a node is looked at by every step
from the check of its names to its lowering. So the binding reads the bytes of a node in one walk,
and what attributes say is kept by their bytes: most nodes of a network say what others say, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from ..._native import _core
from ..guard import shortened

#: How many different lists of attributes are remembered, and of how many bytes.
_MOST_SAID, _LONGEST_SAID = 4096, 1024


class Attributes:
    """What attributes of numbers and texts say, the same for all nodes that say it.

    Attributes:
        names, kinds: of each, in the order of the file.
        values: by name; made by `checks.attributes_of`.
    """

    __slots__ = ("kinds", "names", "values")

    def __init__(self, names: list[str], kinds: list[int]) -> None:
        self.names, self.kinds = names, kinds
        self.values: dict[str, Any] | None = None


_SAID: dict[bytes, Attributes] = {b"": Attributes([], [])}


def _said(data: bytes) -> Attributes | None:
    """The attributes that these bytes of a node are; None where they hold more than numbers and
    texts, or refer to something else."""
    found = _SAID.get(data)
    if found is not None or len(data) > _LONGEST_SAID:
        return found
    names, kinds = [], []
    graphs: list[onnx.GraphProto] = []
    tensors: list[onnx.TensorProto] = []
    for attribute in onnx.NodeProto.FromString(data).attribute:
        parts(attribute, graphs, tensors)
        if graphs or tensors or attribute.ref_attr_name or type(attribute.name) is not str:
            return None
        names.append(attribute.name)
        kinds.append(attribute.type)
    found = Attributes(names, kinds)
    if len(_SAID) < _MOST_SAID:
        _SAID[data] = found
    return found


class Written:
    """A node of a graph, a function or a branch. The names are those of the message.

    Attributes:
        names: of the attributes.
        kinds: of the attributes: the types that they say they have.
        name: may be changed, as may `output`: the message is the caller's.
        bodies: what is known of its graphs, by attribute, once it was run.
        graphs, tensors: what its attributes hold, by field, not by what they say that they are:
            whoever reads another field is safe, too.
        said: what the attributes say, where others share it.
    """

    __slots__ = (
        "bodies", "domain", "graphs", "input", "kinds", "name", "names", "op_type", "output",
        "overload", "proto", "said", "tensors",
    )  # fmt: skip

    input: list[str]
    output: list[str]
    name: str
    op_type: str
    domain: str
    overload: str

    def __init__(self, proto: onnx.NodeProto) -> None:
        self.proto = proto
        self.graphs: list[onnx.GraphProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.bodies: dict[str, Any] = {}
        self.said: Attributes | None = None
        # A Constant's bytes may be many.
        found = None if proto.op_type == "Constant" else _core.onnx_node(proto.SerializeToString())
        if found is not None:
            self.input, self.output, self.name, self.op_type = found[:4]
            self.domain, self.overload, data = found[4:]
            self.said = said = _said(data)
            if said is not None:
                self.names, self.kinds = said.names, said.kinds
                return
        else:
            self.name = proto.name
            self.op_type = proto.op_type
            self.domain = proto.domain
            self.overload = proto.overload
            self.input = list(proto.input)
            self.output = list(proto.output)
        self.names, self.kinds = [], []
        for attribute in proto.attribute:
            self.names.append(attribute.name)
            self.kinds.append(attribute.type)
            parts(attribute, self.graphs, self.tensors)

    @property
    def attribute(self) -> list[onnx.AttributeProto]:
        """The attributes as messages."""
        return list(self.proto.attribute)

    def again(self) -> Written:
        """The node as it was read, for another import of the same message."""
        found = Written.__new__(Written)
        for field in ("domain", "graphs", "input", "kinds", "name", "names", "op_type", "overload"):
            setattr(found, field, getattr(self, field))
        found.proto, found.said, found.tensors = self.proto, self.said, self.tensors
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
