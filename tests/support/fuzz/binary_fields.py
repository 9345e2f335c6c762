"""A context binary as its fields, and back with sizes and checksums that fit.

docs/context-binary.md describes them. They stand in the order of the file; each is a struct code
with a value, or text, or bytes.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass, field
from typing import Any

from qnnrt.dtypes import numpy_dtype

HEADER, PAGE = 256, 4096
#: Where the header has what is made to fit, and its code.
FITTED = {16: "Q", 24: "Q", 32: "Q", 40: "Q", 48: "Q", 92: "I", 252: "I"}
_NOT_THERE = 0xFFFFFFFF


@dataclass
class Field:
    """`label` says what it is: "rank", "dim", "tensor number", ..."""

    code: str  # of struct; "text"; "raw"
    value: Any
    label: str

    def bytes(self) -> bytes:
        if self.code == "raw":
            return bytes(self.value)
        if self.code == "text":
            return struct.pack("<I", len(self.value)) + self.value
        return struct.pack(f"<{self.code}", self.value)


@dataclass
class GraphFields:
    """A graph's part of the metadata, its nodes, and its weights.

    The places and sizes of nodes and weights are not among the fields: they are made to fit.
    """

    before: list[Field] = field(default_factory=list)  # up to the place of the weights
    after: list[Field] = field(default_factory=list)  # inputs and outputs
    nodes: list[Field] = field(default_factory=list)
    weights: bytes = b""
    work: float = 0.0  # at most, of an execution
    nbytes: int = 0  # of all tensors


@dataclass
class Binary:
    """A whole one; `header` has its 256 bytes."""

    header: bytearray
    graphs: list[GraphFields]


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields: list[Field] = []

    def get(self, code: str, label: str, keep: bool = True) -> Any:
        size = struct.calcsize(f"<{code}")
        if self.at + size > len(self.data):
            raise ValueError("the end")
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += size
        if keep:
            self.fields.append(Field(code, value, label))
        return value

    def text(self, label: str) -> bytes:
        size = self.get("I", "", keep=False)
        return self.raw(size, label, "text")

    def raw(self, size: int, label: str, code: str = "raw") -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("the end")
        value = self.data[self.at : self.at + size]
        self.at += size
        self.fields.append(Field(code, value, label))
        return value

    def count(self, label: str) -> int:
        found = int(self.get("I", f"number of {label}"))
        if found > len(self.data):
            raise ValueError("more than there is")
        return found

    def tensor(self) -> tuple[int, int]:
        """Elements and bytes."""
        self.get("I", "id")
        self.text("name")
        self.get("I", "tensor type")
        kind = self.get("I", "data type")
        self.get("B", "memory type")
        elements = math.prod(self.get("I", "dim") for _ in range(self.count("dims")))
        if scales := self.count("scales"):
            self.get("I", "encoding")
            self.get("i", "axis")
            self.get("I", "bits")
            for _ in range(self.count("blocks")):
                self.get("I", "block")
            for _ in range(scales):
                self.get("f", "scale")
            for _ in range(scales):
                self.get("i", "offset of an encoding")
        try:
            size = elements * numpy_dtype(kind).itemsize
        except TypeError:
            size = elements
        return elements, size

    def node(self, tensors: list[tuple[int, int]]) -> float:
        """Its work at most."""
        for label in ("name", "package", "op"):
            self.text(label)
        for _ in range(self.count("params")):
            self.text("param")
            kind = self.get("B", "param kind")
            if kind == 5:  # of a package's op
                self.get("I", "data type")
                kind = self.get("B", "param kind")
            if kind == 3:
                self.text("param text")
            elif kind == 4:
                self.raw(self.tensor()[1], "param data")
            else:
                self.get({0: "q", 1: "d", 2: "B"}[kind], "param value")
        read = wrote = 1
        for out in (False, True):
            for _ in range(self.count("ports")):
                number = self.get("I", "tensor number")
                size = tensors[number][0] if number < len(tensors) else 1
                read, wrote = (read, wrote + size) if out else (max(read, size), wrote)
        for _ in range(self.count("post ops")):
            for code, label in (("B", "post op"), ("B", "activation"), ("f", "alpha"),
                                ("f", "beta"), ("I", "tensor number")):  # fmt: skip
                self.get(code, label)
        return float(read) * wrote


def parse(data: bytes) -> Binary:
    """The fields of a binary.

    Raises:
        ValueError, KeyError: something is not as it should be.
    """
    if len(data) < HEADER:
        raise ValueError("no header")
    count = struct.unpack_from("<I", data, 60)[0]
    reader, graphs = _Reader(data, HEADER), []
    for _ in range(count):
        graph = GraphFields()
        reader.fields = graph.before
        reader.text("graph")
        reader.get("I", "threads")
        reader.get("B", "portable")
        reader.get("Q", "arena")
        at, size, _, nodes_at, _ = (
            reader.get(code, "", keep=False) for code in ("Q", "Q", "I", "Q", "Q")
        )
        graph.weights = data[at : at + size]
        reader.fields = graph.after
        tensors = [
            reader.tensor() for what in ("inputs", "outputs") for _ in range(reader.count(what))
        ]
        _nodes(_Reader(data, nodes_at), graph, tensors)
        graphs.append(graph)
    return Binary(bytearray(data[:HEADER]), graphs)


def _nodes(reader: _Reader, graph: GraphFields, tensors: list[tuple[int, int]]) -> None:
    reader.fields = graph.nodes
    for _ in range(reader.count("tensors")):
        tensors.append(reader.tensor())
        reader.get("B", "storage")
        reader.get("Q", "offset in the weights")
    graph.nbytes = sum(size for _, size in tensors)
    for _ in range(reader.count("nodes")):
        graph.work += reader.node(tensors)
    for _ in range(reader.count("packed weights")):
        reader.get("I", "node number")
        reader.get("I", "input number")
        reader.text("layout")
        reader.get("Q", "offset in the weights")
        reader.get("Q", "size")
    for _ in range(reader.count("passes")):
        reader.text("pass")
        reader.get("i", "changes")
    for label in ("arena", "lower bound", "sum"):
        reader.get("Q", label)
    reader.text("order")
    for _ in range(reader.count("offsets")):
        reader.get("Q", "offset in the arena")


def build(binary: Binary) -> bytes:
    """The bytes, with sizes, places and checksums that fit."""
    places = struct.calcsize("<QQIQQ")
    heads = [
        (b"".join(f.bytes() for f in g.before), b"".join(f.bytes() for f in g.after))
        for g in binary.graphs
    ]
    nodes = [b"".join(f.bytes() for f in g.nodes) for g in binary.graphs]
    nodes_at = HEADER + sum(len(a) + len(b) + places for a, b in heads)
    weights_at = -(-(nodes_at + sum(map(len, nodes))) // PAGE) * PAGE
    metadata, at = b"", weights_at
    for graph, (before, after), part in zip(binary.graphs, heads, nodes, strict=True):
        sum_ = crc32c(graph.weights)
        metadata += before
        metadata += struct.pack("<QQIQQ", at, len(graph.weights), sum_, nodes_at, len(part)) + after
        nodes_at += len(part)
        at += len(graph.weights)
    metadata = (metadata + b"".join(nodes)).ljust(weights_at - HEADER, b"\0")
    return sealed(binary.header, metadata, b"".join(g.weights for g in binary.graphs))


def sealed(header: bytes, metadata: bytes, weights: bytes) -> bytes:
    """A binary of these parts."""
    head = bytearray(header)
    end = HEADER + len(metadata)
    values = (end + len(weights), HEADER, len(metadata), end, len(weights), crc32c(metadata))
    for (at, code), value in zip(list(FITTED.items())[:-1], values, strict=True):
        struct.pack_into(f"<{code}", head, at, value)
    struct.pack_into("<I", head, 252, crc32c(bytes(head[:252])))
    return bytes(head) + metadata + weights


def _table() -> tuple[int, ...]:
    def entry(crc: int) -> int:
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc

    return tuple(map(entry, range(256)))


_TABLE = _table()


@functools.lru_cache(64)
def crc32c(data: bytes) -> int:
    """RFC 3720's checksum."""
    table, crc = _TABLE, 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
