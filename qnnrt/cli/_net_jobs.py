"""What a net-run does for each graph: which files, which outputs, and then running it."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..abi import constants as abi
from ..errors import EarlyTermination, GraphError
from ..session.stats import RESERVED_AT
from ._common import UsageError, number_of, progress, timing
from ._config_file import ToolConfig
from ._input_list import (
    SKIP,
    FileTypes,
    Inference,
    InputList,
    Line,
    arrange,
    find,
    plan,
    read_input_list,
    sanitized,
    unused_names,
)
from ._io_sets import IoSet, file_names
from ._prepare import Ready
from ._timeline import Timeline, now
from ._tools import Warn, check_graphs, for_graph
from ._values import nbytes

DEFAULT_DEPTH = 10  # executions in flight, unless the config file says another number


@dataclass
class Job:
    """One graph's part of the run.

    Attributes:
        inferences: a pass over the list.
        folder: where its results go.
        files: for each output its name as a file, and which kinds of file are written.
        samples: seconds that each execution took.
        written, completed, sets: files; lines of the list; sets of inputs and outputs in memory.
        ended_early: executions that gave nothing, since a node waits for more inputs.
    """

    ready: Ready
    inferences: list[Inference]
    types: FileTypes
    folder: Path
    files: list[tuple[str, str]]
    samples: list[float] = field(default_factory=list)
    written: int = 0
    completed: int = 0
    sets: int = 0
    ended_early: int = 0


def _lists(options: argparse.Namespace, graphs: Sequence[Ready]) -> list[InputList | None]:
    """One input list for each graph; None for an omitted graph."""
    if options.input_list is None:
        if any(g.inputs for g in graphs):
            raise UsageError("--input_list is missing: it names the files of the graphs' inputs")
        nothing = InputList(Path(), (Line("", ()),), None)
        return [nothing for _ in graphs]
    paths = options.input_list.split(",")
    if len(paths) != len(graphs):
        raise UsageError(
            f"--input_list: {number_of(len(paths), 'list')}, but "
            f"{number_of(len(graphs), 'graph')}: "
            f"{', '.join(g.name for g in graphs)} (in this order; {SKIP} leaves one out)"
        )
    if all(path == SKIP for path in paths):
        raise UsageError("--input_list: every graph is left out")
    return [None if path == SKIP else read_input_list(Path(path)) for path in paths]


def make_jobs(options: argparse.Namespace, graphs: Sequence[Ready], warn: Warn) -> list[Job]:
    """What is to be done for each graph; every file is looked at before anything runs."""
    names = [g.name for g in graphs]
    check_graphs(options.native_input_tensor_names, names, "--native_input_tensor_names")
    jobs: list[Job] = []
    folders: set[str] = set()
    for i, (ready, given) in enumerate(zip(graphs, _lists(options, graphs), strict=True)):
        folder = sanitized(ready.name) if ready.name else f"Graph_{i}"
        while folder in folders:
            folder = f"{folder}_{i}"
        folders.add(folder)
        if given is None:
            continue
        warn_of_names(given, warn)
        types = _file_types(options, ready)
        lines = arrange(given, ready.inputs)
        inferences = plan(lines, ready.inputs, ready.outputs, types, options.batch_multiplier)
        path = options.output_dir / folder if len(graphs) > 1 else options.output_dir
        asked = "native_only" if options.use_native_output_files else options.output_data_type
        files = output_files(ready, asked, chosen_outputs(given, ready, warn))
        jobs.append(Job(ready, inferences, types, path, files))
    return jobs


def warn_of_names(given: InputList, warn: Callable[[str], None]) -> None:
    """Names on some files of the first line count for nothing: that is easily overlooked."""
    if given.lines[0].entries and unused_names(given):
        warn(
            f"{given.lines[0].where}: not every file has a name, so the names do not count: files "
            "go to the inputs in order"
        )


def _file_types(options: argparse.Namespace, ready: Ready) -> FileTypes:
    names = [t.name for t in ready.inputs]
    if options.use_native_input_files or options.input_data_type == "native":
        return FileTypes(frozenset(names))
    native = set()
    for name in for_graph(options.native_input_tensor_names, ready.name):
        indices = find(name, ready.inputs)
        if not indices:
            raise UsageError(
                f"--native_input_tensor_names: graph {ready.name} has no input {name!r}; it has "
                f"{', '.join(names)}"
            )
        native |= {names[i] for i in indices}
    return FileTypes(frozenset(native), stated=options.input_data_type == "float")


def chosen_outputs(given: InputList, ready: Ready, warn: Callable[[str], None]) -> set[int]:
    """Indices of the outputs that are written: what the list's first lines select, or all."""
    everything = set(range(len(ready.outputs)))
    if given.selected is None:
        return everything
    chosen: set[int] = set()
    for name in given.selected:
        wanted = [name, *ready.producers.get(name, ())]
        indices = {i for each in wanted for i in find(each, ready.outputs)}
        if not indices:
            warn(
                f"{given.path}: the first lines select {name!r}, which is no output of graph "
                f"{ready.name}; it has {', '.join(t.name for t in ready.outputs)}"
            )
        chosen |= indices
    return chosen or everything


