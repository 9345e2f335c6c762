"""net-run: memory, options, profiles, logs, a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.cli import _parser
from qnnrt.cli._tools import verdict
from qnnrt.profile_log import ProfileLogContents
from support.net_run import TOTAL, net_run
from support.tool_cases import (
    PYTHON_MODEL,
    Capture,
    call,
    complaint,
    listed,
    numbers,
    onnx_model,
    python_model,
    raw,
    report,
    results,
)

pytestmark = pytest.mark.usefixtures("inputs_here")

# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [[], ["--synchronous"], ["--asynchronous"]])
@pytest.mark.parametrize("kind", [None, "ion", "dma_buf", "shared_buffer"])
def test_results_do_not_depend_on_how_memory_is_bound(
    kind: str | None, way: list[str], model: Path, tmp_path: Path, capsys: Capture
) -> None:
    random = np.random.default_rng(3)
    pairs = [random.standard_normal((2, 4)).astype(np.float32) for _ in range(13)]
    for n, (a, b) in enumerate(pairs):
        raw(tmp_path / f"a{n}.raw", a)
        raw(tmp_path / f"b{n}.raw", b)
    given = listed(tmp_path / "l", *(f"a{n}.raw b{n}.raw" for n in range(len(pairs))))
    option = [] if kind is None else [f"--io_tensor_mem_handle_type={kind}"]
    found = report(capsys, *net_run(model, "--input_list", given, *option, *way, backend="htp"))
    for n, (a, b) in enumerate(pairs):
        total = numbers(tmp_path / f"output/Result_{n}/total.raw")
        np.testing.assert_array_equal(total, a + 2 * b)
    (graph,) = found["graphs"]
    assert graph["copied_bytes_per_execution"] == (0 if kind else 4 * 4 * 4)
    assert {(c["tensor"], c["direction"]) for c in graph["copies"]} == (
        set() if kind else {("a", "in"), ("in/b", "in"), ("total", "out"), ("positive", "out")}
    )


def test_a_backend_without_handles_says_so(model: Path, tmp_path: Path, capsys: Capture) -> None:
    from qnnrt.errors import make_error

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise make_error(8005, "mem", "memRegister", "", "not here")

    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), "--shared_buffer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qnnrt.qnn.Context, "register", refuse)
        error = complaint(capsys, *run)
    assert "takes no memory handles of type shared_buffer" in error


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--use_native_input_files", "--native_input_tensor_names", "sum:a"], "not allowed with"),
        (["--input_data_type", "float", "--use_native_input_files"], "contradicts"),
        (["--use_native_output_files", "--output_data_type", "float_only"], "contradicts"),
        (["--native_input_tensor_names", "sum:zzz"], "graph sum has no input 'zzz'"),
        (["--native_input_tensor_names", "other:a"], "no graph 'other'; there are sum"),
        (["--native_input_tensor_names", "sum:"], "expected GRAPH:TENSOR[,TENSOR...]"),
        (["--set_output_tensors", "sum:zzz"], "has no tensor 'zzz' that a node produces"),
        (["--set_output_tensors", "zzz:a"], "--set_output_tensors: no graph 'zzz'"),
        (["--debug", "--set_output_tensors", "sum:twice"], "leave --set_output_tensors out"),
        (["--num_inferences", "0"], "'0' is not a whole number of at least 1"),
        (["--num_inferences", "2", "--duration", "1"], "give one of them"),
        (["--duration", "-1"], "'-1' is not a number of seconds"),
        (["--duration", "nan"], "'nan' is not a number of seconds"),
        (["--keep_num_outputs", "-1"], "'-1' is not a whole number"),
        (["--synchronous", "--asynchronous"], "not allowed with"),
        (
            ["--max_input_cache_tensor_sets", "1", "--max_input_cache_size_mb", "1"],
            "not allowed with",
        ),
        (["--shared_buffer", "--io_tensor_mem_handle_type", "ion"], "contradict each other"),
        (["--device_options", "device_id:1"], "there is one device, number 0"),
        (["--device_options", "speed:9"], "expected device_id:N or core_id:N"),
        (["--profiling_option", "optrace"], "needs --profiling_level detailed"),
        (["--profiling_level", "much"], "invalid choice: 'much'"),
        (["--op_packages", "lib.so"], "'lib.so': expected PATH:PROVIDER[:TARGET]"),
        (["--op_packages", "lib.so:Provider"], "lib.so"),
        (["--platform_options", "no_such_key:1"], "no_such_key"),
        (["--dlc_path", "m.dlc"], "--dlc_path is not supported"),
        (["--binary_updates", "u.bin"], "--binary_updates is not supported"),
        (["--retrieve_context", "c.bin"], "not allowed with argument"),
        (["--num_inf", "3"], "unrecognized arguments: --num_inf"),
        (["--save_context_binary", "x"], "unrecognized arguments: --save_context_binary"),
        (["--asynchronous"], "has no asynchronous execution"),
        (["--input_list", "missing.txt"], "missing.txt: no such input list"),
        (["--config_file", "missing.json"], "missing.json: no such file"),
        (["--backend", "libNothing.so"], "libNothing.so"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(
    option: list[str], words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = listed(tmp_path / "l", "a.raw b.raw")
    error = complaint(capsys, *net_run(model, "--input_list", given, *option))
    assert words in error
    assert results(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.onnx", "no such file"),
        ("libmodel.so", "cannot load the model library"),
        ("libmodel.so,libmodel.so", "the library is there already"),
        ("model.cpp", "C++ is compiled into a model library first"),
        ("m.dlc", "the vendor's own format"),
        ("m.bin", "a context binary goes to --retrieve_context"),
        ("bad.onnx", "bad.onnx"),
        ("notes.txt", "notes.txt"),
        ("sum.onnx,sub/sum.onnx", "there is a graph 'sum' already"),
        ("syntax.py", "syntax.py"),
        ("nothing.py", "has no function compose(graph)"),
        ("raises.py", "raises.py:3: compose() failed: ZeroDivisionError: division by zero"),
        ("empty.py", "the graph has no output"),
    ],
)
def test_a_model_that_cannot_be_used_is_named(
    name: str, words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    for other in ("libmodel.so", "m.dlc", "m.bin", "bad.onnx", "notes.txt"):
        (tmp_path / other).write_bytes(b"this is no model \xff")
    (tmp_path / "sub").mkdir()
    onnx_model(tmp_path / "sub")
    python_model(tmp_path, "syntax", "def compose(:\n")
    python_model(tmp_path, "nothing", "x = 1\n")
    python_model(tmp_path, "raises", "\ndef compose(graph):\n    1 / 0\n")
    python_model(tmp_path, "empty", "def compose(graph):\n    pass\n")
    run = ["net-run", "--model", name, "--backend", "cpu", "--input_list"]
    assert words in complaint(capsys, *run, listed(tmp_path / "l", "a.raw b.raw"))


def test_a_python_model_may_import_what_lies_beside_it(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "width_of_it.py").write_text("WIDTH = 8\n")
    text = (
        "import width_of_it, numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (1, width_of_it.WIDTH), np.float32, type="app_write")\n'
        '    y = graph.add_tensor("y", (1, width_of_it.WIDTH), np.float32, type="app_read")\n'
        '    graph.add_node("relu", "Relu", [x], [y])\n'
    )
    raw(tmp_path / "x.raw", np.arange(8))
    path = list(sys.path)
    run = net_run(python_model(folder, "2 b", text))
    found = report(capsys, *run, "--input_list", listed(tmp_path / "l", "x.raw"))
    assert found["graphs"][0]["name"] == "_2_b"
    assert sys.path == path


def test_harmless_options_are_accepted_with_a_warning(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"))
    options = ["--direct_mode", "--perf_profile", "burst"]
    options += ["--validate_binary", "--use_mmap", "--device_options", "device_id:0;core_id:0"]
    assert call(*run, *options) == 0
    warnings = capsys.readouterr().err.splitlines()
    assert all(line.startswith("qnnrt net-run: warning: ") for line in warnings)
    for name in ("--direct_mode", "burst", "--validate_binary", "--use_mmap"):
        assert sum(name in line for line in warnings) == 1, (name, warnings)
    assert len(warnings) == 4


TOOLS = ("context-binary-generator", "context-binary-utility", "net-run", "profile-viewer")
TOOLS += ("platform-validator", "throughput-net-run")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_version_is_printed(tool: str, capsys: Capture) -> None:
    assert call(tool, "--version") == 0
    assert capsys.readouterr().out == f"qnnrt {qnnrt.__version__}\n"


def tools(names: set[str]) -> list[tuple[str, str, str]]:
    """(command, option, verdict) for every option of some commands."""
    (commands,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return [
        (name, option, verdict(action))
        for name in names
        for action in commands.choices[name]._actions
        for option in action.option_strings
        if option not in ("-h", "--help") and action.help != argparse.SUPPRESS
    ]


def test_the_tables_of_options_are_those_of_the_parsers() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/tools.md").read_text(encoding="utf-8")
    listed_there = []
    for section in re.split(r"^## qnnrt ", text, flags=re.MULTILINE)[1:]:
        command = section.split("\n", 1)[0]
        rows = re.findall(r"^\| `(--\w+)` \| ([a-z ]+) \|", section, re.MULTILINE)
        listed_there += [(command, option, word) for option, word in rows]
    described = {command for command, _, _ in listed_there}
    assert described >= set(TOOLS)
    assert sorted(listed_there) == sorted(tools(described))


# ---- profiles, logs, a process of its own --------------------------------------------------------


@pytest.mark.parametrize("level", ["basic", "detailed", "client", "backend"])
@pytest.mark.parametrize("way", [[], ["--asynchronous"]])
def test_profiles_hold_every_call(
    level: str, way: list[str], model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = listed(tmp_path / "l", *["a.raw b.raw"] * 3)
    run = net_run(model, "--input_list", given, "--profiling_level", level, *way, backend="htp")
    report(capsys, *run)
    log = ProfileLogContents.read(tmp_path / "output/qnn-profiling-data_0.log")
    assert log.complete
    assert log.app == "qnnrt net-run"
    execute = "execute_async" if way else "execute"
    assert [m.method_name for m in log.messages] == ["compose_graphs", "finalize", *[execute] * 3]
    assert all(m.graph == "sum" for m in log.messages)
    assert all(m.stop_us >= m.start_us > 0 for m in log.messages)
    measured = [bool(m.events) for m in log.messages if m.method_name == execute]
    assert measured == [level != "client"] * 3


def test_the_log_of_copies_goes_to_stderr_at_its_level(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), backend="htp")
    assert call(*run) == 0
    out, err = capsys.readouterr()
    assert "64 bytes copied per execution" in out
    assert err.count("prepared raw, executed raw") == 4
    assert call(*run, "--log_level", "error") == 0
    assert capsys.readouterr().err == ""


def test_platform_options_reach_the_backend(model: Path, tmp_path: Path) -> None:
    """In a process of its own: a budget is the process's."""
    listed(tmp_path / "l", "a.raw b.raw")
    run = net_run(model, "--input_list", "l", "--platform_options", "domain_bytes:100")
    command = [sys.executable, "-m", "qnnrt", *map(str, run[:-1]), "domain_bytes:100"]
    command[command.index("cpu")] = "htp"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "8003" in done.stderr
    assert "of its 100 bytes are in use" in done.stderr


