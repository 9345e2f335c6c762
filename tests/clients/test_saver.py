"""libQnnSaver.so records calls as a program that makes them again, with any backend."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.cli.paths import INCLUDE_DIR, LIB_DIR
from support import saver_networks
from support.building import WARNINGS, Builder
from support.tool_cases import listed, numbers, python_model, raw
from support.vendor import vendor_library

QNN = INCLUDE_DIR / "qnnrt/QNN"
SAVER = LIB_DIR / "libQnnSaver.so"
SCRIPT = Path(saver_networks.__file__)
LANGUAGES = {"c": ("gcc", "-std=c11"), "c++": ("g++", "-x", "c++", "-std=c++17")}


def run(*command: str | Path, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(Path(qnnrt.__file__).parents[1])}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(program: Path, language: str, folder: Path) -> Path:
    replay = folder / f"replay_{language}"
    flags = [*LANGUAGES[language], *WARNINGS, "-pedantic", f"-I{QNN}"]
    run(*flags, program, "-o", replay, "-ldl", cwd=folder)
    return replay


@pytest.mark.parametrize("name", saver_networks.NETWORKS)
def test_the_program_builds_the_same_graph_and_gives_the_same_results(
    name: str, tmp_path: Path
) -> None:
    run(sys.executable, SCRIPT, name, SAVER, tmp_path, cwd=tmp_path)
    recorded = tmp_path / "saver_output"
    assert {p.name for p in recorded.iterdir()} == {"saver_output.c", "params.bin"}
    replays = [build(recorded / "saver_output.c", language, tmp_path) for language in LANGUAGES]
    for library in ("libQnnCpu.so", "libQnnHtp.so"):
        ours, direct = (tmp_path / f"{library}.{kind}" for kind in ("replayed", "direct"))
        direct.mkdir()
        run(sys.executable, SCRIPT, name, LIB_DIR / library, direct, cwd=tmp_path)
        expected = {p.name: p.read_bytes() for p in direct.iterdir()}
        # The same graphs give the same bytes of a context binary.
        assert "context_0.bin" in expected
        for replay in replays:
            ours.mkdir(exist_ok=True)
            run(replay, LIB_DIR / library, recorded / "params.bin", ours, cwd=tmp_path)
            assert {p.name: p.read_bytes() for p in ours.iterdir()} == expected


def test_what_the_tool_runs_on_it_computes_on_a_backend(tmp_path: Path) -> None:
    x = raw(tmp_path / "x.raw", np.linspace(-1, 1, 16))
    model = python_model(
        tmp_path,
        "net",
        "import numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (2, 8), np.float32, type="app_write")\n'
        "    rows = np.arange(24, dtype=np.float32).reshape(3, 8)\n"
        '    w = graph.add_tensor("w", (8, 3), np.float32, type="static", data=rows.T)\n'
        '    y = graph.add_tensor("y", (2, 3), np.float32, type="app_read")\n'
        '    graph.add_node("product", "MatMul", [x, w], [y])\n',
    )
    tool = [sys.executable, "-m", "qnnrt", "net-run", "--model", model, "--json"]
    tool += ["--input_list", listed(tmp_path / "list.txt", str(x)), "--backend"]
    said = json.loads(run(*tool, SAVER, cwd=tmp_path))
    assert "copied_bytes" not in said["graphs"][0]  # it copies nothing and computes nothing
    run(*tool, LIB_DIR / "libQnnHtp.so", cwd=tmp_path)
    replay = build(tmp_path / "saver_output/saver_output.c", "c", tmp_path)
    results = tmp_path / "made by the program"
    weights = tmp_path / "saver_output/params.bin"
    run(replay, LIB_DIR / "libQnnHtp.so", weights, results, cwd=tmp_path)
    assert {p.name for p in results.iterdir()} == {"net_0_y.raw"}
    expected = numbers(tmp_path / "output/Result_0/y.raw")
    np.testing.assert_array_equal(numbers(results / "net_0_y.raw"), expected)


def test_a_graph_that_a_backend_refuses_ends_the_program_with_its_reason(tmp_path: Path) -> None:
    run(sys.executable, SCRIPT, "floats", SAVER, tmp_path, cwd=tmp_path)
    replay = build(tmp_path / "saver_output/saver_output.c", "c", tmp_path)
    lpai = [replay, LIB_DIR / "libQnnLpai.so", tmp_path / "saver_output/params.bin"]
    done = subprocess.run(lpai, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"graph(AddNode|Finalize): error \d+: .*(float|FLOAT).*", last), last
    (tmp_path / "saver_output/params.bin").write_bytes(b"short")
    done = subprocess.run(lpai, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("\nthe weights: are too short\n")


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    source = Path(__file__).with_name("saver_client.c")
    return builder.program(source, *WARNINGS, "-pedantic", f"-I{QNN}", "-ldl")


def test_the_program_is_whole_after_every_call(client: Path, tmp_path: Path) -> None:
    said = run(client, SAVER, cwd=tmp_path).splitlines()
    assert "out 9" in said  # nothing is computed
    assert said[-1] == "initialize 4951"
    folder = tmp_path / "chosen"
    text = (folder / "saver_output.c").read_text()
    assert text.endswith("  return 0;\n}\n")
    assert text.count("return 0;\n}\n") == 1
    build(folder / "saver_output.c", "c", tmp_path)


def test_a_tensor_without_dimensions_is_refused(builder: Builder, tmp_path: Path) -> None:
    source = Path(__file__).with_name("saver_bad_tensors.c")
    program = builder.program(source, *WARNINGS, "-pedantic", f"-I{INCLUDE_DIR}", "-ldl")
    assert run(program, SAVER, cwd=tmp_path).splitlines()[-1] == "ok"


@pytest.mark.foreign
def test_each_kind_of_call_is_answered_as_the_vendors_library_does(
    client: Path, tmp_path: Path
) -> None:
    answers = []
    for name, library in (("ours", SAVER), ("theirs", vendor_library("libQnnSaver.so"))):
        (tmp_path / name).mkdir()
        answers.append(run(client, library, cwd=tmp_path / name).splitlines())
    assert answers[0] == answers[1]
    assert len(answers[0]) > 45


CONFIGURE = """
import ctypes, sys

