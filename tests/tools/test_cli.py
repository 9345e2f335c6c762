"""The command line: what it prints, what it writes, and how it says no."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.cli import info, main
from qnnrt.cli._common import seconds, size
from qnnrt.cli._network import mobilenet_v2
from qnnrt.cli.run import write_outputs

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = a + 2 * b on [2, 3], z = relu(y)."""
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
        for name in ("a", "in/b", "y", "z")
    }
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["in/b", "two"], ["twice"]),
            helper.make_node("Add", ["a", "twice"], ["y"]),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        "cli",
        [values["a"], values["in/b"]],
        [values["y"], values["z"]],
        [two],
    )
    path = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def complaint(capsys: Capture, *arguments: object) -> str:
    """The one line on stderr of a command that ends with status 2 and prints nothing else."""
    try:
        status = main([str(a) for a in arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    out, err = capsys.readouterr()
    assert status == 2, (status, out, err)
    assert out == ""
    assert err.count("\n") == 1, err
    return err


def run_json(capsys: Capture, *arguments: object) -> dict:
    assert main([*(str(a) for a in arguments), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


# ---- run -----------------------------------------------------------------------------------------


def test_run_computes_on_the_files_given(model: Path, tmp_path: Path, capsys: Capture) -> None:
    a = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    b = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    b.tofile(tmp_path / "b.raw")
    inputs = ["--input", f"a={tmp_path}/a.npy", "--input", f"in/b={tmp_path}/b.raw"]
    out_dir = tmp_path / "out" / "deep"
    report = run_json(capsys, "run", model, *inputs, "--output-dir", out_dir)
    assert list(report["outputs"]) == ["y", "z"]
    np.testing.assert_array_equal(np.load(out_dir / "y.npy"), a + 2 * b)
    np.testing.assert_array_equal(np.load(out_dir / "z.npy"), np.maximum(a + 2 * b, 0))
    assert report["outputs"]["y"]["file"] == str(out_dir / "y.npy")
    assert report["outputs"]["z"]["max"] == float((a + 2 * b).max())
    assert report["stats"]["executes"] == 1
    assert report["stats"]["copied_bytes"] == 0


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_run_repeats_as_often_as_asked_without_copies(
    model: Path, io: str, capsys: Capture
) -> None:
    report = run_json(capsys, "run", model, "--iterations", 7, "--io", io, "--strict")
    assert report["stats"]["executes"] == 7
    assert report["run"]["calls"] == 7
    assert report["stats"]["copied_bytes"] == 0


def test_random_inputs_depend_on_the_seed_alone(model: Path, tmp_path: Path) -> None:
    outputs = []
    for folder, seed in (("one", 5), ("two", 5), ("three", 6)):
        assert (
            main(["run", str(model), "--seed", str(seed), "--output-dir", f"{tmp_path}/{folder}"])
            == 0
        )
        outputs.append(np.load(tmp_path / folder / "y.npy"))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_run_says_what_it_saw(model: Path, capsys: Capture) -> None:
    assert main(["run", str(model), "--iterations", "3"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("y: float32[2, 3] min ")
    assert out[1].startswith("z: float32[2, 3] min ")
    assert out[2].startswith("3 runs: ")
    assert out[2].endswith("0 bytes copied")


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")
    ]
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "open", values[:1], values[1:])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.mark.parametrize("shape", ["batch=5", "x=5,3"])
def test_sizes_that_the_model_leaves_open_are_given(
    shape: str, open_model: Path, capsys: Capture
) -> None:
    assert "batch" in complaint(capsys, "run", open_model)
    report = run_json(capsys, "run", open_model, "--shape", shape)
    assert report["outputs"]["y"]["shape"] == [5, 3]


@pytest.mark.parametrize(
    "shapes", [["batch=5,1"], ["batch=5", "batch=1"], ["x=5,3", "x=1,3"]], ids=str
)
def test_several_shapes_are_run_one_after_another(
    shapes: list[str], open_model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = [part for shape in shapes for part in ("--shape", shape)]
    report = run_json(capsys, "run", open_model, *given, "--output-dir", tmp_path / "out")
    assert [one["shape"] for one in report["shapes"]] == ["batch=5", "batch=1"]
    for one, rows in zip(report["shapes"], (5, 1), strict=True):
        assert one["outputs"]["y"]["shape"] == [rows, 3]
        assert np.load(tmp_path / "out" / f"open_batch_{rows}" / "y.npy").shape == (rows, 3)
    assert main(["run", str(open_model), *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(":")] == ["batch=5:", "batch=1:"]


def test_files_say_which_shape_any_is(open_model: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.npy"
    np.save(path, -np.ones((4, 3), np.float32))
    report = run_json(capsys, "run", open_model, "--shape", "any", "--input", f"x={path}")
    (one,) = report["shapes"]
    assert one["shape"] == "batch=4"
    assert one["outputs"]["y"]["max"] == 0
    assert "does not say which shape" in complaint(capsys, "run", open_model, "--shape", "any")
    assert "or --shape any for" in complaint(capsys, "run", open_model, "--input", f"x={path}")
    (tmp_path / "x.raw").write_bytes(bytes(12))
    raw = ("run", open_model, "--shape", "any", "--input", f"x={tmp_path / 'x.raw'}")
    assert "only a .npy file says" in complaint(capsys, *raw)
    assert "one shape is run at a time" in complaint(
        capsys, "inspect", open_model, "--shape", "batch=1,2"
    )


def test_outputs_whose_names_meet_in_one_file_name_are_all_kept(tmp_path: Path) -> None:
    arrays = {name: np.full(2, i) for i, name in enumerate(("a/b", "a_b", "a:b", "../up"))}
    files = write_outputs(arrays, tmp_path)
    assert len(set(files.values())) == 4
    for name, path in files.items():
        assert Path(path).parent == tmp_path
        np.testing.assert_array_equal(np.load(path), arrays[name])


# ---- what it refuses -----------------------------------------------------------------------------


def test_a_missing_model_is_named(capsys: Capture, tmp_path: Path) -> None:
    assert "no.onnx: no such file" in complaint(capsys, "run", tmp_path / "no.onnx")
    assert "no.onnx: no such file" in complaint(capsys, "bench", tmp_path / "no.onnx")
    assert f"{tmp_path}: is a folder" in complaint(capsys, "run", tmp_path)


def test_a_file_that_is_no_model_is_named(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"this is not a protobuf message \xff\xff\xff")
    assert "bad.onnx" in complaint(capsys, "run", tmp_path / "bad.onnx")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--input", "c=x.npy"], "expected NAME=FILE with NAME one of: a, in/b"),
        (["--input", "x.npy"], "expected NAME=FILE"),
        (["--input", "a=missing.npy"], "missing.npy: no such file"),
        (["--input", "a=x.txt"], "expected a .npy or .raw file"),
        (["--input", "a=short.raw"], "20 bytes, but a takes 24 (float32[2, 3])"),
        (["--input", "a=wrong.npy"], "float64[2, 3], but a takes float32[2, 3]"),
        (["--input", "a=flat.npy"], "float32[6], but a takes float32[2, 3]"),
        (["--input", "a=pickle.npy"], "pickle.npy: not a .npy file of numbers"),
        (["--input", "a=good.npy", "--input", "a=good.npy"], "a was given twice"),
        (["--shape", "batch"], "--shape batch: expected NAME=N or NAME=N,N,..."),
        (["--shape", "a=2,x"], "--shape a=2,x: expected NAME=N or NAME=N,N,..."),
        (["--input", "a="], "--input a=: expected NAME=FILE"),
        (["--seed", "-1"], "'-1' is not a whole number of at least 0"),
        (["--iterations", "0"], "'0' is not a whole number of at least 1"),
        (["--threads", "many"], "'many' is not a whole number of at least 1"),
        (["--threads", "4294967296"], "'4294967296' is more than 32 bits hold"),
        (["--io", "magic"], "invalid choice: 'magic'"),
        (["--backend", "libNothing.so"], "libNothing.so"),
        (["--no-such-option"], "run: error: unrecognized arguments: --no-such-option"),
        (["--no-such-option"], "(see qnnrt run --help)"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(
    option: list[str],
    words: str,
    model: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("1 2 3")
    Path("short.raw").write_bytes(bytes(20))
    np.save("good.npy", np.zeros((2, 3), np.float32))
    np.save("wrong.npy", np.zeros((2, 3)))
    np.save("flat.npy", np.zeros(6, np.float32))
    np.save("pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert words in complaint(capsys, "run", model, *option)


def test_no_command_and_an_unknown_one_are_refused(capsys: Capture) -> None:
    assert "COMMAND" in complaint(capsys)
    assert "frobnicate" in complaint(capsys, "frobnicate")


def test_an_output_folder_that_cannot_be_made_is_named(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "out", file / "out" / "below"):
        assert f"{file} is a file: results go to a folder" in complaint(
            capsys, "run", model, "--output-dir", path
        )
    assert "/dev/null is no folder" in complaint(capsys, "run", model, "--output-dir", "/dev/null")


# ---- bench, info, demo, paths --------------------------------------------------------------------


def other_precisions(model: Path) -> list[str]:
    """What the commands compare float32 with on this processor."""
    with qnnrt.Session(model, precision="fastest") as s:
        return [p for p in [s.precision] if p and p != "float32"]


def test_commands_say_what_another_precision_would_bring(model: Path, capsys: Capture) -> None:
    report = run_json(capsys, "run", model)
    assert list(report["other"]) == other_precisions(model)
    assert all(o["ratio"] > 0 and 0 < o["error"] < 2**-7 for o in report["other"].values())
    assert run_json(capsys, "run", model, "--precision", "bfloat16")["other"] == {}
    assert main(["run", str(model)]) == 0
    out = capsys.readouterr().out
    assert [f"--precision {p} would take" in out for p in other_precisions(model)] in ([], [True])


@pytest.mark.foreign
def test_bench_compares_the_ways_of_one_run(model: Path, capsys: Capture) -> None:
    report = run_json(capsys, "bench", model, "--iterations", 5, "--threads", 1)
    ways = ["zero-copy", "copying", "onnxruntime"]
    assert list(report["ways"]) == ways + other_precisions(model)
    assert report["copied_bytes"] == 0
    assert report["ways"]["zero-copy"]["ratio"] == 1
    for way in report["ways"].values():
        assert way["calls"] == 5
        assert 0 < way["p10_s"] <= way["median_s"] <= way["p90_s"]
    assert main(["bench", str(model), "--iterations", "2"]) == 0
    out = capsys.readouterr().out
    assert "copied on the zero-copy way: 0 bytes" in out


@pytest.mark.foreign
def test_bench_goes_on_where_the_other_runtime_does_not_take_the_file(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    onnx = pytest.importorskip("onnx")
    proto = onnx.load(model)
    proto.ir_version = onnx.IR_VERSION + 100
    newer = tmp_path / "newer.onnx"
    onnx.save(proto, newer)
    report = run_json(capsys, "bench", newer, "--iterations", 2, "--threads", 1)
    assert list(report["ways"])[:2] == ["zero-copy", "copying"]
    assert "IR version" in report["left_out"]["onnxruntime"]
    assert main(["bench", str(newer), "--iterations", "2"]) == 0
    said = "onnxruntime is not in the comparison: it does not run this file: "
    assert said in capsys.readouterr().out


def test_bench_reports_each_shape(open_model: Path, capsys: Capture) -> None:
    given = ("--iterations", 2, "--threads", 1, "--shape", "batch=4", "--shape", "batch=2")
    report = run_json(capsys, "bench", open_model, *given)
    assert [one["shape"] for one in report["shapes"]] == ["batch=4", "batch=2"]
    for one, rows in zip(report["shapes"], (4, 2), strict=True):
        assert one["input_bytes"] == rows * 12
        assert one["copied_bytes"] == 0
        assert list(one["ways"])[:3] == ["zero-copy", "copying", "onnxruntime"]
    assert main(["bench", str(open_model), *map(str, given)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.endswith(":")] == ["batch=4:", "batch=2:"]


@pytest.mark.other_fds  # the first look at an OpenCL driver opens its devices
def test_info_names_heaps_kernels_and_backends(capsys: Capture) -> None:
    report = run_json(capsys, "info")
    assert report["version"] == qnnrt.__version__
    heaps = {heap["name"]: heap for heap in report["heaps"]}
    assert heaps["memfd"]["available"]
    assert sum(heap["default"] for heap in heaps.values()) == 1
    assert all(heap["reason"] for heap in heaps.values())
    assert report["backends"]["cpu"]["available"]
    assert report["kernels"]
    assert report["threads"] >= 1
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for word in ("heaps", "memfd", "kernels", "backends", "cpu"):
        assert word in out


def test_info_advises_by_what_the_loader_said() -> None:
    assert info.kernel_advice("oneDNN 3.2.0 (qnnrt)") is None
    said = {
        "cannot open shared object file": "install",
        "cannot allocate memory in static TLS block": "LD_PRELOAD=libgomp.so.1",
    }
    for words, advice in said.items():
        assert advice in (info.kernel_advice(f"portable (libdnnl.so.3: {words})") or "")


def test_the_demo_copies_nothing_and_agrees_with_the_copying_way(capsys: Capture) -> None:
    report = run_json(capsys, "demo")
    assert report["copied_bytes"] == 0
    assert report["same_results"]
    assert [n["executes"] > 10 for n in report["networks"]] == [True, True]


def test_the_demo_network_is_the_published_one() -> None:
    model = mobilenet_v2()
    model.check()
    weights = sum(t.data.size for t in model.tensors.values() if t.data is not None)
    # 3.50 million parameters with batch normalisation folded into weights and biases.
    assert weights == 3_487_816
    kinds = [node.type for node in model.nodes]
    assert kinds.count("DepthWiseConv2d") == 17
    assert kinds.count("Conv2d") == 35
    assert kinds.count("ElementWiseAdd") == 10


@pytest.mark.parametrize(
    ("command", "inside"),
    [
        ("lib-dir", "libQnnCpu.so"),
        ("include-dir", "qnnrt/qnn.h"),
        ("cmake-dir", "qnnrtConfig.cmake"),
        ("pkgconfig-dir", "qnnrt.pc"),
    ],
)
def test_paths_lead_to_the_files(command: str, inside: str, capsys: Capture) -> None:
    assert main([command]) == 0
    assert (Path(capsys.readouterr().out.strip()) / inside).is_file()


# ---- terminal and pipes --------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_and_only_there(model: Path) -> None:
    command = [sys.executable, "-m", "qnnrt", "run", str(model), "--iterations", "50"]
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "running: 0 of 50" in shown
    assert shown.endswith("\r\x1b[K")


def test_a_reader_that_leaves_is_no_error(model: Path) -> None:
    command = f"{sys.executable} -m qnnrt run --help | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_full_disk_behind_stdout_is_one_line(option: list[str]) -> None:
    command = [sys.executable, "-m", "qnnrt", "info", *option]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "qnnrt info: error: [Errno 28] No space left on device\n"


def test_durations_and_sizes_have_units() -> None:
    assert [seconds(v) for v in (2.5, 0.0123, 0.0004567, 1.2e-6)] == [
        "2.5 s",
        "12.3 ms",
        "457 us",
        "1.2 us",
    ]
    assert [size(n) for n in (0, 1, 1536, 3 << 20, 5 << 30)] == [
        "0 bytes",
        "1 bytes",
        "1.5 KiB",
        "3 MiB",
        "5 GiB",
    ]
