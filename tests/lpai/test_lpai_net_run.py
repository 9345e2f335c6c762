"""The SDK's tools on the lpai backend: QNN's TCM section step by step, and memory of each kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnnrt.lpai import TCM_BYTES
from support.recording import Fake
from support.tool_cases import (
    Capture,
    call,
    complaint,
    here,
    listed,
    numbers,
    onnx_model,
    python_model,
    raw,
    report,
    results,
)

POOL_LINE = "INFO TCM pool current size: 2035712 max_size: 2035712"

#: y = -max(x, 0) in 8 bits, on tensors of a given length, with weights that make the binary larger.
MODEL = """
import numpy as np
from qnnrt.model import Quantization

CODES = Quantization(scale=0.125, offset=-128)

def compose(graph):
    shape = (1, {length})
    def tensor(name, kind):
        return graph.add_tensor(name, shape, np.uint8, type=kind, quantization=CODES)
    x, h, y = tensor("x", "app_write"), tensor("h", "native"), tensor("y", "app_read")
    graph.add_node("relu", "Relu", [x], [h])
    if {weights}:
        columns = {weights} // {length}
        w = graph.add_tensor("w", ({length}, columns), np.uint8, type="static",
                             data=np.full(({length}, columns), 129, np.uint8), quantization=CODES)
        z = graph.add_tensor("z", (1, columns), np.uint8, type="app_read", quantization=CODES)
        graph.add_node("product", "MatMul", [h, w], [z])
    graph.add_node("neg", "ElementWiseNeg", [h], [y])
"""

#: Many inputs, each with its own output.
MANY = """
import numpy as np
from qnnrt.model import Quantization

CODES = Quantization(scale=0.125, offset=-128)

def compose(graph):
    for i in range({pairs}):
        x = graph.add_tensor(f"x{{i}}", (1, 8), np.uint8, type="app_write", quantization=CODES)
        y = graph.add_tensor(f"y{{i}}", (1, 8), np.uint8, type="app_read", quantization=CODES)
        graph.add_node(f"relu{{i}}", "Relu", [x], [y])
"""

#: Collects the last three inputs: state, in persistent memory.
STATE = """
import numpy as np
from qnnrt.model import Quantization

CODES = Quantization(scale=0.125, offset=-128)

def compose(graph):
    x = graph.add_tensor("x", (1, 64), np.uint8, type="app_write", quantization=CODES)
    y = graph.add_tensor("y", (3, 64), np.uint8, type="app_read", quantization=CODES)
    params = {{"buffer_size": np.uint32(3), "buffer_dim": np.uint32(0), "mode": np.uint32({mode})}}
    graph.add_node("collect", "Buffer", [x], [y], params)
"""

VALUES = np.linspace(-8, 8, 64)


def model(folder: Path, length: int = 64, weights: int = 0) -> Path:
    return python_model(folder, "m", MODEL.format(length=length, weights=weights))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """A folder as the documentation's: the binary, its input list, the two config files."""
    here(tmp_path, monkeypatch, x=VALUES)
    listed(tmp_path / "input_list.txt", "x.raw")
    generate(model(tmp_path), capsys)
    configure(tmp_path)
    return tmp_path


def generate(source: Path, capsys: Capture, name: str = "tmp", *more: object) -> Path:
    options = ("--binary_file", name, "--output_dir", source.parent, *more)
    report(capsys, "context-binary-generator", "--model", source, "--backend", "lpai", *options)
    return source.parent / f"{name}.bin"


def configure(folder: Path, mem_type: str = "tcm", **more: Any) -> Path:
    inner = {"lpai_graph": {"execute": {"mem_type": mem_type}}, **more}
    (folder / "eaiParams_direct.conf").write_text(json.dumps(inner))
    outer = {
        "backend_extensions": {
            "shared_library_path": "/data/local/tmp/libQnnLpaiNetRunExtensions.so",
            "config_file_path": str(folder / "eaiParams_direct.conf"),
        },
        "context_configs": {"is_persistent_binary": True},
    }
    path = folder / "eaiParams_direct.json"
    path.write_text(json.dumps(outer))
    return path


