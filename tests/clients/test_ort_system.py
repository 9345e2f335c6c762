"""ONNX Runtime as a client of libQnnSystem.so: EPContext models with our binaries, profile logs."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

import qnnrt
from qnnrt.cli import main
from qnnrt.profile_log import ProfileLogContents
from support.outside import run_script

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

LIBRARIES = Path(qnnrt.__file__).parent / "lib"
RUNS = 4
#: y = relu(x)^2 on [1, 16], run RUNS times in a session with the options of its arguments.
CLIENT = """
    import json, sys
    import numpy as np, onnx, onnxruntime as ort, onnxruntime_qnn as ort_qnn
    from onnx import TensorProto, helper

    path, backend, runs, provider, session = sys.argv[1:]
    if not path.endswith("_ctx.onnx"):
        x, y = (
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16]) for n in ("x", "y")
        )
        nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Mul", ["t", "t"], ["y"])]
        graph = helper.make_graph(nodes, "g", [x], [y])
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    ort.register_execution_provider_library(ort_qnn.EP_NAME, ort_qnn.get_library_path())
    devices = [d for d in ort.get_ep_devices() if d.ep_name == ort_qnn.EP_NAME]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, value in json.loads(session).items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices(
        devices[:1], {"backend_path": backend, **json.loads(provider)}
    )
    s = ort.InferenceSession(path, options)
    values = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    for _ in range(int(runs)):
        (out,) = s.run(None, {"x": values})
    assert (out == np.maximum(values, 0) ** 2).all()
    del s
    print("done")
"""


def run_client(
    model: Path,
    *,
    provider: dict[str, str] | None = None,
    session: dict[str, str] | None = None,
    fails_with: str | None = None,
) -> None:
    arguments = [str(model), str(LIBRARIES / "libQnnHtp.so"), str(RUNS)]
    arguments += [json.dumps(provider or {}), json.dumps(session or {})]
    done = run_script("-c", textwrap.dedent(CLIENT), *arguments, timeout=1800)
    if fails_with is not None:
        assert done.returncode == 1, done.stderr[-4000:]  # an exception, not its end
        assert fails_with in done.stderr
        return
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[-1:] == ["done"]


@pytest.mark.parametrize("embed", ["0", "1"])
def test_an_epcontext_model_goes_through_our_binary_and_back(
    tmp_path: Path, embed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made by one process, loaded by another, which asks the system library what is in it."""
    context = tmp_path / "m_ctx.onnx"
    run_client(
        tmp_path / "m.onnx",
        session={
            "ep.context_enable": "1",
            "ep.context_file_path": str(context),
            "ep.context_embed_mode": embed,
        },
    )
    assert context.exists()
    run_client(context)
    binaries = list(tmp_path.glob("*.bin"))
    assert len(binaries) == (0 if embed == "1" else 1)
    for binary in binaries:
        assert main(["context-binary-utility", "--context_binary", str(binary), "--verify"]) == 0
        out = capsys.readouterr().out
        assert "input x: FLOAT_32[1, 16]" in out
        assert "every checksum is right" in out
        binary.write_bytes(binary.read_bytes()[:-100])
        run_client(context, fails_with="QNN")


@pytest.mark.parametrize("level", ["basic", "detailed"])
def test_its_profile_log_is_one_that_the_viewer_reads(
    tmp_path: Path, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = {"profiling_level": level, "profiling_file_path": str(tmp_path / "p.csv")}
    run_client(tmp_path / "m.onnx", provider=provider)
    (path,) = tmp_path.glob("*.log")
    log = ProfileLogContents.read(path)
    assert log.complete
    assert log.app.lower().startswith("onnx")
    executes = [m for m in log.messages if m.method_name == "execute"]
    assert len(executes) == RUNS
    assert all(m.duration_us >= 0 and m.start_us > 0 for m in executes)
    nodes = [e for m in executes for top in m.events for _, e in top.walk() if e.kind == "node"]
    assert len(nodes) == (2 * RUNS if level == "detailed" else 0)
    assert main(["profile-viewer", "--input_log", str(path), "--json"]) == 0
    (graph,) = json.loads(capsys.readouterr().out)["graphs"]
    measured = {m["name"]: m for m in graph["measurements"]}
    assert graph["executions"] == RUNS
    assert measured["copied in"]["average"] == measured["copied out"]["average"] == 64
