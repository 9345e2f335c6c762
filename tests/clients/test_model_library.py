"""Model libraries: compiled from generated C++, composed on our backends and on the vendor's."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import gpu, qnn
from qnnrt.cli import sdk_tool
from qnnrt.model import Model, Node
from qnnrt.qnn.composing import Plan
from support.building import ROOT, Builder
from support.lpai_models import codes, quantized_conv
from support.model_source import library
from support.outside import PATHS, in_child
from support.parallel import SECONDS, running
from support.tool_cases import Capture, call, complaint, listed, numbers, raw, report
from support.toy import add_model, conv_model, relu_model
from support.vendor import vendor_library

LIB = Path(qnnrt.__file__).parent / "lib"
FLOATS = np.random.default_rng(3).standard_normal((1, 8, 8, 8)).astype(np.float32)
CODES = codes((1, 8, 8, 4))


def quantized() -> Model:
    model = quantized_conv()
    model.name = "fixed"
    return model


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graphs "conv", float, whose input is declared memhandle, and "fixed"; both in one library."""
    folder = tmp_path_factory.mktemp("model")
    return library(folder, [conv_model(), quantized()], memhandle=["x"])


def session(path: Path, backend: str = "htp", graph: str = "conv", **more) -> qnnrt.Session:
    return qnnrt.Session(path, backend, options={"graph": graph}, **more)


def expected(model: Model, feeds: dict[str, np.ndarray], backend: str) -> dict[str, np.ndarray]:
    with qnnrt.Session(model, backend) as s:
        return s.run(feeds)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_each_graph_of_a_library_computes_what_the_model_does(two: Path, backend: str) -> None:
    for graph, model, x in (("conv", conv_model(), FLOATS), ("fixed", quantized(), CODES)):
        with session(two, backend, graph) as s:
            s.inputs["x"].array[...] = x
            s.run()
            assert s.stats.copied_bytes == 0
            got = {name: np.array(t.array) for name, t in s.outputs.items()}
        wanted = expected(model, {"x": x}, backend)
        assert got.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_array_equal(got[name], wanted[name])


def test_fixed_point_runs_on_lpai(tmp_path: Path) -> None:
    path = library(tmp_path, [quantized()])
    with qnnrt.Session(path, "lpai") as s:
        got = s.run({"x": CODES})
    wanted = expected(quantized(), {"x": CODES}, "lpai")
    np.testing.assert_array_equal(got["y"], wanted["y"])


@pytest.mark.parametrize(
    "flags",
    [["-DTABLE_ENTRIES=51"], ["-DTABLE_ENTRIES=60"], ["-DTABLE_ENTRIES=80"], ["-DOLD_SIGNATURE"]],
    ids=lambda flags: flags[0][2:],
)
def test_a_library_of_older_or_newer_headers_sees_nothing_but_zeros_beyond(
    tmp_path: Path, flags: list[str]
) -> None:
    path = library(tmp_path, [relu_model((2, 8))], *flags)
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    with qnnrt.Session(path, "htp") as s:
        np.testing.assert_array_equal(s.run({"x": x})["y"], np.maximum(x, 0))


