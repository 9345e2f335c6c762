"""From launches to OpenCL programs: sources put together, built, kept on disk as binaries."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from .._owner import log
from .device import Device, pyopencl
from .ir import Launch

__all__ = ["Program", "build", "cache_dir", "source"]

_OPTIONS: Final = ("-cl-std=CL1.2",)
_MAGIC: Final = b"qnnrt opencl 1\n"
_DIGEST: Final = 32  # bytes
_DEFINED: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def cache_dir() -> Path:
    """Where binaries are kept unless an option says otherwise."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "qnnrt" / "opencl"


def source(launches: Sequence[Launch]) -> tuple[str, list[str]]:
    """One source for all, in which equal launches share a kernel; the kernel's name for each."""
    parts = [_text("functions")]
    numbers: dict[tuple[Any, ...], int] = {}
    names = []
    for launch in launches:
        key = (launch.file, launch.defines, launch.before)
        if key not in numbers:
            numbers[key] = len(numbers)
            defines = (("KERNEL(name)", f"name##_{numbers[key]}"), *launch.defines)
            parts += [f"#define {name} {value}\n" for name, value in defines]
            own = [_text("common"), launch.before, _text(launch.file)]
            # A macro that stays would be read by files that have another of its name, or none.
            macros = [name.partition("(")[0] for name, _ in defines]
            macros += [name for text in own for name in _DEFINED.findall(text)]
            parts += [*own, *(f"#undef {name}\n" for name in dict.fromkeys(macros))]
        names.append(f"{launch.function}_{numbers[key]}")
    return "".join(parts), names


@functools.cache
def _text(file: str) -> str:
    text = (resources.files(__package__) / f"kernels/{file}.cl").read_text("utf-8")
    return f'#line 1 "{file}.cl"\n{text}'


@dataclass(frozen=True)
class Program:
    """A built program.

    Attributes:
        raw: the ``pyopencl.Program``; None where there are no kernels.
        cache: "hit": its binary was in the cache; "miss": it was built from its source; "none":
            nothing is kept, or nothing was to be built.
        nbytes: of its binary; 0 where nobody has asked for it.
    """

    raw: Any
    cache: str
    nbytes: int = 0


def build(
    context: Any, device: Device, text: str, folder: Path | None, anew: bool = False
) -> Program:
    """The program, out of the cache where it has been built before; with ``anew`` from its source.

    Whatever is wrong with the cache is no error: the program is built from its source then.
    """
    cl = pyopencl()
    if not text:
        return Program(None, "none")
    path = folder / f"{_key(device, text)}.bin" if folder is not None else None
    if path is not None and not anew and (binary := _read(path)) is not None:
        try:
            made = cl.Program(context, [device.raw], [binary])
            return Program(made.build(list(_OPTIONS)), "hit", len(binary))
        except cl.Error as e:
            log.warning("%s is of no use, so kernels are built anew: %s", path, str(e))
    # Not by pyopencl.Program of a text, which keeps a cache of its own.
    raw = cl.Program(cl._cl._Program(context, text)).build(list(_OPTIONS), devices=[device.raw])
    if path is None:
        return Program(raw, "none")
    binary = raw.get_info(cl.program_info.BINARIES)[0]
    with contextlib.suppress(OSError):
        _write(path, binary)
    return Program(raw, "miss", len(binary))


def _key(device: Device, text: str) -> str:
    raw = device.raw
    forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")  # pyopencl adds them
    versions = (device.version, raw.driver_version, raw.platform.version)
    parts = (text, *_OPTIONS, forced, str(device), *versions)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _read(path: Path) -> bytes | None:
    """The binary, unless there is none or it is not what was written: drivers crash on such."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[len(_MAGIC) + _DIGEST :]
    if data[: len(_MAGIC) + _DIGEST] == _MAGIC + hashlib.sha256(body).digest():
        return body
    log.warning("%s is damaged, so kernels are built anew", path)
    return None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: other processes read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(_MAGIC + hashlib.sha256(data).digest() + data)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
