"""Processes that hand Buffers out, and what a process holds for others."""

from __future__ import annotations

import gc
import io
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qnnrt import _core
from support import tickets
from support.outside import PATHS
from support.strangers import strangers
from support.waiting import until


def held() -> dict[str, int]:
    """What this process holds of the operating system, and for others."""
    gc.collect()
    if strangers():
        return _core.ipc_counts()
    return _core.ipc_counts() | {
        "fds in all": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


@contextmanager
def gives_back() -> Iterator[None]:
    before = held()
    yield
    after = before

    def given_back() -> bool:
        nonlocal after
        after = held()
        return after == before

    until(given_back)  # the other side's end is seen by a thread
    assert after == before


@contextmanager
def another(code: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the code, with its standard input and output."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


#: From here on the kernel refuses this process to duplicate another one's fds, as it does where
#: Yama or a container's filter restricts tracing.
WITHOUT_TRACING = """
import ctypes

class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]

PIDFD_GETFD, REFUSED, ALLOWED = 438, 0x50000 | 1, 0x7FFF0000  # EPERM
code = (Instruction * 4)(Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, PIDFD_GETFD),
                         Instruction(0x06, 0, 0, REFUSED), Instruction(0x06, 0, 0, ALLOWED))
program = Program(4, code)
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.byref(program)) == 0
"""

#: Prints a message about a lease on 4096 bytes of sevens, and waits.
SENDER = """
import pickle, sys, qnnrt
b = qnnrt.alloc(4096)
b.array(4096, "u1")[...] = 7
lease = b.lease()
print(pickle.dumps(lease).hex(), flush=True)
sys.stdin.read()
"""


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.strip()


def message_of(pickled: bytes) -> bytes:
    """What ``qnnrt._receive`` is called with."""
    found: list[bytes] = []

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return found.append

    Reader(io.BytesIO(pickled)).load()
    return found[0]


def by_broker(message: bytes) -> bytes:
    """The same for a receiver that cannot look into the sender, as for a dma-buf."""
    return tickets.forged(message, pid=0)
