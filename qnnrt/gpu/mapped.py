"""Arrays on mapped OpenCL buffers, which end with their mapping."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np

from ..errors import ClosedError

__all__ = ["Mapped", "end", "mapped"]


class Mapped(np.ndarray):
    """An array on a mapped buffer: a plain one while the mapping lasts."""

    _views: weakref.WeakValueDictionary[int, Mapped]  # by id: arrays have no hash

    def __array_finalize__(self, source: Any) -> None:
        views = getattr(source, "_views", None)
        if views is not None:
            self._views = views
            views[id(self)] = self

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # in-place operations
            return self
        plain = np.asarray(array)  # what was computed is no part of the mapping
        return plain[()] if return_scalar else plain


def _ended(*args: Any, **kwargs: Any) -> NoReturn:
    raise ClosedError(
        "the mapping of this array has ended: use it inside 'with handle.map() as array', and "
        "copy there what is needed later"
    )


class _Ended(Mapped):
    """What an array becomes with the end of its mapping: empty, and every use says why."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__weakref__"):
            return object.__getattribute__(self, name)
        _ended()

    __array_ufunc__ = __array_function__ = _ended
    __getitem__ = __setitem__ = __len__ = __iter__ = __contains__ = _ended
    __repr__ = __str__ = __format__ = _ended
    __bool__ = __int__ = __float__ = __complex__ = __index__ = _ended


def mapped(array: np.ndarray) -> Mapped:
    """An array on the same memory that ``end`` can end."""
    view = array.view(Mapped)
    view._views = weakref.WeakValueDictionary({id(view): view})
    return view


def end(array: Mapped, memory: np.ndarray) -> None:
    """Before the memory goes: the array and its views no longer point into it.

    Args:
        memory: the array that ``array`` was made of.
    """
    for view in list(array._views.values()):
        if np.may_share_memory(view, memory):  # not what was computed or copied out of it
            # The one way to take an array's memory away: it gets some of its own, of no elements.
            state: Any = (1, (0,), view.dtype, False, b"")
            view.__setstate__(state)
            view.__class__ = _Ended
