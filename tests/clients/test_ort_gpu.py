"""ONNX Runtime's QNN execution provider runs on libQnnGpu.so, on PoCL."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from support.gpu.client import LIBRARY, environment
from support.outside import run_script
from zoo import client_models, networks

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign
CLIENT = Path(__file__).with_name("ort_client.py")
PROVIDER, CPU = "QNNExecutionProvider", "CPUExecutionProvider"
SEED = 26
#: Units of hidden layers whose 4096 are gigabytes of weights without a new kernel
HIDDEN = dict.fromkeys(("bvlc_alexnet", "vgg19", "zfnet512"), 256)


class Client:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = ""

    def run(
        self,
        model: onnx.ModelProto | Path,
        feeds: dict[str, np.ndarray],
        options: dict[str, Any] | None = None,
        **variables: str,
    ) -> tuple[dict[str, dict[str, int]], list[np.ndarray]]:
        """Which provider got which ops, and the outputs of the last of three runs."""
        names = ("model.onnx", "inputs.npz", "outputs.npz", "options.json")
        files = [self.folder / name for name in names]
        if isinstance(model, Path):
            files[0] = model
        else:
            onnx.save(model, files[0])
        np.savez(files[1], **feeds)
        files[3].write_text(json.dumps(options or {}))
        done = run_script(
            *(CLIENT, files[0], LIBRARY, files[1], files[2], 3, files[3]),
            **environment(self.folder, **variables),
        )
        self.log = done.stderr
        assert done.returncode == 0, done.stderr[-4000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["after"] == said["before"], "ONNX Runtime closed its session, something stayed"
        with np.load(files[2]) as arrays:
            return said["assigned"], [arrays[name] for name in arrays.files]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def expected(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=[CPU])
    return session.run(None, feeds)


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)
    return {
        i.name: random.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in model.graph.input
    }


def check(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert np.ptp(other) > 0, "a constant result shows nothing"
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5 * np.abs(other).max())


def test_convolutions_run_whole_on_the_library(client: Client) -> None:
    model = client_models.conv_net(SEED)
    feeds = feeds_of(model)
    assigned, got = client.run(model, feeds)
    assert set(assigned) == {PROVIDER}
    check(got, expected(model, feeds))


def quantized() -> onnx.ModelProto:
    """A product of fixed-point numbers, for which the backend has no kernel, and Relu behind it."""
    weights = np.random.default_rng(SEED).integers(0, 256, (16, 8)).astype(np.uint8)
    half = np.float32(1 / 32)
    values = {
        "w": weights,
        "scale": half,
        "wide": np.float32(1 / 4),
        "zero": np.uint8(128),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "wide", "zero"], ["mq"]),
        helper.make_node("DequantizeLinear", ["mq", "wide", "zero"], ["md"]),
        helper.make_node("Relu", ["md"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 8])],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_node_without_a_kernel_stays_with_onnxruntime(client: Client) -> None:
    """The compiler is asked about each before a graph is made, and the session is made."""
    value = partial(helper.make_tensor_value_info, elem_type=onnx.TensorProto.FLOAT, shape=[4, 8])
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["noise"], low=1.0, high=2.0, seed=1.0),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "noise", [value("x")], [value("noise"), value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = feeds_of(model)
    assigned, (noise, y) = client.run(model, feeds)
    assert assigned == {CPU: {"RandomUniformLike": 1}, PROVIDER: {"Relu": 1}}
    assert 1 <= noise.min() < noise.max() <= 2
    np.testing.assert_array_equal(y, np.maximum(feeds["x"], 0))
    assert "the gpu backend has no such operation" in client.log


def test_a_quantized_network_runs_behind_its_inputs_encoding(client: Client) -> None:
    model = quantized()
    feeds = feeds_of(model)
    assigned, got = client.run(model, feeds)
    assert assigned[CPU] == {"QuantizeLinear": 1}  # the provider's choice, of the input
    assert assigned[PROVIDER]["MatMul"] == 1
    # One step of the output's encoding.
    np.testing.assert_allclose(got[0], expected(model, feeds)[0], rtol=0, atol=1 / 4)


def test_a_context_binary_of_onnxruntimes_runs_without_a_compiler(client: Client) -> None:
    model = client_models.conv_net(SEED)
    feeds = feeds_of(model)
    context = client.folder / "context.onnx"
    session = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
    client.run(model, feeds, {"session": session | {"ep.context_embed_mode": "0"}})
    assigned, got = client.run(context, feeds, None, QNNRT_GPU_COMPILER="exit 9")
    assert assigned == {PROVIDER: {"EPContext": 1}}
    check(got, expected(model, feeds))


def test_the_library_is_found_by_the_name_of_the_backend(client: Client) -> None:
    model = client_models.conv_net(SEED + 1)
    feeds = feeds_of(model)
    options = {"provider": {"backend_type": "gpu", "backend_path": None}}
    assigned, got = client.run(model, feeds, options, LD_LIBRARY_PATH=str(LIBRARY.parent))
    assert set(assigned) == {PROVIDER}
    check(got, expected(model, feeds))


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.NAMES)
def test_a_network_gives_what_onnxruntime_gives(client: Client, name: str) -> None:
    model = networks.randomized(name, SEED, HIDDEN.get(name, 4096))
    weights = {w.name for w in model.graph.initializer}
    (name,) = (i.name for i in model.graph.input if i.name not in weights)
    feeds = {name: networks.image(SEED)}
    assigned, got = client.run(model, feeds)
    assert set(assigned) <= {PROVIDER, CPU}
    assert "Conv" not in assigned.get(CPU, {})
    check(got, expected(model, feeds))
