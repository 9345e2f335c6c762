"""C and C++ of the tests: programs and libraries that all processes of a run share."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Werror")


class Builder:
    """Builds each name once, in a folder that the processes of a run have in common."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def program(self, source: Path, *flags: str | Path, name: str = "") -> Path:
        """A program of one source file."""
        out = self.folder / (name or source.stem)
        with open(f"{out}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not out.exists():
                part = out.with_name(f"{out.name}.part")
                subprocess.run([*_compiler(source), source, "-o", part, *flags], check=True)
                part.rename(out)
        return out

    def library(self, source: Path, *flags: str | Path, name: str = "") -> Path:
        """A shared library of one source file."""
        return self.program(
            source, "-shared", "-fPIC", "-pthread", *flags, name=name or f"{source.stem}.so"
        )


def _compiler(source: Path) -> list[str]:
    if source.suffix == ".c":
        return [*shlex.split(os.environ.get("CC", "cc")), "-std=c11"]
    return [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", f"-I{ROOT / 'csrc'}"]
