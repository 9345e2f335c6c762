"""Context binaries that keep their constants load where kernels of another kind pack them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.cli import main
from qnnrt.model import Model
from support.binaries import MODELS, dense, prepared
from support.outside import printed

KEEP = {"keep_constants": True}
NETWORKS: dict[str, Callable[[], Model]] = MODELS | {"dense": lambda: dense("dense", 128)}
#: What makes the kernels of a process others than this one's.
ELSEWHERE = {
    "without oneDNN": {"QNNRT_ONEDNN": "none"},
    "another instruction set": {"QNNRT_ISA": "base"},
    "neither": {"QNNRT_ONEDNN": "none", "QNNRT_ISA": "base"},
}
#: Runs a binary on inputs that its names and shapes say, and saves it again.
CODE = """
import sys, numpy as np, qnnrt
path, out, again = sys.argv[1:]
with qnnrt.Session(path, "htp") as s:
    rng = np.random.default_rng(1)
    feeds = {n: rng.standard_normal(t.shape, np.float32) for n, t in s.inputs.items()}
    np.savez(out, **s.run(feeds))
    s.save_binary(again)
"""


def run(path: Path, **environment: str) -> tuple[dict[str, np.ndarray], bytes]:
    out, again = path.with_suffix(".npz"), path.with_suffix(".again")
    printed(CODE, str(path), str(out), str(again), **environment)
    with np.load(out) as results:
        return dict(results), again.read_bytes()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_binary_with_its_constants_loads_with_other_kernels(name: str, tmp_path: Path) -> None:
    data = prepared(NETWORKS[name](), options=KEEP)
    path = tmp_path / "net.bin"
    path.write_bytes(data)
    here, again = run(path)
    assert again == data  # with its constants, too
    for environment in ELSEWHERE.values():
        there, elsewhere = run(path, **environment)
        for output, expected in here.items():
            np.testing.assert_allclose(there[output], expected, rtol=1e-3, atol=1e-4)
        # What was packed there is as one that was prepared there, and comes back.
        path_back = tmp_path / "back.bin"
        path_back.write_bytes(elsewhere)
        back, _ = run(path_back)
        for output, expected in here.items():
            np.testing.assert_allclose(back[output], expected, rtol=1e-3, atol=1e-4)


def test_such_a_binary_is_at_most_twice_as_large(tmp_path: Path) -> None:
    for name, model in NETWORKS.items():
        plain, kept = prepared(model()), prepared(model(), options=KEEP)
        assert len(plain) <= len(kept) <= 2.2 * len(plain) + 8192, name


def test_altered_constants_are_found_though_they_were_packed_anew(tmp_path: Path) -> None:
    data = bytearray(prepared(dense("dense", 128), options=KEEP))
    data[-1000] ^= 1
    path = tmp_path / "net.bin"
    path.write_bytes(data)
    code = (
        "import sys, qnnrt\n"
        "try:\n"
        "    with qnnrt.Session(sys.argv[1], 'htp') as s: s.run()\n"
        "except qnnrt.QnnError as e: print(e.code)\n"
    )
    for environment in ELSEWHERE.values():
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
    assert main([*command, "plain"]) == 0
    assert main([*command, "kept", "--portable"]) == 0
    plain, kept = (tmp_path / f"{name}.bin" for name in ("plain", "kept"))
    assert kept.stat().st_size > plain.stat().st_size
    here, _ = run(kept)
    for environment in ELSEWHERE.values():
        there, _ = run(kept, **environment)
        np.testing.assert_allclose(there["y"], here["y"], rtol=1e-4, atol=1e-4)


def test_a_session_on_a_binary_cannot_ask_for_constants(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(prepared(dense()))
    with pytest.raises(ValueError, match="were chosen when"):
        qnnrt.Session(path, "htp", options=KEEP)
