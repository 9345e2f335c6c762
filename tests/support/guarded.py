"""Memory between two pages that nobody may touch: who leaves it by a byte too many, crashes."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_ALIGNMENT = 64
_CANARY = 0xA5

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Guarded:
    """`nbytes` on a boundary of 64 bytes, as close to the guard page behind them as that allows;
    with `front`, directly behind the one before them. What lies between is watched."""

    def __init__(self, nbytes: int, *, front: bool = False) -> None:
        pages = -(-max(nbytes, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, pages + 2 * _PAGE)
        self._inner = np.frombuffer(self._map, np.uint8, pages, _PAGE)
        self._inner[...] = _CANARY
        base = self._inner.ctypes.data
        for page in (base - _PAGE, base + pages):
            if _libc.mprotect(page, _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._begin = 0 if front else (pages - nbytes) // _ALIGNMENT * _ALIGNMENT
        self._end = self._begin + nbytes

    @property
    def array(self) -> np.ndarray:
        return self._inner[self._begin : self._end]

    def like(self, array: np.ndarray) -> np.ndarray:
        """The memory as an array of this type and shape, which has to fill it."""
        return self.array.view(array.dtype).reshape(array.shape)

    @property
    def untouched(self) -> bool:
        """Whether what lies around the memory is as it was."""
        around = self._inner[: self._begin], self._inner[self._end :]
        return all((part == _CANARY).all() for part in around)
