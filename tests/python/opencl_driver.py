"""Small C libraries that stand between every loader and an OpenCL driver, and oclgrind."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BACKENDS = Path(__file__).resolve().parents[1] / "backends"
_OCLGRIND = next(
    (
        p
        for p in (Path("/usr/lib/oclgrind"), Path("/usr/local/lib/oclgrind"))
        if (p / "liboclgrind-rt-icd.so").exists()
    ),
    None,
)


def build(name: str, folder: Path) -> Any:
    """Compile tests/backends/<name>.c and load it."""
    out = folder / f"{name}.so"
    compiler = shlex.split(os.environ.get("CC") or shutil.which("gcc") or "cc")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, *flags, str(BACKENDS / f"{name}.c"), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


class Spy:
    """What went into the queues of a platform: name of the command -> (calls, bytes)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.spy_row.restype = ctypes.c_char_p
        library.spy_install.argtypes = library.spy_remove.argtypes = [ctypes.c_void_p]

    @contextmanager
    def on(self, platform: Any) -> Iterator[Spy]:
        self._library.spy_install(platform.int_ptr)
        try:
            self.reset()
            yield self
        finally:
            self._library.spy_remove(platform.int_ptr)

    def reset(self) -> None:
        self._library.spy_reset()

    def rows(self) -> dict[str, tuple[int, int]]:
        """Those that are not zero."""
        found: dict[str, tuple[int, int]] = {}
        calls, moved = ctypes.c_uint64(), ctypes.c_uint64()
        i = 0
        while name := self._library.spy_row(i, ctypes.byref(calls), ctypes.byref(moved)):
            if calls.value:
                found[name.decode()] = (calls.value, moved.value)
            i += 1
        return found


def under_oclgrind(program: Path, folder: Path, *arguments: str) -> str:
    """Run a program on oclgrind's device, which has memory of its own and checks every access.

    Returns:
        what it printed; the report was empty.
    """
    if _OCLGRIND is None:
        pytest.skip("oclgrind is not installed")
    vendors, log = folder / "vendors", folder / "oclgrind.log"
    vendors.mkdir()
    (vendors / "oclgrind.icd").write_text(f"{_OCLGRIND}/liboclgrind-rt-icd.so\n")
    environment = os.environ | {
        "OCL_ICD_VENDORS": str(vendors),
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_CHECK_API": "1",
        "OCLGRIND_LOG": str(log),
        "QNNRT_GPU_DEVICE": "oclgrind",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(program.parent), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not log.exists() or not log.read_text()
    return done.stdout
