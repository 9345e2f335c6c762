"""A table of onnx's schemas of the default domain: what `checks` asks of them.

It is in schemas.txt, written by tools/onnx_schemas.py out of the installed ``onnx``: asking that
for one schema makes it build all of them, in some ten milliseconds and 3 MiB. Each line holds a
JSON array:

- the first one the table's opset, the version of ``onnx``, and sets of types, as names with blanks
  in between; the others refer to them by number,
- each other one an operator's name, the opset that it is of, whether a function defines it, inputs,
  outputs, whether the last input may be repeated, how many inputs and outputs it has at least and
  at most, and its attributes; or only name and opset where it is no operator any more.

The lines of an operator are beside each other, oldest first.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Name, symbol of the type ("" where each may have its own), number of a set of types, required.
Formal = tuple[str, str, int, bool]


class Row(NamedTuple):
    """An operator as of one opset."""

    name: str
    since: int
    function: bool
    inputs: list[Formal]
    outputs: list[Formal]
    variadic: bool
    input_count: list[int]
    output_count: list[int]
    attributes: dict[str, tuple[int, bool, Any]]  # type, required, default or None


def find(op: str, version: int) -> Row | None:
    """The operator as of the newest opset that is not above `version`; None if there is none."""
    begin = f'["{op}",'
    found = None
    for line in _table().split(f"\n{begin}".encode())[1:]:
        entry = json.loads(begin.encode() + line.partition(b"\n")[0])
        if entry[1] <= version:
            found = entry
    return Row(*found) if found is not None and len(found) > 2 else None


def newest() -> int:
    """The opset up to which the table has all operators."""
    return int(_head()[0])


def made_from() -> str:
    """The version of ``onnx`` whose schemas these are."""
    return str(_head()[1])


def types(number: int) -> str:
    return str(_head()[2][number])


def value_of(kind: int, default: Any) -> Any:
    """A default as onnx gives it: texts are bytes."""
    if isinstance(default, str):
        return default.encode()
    if isinstance(default, list):
        return [value_of(kind, entry) for entry in default]
    return default


def _table() -> bytes:
    # Not kept: `checks` remembers what it has asked for.
    return Path(__file__).with_name("schemas.txt").read_bytes()


@cache
def _head() -> list[Any]:
    return list(json.loads(_table().partition(b"\n")[0]))
