"""C structs as bytes: what qnnrt/abi/structs.py says of each."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

__all__ = ["Layout"]


class Layout:
    """Where the fields of a C struct lie on 64-bit Linux.

    A member of an anonymous union is a field like the others. A field that is a struct has the
    values of all its own fields, as a tuple; one that has a union in it, bytes.

    Attributes:
        size: in bytes.
        fields: name -> its offset, its format for ``struct``.
    """

    __slots__ = ("fields", "size")

    def __init__(self, size: int, fields: Mapping[str, tuple[int, str]]) -> None:
        self.size = size
        self.fields = fields

    def pack(self, **given: Any) -> bytes:
        """The struct with these fields; everything else is zero."""
        made = bytearray(self.size)
        for name, value in given.items():
            offset, format_ = self.fields[name]
            values = value if isinstance(value, tuple) else (value,)
            struct.pack_into(f"={format_}", made, offset, *values)
        return bytes(made)

    def get(self, data: bytes | bytearray, name: str) -> Any:
        """A field of a struct at the beginning of ``data``."""
        offset, format_ = self.fields[name]
        values = struct.unpack_from(f"={format_}", data, offset)
        return values[0] if len(values) == 1 else values

    def unpack(self, data: bytes | bytearray) -> dict[str, Any]:
        """All fields of a struct at the beginning of ``data``."""
        return {name: self.get(data, name) for name in self.fields}
