"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO, Final

__all__ = ["new_file"]

_KINDS: Final = (
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISSOCK, "socket"),
)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to be filled, which is renamed when that went well: a reader of this name sees the
    old file or the new one.

    What is at the path already decides, as it does for editors that rename:

    - Nothing: a new file, with the mode that the umask leaves.
    - A regular file: it is replaced. The new one has its mode and, where the process may give files
      away, its owner and group; access control lists, extended attributes and further hard links
      stay with the old one. A file that the process may not write is refused, though its folder
      would allow a rename.
    - A symbolic link: it stays, and the file that it leads to is replaced or made, in its own
      folder.
    - Anything else (a folder, a FIFO, a socket, a device) is refused and left alone: it cannot be
      replaced without being destroyed, and cannot be filled whole or not at all.

    Raises:
        OSError: with the path that was given as its ``filename``. Nothing has changed then, and no
            other file is left.
    """
    given = os.fsdecode(path)
    target, old = _target(given)
    # The name in full would make one that is too long out of a long one.
    other = os.path.join(os.path.dirname(target), f".{os.getpid()}-{os.urandom(8).hex()}.tmp")
    # Nobody else may read it before it has the mode of the old file.
    mode = 0o666 if old is None else 0o600
    try:
        # One step: a function of Python's could lose the fd to an interrupt.
        with open(other, "x+b", opener=partial(os.open, mode=mode)) as file:
            if old is not None:
                _resemble(file.fileno(), old)
            yield file
        os.replace(other, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(other)
        # Of calls on the new file: by its name, or without one.
        if isinstance(error, OSError) and error.filename in (None, other):
            error.filename, error.filename2 = given, None
        raise


def _target(given: str) -> tuple[str, os.stat_result | None]:
    """The file to be replaced or made, links followed, and what is known of the old one."""
    if not os.path.basename(given):
        # "" or "folder/": a folder's name, whether it exists or not.
        code = errno.EISDIR if given else errno.ENOENT
        raise OSError(code, os.strerror(code), given)
    target = os.path.realpath(given) if os.path.islink(given) else given
    try:
        old = os.stat(given)
    except FileNotFoundError:
        return target, None  # a link may lead to where no file is yet
    if stat.S_ISDIR(old.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), given)
    if not stat.S_ISREG(old.st_mode):
        kind = next((name for test, name in _KINDS if test(old.st_mode)), "special file")
        reason = f"a {kind} cannot be replaced by a file: give another path"
        raise OSError(errno.EINVAL, reason, given)
    try:
        same = os.path.samestat(os.stat(target), old)
    except OSError:
        same = False
    if not same:  # /proc/self/fd/N of a file that has no name any more
        raise OSError(errno.ENOENT, "the file it leads to has no name of its own", given)
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), given)
    return target, old


def _resemble(fd: int, old: os.stat_result) -> None:
    """Owner, group and mode of the file that is replaced, as far as the process may."""
    new = os.fstat(fd)
    mode = stat.S_IMODE(old.st_mode)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except OSError:
            mode &= 0o777  # set-user-ID of another owner would be another right
            with suppress(OSError):
                os.fchown(fd, -1, old.st_gid)
    os.fchmod(fd, mode)
