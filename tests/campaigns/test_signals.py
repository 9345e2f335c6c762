"""SIGINT at random times in calls of each kind; `signals.py` beside this does thousands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.interrupted_calls import available
from support.outside import MEASURED, run_script

CAMPAIGN = Path(__file__).with_name("signals.py")


def interrupts(count: int, *calls: str) -> None:
    done = run_script("-P", CAMPAIGN, "--count", count, "--only", ",".join(calls))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(rf"(\d+) interrupts in {len(calls)} calls, 0 findings", done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= count


@MEASURED
def test_interrupts_of_runs_leave_nothing_waiting_and_nothing_behind() -> None:
    interrupts(150, "result-cpu", "as_completed-htp", "bind-htp", "share", "binary-cpu", "load")


@pytest.mark.slow
@MEASURED
def test_interrupts_of_whole_lives_leave_nothing_waiting_and_nothing_behind() -> None:
    interrupts(
        *(300, "session-cpu", "close-htp", "register-cpu", "backend-htp"),
        *("wait-cpu", "alloc", "run-lpai", "save_binary-htp"),
        *("binary-htp", "binary-lpai", "interpreter-delegate", "hand_over", "hand_over-fd"),
        *(name for name in ("session-gpu", "close-gpu") if available(name)),
    )
