"""Tables of what there is for each operator, in modules that are imported when they are needed.

All of them take megabytes of memory, of which a network needs a part.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

F = TypeVar("F")

_TABLES: list[Table[Any]] = []


class Table(Generic[F]):
    """What modules of this package register for operators of a domain.

    The operators are known from the start, by module: whoever asks for one's entry has its module
    imported. A module that registers another operator than is listed for it cannot be imported.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        """`modules`: name of a module -> operators, with blanks in between."""
        self._module = {op: name for name, ops in modules.items() for op in ops.split()}
        self._registered: dict[str, F] = {}
        self._found: dict[str, F] = {}  # of modules that are there as a whole: threads look here
        _TABLES.append(self)

    def register(self, ops: Iterable[str], entry: F) -> None:
        module = str(getattr(entry, "__module__", "")).rpartition(".")[2]
        for op in ops:
            if self._module.get(op) != module:
                raise LookupError(f"{op} is not listed as one of {module}")
            self._registered[op] = entry

    def get(self, op: str) -> F | None:
        if op not in self._module:
            return None
        found = self._found.get(op)
        return self[op] if found is None else found

    def __getitem__(self, op: str) -> F:
        if op not in self._found:
            importlib.import_module(f".{self._module[op]}", __package__)
            self._found[op] = self._registered[op]
        return self._found[op]

    def __contains__(self, op: object) -> bool:
        return op in self._module

    def __iter__(self) -> Iterator[str]:
        return iter(self._module)

    def __len__(self) -> int:
        return len(self._module)


def import_all() -> None:
    """Every module that is in a table."""
    for table in _TABLES:
        for op in table:
            table[op]
