"""Every Python process of a mutated tree begins here: its sources are imported with their mutants.

QNNRT_PYTHON_MUTANTS is a table, path -> number of its first mutant, as JSON. Without QNNRT_MUTANT
and QNNRT_MUTANTS_REACHED, which csrc/mutation.h describes, sources are imported as they are.
"""

import builtins
import importlib.machinery
import json
import mmap
import os
import sys
from collections.abc import Iterable
from typing import Any

_ROOT = os.environ.get("QNNRT_MUTATION_TREE", "")


def install() -> None:
    table: dict[str, int] = json.loads(os.environ.get("QNNRT_PYTHON_MUTANTS", "{}"))
    wanted = int(os.environ.get("QNNRT_MUTANT", "0"))
    reached = os.environ.get("QNNRT_MUTANTS_REACHED", "")
    if not table or not (wanted or reached):
        return
    # The file's numbers end where the next one's begin.
    firsts = sorted(table.values())
    of_wanted = max((first for first in firsts if first <= wanted), default=0)
    original = importlib.machinery.SourceFileLoader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **options: Any) -> Any:
        first = table.get(os.path.relpath(os.fspath(path), _ROOT), 0)
        if first and (reached or first == of_wanted):
            from mutation import python

            name, text = os.path.relpath(os.fspath(path), _ROOT), bytes(data).decode()
            if reached:
                data = python.instrumented(name, text, first)
            else:
                data = python.mutated(name, text, first, wanted)
        return original(self, data, path, **options)

    loader: Any = importlib.machinery.SourceFileLoader
    loader.source_to_code = source_to_code
    if reached:
        with open(reached, "r+b") as file:
            seen = mmap.mmap(file.fileno(), 0)

        def mark(ids: Iterable[int]) -> None:
            for number in ids:
                seen[number] = 1

        builtins.__qnnrt_mutants_reached__ = mark  # type: ignore[attr-defined]


if _ROOT:
    sys.dont_write_bytecode = True
    install()
