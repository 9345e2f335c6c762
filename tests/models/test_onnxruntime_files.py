"""The networks as ONNX Runtime's tools write them: its sessions, and its optimizer of transformers.

Each is compared with torch in float64, as the files of torch's exporters are.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import onnx
import onnxruntime

import qnnrt
from architectures import NETWORKS, made
from export_networks import cached

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
]

SEED = 2
#: Of the largest value of an output.
TOLERANCE = 2e-5
LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}

#: Network -> what the optimizer of transformers takes it for, and operators that it has to write.
KINDS = {
    "bert_base": ("bert", "Attention SkipLayerNormalization BiasGelu"),
    "gpt2_small": ("gpt2", "SkipLayerNormalization FastGelu"),
    "llama_6": ("gpt2", "SimplifiedLayerNormalization SkipSimplifiedLayerNormalization"),
    "t5_small": ("t5", "SkipSimplifiedLayerNormalization"),
    "whisper_tiny": ("bart", "Attention SkipLayerNormalization BiasGelu"),
    "vit_s16": ("vit", "SkipLayerNormalization BiasGelu"),
    "swin_tiny": ("swin", "BiasGelu"),
    "clip_b32": ("clip", "SkipLayerNormalization QuickGelu"),
    "conformer_s": ("conformer", "SkipLayerNormalization"),
    "diffusion_unet": ("unet", "NhwcConv GroupNorm SkipGroupNorm BiasSplitGelu"),
}


def check(path: Path, name: str) -> None:
    network = made(name, tiny=True)
    feeds = network.feeds(SEED)
    exact = network.exact(feeds)
    with qnnrt.Session(path, threads=1) as session:
        session.run(feeds)
        found = [tensor.array.copy() for tensor in session.outputs.values()]
    for ours, expected in zip(found, exact, strict=True):
        error = np.abs(ours.reshape(expected.shape) - expected).max() / np.abs(expected).max()
        assert error < TOLERANCE


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_a_session_has_optimized(name: str, level: str, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(cached(tmp_path, name, tiny=True)), options)
    check(tmp_path / "optimized.onnx", name)


@pytest.mark.parametrize("name", KINDS)
def test_a_network_from_the_optimizer_of_transformers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    from onnxruntime.transformers.fusion_options import FusionOptions

    monkeypatch.setattr(logging.root, "disabled", True)
    kind, operators = KINDS[name]
    found = optimizer.optimize_model(
        str(cached(tmp_path, name, tiny=True)),
        model_type=kind,
        opt_level=0,
        optimization_options=FusionOptions(kind),
    )
    path = tmp_path / "optimized.onnx"
    found.save_model_to_file(str(path))
    assert set(operators.split()) <= {node.op_type for node in onnx.load(path).graph.node}
    check(path, name)
