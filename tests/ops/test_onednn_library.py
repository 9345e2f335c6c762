"""oneDNN's library: found, told when it is not, loaded when it is needed, on our pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ops.test_onednn import CASES, run

from qnnrt import _core
from support.outside import printed, run_code

pytestmark = pytest.mark.skipif(
    not _core.kernel_library().startswith("oneDNN"),
    reason="oneDNN is not installed: pip install onednn-cpu-gomp",
)

PROBE = """
import sys, numpy as np, qnnrt
from ops import test_onednn as t
case = next(c for c in t.CASES if c.name == "3x3")
output, kernels = t.run(case.model(), "auto", 1)
np.save(sys.argv[1], output)
print(qnnrt._core.kernel_library())
print(*kernels.values())
"""


def probe(out: Path, **env: str) -> tuple[str, str]:
    """(kernel library, kernel of the 3x3 convolution) in a fresh process."""
    library, kernel = printed(PROBE, str(out), **env).splitlines()
    return library, kernel


SMALL = """
from pathlib import Path
import numpy as np, qnnrt
from support import one_node
a, b = np.zeros((64, 128), np.float32), np.ones((128, 96), np.float32)
matmul = {"transpose_in0": False, "transpose_in1": False}
x, w = np.zeros((1, 400, 64), np.float32), np.ones((3, 64, 64), np.float32)
conv = {"stride": 1, "pad_amount": np.array([1, 1], np.uint32)}
for model in (
    one_node.case("MatMul", [a, b], [(64, 96)], matmul, static=(1,)).model,
    one_node.case("Conv1d", [x, w], [(1, 400, 64)], conv, static=(1,)).model,
):
    with qnnrt.Session(model, threads=2) as session:
        session.run()
    print("libdnnl" in Path("/proc/self/maps").read_text())
"""


def test_a_network_that_does_without_the_library_does_not_load_it() -> None:
    assert printed(SMALL).split() == ["False", "False"]


@pytest.mark.parametrize("value", ["none", "/nonexistent/libdnnl.so.3"])
def test_everything_runs_without_the_library(tmp_path: Path, value: str) -> None:
    library, kernel = probe(tmp_path / "out.npy", QNNRT_ONEDNN=value)
    assert library.startswith("portable")
    assert not kernel.startswith("onednn")
    case = next(c for c in CASES if c.name == "3x3")
    expected, _ = run(case.model(), "auto", 1)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-4, atol=1e-4)


LOUD = (
    """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.INFO)
"""
    + PROBE
)


@pytest.mark.parametrize("name", ["no such file", "no library", "another library"])
def test_a_path_that_cannot_be_loaded_is_told_with_the_loaders_words(
    tmp_path: Path, name: str
) -> None:
    path, words = tmp_path / "none.so", "No such file"
    if name == "no library":
        path, words = tmp_path / "text.so", "file too short"
        path.write_text("text")
    elif name == "another library":
        path = next(p for p in map(Path, loaded_libraries()) if "libc.so" in p.name)
        words = "has no function dnnl_"
    done = run_code(LOUD, str(tmp_path / "out.npy"), QNNRT_ONEDNN=str(path))
    told = f"QNNRT_ONEDNN={path}: "
    for stream, count in ((done.stderr, 1), (done.stdout, 1)):
        lines = [line for line in stream.splitlines() if told in line]
        assert len(lines) == count, stream
        assert words in lines[0]
        assert "ignored, the portable kernels are used" in lines[0]
    assert done.returncode == 0


TWICE = LOUD + "t.run(case.model(), 'auto', 1)\n"


def kernels_without_the_systems(printed: str) -> str:
    """What PROBE printed of the kernels."""
    lines = printed.splitlines()
    found = next(line for line in lines if line.startswith(("oneDNN", "portable")))
    if found.startswith("oneDNN"):
        pytest.skip(f"the system has a library of its own: {found}")
    return found


def test_a_library_of_the_environment_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    path = tmp_path / "libdnnl.so.3"
    path.write_text("text")
    done = run_code(TWICE, str(tmp_path / "out.npy"), QNNRT_PACKAGE_LIBS=str(tmp_path))
    library = kernels_without_the_systems(done.stdout)
    assert f"{path}: file too short" in library
    # Each graph's log says it, and stderr, once, to who has no log; what is absent neither does.
    told = f"{path}: file too short: ignored, the portable kernels are used"
    assert done.stderr.count(told) == 1
    assert done.stdout.count(told) == 2


def test_that_there_is_no_library_is_logged_once(tmp_path: Path) -> None:
    done = run_code(TWICE, str(tmp_path / "out.npy"), QNNRT_PACKAGE_LIBS=str(tmp_path))
    library = kernels_without_the_systems(done.stdout)
    path = tmp_path / "libdnnl.so.3"
    assert f"{path}: cannot open shared object file: No such file" in library
    logged = [line for line in done.stdout.splitlines() if "no oneDNN was found" in line]
    assert len(logged) == 1
    assert logged[0].startswith("INFO")
    assert str(path) in logged[0]
    assert done.stderr == ""


def test_nothing_is_said_of_a_library_that_was_switched_off(tmp_path: Path) -> None:
    done = run_code(LOUD, str(tmp_path / "out.npy"), QNNRT_ONEDNN="none")
    assert "ignored" not in done.stdout + done.stderr
    assert "no oneDNN" not in done.stdout + done.stderr


def test_a_library_that_is_no_onednn_is_refused(tmp_path: Path) -> None:
    other = next(p for p in map(Path, loaded_libraries()) if "libc.so" in p.name)
    library, kernel = probe(tmp_path / "out.npy", QNNRT_ONEDNN=str(other))
    assert library.startswith("portable")
    assert not kernel.startswith("onednn")


def loaded_libraries() -> set[str]:
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {fields[5] for line in maps if len(fields := line.split()) > 5}


POOL = """
import ctypes, os, sys
if sys.argv[1] != "":
    ctypes.CDLL(sys.argv[1])
import numpy as np, qnnrt
from ops import test_onednn as t
before = len(os.listdir("/proc/self/task"))
case = next(c for c in t.CASES if c.name == "3x3")
output, kernels = t.run(case.model(), "auto", 4)
np.save(sys.argv[2], output)
assert all(k.startswith("onednn") for k in kernels.values()), kernels
print(qnnrt._core.kernel_library().partition(" (")[2], len(os.listdir("/proc/self/task")) - before)
"""


def test_kernels_run_on_the_pool_and_start_no_threads_of_their_own(tmp_path: Path) -> None:
    """The library was compiled for OpenMP: its parallel regions run on our workers."""
    threads, started = printed(POOL, "", str(tmp_path / "out.npy")).split()
    assert (threads, started) == ("qnnrt)", "3")


def test_a_library_that_others_use_already_keeps_its_own_threads(tmp_path: Path) -> None:
    """Somebody may be inside a parallel region of it just then."""
    case = next(c for c in CASES if c.name == "3x3")
    expected, _ = run(case.model(), "auto", 4)
    path = next(p for p in loaded_libraries() if "libdnnl.so" in p)
    threads, _ = printed(POOL, path, str(tmp_path / "out.npy")).split()
    assert threads == "gomp)"
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-5, atol=1e-5)
