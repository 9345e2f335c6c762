"""Operations of the gpu backend: one module for a family, beside its file of kernels.

A module has ``OPS``: op type -> function from a ``Node`` and a ``Target`` to its launches, which
raises ``Refused`` for what it does not take; ``TAKES_POST``: the types among them whose kernels do
``Node.post``; ``TAKES_LINE``: those whose kernels write to a ``Node.line``; ``TAKES_SHUFFLE``:
those that read by ``Node.shuffle``; ``WIDENS``: those whose kernels may write 32-bit floats of
16-bit ones; and ``MOVES_INTEGERS``: those whose kernels move or compare fixed-point numbers of one
encoding as the integers that they are. Modules are found by being here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

from ..ir import Launch, Node
from ..target import Target
from .common import Refused

__all__ = [
    "Make",
    "Refused",
    "moves_integers",
    "table",
    "takes_line",
    "takes_post",
    "takes_shuffle",
    "widens",
]

Make: TypeAlias = Callable[[Node, Target], list[Launch]]


@functools.cache
def table() -> dict[str, Make]:
    """Op type -> what makes its launches."""
    found: dict[str, Make] = {}
    for module in _modules():
        found.update(getattr(module, "OPS", {}))
    return dict(sorted(found.items()))


@functools.cache
def _types(name: str) -> frozenset[str]:
    """The op types that modules list under that name."""
    return frozenset().union(*(getattr(module, name, ()) for module in _modules()))


def takes_line() -> frozenset[str]:
    """Op types whose kernels write to a part of each line of a wider tensor."""
    return _types("TAKES_LINE")


def takes_post() -> frozenset[str]:
    """Op types whose kernels do what is behind them."""
    return _types("TAKES_POST")


def takes_shuffle() -> frozenset[str]:
    """Op types whose kernels read shuffled channels of their first input."""
    return _types("TAKES_SHUFFLE")


def widens() -> frozenset[str]:
    """Op types whose kernels may write 32-bit floats of 16-bit ones."""
    return _types("WIDENS")


def moves_integers() -> frozenset[str]:
    """Op types whose kernels take fixed-point numbers of one encoding."""
    return _types("MOVES_INTEGERS")


def _modules() -> list[ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return [importlib.import_module(f"{__name__}.{name}") for name in names]
