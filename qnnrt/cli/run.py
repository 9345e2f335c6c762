"""``qnnrt run``: a model on input files, or on random inputs."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..model import DynamicModel
from ..session import Session
from ._common import (
    add_model_options,
    input_arrays,
    interleave,
    load_shapes,
    make_folder,
    print_json,
    progress,
    session_options,
    shape_label,
    shape_sessions,
    size,
    timing,
)
from ._precision import distance, faster_session


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "run a model on input files, or on random inputs"
    parser = commands.add_parser("run", help=text, description=text.capitalize() + ".")
    add_model_options(parser, iterations=1)
    parser.add_argument("--output-dir", metavar="DIR", type=Path, help="write each output as .npy")
    parser.add_argument(
        "--io",
        choices=("memhandle", "raw"),
        default="memhandle",
        help="how inputs and outputs are bound (default memhandle)",
    )
    parser.add_argument("--strict", action="store_true", help="an avoidable copy is an error")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    model = load_shapes(options)
    if options.output_dir is not None:
        make_folder(options.output_dir)
    given = session_options(options)
    reports = []
    with (
        Session(model, io=options.io, strict=options.strict, **given) as session,
        faster_session(model, given, options) as faster,
    ):
        shapes = shape_sessions(session, options)
        fasters = repeat(None) if faster is None else shape_sessions(faster, options)
        for one, other in zip(shapes, fasters, strict=False):
            if (label := shape_label(one)) and not options.json:
                print(f"{label}:")
            report = run_shape(one, other, options, one.graph.name if label else "")
            reports.append({"shape": label, **report} if label else report)
    if options.json:
        print_json({"shapes": reports} if isinstance(model, DynamicModel) else reports[0])
    return 0


def run_shape(
    session: Session, faster: Session | None, options: argparse.Namespace, folder: str
) -> dict[str, Any]:
    """Runs one shape; prints what came out, or returns it as JSON. Its files go into a folder of
    this name in the one that is given."""
    for name, array in input_arrays(session, options).items():
        session.inputs[name].array[...] = array
    samples = []
    for _ in progress(range(options.iterations), "running"):
        start = time.perf_counter()
        session.run()
        samples.append(time.perf_counter() - start)
    outputs = {name: np.array(t.array) for name, t in session.outputs.items()}
    stats = asdict(session.stats)
    stats["copies"] = [copy._asdict() for copy in session.stats.copies]
    other = compare(session, outputs, faster)
    files = write_outputs(outputs, options.output_dir / folder) if options.output_dir else {}

    times = timing(samples)
    if options.json:
        described = {
            name: {"shape": list(a.shape), "dtype": a.dtype.name, "file": files.get(name)}
            | summary(a)
            for name, a in outputs.items()
        }
        return {"outputs": described, "run": times.as_json(), "stats": stats, "other": other}
    for name, a in outputs.items():
        values = ", ".join(f"{key} {value:.6g}" for key, value in summary(a).items())
        where = f" -> {files[name]}" if name in files else ""
        print(f"{name}: {a.dtype.name}{list(a.shape)} {values}{where}")
    calls = f"{times.calls} runs" if times.calls > 1 else "1 run"
    print(f"{calls}: {times}, {size(stats['copied_bytes'])} copied")
    for name, what in other.items():
        print(
            f"--precision {name} would take {what['ratio']:.2g} of the time; its results are off "
            f"by {what['error']:.1e} of their root mean square"
        )
    return {}


def compare(
    session: Session, outputs: dict[str, np.ndarray], faster: Session | None
) -> dict[str, dict[str, float]]:
    """What the fastest precision of this processor would bring, by its name; empty where there is
    no other."""
    if faster is None:
        return {}
    got = faster.run({name: np.array(t.array) for name, t in session.inputs.items()})
    error = distance(got, outputs)
    times = interleave({"": session.run, "faster": faster.run}, 5, "comparing")
    ratio = times["faster"].median / times[""].median
    return {str(faster.precision): {"ratio": ratio, "error": error}}


def summary(array: np.ndarray) -> dict[str, float | int]:
    """A few numbers to recognise an output by."""
    if array.size == 0:
        return {"elements": 0}
    values = array.astype(np.float64)
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "argmax": int(values.argmax()),
    }


def write_outputs(outputs: dict[str, np.ndarray], folder: Path) -> dict[str, str]:
    """Writes NAME.npy for each; characters that a file name cannot have become underscores."""
    make_folder(folder)
    files: dict[str, str] = {}
    for name, array in outputs.items():
        stem = re.sub(r"[^\w.-]", "_", name)
        path = folder / f"{stem}.npy"
        if str(path) in files.values():
            path = folder / f"{stem}_{len(files)}.npy"
        np.save(path, array)
        files[name] = str(path)
    return files
