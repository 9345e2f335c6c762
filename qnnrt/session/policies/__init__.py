"""One memory policy for each kind of backend: the only place where sessions differ by backend."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

from ...abi.constants import QNN_BACKEND_ID_GPU, QNN_BACKEND_ID_HTP, QNN_BACKEND_ID_LPAI
from ...qnn.backend import Backend
from .base import MemoryPolicy

__all__ = ["MemoryPolicy", "open_backend"]

#: Options of ``Session`` that are for one kind of backend.
_OPTIONS: Final = {"lpai": QNN_BACKEND_ID_LPAI, "gpu": QNN_BACKEND_ID_GPU}


def _for(backend_id: int) -> tuple[type[MemoryPolicy], ...]:
    """The policies of a kind of backend; the first that suits one is its own. None: it has no rules
    of its own."""
    # What they import in their turn takes time and memory: the first session imports its own.
    if backend_id == QNN_BACKEND_ID_HTP:
        from .htp import HtpPolicy

        return (HtpPolicy,)
    if backend_id == QNN_BACKEND_ID_LPAI:
        from .lpai import LpaiPolicy

        return (LpaiPolicy,)
    if backend_id == QNN_BACKEND_ID_GPU:
        from .gpu import ForeignGpuPolicy, GpuPolicy

        return GpuPolicy, ForeignGpuPolicy
    return ()


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
    special = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
    having = {name: _for(_OPTIONS[name])[0] for name in special}
    was_open = isinstance(backend, Backend)
    if not isinstance(backend, Backend):
        opening: dict[str, Any] = {}
        for name, value in special.items():
            opening |= having[name].opening(value)
        backend = Backend.open(backend, **opening) if opening else Backend.shared(backend)
    found = next((p for p in _for(backend.id) if p.suits(backend)), MemoryPolicy)
    for name, value in special.items():
        if name != found.OPTION:
            raise ValueError(
                f"option {name!r} is for {name.upper()} backends, which {backend.name} is not"
            )
        if was_open:
            found.check_open(value)
    return backend, found(backend, given.get("heap"), special.get(found.OPTION or ""))
