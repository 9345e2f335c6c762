"""Nodes as a file writes them, with everything taken out of protobuf once.

Each look at a field of a message makes a Python object of it, and a node is looked at by every step
from the check of its names to its lowering. So the binding reads the bytes of a node in one walk,
and what attributes say is kept by their bytes: most nodes of a network say what others say, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import onnx

from ..._native import _core
from ..guard import shortened
from .wire import Read

#: How many different lists of attributes are remembered, and of how many bytes.
_MOST_SAID, _LONGEST_SAID = 4096, 1024


#: Element types whose raw data is an array as it lies.
ELEMENTS: Final = {
    number: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    for number in map(
        onnx.TensorProto.DataType.Value,
        ("FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16",
         "BFLOAT16", "DOUBLE", "UINT32", "UINT64"),
    )
}  # fmt: skip
#: Raw data of so many bytes is copied out of its message: it lies on a boundary then.
_COPIED = 1 << 14


def raw_array(message: bytes, found: tuple[tuple[int, ...], int, int, int]) -> np.ndarray | None:
    """The elements of a tensor of raw data that the binding has found in a message; None where its
    bytes are not those of its shape and type."""
    if (dtype := ELEMENTS.get(found[1])) is None:
        return None
    dims, _, begin, end = found
    with suppress(ValueError):
        if end - begin <= _COPIED:
            return np.frombuffer(message[begin:end], dtype).reshape(dims)
        if (end - begin) % dtype.itemsize == 0:
            count = (end - begin) // dtype.itemsize
            return np.frombuffer(message, dtype, count, begin).reshape(dims)
    return None


def tensor_array(message: bytes) -> np.ndarray | None:
    """The elements of a serialized tensor of raw data, or that lists them as float32 or int32: of
    scales and zero points, mostly. None for any other."""
    read = _core.onnx_tensor(message, _COPIED)
    if read is None:
        return None
    _, dims, kind, elements, _, begin, end = read
    if elements is None:
        return raw_array(message, (dims, kind, begin, end))
    return raw_array(elements, (dims, kind, 0, len(elements)))


class Initializer:
    """A constant of a graph, looked at once.

    Attributes:
        name: bytes where protobuf could not decode it.
        array: its elements; None where `reader.array_of` has to be asked for them.
    """

    __slots__ = ("_graph", "_index", "array", "name")

    def __init__(
        self, graph: onnx.GraphProto, index: int, read: Read | None, apart: memoryview | None
    ) -> None:
        """`read`: what is known of it without protobuf; `apart`: raw data that is elsewhere."""
        self._graph, self._index = graph, index
        self.array: np.ndarray | None = None
        if read is None:
            self.name: str | bytes = self.proto.name
            return
        self.name, dims, kind = read[:3]
        dtype, data = ELEMENTS.get(kind), apart if read[3] is None else read[3]
        if dtype is not None and data:
            with suppress(ValueError):  # other elements than its shape has
                self.array = np.frombuffer(data, dtype).reshape(dims)

    @property
    def proto(self) -> onnx.TensorProto:
        found: onnx.TensorProto = self._graph.initializer[self._index]
        return found


def initializers(
    graph: onnx.GraphProto, read: Sequence[Read | None] = (), apart: Mapping[int, memoryview] = {}
) -> list[Initializer]:
    """Those of a graph. `read`, where they were, and `apart` as in `wire.Parts`."""
    if len(read) != len(graph.initializer):
        messages = [t.SerializeToString() for t in graph.initializer]
        read = [_core.onnx_tensor(message, len(message) + 1) for message in messages]
        apart = {}
    return [Initializer(graph, i, each, apart.get(i)) for i, each in enumerate(read)]


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
        value: of a Constant, the tensor that it holds, where that needs nothing else to be known:
            `tensors` is made of the message then.
    """

    __slots__ = (
        "_tensors", "bodies", "domain", "graphs", "input", "kinds", "name", "names", "op_type",
        "output", "overload", "proto", "said", "value",
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
        self._tensors: list[onnx.TensorProto] = []
        self.bodies: dict[str, Any] = {}
        self.said: Attributes | None = None
        self.value: np.ndarray | None = None
        message = proto.SerializeToString()
        self.op_type = proto.op_type
        if self.op_type == "Constant" and self._is_plain(message):
            return
        found = None if self.op_type == "Constant" else _core.onnx_node(message)
        if found is not None:
            self.input, self.output, self.name, self.op_type = found[:4]
            self.domain, self.overload, data = found[4:]
            self.said = said = _said(data)
            if said is not None:
                self.names, self.kinds = said.names, said.kinds
                return
        else:
            self.name = proto.name
            self.domain = proto.domain
            self.overload = proto.overload
            self.input = list(proto.input)
            self.output = list(proto.output)
        self.names, self.kinds = [], []
        for attribute in proto.attribute:
            self.names.append(attribute.name)
            self.kinds.append(attribute.type)
            parts(attribute, self.graphs, self._tensors)

    def _is_plain(self, message: bytes) -> bool:
        """Whether it is a Constant that gives the one tensor that it holds, as raw data. Some
        exports are full of such."""
        found = _core.onnx_constant(message)
        if found is None or (value := raw_array(message, found[3])) is None:
            return False
        self.name, output, self.domain, _ = found
        self.value, self.input, self.output, self.overload = value, [], [output], ""
        self.names, self.kinds = ["value"], [onnx.AttributeProto.TENSOR]
        return True

    @property
    def tensors(self) -> list[onnx.TensorProto]:
        return [self.proto.attribute[0].t] if self.value is not None else self._tensors

    @property
    def attribute(self) -> list[onnx.AttributeProto]:
        """The attributes as messages."""
        return list(self.proto.attribute)

    def again(self) -> Written:
        """The node as it was read, for another import of the same message."""
        found = Written.__new__(Written)
        for field in ("domain", "graphs", "input", "kinds", "name", "names", "op_type", "overload"):
            setattr(found, field, getattr(self, field))
        found.proto, found.said, found.value = self.proto, self.said, self.value
        found._tensors = self._tensors
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
