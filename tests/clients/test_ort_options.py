"""ONNX Runtime's provider asked for more: models in one shared context, and calls recorded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_ort_qnn import assert_close, random_feeds, reference

import qnnrt
from qnnrt.cli.paths import INCLUDE_DIR, LIB_DIR
from qnnrt.model import ContextBinary
from support.outside import run_script
from support.vendor import vendor_library
from zoo import client_models

pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

HERE = Path(__file__).parent
OURS = LIB_DIR / "libQnnHtp.so"


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)


def write_model(path: Path, seed: int) -> Path:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
            helper.make_node("Relu", ["product"], ["y"], "limited"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(weights(seed), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def compiled(library: Path, folder: Path, *models: Path) -> tuple[list[str | None], str]:
    """What each session ended with, and the log."""
    folder.mkdir()
    process = run_script(
        *(HERE / "ort_sharing_client.py", library, folder, *models),
        LD_LIBRARY_PATH=str(library.parent),
        QNNRT_PACKAGE_LIBS=str(Path(sys.prefix, "lib")),
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1]), process.stderr


def shared_file(model: Path) -> Path:
    (node,) = (n for n in onnx.load(model).graph.node if n.op_type == "EPContext")
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return model.with_name(values["ep_cache_context"].decode())


def test_two_models_share_a_context_and_its_binary(tmp_path: Path) -> None:
    models = [write_model(tmp_path / f"net{seed}.onnx", seed) for seed in (1, 2)]
    folder = tmp_path / "ours"
    errors, _ = compiled(OURS, folder, *models)
    assert errors == [None, None]
    (binary,) = {shared_file(folder / f"{i}.onnx") for i in range(2)}
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    content = ContextBinary(binary)
    results = []
    for name in content.graphs:
        with qnnrt.Session(content, "htp", options={"graph": name}) as session:
            results.append(session.run({"x": x})["y"].copy())
    wanted = [np.maximum(x @ weights(seed), 0) for seed in (1, 2)]
    assert len(results) == 2
    for right in wanted:
        assert any(np.allclose(right, got, rtol=1e-5) for got in results)


def test_a_model_compiled_twice_is_refused_as_the_vendors_library_does(tmp_path: Path) -> None:
    """Its graph has the same name: the provider goes on with the graph that is there, and is told
    that its first tensor is, too."""
    model = write_model(tmp_path / "net.onnx", 1)
    told = []
    for name, library in (("ours", OURS), ("theirs", Path(vendor_library("libQnnHtp.so")))):
        errors, log = compiled(library, tmp_path / name, model, model)
        assert errors[0] is None
        codes = re.findall(r"tensor_name: (\S+) error code: (\d+)", log)
        told.append((errors[1], codes, sorted(p.name for p in (tmp_path / name).iterdir())))
    assert told[0] == told[1]
    assert told[0][1] == [("x", "7003")]


def test_a_model_is_recorded_as_a_program_that_computes_it(tmp_path: Path) -> None:
    """The provider asks the saver in the name of the backend that it knows."""
    model = client_models.conv_net(41)
    onnx.save(model, tmp_path / "net.onnx")
    feeds = random_feeds(model, 41)
    np.savez(tmp_path / "in.npz", **feeds)
    options = {"provider": {"qnn_saver_path": str(LIB_DIR / "libQnnSaver.so")}}
    (tmp_path / "case.json").write_text(json.dumps(options))
    files = ("net.onnx", OURS, "in.npz", "out.npz", "1", "case.json")
    recorded, replay = tmp_path / "saver_output", tmp_path / "replay"
    results = tmp_path / "results"
    results.mkdir()
    includes = f"-I{INCLUDE_DIR / 'qnnrt/QNN'}"
    for command in (
        (sys.executable, HERE / "ort_client.py", *files),
        ("gcc", "-std=c11", includes, recorded / "saver_output.c", "-o", replay, "-ldl"),
        (replay, OURS, recorded / "params.bin", results),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    (wanted,) = reference(model, feeds)
    (file,) = results.glob("*.raw")
    assert_close([np.fromfile(file, np.float32).reshape(wanted.shape)], [wanted])
