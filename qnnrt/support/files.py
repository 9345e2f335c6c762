"""Files that people name: opened and read, whatever stands at the path."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

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
    fd = os.open(text, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), text)
        if not (pipes or stat.S_ISREG(mode)):
            raise OSError(errno.EINVAL, "not a file", text)
        os.set_blocking(fd, True)
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a file, or of a pipe that has a writer.

    Raises:
        OSError: it cannot be read, or has more than `most` bytes; its ``filename`` is the path.
    """
    data = bytearray()
    with open_file(path, pipes=True) as file:
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > most:
                raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", os.fspath(path))
    return bytes(data)


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file of bounded size.

    Raises:
        OSError: it cannot be read, or is too large.
        UnicodeDecodeError: it is not text.
    """
    text = read_whole(path, MOST_TEXT).decode("utf-8")
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
