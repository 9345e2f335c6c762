"""``qnnrt context-binary-generator``: models, prepared, as the graphs of one context binary."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import ExitStack
from typing import Any

from .._native import _core
from ._common import UsageError, print_json, seconds, size
from ._config_file import read_config
from ._prepare import Ready, Wanted, prepare
from ._sources import ONNX_AND_OTHERS, given_cut, sources
from ._timeline import open_timed
from ._tools import (
    Warn,
    add_backend_options,
    backend_library,
    harmless,
    logged,
    names_by_graph,
    tool_parser,
)
from ._values import described, nbytes

MEM_TYPES = ("raw", "memhandle")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    parser = tool_parser(
        commands, "context-binary-generator", "prepare models and write them as a context binary"
    )
    parser.add_argument(
        "--model",
        required=True,
        metavar="FILE[,...]",
        help=f"{ONNX_AND_OTHERS}; several become the graphs of one binary",
    )
    add_backend_options(parser)
    parser.add_argument(
        "--binary_file",
        metavar="NAME",
        help="a bare name, to which .bin is appended; without it nothing is written",
    )
    parser.add_argument(
        "--input_output_tensor_mem_type",
        choices=MEM_TYPES,
        help="how inputs and outputs will be bound; raw, or what a .py file declares",
    )
    parser.add_argument(
        "--enable_intermediate_outputs",
        action="store_true",
        help="every intermediate tensor becomes an output",
    )
    parser.add_argument(
        "--set_output_tensors",
        metavar="GRAPH:TENSOR[,...][;...]",
        type=names_by_graph,
        help="these intermediate tensors become outputs, too",
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="keep constants beside the form that this machine's kernels read: the binary loads on "
        "machines with other kernels, too, and is up to twice as large",
    )
    harmless(parser, "--htp_socs", "kernels are those of this machine", metavar="SOC[,...]")
    parser.set_defaults(run=run)


def bare_name(name: str) -> str:
    """The file that ``--binary_file`` stands for.

    Raises:
        UsageError: a path, or nothing.
    """
    if not name or os.sep in name or name in (".", "..") or "\0" in name:
        raise UsageError(
            f"--binary_file {name!r}: expected a name without a folder; --output_dir is the folder"
        )
    return f"{name}.bin"


def run(options: argparse.Namespace) -> int:
    warn = Warn(options)
    file_name = bare_name(options.binary_file) if options.binary_file is not None else None
    if options.enable_intermediate_outputs and options.set_output_tensors:
        raise UsageError(
            "--enable_intermediate_outputs makes every tensor an output: leave "
            "--set_output_tensors out"
        )
    models = sources(
        options.model.split(","),
        options.model_prefix,
        given_cut(options),
        options.shape,
        options.capacity,
    )
    library = backend_library(options.backend)
    settings = read_config(options.config_file, library, warn)
    wanted = Wanted(
        mem_type=options.input_output_tensor_mem_type,
        portable=options.portable,
        all_outputs=options.enable_intermediate_outputs,
        outputs=options.set_output_tensors,
    )
    if file_name is None:
        warn("without --binary_file the models are prepared and nothing is written")
    start = time.perf_counter()
    with logged(options.log_level), ExitStack() as stack:
        backend, timeline = open_timed(stack, options, settings, warn)
        context, made = prepare(backend, models, settings, wanted, timeline.record)
        path, written = None, 0
        if file_name is not None:
            path = options.output_dir / file_name
            timeline.record("get_binary", "", lambda profile: context.save_binary(path))
            written = path.stat().st_size
        report: dict[str, Any] = {
            "binary": None if path is None else str(path),
            "bytes": written,
            "backend": backend.name,
            "graphs": [_described(ready) for graphs in made for ready in graphs],
            "seconds": time.perf_counter() - start,
            "warnings": warn.lines,
        }
    if options.json:
        print_json(report)
        return 0
    for graph in report["graphs"]:
        print(f"graph {graph['name']}")
        for kind in ("inputs", "outputs"):
            for t in graph[kind]:
                print(f"  {kind[:-1]:6}  {t['described']}, {t['mem_type']}")
    if path is not None:
        print(f"{path}: {size(written)} in {seconds(report['seconds'])}")
    return 0


def _described(ready: Ready) -> dict[str, Any]:
    """A graph as a JSON value."""
    stats = ready.context.backend.library.graph_stats(ready.graph.handle) or {}
    return {
        "name": ready.name,
        "inputs": [_tensor(t) for t in ready.inputs],
        "outputs": [_tensor(t) for t in ready.outputs],
        "reserved_bytes": stats.get("reserved_bytes"),
        "arena_bytes": stats.get("arena_bytes"),
        "weight_bytes": stats.get("weight_bytes"),
    }


def _tensor(tensor: _core.Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "described": described(tensor),
        "shape": list(tensor.shape),
        "bytes": nbytes(tensor),
        "mem_type": MEM_TYPES[tensor.mem_type],
    }
