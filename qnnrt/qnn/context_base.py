"""What every context has: its options, its properties and its binary."""

from __future__ import annotations

import mmap
import os
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..abi.structs import QnnHtpContext_CustomProperty_t
from ..support import choice
from ..support.guard import Guard
from ..support.new_file import new_file
from .backend_base import BackendBase
from .options import context_options
from .owner import Owner, config
from .profile import Profile

_HTP_PROPERTIES: Final = {
    "buffer_start_alignment": abi.QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT,
    "spill_fill_buffer_size": abi.QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE,
    "weights_buffer_size": abi.QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE,
}


class ContextBase(Owner):
    """A context as its graphs and memory handles see it; ``Context`` makes those.

    Attributes:
        backend: what it stands on.
    """

    _rank = 3

    def __init__(self, backend: BackendBase, held: _core.Held, *, keep: Any = None) -> None:
        self.backend = backend
        self._library = backend.library
        #: Of graphs: alive as long as the backend writes to them.
        self._profiles: dict[str, Any] = {}
        # What graphs were given as pools, by graph and kind: theirs until the context is freed.
        self._pools: dict[tuple[str, str], Any] = {}
        #: Of graphs, by name: what holds data that they may read until they are finalized.
        self._lent: dict[str, list[_core.Tensor | _core.Lent]] = {}
        #: What model libraries composed: their data is theirs until the context is freed.
        self._compositions: list[_core.Composition] = []
        self._pools_guard = Guard()  # while the backend's pools and these are to agree
        self._own(
            "a context",
            held,
            backend,
            *([backend._device] if backend._device else []),
            keep=(keep, self._pools, self._lent, self._compositions),
        )

    def close(self) -> None:
        """Close its graphs and memory handles, then itself; let go of pools and compositions."""
        super().close()
        if self.closed:
            self._pools.clear()
            self._lent.clear()
            self._compositions.clear()

    def _forget(self, graph: str) -> None:
        """A graph was freed: its profile and pools are its no more."""
        self._profiles.pop(graph, None)
        with self._pools_guard.lock:
            for key in [key for key in self._pools if key[0] == graph]:
                del self._pools[key]

    def binary(self) -> bytes:
        """The context's finalized graphs, serialized."""
        return self._library.context_get_binary(self.handle)

    def save_binary(self, path: str | os.PathLike[str]) -> None:
        """Write ``binary()`` to a file, straight into its pages.

        The file is there whole or not at all, and a new one: programs that have mapped a file of
        this name keep what they have mapped. It has the mode, and where possible the owner, of a
        file that it replaces; a symbolic link stays, and what it leads to is replaced.

        Raises:
            ContextError: a graph is not finalized, or the backend writes no binaries.
            OSError: the file cannot be written, or a folder, a FIFO, a socket or a device is at
                that path. It is as it was then.
        """
        size = self._library.context_get_binary_size(self.handle)
        with new_file(path) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk shows here
            with mmap.mmap(file.fileno(), size) as pages:
                written = self._library.context_get_binary_into(self.handle, pages)
            file.truncate(written)

    def set_config(self, **options: Any) -> None:
        """Change options of ``Backend.create_context`` that may change later."""
        self._library.context_set_config(self.handle, config(context_options(**options)))

    def finalize(self, profile: Profile | None = None) -> None:
        """Make the graphs of a context with ``defer_graph_init`` ready."""
        self._library.context_finalize(self.handle, profile.handle if profile else 0)

    def get_property(self, option: int | str, data: bytearray | None = None) -> int | None:
        """A property of the context.

        Args:
            option: of the HTP backend, in bytes: "buffer_start_alignment" and
                "weights_buffer_size" for a buffer of kind "weights", "spill_fill_buffer_size" for
                one of kind "spill_fill". Or the number of an option of ``QnnContext_Property_t``.
            data: with a number: the struct of a custom property, which the backend fills in.

        Returns:
            the value, for a name; None for a number.

        Raises:
            ContextError: the backend does not know it, or not in this state.
        """
        if isinstance(option, int):
            if data is None:
                raise TypeError("the number of an option needs the struct to be filled in")
            self._library.context_get_property(self.handle, option, data)
            return None
        custom, layout = abi.QNN_CONTEXT_PROPERTY_OPTION_CUSTOM, QnnHtpContext_CustomProperty_t
        asked = bytearray(layout.pack(option=choice("option", option, _HTP_PROPERTIES)))
        self._library.context_get_property(self.handle, custom, asked)
        return int(layout.get(asked, "weightsBufferSize"))  # the union's members are all alike
