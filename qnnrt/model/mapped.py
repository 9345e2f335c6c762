"""Files whose bytes are used where they are: in the pages that all processes share."""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any, BinaryIO

import numpy as np

from ..errors import ModelError


def map_pages(file: BinaryIO, name: str) -> mmap.mmap:
    """All of a file that is not empty, read only.

    Raises:
        MemoryError: the process has no address space for it.
    """
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as e:
        if e.errno != errno.ENOMEM:
            raise
        size = os.fstat(file.fileno()).st_size
        raise MemoryError(f"{name}: no address space for its {size} bytes") from None


class MappedFile:
    """The bytes of a file, read only, mapped until nobody has a view of them any more."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._map = map_pages(file, name)
        self._name = name
        self.view = memoryview(self._map)

    def check(self) -> None:
        """Raises ``ModelError`` when the file is shorter now: touching it would be SIGBUS."""
        size = self._map.size()
        if size < len(self.view):
            raise ModelError(
                f"{self._name} had {len(self.view)} bytes when it was loaded, and has {size} now: "
                "load it again (a model file may be replaced while it is used, not written into)"
            )

    def leave(self) -> None:
        """Its pages need not be in this process's memory; they come back when they are read."""
        self._map.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array's bytes are a file's, wherever it is a view of them."""
    base: Any = array
    while base is not None:
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap):
            return True
        base = getattr(base, "base", None)
    return False
