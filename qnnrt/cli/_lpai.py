"""What the tools do on LPAI backends besides: memory of one kind, pools, finalizing binaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from .. import lpai
from .._native import _core
from ..abi import constants as abi
from ..errors import Error, MemError
from ..lpai.config import Config
from ..qnn.backend import Backend
from ..qnn.graph import Graph
from ._common import UsageError

Buffer: TypeAlias = _core.Buffer

_NEEDS_DIRECT_MODE = abi.QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED


@contextmanager
def initializing() -> Iterator[None]:
    """Memory that is not to be had ends the run, as an error in its initialization."""
    try:
        yield
    except MemError as error:
        raise Error(f"initialization failed: {error}") from error


class LpaiTools:
    """A backend's config and its memory.

    Attributes:
        config: what the file said, or the defaults.
        direct_mode: the option ``--direct_mode``.
    """

    def __init__(self, backend: Backend, config: Config, *, direct_mode: bool) -> None:
        """No memory is taken yet.

        Raises:
            UsageError: another kind of memory than DDR on a library of others.
            Error: TCM without direct mode.
        """
        self.config = config
        self.direct_mode = direct_mode
        self._backend = backend
        self._allocator: lpai.Allocator | None = None
        if backend.library.has_extensions:
            try:
                with initializing():
                    self._allocator = lpai.Allocator(backend, config.mem_type)
            except Error as error:
                code = getattr(error.__cause__, "code", None)
                if code != _NEEDS_DIRECT_MODE:
                    raise
                raise Error(f"{error} (--direct_mode adsp says so)") from error
        elif config.mem_type != "ddr":
            raise UsageError(
                f"mem_type {config.mem_type}: {backend.name} of {backend.library.path} has its own "
                "extensions for other memory than ddr, which do not run here"
            )

    def alloc(self, nbytes: int) -> Buffer:
        """Memory of the kind asked for, for inputs, outputs or a binary.

        Raises:
            Error: there is none; nothing else steps in.
        """
        with initializing():
            if self._allocator is None:
                return lpai.alloc(self._backend, nbytes)
            return self._allocator.alloc(nbytes)

    def model(self, path: Path) -> memoryview:
        """A context binary's bytes in such memory.

        Raises:
            Error: as ``alloc``.
        """
        size = path.stat().st_size
        view = memoryview(self.alloc(size))[:size]
        with path.open("rb") as file:
            if file.readinto(view) != size:
                raise UsageError(f"{path}: the file has become shorter")
        return view

    def allocate(self, sizes: Sequence[int], *, together: bool) -> list[tuple[Buffer, int]]:
        """(buffer, offset) for each size: in one buffer or in one each."""
        if not together:
            return [(self.alloc(size), 0) for size in sizes]
        needed = lpai.alignment(self._backend)
        step = max(needed.start, needed.size)
        offsets, total = [], 0
        for size in sizes:
            offsets.append(total)
            total += -(-size // step) * step
        buffer = self.alloc(total)
        return [(buffer, offset) for offset in offsets]

    def check_handles(self, kind: str | None) -> None:
        """Raises ``UsageError`` when memory of this kind has no handles of that type."""
        if self.config.mem_type == "tcm" and kind not in (None, "shared_buffer"):
            raise UsageError(
                f"--io_tensor_mem_handle_type {kind} names a whole fd, and TCM is one fd for all "
                "buffers: use shared_buffer"
            )

    def give_memory(self, graph: Graph) -> None:
        """Everything that comes between a graph's last node, or its binary, and its finalizing:
        config, performance, affinity, and scratch and persistent memory, which are always DDR."""
        self.config.apply_prepare(graph)
        self.config.apply_execute(graph)
        lpai.allocate_pools(graph)


def lpai_tools(backend: Backend, config: Config | None, direct_mode: bool) -> LpaiTools | None:
    """None on any other backend."""
    if backend.id != lpai.ID:
        return None
    return LpaiTools(backend, config or Config(), direct_mode=direct_mode)
