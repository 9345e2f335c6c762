"""A C client lives through failing allocations and system calls.

One call fails, or all from there on, at points through the whole life of a client: each gives an
error code or is made up for, nothing is kept, and the next lives in the same process are whole.

By hand, every point of everything: python tests/faults/test_c_faults.py [STEP]"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import qnnrt

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.building import WARNINGS, Builder
from support.outside import SANITIZED

HERE = Path(__file__).parent
PACKAGE = Path(qnnrt.__file__).parent
LIBRARIES = {"cpu": "libQnnCpu.so", "htp": "libQnnHtp.so", "lpai": "libQnnLpai.so"}
ALLOCATIONS, CALLS = 1, 2
ONCE, FROM_THERE, TWICE = 0, 1, 2

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer has the allocator")


def build(builder: Builder) -> tuple[Path, Path]:
    faults = builder.library(HERE / "faults.c", *WARNINGS, "-O1", "-ldl", name="libfaults.so")
    return faults, builder.program(
        HERE / "fault_client.c",
        HERE / "fault_life.c",
        *WARNINGS,
        f"-I{PACKAGE / 'include'}",
        faults,
        f"-Wl,-rpath,{faults.parent}",
        "-pthread",
        "-ldl",
    )


def campaign(
    faults: Path, client: Path, backend: str, *numbers: int, temperature: str
) -> subprocess.CompletedProcess[str]:
    names = (LIBRARIES[backend], "libcdsprpc.so", "libQnnSystem.so")
    return subprocess.run(
        [client, *(PACKAGE / "lib" / n for n in names), backend, *map(str, numbers), temperature],
        env={**os.environ, "LD_PRELOAD": str(faults)},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


@pytest.fixture(scope="module")
def programs(builder: Builder) -> tuple[Path, Path]:
    return build(builder)


@pytest.mark.parametrize("temperature", ["cold", "warm"])
@pytest.mark.parametrize("mode", [ONCE, FROM_THERE], ids=["once", "from there on"])
@pytest.mark.parametrize("kinds", [ALLOCATIONS, CALLS], ids=["allocations", "calls"])
@pytest.mark.parametrize("backend", LIBRARIES)
def test_a_failing_call_is_an_error_and_the_next_life_works(
    programs, backend, kinds, mode, temperature
) -> None:
    step = 149 if kinds == ALLOCATIONS else 5
    first = random.Random(f"{backend} {kinds} {mode} {temperature}").randint(1, step)
    done = campaign(*programs, backend, kinds, mode, first, step, temperature=temperature)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert "points, 0 tried" not in done.stdout


def every(step: int) -> Iterator[bool]:
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Builder(Path(folder)))
        for backend in LIBRARIES:
            for kinds in (ALLOCATIONS, CALLS):
                for mode in (ONCE, FROM_THERE, TWICE):
                    for temperature in ("cold", "warm"):
                        done = campaign(
                            *programs, backend, kinds, mode, 1, step, temperature=temperature
                        )
                        lines = [s for s in done.stderr.split("\n") if s.startswith("point")]
                        print(done.stdout, *lines, sep="\n", end="", flush=True)
                        yield done.returncode == 0


if __name__ == "__main__":
    sys.exit(not all([*every(int(sys.argv[1]) if len(sys.argv) > 1 else 1)]))