def run(folder: Path, *more: object, binary: str = "tmp.bin") -> list[object]:
    """The documentation's command."""
    return [
        *("net-run", "--input_list", folder / "input_list.txt", "--backend", "lpai"),
        *("--config_file", folder / "eaiParams_direct.json"),
        *("--retrieve_context", folder / binary, *more),
    ]


def tcm_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "tcm" in line.lower() and "error:" not in line]


def failed(capsys: Capture, *arguments: object) -> tuple[str, list[str]]:
    """The line of a run that fails while it is initialized, and the lines of the log before."""
    assert call(*arguments) == 1
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert "Finished" not in out
    lines = err.splitlines()
    assert lines[-1].startswith("qnnrt net-run: error: initialization failed: "), err
    assert not Path("output/Result_0").exists()
    return lines[-1], lines[:-1]


# ---- the documentation's steps -------------------------------------------------------------------


@pytest.mark.parametrize("direct", [("--direct_mode", "adsp"), ("--direct_mode",)])
def test_the_documentations_run(folder: Path, capsys: Capture, direct: tuple[str, ...]) -> None:
    assert call(*run(folder, *direct, "--log_level", "debug")) == 0
    out, err = capsys.readouterr()
    # The binary, the input and the output; scratch memory, of 128 bytes, is not among them.
    size = (folder / "tmp.bin").stat().st_size
    assert tcm_lines(err) == [
        POOL_LINE,
        f"INFO Allocate size {size} from tcm pool 0",
        "INFO Allocate size 64 from tcm pool 0",
        "INFO Allocate size 64 from tcm pool 0",
    ]
    assert out.splitlines()[-2:] == ["Finished Executing Graphs", "NonRPC net-run SUCCESS"]
    assert results(folder / "output") == {"Result_0": {"y.raw"}}
    np.testing.assert_allclose(
        numbers(folder / "output/Result_0/y.raw"), -np.maximum(VALUES, 0), atol=0.0626
    )


def test_info_lines_are_of_level_info(folder: Path, capsys: Capture) -> None:
    assert call(*run(folder, "--direct_mode")) == 0
    assert capsys.readouterr().err == ""
    assert call(*run(folder, "--direct_mode", "--log_level", "info")) == 0
    assert len(tcm_lines(capsys.readouterr().err)) == 4


def test_tcm_needs_direct_mode(folder: Path, capsys: Capture) -> None:
    line, before = failed(capsys, *run(folder))
    assert "mem_type tcm: TCM is there in aDSP direct mode alone" in line
    assert "(--direct_mode adsp says so)" in line
    assert before == []
    # The platform option says the same.
    assert call(*run(folder, "--platform_options", "direct_mode:adsp")) == 0


def test_ddr_is_the_default_and_says_nothing(folder: Path, capsys: Capture) -> None:
    configure(folder, "ddr")
    for more in ((), ("--direct_mode", "adsp")):
        assert call(*run(folder, *more, "--log_level", "debug")) == 0
        out, err = capsys.readouterr()
        assert tcm_lines(err) == []
        assert "Finished Executing Graphs" in out
        assert ("NonRPC net-run SUCCESS" in out) == bool(more)
    bare = [arg for arg in run(folder) if "eaiParams" not in str(arg) and arg != "--config_file"]
    assert call(*bare) == 0


def test_an_unknown_mem_type_fails_with_its_two_lines(folder: Path, capsys: Capture) -> None:
    configure(folder, "llc")
    for more in ((), ("--direct_mode", "adsp")):
        line, before = failed(capsys, *run(folder, *more))
        assert before == [
            "ERROR Invalid memory type",
            "ERROR Memory type only supports DDR & TCM",
        ]
        assert "Memory type only supports DDR & TCM" in line


