"""``qnnrt net-run``: a model or a context binary on input lists, as the SDK's net-run does it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..lpai import ID as LPAI
from ..qnn.backend import Backend
from ._common import UsageError, count, print_json, seconds, size
from ._config_file import PERF_PROFILES, ToolConfig, read_config
from ._io_sets import HANDLE_TYPES
from ._net_jobs import Job, execute, make_jobs, report
from ._prepare import Ready, Wanted, prepare, retrieve
from ._sources import LibrarySource, Source, given_cut, sources
from ._timeline import Timeline, open_timed
from ._tools import (
    Warn,
    add_backend_options,
    backend_library,
    logged,
    names_by_graph,
    refused,
    tool_parser,
)

METADATA = "execution_metadata.yaml"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    parser = tool_parser(commands, "net-run", "run a model or a context binary on input lists")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument(
        "--model",
        metavar="FILE[,...]",
        help="prepare and run models: .onnx, .tflite, .py with compose(graph), or libraries (.so)",
    )
    model.add_argument(
        "--retrieve_context", metavar="FILE[,...]", help="run the graphs of context binaries"
    )
    parser.add_argument(
        "--graph",
        metavar="NAME[,...]",
        type=lambda text: [name for name in text.split(",") if name],
        help="of context binaries only these graphs, in this order; the others are not made",
    )
    parser.add_argument(
        "--input_list",
        metavar="FILE[,...]",
        help="one list for each graph, __ to leave a graph out",
    )
    add_backend_options(parser)
    _add_formats(parser)
    _add_memory(parser)
    _add_loop(parser)
    _add_others(parser)
    parser.set_defaults(run=run)


def _add_formats(parser: argparse.ArgumentParser) -> None:
    native = parser.add_mutually_exclusive_group()
    native.add_argument(
        "--use_native_input_files",
        action="store_true",
        help="input files are in the tensors' own types, not float32",
    )
    native.add_argument(
        "--native_input_tensor_names",
        metavar="GRAPH:TENSOR[,...][;...]",
        type=names_by_graph,
        help="the files of these inputs are",
    )
    parser.add_argument(
        "--input_data_type",
        choices=("float", "native"),
        help="the same in one word; float says that float32 is meant where a size fits both",
    )
    parser.add_argument(
        "--use_native_output_files",
        action="store_true",
        help="as --output_data_type native_only",
    )
    parser.add_argument(
        "--output_data_type",
        choices=("float_only", "native_only", "float_and_native"),
        help="write NAME.raw as float32, NAME_native.raw as it is, or both (default float_only)",
    )
    parser.add_argument(
        "--set_output_tensors",
        metavar="GRAPH:TENSOR[,...][;...]",
        type=names_by_graph,
        help="write these intermediate tensors, too; with --model",
    )
    parser.add_argument(
        "--debug", action="store_true", help="write every intermediate tensor; with --model"
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shared_buffer",
        action="store_true",
        help="inputs and outputs by memory handle, all in one buffer; plain addresses without it",
    )
    parser.add_argument(
        "--io_tensor_mem_handle_type",
        choices=tuple(HANDLE_TYPES),
        help="by memory handle of this type",
    )
    parser.add_argument(
        "--input_output_tensor_mem_type",
        choices=("raw", "memhandle"),
        help="with --model: declare inputs and outputs so, as context-binary-generator does",
    )
    parser.add_argument(
        "--use_mmap",
        action="store_true",
        help="use the weights of a context binary where it is mapped, without a copy",
    )
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument(
        "--max_input_cache_tensor_sets",
        metavar="N",
        type=count,
        help="inferences whose inputs stay in memory when the list is repeated",
    )
    cache.add_argument(
        "--max_input_cache_size_mb",
        metavar="N",
        type=count,
        help="the same as a number of MiB",
    )


def _add_loop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num_inferences", metavar="N", type=count, help="repeat the list up to N executions"
    )
    parser.add_argument(
        "--duration", metavar="SECONDS", type=_duration, help="repeat the list for so long"
    )
    parser.add_argument(
        "--keep_num_outputs",
        metavar="N",
        type=_not_negative,
        help="write no more than the first N results",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--synchronous", action="store_true", help="one execution after the other (the default)"
    )
    way.add_argument("--asynchronous", action="store_true", help="several executions in flight")
    parser.add_argument(
        "--batch_multiplier",
        metavar="N",
        type=count,
        default=1,
        help="input files stand for N times the tensors' length; executed piece by piece",
    )


def _add_others(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--perf_profile", choices=PERF_PROFILES, help="power and performance of the device"
    )
    parser.add_argument(
        "--device_options", metavar="KEY:VALUE[;...]", default="", help="device_id:0;core_id:0"
    )
    parser.add_argument(
        "--validate_binary",
        action="store_true",
        help="ask the backend about a context binary before it is loaded",
    )
    refused(
        parser,
        "--binary_updates",
        "binaries are not updated here: make a new one",
        metavar="FILE[,...]",
    )
    parser.add_argument(
        "--direct_mode",
        nargs="?",
        choices=("adsp",),
        const="adsp",
        help="lpai: as inside of the aDSP, where TCM is; no effect on other backends",
    )


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _not_negative(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _check(options: argparse.Namespace, warn: Warn) -> None:
    """Options that do not go together."""
    if options.retrieve_context is not None:
        if options.input_output_tensor_mem_type:
            raise UsageError(
                "--input_output_tensor_mem_type cannot be used with --retrieve_context: it is in "
                "the binary, from context-binary-generator"
            )
        for name in ("debug", "set_output_tensors"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} cannot be used with --retrieve_context: the graphs are prepared; "
                    "give it to context-binary-generator (--enable_intermediate_outputs, "
                    "--set_output_tensors)"
                )
    else:
        for name in ("use_mmap", "validate_binary"):
            if getattr(options, name):
                warn(f"--{name} has no effect with --model: there is no context binary")
    if options.debug and options.set_output_tensors:
        raise UsageError("--debug writes every tensor: leave --set_output_tensors out")
    if options.shared_buffer and options.io_tensor_mem_handle_type not in (None, "shared_buffer"):
        raise UsageError("--shared_buffer and --io_tensor_mem_handle_type contradict each other")
    native = options.use_native_input_files or options.native_input_tensor_names is not None
    if options.input_data_type == "float" and native:
        raise UsageError("--input_data_type float contradicts the options for native files")
    if options.use_native_output_files and options.output_data_type not in (None, "native_only"):
        raise UsageError(
            f"--output_data_type {options.output_data_type} contradicts --use_native_output_files"
        )
    if options.num_inferences is not None and options.duration is not None:
        raise UsageError("--num_inferences and --duration: give one of them")


def run(options: argparse.Namespace) -> int:
    warn = Warn(options)
    _check(options, warn)
    models: list[Source | LibrarySource] = []
    if options.model is None and given_cut(options):
        raise UsageError("--cut_inputs, --cut_outputs: a context binary is loaded as it is")
    if options.model is None and options.shape:
        raise UsageError("--shape: the shapes in a context binary were chosen when it was made")
    if options.model is None and options.capacity:
        raise UsageError("--capacity: the sizes in a context binary were chosen when it was made")
    if options.model is not None and options.graph is not None:
        raise UsageError("--graph is for --retrieve_context: __ in --input_list leaves a graph out")
    if options.model is not None:
        models = sources(
            options.model.split(","),
            options.model_prefix,
            given_cut(options),
            options.shape,
            options.capacity,
        )
    library = backend_library(options.backend)
    settings = read_config(options.config_file, library, warn, options.device_options)
    if options.direct_mode is not None and library.backend_id != LPAI:
        warn("--direct_mode has no effect here: there is one way to run")
    settings.direct_mode = options.direct_mode is not None and library.backend_id == LPAI
    _check_lpai(options, settings)
    with logged(options.log_level), ExitStack() as stack:
        backend, timeline = open_timed(stack, options, settings, warn, options.perf_profile)
        jobs = make_jobs(options, _graphs(options, backend, models, settings, timeline), warn)
        for job in jobs:
            execute(options, job, settings, timeline)
        _finish(options, jobs)
        graphs = [report(job) for job in jobs]
    _say(options, graphs, warn)
    if library.backend_id == LPAI and not options.json:
        print("Finished Executing Graphs")
        if settings.direct_mode:
            print("NonRPC net-run SUCCESS")
    return 0


def _check_lpai(options: argparse.Namespace, settings: ToolConfig) -> None:
    tcm = settings.lpai_config is not None and settings.lpai_config.mem_type == "tcm"
    if tcm and options.use_mmap and options.retrieve_context is not None:
        raise UsageError(
            "--use_mmap leaves the binary in its file, mem_type tcm moves it into TCM: leave one "
            "of them out"
        )


def _graphs(
    options: argparse.Namespace,
    backend: Backend,
    models: Sequence[Source | LibrarySource],
    settings: ToolConfig,
    timeline: Timeline,
) -> list[Ready]:
    if options.retrieve_context is not None:
        graphs = retrieve(
            backend,
            [Path(path) for path in options.retrieve_context.split(",")],
            settings,
            mapped=options.use_mmap,
            validate=options.validate_binary,
            record=timeline.record,
            wanted=options.graph,
        )
        for ready in graphs:
            if given := settings.retrieved_graph(ready.name):
                ready.graph.set_config(**given)
        return graphs
    wanted = Wanted(
        mem_type=options.input_output_tensor_mem_type,
        all_outputs=options.debug,
        outputs=options.set_output_tensors,
    )
    _, made = prepare(backend, models, settings, wanted, timeline.record)
    return [ready for graphs in made for ready in graphs]


def _finish(options: argparse.Namespace, jobs: Sequence[Job]) -> None:
    lines = [f"inferences_completed: {sum(job.completed for job in jobs)}"]
    if len(jobs) > 1:
        lines += ["graphs:", *(f"  {job.folder.name}: {job.completed}" for job in jobs)]
    (options.output_dir / METADATA).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _say(options: argparse.Namespace, graphs: list[dict[str, Any]], warn: Warn) -> None:
    if options.json:
        print_json(
            {
                "model": options.model,
                "retrieve_context": options.retrieve_context,
                "backend": options.backend,
                "output_dir": str(options.output_dir),
                "inferences_completed": sum(g["inferences"] for g in graphs),
                "graphs": graphs,
                "warnings": warn.lines,
            }
        )
        return
    for g in graphs:
        t = g["execute"]
        spread = ""
        if t is not None:
            spread = f", {seconds(t['median_s'])} each"
            spread += f" ({seconds(t['p10_s'])} .. {seconds(t['p90_s'])})"
        noun = "inference" if g["inferences"] == 1 else "inferences"
        print(f"{g['name']}: {g['inferences']} {noun}{spread} -> {g['output_dir']}")
        if g["ended_early"]:
            print(f"  {g['ended_early']} more ended early, without a result: a Buffer is not full")
        if "copied_bytes" in g:
            held = "".join(
                f", {size(g[f'reserved_at_{when}_bytes'])} reserved at {when}"
                for when in ("finalize", "execute")
                if g[f"reserved_at_{when}_bytes"]
            )
            print(f"  {size(g['copied_bytes_per_execution'])} copied per execution{held}")
            for c in g["copies"]:
                print(f"  {c['tensor']} {c['direction']}: {size(c['bytes'])} in all, {c['reason']}")
