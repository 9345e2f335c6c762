"""libQnnGpu.so as a C program uses it, on PoCL: graphs, RAW memory, OpenCL buffers, compilers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder
from support.gpu.client import LIBRARY, environment, loader

pytestmark = pytest.mark.foreign  # OpenCL drivers are
INCLUDE = f"-I{Path(qnnrt.__file__).parent / 'include'}"
SOURCE = Path(__file__).with_name("gpu_client.c")
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    return builder.program(SOURCE, *WARNINGS, "-pedantic", "-D_GNU_SOURCE", INCLUDE, "-ldl")


def run(client: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(client), str(LIBRARY), str(loader())],
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_graphs_run_on_raw_memory_and_on_buffers_of_two_contexts(client, tmp_path) -> None:
    done = run(client, tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "needs 32768 bytes, the OpenCL buffer has 32764" in done.stderr
    assert "is no cl_mem" in done.stderr
    assert "another OpenCL context than the memory that is registered" in done.stderr


WORDS = 'import socket; s = socket.socket(fileno=0); s.recv(64); s.send(b"?")'


def bad(how: str) -> str:
    """The command of a compiler that answers wrongly."""
    return f"{sys.executable} {TESTS / 'support/gpu/bad_compiler.py'} {how}"


COMPILERS = {
    "missing": ("/nowhere/compiler", "ended with status 127 without an answer"),
    "silent": ("true", "ended with status 0 without an answer"),
    "killed": ("sh -c 'kill -9 $$'", "was ended by signal 9 without an answer"),
    "slow": ("sleep 600", "did not answer within 1 seconds (QNNRT_GPU_COMPILER_TIMEOUT)"),
    "words": (f"{sys.executable} -c '{WORDS}'", "answered with something else"),
    "magic": (bad("magic"), "answered with something else"),
    "unsealed": (bad("unsealed"), "answered with no sealed memory of the size that it says"),
    "size": (bad("size"), "answered with no sealed memory of the size that it says"),
    "parts": (bad("parts"), "answered with parts that lie outside of its memory"),
    "version": (bad("version"), "it has version 99 of the format, this library reads 1"),
}


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiler_that_is_of_no_use_is_one_clear_error(client, tmp_path, name) -> None:
    command, text = COMPILERS[name]
    limits = {"QNNRT_GPU_COMPILER_TIMEOUT": "1"} if name == "slow" else {}
    done = run(client, tmp_path, QNNRT_GPU_COMPILER=command, **limits)
    assert done.returncode == 1
    assert "expected code 0, got 1010" in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("qnnrt ERROR")]
    assert len(errors) == 1
    assert text in errors[0]
    assert f"the gpu compiler ({command})" in errors[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_answer_is_refused_or_runs(client, tmp_path, seed) -> None:
    """Wrong numbers may come of it, and errors of the driver; never a crash."""
    done = run(client, tmp_path, QNNRT_GPU_COMPILER=bad(f"changed:{seed}"))
    assert done.returncode in (0, 1), done.stderr


OPEN = """
import sys
from qnnrt import errors, qnn
try:
    qnn.Backend.open(sys.argv[1]).close()
except errors.BackendError as e:
    print(e.code, e)
"""


def opened(folder: Path, **variables: str) -> str:
    """What opening the backend says, in a process without pyopencl."""
    return subprocess.run(
        [sys.executable, "-c", OPEN, str(LIBRARY)],
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_a_device_is_there_without_pyopencl(tmp_path) -> None:
    assert opened(tmp_path) == ""


def test_a_missing_driver_is_named_with_its_file(tmp_path) -> None:
    folder = tmp_path / "vendors"
    folder.mkdir()
    # pyopencl's loader looks for drivers in the wheel, too.
    (tmp_path / ".libs").mkdir()
    places = {"OCL_ICD_VENDORS": str(folder), "PYOPENCL_HOME": str(tmp_path)}
    said = opened(tmp_path, **places)
    assert said.startswith("1010 ")
    assert f"{folder} has no .icd file" in said
    (folder / "gone.icd").write_text("libgone.so.1\n")
    said = opened(tmp_path, **places)
    assert "gone.icd names 'libgone.so.1', which does not load" in said


def test_a_missing_loader_and_one_that_is_none_are_named(tmp_path) -> None:
    said = opened(tmp_path, QNNRT_OPENCL_LIBRARY="/nowhere/libOpenCL.so.1")
    assert "there is no OpenCL loader (QNNRT_OPENCL_LIBRARY: /nowhere/libOpenCL.so.1" in said
    said = opened(tmp_path, QNNRT_OPENCL_LIBRARY=str(LIBRARY))
    assert "is no OpenCL 1.2 loader: it has no clEnqueueNDRangeKernel" in said


def test_a_device_that_there_is_not_is_answered_with_those_that_there_are(tmp_path) -> None:
    said = opened(tmp_path, QNNRT_GPU_DEVICE="geforce 256")
    assert "no OpenCL device has 'geforce 256' (QNNRT_GPU_DEVICE) in its name; there are" in said
