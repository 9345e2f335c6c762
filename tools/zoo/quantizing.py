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


#: Operators on integers: where the zero point of their data stands, their weights, and the zero
#: point of those.
_PRODUCTS = {
    "ConvInteger": (2, 1, 3),
    "DynamicQuantizeMatMul": (None, 1, 3),
    "MatMulInteger": (2, 1, 3),
    "MatMulIntegerToFloat": (4, 1, 5),
    "QGemm": (2, 3, 5),
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
}


def unsigned(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same products of uint8 data with constant int8 weights, which become uint8.

    ONNX Runtime adds products of uint8 and int8 in saturated 16-bit pairs on x86 processors without
    VNNI; its option session.x64quantprecision does this, but not without its other fusions.
    """
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    held = {i.name: i for i in proto.graph.initializer}

    def shifted(name: str, values: np.ndarray) -> str:
        if (unsigned := f"{name} unsigned") not in held:
            moved = (values.astype(np.int16) + 128).astype(np.uint8)
            held[unsigned] = onnx.numpy_helper.from_array(moved, unsigned)
            proto.graph.initializer.append(held[unsigned])
        return unsigned

    for node in proto.graph.node:
        if node.op_type not in _PRODUCTS:
            continue
        data, weights, zero = _PRODUCTS[node.op_type]
        tensor = held.get(node.input[weights])
        if tensor is None or tensor.data_type != onnx.TensorProto.INT8:
            continue
        if data is not None and len(node.input) > data:
            of_data = held.get(node.input[data])
            if of_data is not None and of_data.data_type == onnx.TensorProto.INT8:
                continue
        node.input.extend([""] * (zero + 1 - len(node.input)))
        name = node.input[zero]
        if name and name not in held:
            continue
        zeros = onnx.numpy_helper.to_array(held[name]) if name else np.zeros((), np.int8)
        node.input[zero] = shifted(name or "zero", zeros)
        node.input[weights] = shifted(tensor.name, onnx.numpy_helper.to_array(tensor))
    return proto


def reference(proto: onnx.ModelProto, feeds: Feeds, fused: bool = False) -> list[np.ndarray]:
    """ONNX Runtime's outputs: node by node as the file says, or with its own fusions."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        proto = unsigned(proto)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
