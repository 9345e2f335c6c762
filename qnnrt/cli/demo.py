"""``qnnrt demo``: a convolutional network in a loop over shared buffers, and the copying way."""

from __future__ import annotations

import argparse
import sys
from itertools import cycle
from typing import Any

import numpy as np

from ..model import Model
from ..session import Session
from ._common import interleave, print_json, size
from ._network import exposure, mobilenet_v2

FRAMES = 4  # different frames, used one after the other


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "run a network of the package's own over shared buffers and compare with copying"
    parser = commands.add_parser("demo", help=text, description=text.capitalize() + ".")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    results = []
    for title, model, iterations in (
        ("MobileNetV2 classifier, 224x224, random weights", mobilenet_v2(), 40),
        ("exposure correction, 1080p float frames", exposure(1080, 1920), 40),
    ):
        result = compare(model, iterations)
        results.append({"network": title, **result})
        if not options.json:
            print(describe(title, result))
    copied = sum(r["copied_bytes"] for r in results)
    same = all(r["same_results"] for r in results)
    if options.json:
        print_json({"networks": results, "copied_bytes": copied, "same_results": same})
    else:
        print(f"zero-copy way: {copied} bytes copied in all")
    if copied or not same:
        what = f"{copied} bytes were copied" if copied else "the two ways gave different results"
        print(f"qnnrt demo: error: {what}", file=sys.stderr)
        return 1
    return 0


def compare(model: Model, iterations: int) -> dict[str, Any]:
    """Both ways on the same frames, interleaved; the producer's own writing is part of both."""
    (source,), (sink,) = model.inputs, model.outputs
    shape = model.tensors[source].shape
    random = np.random.default_rng(1)
    frames = [random.random(shape, dtype=np.float32) for _ in range(FRAMES)]
    with Session(model, strict=True) as shared, Session(model) as copying:
        x, y = shared.inputs[source], shared.outputs[sink]
        own = np.empty(shape, np.float32)
        result: dict[str, np.ndarray] = {}
        for_shared, for_copying = cycle(frames), cycle(frames)

        def zero_copy() -> None:
            np.copyto(x.array, next(for_shared))  # as a camera or decoder would: straight into it
            shared.run()

        def copy() -> None:
            np.copyto(own, next(for_copying))  # into memory of the producer's own
            result.update(copying.run({source: own}))

        times = interleave({"zero-copy": zero_copy, "copying": copy}, iterations, "running")
        return {
            "executes": shared.stats.executes,
            "copied_bytes": shared.stats.copied_bytes,
            "same_results": bool(np.array_equal(y.array, result[sink])),
            "io_bytes": x.array.nbytes + y.array.nbytes,
            "best": int(y.array.argmax()),
            "zero_copy": times["zero-copy"].as_json(),
            "copying": times["copying"].as_json(),
            "ratio": times["copying"].median / times["zero-copy"].median,
            "text": {name: str(t) for name, t in times.items()},
        }


def describe(title: str, result: dict[str, Any]) -> str:
    text = result["text"]
    return "\n".join(
        (
            f"{title}: {result['executes']} frames, {size(result['io_bytes'])} in and out a frame",
            f"  shared buffers  {text['zero-copy']}  {result['copied_bytes']} bytes copied",
            f"  copying         {text['copying']}  x{result['ratio']:.2f}",
        )
    )
