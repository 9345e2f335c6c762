"""``qnnrt throughput-net-run``: several threads execute models at once, as a config file says."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .._native import _core
from ..errors import EarlyTermination
from ..qnn.backend import Backend
from ..qnn.context import Context
from ._common import UsageError, make_folder, number_of, print_json, progress, seconds, size
from ._config_file import ToolConfig, read_config
from ._input_list import (
    SKIP,
    FileTypes,
    InputList,
    Line,
    arrange,
    plan,
    read_input_list,
    sanitized,
)
from ._io_sets import IoSet
from ._net_jobs import Job, chosen_outputs, copies, output_files, warn_of_names
from ._prepare import Ready, Wanted, prepare, retrieve
from ._sources import sources
from ._throughput_config import Config, ModelItem, ThreadItem, read_throughput_config
from ._timeline import Timeline, now
from ._tools import (
    Profiler,
    Warn,
    backend_library,
    logged,
    open_backend,
    set_perf_profile,
    tool_parser,
)

INPUTS_IN_MEMORY = 32  # inferences of a list; of a longer one, files are read while it runs


def add(commands: argparse._SubParsersAction[Any]) -> None:
    parser = tool_parser(
        commands, "throughput-net-run", "execute models in several threads at once"
    )
    parser.add_argument(
        "--config",
        required=True,
        metavar="FILE",
        type=Path,
        help="JSON: backends, models, contexts, and the threads of a test case",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


@dataclass
class Counts:
    """Executions of one thread, and seconds: that they took, and that its loop took (``wall``)."""

    executions: int = 0
    wall: float = 0.0
    total: float = 0.0
    shortest: float = float("inf")
    longest: float = 0.0

    def add(self, took: float) -> None:
        self.executions += 1
        self.total += took
        self.shortest = min(self.shortest, took)
        self.longest = max(self.longest, took)


class Gate:
    """Threads wait at it until all of them are there.

    On queues, whose calls are one step each: an interrupt of the thread that opens it, inside of a
    ``threading.Barrier`` or ``Event``, could leave a lock held that letting the others go needs.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._there: SimpleQueue[None] = SimpleQueue()
        self._go: SimpleQueue[None] = SimpleQueue()

    def wait(self) -> None:
        """Until it is opened."""
        self._there.put(None)
        self._go.get()

    def open(self) -> None:
        """When all are there."""
        for _ in range(self._count):
            self._there.get()
        self.release()

    def release(self) -> None:
        """Whoever is there or comes goes on."""
        for _ in range(self._count):
            self._go.put(None)


@dataclass
class Worker:
    """A thread of the test: what it executes, and what came of it."""

    item: ThreadItem
    backend: Backend
    jobs: list[Job]
    sets: list[list[IoSet]]
    timeline: Timeline
    counts: Counts = field(default_factory=Counts)
    error: BaseException | None = None

    def work(self, gate: Gate, stop: _core.Event) -> None:
        """The thread itself: waits for the others, then executes until its loop is over."""
        try:
            gate.wait()
            begun = time.perf_counter()
            self._loop(stop)
            self.counts.wall += time.perf_counter() - begun
        except BaseException as error:
            self.error = error
            stop.set()  # what the others would measure is not what was asked for

    def _loop(self, stop: _core.Event) -> None:
        item = self.item
        end = None if item.seconds is None else time.monotonic() + item.seconds
        steps = [
            (job, sets[i % len(sets)], i)
            for job, sets in zip(self.jobs, self.sets, strict=True)
            for i in range(len(job.inferences))
        ]
        done = 0
        last: tuple[Job, IoSet, int] | None = None
        while not stop.is_set():
            if end is not None and time.monotonic() >= end:
                break
            if item.executions is not None and done >= item.executions:
                break
            step = job, one, number = steps[done % len(steps)]
            one.read(number, job.inferences[number], job.types)
            begun = now()
            done += 1
            try:
                self.counts.add(one.run())
            except EarlyTermination:
                continue  # it gives nothing yet, and is not counted
            self.timeline.add("execute", job.ready.name, begun, one.profile)
            job.completed += job.inferences[number].completes
            if item.model.save == "all" or (item.model.save == "first" and last is None):
                self._save(*step)
            last = step
            if item.interval:
                stop.wait(item.interval / 1e6)
        if item.model.save == "last" and last is not None:
            self._save(*last)

    def _save(self, job: Job, one: IoSet, number: int) -> None:
        job.written += one.write(job.inferences[number], job.files, job.folder, None)

    def report(self) -> dict[str, Any]:
        c = self.counts
        return {
            "name": self.item.name,
            "backend": self.item.backend.name,
            "context": self.item.context,
            "model": self.item.model.name,
            "executions": c.executions,
            "average_us": c.total / c.executions * 1e6 if c.executions else None,
            "min_us": c.shortest * 1e6 if c.executions else None,
            "max_us": c.longest * 1e6 if c.executions else None,
            "wall_us": c.wall * 1e6,
            "per_second": c.executions / c.wall if c.wall else None,
            "files_written": sum(job.written for job in self.jobs),
        }


