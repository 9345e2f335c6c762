"""Vectors and texts of a flatbuffer, counted against the size of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import ModelError

#: Vectors may be shared between tables; more sharing than this is taken for damage.
_SHARING = 16


class Reader:
    """Reads one file. `left` is what may still be read before the file contradicts its size."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.left = _SHARING * (len(data) + 64)

    def fail(self, text: str) -> ModelError:
        return ModelError(f"{self.where} is damaged: {text}")

    def spend(self, count: int, size: int, what: str) -> int:
        """`count` elements of at least `size` bytes are about to be read."""
        if count * size > len(self.data):
            raise self.fail(
                f"{what} claims {count} entries, more than its {len(self.data)} bytes can hold"
            )
        self.left -= count * size
        if self.left < 0:
            raise self.fail("its tables overlap: together they claim more than the file has")
        return count

    def tables(self, owner: Any, field_name: str, what: str) -> Iterator[Any]:
        """The tables of a vector."""
        count = self.spend(getattr(owner, f"{field_name}Length")(), 4, what)
        entry: Callable[[int], Any] = getattr(owner, field_name)
        for i in range(count):
            self.spend(1, 4, what)  # each table has an offset of its own at least
            found = entry(i)
            if found is None:
                raise self.fail(f"entry {i} of {what} is missing")
            yield found

    def ints(self, owner: Any, field_name: str, what: str) -> list[int]:
        """The numbers of a vector."""
        count = self.spend(getattr(owner, f"{field_name}Length")(), 4, what)
        if count == 0:
            return []
        return [int(v) for v in getattr(owner, f"{field_name}AsNumpy")()]

    def text(self, value: bytes | None, what: str) -> str:
        if value is None:
            return ""
        self.spend(len(value), 1, what)
        return value.decode("utf-8", "replace").partition("\0")[0]
