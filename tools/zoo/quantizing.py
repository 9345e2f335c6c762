"""Models quantized by ONNX Runtime's own quantizer, and what ONNX Runtime computes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

Feeds = dict[str, np.ndarray]


class _Reader(CalibrationDataReader):
    def __init__(self, samples: list[Feeds]) -> None:
        self._left: Iterator[Feeds] = iter(samples)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized(
    proto: onnx.ModelProto,
    samples: list[Feeds],
    folder: Path,
    *,
    activations: QuantType = QuantType.QUInt8,
    weights: QuantType = QuantType.QInt8,
    form: QuantFormat = QuantFormat.QDQ,
    prepare: bool = False,
    per_channel: bool = True,
    **options: object,
) -> onnx.ModelProto:
    """`proto` quantized statically; `prepare` folds normalizations into convolutions before."""
    logging.getLogger().setLevel(logging.ERROR)  # it recommends things with every call
    source, target = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(proto, source)
    if prepare:
        quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantize_static(
        str(source),
        str(target),
        _Reader(samples),
        quant_format=form,
        activation_type=activations,
        weight_type=weights,
        per_channel=per_channel,
        **options,
    )
    return onnx.load(target)


def reference(proto: onnx.ModelProto, feeds: Feeds, fused: bool = False) -> list[np.ndarray]:
    """ONNX Runtime's outputs: node by node as the file says, or with its own fusions."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
