"""Whole networks: the nine light models of the onnx package, on one thread and on two.

    python benchmarks/models.py [--precision float|int8] [--smoke] [--json FILE] [--models NAME...]
                                [--threads N...]

Their weights are random, seeded. Each runtime reads the network from the same ONNX bytes, with
inputs and outputs bound: in float32, or quantized by ONNX Runtime's quantizer (Quantize and
Dequantize nodes, unsigned 8-bit activations, signed 8-bit weights with a scale for each channel,
calibrated with seeded random inputs). Their results are compared before the clock runs. Another
runtime first runs a network in a process of its own: one that crashes is reported as such.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from _harness import Benchmark, Case, optional, same
from _runtimes import Feeds, Missing, Ready, bound_in_onnxruntime, crash, in_openvino, in_qnnrt
from onnx import version_converter

sys.path.append(str(Path(__file__).parents[1] / "tools"))

MODELS = (
    "bvlc_alexnet densenet121 inception_v1 inception_v2 resnet50 "
    "shufflenet squeezenet vgg19 zfnet512"
)


# What the outputs of a quantized network must have in common with those of ONNX Runtime without any
# fusion (cosine): each runtime rounds at steps of its own, and a step in one layer moves many in
# the next.
SIMILAR = 0.97


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--precision", choices=("float", "int8"))  # float; a smoke test does both
    parser.add_argument("--models", nargs="+", choices=MODELS.split(), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int)


def feeds_of(model: onnx.ModelProto, seed: int) -> Feeds:
    random = np.random.default_rng(seed)
    return {
        i.name: random.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in model.graph.input
    }


def network(name: str, precision: str) -> onnx.ModelProto:
    from zoo import client_models

    model = client_models.light_model(name, seed=1)
    del model.graph.output[1:]  # what the tests look at
    if precision == "float":
        return model
    from zoo import quantizing

    model = version_converter.convert_version(model, 17)  # scales for channels came with 13
    with tempfile.TemporaryDirectory() as folder:
        samples = [feeds_of(model, seed) for seed in (3, 4, 5)]
        return quantizing.quantized(model, samples, Path(folder), prepare=True)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def measure(
    bench: Benchmark, name: str, model: onnx.ModelProto, precision: str, threads: int
) -> Case:
    feeds = feeds_of(model, seed=2)
    kind = "" if precision == "float" else f" {precision}"
    case = bench.case(f"{name}{kind}, {threads} thread{'s' * (threads > 1)}", unit="ms")
    ours = in_qnnrt(model, feeds, threads)
    ours.call()
    case.add(ours.name, ours.call)
    expected = None
    if precision == "int8":
        from zoo import quantizing

        (expected,) = quantizing.reference(model, feeds)
        found = cosine(ours.result(), expected)
        assert found > SIMILAR, f"{name} computes something else: cosine {found:.3f}"
    ways = [ours]  # they own what their calls read and write
    makers = {"onnxruntime IOBinding": bound_in_onnxruntime, "openvino infer()": in_openvino}
    for label, make in makers.items():
        # Each is known to run the float networks.
        reason = "" if expected is None else crash(make, model, feeds, threads)
        way = Missing(label, reason) if reason else make(model, feeds, threads)
        if isinstance(way, Ready):
            way.call()
            if expected is None:
                same(f"{name} in {label}", way.result(), ours.result(), rtol=1e-3)
            elif (found := cosine(way.result(), expected)) < SIMILAR:
                way = Missing(label, f"computes something else: cosine {found:.2f}")
        if isinstance(way, Missing):
            case.missing(way.name, way.reason)
            continue
        ways.append(way)
        case.add(way.name, way.call)
    case.measure()
    ours.close()
    return case


def collect(ratios: dict[str, list[float]], case: Case, threads: int) -> None:
    """The ratios of a case, of each other runtime and of the faster one."""
    where = f"{threads} thread{'s' * (threads > 1)}"
    rows = [row for row in case.rows()[1:] if "ratio" in row]
    for row in rows:
        ratios.setdefault(f"{row['name']}, {where}", []).append(row["ratio"])
    if rows:
        fastest = min(row["ratio"] for row in rows)
        ratios.setdefault(f"the faster one, {where}", []).append(fastest)


def main() -> None:
    bench = Benchmark("models", __doc__, rounds=15, sample_ms=100, more=arguments)
    precisions = [bench.options.precision or "float"]
    if bench.smoke and bench.options.precision is None:
        precisions = ["float", "int8"]
    if precisions == ["int8"]:
        bench.name += "-int8"
    names = bench.options.models or (["squeezenet"] if bench.smoke else MODELS.split())
    cores = len(os.sched_getaffinity(0))
    if optional("onnxruntime") is None:
        why = "not installed: it scales the weights, and quantizes"
        bench.case("all networks").missing("onnxruntime", why)
        bench.finish()
        return
    ratios: dict[str, list[float]] = {}
    for name, precision in product(names, precisions):
        model = network(name, precision)
        for threads in bench.options.threads or sorted({1, min(2, cores)}):
            collect(ratios, measure(bench, name, model, precision, threads), threads)
    bench.means(ratios)
    bench.finish()


if __name__ == "__main__":
    main()
