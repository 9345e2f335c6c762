"""Run Python code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import qnnrt

#: The tests run under the address sanitizer, whose own memory shows in what a process holds.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

_PATHS = [str(Path(qnnrt.__file__).parent.parent), str(Path(__file__).parent)]


def run_code(
    code: str, *args: str, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The code in development mode, with this qnnrt and the helpers of the tests importable."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(_PATHS)},
        check=False,
    )


def printed(code: str, *args: str, **environment: str) -> str:
    """What the code prints, which has to succeed, under these environment variables."""
    done = run_code(code, *args, timeout=600, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
