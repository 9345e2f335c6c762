"""Whole networks: the nine light models of the onnx package, on one thread and on two.

    python benchmarks/models.py [--smoke] [--json FILE] [--models NAME...] [--threads N...]

Their weights are random, seeded. Each runtime gets the network from the same ONNX bytes, float32,
with inputs and outputs bound. Their results are compared before the clock runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from _harness import Benchmark, optional, same
from _runtimes import Missing, in_onnxruntime, in_openvino, in_qnnrt

sys.path += [str(Path(__file__).parents[1] / "tests" / folder) for folder in ("clients", "python")]

MODELS = (
    "bvlc_alexnet densenet121 inception_v1 inception_v2 resnet50 "
    "shufflenet squeezenet vgg19 zfnet512"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=MODELS.split(), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int)


def measure(bench: Benchmark, name: str, threads: int) -> None:
    import client_models

    model = client_models.light_model(name, seed=1)
    del model.graph.output[1:]  # what the tests look at
    random = np.random.default_rng(2)
    feeds = {
        i.name: random.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in model.graph.input
    }
    case = bench.case(f"{name}, {threads} thread{'s' * (threads > 1)}", unit="ms")
    ours = in_qnnrt(model, feeds, threads)
    ours.call()
    case.add(ours.name, ours.call)
    _, bound = in_onnxruntime(model, feeds, threads)  # here run() takes as long as IOBinding
    for way in (bound, in_openvino(model, feeds, threads)):
        if isinstance(way, Missing):
            case.missing(way.name, way.reason)
            continue
        way.call()
        same(f"{name} in {way.name}", way.result(), ours.result(), rtol=1e-3)
        case.add(way.name, way.call)
    case.measure()
    ours.close()


def main() -> None:
    bench = Benchmark("models", __doc__, rounds=15, sample_ms=100, more=arguments)
    names = bench.options.models or (["squeezenet"] if bench.smoke else MODELS.split())
    cores = len(os.sched_getaffinity(0))
    if optional("onnxruntime") is None:
        bench.case("all networks").missing("onnxruntime", "not installed: it scales the weights")
        bench.finish()
        return
    for name in names:
        for threads in bench.options.threads or sorted({1, min(2, cores)}):
            measure(bench, name, threads)
    bench.finish()


if __name__ == "__main__":
    main()
