"""Every example runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qnnrt import gpu
from qnnrt.cli.paths import INCLUDE_DIR, LIB_DIR
from support.building import WARNINGS, Builder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


SCRIPTS = sorted(p.name for p in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize(
    "script",
    # OpenCL drivers are foreign.
    [pytest.param(n, marks=pytest.mark.foreign) if n.startswith("gpu_") else n for n in SCRIPTS],
)
def test_an_example_runs_as_it_stands(script: str, tmp_path: Path) -> None:
    if script.startswith("gpu_"):
        pytest.importorskip("pyopencl", reason="pyopencl is not installed")
        if reason := gpu.why_not():
            pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, EXAMPLES / script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"
    assert not done.stderr


@pytest.mark.parametrize(
    ("library", "provider"),
    [("libQnnCpu.so", "CPU_QTI_AISW"), ("libQnnHtp.so", "HTP_QTI_AISW")],
)
def test_a_c_program_runs_on_the_installed_headers_and_libraries(
    builder: Builder, library: str, provider: str
) -> None:
    program = builder.program(EXAMPLES / "embed.c", *WARNINGS, f"-I{INCLUDE_DIR}", "-ldl")
    done = subprocess.run(
        [program, library],
        env=os.environ | {"LD_LIBRARY_PATH": str(LIB_DIR)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("y =")]
    expected = [[max(0, i - 2 * k) for i in range(8)] for k in range(3)]
    assert rows == ["y = " + " ".join(map(str, row)) for row in expected]
    assert done.stdout.startswith(f"{provider}, core API 2.")
