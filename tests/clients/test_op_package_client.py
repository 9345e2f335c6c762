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


@pytest.mark.parametrize("backend", ["Cpu", "Htp"])
def test_a_package_is_registered_run_saved_loaded_and_terminated(
    builder: Builder, backend: str
) -> None:
    include = f"-I{PACKAGE / 'include'}"
    client = builder.program(
        HERE / "op_package_client.c", *WARNINGS, "-pedantic", include, "-ldl", "-lm"
    )
    package = builder.library(HERE / "op_package.cc", *WARNINGS, name="libTestOps.so")
    library = PACKAGE / "lib" / f"libQnn{backend}.so"
    done = subprocess.run(
        [str(client), str(library), str(package)],
        env={**os.environ, "QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib"))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
