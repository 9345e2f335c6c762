"""Memory of one kind for inputs, outputs and model binaries: DDR, or TCM in aDSP direct mode.

No tightly coupled memory is here; its limits are, and its behaviour, so that a network that does
not fit fails on a desk as it would on the chip: see docs/tools.md.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Final, TypeAlias

from .._native import _core
from ..abi import constants as abi
from ..errors import make_error
from ..qnn.backend import Backend
from ..qnn.owner import Owner

__all__ = ["TCM_BYTES", "TCM_PIECES", "Allocator"]

Buffer: TypeAlias = _core.Buffer

TCM_BYTES: Final = 2035712  #: of a pool
TCM_PIECES: Final = 32  #: at once; asking for one more is fatal for the allocator
#: Anything else is undefined.
_MEM_TYPES: Final = {abi.QNN_LPAI_MEM_TYPE_DDR: "ddr", abi.QNN_LPAI_MEM_TYPE_TCM: "tcm"}
_FATAL: Final = abi.QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL


class Allocator(Owner):
    """Allocates in one kind of memory, as the vendor's LPAI backend extensions do for net-run.

    What happens is said in the backend's log, in the words of QNN's documentation. Nothing falls
    back from one kind to the other. An allocator stands for one session: two of them have a TCM
    pool each.
    """

    def __init__(self, backend: Backend, mem_type: str = "ddr") -> None:
        """No memory is taken before the first allocation.

        Args:
            backend: an lpai backend of qnnrt.
            mem_type: "ddr" or "tcm". Any other name gives an allocator of no kind (``mem_type`` is
                "undefined"), whose every allocation fails, as QNN's documentation has it.

        Raises:
            MemError: 1006, TCM without direct mode.
            ValueError: another backend.
        """
        if not backend.library.has_extensions or backend.id != abi.QNN_BACKEND_ID_LPAI:
            raise ValueError(
                f"{backend.name} is no lpai backend of qnnrt: use qnnrt.alloc() for its memory"
            )
        self._pieces: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self._own(
            f"an LPAI allocator ({mem_type})",
            _core.Held(
                _core.lpai_allocator_destroy,
                _core.lpai_allocator_create,
                backend.handle,
                mem_type,
            ),
        )
        # At the end of the process everything goes, in whatever order.
        self._held.outlast()

    def alloc(self, nbytes: int) -> Buffer:
        """A piece: a buffer like any other, aligned as the backend asks. Its contents are not
        defined. In TCM it is a part of the pool's one file, at ``fd_offset``.

        Args:
            nbytes: size in bytes, positive.

        Raises:
            ValueError: a size that is not positive.
            MemError: 1002 it does not fit; 1011 one piece more than ``TCM_PIECES``, which is fatal:
                every later call says so, and there is no way back but another allocator; 1004 the
                memory type is undefined.
        """
        if not isinstance(nbytes, int) or nbytes <= 0 or nbytes >> 63:
            raise ValueError(f"nbytes must be a positive integer below 2**63, not {nbytes!r}")
        piece = _core.lpai_allocator_alloc(self.handle, nbytes, self)
        self._pieces.add(piece)
        return piece

    def read(self, path: str | os.PathLike[str]) -> Buffer:
        """A file's bytes in a piece of their own: a model binary, for ``Context.from_binary``.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is empty.
            MemError: as ``alloc``.
        """
        with Path(path).open("rb") as file:
            piece = self.alloc(os.fstat(file.fileno()).st_size)
            if file.readinto(memoryview(piece)) != piece.nbytes:
                raise OSError(f"{os.fspath(path)}: has become shorter while it was read")
        return piece

    def free(self, piece: Buffer) -> None:
        """Close a piece. ``piece.close()`` does the same, and so does letting go of it.

        Raises:
            ValueError: it is not of this allocator, or was closed.
            BufferInUseError: a view, a registration or an execution still uses it.
            MemError: 1011, see ``alloc``; closing the piece itself still works.
        """
        if self.fatal:
            raise make_error(
                _FATAL,
                "mem",
                "Allocator.free",
                said=f"more than {TCM_PIECES} pieces of TCM were asked for, which is fatal: this "
                "allocator takes no more calls; close the pieces themselves",
            )
        if piece not in self._pieces or piece.closed:
            raise ValueError(f"{piece!r} is no piece of this allocator, or was closed")
        piece.close()

    def _info(self) -> dict[str, Any]:
        return _core.lpai_allocator_info(self.handle)

    @property
    def mem_type(self) -> str:
        """ "ddr", "tcm" or "undefined"."""
        return _MEM_TYPES.get(self._info()["mem_type"], "undefined")

    @property
    def fatal(self) -> bool:
        """Whether one piece too many was asked for."""
        return bool(self._info()["fatal"])

    @property
    def pieces(self) -> int:
        """How many pieces there are now."""
        return int(self._info()["pieces"])

    @property
    def used_bytes(self) -> int:
        """Of the TCM pool; 0 in DDR."""
        return int(self._info()["used_bytes"])

    @property
    def free_bytes(self) -> int:
        """The most that one piece of TCM could have; 0 in DDR, which has no pool."""
        return int(self._info()["free_bytes"])

    def close(self) -> None:
        """Close every piece, and the allocator. Closing twice is harmless.

        Raises:
            BufferInUseError: a view, a registration or an execution still uses a piece. Those that
                nothing uses are closed.
        """
        if self.closed or self._generation != _core.fork_generation():
            return
        refused = None
        for piece in list(self._pieces):
            try:
                piece.close()
            except BufferError as error:
                refused = refused or error
        if refused is not None:
            raise refused
        super().close()

    def __repr__(self) -> str:
        if self.closed:
            return "<qnnrt.lpai.Allocator, closed>"
        info = self._info()
        kind = _MEM_TYPES.get(info["mem_type"], "undefined")
        used = f", {info['used_bytes']} of {info['pool_bytes']} bytes" if kind == "tcm" else ""
        noun = "piece" if info["pieces"] == 1 else "pieces"
        return f"<qnnrt.lpai.Allocator {kind}, {info['pieces']} {noun}{used}>"
