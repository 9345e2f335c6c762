"""From launches to OpenCL programs: sources put together, built, kept as binaries on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ..support import log
from .device import Device, pyopencl
from .files import keep
from .ir import Launch
from .together import source_of_parts

__all__ = [
    "ROUNDED",
    "STANDARD",
    "Program",
    "Programs",
    "cache_dir",
    "kernel_name",
    "rewritten",
    "source",
]

#: What kernels are built with.
STANDARD: Final = ("-cl-std=CL1.2",)
#: On devices that can: divisions and roots as the cpu's, rounded correctly.
ROUNDED: Final = "-cl-fp32-correctly-rounded-divide-sqrt"
_MAGIC: Final = b"qnnrt opencl 1\n"
_DIGEST: Final = 32  # bytes
#: Before instructions in PTX that compilers of OpenCL C refuse; see mma.cl.
_MARK: Final = b"//@ "
_TARGET: Final = re.compile(rb"^\.target sm_90\b", re.MULTILINE)
_INCLUDE: Final = re.compile(r'#include "(\w+)\.cl"')


def cache_dir() -> Path:
    """Where binaries are kept unless an option says otherwise."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "qnnrt" / "opencl"


def source(launch: Launch) -> str:
    """The text of a kernel's program: its defines, what every family has, and its own file."""
    if launch.parts:
        own = source_of_parts(launch, [_own(part) for _, part in launch.parts])
    else:
        own = "#define KERNEL(name) qnnrt_##name\n" + _own(launch)
    return _text("functions") + own


def _own(launch: Launch) -> str:
    """What programs of other launches do not have."""
    defines = (f"#define {name} {value}\n" for name, value in launch.defines)
    return "".join((*defines, _text("common"), launch.before, _text(launch.file)))


def kernel_name(launch: Launch) -> str:
    """Of its function in OpenCL."""
    return f"qnnrt_{launch.function}"


def rewritten(ptx: bytes) -> bytes | None:
    """What a driver made of a source, in PTX, with the instructions that it would not have taken
    from there: they need another target. None where there are none."""
    if _MARK not in ptx:
        return None
    return _TARGET.sub(b".target sm_90a", ptx.rstrip(b"\0").replace(_MARK, b""))


@functools.cache
def _text(file: str) -> str:
    """A file of ``kernels``, with those that it includes in the lines' places."""
    text = (resources.files(__package__) / f"kernels/{file}.cl").read_text("utf-8")
    parts = [f'#line 1 "{file}.cl"\n']
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if included := _INCLUDE.match(line):
            parts += [_text(included[1]), f'#line {number + 1} "{file}.cl"\n']
        else:
            parts.append(line)
    return "".join(parts)


@dataclass(frozen=True)
class Program:
    """A built program.

    Attributes:
        raw: the ``pyopencl.Program``.
        origin: "built" from its source, "disk": out of the cache, or "memory": another kernel of
            the backend had it.
    """

    raw: Any
    origin: str

    def kernel(self, launch: Launch) -> Any:
        """A ``pyopencl.Kernel`` of the launch's own, since arguments are the kernel object's."""
        # Of the program within: with the one around it pyopencl first asks for other attributes, as
        # which that looks for kernels, and drops whatever is raised meanwhile, interrupts too.
        return pyopencl().Kernel(self.raw._get_prg(), kernel_name(launch))


class Programs:
    """The programs of a context: one for launches that differ in their arguments alone.

    Small ones and many: so graphs share them, in memory and on disk, with all that the driver does
    when a kernel is first used.

    Args:
        context: the ``pyopencl.Context``.
        device: the device in it.
    """

    def __init__(self, context: Any, device: Device) -> None:
        self._context = context
        self._device = device
        self._built: dict[tuple[str, Path | None], Any] = {}
        self._lock = threading.Lock()

    def of(self, launch: Launch, folder: Path | None = None, *, anew: bool = False) -> Program:
        """The program of a launch.

        Whatever is wrong with the folder is no error: the program is built from its source then.

        Args:
            launch: what it is for.
            folder: where binaries are kept; None keeps none.
            anew: do not use what is there already.
        """
        text = source(launch)
        name = _key(self._device, text)
        path = None if folder is None else folder / f"{name}.bin"
        with self._lock:
            if (name, folder) in self._built:
                return Program(self._built[name, folder], "memory")
            raw = None if path is None or anew else self._load(path)
            origin = "built" if raw is None else "disk"
            self._built[name, folder] = raw if raw is not None else self._build(text, path)
            return Program(self._built[name, folder], origin)

    def _load(self, path: Path) -> Any:
        cl = pyopencl()
        if (binary := _read(path)) is None:
            return None
        try:
            program = cl.Program(self._context, [self._device.raw], [binary])
            return program.build(_options(self._device))
        except cl.Error as e:
            log.warning("%s is of no use, so its kernel is built anew: %s", path, str(e))
            return None

    def _build(self, text: str, path: Path | None) -> Any:
        cl = pyopencl()
        # Not a pyopencl.Program of a text, which keeps a cache of its own.
        program = cl.Program(cl._cl._Program(self._context, text))
        raw = program.build(_options(self._device), devices=[self._device.raw])
        data = raw.get_info(cl.program_info.BINARIES)[0]
        if (more := rewritten(data)) is not None:
            data = more
            program = cl.Program(self._context, [self._device.raw], [data])
            raw = program.build(_options(self._device))
        if path is not None:
            keep(path, _MAGIC + hashlib.sha256(data).digest() + data)
        return raw


def _options(device: Device) -> list[str]:
    """What kernels are built with."""
    rounds = pyopencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return [*STANDARD, *([ROUNDED] if device.raw.single_fp_config & rounds else [])]


def _key(device: Device, text: str) -> str:
    raw = device.raw
    forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")  # pyopencl adds them
    versions = (device.version, raw.driver_version, raw.platform.version)
    parts = (text, *_options(device), forced, str(device), *versions)
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
    log.warning("%s is damaged, so its kernel is built anew", path)
    return None
