"""How every importer ends: with a model, or with one error of a class that callers expect."""

from __future__ import annotations

import gc
import inspect
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from ..errors import Error, ModelError
from ..model.mapped import MappedFile
from ..support import files

P = ParamSpec("P")
R = TypeVar("R")

#: The longest text of an error: names, lists and texts of the file can be as long as the file.
LONGEST = 8000


def shortened(text: str, longest: int = 200) -> str:
    """A text of a file, without its middle when it is long."""
    if len(text) <= longest:
        return text
    tail = longest // 8
    left_out = len(text) - (longest - 40 - tail) - tail
    return f"{text[: longest - 40 - tail]}[... {left_out} characters ...]{text[-tail:]}"


def name_of(source: object) -> str:
    """What messages call a source that was handed in."""
    if isinstance(source, bytes | bytearray | memoryview):
        return f"the given bytes ({len(source)})"
    if isinstance(source, str | os.PathLike):
        return shortened(str(source), 1000)
    return f"the given {type(source).__name__}"


def importing(load: Callable[P, R]) -> Callable[P, R]:
    """`load(source, ...)` whose errors are `qnnrt.Error`, OSError or MemoryError, with a text of
    bounded length. Whatever else a file brings about is a `ModelError` here, as the last line."""
    arguments = inspect.signature(load)

    @wraps(load)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _collecting_later():
                return load(*args, **kwargs)
        except (Error, OSError) as exc:
            _shorten(exc)
            raise
        except MemoryError as exc:
            if exc.args:
                _shorten(exc)
                raise
            raise MemoryError(f"{name_of(args[0])}: there is not enough memory for it") from None
        except Exception as exc:
            if isinstance(exc, TypeError) and not _fits(arguments, *args, **kwargs):
                raise  # the caller's own
            _shorten(exc)
            raise ModelError(
                f"{name_of(args[0])} cannot be loaded: {type(exc).__name__}: {exc}"
            ) from exc

    return guarded


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Without the collector of cycles: an import makes a great many objects that stay, and none
    that only it would free. It would go over all objects of the program meanwhile."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _fits(arguments: inspect.Signature, *args: object, **kwargs: object) -> bool:
    try:
        arguments.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _shorten(exc: BaseException) -> None:
    """The texts of an exception, and of what it came from, cut where they are too long."""
    found: BaseException | None = exc
    for _ in range(20):
        if found is None:
            return
        if isinstance(found, OSError) and isinstance(found.filename, str | bytes):
            found.filename = shortened(os.fsdecode(found.filename), 1000)
        if len(str(found)) > LONGEST:
            found.args = (shortened(str(found), LONGEST),)
        found = found.__cause__ or found.__context__


def read_file(path: str | os.PathLike[str], what: str) -> bytes:
    """The bytes of a regular file; `what` it should be is for the message.

    Raises `ModelError` for folders, FIFOs, sockets and devices, which would be read for ever, and
    `OSError` when it cannot be opened.
    """
    with open_file(path, what) as file:
        return file.read()


#: Files of at least so many bytes are mapped, not read.
_MAPPED = 1 << 17


def map_or_read(path: str | os.PathLike[str], what: str) -> tuple[memoryview, MappedFile | None]:
    """As `read_file`; the bytes of a large file where they are."""
    with open_file(path, what) as file:
        if os.fstat(file.fileno()).st_size < _MAPPED:
            return memoryview(file.read()), None
        mapped = MappedFile(file, name_of(path))
        return mapped.view, mapped


def check_file(path: str | os.PathLike[str], what: str) -> None:
    """Raise `ModelError` when `path` is there and is no regular file."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as exc:  # NUL in the name
        raise ModelError(f"{name_of(path)!r} is not a path: {exc}") from exc
    if not stat.S_ISREG(mode):
        kinds = {
            stat.S_IFDIR: "a folder",
            stat.S_IFIFO: "a FIFO",
            stat.S_IFSOCK: "a socket",
            stat.S_IFCHR: "a device",
            stat.S_IFBLK: "a device",
        }
        kind = kinds.get(stat.S_IFMT(mode), "no regular file")
        raise ModelError(f"{name_of(path)} is {kind}; a file is expected: {what}")


def open_file(path: str | os.PathLike[str], what: str) -> BinaryIO:
    """A regular file, opened for reading without waiting for anybody."""
    check_file(path, what)
    return files.open_file(path)


def beside(model: Path, location: str | bytes) -> Path | None:
    """The file `location` of the folder that a model lies in, links followed; None when it lies
    elsewhere.

    A download cache (huggingface_hub's) has links to the model and to its data, all to one other
    folder: where the model lies in truth its data may, too, if the location itself has no "..".
    """
    folder = model.parent
    if isinstance(location, bytes):  # what protobuf gives when it cannot decode a text
        return None
    if not location or "\0" in location or Path(location).is_absolute():
        return None
    try:
        file = (folder / location).resolve()
        real = model.resolve().parent
    except (OSError, RuntimeError):  # a name that no file can have, or links in a circle
        return None
    linked = ".." not in Path(location).parts and file.is_relative_to(real)
    return file if linked or file.is_relative_to(folder.resolve()) else None
