"""The large constants of an ONNX file, apart from the rest of it.

protobuf copies what it parses, and once more what is taken out of a message. Most of a file is the
raw data of its initializers, so these are found first, and stay where they are; protobuf gets the
message without them. Only where a message is written in the ordinary way: whatever is not is left
to protobuf as a whole, and means what protobuf says it means.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..._native import _core

#: Raw data of at least so many bytes stays where it is.
LEAST = 1 << 14
#: protobuf reads no longer messages.
_LONGEST = 2**31 - 1

# Fields of ModelProto, GraphProto and TensorProto.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_BYTES = 2  # the kind of a field


#: Of a TensorProto: name, sizes, element type, its elements (None: they stay where they are), and
#: where their field, they and their end are.
Read = tuple[str, tuple[int, ...], int, bytes | None, int, int, int]


class _Odd(Exception):
    """Something that is not written as every writer does it."""


@dataclass
class Parts:
    """A serialized ModelProto.

    Attributes:
        text: without large raw data. Where nothing can be taken out: the bytes as they are.
        apart: large raw data, by the index of the initializer of the model's graph.
        read: the graph's initializers, for each None where protobuf has to be asked; empty where
            it has to be for all.
    """

    text: bytes
    apart: dict[int, memoryview] = field(default_factory=dict)
    read: list[Read | None] = field(default_factory=list)


def split(data: memoryview, least: int = LEAST) -> Parts:
    """What a file says, in parts."""
    try:
        found = _split(data, least) if len(data) <= _LONGEST else None
    except _Odd:
        found = None
    return Parts(bytes(data)) if found is None else found


def _split(data: memoryview, least: int) -> Parts | None:
    graphs = [f for f in _fields(data, 0, len(data)) if f[0] == _GRAPH and f[1] == _BYTES]
    if len(graphs) != 1:  # protobuf merges several
        return None
    _, _, begin, start, stop = graphs[0]
    initializers = _core.onnx_initializers(data, start, stop, least)
    if initializers is None:
        raise _Odd
    apart: dict[int, memoryview] = {}
    parts: list[bytes | memoryview] = []
    copied = start
    for index, (at, value, end, known) in enumerate(initializers):
        if end - value < least:
            continue
        raw = _raw_data(data, value, end) if known is None else known[4:]
        if raw is None or raw[2] - raw[1] < least or (known is not None and known[3] is not None):
            continue
        rest = b"".join((data[value : raw[0]], data[raw[2] : end]))
        parts += (data[copied:at], _field(_INITIALIZER, len(rest)), rest)
        apart[index] = data[raw[1] : raw[2]]
        copied = end
    read = [each[3] for each in initializers]
    if not apart:
        return Parts(bytes(data), apart, read)
    parts.append(data[copied:stop])
    head = _field(_GRAPH, sum(map(len, parts)))
    return Parts(b"".join((data[:begin], head, *parts, data[stop:])), apart, read)


def _raw_data(data: memoryview, at: int, end: int) -> tuple[int, int, int] | None:
    """Where the raw data of a TensorProto lies: its field, its first byte, its end. None when it
    is not there once."""
    found = [f[2:] for f in _fields(data, at, end) if f[0] == _RAW_DATA and f[1] == _BYTES]
    return found[0] if len(found) == 1 else None


def _fields(data: memoryview, at: int, end: int) -> list[tuple[int, int, int, int, int]]:
    """The fields of a message: number, kind, and where field, value and end are."""
    found = _core.protobuf_fields(data, at, end)
    if found is None:
        raise _Odd
    return found


def _field(number: int, size: int) -> bytes:
    """The head of a field of bytes."""
    out = bytearray([number << 3 | _BYTES])
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
