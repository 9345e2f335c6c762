"""Transformers and recurrent networks against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.onnx import models as onnx_models

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def agree(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], what: str) -> Model:
    reference = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = reference.run(None, feeds)
    model = importer.load(proto)
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
            found = session.run(feeds)
        for key, ref in zip(model.outputs, wanted, strict=True):
            np.testing.assert_allclose(
                found[key], ref, rtol=1e-3, atol=1e-5, err_msg=f"{key}, {kernels}, {what}"
            )
    return model


@pytest.mark.parametrize("opset", [13, 17])
def test_a_transformer_encoder_matches_onnxruntime(opset: int) -> None:
    seed = 7
    rng = np.random.default_rng(seed)
    mask = np.ones((2, 10), np.int64)
    mask[1, 6:] = 0
    feeds = {"ids": rng.integers(0, 50, (2, 10)), "mask": mask}
    model = agree(onnx_models.transformer_encoder(seed, opset=opset), feeds, f"seed {seed}")
    counts = model.op_counts()
    assert counts["Gelu"] == 2
    assert counts["Softmax"] == 2
    # Queries, keys, values and the result of each layer: what is moved for the products, no more.
    assert counts["Transpose"] == 8
    assert counts["LayerNorm"] == 5  # spelled out in opset 13


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_matches_onnxruntime(kind: str, direction: str, initial: bool) -> None:
    seed = 11
    rng = np.random.default_rng(seed)
    proto = onnx_models.recurrent(kind, direction, seed, initial=initial)
    feeds = {
        value.name: rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])
        .astype(np.float32)
        for value in proto.graph.input
    }  # fmt: skip
    model = agree(proto, feeds, f"{kind} {direction}, seed {seed}")
    if kind != "RNN":
        ways = 2 if direction == "bidirectional" else 1
        assert model.op_counts()[kind.capitalize()] == ways


@pytest.mark.parametrize("reset", [0, 1])
def test_a_gru_resets_before_or_after_the_product(reset: int) -> None:
    proto = onnx_models.recurrent("GRU", "forward", 3, linear_before_reset=reset)
    x = np.random.default_rng(4).standard_normal((6, 2, 5)).astype(np.float32)
    agree(proto, {"x": x}, f"linear_before_reset={reset}")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_biases_may_be_left_out(kind: str) -> None:
    proto = onnx_models.recurrent(kind, "forward", 5, bias=False)
    x = np.random.default_rng(6).standard_normal((6, 2, 5)).astype(np.float32)
    agree(proto, {"x": x}, "no bias")
