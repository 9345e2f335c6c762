"""A C program on the installed headers and libraries, with no Python in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder

PACKAGE = Path(qnnrt.__file__).parent
SOURCE = Path(__file__).with_name("c_client.c")


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    include = f"-I{PACKAGE / 'include'}"
    return builder.program(SOURCE, *WARNINGS, "-pedantic", include, "-ldl", "-lm")


def run(client: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    libraries = [str(PACKAGE / "lib" / name) for name in ("libQnnCpu.so", "libcdsprpc.so")]
    return subprocess.run(
        [str(client), *libraries],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("kernels", ["fast", "portable"])
@pytest.mark.parametrize("heap", ["", "memfd"])
def test_c_program_builds_and_runs_a_graph_over_shared_memory(client, kernels, heap) -> None:
    environment = {"QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib"))}
    if kernels == "portable":
        environment["QNNRT_ONEDNN"] = "none"
    if heap:
        environment["QNNRT_HEAP"] = heap
    done = run(client, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
