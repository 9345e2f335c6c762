"""Ctrl-C while a command starts up, works and goes down: it ends, and says nothing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import qnnrt
from support.outside import interruptible

COMMANDS = (
    *("info", "run", "bench", "demo", "context-binary-generator", "context-binary-utility"),
    *("inspect", "net-run", "throughput-net-run", "profile-viewer", "platform-validator"),
    *("lib-dir", "include-dir", "cmake-dir", "pkgconfig-dir", "sdk-root"),
)
#: Killed by SIGINT, for which a shell says 130, too; or by KeyboardInterrupt, while it works.
INTERRUPTED = (-signal.SIGINT, 130)
#: The package's first statement. What comes before it has run finds Python's own handler.
FIRST = "from . import _start"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "qnnrt", *arguments]


def interrupt(started: subprocess.Popen[str], after: float) -> tuple[str, str]:
    """What it prints when SIGINT comes after so many seconds."""
    try:
        time.sleep(after)
        started.send_signal(signal.SIGINT)
        return started.communicate(timeout=300)
    finally:
        started.kill()
        started.wait()


def entered(traceback: str) -> list[tuple[str, str]]:
    """Where in the package it was: name of the file and line, from the outermost frame in."""
    package = re.escape(str(Path(qnnrt.__file__).parent))
    return re.findall(rf'File "{package}/([^"]+)", line .*\n +(.*)', traceback)


def starts(times: int) -> None:
    """Every command in turn, each interrupted a little later in its start than the one before."""
    begun = time.perf_counter()
    subprocess.run(command("lib-dir"), check=True, capture_output=True)
    whole = time.perf_counter() - begun
    endings = [start(COMMANDS[i % len(COMMANDS)], whole * (i + 0.5) / times) for i in range(times)]
    # Where starts take another time than the first one did: closer to where the package starts.
    after, tries = whole / 2, 0
    while "interrupted" not in endings and tries < 100:
        tries += 1
        endings.append(start("info", after))
        after *= 1.3 if endings[-1] == "early" else 0.7
    assert "interrupted" in endings


def start(name: str, after: float) -> str:
    """When the interrupt came: early, while Python itself started up, or late, after the end."""
    started = interruptible(command(name, "--help"))
    _, err = interrupt(started, after)
    if started.returncode in INTERRUPTED and not err:
        return "interrupted"
    if started.returncode == 0:
        return "late"
    assert "KeyboardInterrupt" in err
    for file, line in entered(err):
        assert file == "_start.py" or line.startswith(FIRST), err
    return "early"


def test_an_interrupt_during_the_start_is_quiet() -> None:
    starts(5)


@pytest.mark.slow
def test_an_interrupt_at_any_time_of_a_start_is_quiet() -> None:
    starts(26)


def test_a_command_that_was_started_to_ignore_interrupts_ignores_them() -> None:
    started = interruptible(command("lib-dir"), ignoring=True)
    out, err = interrupt(started, 0.1)
    assert (started.returncode, err) == (0, "")
    assert out


def test_programs_that_import_the_package_keep_their_interrupts() -> None:
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
    code = "import signal, qnnrt; assert signal.getsignal(2) is signal.default_int_handler"
    started = interruptible([sys.executable, "-P", "-c", code])
    _, err = started.communicate(timeout=300)
    assert (started.returncode, err) == (0, ""), qnnrt.__file__
