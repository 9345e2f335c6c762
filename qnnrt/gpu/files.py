"""Files that several processes share."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["keep"]


def keep(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, since other processes read it; a folder that cannot be
    written keeps nothing."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
