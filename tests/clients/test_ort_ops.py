"""What ops mean, as a client nobody here wrote understands them.

ONNX Runtime's QNN provider translates recurrent ops, resizing and normalization into QNN's own
(order of gates, scaling of alpha, rounding modes) and expects the results of its CPU kernels.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

BACKEND = Path(qnnrt.__file__).parent / "lib" / "libQnnCpu.so"
CLIENT = Path(__file__).with_name("ort_client.py")

FEEDS = {
    "sequence": np.random.default_rng(1).standard_normal((3, 1, 8), np.float32),
    "image": np.random.default_rng(2).standard_normal((1, 16, 8, 8), np.float32),
}


class Many:
    """Nodes beside each other in one model, so that one process tries them all."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(0.5))

    def add(self, op: str, inputs: list[str], *shapes: tuple[int, ...], **attributes: Any) -> None:
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.outputs += [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in zip(names, shapes, strict=True)
        ]

    def model(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in FEEDS.items()
        ]
        graph = helper.make_graph(self.nodes, "ops", inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        model.ir_version = 9
        onnx.checker.check_model(model)
        return model


def recurrent(many: Many) -> None:
    hidden = 16
    for direction in ("forward", "reverse"):
        common = {"hidden_size": hidden, "direction": direction}
        many.add(
            "LSTM",
            ["sequence", many.weights(1, 64, 8), many.weights(1, 64, 16), many.weights(1, 128)],
            (3, 1, 1, hidden), (1, 1, hidden), (1, 1, hidden), **common,
        )  # fmt: skip
        for before in (0, 1):
            many.add(
                "GRU",
                ["sequence", many.weights(1, 48, 8), many.weights(1, 48, 16), many.weights(1, 96)],
                (3, 1, 1, hidden), (1, 1, hidden), **common, linear_before_reset=before,
            )  # fmt: skip


def resizes(many: Many) -> None:
    transforms = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for size, transform in itertools.product([(4, 4), (16, 16), (5, 11)], transforms):
        sizes = many.constant(np.array([1, 16, *size]))
        for mode, nearest in [
            ("nearest", "floor"), ("nearest", "round_prefer_floor"), ("nearest", "ceil"),
            ("linear", "floor"), ("cubic", "floor"),
        ]:  # fmt: skip
            many.add(
                "Resize", ["image", "", "", sizes], (1, 16, *size), mode=mode,
                coordinate_transformation_mode=transform, nearest_mode=nearest,
            )  # fmt: skip


def norms(many: Many) -> None:
    shape = (1, 16, 8, 8)
    many.add("LRN", ["image"], shape, size=5, alpha=0.5, beta=0.75, bias=1.0)
    many.add("LpNormalization", ["image"], shape, axis=-1, p=2)
    many.add("InstanceNormalization", ["image", many.weights(16), many.weights(16)], shape)
    many.add("LayerNormalization", ["image", many.weights(8), many.weights(8)], shape, axis=-1)


@pytest.mark.parametrize("family", [recurrent, resizes, norms])
def test_ops_mean_what_onnx_runtime_takes_them_for(family: Any, tmp_path: Path) -> None:
    many = Many()
    family(many)
    model = many.model()
    expected = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, FEEDS)
    files = [tmp_path / name for name in ("model.onnx", "inputs.npz", "outputs.npz")]
    onnx.save(model, files[0])
    np.savez(files[1], **FEEDS)
    process = subprocess.run(
        [sys.executable, str(CLIENT), *map(str, (files[0], BACKEND, files[1], files[2], 1))],
        env=dict(os.environ, QNNRT_PACKAGE_LIBS=str(Path(sys.prefix, "lib"))),
        capture_output=True, text=True, errors="replace", timeout=1800, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-4000:]
    assigned = json.loads(process.stdout.splitlines()[-1])["assigned"]
    mine = {node.op_type for node in many.nodes}
    elsewhere = {op for name, ops in assigned.items() if "QNN" not in name for op in ops}
    assert not mine & elsewhere
    with np.load(files[2]) as arrays:
        got = [arrays[name] for name in arrays.files]
    assert len(got) == len(expected)
    for output, a, b in zip(many.outputs, got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=output.name)
