"""Interrupts at every point where they can come: not now and then by a signal, but one by one.

CPython looks for signals when a function of Python's begins, when a call has returned and when a
loop goes round. ``at_every_point`` raises KeyboardInterrupt at the first of these points in a call,
in the next call at the second, and so on, in the standard library as in this package.
"""

from __future__ import annotations

import dis
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from support.parallel import running
from support.waiting import until

SECONDS = 300  # in which a call is over, unless it waits for ever

_BEFORE = ("CALL", "RESUME", "JUMP_BACKWARD")
_points: dict[CodeType, frozenset[int]] = {}


def points_of(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions in front of which signals are looked for."""
    if code not in _points:
        found, looked = [], None
        for instruction in dis.get_instructions(code):
            # It is the instruction that looks which is interrupted: what is raised in front of the
            # next one would miss a `with` that has just ended.
            if looked is not None and _handler(code, looked) == _handler(code, instruction.offset):
                found.append(instruction.offset)
            looks = instruction.opname.startswith(_BEFORE)
            looked = instruction.offset if looks else None
        _points[code] = frozenset(found)
    return _points[code]


def _handler(code: CodeType, offset: int) -> int | None:
    """Where an exception of the instruction is handled."""
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        if entry.start <= offset < entry.end:
            return int(entry.target)
    return None


class _Interrupter:
    """Raises KeyboardInterrupt at one point, and knows whether it came to that."""

    def __init__(self, point: int) -> None:
        self.left = point
        self.raised = False
        self._own = sys._getframe(1)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self.step

    def step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti in points_of(frame.f_code):
            self.left -= 1
            if self.left < 0 and not self.raised:
                self.raised = True
                raise KeyboardInterrupt
        return self.step


def at_every_point(
    call: Callable[[], object], after: Callable[[], object], *, before: Callable[[], Any] = object
) -> int:
    """``before()``, ``call()``, ``after()`` for each point of the call; returns how many there are.

    Whoever waits for ever ends the process, with the stacks of its threads. The call is made once
    more, uninterrupted, ahead of these: CPython 3.13 without its lock shows no instructions of a
    function's first call that is traced.
    """
    point = -1
    while True:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        kept = before()
        interrupter = _Interrupter(point if point >= 0 else sys.maxsize)
        sys._getframe().f_trace_opcodes = True  # CPython 3.12 looks for it in settrace alone
        sys.settrace(interrupter.enter)
        try:
            call()
        except KeyboardInterrupt:
            assert interrupter.raised
        finally:
            sys.settrace(None)
        after()
        del kept
        faulthandler.cancel_dump_traceback_later()
        if point >= 0 and not interrupter.raised:
            return point
        point += 1


def is_interrupted(call: Callable[[], object]) -> bool:
    """Whether a SIGINT ends the call, which comes when the calling thread, the main one, sleeps."""
    stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
    called = threading.Event()

    def sleeps() -> bool:
        return stat.read_text().rpartition(")")[2].split()[0] == "S"

    def interrupt() -> None:
        called.wait()
        assert until(lambda: all(sleeps() for _ in range(5)))
        os.kill(os.getpid(), signal.SIGINT)

    # A shell's background commands, such as a whole test run may be, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with running(interrupt):
        try:
            called.set()
            call()
        except KeyboardInterrupt:
            return True
    return False