def test_memory_hints_of_the_library_count_unless_others_are_asked_for(two: Path) -> None:
    def prepared(**more) -> dict[str, str]:
        with session(two, **more) as s:
            s.run({"x": FLOATS})
            return {t.name: t.prepare for t in (*s.inputs.values(), *s.outputs.values())}

    assert prepared() == {"x": "memhandle", "y": "raw"}
    assert prepared(prepare="raw") == {"x": "raw", "y": "raw"}
    assert prepared(prepare={"y": "memhandle"}) == {"x": "memhandle", "y": "memhandle"}
    with pytest.raises(ValueError, match="no input or output 'z'"):
        session(two, prepare={"z": "raw"})
    # No staging is reserved for what was declared memhandle.
    sizes = {"x": FLOATS.nbytes, "y": 2 * FLOATS.nbytes}
    with session(two) as s:
        assert s.stats.reserved_at_finalize == sizes["y"]
    with session(two, prepare="raw") as s:
        assert s.stats.reserved_at_finalize == sizes["x"] + sizes["y"]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_composes_whoever_did_at_the_fork(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, created = os.getpid(), Plan.created
    composing, done = threading.Event(), threading.Event()

    def slowly(self: Plan, graph: int, name: str) -> None:
        if os.getpid() == parent:
            composing.set()
            done.wait()
        created(self, graph, name)

    monkeypatch.setattr(Plan, "created", slowly)

    def compose() -> None:
        with session(two) as s:
            s.run({"x": FLOATS})

    def child() -> None:
        signal.alarm(120)  # what waits for ever ends the child
        compose()

    with running(compose):
        composing.wait(SECONDS)
        try:
            in_child(child)
        finally:
            done.set()


def test_what_the_library_handed_out_is_given_back_when_the_context_ends(two: Path) -> None:
    count = ctypes.CDLL(str(two)).QnnModel_liveGraphs
    before = count()
    with session(two):
        assert count() == before + 2
    assert count() == before
    with pytest.raises(ValueError, match=r"no graph 'none'; there are 'conv', 'fixed'"):
        session(two, graph="none")
    with pytest.raises(ValueError, match=r"2 graphs, say which: 'conv', 'fixed'"):
        qnnrt.Session(two)
    assert count() == before


def test_threads_compose_one_after_the_other(two: Path) -> None:
    def work(number: int) -> np.ndarray:
        with session(two) as s:
            return np.array(s.run({"x": FLOATS * number})["y"])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    for number, y in enumerate(found):
        wanted = expected(conv_model(), {"x": FLOATS * number}, "htp")["y"]
        np.testing.assert_array_equal(y, wanted)


def test_composing_by_hand(two: Path) -> None:
    with qnn.Backend.open("htp") as backend, backend.create_context() as context:
        conv, fixed = context.compose(
            qnnrt.load(two), is_output=lambda graph, tensor: tensor == "c" and graph == "conv"
        )
        assert [t.name for t in conv.outputs] == ["y", "c"]
        assert [t.name for t in fixed.outputs] == ["r", "y"]
        assert conv.produced == {"conv": ["c"], "relu": ["y"]}
        conv.finalize()
        y, c = (np.empty(t.shape, np.float32) for t in conv.outputs)
        conv.execute([FLOATS], [y, c])
        np.testing.assert_array_equal(y, np.maximum(c, 0))


def test_a_context_binary_of_it_has_every_graph(two: Path, tmp_path: Path) -> None:
    with session(two) as s:
        s.save_binary(tmp_path / "two.bin")
        wanted = s.run({"x": FLOATS})["y"]
    binary = qnnrt.load(tmp_path / "two.bin")
    assert binary.graphs == ("conv", "fixed")
    with qnnrt.Session(binary, "htp", options={"graph": "conv"}) as s:
        np.testing.assert_array_equal(s.run({"x": FLOATS})["y"], wanted)


def test_precision_reaches_the_graphs_of_a_library(two: Path) -> None:
    with session(two, "htp", precision="float16") as s:
        assert s.precision == "float16"
        got = s.run({"x": FLOATS})["y"]
    with qnnrt.Session(conv_model(), "htp", precision="float16") as s:
        np.testing.assert_array_equal(got, s.run({"x": FLOATS})["y"])


@pytest.mark.foreign
def test_the_vendors_simulator_composes_and_runs_it(two: Path) -> None:
    with session(two, vendor_library("libQnnHtp.so"), "fixed", io="raw") as s:
        got = s.run({"x": CODES})
    wanted = expected(quantized(), {"x": CODES}, "htp")
    for name in wanted:
        off = np.abs(got[name].astype(int) - wanted[name].astype(int))
        assert off.max() <= 1, name


# ---- the tools


def tool(command: str, path: Path, *more: object) -> tuple[object, ...]:
    return (command, "--model", path, "--backend", "htp", *more)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    raw(tmp_path / "floats.raw", FLOATS)
    raw(tmp_path / "codes.raw", CODES, np.uint8)
    listed(tmp_path / "conv", "floats.raw")
    listed(tmp_path / "fixed", "codes.raw")
    return tmp_path


def test_net_run_runs_the_graphs_of_a_library(two: Path, here: Path, capsys: Capture) -> None:
    made = report(
        capsys,
        *tool("net-run", two, "--input_list", "conv,fixed"),
        *("--native_input_tensor_names", "fixed:x", "--output_data_type", "float_and_native"),
    )
    assert [g["name"] for g in made["graphs"]] == ["conv", "fixed"]
    conv = expected(conv_model(), {"x": FLOATS}, "htp")["y"]
    fixed = expected(quantized(), {"x": CODES}, "htp")["y"]
    results = Path("output")
    np.testing.assert_array_equal(numbers(results / "conv/Result_0/y.raw"), conv.ravel())
    native = numbers(results / "fixed/Result_0/y_native.raw", np.uint8)
    np.testing.assert_array_equal(native, fixed.ravel())


def test_net_run_writes_intermediate_tensors_of_a_library(
    two: Path, here: Path, capsys: Capture
) -> None:
    run = tool("net-run", two, "--input_list", "conv,__")
    report(capsys, *run, "--set_output_tensors", "conv:c", "--output_dir", "some")
    report(capsys, *run, "--debug", "--output_dir", "all")
    for folder in ("some", "all"):
        c, y = (numbers(Path(folder, f"conv/Result_0/{name}.raw")) for name in "cy")
        np.testing.assert_array_equal(np.maximum(c, 0), y)
    line = complaint(capsys, *run, "--set_output_tensors", "none:c")
    assert "no graph 'none'; there are conv, fixed" in line
    line = complaint(capsys, *run, "--set_output_tensors", "conv:none")
    assert "no tensor 'none' that a node produces" in line


def test_the_generator_changes_the_memory_type_in_a_library(
    two: Path, here: Path, capsys: Capture
) -> None:
    kind = ("--input_output_tensor_mem_type", "memhandle")
    made = report(capsys, *tool("context-binary-generator", two, "--binary_file", "two", *kind))
    assert [g["name"] for g in made["graphs"]] == ["conv", "fixed"]
    binary = qnnrt.load("output/two.bin")
    for graph in binary.graphs:
        g = binary.graph(graph)
        assert {t.mem_type for t in (*g.inputs, *g.outputs)} == {"memhandle"}


def test_throughput_net_run_takes_the_graphs_of_a_library_as_one_model(
    two: Path, here: Path, capsys: Capture
) -> None:
    config = {
        "backends": [{"backendName": "b", "backendPath": "htp"}],
        "models": [
            {
                "modelName": "m",
                "modelPath": str(two),
                "inputPath": "conv,fixed",
                "inputDataType": "native",
                "outputPath": "out",
            }
        ],
        "contexts": [{"contextName": "c"}],
        "testCase": {
            "iteration": 1,
            "threads": [
                {
                    "threadName": "t",
                    "backend": "b",
                    "context": "c",
                    "model": "m",
                    "loopUnit": "count",
                    "loop": 4,
                }
            ],
        },
    }
    Path("t.json").write_text(json.dumps(config))
    made = report(capsys, "throughput-net-run", "--config", "t.json")
    assert made["threads"][0]["executions"] == 4
    assert [g["name"] for g in made["graphs"]] == ["conv", "fixed"]


def test_the_sdks_command_line_as_it_is_written(two: Path, here: Path) -> None:
    """By the command that is installed, with the backend where the loader finds it."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = scripts["qnn-net-run"].split(":")
    shutil.copy(two, here / "libqnn_model.so")
    program = f"import sys; from {module} import {function}; sys.exit({function}())"
    command = ["qnn-net-run", "--backend", "libQnnHtp.so", "--model", "libqnn_model.so"]
    command += ["--input_list", "conv,__"]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = {command}; {program}"],
        env={**os.environ, "LD_LIBRARY_PATH": str(LIB), "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [
        line for line in done.stderr.splitlines() if not line.startswith("WARNING graph 'conv'")
    ]
    assert said == []  # the warnings are of RAW memory, which is copied
    wanted = expected(conv_model(), {"x": FLOATS}, "htp")["y"]
    np.testing.assert_array_equal(numbers(Path("output/conv/Result_0/y.raw")), wanted.ravel())


def test_each_of_the_sdks_tools_is_a_command(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    tools = [name for name in scripts if name.startswith("qnn-")]
    assert len(tools) == 6
    for name in tools:
        monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}", "--help"])
        with pytest.raises(SystemExit) as end:
            sdk_tool()
        assert end.value.code == 0
        assert f"usage: qnnrt {name.removeprefix('qnn-')}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_run_and_inspect_take_a_library(two: Path, here: Path, capsys: Capture, command) -> None:
    made = report(capsys, command, two, "--graph", "conv")
    assert "y" in str(made)


def test_a_prefix_of_its_own(tmp_path: Path, capsys: Capture, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = library(tmp_path, [relu_model((2, 8))], "-DQnnModel_composeGraphs=My_composeGraphs",
                   "-DQnnModel_freeGraphsInfo=My_freeGraphsInfo")  # fmt: skip
    assert "does not export QnnModel_composeGraphs" in complaint(
        capsys, *tool("context-binary-generator", path)
    )
    assert call(*tool("context-binary-generator", path, "--model_prefix", "My")) == 0
    assert qnnrt.load(path, prefix="My").prefix == "My"


# ---- what goes wrong


def test_what_is_no_model_library(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        qnnrt.load(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(qnnrt.ModelError, match=r"cannot load the model library: .*text\.so"):
        qnnrt.load(tmp_path / "text.so")
    with pytest.raises(qnnrt.ModelError, match="is a backend library, not a model library"):
        qnnrt.load(LIB / "libQnnHtp.so")
    with pytest.raises(qnnrt.ModelError, match=r"name ends in \.so"):
        qnnrt.ModelLibrary(tmp_path / "model.bin")


def test_code_is_loaded_from_nothing_that_is_not_named_a_library(
    two: Path, tmp_path: Path, capsys: Capture
) -> None:
    for name in ("model.bin", "model.onnx", "model.tflite", "model"):
        shutil.copy(two, tmp_path / name)
        with pytest.raises(qnnrt.ModelError):
            qnnrt.Session(tmp_path / name)
    # A name without a folder is a file here, never one where the loader looks.
    assert "no such file" in complaint(capsys, *tool("net-run", Path("libQnnHtp.so")))


@pytest.mark.parametrize(
    ("flags", "call"),
    [([], "graphAddNode"), (["-DVALIDATES"], "backendValidateOpConfig")],
    ids=["added", "validated"],
)
def test_a_node_that_the_backend_refuses_is_named_with_the_librarys_error(
    tmp_path: Path, flags: list[str], call: str
) -> None:
    model = relu_model((2, 8))
    model.nodes[0] = Node("odd one", "NoSuchOp", ["x"], ["y"])
    path = library(tmp_path, [add_model(), model], *flags)  # the first one is whole
    with pytest.raises(qnnrt.QnnError) as caught:
        qnnrt.Session(path, "htp")
    text = str(caught.value)
    assert "MODEL_NODES_ERROR (3)" in text
    assert f"{call} (NoSuchOp 'odd one')" in text
    assert caught.value.code != 0


def test_an_error_of_the_librarys_own_is_named(tmp_path: Path) -> None:
    source = tmp_path / "fails.cc"
    source.write_text(
        '#include "abi/qnn_model.h"\n'
        '#define OUT __attribute__((visibility("default")))\n'
        "struct Table { void* entries[QNN_INTERFACE_NUM_ENTRIES]; };\n"
        'extern "C" OUT int QnnModel_composeGraphs(void*, Table, void*, void*, uint32_t, '
        "GraphInfo_t*** graphs, uint32_t* count) { *graphs = nullptr; *count = 0; return ERROR; }\n"
        'extern "C" OUT int QnnModel_freeGraphsInfo(GraphInfo_t***, uint32_t) { return 0; }\n'
    )
    builder = Builder(tmp_path)
    for number, name in ((9, r"MODEL_FILE_ERROR \(9\)"), (77, r"error 77"), (0, "no graph")):
        path = builder.library(source, f"-DERROR={number}", name=f"fails{number}.so")
        with pytest.raises(qnnrt.ModelError, match=name):
            qnnrt.Session(path)


def test_an_exception_of_the_library_is_an_error(tmp_path: Path) -> None:
    """With what the backend refused, where it did; and one from freeGraphsInfo does no harm."""
    source = tmp_path / "throws.cc"
    source.write_text(
        "#include <stdexcept>\n#include <string>\n"
        '#include "abi/qnn_model.h"\n'
        '#define OUT __attribute__((visibility("default")))\n'
        "struct Table { void* entries[QNN_INTERFACE_NUM_ENTRIES]; };\n"
        'extern "C" OUT int QnnModel_composeGraphs(void*, Table, void*, void*, uint32_t, '
        "GraphInfo_t***, uint32_t*) { throw THROWN; }\n"
        'extern "C" OUT int QnnModel_freeGraphsInfo(GraphInfo_t***, uint32_t) { return 0; }\n'
    )
    builder = Builder(tmp_path)
    long = 'std::runtime_error(std::string(9999, 120) + "end")'
    kinds = [('std::out_of_range("no weights")', r"\(no weights\)"), (long, r"\(x{511}\)")]
    kinds.append(("7", "no std::exception"))
    for number, (thrown, said) in enumerate(kinds):
        path = builder.library(source, f"-DTHROWN={thrown}", name=f"throws{number}.so")
        text = f"QnnModel_composeGraphs: it threw a C\\+\\+ exception .*{said}"
        with pytest.raises(qnnrt.ModelError, match=text):
            qnnrt.Session(path)
    model = relu_model((2, 8))
    path = library(tmp_path, [model], "-DTHROWS")
    x = np.ones((2, 8), np.float32)
    with qnnrt.Session(path) as s:
        np.testing.assert_array_equal(s.run({"x": x})["y"], x)
    model.nodes[0] = Node("odd one", "NoSuchOp", ["x"], ["y"])
    (tmp_path / "odd").mkdir()
    path = library(tmp_path / "odd", [model], "-DTHROWS")
    with pytest.raises(qnnrt.QnnError, match=r"threw a C.*graphAddNode") as caught:
        qnnrt.Session(path, "htp")
    assert caught.value.code != 0


@pytest.mark.foreign
def test_the_gpu_backend_of_this_package_composes_it(two: Path, tmp_path: Path) -> None:
    if reason := gpu.why_not():
        pytest.skip(reason)
    with qnnrt.Session(library(tmp_path, [conv_model()]), "gpu") as s:
        got = s.run({"x": FLOATS})["y"]
    np.testing.assert_allclose(got, expected(conv_model(), {"x": FLOATS}, "cpu")["y"], atol=1e-4)
    with qnn.Backend.open("gpu") as backend, backend.create_context() as context:
        graphs = context.compose(qnnrt.load(two))
        assert [g.name for g in graphs] == ["conv", "fixed"]


def test_two_inputs_and_outputs_keep_their_order(tmp_path: Path) -> None:
    path = library(tmp_path, [add_model()])
    a, b = (np.random.default_rng(n).standard_normal((4, 8)).astype(np.float32) for n in (1, 2))
    with qnnrt.Session(path) as s:
        assert list(s.inputs) == ["a", "b"]
        assert list(s.outputs) == ["w", "z"]
        np.testing.assert_array_equal(s.run({"a": a, "b": b})["w"], a + b)


def test_tensors_keep_their_encodings(two: Path) -> None:
    with session(two, graph="fixed") as s:
        wanted = {name: quantized().tensors[name].quantization for name in ("x", "r", "y")}
        bound = {**s.inputs, **s.outputs}
        for name, q in wanted.items():
            assert bound[name].quantization.scale == pytest.approx(q.scale)
            assert bound[name].quantization.offset == q.offset