def test_a_binary_that_does_not_fit(folder: Path, capsys: Capture) -> None:
    size = generate(model(folder, weights=TCM_BYTES), capsys).stat().st_size
    assert size > TCM_BYTES
    line, before = failed(capsys, *run(folder, "--direct_mode", "--log_level", "info"))
    assert before == [POOL_LINE, f"ERROR TCM memory allocation failure: required size: {size}"]
    assert f"TCM memory allocation failure: required size: {size}: the TCM pool of" in line
    configure(folder, "ddr")  # what the documentation says to do
    assert call(*run(folder, "--direct_mode")) == 0


def test_tensors_that_do_not_fit_beside_the_binary(folder: Path, capsys: Capture) -> None:
    length = TCM_BYTES // 2 - 64
    raw(folder / "x.raw", np.resize(VALUES, length))
    generate(model(folder, length), capsys)
    line, before = failed(capsys, *run(folder, "--direct_mode"))
    assert before == [f"ERROR TCM memory allocation failure: required size: {length}"]
    assert "in 2 pieces and room for one of" in line


def test_more_than_32_buffers_are_fatal_for_the_run(folder: Path, capsys: Capture) -> None:
    generate(python_model(folder, "m", MANY.format(pairs=16)), capsys)
    raw(folder / "x.raw", np.ones(8))
    listed(folder / "input_list.txt", " ".join(["x.raw"] * 16))
    line, before = failed(capsys, *run(folder, "--direct_mode"))  # 1 + 16 + 16
    assert before == ["ERROR TCM memory allocation failure: required size: 8"]
    assert "more than 32 pieces of TCM were asked for, which is fatal" in line
    # Fewer buffers, as the documentation says; and the process goes on.
    assert call(*run(folder, "--direct_mode", "--shared_buffer")) == 0
    configure(folder, "ddr")
    assert call(*run(folder, "--direct_mode")) == 0


def test_state_lies_in_ddr_and_goes_on_from_inference_to_inference(
    folder: Path, capsys: Capture
) -> None:
    size = generate(python_model(folder, "m", STATE.format(mode=1)), capsys).stat().st_size
    for i in range(4):
        raw(folder / f"{i}.raw", np.full(64, i + 1))
    listed(folder / "input_list.txt", *(f"{i}.raw" for i in range(4)))
    assert call(*run(folder, "--direct_mode", "--log_level", "info")) == 0
    assert tcm_lines(capsys.readouterr().err) == [
        POOL_LINE,
        *(f"INFO Allocate size {n} from tcm pool 0" for n in (size, 64, 192)),
    ]
    rows = [numbers(folder / f"output/Result_{i}/y.raw").reshape(3, 64)[:, 0] for i in range(4)]
    assert [row.tolist() for row in rows] == [[1, 0, 0], [1, 2, 0], [1, 2, 3], [2, 3, 4]]


@pytest.mark.parametrize("more", [(), ("--asynchronous",)])
def test_inferences_that_end_early_have_no_result(
    folder: Path, capsys: Capture, more: tuple[str, ...]
) -> None:
    """A blocking Buffer gives nothing before it is full: no failure of the run."""
    generate(python_model(folder, "m", STATE.format(mode=0)), capsys)
    for i in range(4):
        raw(folder / f"{i}.raw", np.full(64, i + 1))
    listed(folder / "input_list.txt", *(f"{i}.raw" for i in range(4)))
    assert call(*run(folder, "--direct_mode", *more)) == 0
    assert "2 more ended early, without a result: a Buffer is not full" in capsys.readouterr().out
    assert results(folder / "output") == {f"Result_{i}": {"y.raw"} for i in (2, 3)}
    assert (folder / "output/execution_metadata.yaml").read_text() == "inferences_completed: 2\n"
    rows = [numbers(folder / f"output/Result_{i}/y.raw").reshape(3, 64)[:, 0] for i in (2, 3)]
    assert [row.tolist() for row in rows] == [[1, 2, 3], [2, 3, 4]]


# ---- memory handles, and other options -----------------------------------------------------------


