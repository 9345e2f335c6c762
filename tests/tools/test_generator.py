"""context-binary-generator: what it writes, and net-run on the result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model.binary import ContextBinary
from qnnrt.profile_log import ProfileLogContents
from support.binaries import made_for
from support.generator import generator, mem_types, net_run, outer
from support.tool_cases import (
    EXPECTED,
    Capture,
    X,
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
from support.vendor import vendor_library

pytestmark = pytest.mark.usefixtures("listed_here")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return python_model(tmp_path)


# ---- what it writes ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["htp", "cpu"])
@pytest.mark.parametrize("option", ["raw", "memhandle", None])
def test_a_binary_runs_and_says_how_it_was_prepared(
    option: str | None, backend: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    more = ["--input_output_tensor_mem_type", option] if option else []
    given = generator(model, "--binary_file", "net.serialized", *more, backend=backend)
    found = report(capsys, *given)
    path = tmp_path / "output/net.serialized.bin"
    assert found["binary"] == "output/net.serialized.bin"
    assert found["bytes"] == path.stat().st_size
    assert sorted(p.name for p in path.parent.iterdir()) == ["net.serialized.bin"]
    (graph,) = found["graphs"]
    assert graph["name"] == "m"
    assert [t["mem_type"] for t in (*graph["inputs"], *graph["outputs"])] == [option or "raw"] * 2
    assert mem_types(path) == {"x": option or "raw", "out/y": option or "raw"}
    assert call(*net_run(path, "--input_list", "l", backend=backend)) == 0
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/out_y.raw"), EXPECTED)


def test_what_compose_declares_counts_unless_the_option_is_given(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (2, 8), np.float32, type="app_write", '
        'mem_type="memhandle")\n'
        '    y = graph.add_tensor("out/y", (2, 8), np.float32, type="app_read")\n'
        '    graph.add_node("relu", "Relu", [x], [y])\n'
    )
    model = python_model(tmp_path, "own", text)
    for option, expected in (
        ([], {"x": "memhandle", "out/y": "raw"}),
        (["--input_output_tensor_mem_type", "raw"], {"x": "raw", "out/y": "raw"}),
        (["--input_output_tensor_mem_type=memhandle"], {"x": "memhandle", "out/y": "memhandle"}),
    ):
        assert call(*generator(model, "--binary_file", "b", *option)) == 0
        assert mem_types(tmp_path / "output/b.bin") == expected


def test_several_models_are_graphs_of_one_binary(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = onnx_model(tmp_path, "other-net")
    found = report(capsys, *generator(f"{model},{other}", "--binary_file", "two"))
    assert [g["name"] for g in found["graphs"]] == ["m", "other_net"]
    raw(tmp_path / "a.raw", [1, 2, 3, 4])
    listed(tmp_path / "ab", "a.raw a.raw")
    run = net_run("output/two.bin", "--input_list", "l,ab")
    assert [g["name"] for g in report(capsys, *run)["graphs"]] == ["m", "other_net"]
    assert results(tmp_path / "output") == {
        "m/Result_0": {"out_y.raw"},
        "other_net/Result_0": {"total.raw", "positive.raw"},
    }
    total = numbers(tmp_path / "output/other_net/Result_0/total.raw")
    np.testing.assert_array_equal(total, [3, 6, 9, 12])
    # Two files, three graphs in all.
    assert call(*generator(model, "--binary_file", "one")) == 0
    run = net_run("output/two.bin,output/one.bin", "--input_list", "l,__,l", "--output_dir", "o")
    assert call(*run) == 0
    assert results(tmp_path / "o") == {
        "m/Result_0": {"out_y.raw"},
        "m_2/Result_0": {"out_y.raw"},
    }


@pytest.mark.parametrize(
    "option", [["--enable_intermediate_outputs"], ["--set_output_tensors", "m:h"]]
)
def test_intermediate_tensors_become_outputs(
    option: list[str], model: Path, tmp_path: Path
) -> None:
    assert call(*generator(model, "--binary_file", "b", *option)) == 0
    assert call(*net_run("output/b.bin", "--input_list", "l")) == 0
    assert results(tmp_path / "output") == {"Result_0": {"h.raw", "out_y.raw"}}
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/h.raw"), -EXPECTED)


@pytest.mark.parametrize("more", [[], ["--use_mmap"], ["--validate_binary", "--use_mmap"]])
def test_a_binary_gives_what_the_model_gives(more: list[str], tmp_path: Path) -> None:
    model = onnx_model(tmp_path)
    random = np.random.default_rng(17)
    raw(tmp_path / "a.raw", random.standard_normal(4))
    raw(tmp_path / "b.raw", random.standard_normal(4))
    listed(tmp_path / "ab", "a.raw b.raw")
    assert call(*generator(model, "--binary_file", "b")) == 0
    given = ["--input_list", "ab", "--output_dir"]
    assert call(*net_run("output/b.bin", *given, "offline", *more)) == 0
    assert call("net-run", "--model", model, "--backend", "htp", *given, "online") == 0
    for name in ("total.raw", "positive.raw"):
        offline = (tmp_path / "offline/Result_0" / name).read_bytes()
        assert offline == (tmp_path / "online/Result_0" / name).read_bytes()


def test_weights_are_used_where_the_file_is_mapped_when_asked(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    original = qnnrt.qnn.Context.from_binary.__func__  # type: ignore[attr-defined]

    def from_binary(cls: type, *args: Any, **options: Any) -> Any:
        asked.append(options["persistent_binary"])
        return original(cls, *args, **options)

    monkeypatch.setattr(qnnrt.qnn.Context, "from_binary", classmethod(from_binary))
    assert call(*generator(model, "--binary_file", "b")) == 0
    persistent = outer(tmp_path, context_configs={"is_persistent_binary": True})
    for more in ([], ["--use_mmap"], ["--config_file", persistent]):
        assert call(*net_run("output/b.bin", "--input_list", "l", *more)) == 0
    assert asked == [False, True, True]


def test_without_a_name_nothing_is_written(model: Path, tmp_path: Path, capsys: Capture) -> None:
    found = report(capsys, *generator(model))
    assert found["binary"] is None
    assert any("--binary_file" in line for line in found["warnings"])
    assert list((tmp_path / "output").iterdir()) == []


def test_a_file_that_is_mapped_stays_as_it_was(model: Path, tmp_path: Path) -> None:
    assert call(*generator(model, "--binary_file", "b")) == 0
    path = tmp_path / "output/b.bin"
    with path.open("rb") as file:
        before = file.read()
        umask = os.umask(0)
        os.umask(umask)
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask
        assert call(*generator(onnx_model(tmp_path), "--binary_file", "b")) == 0
        file.seek(0)
        assert file.read() == before
    assert ContextBinary(path).graphs == ("sum",)


def test_profiles_hold_preparing_and_loading(model: Path, tmp_path: Path) -> None:
    more = ["--profiling_level", "detailed"]
    assert call(*generator(model, "--binary_file", "b", *more)) == 0
    log = ProfileLogContents.read(tmp_path / "output/qnn-profiling-data_0.log")
    assert log.app == "qnnrt context-binary-generator"
    names = [m.method_name for m in log.messages]
    assert names == ["compose_graphs", "finalize", "get_binary"]
    assert call(*net_run("output/b.bin", "--input_list", "l", *more)) == 0
    log = ProfileLogContents.read(tmp_path / "output/qnn-profiling-data_0.log")
    assert [m.method_name for m in log.messages] == ["create_from_binary", "execute"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--binary_file", "a/b"], "--binary_file 'a/b': expected a name without a folder"),
        (["--binary_file", "/tmp/b"], "expected a name without a folder"),
        (["--binary_file", ""], "expected a name without a folder"),
        (["--binary_file", ".."], "expected a name without a folder"),
        (["--input_output_tensor_mem_type", "shared"], "invalid choice: 'shared'"),
        (["--set_output_tensors", "m:none"], "graph m has no tensor 'none' that a node produces"),
        (["--set_output_tensors", "n:h"], "no graph 'n'; there are m"),
        (["--enable_intermediate_outputs", "--set_output_tensors", "m:h"], "leave"),
        (["--dlc_path", "m.dlc"], "--dlc_path is not supported"),
        (["--config_file", "none.json"], "none.json: no such file"),
        (["--backend", "libNothing.so"], "libNothing.so"),
        (["--input_list", "l"], "unrecognized arguments: --input_list"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(
    option: list[str], words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert words in complaint(capsys, *generator(model, "--binary_file", "b", *option))
    assert not list(tmp_path.rglob("*.bin"))


def test_socs_have_no_effect(model: Path, tmp_path: Path, capsys: Capture) -> None:
    found = report(capsys, *generator(model, "--binary_file", "b", "--htp_socs", "sm8750"))
    assert ["--htp_socs" in found["warnings"][0], len(found["warnings"])] == [True, 1]
    assert (tmp_path / "output/b.bin").exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: b"not a binary at all", "bad.bin"),
        (lambda data: data[:100], "bad.bin"),
        (lambda data: data[: len(data) // 2], "bad.bin"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "bad.bin"),
    ],
)
def test_a_damaged_binary_is_one_line_and_status_2(
    damage: Any, words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert call(*generator(model, "--binary_file", "b")) == 0
    capsys.readouterr()
    (tmp_path / "bad.bin").write_bytes(damage((tmp_path / "output/b.bin").read_bytes()))
    assert words in complaint(capsys, *net_run("bad.bin", "--input_list", "l"))


def test_a_damaged_weight_is_found_before_anything_is_computed(
    tmp_path: Path, capsys: Capture
) -> None:
    """Wherever the damage is: at validation when asked, else at the first execution."""
    model = onnx_model(tmp_path)
    raw(tmp_path / "a.raw", [1, 2, 3, 4])
    listed(tmp_path / "ab", "a.raw a.raw")
    assert call(*generator(model, "--binary_file", "b")) == 0
    data = (tmp_path / "output/b.bin").read_bytes()
    two = data.rindex(np.float32(2).tobytes())  # the only weight
    damaged = bytearray(data)
    damaged[two + 2] ^= 1
    (tmp_path / "bad.bin").write_bytes(damaged)
    for more in (["--validate_binary"], [], ["--use_mmap"]):
        run = net_run("bad.bin", "--input_list", "ab", "--output_dir", "o", *more)
        assert call(*run) != 0, more
        assert "checksum" in capsys.readouterr().err
        assert results(tmp_path) == {}


def test_a_binary_for_another_backend_is_refused(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert call(*generator(model, "--binary_file", "b", backend="cpu")) == 0
    Path("output/b.bin").write_bytes(made_for(Path("output/b.bin").read_bytes(), 4))
    capsys.readouterr()
    assert call(*net_run("output/b.bin", "--input_list", "l", backend="htp")) in (1, 2)
    assert "backend" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--debug"], ["--set_output_tensors", "m:h"], ["--input_output_tensor_mem_type=raw"]]
)
def test_what_belongs_to_preparing_is_refused_with_a_binary(
    option: list[str], model: Path, capsys: Capture
) -> None:
    assert call(*generator(model, "--binary_file", "b")) == 0
    capsys.readouterr()
    error = complaint(capsys, *net_run("output/b.bin", "--input_list", "l", *option))
    assert "context-binary-generator" in error


# ---- elsewhere -----------------------------------------------------------------------------------


def test_a_process_of_its_own(model: Path, tmp_path: Path) -> None:
    given = generator(model, "--binary_file", "b", "--input_output_tensor_mem_type", "memhandle")
    command = [sys.executable, "-m", "qnnrt", *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "graph m"
    assert lines[1] == "  input   'x' (FLOAT_32[2, 8]), memhandle"
    assert lines[2] == "  output  'out/y' (FLOAT_32[2, 8]), memhandle"
    assert lines[3].startswith("output/b.bin: ")
    with qnnrt.Session(tmp_path / "output/b.bin", backend="htp") as session:
        np.testing.assert_array_equal(session.run({"x": X})["out/y"].ravel(), EXPECTED)


@pytest.mark.foreign
def test_a_tflite_file_is_a_model(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("ai_edge_litert")
    from support.tflite.cases import conv_cases

    data, feeds = next(iter(conv_cases())).build()
    (tmp_path / "conv.tflite").write_bytes(data)
    for n, feed in enumerate(feeds):
        raw(tmp_path / f"feed{n}.raw", feed)
    listed(tmp_path / "feeds", " ".join(f"feed{n}.raw" for n in range(len(feeds))))
    with qnnrt.Session(tmp_path / "conv.tflite", backend="htp") as session:
        expected = session.run(dict(zip(session.inputs, feeds, strict=True)))
    ((name, array),) = expected.items()
    assert call(*generator("conv.tflite", "--binary_file", "conv")) == 0
    assert call(*net_run("output/conv.bin", "--input_list", "feeds")) == 0
    (path,) = (tmp_path / "output/Result_0").iterdir()
    np.testing.assert_array_equal(numbers(path), array.ravel(), name)


@pytest.mark.foreign
def test_the_vendors_simulator_prepares_and_runs_quantized_graphs(
    tmp_path: Path, capsys: Capture
) -> None:
    """Another implementation of the C API, driven by the same tools."""
    library = vendor_library("libQnnHtp.so")
    text = (
        "import numpy as np\n"
        "from qnnrt.model import Quantization\n"
        "def compose(graph):\n"
        "    q = Quantization(0.5, -10)\n"
        '    x = graph.add_tensor("x", (2, 8), np.uint8, type="app_write", quantization=q)\n'
        '    y = graph.add_tensor("y", (2, 8), np.uint8, type="app_read", quantization=q)\n'
        '    graph.add_node("relu", "Relu", [x], [y])\n'
    )
    model = python_model(tmp_path, "q", text)
    more = ["--log_level", "error"]
    given = generator(model, "--binary_file", "vendor", *more, backend=library)
    assert report(capsys, *given)["graphs"][0]["name"] == "q"
    values = np.array([-9, -5, -0.3, 0.2, 0.25, 0.74, 3, 500], np.float32)
    raw(tmp_path / "q.raw", values)
    listed(tmp_path / "lq", "q.raw", "q.raw")
    run = net_run("output/vendor.bin", "--input_list", "lq", *more, backend=library)
    found = report(capsys, *run, "--output_data_type", "float_and_native")
    assert found["graphs"][0]["executions"] == 1
    assert "copied_bytes" not in found["graphs"][0]
    for n in (0, 1):
        native = numbers(tmp_path / f"output/Result_{n}/y_native.raw", np.uint8)
        assert native.tolist() == [10, 10, 10, 10, 11, 11, 16, 255]
        real = numbers(tmp_path / f"output/Result_{n}/y.raw")
        assert real.tolist() == [0, 0, 0, 0, 0.5, 0.5, 3, 122.5]
    # What it has not is said, or does no harm.
    assert call(*run, "--use_mmap") == 0
    capsys.readouterr()
    for option, words in (
        ("--validate_binary", "validates no binaries"),
        ("--shared_buffer", "takes no memory handles of type shared_buffer"),
        ("--asynchronous", "has no asynchronous execution"),
    ):
        assert call(*run, option) == 2
        assert words in capsys.readouterr().err
    error = complaint(capsys, *net_run("output/vendor.bin", "--input_list", "lq"))
    assert "vendor.bin" in error


def test_run_and_bench_take_one_graph_of_several(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    onnx_model(tmp_path)
    report(capsys, *generator(f"{model},sum.onnx", "--binary_file", "two"))
    several = "--graph: output/two.bin has 2 graphs, say which: 'm', 'sum'"
    for command in ("run", "bench"):
        arguments = (command, "output/two.bin", "--backend", "htp")
        assert several in complaint(capsys, *arguments)
        assert "no graph 'q'" in complaint(capsys, *arguments, "--graph", "q")
        report(capsys, *arguments, "--graph", "sum", "--iterations", "1")
        report(capsys, *arguments, "--graph", "m", "--iterations", "1", "--threads", "2")
    for graph, outputs in (("m", {"out/y"}), ("sum", {"total", "positive"})):
        found = report(capsys, "run", "output/two.bin", "--backend", "htp", "--graph", graph)
        assert set(found["outputs"]) == outputs
    assert "--graph: sum.onnx is one graph" in complaint(
        capsys, "run", "sum.onnx", "--graph", "sum"
    )


def test_a_binary_for_another_backend_is_named_with_status_2(model: Path, capsys: Capture) -> None:
    report(capsys, *generator(model, "--binary_file", "b"))
    Path("output/b.bin").write_bytes(made_for(Path("output/b.bin").read_bytes(), 4))
    line = complaint(capsys, *net_run("output/b.bin", "--input_list", "l", backend="cpu"))
    assert "output/b.bin: " in line
    assert "5008" in line


def test_a_damaged_binary_of_ours_is_not_sent_to_another_maker(
    model: Path, capsys: Capture
) -> None:
    report(capsys, *generator(model, "--binary_file", "b"))
    whole = Path("output/b.bin").read_bytes()
    Path("short.bin").write_bytes(whole[:200])
    Path("foreign.bin").write_bytes(b"wood" * 100)
    for command in ("run", "net-run --input_list l --retrieve_context"):
        line = complaint(capsys, *command.split(), "short.bin", "--backend", "htp")
        assert "truncated" in line
        assert "libQnnSystem.so describes" not in line
        assert "--backend" not in line
        line = complaint(capsys, *command.split(), "foreign.bin", "--backend", "htp")
        assert "libQnnSystem.so describes" in line
        assert "commands take it from beside --backend" in line
