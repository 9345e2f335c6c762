"""Run Python code in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import qnnrt

#: The tests run under the address sanitizer, whose own memory shows in what a process holds.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
MEASURED = pytest.mark.skipif(SANITIZED, reason="the sanitizer's own memory is measured, too")

_ROOT = Path(__file__).resolve().parents[2]
#: PYTHONPATH of such a process: this qnnrt, what the tests import, and what was there.
PATHS = os.pathsep.join(
    [
        *map(str, (Path(qnnrt.__file__).parents[1], _ROOT / "tests", _ROOT / "tools")),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
)


def limit_process(memory: int) -> None:
    """This process leaves no core file, and has so many bytes of address space. The address
    sanitizer reserves terabytes: under it there is no such limit."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def peak_memory() -> int:
    """The most bytes that this process had in memory. Not ru_maxrss: that begins with what the
    process had that forked it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run_code(
    code: str, *args: str, timeout: float = 600, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The code in development mode, with this qnnrt and the helpers of the tests importable."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment, "PYTHONPATH": PATHS},
        check=False,
    )


def run_script(
    *arguments: object, timeout: float = 1800, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in which a foreign runtime may print whatever bytes it likes."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def interruptible(command: Sequence[object], *, ignoring: bool = False) -> subprocess.Popen[str]:
    """A process that SIGINT interrupts, or that was started to ignore it, whichever this process
    does: a shell's background commands, such as a whole test run may be, ignore it."""
    action = signal.SIG_IGN if ignoring else signal.SIG_DFL
    return subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, action),
    )


def printed(code: str, *args: str, **environment: str) -> str:
    """What the code prints, which has to succeed, under these environment variables."""
    done = run_code(code, *args, timeout=600, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_child(work: Callable[[], None]) -> None:
    """Runs work in a forked child, which must end by itself and leave no exception."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(r)
            work()
            code = 0
        except BaseException:
            os.write(w, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(w)
    with os.fdopen(r) as f:
        said = f.read()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, said
