"""Ray for a benchmark: no dashboard, no report of use, no token in a file."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any


def prepare() -> None:
    """What Ray's processes read from the environment. Before any of them is started."""
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Of Ray's own 15 actors would wait for all other work, unlike what they are compared with.
    os.environ.setdefault("RAY_worker_niceness", "0")


def start(**options: Any) -> None:
    """``ray.init`` of a cluster of its own, unless told another. Its workers look for modules
    in the folder that it is called in before all others: in that of the benchmarks, not in a
    checkout whose package may not be built."""
    import ray

    prepare()
    options.setdefault("address", "local")
    with contextlib.chdir(Path(__file__).parent):
        ray.init(log_to_driver=False, **options)
