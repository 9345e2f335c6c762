"""Conditions that come true some time after what caused them."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120  # far more than anything takes on a busy machine


def until(condition: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Whether it came true in time. It is looked at once more after the end: a process that was
    stopped meanwhile comes back when all its time is over."""
    end = time.monotonic() + seconds
    over = False
    while not condition():
        if over:
            return False
        time.sleep(0.01)
        over = time.monotonic() > end
    return True
