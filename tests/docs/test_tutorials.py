"""The QNN tutorials: the page is up to date, every program and every command of it runs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import qnnrt
import tutorials
from qnnrt.cli.paths import INCLUDE_DIR, LIB_DIR
from support.building import ROOT, WARNINGS, Builder
from support.gpu import client as gpu_client
from support.lpai_models import codes, keyword, quantized_conv
from support.model_source import library
from support.tool_cases import call, listed, numbers, raw
from support.toy import conv_model

EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs/tutorials.md").read_text()
DATA = json.loads((EXAMPLES / "tutorials.json").read_text())
PARTS = tutorials.all_parts()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^qnn-.*$", PAGE, re.MULTILINE)


def test_the_page_is_what_its_tool_writes() -> None:
    assert tutorials.page(PAGE, DATA) == PAGE, "run python tools/tutorials.py"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.names[0])
def test_every_changed_line_of_a_piece_is_told(part: tutorials.Part) -> None:
    """What was printed is put together from program and changes, each of which has a reason."""
    for name in part.names:
        hunks = DATA[name]["hunks"]
        assert tutorials.checksum(tutorials.as_printed(part, hunks)) == DATA[name]["sha256"]
        assert all(change.why for change in tutorials.changes(part, hunks)), name


def test_no_piece_is_left_over() -> None:
    assert sorted(DATA) == sorted(name for part in PARTS for name in part.names)
    # GPU, HTP, the five pieces of both LPAI texts and the two of one, TFLite's steps and example.
    assert len(DATA) == 1 + 1 + 2 * 5 + 2 + 5


def test_a_change_that_is_not_told_does_not_pass() -> None:
    part = next(p for p in PARTS if p.names[0] == "lpai-memory-management 2")
    other = [line.replace("SCRATCH", "PERSISTENT") for line in part.lines]
    assert tutorials.checksum(other) != DATA[part.names[0]]["sha256"]


# ---- the programs


def program(builder: Builder, name: str, *flags: str | Path) -> Path:
    include = f"-I{INCLUDE_DIR / 'qnnrt'}"
    return builder.program(EXAMPLES / f"{name}.cc", *WARNINGS, include, *flags, "-ldl")


def run(*command: object) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        env=os.environ | {"LD_LIBRARY_PATH": str(LIB_DIR)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.c*")), ids=lambda path: path.stem)
def test_the_commands_in_a_programs_head_stand_on_a_line_each(path: Path) -> None:
    head = re.findall(r"^(?://| \*)   (\S.*)$", path.read_text(), re.MULTILINE)
    build, start = (shlex.split(line) for line in (head[0], head[-1]))
    assert build[0] in ("cc", "c++")
    assert path.name in build
    made = build[build.index("-o") + 1]
    (place,) = (i for i, word in enumerate(start) if word == f"./{made}")
    assert all(word.startswith("LD_LIBRARY_PATH=") for word in start[:place])


def test_the_htp_tutorial(builder: Builder) -> None:
    wanted = "y = " + " ".join(f"{max(0, i - 8)}" for i in range(16)) + "\n"
    assert run(program(builder, "tutorial_htp_qmem")) == wanted


def lpai_feeds(session: qnnrt.Session, number: int) -> dict[str, np.ndarray]:
    """What the LPAI program writes into inputs in a run."""
    feeds = {}
    for name, t in session.inputs.items():
        pattern = (np.arange(t.nbytes) * 37 + number).astype(np.uint8)
        if t.dtype == np.bool_:
            pattern[...] = number == 0
        feeds[name] = pattern.view(t.dtype).reshape(t.shape)
    return feeds


@pytest.mark.parametrize("model", [quantized_conv, keyword])
def test_the_lpai_tutorials(builder: Builder, tmp_path: Path, model) -> None:
    wanted = []
    with qnnrt.Session(model(), "lpai") as session:
        session.save_binary(tmp_path / "model.bin")
        for number in range(2):
            for name, array in session.run(lpai_feeds(session, number)).items():
                wanted.append(f"{name} = " + " ".join(map(str, array.ravel().view(np.uint8))))
    out = run(program(builder, "tutorial_lpai_memory"), tmp_path / "model.bin").splitlines()
    assert re.fullmatch(r"scratch [1-9]\d* bytes, persistent \d+ bytes", out[0])
    assert out[1:] == wanted


def tflite(builder: Builder, *flags: str | Path) -> Path:
    """The TFLite program with declarations of our own for Google's library."""
    headers = [f"-I{ROOT / 'tests/clients/tflite_cc'}"]
    ours = [f"-L{LIB_DIR}", "-lQnnTFLiteDelegate", f"-Wl,-rpath,{LIB_DIR}"]
    return program(builder, "tutorial_tflite", *headers, *ours, *flags)


