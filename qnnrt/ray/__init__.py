"""Shared memory between the actors of Ray: a tensor transport, a batch inferencer, a deployment.

``register()`` once in the driver, before the classes that use the transport; then
``@ray.method(tensor_transport=qnnrt.ray.TRANSPORT)`` and ``ray.put(buffer,
_tensor_transport=qnnrt.ray.TRANSPORT)`` move Buffers between actors: on a node the memory itself,
between nodes with one copy on each side. Needs the extra ``ray``; Ray is imported when a name of
this module is used, and nothing of it before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import SessionActor
    from .serve import deployment
    from .setup import TRANSPORT, register, wait_freed
    from .transfer import Shared, Transfers, reset_transfers, share, transfers

__all__ = [
    "TRANSPORT",
    "SessionActor",
    "Shared",
    "Transfers",
    "deployment",
    "register",
    "reset_transfers",
    "share",
    "transfers",
    "wait_freed",
]

_WHERE = {
    "SessionActor": "data",
    "deployment": "serve",
    "TRANSPORT": "setup",
    "register": "setup",
    "wait_freed": "setup",
    "Shared": "transfer",
    "Transfers": "transfer",
    "reset_transfers": "transfer",
    "share": "transfer",
    "transfers": "transfer",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f".{_WHERE[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ModuleNotFoundError(
            "qnnrt.ray needs Ray: pip install 'qnnrt[ray]'", name="ray"
        ) from None
    return getattr(module, name)
