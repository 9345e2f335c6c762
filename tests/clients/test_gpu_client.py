"""libQnnGpu.so as a C program uses it, on PoCL: graphs, RAW memory, OpenCL buffers, compilers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, errors, qnn
from support.building import WARNINGS, Builder
from support.gpu import client as gpu_client
from support.gpu.cases import compare, joined, on_gpu
from support.gpu.client import LIBRARY, environment, loader
from support.one_node import case, u32
from support.toy import conv_model, relu_model

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
        timeout=1800,
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


SIGCHLD = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes every child at once
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGPIPE])
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_client_that_ignores_and_blocks_signals_is_served(client, tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGCHLD, str(client), str(LIBRARY), str(loader())],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_a_client_without_standard_streams_is_served(client, tmp_path) -> None:
    """Sockets and pipes get the numbers 0 to 2 then."""
    command = f"exec {client} {LIBRARY} {loader()} <&- >&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", command], env=environment(tmp_path), timeout=1800, check=False
    )
    assert done.returncode == 0


def test_the_compiler_is_the_python_that_the_package_is_installed_in(client, tmp_path) -> None:
    """Of <prefix>/lib/python3.N/site-packages it is <prefix>/bin/python3.N."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "prefix/lib" / python / "site-packages"
    shutil.copytree(Path(qnnrt.__file__).parent, site / "qnnrt")
    program = tmp_path / "prefix/bin" / python
    program.parent.mkdir()
    used = tmp_path / "used"
    program.write_text(f'#!/bin/sh\necho "$@" > {used}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [str(client), str(site / "qnnrt/lib/libQnnGpu.so"), str(loader())],
        env=environment(tmp_path, QNNRT_GPU_COMPILER="", PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert used.read_text().split()[-1] == str(site)


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
        timeout=600,
        check=True,
    ).stdout


def test_the_best_device_is_the_bindings(tmp_path) -> None:
    """And a part of its name chooses it."""
    device = gpu_client.device()
    assert opened(tmp_path, QNNRT_GPU_DEVICE=str(device).upper()) == ""
    said = opened(tmp_path, QNNRT_GPU_DEVICE="no such device")
    first = said.split("there are ")[1].strip()
    assert first.startswith(str(device))


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


@pytest.fixture
def library(tmp_path, monkeypatch) -> str:
    """The library for this process, in which pyopencl has a loader already."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    gpu_client.device()
    return str(LIBRARY)


def test_a_session_runs_on_the_library(library, tmp_path) -> None:
    model = conv_model()
    with qnnrt.Session(model, "cpu") as cpu, qnnrt.Session(model, library, io="raw") as session:
        random = np.random.default_rng(41)
        feeds = {n: random.standard_normal(t.shape).astype(t.dtype) for n, t in cpu.inputs.items()}
        wanted = cpu.run(feeds)
        for name, got in session.run(feeds).items():
            np.testing.assert_allclose(got, wanted[name], rtol=1e-5, atol=1e-6)
        session.save_binary(tmp_path / "model.bin")
    with qnnrt.Session(tmp_path / "model.bin", library, io="raw") as session:
        for name, got in session.run(feeds).items():
            np.testing.assert_allclose(got, wanted[name], rtol=1e-5, atol=1e-6)


def test_kernels_that_share_rows_run_on_the_library(library, tmp_path) -> None:
    """What one leaves for the next has memory there, too, and in a context binary."""
    x = np.random.default_rng(3).standard_normal((1, 70_001)).astype(np.float32)
    rows = {"axes": u32(1)}
    whole = joined(
        [
            case("ReduceSum", [x], [(1,)], rows),
            case("Softmax", [x], [x.shape]),
            case("LayerNorm", [x], [x.shape], rows),
            case("Argmax", [x], [(1,)], {"axis": 1}, dtype=np.int32),
            case("CumulativeSum", [x / 64], [x.shape], {"axis": 1}),
        ]
    )
    with qnnrt.Session(whole.model, "cpu") as cpu:
        wanted = cpu.run(whole.feeds)

    assert on_gpu(whole.model, whole.feeds)[1] == 10, "two kernels each"

    def check(session: qnnrt.Session) -> None:
        compare(session.run(whole.feeds), wanted, atol=1e-4)

    with qnnrt.Session(whole.model, library, io="raw") as session:
        check(session)
        session.save_binary(tmp_path / "model.bin")
    with qnnrt.Session(tmp_path / "model.bin", library, io="raw") as session:
        check(session)


def test_a_binary_is_for_the_gpu_backend_alone(library, tmp_path) -> None:
    with qnnrt.Session(relu_model(), library, io="raw") as session:
        session.save_binary(tmp_path / "gpu.bin")
    with qnnrt.Session(relu_model(), "cpu") as session:
        session.save_binary(tmp_path / "cpu.bin")
    with pytest.raises(errors.ModelError, match="was made for the gpu backend"):
        qnnrt.Session(tmp_path / "gpu.bin", "cpu")
    with pytest.raises(errors.ContextError, match="made for the backend with id 3"):
        qnnrt.Session(tmp_path / "cpu.bin", library)
    info = _core.SystemLibrary.open().binary_info((tmp_path / "gpu.bin").read_bytes())
    assert info["backend_id"] == 4
    assert [t["name"] for t in info["graphs"][0]["inputs"]] == ["x"]


def test_a_graph_without_kernels_is_refused_with_its_nodes(library) -> None:
    with qnn.Backend.open(library) as backend, backend.create_context() as context:
        graph = context.create_graph("spectrum")
        x = graph.add_tensor("x", (4, 16), np.float32, type="app_write")
        y = graph.add_tensor("y", (64, 2), np.int32, type="app_read")
        graph.add_node("transform", "NonZero", [x], [y])
        with pytest.raises(errors.GraphError, match="the gpu backend has no such operation") as e:
            graph.finalize()
        assert e.value.code == 6022
        assert "graph 'spectrum'" in str(e.value)
        assert "transform" in str(e.value)
