"""One memory policy for each kind of backend: the only place where sessions differ by backend."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from os import PathLike
from typing import Any

from ...qnn.backend import Backend
from .base import MemoryPolicy

__all__ = ["MemoryPolicy", "open_backend", "policies"]


@functools.cache
def policies() -> tuple[type[MemoryPolicy], ...]:
    """The first that suits a backend is its policy; ``MemoryPolicy`` where none does."""
    # Not at ``import qnnrt``, which they would make slower by what they import in their turn.
    from .gpu import ForeignGpuPolicy, GpuPolicy
    from .htp import HtpPolicy
    from .lpai import LpaiPolicy

    return HtpPolicy, LpaiPolicy, GpuPolicy, ForeignGpuPolicy


def open_backend(
    backend: str | PathLike[str] | Backend, given: Mapping[str, Any]
) -> tuple[Backend, MemoryPolicy]:
    """The backend of a session and its policy.

    Args:
        backend: a name, a path, or an open one.
        given: the session's options.

    Raises:
        ValueError: options that this backend has not, or that come too late for it.
    """
    having = {p.OPTION: p for p in policies() if p.OPTION is not None}
    special = {n: given[n] for n in having if given.get(n) is not None}
    was_open = isinstance(backend, Backend)
    if not isinstance(backend, Backend):
        opening: dict[str, Any] = {}
        for name, value in special.items():
            opening |= having[name].opening(value)
        backend = Backend.open(backend, **opening) if opening else Backend.shared(backend)
    found = next((p for p in policies() if p.suits(backend)), MemoryPolicy)
    for name, value in special.items():
        if name != found.OPTION:
            raise ValueError(
                f"option {name!r} is for {name.upper()} backends, which {backend.name} is not"
            )
        if was_open:
            found.check_open(value)
    return backend, found(backend, given.get("heap"), special.get(found.OPTION or ""))
