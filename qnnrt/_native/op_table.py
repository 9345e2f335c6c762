"""What the runtime's records say of each op (csrc/ops/op.h), for whoever needs it in Python."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core

__all__ = ["Records", "bounds", "choices", "op_table"]


class Records(Mapping[str, dict[str, Any]]):
    """Each read when it is asked for: networks have a dozen ops, and all 200 are 600 KiB."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, Any]] = {}
        self._all = False

    def __getitem__(self, op: str) -> dict[str, Any]:
        if op not in self._read and not self._all and (text := _core.op_json(op)) is not None:
            self._read[op] = json.loads(text)
        return self._read[op]

    def __iter__(self) -> Iterator[str]:
        if not self._all:
            self._read = {op["type"]: op for op in json.loads(_core.op_coverage_json())}
            self._all = True
        return iter(self._read)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def op_table() -> Records:
    """Op type -> ports, params with their defaults, and traits:

    ``fixed``: computes on fixed-point numbers as they are. ``weights_axis``: of an op that sums
    products of its input and weights, the dimension of these that its outputs lie along, from the
    end. ``moves``: its outputs are made of elements of its inputs, ``may_move``: with some params,
    ``fills``: and of others. ``clamps``: see :func:`bounds`. ``converts``: takes fixed-point
    numbers and floats at once, these at its ports that are ``real``. ``fuses``: takes activations.
    ``lpai``: that backend takes it, with the values of its param ``operation`` whose bits are set
    in ``lpai_operations``.
    """
    return Records()


def bounds(op: str, params: Mapping[str, Any]) -> tuple[float, float]:
    """What an op that ``clamps`` cuts off at: constants, or those of its params that give them."""
    low, high = (float(params.get(bound, bound)) for bound in op_table()[op]["clamps"])
    return low, high


def choices(op: str, param: str) -> tuple[str, ...]:
    """The names of an enumerated param's values 0, 1, ..."""
    return next(tuple(p["values"]) for p in op_table()[op]["params"] if p["name"] == param)
