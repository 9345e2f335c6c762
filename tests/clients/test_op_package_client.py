"""A C program and an op package in C++, with no Python in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder

PACKAGE = Path(qnnrt.__file__).parent
HERE = Path(__file__).parent
STRICT = [*WARNINGS, "-pedantic", f"-I{PACKAGE / 'include'}"]


def run(client: Path, *arguments: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(client), *map(str, arguments)],
        env={**os.environ, "QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib"))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("backend", ["Cpu", "Htp"])
def test_a_package_is_registered_run_saved_loaded_and_terminated(
    builder: Builder, backend: str
) -> None:
    client = builder.program(HERE / "op_package_client.c", *STRICT, "-ldl", "-lm")
    package = builder.library(HERE / "op_package.cc", *WARNINGS, name="libTestOps.so")
    library = PACKAGE / "lib" / f"libQnn{backend}.so"
    assert run(client, library, package) == (0, "ok\n", "")


@pytest.mark.parametrize("backend", ["Cpu", "Htp"])
def test_a_package_that_calls_its_own_context_is_refused(builder: Builder, backend: str) -> None:
    client = builder.program(HERE / "op_reentry_client.c", *STRICT, "-ldl")
    assert run(client, PACKAGE / "lib" / f"libQnn{backend}.so") == (0, "ok\n", "")
