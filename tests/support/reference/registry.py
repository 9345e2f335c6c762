"""The references by op, and how they read a node's params."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qnnrt.model import Node

#: Each takes the node and its inputs, and gives its output, or a list of them.
OPS: dict[str, Callable[..., Any]] = {}


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, fn))
        return fn

    return register


def ints(n: Node, name: str, default: object = None) -> np.ndarray:
    return np.atleast_1d(np.asarray(n.params.get(name, default)).astype(np.int64))


def integer(n: Node, name: str, default: int = 0) -> int:
    return int(n.params.get(name, default))


def number(n: Node, name: str, default: float) -> float:
    return float(n.params.get(name, default))


def flag(n: Node, name: str, default: bool = False) -> bool:
    return bool(n.params.get(name, default))
