"""Context binaries load where kernels are of another kind: from their constants, which these
kernels pack, or by moving what others have packed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from support.binaries import dense, prepared
from support.outside import printed, run_code
from support.portable import NETWORKS, Results, run

KEEP, DROP = ({"keep_constants": kept} for kept in (True, False))
#: What makes the kernels of a process others than this one's.
LESS = {"QNNRT_ISA": "base", "ONEDNN_MAX_CPU_ISA": "SSE41"}
ELSEWHERE = {
    "without oneDNN": {"QNNRT_ONEDNN": "none"},
    "fewer instructions": LESS,
    "neither": {"QNNRT_ONEDNN": "none", "QNNRT_ISA": "base"},
}


def there(key: tuple[str, str], path: Path, environment: dict[str, str]) -> dict[str, Results]:
    """What the binary gives with other kernels ("loaded"), and the network itself ("built")."""
    code = (
        "import sys; from support.portable import *; run_there(*sys.argv[1:3], Path(sys.argv[3]))"
    )
    printed(code, *key, str(path), **environment)
    results = {}
    for name in ("loaded", "built"):
        with np.load(path.parent / f"{name}.npz") as arrays:
            results[name] = dict(arrays)
    return results


def assert_close(results: Results, expected: Results) -> None:
    assert results.keys() == expected.keys()
    for name, array in results.items():
        steps = array.dtype.kind != "f"
        np.testing.assert_allclose(
            array.astype(np.float64), expected[name], rtol=0 if steps else 1e-3,
            atol=1 if steps else 1e-4,
        )  # fmt: skip


@pytest.mark.parametrize("key", NETWORKS, ids=" ".join)
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_binary_with_its_constants_loads_with_other_kernels(
    key: tuple[str, str], elsewhere: str, tmp_path: Path
) -> None:
    """And one of theirs here: as what is prepared on the spot, to the last bit."""
    path, again = tmp_path / "net.bin", tmp_path / "again.bin"
    expected = run(NETWORKS[key](), key[0], path)
    np.testing.assert_equal(run(path, key[0], again), expected)
    assert again.read_bytes() == path.read_bytes()  # with its constants, too
    results = there(key, path, ELSEWHERE[elsewhere])
    np.testing.assert_equal(results["loaded"], results["built"])
    assert_close(results["loaded"], expected)
    for name in ("loaded", "built"):
        np.testing.assert_equal(run(tmp_path / f"{name}.bin", key[0]), expected)


@pytest.mark.parametrize("key", NETWORKS, ids=" ".join)
def test_such_a_binary_is_at_most_twice_as_large(key: tuple[str, str]) -> None:
    plain, kept = (prepared(NETWORKS[key](), key[0], options=o) for o in (DROP, KEEP))
    assert prepared(NETWORKS[key](), key[0]) == plain
    assert len(plain) <= len(kept) <= 2.2 * len(plain) + 8192


# A graph of a client that says nothing of constants, and takes 1.6 MB of them: a size that is
# packed without padding for every set of instructions.
SIZE = """
import numpy as np
from qnnrt import qnn
with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
    graph = context.create_graph("dense")
    w = np.ones((640, 640), np.float32)
    x = graph.add_tensor("x", (4, 640), np.float32, type="app_write")
    y = graph.add_tensor("y", (4, 640), np.float32, type="app_read")
    w = graph.add_tensor("w", w.shape, w.dtype, type="static", data=w)
    graph.add_node("dense", "FullyConnected", [x, w], [y])
    graph.finalize()
    print(len(context.binary()) // 10**6)
"""


def test_the_environment_says_up_to_which_size_constants_are_kept() -> None:
    for limit, size in {"1": "1", "2": "3", "0": "1", "": "3"}.items():
        assert printed(SIZE, QNNRT_KEEP_CONSTANTS_MIB=limit) == f"{size}\n"
    for wrong in ("many", "-1", "1.5", "9999999999"):
        ran = run_code(SIZE, QNNRT_KEEP_CONSTANTS_MIB=wrong)
        assert re.search(rf"6000.*QNNRT_KEEP_CONSTANTS_MIB.*whole number.*'{wrong}'", ran.stderr)


def test_what_is_asked_for_goes_before_the_environment() -> None:
    code = """
    from support.binaries import dense, prepared
    for kept in (True, False):
        print(len(prepared(dense("dense", 640), options={"keep_constants": kept})) // 10**6)
    """
    for limit in ("0", "100"):
        assert printed(code, QNNRT_KEEP_CONSTANTS_MIB=limit) == "3\n1\n"


@pytest.mark.parametrize(
    "key", [("htp", "mobilenet_v2"), ("cpu", "dense"), ("cpu", "windows")], ids=" ".join
)
def test_packed_floats_are_moved_where_constants_are_not_there(
    key: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(prepared(NETWORKS[key](), key[0], options=DROP))
    expected = run(path, key[0])
    results = there(key, path, LESS)
    np.testing.assert_equal(results["loaded"], results["built"])
    np.testing.assert_equal(run(tmp_path / "loaded.bin", key[0]), expected)


@pytest.mark.parametrize("kept", [True, False])
def test_altered_weights_are_found_though_they_were_packed_anew_or_moved(
    kept: bool, tmp_path: Path
) -> None:
    data = bytearray(prepared(dense("dense", 128), options={"keep_constants": kept}))
    data[-1000] ^= 1
    path = tmp_path / "net.bin"
    path.write_bytes(data)
    code = (
        "import sys, qnnrt\n"
        "try:\n"
        "    with qnnrt.Session(sys.argv[1], 'htp') as s: s.run()\n"
        "except qnnrt.QnnError as e: print(e.code)\n"
    )
    for environment in ELSEWHERE.values() if kept else [LESS]:
        assert printed(code, str(path), **environment) == "5005\n"


def test_the_generator_writes_one_where_it_is_asked_to(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np\n"
        "def compose(graph):\n"
        "    w = np.ones((64, 128), np.float32)\n"
        "    x = graph.add_tensor('x', (4, 128), np.float32, type='app_write')\n"
        "    w = graph.add_tensor('w', w.shape, np.float32, type='static', data=w)\n"
        "    y = graph.add_tensor('y', (4, 64), np.float32, type='app_read')\n"
        "    graph.add_node('dense', 'FullyConnected', [x, w], [y])\n"
    )
    command = ["context-binary-generator", "--model", str(model), "--backend", "htp"]
    command += ["--output_dir", str(tmp_path), "--binary_file"]
    code = "import sys; from qnnrt.cli import main; sys.exit(main(sys.argv[1:]))"
    for more in (["plain"], ["kept", "--portable"]):
        printed(code, *command, *more, QNNRT_KEEP_CONSTANTS_MIB="0")
    plain, kept = (tmp_path / f"{name}.bin" for name in ("plain", "kept"))
    assert kept.stat().st_size > plain.stat().st_size
    expected = run(kept, "htp")
    code = "import sys; from support.portable import *; run(Path(sys.argv[1]), 'htp')"
    for environment in ELSEWHERE.values():
        printed(code, str(kept), **environment)
    np.testing.assert_equal(run(plain, "htp"), expected)


def test_a_session_on_a_binary_cannot_ask_for_constants(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(prepared(dense()))
    with pytest.raises(ValueError, match="were chosen when"):
        qnnrt.Session(path, "htp", options=KEEP)
