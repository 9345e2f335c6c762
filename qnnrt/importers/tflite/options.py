"""Builtin options of an operator as a dictionary, whatever their table is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tflite

from .reader import Reader


def _numbered(union: type) -> dict[int, str]:
    return {code: name for name, code in vars(union).items() if isinstance(code, int)}


#: The number in BuiltinOptions, and in BuiltinOptions2, which newer operators have theirs in -> the
#: name of the table.
TABLES, TABLES_2 = _numbered(tflite.BuiltinOptions), _numbered(tflite.BuiltinOptions2)


class Options:
    """Fields of an options table by their accessor's name: ``options.integer("StrideW")``.

    `table` is the table's name, "" for none; omitted fields have their defaults, which
    a missing table has for all. Those of a custom operator are bytes, ``custom``, which the
    runtime library reads.
    """

    def __init__(self, table: str, fields: dict[str, Any]) -> None:
        self.table = table
        self.fields = fields

    def integer(self, name: str) -> int:
        return int(self.fields.get(name, 0))

    def flag(self, name: str) -> bool:
        return bool(self.fields.get(name, False))


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, bool], ...]:
    """(accessor, is a vector of numbers), read off the generated class."""
    names = [n for n in vars(cls) if not n.startswith(("_", "GetRootAs")) and n != "Init"]
    vectors = {n.removesuffix("AsNumpy") for n in names if n.endswith("AsNumpy")}
    helpers = {f"{n}Length" for n in names} | {f"{n}IsNone" for n in names}
    found = []
    for name in names:
        if name.endswith(("AsNumpy", "BufferHasIdentifier")) or name in helpers:
            continue
        if name in vectors:
            found.append((name, True))
        elif f"{name}Length" not in names:  # a vector of tables is of no op that is mapped
            found.append((name, False))
    return tuple(found)


def read_options(reader: Reader, operator: Any, what: str) -> Options:
    """The options of `operator`, all fields read now, so that damage shows now."""
    kind, names, field = int(operator.BuiltinOptionsType()), TABLES, operator.BuiltinOptions
    if kind == 0 and (newer := int(operator.BuiltinOptions2Type())) != 0:
        kind, names, field = newer, TABLES_2, operator.BuiltinOptions2
    if kind == 0:
        count = reader.spend(operator.CustomOptionsLength(), 1, f"the options of {what}")
        return Options("", {"custom": operator.CustomOptionsAsNumpy()} if count else {})
    if kind not in names:
        return Options(f"{field.__name__} {kind}", {})
    raw = field()
    if raw is None:
        raise reader.fail(f"{what} has no {names[kind]}, which it announces")
    cls = getattr(tflite, names[kind])
    table = cls()
    table.Init(raw.Bytes, raw.Pos)
    values: dict[str, Any] = {}
    for name, vector in _fields(cls):
        if vector:
            count = reader.spend(getattr(table, f"{name}Length")(), 1, f"{name} of {what}")
            values[name] = getattr(table, f"{name}AsNumpy")() if count else np.empty(0, np.int32)
        else:
            values[name] = getattr(table, name)()
    return Options(names[kind], values)