def run(options: argparse.Namespace) -> int:
    warn = Warn(options)
    config = read_throughput_config(options.config)
    with logged(config.log_level), ExitStack() as stack:
        stage = Stage(config, warn, stack)
        workers = [stage.worker(item, options.command) for item in config.threads]
        total = 0.0
        for _ in progress(range(config.iterations), "running"):
            total += together(workers)
        report: dict[str, Any] = {
            "total_us": round(total * 1e6),
            "iterations": config.iterations,
            "threads": [worker.report() for worker in workers],
            "graphs": stage.graphs(workers),
            "warnings": warn.lines,
        }
    if options.json:
        print_json(report)
        return 0
    print(f"TotalTime (us): {report['total_us']}")
    for t in report["threads"]:
        line = f"{t['name']}:graphExecute: {t['executions']}"
        if t["executions"]:
            line += f" executions, {seconds(t['average_us'] / 1e6)} each"
            line += f" ({seconds(t['min_us'] / 1e6)} .. {seconds(t['max_us'] / 1e6)})"
            line += f", {t['per_second']:.4g} per second"
        print(line)
    for g in report["graphs"]:
        if "copied_bytes" in g:
            each = size(g["copied_bytes_per_execution"])
            print(f"{g['context']}:{g['name']}: {each} copied per execution")
    return 0


def together(workers: Sequence[Worker]) -> float:
    """Every worker's loop, in threads that start at once; returns the seconds until the last ended.

    Raises:
        Exception: the first that a thread ended with.
    """
    gate = Gate(len(workers))
    stop = _core.Event()
    threads: list[_core.Event] = []  # that have been started, set when they have ended
    try:
        for worker in workers:
            _core.start_thread(threads, partial(worker.work, gate, stop))
        gate.open()
        begun = time.perf_counter()
        for ended in threads:
            ended.wait()
        took = time.perf_counter() - begun
    except BaseException:
        stop.set()
        gate.release()
        for ended in threads:
            ended.wait()
        raise
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    return took


