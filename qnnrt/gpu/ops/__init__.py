"""Operations of the gpu backend: one module for a family, beside its file of kernels.

A module has ``OPS``: op type -> function from a ``Node`` and a ``Target`` to its launches, which
raises ``Refused`` for what it does not take. Modules are found by being here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeAlias

from ..ir import Launch, Node
from ..target import Target
from .common import Refused

__all__ = ["Make", "Refused", "table"]

Make: TypeAlias = Callable[[Node, Target], list[Launch]]


@functools.cache
def table() -> dict[str, Make]:
    """Op type -> what makes its launches."""
    found: dict[str, Make] = {}
    for module in pkgutil.iter_modules(__path__):
        found.update(getattr(importlib.import_module(f"{__name__}.{module.name}"), "OPS", {}))
    return dict(sorted(found.items()))