@pytest.mark.parametrize("mem_type", ["ddr", "tcm"])
def test_shared_buffer_is_one_piece(folder: Path, capsys: Capture, mem_type: str) -> None:
    configure(folder, mem_type)
    more = ("--direct_mode", "--shared_buffer", "--log_level", "info", "--output_dir")
    assert call(*run(folder, *more, folder / "shared")) == 0
    out, err = capsys.readouterr()
    assert "0 bytes copied per execution" in out
    if mem_type == "tcm":
        assert tcm_lines(err)[2:] == ["INFO Allocate size 128 from tcm pool 0"]
    assert call(*run(folder, "--direct_mode", "--output_dir", folder / "raw")) == 0
    one, other = (folder / name / "Result_0/y.raw" for name in ("shared", "raw"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("kind", ["ion", "dma_buf", "shared_buffer"])
def test_handle_types(folder: Path, capsys: Capture, kind: str) -> None:
    more = ("--direct_mode", "--io_tensor_mem_handle_type", kind)
    configure(folder, "ddr")
    found = report(capsys, *run(folder, *more))
    assert found["graphs"][0]["copied_bytes"] == 0
    configure(folder, "tcm")
    if kind == "shared_buffer":
        assert call(*run(folder, *more)) == 0
    else:
        line = complaint(capsys, *run(folder, *more))
        assert f"{kind} names a whole fd, and TCM is one fd for all buffers" in line


def test_use_mmap_leaves_the_binary_where_it_is(folder: Path, capsys: Capture) -> None:
    line = complaint(capsys, *run(folder, "--direct_mode", "--use_mmap"))
    assert "mem_type tcm moves it into TCM: leave one of them out" in line
    configure(folder, "ddr")
    assert call(*run(folder, "--direct_mode", "--use_mmap")) == 0


def test_executions_in_flight_have_buffers_each(folder: Path, capsys: Capture) -> None:
    raw(folder / "2.raw", -VALUES)
    listed(folder / "input_list.txt", "x.raw", "2.raw", "x.raw", "2.raw")
    more = ("--direct_mode", "--asynchronous", "--log_level", "info")
    assert call(*run(folder, *more)) == 0
    assert len(tcm_lines(capsys.readouterr().err)) == 1 + 1 + 4 * 2
    outputs = [numbers(folder / f"output/Result_{i}/y.raw") for i in range(4)]
    assert (outputs[0] == outputs[2]).all()
    assert (outputs[1] == outputs[3]).all()
    np.testing.assert_allclose(outputs[1], -np.maximum(-VALUES, 0), atol=0.0626)


def test_exclude_io_performance_and_affinity(folder: Path, capsys: Capture) -> None:
    """IO buffers are always given here, so a graph without places for them gives the same."""
    assert call(*run(folder, "--direct_mode")) == 0
    with_places = (folder / "output/Result_0/y.raw").read_bytes()
    execute = {"mem_type": "tcm", "fps": 30, "ftrt_ratio": 20, "client_type": "non_real_time"}
    execute |= {"affinity": "hard", "core_selection": 1}
    graph = {"prepare": {"exclude_io": True}, "execute": execute}
    configure(folder, lpai_graph=graph, lpai_profile={"level": "detailed"})
    assert call(*run(folder, "--direct_mode", "--profiling_level", "backend")) == 0
    assert (folder / "output/Result_0/y.raw").read_bytes() == with_places
    assert (folder / "output/qnn-profiling-data_0.log").exists()
    configure(folder, lpai_graph={"execute": {**execute, "core_selection": 1 << 20}})
    assert call(*run(folder, "--direct_mode")) == 1
    assert "coreSelection is 0 (any core) or the bit of one of the" in capsys.readouterr().err


def test_models_run_too(folder: Path, capsys: Capture) -> None:
    assert call(*run(folder, "--direct_mode")) == 0
    capsys.readouterr()
    options = ["--backend", "lpai", "--direct_mode", "--config_file", "eaiParams_direct.json"]
    options += ["--input_list", "input_list.txt", "--output_dir", "prepared"]
    assert call("net-run", "--model", "m.py", *options, "--log_level", "info") == 0
    out, err = capsys.readouterr()
    assert tcm_lines(err) == [POOL_LINE, *["INFO Allocate size 64 from tcm pool 0"] * 2]
    assert "NonRPC net-run SUCCESS" in out
    one, other = (folder / name / "Result_0/y.raw" for name in ("output", "prepared"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("command", ["net-run", "context-binary-generator"])
def test_floats_are_refused_with_their_names(tmp_path: Path, capsys: Capture, command: str) -> None:
    path = onnx_model(tmp_path)
    output = ("--output_dir", tmp_path / "output")
    line = complaint(capsys, command, "--model", path, "--backend", "lpai", *output)
    assert line.count("float32") >= 2
    assert "quantize the model first" in line


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_the_same_binary_elsewhere(folder: Path, capsys: Capture, backend: str) -> None:
    assert call(*run(folder, "--direct_mode")) == 0
    options = ["--retrieve_context", "tmp.bin", "--backend", backend, "--direct_mode", "adsp"]
    options += ["--input_list", "input_list.txt", "--output_dir", backend]
    capsys.readouterr()
    assert call("net-run", *options) == 0
    out, err = capsys.readouterr()
    assert "--direct_mode has no effect here: there is one way to run" in err
    assert "Finished" not in out
    one, other = (folder / name / "Result_0/y.raw" for name in ("output", backend))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("cached", [False, True])
def test_throughput_net_run(folder: Path, capsys: Capture, cached: bool) -> None:
    item = {
        "modelName": "m",
        "modelPath": "tmp.bin" if cached else "m.py",
        "loadFromCachedBinary": cached,
        "inputPath": "input_list.txt",
        "outputPath": "out",
        "saveOutput": "ALL",
        "ioTensorMemHandleType": "shared_buffer",
    }
    thread = {"backend": "lpai", "model": "m", "loop": 3, "loopUnit": "count", "context": "c"}
    config = {
        "backends": [{"backendName": "lpai", "backendPath": "lpai"}],
        "models": [item],
        "contexts": [{"contextName": "c"}],
        "testCase": {"threads": [{"threadName": f"t{i}", **thread} for i in range(2)]},
    }
    (folder / "throughput.json").write_text(json.dumps(config))
    found = report(capsys, "throughput-net-run", "--config", "throughput.json")
    assert [t["executions"] for t in found["threads"]] == [3, 3]
    assert found["graphs"][0]["copied_bytes"] == 0
    for i in range(2):
        (path,) = (folder / "out").rglob(f"t{i}/Result_0/y.raw")
        np.testing.assert_allclose(numbers(path), -np.maximum(VALUES, 0), atol=0.0626)


# ---- a vendor's library --------------------------------------------------------------------------


@pytest.mark.other_fds
def test_what_a_vendors_library_is_asked(folder: Path, capsys: Capture, fake: Fake) -> None:
    fake.library.fake_lpai(1024, 512)
    execute = {"fps": 30, "client_type": "non_real_time", "core_selection": 2}
    config = configure(folder, lpai_graph={"execute": execute}, lpai_backend={"target_env": "arm"})
    options = ["--model", "m.py", "--backend", fake.path, "--config_file", config]
    options += ["--input_list", "input_list.txt"]
    assert call("net-run", *options) == 0
    assert "Finished Executing Graphs" in capsys.readouterr().out
    journal = [line for line in fake.journal() if "raph" in line or "hardware" in line]
    assert journal[0] == "backendCreate hardware option=0 target=1 version=6"
    assert [line.split()[0] for line in journal[1:]] == [
        "graphCreate",
        *["graphSetConfig"] * 2,
        *["graphGetProperty"] * 2,
        *["graphSetConfig"] * 2,
        "graphFinalize",
    ]
    assert "graphSetConfig perf fps=30 ftrt=10 client=2" in journal
    assert "graphSetConfig affinity=1 cores=2" in journal
    # Its extensions for TCM are the vendor's own.
    for mem_type in ("tcm", "llc"):
        configure(folder, mem_type)
        line = complaint(capsys, "net-run", *options)
        assert f"mem_type {mem_type}: " in line
        assert "has its own extensions for other memory than ddr, which do not run here" in line
