"""Cases in a child process: with limits of time and memory, and the case at work known outside.

The parent forks: what it has imported and the bases are there at once, so a child costs a few
milliseconds, and dies alone. A parent must have opened no backend before.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from qnnrt import _core

from .target import Target, answer

_AT_WORK = struct.Struct("=qdd")  # number of the case, its begin: CPU time, monotonic clock
_FAILED = 70  # exit status of a child whose mutator raised
_TICK = os.sysconf("SC_CLK_TCK")
_READY = 300  # seconds until a child comes to its first case
_PACKAGE = re.compile(r"/(qnnrt/[\w/]+\.py|onnx/[\w/]+\.py)")


@dataclass(frozen=True)
class Limits:
    """Of a child, and of each of its cases.

    Attributes:
        memory: address space above what the child begins with, in bytes; 0: no limit.
        cpu: seconds of processor time of a case.
        wall: seconds on the clock of a case: more, for the machine may be busy.
        batch: seconds on the clock of all cases of a child.
        strict: an error that only the importers' last line has made is a finding, too.
    """

    memory: int = 2 << 30
    cpu: float = 15
    wall: float = 120
    batch: float = 3600
    strict: bool = False


@dataclass(frozen=True)
class Result:
    """One case's end. `finding` is its kind, None for an answer; `text` a traceback."""

    number: int
    outcome: str
    finding: str | None = None
    text: str = ""