def test_the_tflite_tutorial_compiles(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    made = tflite(builder, "-c")
    symbols = subprocess.run(["nm", "-uC", made], capture_output=True, text=True, check=True).stdout
    assert "tflite::impl::Interpreter::SetCustomAllocationForTensor" in symbols
    assert "TfLiteQnnDelegateAllocCustomMem" in symbols


def gpu(builder: Builder, *flags: str | Path) -> Path:
    """The GPU program with declarations of our own for Khronos' header."""
    return program(builder, "tutorial_gpu_qnnmem", f"-I{ROOT / 'tests/clients/opencl_cc'}", *flags)


@pytest.mark.foreign
def test_the_gpu_tutorial_on_pocl(builder: Builder, tmp_path: Path) -> None:
    loader = gpu_client.loader()
    made = gpu(builder, loader, f"-Wl,-rpath,{loader.parent}")
    environment = gpu_client.environment(tmp_path, LD_LIBRARY_PATH=str(LIB_DIR))
    done = subprocess.run(
        [made], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "y = 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6 7\n"


@pytest.mark.parametrize(
    "name",
    ["tutorial_gpu_qnnmem", "tutorial_htp_qmem", "tutorial_lpai_memory", "tutorial_tflite"],
)
def test_clang_takes_the_programs_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    if clang is None:
        pytest.skip("clang is not installed")
    monkeypatch.setenv("CXX", clang)
    builder = Builder(tmp_path)
    if name == "tutorial_gpu_qnnmem":
        assert gpu(builder, "-c", "-Wno-unused-command-line-argument").is_file()
    elif name == "tutorial_tflite":
        assert tflite(builder, "-c", "-Wno-unused-command-line-argument").is_file()
    else:
        assert program(builder, name).is_file()


def tensorflow() -> Path:
    """The folder of libtensorflow_cc.so.2."""
    if given := os.environ.get("TENSORFLOW_CPU_FOLDER"):
        return Path(given) / "tensorflow"
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("the package tensorflow-cpu is not installed")
    return Path(spec.origin).parent


@pytest.mark.foreign
def test_the_tflite_tutorial_on_googles_own_runtime(builder: Builder, tmp_path: Path) -> None:
    folder = tensorflow()
    libraries = [folder / f"libtensorflow_{name}.so.2" for name in ("cc", "framework")]
    client = tflite(
        builder, *libraries, f"-Wl,-rpath,{folder}", "-Wl,--allow-shlib-undefined"
    )  # fmt: skip
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    from support.tflite import models

    (tmp_path / "toy.tflite").write_bytes(models.toy())
    ends = models.ends(litert.Interpreter(str(tmp_path / "toy.tflite")))
    done = subprocess.run(
        [client, tmp_path / "toy.tflite", str(ends[0]), "128", str(ends[1]), "128"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    x = np.arange(32, dtype=np.float32) / 8
    np.testing.assert_array_equal(list(map(float, done.stdout.split())), models.expected(x))
    for line in (
        "TfLiteQnnDelegate delegate: 3 nodes delegated out of 3 nodes with 1 partitions.",
        f"Tensor {ends[0]} is successfully registered to shared memory.",
        f"Tensor {ends[1]} is successfully registered to shared memory.",
        f"shared tensors: {ends[0]}, {ends[1]}; copied tensors: none (0 bytes).",
    ):
        assert line in done.stderr


# ---- Python, and the commands


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_python_of_the_page_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with qnnrt.Session(quantized_conv(), "lpai") as session:
        session.save_binary(tmp_path / "model.bin")
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[number], "docs/tutorials.md", "exec"), {})
    assert capsys.readouterr().out


def command(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of the page, with this package's libraries where the loader finds them."""
    name, *arguments = shlex.split(text)
    swapped = [str(LIB_DIR / a) if a.startswith("libQnn") else a for a in arguments]
    assert call(name.removeprefix("qnn-"), *swapped) == 0


def test_there_are_two_commands() -> None:
    assert [text.split()[0] for text in COMMANDS] == [
        "qnn-context-binary-generator",
        "qnn-net-run",
    ]


def test_offline_prepare_as_the_text_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(library(tmp_path, [conv_model()], name="model"), tmp_path / "libqnn_model.so")
    monkeypatch.chdir(tmp_path)
    command(COMMANDS[0], monkeypatch)
    made = qnnrt.load(tmp_path / "output/qnngraph.serialized.bin")
    graph = made.graph()
    assert {t.mem_type for t in (*graph.inputs, *graph.outputs)} == {"memhandle"}
    with qnnrt.Session(made, "htp", strict=True) as session:
        session.run()
        assert session.stats.copied_bytes == session.stats.reserved_bytes == 0


def test_tcm_as_the_text_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = codes((1, 8, 8, 4))
    with qnnrt.Session(quantized_conv(), "lpai") as session:
        session.save_binary(tmp_path / "model.bin")
        wanted = session.run({"x": x})["y"]
    monkeypatch.chdir(tmp_path)
    conf = {"lpai_graph": {"execute": {"mem_type": "tcm"}}}
    (tmp_path / "eaiParams_direct.conf").write_text(json.dumps(conf))
    extensions = {
        "shared_library_path": "libQnnLpaiNetRunExtensions.so",
        "config_file_path": "eaiParams_direct.conf",
    }
    both = {"backend_extensions": extensions, "context_configs": {"is_persistent_binary": True}}
    (tmp_path / "eaiParams_direct.json").write_text(json.dumps(both))
    raw(tmp_path / "x.raw", x, np.uint8)
    listed(tmp_path / "input_list.txt", "x.raw")
    command(f"{COMMANDS[1]} --use_native_input_files --output_data_type native_only", monkeypatch)
    found = numbers(tmp_path / "output/Result_0/y_native.raw", np.uint8)
    np.testing.assert_array_equal(found, wanted.ravel())
