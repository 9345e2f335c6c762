"""``qnnrt bench``: shared buffers against copies, and against ONNX Runtime when it is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import util
from typing import Any

import numpy as np

from ._common import (
    add_model_options,
    input_arrays,
    interleave,
    load_model,
    print_json,
    size,
)

ZERO_COPY = "zero-copy"
COPYING = "copying"
ONNXRUNTIME = "onnxruntime"
MEANING = {
    ZERO_COPY: "bound shared buffers: Session.run()",
    COPYING: "arrays in, arrays out: Session.run({...})",
    ONNXRUNTIME: "ONNX Runtime's run(None, {...}) on its CPU provider",
}


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "time a model over shared buffers, with copies, and in ONNX Runtime when installed"
    parser = commands.add_parser("bench", help=text, description=text.capitalize() + ".")
    add_model_options(parser, iterations=50)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..session import Session

    model = load_model(options)
    with (
        Session(model, backend=options.backend, threads=options.threads) as bound,
        Session(model, backend=options.backend, threads=options.threads) as copying,
    ):
        feeds = input_arrays(bound, options)
        for name, array in feeds.items():
            bound.inputs[name].array[...] = array
        ways: dict[str, Callable[[], object]] = {
            ZERO_COPY: bound.run,
            COPYING: lambda: copying.run(feeds),
        }
        other = onnxruntime_way(options, feeds)
        if other is not None:
            ways[ONNXRUNTIME] = other
        bound.reset_stats()
        times = interleave(ways, options.iterations, "timing")
        copied = bound.stats.copied_bytes

    base = times[ZERO_COPY].median
    moved = sum(a.nbytes for a in feeds.values())
    if options.json:
        print_json(
            {
                "model": str(options.model),
                "backend": options.backend,
                "threads": options.threads,
                "input_bytes": moved,
                "copied_bytes": copied,
                "ways": {
                    name: t.as_json() | {"ratio": t.median / base, "what": MEANING[name]}
                    for name, t in times.items()
                },
            }
        )
        return 0
    print(f"{options.model}: {size(moved)} of input, {options.iterations} calls each, in turns")
    for name, t in times.items():
        print(f"{name:12} {t!s:34} x{t.median / base:.2f}  {MEANING[name]}")
    print(f"copied on the zero-copy way: {copied} bytes")
    if other is None:
        print("onnxruntime is not installed: `pip install onnxruntime` adds it to the comparison")
    return 0


def onnxruntime_way(
    options: argparse.Namespace, feeds: dict[str, np.ndarray]
) -> Callable[[], object] | None:
    if options.model.suffix != ".onnx" or util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(
        str(options.model), settings, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, feeds)
