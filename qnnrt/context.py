"""Contexts: graphs and registered memory live in one."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _core
from ._options import context_options, graph_options
from ._owner import Owner, config
from .dtypes import data_type
from .errors import MemError
from .graph import Graph
from .memhandle import MemHandle

if TYPE_CHECKING:
    from .backend import Backend
    from .profile import Profile

__all__ = ["Context"]

Buffer: TypeAlias = _core.Buffer


class Context(Owner):
    """A context. Made by ``Backend.create_context`` or ``Context.from_binary``.

    Attributes:
        backend: what it stands on.
        registrations: how many memory handles were made in it so far.
    """

    _rank = 3

    def __init__(self, backend: Backend, handle: int) -> None:
        self.backend = backend
        self.registrations = 0
        self._library = backend.library
        self._cache: weakref.WeakValueDictionary[tuple[Any, ...], MemHandle] = (
            weakref.WeakValueDictionary()
        )
        self._own(
            "a context",
            handle,
            self._library.context_free,
            backend,
            *([backend._device] if backend._device else []),
        )

    @classmethod
    def from_binary(
        cls, backend: Backend, data: Any, *, profile: Profile | None = None, **options: Any
    ) -> Context:
        """A context out of a context binary (bytes-like); options as for ``create_context``.

        Raises:
            ContextError, SystemError_: the binary is damaged, or was made for something else.
        """
        handle = backend.library.context_create_from_binary(
            backend.handle,
            backend._device_handle,
            data,
            config(context_options(**options)),
            profile.handle if profile else 0,
        )
        return cls(backend, handle)

    @staticmethod
    def validate_binary(backend: Backend, data: Any, **options: Any) -> None:
        """Ask whether ``from_binary`` would take a context binary; options as for it.

        Raises:
            ContextError: it would not; or 1000, the backend cannot tell.
        """
        backend.library.context_validate_binary(
            backend.handle, backend._device_handle, data, config(context_options(**options))
        )

    def binary(self) -> bytes:
        """The context's finalized graphs, serialized."""
        return self._library.context_get_binary(self.handle)

    def set_config(self, **options: Any) -> None:
        """Change options of ``Backend.create_context`` that may change later."""
        self._library.context_set_config(self.handle, config(context_options(**options)))

    def finalize(self, profile: Profile | None = None) -> None:
        """Make the graphs of a context with ``defer_graph_init`` ready."""
        self._library.context_finalize(self.handle, profile.handle if profile else 0)

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self._library.context_get_property(self.handle, option, data)

    def create_graph(
        self,
        name: str,
        *,
        priority: str | int | None = None,
        profile: Profile | None = None,
        custom: Sequence[bytes] = (),
    ) -> Graph:
        """An empty graph.

        Args:
            name: unique in the context.
            priority: "low", "normal", "normal_high" or "high".
            profile: measured all the time, not for single calls.
            custom: structs of the backend's own, as bytes.
        """
        options = graph_options(
            priority=priority, profile=profile.handle if profile else None, custom=custom
        )
        handle = self._library.graph_create(self.handle, name, config(options))
        return Graph(self, name, handle)

    def graph(self, name: str) -> Graph:
        """A graph of a context that came from a binary."""
        return Graph(self, name, self._library.graph_retrieve(self.handle, name))

    def register(
        self,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """Register a buffer, or a tensor's place in it, for use by this context's graphs.

        Args:
            buffer: memory with an fd.
            shape: of the tensor.
            dtype: anything ``numpy.dtype`` takes, or a QNN data type.
            offset: of the tensor in the buffer, in bytes; for ``shared_buffer`` only.
            kind: "ion" (one fd, one tensor), "shared_buffer" (many tensors in one buffer) or
                "dma_buf".

        Raises:
            ValueError: the tensor does not lie in the buffer, or the kind cannot express it.
            MemError: what the backend says: 8002 registered already, 8005 no such memory type...
        """
        handle = MemHandle(self, buffer, shape, dtype, offset, kind)
        self.registrations += 1
        return handle

    def get_or_register(
        self,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """The live handle for exactly this memory, shape, type and kind, or a new one.

        The handle lives as long as somebody keeps it.
        """
        dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        key = (buffer.address, buffer.fd_offset, offset, dims, data_type(dtype), kind)
        found = self._cache.get(key)
        if found is None or found.closed or found.buffer is not buffer:
            found = self._cache[key] = self.register(buffer, dims, dtype, offset=offset, kind=kind)
        return found

    def deregister(self, *handles: MemHandle) -> None:
        """Deregister handles in one call; the valid ones go even when another one is not.

        Raises:
            MemError: 8001, one of them is not valid (any more).
        """
        for h in handles:
            h._close_children()
        try:
            self._library.mem_deregister([h._raw for h in handles])
        except MemError as e:
            if e.code != 8001:  # one is in use: which ones went is not said
                raise
            for h in handles:
                h._forget()
            raise
        for h in handles:
            h._forget()