class Files(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("data", ctypes.c_char_p)]

class Value(ctypes.Union):
    _fields_ = [("text", ctypes.c_char_p), ("flag", ctypes.c_uint8), ("files", Files)]

class Config(ctypes.Structure):
    _fields_ = [("option", ctypes.c_uint32), ("value", Value)]

def initialize(saver, *configs):
    list_ = (ctypes.POINTER(Config) * (len(configs) + 1))(*map(ctypes.pointer, configs))
    return saver.QnnSaver_initialize(list_)

saver = ctypes.CDLL(sys.argv[1])
files, footer, bad, empty = Config(3), Config(5), Config(99), Config(0)
files.value.files = Files(b"model.c", b"model.bin")
footer.value.flag = 0
empty.value.text = b""
print(initialize(saver, bad), initialize(saver, empty), initialize(saver, files, footer))


"""


def test_files_have_the_names_and_parts_that_were_asked_for(tmp_path: Path) -> None:
    code = CONFIGURE + f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='none')"
    code += f"['main']('floats', {str(SAVER)!r}, '.')"
    assert run(sys.executable, "-c", code, SAVER, cwd=tmp_path) == "1004 1004 0\n"
    folder = tmp_path / "saver_output"
    assert {p.name for p in folder.iterdir()} == {"model.c", "model.bin"}
    text = (folder / "model.c").read_text()
    assert '"model.bin"' in text
    assert "return 0;\n}\n" not in text[text.index("int main") :]
