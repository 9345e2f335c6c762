"""``qnnrt bench``: shared buffers against copies, and the file's own runtime when installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import util
from itertools import repeat
from typing import Any

import numpy as np

from ..model import DynamicModel
from ..session import Session
from ._common import (
    add_model_options,
    input_arrays,
    interleave,
    load_shapes,
    print_json,
    session_options,
    shape_label,
    shape_sessions,
    size,
)
from ._precision import distance, faster_session

ZERO_COPY = "zero-copy"
COPYING = "copying"
ONNXRUNTIME = "onnxruntime"
LITERT = "ai-edge-litert"
MEANING = {
    ZERO_COPY: "bound shared buffers: Session.run()",
    COPYING: "arrays in, arrays out: Session.run({...})",
    ONNXRUNTIME: "ONNX Runtime's run(None, {...}) on its CPU provider",
    LITERT: "TFLite's set_tensor, invoke, get_tensor with its default delegate",
}


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "time a model over shared buffers, with copies, and in its own runtime when installed"
    parser = commands.add_parser("bench", help=text, description=text.capitalize() + ".")
    add_model_options(parser, iterations=50)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    model = load_shapes(options)
    given = session_options(options)
    reports = []
    with (
        Session(model, **given) as bound,
        Session(model, **given) as copying,
        faster_session(model, given, options) as faster,
    ):
        shapes = shape_sessions(bound, options)
        others = shape_sessions(copying, options)
        fasters = repeat(None) if faster is None else shape_sessions(faster, options)
        for one, two, three in zip(shapes, others, fasters, strict=False):
            if (label := shape_label(one)) and not options.json:
                print(f"{label}:")
            report = measure(one, two, three, options)
            reports.append({"shape": label, **report} if label else report)
    if options.json:
        about = {
            "model": str(options.model),
            "backend": options.backend,
            "threads": options.threads,
        }
        many = isinstance(model, DynamicModel)
        print_json(about | ({"shapes": reports} if many else reports[0]))
    return 0


def measure(
    bound: Session, copying: Session, faster: Session | None, options: argparse.Namespace
) -> dict[str, Any]:
    """The ways of one shape; prints them, or returns what is said of them as JSON."""
    feeds = input_arrays(bound, options)
    for name, array in feeds.items():
        bound.inputs[name].array[...] = array
    ways: dict[str, Callable[[], object]] = {
        ZERO_COPY: bound.run,
        COPYING: lambda: copying.run(feeds),
    }
    runtime = ONNXRUNTIME if options.model.suffix == ".onnx" else LITERT
    make = onnxruntime_way if runtime == ONNXRUNTIME else litert_way
    other, left_out = None, ""
    try:
        other = make(options, feeds)
        if other is not None:
            other()
            ways[runtime] = other
    except Exception as why:  # whatever it raises: the others are compared all the same
        left_out = " ".join(f"{why}".split()) or type(why).__name__
    error = 0.0
    if faster is not None:
        wanted = {name: array.copy() for name, array in bound.run(feeds).items()}
        error = distance(faster.run(feeds), wanted)
        ways[str(faster.precision)] = faster.run
    bound.reset_stats()
    times = interleave(ways, options.iterations, "timing")
    copied = bound.stats.copied_bytes

    base = times[ZERO_COPY].median
    meaning = dict(MEANING)
    if faster is not None:
        precision = next(reversed(times))
        meaning[precision] = (
            f"--precision {precision}: results off by {error:.1e} of their root mean square"
        )
    moved = sum(a.nbytes for a in feeds.values())
    if options.json:
        return {
            "input_bytes": moved,
            "copied_bytes": copied,
            "ways": {
                name: t.as_json() | {"ratio": t.median / base, "what": meaning[name]}
                for name, t in times.items()
            },
            **({"left_out": {runtime: left_out}} if left_out else {}),
        }
    print(f"{options.model}: {size(moved)} of input, {options.iterations} calls each, in turns")
    for name, t in times.items():
        print(f"{name:14} {t!s:34} x{t.median / base:.2f}  {meaning[name]}")
    print(f"copied on the zero-copy way: {copied} bytes")
    if options.cut_inputs is not None or options.cut_outputs is not None:
        print(f"{runtime} is not in the comparison: it runs whole files")
    elif left_out:
        print(f"{runtime} is not in the comparison: it does not run this file: {left_out}")
    elif other is None and options.model.suffix in (".onnx", ".tflite"):
        print(f"{runtime} is not installed: `pip install {runtime}` adds it to the comparison")
    return {}


def onnxruntime_way(
    options: argparse.Namespace, feeds: dict[str, np.ndarray]
) -> Callable[[], object] | None:
    if options.model.suffix != ".onnx" or util.find_spec("onnxruntime") is None:
        return None
    if options.cut_inputs is not None or options.cut_outputs is not None:
        return None  # it runs files as they are
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(
        str(options.model), settings, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, feeds)


def litert_way(
    options: argparse.Namespace, feeds: dict[str, np.ndarray]
) -> Callable[[], object] | None:
    """Inputs by position: they are in the file's order on both sides."""
    if options.model.suffix != ".tflite" or util.find_spec("ai_edge_litert") is None:
        return None
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(options.model), num_threads=options.threads)
    arrays = list(feeds.values())
    for detail, array in zip(runner.get_input_details(), arrays, strict=True):
        if tuple(detail["shape"]) != array.shape and detail["shape"].size:
            runner.resize_tensor_input(detail["index"], array.shape)
    runner.allocate_tensors()
    inputs = [
        (d["index"], array.reshape(tuple(d["shape"])))
        for d, array in zip(runner.get_input_details(), arrays, strict=True)
    ]
    outputs = [d["index"] for d in runner.get_output_details()]

    def run() -> object:
        for index, array in inputs:
            runner.set_tensor(index, array)
        runner.invoke()
        return [runner.get_tensor(index) for index in outputs]

    return run
