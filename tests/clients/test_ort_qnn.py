"""A client nobody here wrote: ONNX Runtime's QNN execution provider runs on libQnnCpu.so.

That the convolutions run here is read from two sides: ONNX Runtime's record of which provider got
which node, and this runtime's own log of the steps that it made and of how often it ran them.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import qnnrt
from support.outside import run_script
from zoo import client_models

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

BACKEND = Path(qnnrt.__file__).parent / "lib" / "libQnnCpu.so"
CLIENT = Path(__file__).with_name("ort_client.py")
PROVIDER = "QNNExecutionProvider"
RUNS = 3
STEP = re.compile(
    r"QnnLogging\] graph '[^']*': step \d+ is (\w+) '[^']*'.* by kernel (.*?)\s*$", re.M
)
FREED = re.compile(r"QnnLogging\] graph '[^']*' is freed after (\d+) executions", re.M)


class Report:
    """What one process with ONNX Runtime in it did."""

    def __init__(self, process: subprocess.CompletedProcess[str], outputs: Path) -> None:
        tail = process.stderr[-4000:]
        assert process.returncode == 0, f"exit status {process.returncode}\n{tail}"
        said = json.loads(process.stdout.splitlines()[-1])
        self.assigned = {name: Counter(ops) for name, ops in said["assigned"].items()}
        self.before, self.during, self.after = said["before"], said["during"], said["after"]
        self.log = process.stderr
        self.steps = STEP.findall(process.stderr)
        self.executions = [int(n) for n in FREED.findall(process.stderr)]
        with np.load(outputs) as arrays:
            self.outputs = [arrays[name] for name in arrays.files]

    def convolutions(self) -> list[str]:
        """The kernels of this runtime's own convolution steps."""
        return [kernel for op, kernel in self.steps if op in ("Conv2d", "DepthWiseConv2d")]

    def check_lifetimes(self, graphs: int) -> None:
        assert self.during["graphs"] - self.before["graphs"] == graphs
        assert self.during["contexts"] - self.before["contexts"] >= 1
        assert self.after == self.before, "ONNX Runtime closed its session, something stayed"
        assert self.executions == [RUNS] * graphs


@pytest.fixture
def run(tmp_path: Path):
    def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], kernels: str = "fast") -> Report:
        files = [tmp_path / name for name in ("model.onnx", "inputs.npz", "outputs.npz")]
        onnx.save(model, files[0])
        np.savez(files[1], **feeds)
        environment = {"QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib"))}
        if kernels == "portable":
            environment["QNNRT_ONEDNN"] = "none"
        process = run_script(CLIENT, files[0], BACKEND, files[1], files[2], RUNS, **environment)
        return Report(process, files[2])

    return run


def random_feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        i.name: random.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in model.graph.input
    }


def reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def assert_close(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        assert np.ptp(other) > 0, "a constant result shows nothing"
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5 * np.abs(other).max())


def count(model: onnx.ModelProto, op: str) -> int:
    return sum(node.op_type == op for node in model.graph.node)


@pytest.mark.parametrize("kernels", ["fast", "portable"])
@pytest.mark.parametrize("name", ["squeezenet", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_light_models_run_whole_on_this_backend(run, name: str, kernels: str) -> None:
    seed = 20
    model = client_models.light_model(name, seed)
    feeds = random_feeds(model, seed)
    report = run(model, feeds, kernels)
    convolutions = count(model, "Conv")
    assert set(report.assigned) == {PROVIDER}
    assert report.assigned[PROVIDER]["Conv"] == convolutions
    assert len(report.convolutions()) == convolutions
    if kernels == "portable":
        assert set(report.convolutions()) == {"portable", "winograd"}
    report.check_lifetimes(graphs=1)
    assert_close(report.outputs, reference(model, feeds))


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_convolution_runs_on_this_backend(run, seed: int) -> None:
    model = client_models.conv_net(seed)
    feeds = random_feeds(model, seed)
    report = run(model, feeds)
    assert set(report.assigned) == {PROVIDER}
    assert len(report.convolutions()) == count(model, "Conv")
    report.check_lifetimes(graphs=1)
    assert_close(report.outputs, reference(model, feeds))


def test_a_node_that_the_backend_lacks_stays_with_onnxruntime(run) -> None:
    """Also shows that the record of who ran what is no constant."""
    model = client_models.conv_net(7)
    mean = next(n for n in model.graph.node if n.op_type == "GlobalAveragePool")
    mean.input[0] = "h"
    model.graph.node.insert(
        len(model.graph.node) - 1, helper.make_node("Hardmax", ["c4"], ["h"], name="h", axis=1)
    )
    feeds = random_feeds(model, 7)
    report = run(model, feeds)
    assert report.assigned["CPUExecutionProvider"]["Hardmax"] == 1
    assert report.assigned[PROVIDER]["Conv"] == count(model, "Conv")
    assert report.assigned[PROVIDER]["GlobalAveragePool"] == 1
    report.check_lifetimes(graphs=2)
    assert_close(report.outputs, reference(model, feeds))
