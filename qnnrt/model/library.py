"""Model libraries: shared libraries whose code composes graphs, as the SDK makes them."""

from __future__ import annotations

import os
from pathlib import Path

from .._native import _core
from ..errors import ModelError

__all__ = ["ModelLibrary", "is_library"]


def is_library(path: str | os.PathLike[str]) -> bool:
    """Whether a path is named as a library, ``.so``: nothing else is ever loaded as one."""
    return os.path.splitext(os.fspath(path))[1].lower() == ".so"


class ModelLibrary:
    """A model library: what ``qnnrt.load`` returns for ``.so``.

    Its code runs in this process, when it is loaded and when it composes: load what you trust as
    you would a program. What its graphs take and give shows when they are composed, on a backend.

    Attributes:
        path: the file.
        prefix: what its functions' names begin with.
    """

    def __init__(self, path: str | os.PathLike[str], *, prefix: str = "QnnModel") -> None:
        """Load a model library.

        Args:
            path: the file; its name ends in ``.so``.
            prefix: of its functions, ``PREFIX_composeGraphs`` and ``PREFIX_freeGraphsInfo``.

        Raises:
            ModelError: it cannot be loaded, or does not export these functions.
            FileNotFoundError: no such file.
        """
        self.path = os.fspath(path)
        self.prefix = prefix
        if not is_library(path):
            raise ModelError(f"{self.path}: a model library's name ends in .so")
        os.stat(path)
        self._loaded = _core.ModelLibrary(self.path, prefix)

    @property
    def name(self) -> str:
        """The file's name without folder and suffix."""
        return Path(self.path).stem

    def __repr__(self) -> str:
        return f"<ModelLibrary {self.path!r}>"
