"""What is in this process beside the tests."""

from __future__ import annotations

import sys


def strangers() -> bool:
    """Whether threads of others open files here when they like, as those of a Ray that was in the
    process do, also after its end."""
    return "ray" in sys.modules