class Child:
    """A child at work on cases."""

    def __init__(
        self, target: Target, numbers: Iterable[int], case: Callable[[int], bytes], limits: Limits
    ) -> None:
        """Fork it.

        Args:
            target: runs the cases.
            numbers: of the cases.
            case: the bytes of one; called in the child.
            limits: of its own.
        """
        self.limits = limits
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._page[: _AT_WORK.size] = _AT_WORK.pack(-1, 0.0, time.monotonic())
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._folder = tempfile.TemporaryDirectory(prefix="qnnrt-fuzz.")
        self._began = time.monotonic()
        self._stopped = ""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(target, numbers, case)

    # ---- in the child ------------------------------------------------------------------------

    def _work(self, target: Target, numbers: Iterable[int], case: Callable[[int], bytes]) -> None:
        status = _FAILED
        try:
            os.setsid()  # what it starts ends with it
            said = self._said.fileno()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for fd, to in ((nothing, 0), (said, 1), (said, 2)):
                os.dup2(fd, to)
            os.close(nothing)
            faulthandler.enable(self._said)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if self.limits.memory:
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                most = pages * mmap.PAGESIZE + self.limits.memory
                resource.setrlimit(resource.RLIMIT_AS, (most, most))
            os.chdir(self._folder.name)
            gc.freeze()
            target.warm()
            for number in numbers:
                self._page[: _AT_WORK.size] = _AT_WORK.pack(
                    number, time.process_time(), time.monotonic()
                )
                result = judge(
                    target, number, case(number), Path(self._folder.name), self.limits.strict
                )
                line = json.dumps([number, result.outcome, result.finding, result.text])
                os.write(self._log.fileno(), line.encode() + b"\n")
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stderr.flush()
            finally:
                os._exit(status)

    # ---- in the parent -----------------------------------------------------------------------

    def poll(self) -> bool:
        """Whether it has ended; one that is over a limit is ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            over = self._over()
            if not over:
                return False
            self._stopped = over
            # Its handler writes the Python stack first.
            for number, wait in ((signal.SIGABRT, 20.0), (signal.SIGKILL, None)):
                os.kill(self.pid, number)
                end = None if wait is None else time.monotonic() + wait
                while pid == 0 and (end is None or time.monotonic() < end):
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                    time.sleep(0.01)
                if pid:
                    break
        self._status = status
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return True

    def _over(self) -> str:
        now = time.monotonic()
        number, cpu, begin = _AT_WORK.unpack(self._page[: _AT_WORK.size])
        if now - self._began > self.limits.batch:
            return "the batch's time"
        if number < 0:
            return "hang before the first case" if now - begin > _READY else ""
        if now - begin > self.limits.wall:
            return "hang"
        if now - begin > self.limits.cpu:
            with open(f"/proc/{self.pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
            if (int(fields[11]) + int(fields[12])) / _TICK - cpu > self.limits.cpu:
                return "hang"
        return ""

    def results(self) -> list[Result]:
        """Of all cases that it came to, after its end; the last is the one that it died of."""
        self._log.seek(0)
        found = [Result(*json.loads(line)) for line in self._log.read().splitlines()]
        if self._status != 0 and self._stopped != "the batch's time":
            number = _AT_WORK.unpack(self._page[: _AT_WORK.size])[0]
            self._said.seek(0)
            said = self._said.read().decode("utf-8", "replace")
            kind = self._stopped or _death(self._status)
            found.append(Result(number, kind, f"{kind} in {_place_of(said)}", said[-4000:]))
        for file in (self._log, self._said, self._page):
            file.close()
        self._folder.cleanup()
        return found


def run(target: Target, cases: list[bytes], limits: Limits, first: int = 0) -> list[Result]:
    """Cases in one child, from the first one on, up to one that it dies of."""
    child = Child(target, range(first, len(cases)), cases.__getitem__, limits)
    while not child.poll():
        time.sleep(0.002)
    return child.results()


def judge(target: Target, number: int, data: bytes, folder: Path, strict: bool = False) -> Result:
    """Run one case here."""
    before = _held()
    try:
        outcome = target.run(data, folder)
    except Exception as error:
        found = answer(error)
        if found is None:
            text = traceback.format_exc()
            name = type(error).__name__
            if len(str(error)) > 10_000:
                name = f"message of {len(str(error))} characters of {name}"
            kind = f"{name} in {_place(error.__traceback__)}"
            return Result(number, name, kind, text[:2000] + " ... " + text[-2000:])
        cause = error.__cause__
        if strict and isinstance(cause, Exception) and "cannot be loaded: " in str(error):
            kind = f"unforeseen {type(cause).__name__} in {_place(cause.__traceback__)}"
            return Result(number, "unforeseen", kind, traceback.format_exc()[-4000:])
        del cause  # its frames hold what the case held
        outcome = found
    left = _left(before)
    for settle in (lambda: _core.pool_trim(0), gc.collect):
        if left:
            settle()
            left = _left(before)
    if left:
        return Result(number, "leak", f"leak of {', '.join(left)} after {outcome}", str(left))
    return Result(number, outcome)


def _held() -> dict[str, int]:
    return {**_core.live_counts(), "fds": len(os.listdir("/proc/self/fd"))}


def _left(before: dict[str, int]) -> dict[str, int]:
    """What there is more of. The first session of a process keeps an fd or two for good, so a
    growth of fds counts from the third on."""
    grown = {k: n - before.get(k, 0) for k, n in _held().items()}
    return {k: n for k, n in grown.items() if n > (2 if k == "fds" else 0)}


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return "failed mutator" if code == _FAILED else f"exit with status {code}"


def _place(trace: TracebackType | None) -> str:
    """File and function where an exception left this package, or where it began."""
    where = "?"
    while trace is not None:
        code = trace.tb_frame.f_code
        found = _PACKAGE.search(code.co_filename)
        if found or where == "?":
            name = found[1] if found else Path(code.co_filename).name
            where = f"{name}:{code.co_name}"
        trace = trace.tb_next
    return where


def _place_of(said: str) -> str:
    """The same from what a dying process wrote: the innermost frame is the first."""
    current = said[said.find("(most recent call first)") :]
    frames = re.findall(r'File "([^"]+)", line \d+ in (\S+)', current)
    ours = [f"{found[1]}:{name}" for file, name in frames if (found := _PACKAGE.search(file))]
    others = [f"{Path(file).name}:{name}" for file, name in frames]
    return next(iter(ours or others), "?")
