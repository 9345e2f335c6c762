"""From a float ONNX model to a quantized one: ONNX Runtime quantizes, qnnrt runs both.

    python quantize.py model.onnx --data samples/*.npz
    python quantize.py encoder.onnx --data samples/*.npz --activations 16
    python quantize.py encoder.onnx --data samples/*.npz --wide 'LayerNormalization|Gelu'

A sample is one input of the model: an .npz file with an array under each input's name, from the
data that the model is made for. See docs/quantization.md for the settings.
"""

import argparse
import logging
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import qnnrt

Sample = dict[str, np.ndarray]
TYPES = {8: QuantType.QUInt8, 16: QuantType.QUInt16}


class Samples(CalibrationDataReader):
    """Hands them to the quantizer, which measures the range of every tensor on them."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.left = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self.left, None)


def quantize(
    model: Path, output: Path, samples: Iterable[Sample], bits: int = 8, wide: str | None = None
) -> None:
    """Quantize `model` into `output`: activations of `bits` bits, weights of 8 for each channel.

    Tensors have 16 bits where `wide`, a regular expression, is found in "TYPE NAME": the operator
    that makes the tensor, and the tensor's name.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Normalizations are folded into convolutions, shapes worked out.
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        overrides = {
            name: [{"quant_type": QuantType.QUInt16}]
            for node in onnx.load(prepared).graph.node
            for name in node.output
            if wide is not None and re.search(wide, f"{node.op_type} {name}")
        }
        quantize_static(
            str(prepared),
            str(output),
            Samples(samples),
            quant_format=QuantFormat.QDQ,
            activation_type=TYPES[bits],
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"TensorQuantOverrides": overrides},
        )


def compare(model: Path, quantized: Path, samples: Iterable[Sample]) -> None:
    """Print how far each output of the quantized model is from the float one's."""
    errors: dict[str, np.ndarray] = {}
    with qnnrt.Session(model) as exact, qnnrt.Session(quantized) as rounded:
        for sample in samples:
            found = rounded.run(sample)
            for name, wanted in exact.run(sample).items():
                x, y = (a.astype(np.float64).ravel() for a in (wanted, found[name]))
                sums = np.array([x @ y, x @ x, y @ y, (x - y) @ (x - y)])
                errors[name] = errors.get(name, 0) + sums
    for name, (xy, xx, yy, noise) in errors.items():
        cosine = xy / np.sqrt(xx * yy)
        snr = 10 * np.log10(xx / noise) if noise else np.inf
        print(f"{name}: cosine {cosine:.5f}, signal to noise {snr:.1f} dB")
    for path in (model, quantized):
        print(f"{path.name}: {path.stat().st_size / 1024:,.0f} KiB")


def toy(path: Path) -> list[Sample]:
    """A small convolutional network of random weights, and samples for it."""
    random = np.random.default_rng(0)
    sizes = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "w3": (10, 16)}
    weights = [
        onnx.numpy_helper.from_array(
            random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape).astype(np.float32), name
        )
        for name, shape in sizes.items()
    ]
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["image", "w1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["sum"]),
        node("Relu", ["sum"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "w3"], ["scores"], transB=1),
    ]
    value = onnx.helper.make_tensor_value_info
    image = value("image", onnx.TensorProto.FLOAT, [1, 3, 32, 32])
    scores = value("scores", onnx.TensorProto.FLOAT, [1, 10])
    graph = onnx.helper.make_graph(nodes, "toy", [image], [scores], weights)
    opset = onnx.helper.make_opsetid("", 21)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return [{"image": random.standard_normal((1, 3, 32, 32), np.float32)} for _ in range(16)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="a float model (none: a small one)")
    parser.add_argument("--data", nargs="+", type=Path, default=[], help=".npz files, one a sample")
    parser.add_argument("--output", type=Path, help="the file to write (MODEL.quantized.onnx)")
    parser.add_argument("--activations", type=int, choices=TYPES, default=8, help="their bits")
    parser.add_argument("--wide", metavar="REGEX", help="operators whose results get 16 bits")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # the quantizer warns of what is as it should be
    if options.model and not options.data:
        parser.error("--data: a model of your own needs samples of its inputs")
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or Path(folder) / "toy.onnx"
        samples = [dict(np.load(path)) for path in options.data] or toy(model)
        output = options.output or model.with_suffix(".quantized.onnx")
        # Ranges are measured on the first half, agreement on the other.
        half = (len(samples) + 1) // 2
        quantize(model, output, samples[:half], options.activations, options.wide)
        compare(model, output, samples[half:] or samples)


if __name__ == "__main__":
    main()