class Stage:
    """The backends, contexts and graphs of a test case, each made once."""

    def __init__(self, config: Config, warn: Warn, stack: ExitStack) -> None:
        self._config = config
        self._warn = warn
        self._stack = stack
        self._backends: dict[str, tuple[Backend, ToolConfig]] = {}
        self._ready: dict[tuple[str, str, str], list[Ready]] = {}

    def worker(self, item: ThreadItem, command: str) -> Worker:
        """A thread with memory of its own, on graphs that it may share with others."""
        backend, settings = self._backend(item)
        if settings.lpai is not None:
            settings.lpai.check_handles(item.model.handles)
        graphs = self._graphs(item)
        folder = item.model.output / sanitized(item.name)
        profiler = Profiler(backend, item.backend.profiling, None, None, self._warn)
        if item.backend.profiling is not None:
            make_folder(folder)
        timeline = self._stack.enter_context(Timeline(profiler, command, folder))
        jobs = _jobs(item, graphs, folder, self._warn)
        sets: list[list[IoSet]] = []
        for job in jobs:
            held = min(len(job.inferences), INPUTS_IN_MEMORY)
            kind = item.model.handles
            sets.append([IoSet(job.ready, kind, settings.lpai) for _ in range(held)])
            for one in sets[-1]:
                self._stack.callback(one.close)
                one.profile = profiler.create()
                if one.profile is not None:
                    self._stack.callback(one.profile.close)
        for job, each in zip(jobs, sets, strict=True):  # files are read before anything is timed
            for number, one in enumerate(each):
                one.read(number, job.inferences[number], job.types)
        return Worker(item, backend, jobs, sets, timeline)

    def _backend(self, item: ThreadItem) -> tuple[Backend, ToolConfig]:
        given = item.backend
        if given.name not in self._backends:
            library = backend_library(given.path)
            settings = read_config(given.config, library, self._warn)
            opened = open_backend(given.path, settings, self._config.log_level)
            backend = self._stack.enter_context(opened)
            set_perf_profile(backend, given.perf_profile, settings, self._warn)
            self._backends[given.name] = backend, settings
        return self._backends[given.name]

    def _graphs(self, item: ThreadItem) -> list[Ready]:
        """A model's graphs in the thread's context; threads of one context and model share them."""
        context = item.context or item.name
        key = (item.backend.name, context, item.model.name)
        if key not in self._ready:
            self._prepare(item, context)
        return self._ready[key]

    def _prepare(self, item: ThreadItem, context: str) -> None:
        """Everything that the threads put into a context, at once: it is made with its models."""
        backend, settings = self._backend(item)
        models: dict[str, ModelItem] = {}
        for other in self._config.threads:
            if other.backend.name == item.backend.name and (other.context or other.name) == context:
                models.setdefault(other.model.name, other.model)
        settings = settings.with_context(item.context_options)
        if any(m.cached for m in models.values()):
            if len(models) > 1:
                raise UsageError(
                    f"context {context!r}: {', '.join(models)}: a context binary has its context "
                    "to itself, name another one for the other models"
                )
            graphs = retrieve(
                backend, [item.model.path], settings, mapped=True, validate=False, record=_plain
            )
            self._ready[item.backend.name, context, item.model.name] = graphs
            return
        files = sources(m.path for m in models.values())
        _, made = prepare(backend, files, settings, Wanted(), _plain)
        for name, graphs in zip(models, made, strict=True):
            self._ready[item.backend.name, context, name] = graphs

    def graphs(self, workers: Sequence[Worker]) -> list[dict[str, Any]]:
        """Each graph with what the runtime copied for it."""
        found = []
        for (backend, context, model), graphs in self._ready.items():
            for ready in graphs:
                executions = _executions(ready)
                found.append(
                    {
                        "name": ready.name,
                        "backend": backend,
                        "context": context,
                        "model": model,
                        "executions": executions,
                        **copies(ready, executions),
                    }
                )
        return found


def _plain(method: str, graph: str, call: Callable[..., Any]) -> Any:
    return call(None)


def _executions(ready: Ready) -> int:
    context: Context = ready.context
    stats = context.backend.library.graph_stats(ready.graph.handle)
    return int(stats["executes"]) if stats is not None else 0


def _jobs(item: ThreadItem, graphs: Sequence[Ready], folder: Path, warn: Warn) -> list[Job]:
    """What the thread does for each graph of its model."""
    jobs: list[Job] = []
    for ready, given in zip(graphs, _lists(item, graphs), strict=True):
        if given is None:
            continue
        warn_of_names(given, warn)
        native = frozenset(t.name for t in ready.inputs) if item.model.native else frozenset()
        types = FileTypes(native)
        inferences = plan(arrange(given, ready.inputs), ready.inputs, ready.outputs, types)
        path = folder / sanitized(ready.name) if len(graphs) > 1 else folder
        files = output_files(ready, item.model.kinds, chosen_outputs(given, ready, warn))
        jobs.append(Job(ready, inferences, types, path, files))
    return jobs


def _lists(item: ThreadItem, graphs: Sequence[Ready]) -> list[InputList | None]:
    """Input lists, or raw files for a graph with one input."""
    where = f"model {item.model.name}: inputPath"
    if item.model.inputs is None:
        if any(g.inputs for g in graphs):
            raise UsageError(f"{where} is missing: it names the input lists of the graphs")
        return [InputList(Path(), (Line("", ()),), None) for _ in graphs]
    paths = item.model.inputs.split(",")
    if len(paths) != len(graphs):
        raise UsageError(
            f"{where}: {number_of(len(paths), 'list')}, but {number_of(len(graphs), 'graph')}"
        )
    if all(path == SKIP for path in paths):
        raise UsageError(f"{where}: every graph is left out")
    return [None if path == SKIP else read_input_list(Path(path)) for path in paths]
