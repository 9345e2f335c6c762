"""Files that people name: opened and read, whatever stands at the path."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from .._native import _core

#: No config and no input list is larger.
MOST_TEXT = 256 << 20
_PIECE = 1 << 20


def open_file(path: str | os.PathLike[str], *, pipes: bool = False) -> BinaryIO:
    """A file, open for reading. Opening waits for nobody: a FIFO without a writer is empty.

    Args:
        path: where it is.
        pipes: whether it may be a pipe or a device, too.

    Raises:
        OSError: it cannot be opened, or is none; its ``filename`` is the path.
    """
    text = os.fspath(path)
    check_path(text)
    # The file object owns the descriptor from the start, so that no interrupt closes it twice.
    file = open(text, "rb", opener=_core.open_at_once)  # noqa: SIM115 - the caller closes it
    try:
        if not (pipes or stat.S_ISREG(os.fstat(file.fileno()).st_mode)):
            raise OSError(errno.EINVAL, "not a file", text)
        os.set_blocking(file.fileno(), True)
        return file
    except BaseException:
        file.close()
        raise


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a file, or of a pipe that has a writer.

    Raises:
        OSError: it cannot be read, or has more than `most` bytes; its ``filename`` is the path.
    """
    # Joined once: what grows piece by piece is copied again and again.
    pieces, size = [], 0
    with open_file(path, pipes=True) as file:
        while piece := file.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", os.fspath(path))
    return b"".join(pieces)


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file of bounded size, without the byte order mark that editors may put before it.

    Raises:
        OSError: it cannot be read, or is too large.
        UnicodeDecodeError: it is not text.
    """
    text = read_whole(path, MOST_TEXT).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_path(path: str | os.PathLike[str]) -> None:
    """Raises ``OSError`` for what no file can be called: with a zero byte, or no text at all."""
    text = os.fspath(path)
    try:
        unusable = "\0" in text or not os.fsencode(text)
    except UnicodeEncodeError:
        unusable = True
    if unusable:
        shown = text.encode("unicode_escape").decode("ascii")
        raise FileNotFoundError(errno.EINVAL, "no file can have this name", shown)