def output_files(ready: Ready, asked: str | None, chosen: set[int]) -> list[tuple[str, str]]:
    """For each output its name as a file, and which kinds of file are written."""
    kinds = {"native_only": "native", "float_and_native": "float native"}.get(asked or "", "float")
    files: list[tuple[str, str]] = []
    taken: set[str] = set()
    for i, t in enumerate(ready.outputs):
        stem = sanitized(t.name) if t.name else f"Output_{i}"
        while taken & set(file_names(stem, kinds).values()):
            stem = f"{stem}_{i}"
        taken |= set(file_names(stem, kinds).values())
        files.append((stem, kinds if i in chosen else ""))
    return files


# ---- running -------------------------------------------------------------------------------------


def _loop(options: argparse.Namespace, inferences: Sequence[Inference]) -> Iterator[int]:
    """Numbers of the inferences to execute, one pass after the other."""
    again = itertools.cycle(range(len(inferences)))
    if options.duration is not None:
        end = time.monotonic() + options.duration
        return itertools.takewhile(lambda _: time.monotonic() < end, again)
    if options.num_inferences is None:
        return iter(range(len(inferences)))
    return itertools.islice(again, _executions(options, inferences))


def _executions(options: argparse.Namespace, inferences: Sequence[Inference]) -> int:
    """How many executions complete so many lines; a batch is not cut in two."""
    if options.num_inferences is None:
        return len(inferences)
    passes, left = divmod(options.num_inferences, sum(i.completes for i in inferences))
    executions = passes * len(inferences)
    for inference in inferences:
        if left <= 0:
            break
        left -= inference.completes
        executions += 1
    return int(executions)


