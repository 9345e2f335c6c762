"""TFLite files, and damage done to them at random."""

from __future__ import annotations

from support.fuzz.plain import mutants
from support.tflite import cases, models, recurrent, variables

__all__ = ["BASES", "mutants"]


def bases() -> dict[str, bytes]:
    """One file for each operator, and some with all that a file can have."""
    found = {
        "lstm": recurrent.STATEFUL["lstm"],
        "signatures": models.two_entries(),
        "open batch": models.open_batch(),
        "integer weights": models.dense_int8(True, False)[0],
        "variables": variables.window(),
        "variables in a branch": variables.branch(),
    }
    for case in cases.cases():
        if case.op not in found:
            found[case.op] = case.build()[0]
    return found


BASES = bases()