def test_a_vote_for_power_is_taken_where_there_are_votes(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), backend="htp")
    found = report(capsys, *run, "--perf_profile", "burst", "--profiling_level", "detailed")
    assert found["warnings"] == []


def test_the_loader_finds_a_library_as_scripts_name_it(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    listed(tmp_path / "l", "a.raw b.raw")
    run = net_run(model, "--input_list", "l", backend="libQnnCpu.so")
    folder = Path(qnnrt.__file__).parent / "lib"
    command = [sys.executable, "-m", "qnnrt", *map(str, run)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])
    error = complaint(capsys, *net_run(model, "--input_list", "l", backend="libQnnNone.so"))
    assert "libQnnNone.so" in error
    assert "`qnnrt lib-dir` prints that of this package's libraries" in error


def test_a_process_of_its_own(model: Path, tmp_path: Path) -> None:
    listed(tmp_path / "l", "a.raw b.raw")
    command = [sys.executable, "-m", "qnnrt", *map(str, net_run(model, "--input_list", "l"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("sum: 1 inference, ")
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])


def test_what_a_library_prints_does_not_spoil_the_json(tmp_path: Path) -> None:
    """As the vendor's simulator does: a line on file descriptor 1, behind Python's back."""
    noisy = "import os\n" + PYTHON_MODEL + '    os.write(1, b"noise\\n")\n'
    python_model(tmp_path, "noisy", noisy)
    raw(tmp_path / "x.raw", np.zeros((2, 8)))
    listed(tmp_path / "l", "x.raw")
    arguments = net_run("noisy.py", "--input_list", "l", "--log_level", "error", "--json")
    command = [sys.executable, "-m", "qnnrt", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inferences_completed"] == 1
    assert done.stderr == "noise\n"