def _set_count(options: argparse.Namespace, job: Job, settings: ToolConfig) -> int:
    """How many sets of inputs and outputs are held in memory at once."""
    sets = 1
    if options.max_input_cache_tensor_sets is not None:
        sets = options.max_input_cache_tensor_sets
    elif options.max_input_cache_size_mb is not None:
        one = sum(max(nbytes(t), 1) for t in job.ready.inputs) or 1
        sets = max(1, (options.max_input_cache_size_mb << 20) // one)
    sets = min(sets, len(job.inferences))
    if options.asynchronous:
        depth = settings.context(from_binary=True).get("async_queue_depth", DEFAULT_DEPTH)
        total = _executions(options, job.inferences)
        wanted = depth if options.duration is not None else min(depth, total)
        sets = max(sets, wanted)
    return sets


def execute(
    options: argparse.Namespace, job: Job, settings: ToolConfig, timeline: Timeline
) -> None:
    """Run a job's inferences and write their outputs."""
    job.sets = _set_count(options, job, settings)
    kind = options.io_tensor_mem_handle_type or ("shared_buffer" if options.shared_buffer else None)
    if settings.lpai is not None:
        settings.lpai.check_handles(kind)
    with ExitStack() as stack:
        sets: list[IoSet] = []
        for _ in range(job.sets):
            sets.append(IoSet(job.ready, kind, settings.lpai))
            stack.callback(sets[-1].close)
            sets[-1].profile = timeline.profiler.create()
            if sets[-1].profile is not None:
                stack.callback(sets[-1].profile.close)
        numbers = _loop(options, job.inferences)
        total = _executions(options, job.inferences)
        shown = progress(
            numbers if options.duration is not None else _Sized(numbers, total), job.ready.name
        )
        (_overlapped if options.asynchronous else _sequential)(options, job, sets, shown, timeline)


class _Sized(Sequence[int]):
    """An iterator that says how long it is, for the progress line."""

    def __init__(self, items: Iterator[int], length: int) -> None:
        self._items = items
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("only for iteration")

    def __iter__(self) -> Iterator[int]:
        return self._items


def _sequential(
    options: argparse.Namespace,
    job: Job,
    sets: Sequence[IoSet],
    numbers: Iterator[int],
    timeline: Timeline,
) -> None:
    for number in numbers:
        one = sets[number % len(sets)]
        one.read(number, job.inferences[number], job.types)
        start = now()
        try:
            job.samples.append(one.run())
        except EarlyTermination:
            job.ended_early += 1
            continue
        timeline.add("execute", job.ready.name, start, one.profile)
        _write(options, job, one, number)


def _overlapped(
    options: argparse.Namespace,
    job: Job,
    sets: Sequence[IoSet],
    numbers: Iterator[int],
    timeline: Timeline,
) -> None:
    """As many executions in flight as there are sets; outputs are written in order."""
    started: dict[int, tuple[float, int, int]] = {}

    def finish(slot: int) -> None:
        one = sets[slot]
        if one.pending is None:
            return
        began, micros, number = started.pop(slot)
        try:
            finished = one.wait()
        except EarlyTermination:
            job.ended_early += 1
            return
        job.samples.append(finished - began)
        timeline.add("execute_async", job.ready.name, micros, one.profile, finished - began)
        _write(options, job, one, number)

    slot = 0
    for slot, number in zip(itertools.cycle(range(len(sets))), numbers, strict=False):
        finish(slot)
        one = sets[slot]
        one.read(number, job.inferences[number], job.types)
        started[slot] = (time.perf_counter(), now(), number)
        try:
            one.start()
        except GraphError as error:
            if error.code != abi.QNN_COMMON_ERROR_NOT_SUPPORTED:
                raise
            name = job.ready.context.backend.name
            raise UsageError(f"--asynchronous: {name} has no asynchronous execution") from error
    for k in range(1, len(sets) + 1):
        finish((slot + k) % len(sets))


def _write(options: argparse.Namespace, job: Job, one: IoSet, number: int) -> None:
    job.completed += job.inferences[number].completes
    job.written += one.write(
        job.inferences[number], job.files, job.folder, options.keep_num_outputs
    )


# ---- what happened -----------------------------------------------------------------------------


def report(job: Job) -> dict[str, Any]:
    """What happened to one graph, as a JSON value."""
    executions = len(job.samples)
    return {
        "name": job.ready.name,
        "inferences": job.completed,
        "executions": executions,
        "ended_early": job.ended_early,
        "files_written": job.written,
        "output_dir": str(job.folder),
        "tensor_sets": job.sets,
        "execute": timing(job.samples).as_json() if executions else None,
        "total_s": sum(job.samples),
        **copies(job.ready, executions),
    }


def copies(ready: Ready, executions: int) -> dict[str, Any]:
    """What the runtime copied and reserved; nothing for backends of others, which do not say."""
    library, handle = ready.context.backend.library, ready.graph.handle
    stats = library.graph_stats(handle)
    if stats is None:
        return {}
    return {
        "copied_bytes": stats["copied_bytes"],
        "copied_bytes_per_execution": stats["copied_bytes"] / max(executions, 1),
        "copies": [
            {"tensor": tensor, "direction": direction, "bytes": n, "reason": reason}
            for tensor, direction, n, reason in library.graph_copies(handle)
        ],
        **{key: value for key, value in stats.items() if key.startswith("reserved")},
        "reserved_at": RESERVED_AT.get(stats["reserved_at"]),
    }
