"""A process of its own for onnx's native code and its reference evaluator.

Both take whatever a file holds: shapes, attributes and texts that crash, hang or fill the memory.
Here they have limits on memory and time; what happens to them is one error of one node. The process
is started afresh (never a fork of this one), gets and gives protobuf messages through pipes, and
lives as long as one load.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import resources
from typing import IO

import onnx

from ...errors import ModelError
from ..budget import Budget
from .nodes import Unsupported

_MIB = 2**20
#: What the process may take: address space beside the constants, and for one request seconds of a
#: processor, and of the clock: on a loaded machine it waits for a processor most of the time.
_ADDRESS_SPACE, _SECONDS, _CLOCK_SECONDS = 1024 * _MIB, 10.0, 60.0
#: The longest body of a function; constants are measured by the budget.
_LONGEST_BODY = 4 * _MIB


class _Lost(Exception):
    """The process is gone, or was given up; the text says why."""


class _Limit:
    """Of the time for one answer."""

    def __init__(self, process: subprocess.Popen[bytes], clock: float) -> None:
        self._process = process
        self._clock, self._deadline = clock, time.monotonic() + clock
        self._most = _processor_seconds(process) + _SECONDS

    def wait(self, pipe: IO[bytes], writing: bool) -> None:
        """Until the pipe can be written to or read from."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLOUT if writing else select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise _Lost(f"it does not end within {self._clock:g} s")
            if poll.poll(math.ceil(1000 * min(left, 0.5))):
                return
            if _processor_seconds(self._process) > self._most:
                raise _Lost(f"it does not end within {_SECONDS:g} s of processor time")


class Child:
    """The process, started with the first request."""

    def __init__(self, where: str, budget: Budget) -> None:
        self._where, self.budget = where, budget
        self._process: subprocess.Popen[bytes] | None = None

    def expand(
        self, op: str, domain: str, version: int, node: bytes, types: Sequence[bytes]
    ) -> bytes:
        """The body of a function that depends on its node: a FunctionProto, or nothing."""
        head = [b"expand", op.encode(), domain.encode(), str(version).encode(), node]
        return b"".join(self._ask([*head, *types], _LONGEST_BODY))

    def evaluate(self, model: bytes, feeds: Sequence[bytes]) -> list[bytes]:
        """The outputs (TensorProtos) of a model, by onnx's reference evaluator."""
        return self._ask([b"evaluate", model, *feeds], self.budget.bytes_left)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def _ask(self, parts: Sequence[bytes], longest: int) -> list[bytes]:
        try:
            answer = self._exchange(parts, longest)
        except _Lost as lost:
            self.close()
            raise ModelError(
                f"{self._where}: {self.budget.node} cannot be evaluated by onnx "
                f"{onnx.__version__} in a process of its own: {lost}"
            ) from None
        except BaseException:
            self.close()
            raise
        if answer[0] == b"unsupported":
            raise Unsupported(answer[1].decode(errors="replace")[:500])
        if answer[0] != b"ok":
            raise ValueError(answer[1].decode(errors="replace")[:500])
        return answer[1:]

    # ---- the exchange ------------------------------------------------------------------------

    def _exchange(self, parts: Sequence[bytes], longest: int) -> list[bytes]:
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        limit = _Limit(process, max(min(_CLOCK_SECONDS, self.budget.seconds_left), 0.1))
        header = [longest, len(parts), *map(len, parts)]
        _write(process, process.stdin, _numbers(header), limit)
        for part in parts:
            _write(process, process.stdin, part, limit)
        (count,) = _received(process, process.stdout, 1, limit)
        sizes = _received(process, process.stdout, count, limit) if count < 2**16 else ()
        if not sizes or sum(sizes) > longest + 4096:
            raise _Lost("its answer is too long")
        return [_read(process, process.stdout, size, limit) for size in sizes]

    def _start(self) -> None:
        source = resources.files(__package__).joinpath("child_main.py").read_text("utf-8")
        # Under qemu-user a process finds its libraries by the last one.
        keep = ("LD_LIBRARY_PATH", "PYTHONHOME", "PATH", "SYSTEMROOT", "LANG", "QEMU_LD_PREFIX")
        environment = {k: os.environ[k] for k in keep if k in os.environ}
        # One thread each: pools of threads reserve address space for every core.
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        space = _ADDRESS_SPACE + max(self.budget.bytes_left, 0)
        paths = [os.path.abspath(path) for path in sys.path if path]
        try:
            self._process = subprocess.Popen(
                [_interpreter(), "-I", "-S", "-c", source, str(space), *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env=environment,
                close_fds=True,
            )
        except OSError as exc:
            raise _Lost(f"it cannot be started ({exc})") from None
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        if _received(process, process.stdout, 1, _Limit(process, _CLOCK_SECONDS)) != (_HELLO,):
            raise _Lost(f"{process.args[0]!r} is no Python interpreter")  # type: ignore[index]


#: What the process says first.
_HELLO = 0x716E6E72


def _interpreter() -> str:
    """The interpreter that this is. In a program that embeds Python, sys.executable is something
    else: then the one that belongs to the library is looked for."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable or ""]
    candidates += [
        os.path.join(prefix, "bin", name)
        for prefix in dict.fromkeys((sys.exec_prefix, sys.base_exec_prefix))
        for name in (version, "python3")
    ]
    for path in candidates:
        is_python = re.fullmatch(r"(python|pypy)[0-9.]*[a-z]*", os.path.basename(path))
        if is_python and os.access(path, os.X_OK):
            return path
    raise _Lost(
        f"there is no Python interpreter to start: sys.executable is {sys.executable!r}, and "
        f"{os.path.join(sys.exec_prefix, 'bin')!r} has none. Fold the constants of the model first "
        "(onnxsim, or onnxruntime's offline optimization)"
    )


def _numbers(values: Sequence[int]) -> bytes:
    return b"".join(int(v).to_bytes(8, "little") for v in values)


def _received(
    process: subprocess.Popen[bytes], pipe: IO[bytes], count: int, limit: _Limit
) -> tuple[int, ...]:
    data = _read(process, pipe, 8 * count, limit)
    return tuple(int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8))


def _write(process: subprocess.Popen[bytes], pipe: IO[bytes], data: bytes, limit: _Limit) -> None:
    rest = memoryview(data)
    while rest:
        limit.wait(pipe, True)
        try:
            rest = rest[os.write(pipe.fileno(), rest[: 2**16]) :]
        except BlockingIOError:
            continue
        except OSError:
            raise _Lost(_end(process)) from None


def _read(process: subprocess.Popen[bytes], pipe: IO[bytes], size: int, limit: _Limit) -> bytes:
    found = bytearray()
    while len(found) < size:
        limit.wait(pipe, False)
        try:
            got = os.read(pipe.fileno(), min(size - len(found), 2**20))
        except BlockingIOError:
            continue
        if not got:
            raise _Lost(_end(process))
        found += got
    return bytes(found)


def _processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """That it has taken, in user mode and in the kernel; 0 where it is gone."""
    try:
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[bytes]) -> str:
    """How the process ended."""
    try:
        code = process.wait(2)
    except subprocess.TimeoutExpired:
        return "it stopped answering"
    if code < 0:
        return f"it was ended by signal {-code}"
    known = {3: "there is not enough memory", 4: "a library that it needs cannot be loaded"}
    return known.get(code, f"it ended with status {code}")
