"""Conditions that come true some time after what caused them."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120  # far more than anything takes on a busy machine


def until(condition: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
