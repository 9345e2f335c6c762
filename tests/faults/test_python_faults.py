"""A Python program lives through failing allocations of qnnrt's libraries and failing system calls.

By hand, every point: python tests/faults/test_python_faults.py [STEP]"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.building import WARNINGS, Builder
from support.outside import PATHS, SANITIZED

HERE = Path(__file__).parent
ALLOCATIONS, CALLS = 1, 2

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer has the allocator")


def build(builder: Builder) -> Path:
    return builder.library(HERE / "faults.c", *WARNINGS, "-O1", "-ldl", name="libfaults.so")


def campaign(faults: Path, backend: str, *numbers: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HERE / "python_life.py", faults, backend, *map(str, numbers)],
        env={**os.environ, "LD_PRELOAD": str(faults), "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


@pytest.mark.parametrize("mode", [0, 1], ids=["once", "from there on"])
@pytest.mark.parametrize("backend", ["cpu", "htp", "lpai"])
def test_a_failing_call_is_an_error_and_the_next_life_works(
    builder: Builder, backend: str, mode: int
) -> None:
    for kinds, step in ((ALLOCATIONS, 71), (CALLS, 9)):
        first = random.Random(f"{backend} {kinds} {mode}").randint(1, step)
        done = campaign(build(builder), backend, kinds, mode, first, step, 10**6)
        print(done.stdout, done.stderr[-2000:])
        assert done.returncode == 0
        assert ", 0 tried" not in done.stdout


def every(step: int) -> bool:
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        faults = build(Builder(Path(folder)))
        for backend in ("cpu", "htp", "lpai", "gpu"):
            for kinds in (ALLOCATIONS, CALLS):
                for mode in (0, 1, 2):
                    done = campaign(faults, backend, kinds, mode, 1, step, 10**6)
                    print(done.stdout, end="", flush=True)
                    if done.returncode != 0:
                        whole = False
                        print(done.stderr[-2000:])
    return whole


if __name__ == "__main__":
    sys.exit(not every(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
