"""Small C libraries that stand between every loader and an OpenCL driver, and oclgrind."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.building import WARNINGS, Builder
from support.outside import PATHS

TESTS = Path(__file__).resolve().parents[2]
BACKENDS = TESTS / "backends"


def loaded(builder: Builder, name: str) -> Any:
    """tests/backends/<name>.c, compiled and loaded."""
    return ctypes.CDLL(str(builder.library(BACKENDS / f"{name}.c", *WARNINGS, "-D_GNU_SOURCE")))


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


def oclgrind_driver() -> Path:
    """oclgrind's driver, which is of its package, and beside its program where it was built."""
    program = Path(os.path.realpath(shutil.which("oclgrind") or ""))
    folders = [program.parent.parent / "lib" / "oclgrind", program.parent.parent / "lib"]
    if shutil.which("dpkg-query"):
        listed = subprocess.run(
            ["dpkg-query", "-L", "oclgrind"], capture_output=True, text=True, check=False
        )
        folders += {Path(line).parent for line in listed.stdout.splitlines()}
    for folder in folders:
        if (folder / "liboclgrind-rt-icd.so").exists():
            return folder / "liboclgrind-rt-icd.so"
    raise AssertionError(f"oclgrind is there, its driver in none of {sorted(set(folders))}")


def oclgrind_environment(folder: Path, log: Path) -> dict[str, str]:
    """For a program that is to use oclgrind's device, which checks every access.

    Args:
        folder: for the list of drivers.
        log: where it writes what it finds.
    """
    (folder / "oclgrind.icd").write_text(f"{oclgrind_driver()}\n")
    return os.environ | {
        "PYTHONPATH": f"{PATHS}{os.pathsep}{TESTS / 'gpu'}",
        "OCL_ICD_VENDORS": str(folder),
        "QNNRT_GPU_DEVICE": "oclgrind",
        "OCLGRIND_LOG": str(log),
        "OCLGRIND_CHECK_API": "1",
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_LOCAL_MEM_SIZE": str(48 << 10),  # as GPUs have
    }


def under_oclgrind(program: Path, folder: Path, *arguments: str) -> str:
    """Run a program on oclgrind's device, which has memory of its own.

    Returns:
        what it printed; the report was empty.
    """
    if shutil.which("oclgrind") is None:
        pytest.skip("oclgrind is not installed")
    log = folder / "report"
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=oclgrind_environment(folder, log) | {"XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text() == ""
    return done.stdout
