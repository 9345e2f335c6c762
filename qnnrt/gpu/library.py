"""The gpu backend's function table, where the device has a say in it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .. import _core
from .compile import compile_graph
from .describe import describe
from .device import Device, choose, pyopencl
from .ir import Value
from .lower import read
from .memory import Memories
from .ops import table
from .options import Options
from .places import Shared
from .programs import cache_dir
from .target import Target

__all__ = ["Library"]

#: Properties that the backend behind this one has and this one has not, by key.
_HAS_NOT: Final = frozenset(
    {202, 210, 303, 304, 307, 308, 309, 314, 317, 318, 319, 321, 1102, 1104}
)
_HAS: Final = frozenset({502, 1103})
_STAGED: Final = "RAW memory is not the device's"


@dataclass
class _Graph:
    """A graph that is being built, or its commands."""

    context: int
    name: str
    commands: _core.CommandList | None = None
    io: tuple[Value, ...] = ()
    description: str | None = None


class Library(_core.GpuLibrary):
    """Backend "gpu" on one OpenCL device.

    Attributes:
        device: the device.
        cl_context, cl_queue: what kernels run in, and what buffers must belong to.
        cache: folder of built programs; None keeps none.
    """

    def __new__(cls, front: str, options: Options) -> Library:
        return super().__new__(cls, front)

    def __init__(self, front: str, options: Options) -> None:
        cl = pyopencl()
        self.options = options
        self.cl_queue = options.queue
        self.cl_context = options.context
        if options.queue is not None:
            if self.cl_context is None:
                self.cl_context = options.queue.context
            if options.queue.context != self.cl_context:
                raise ValueError("gpu: the queue belongs to another OpenCL context than 'context'")
            self.device = Device.of(options.queue.device)
        elif self.cl_context is not None:
            self.device = Device.of(self.cl_context.devices[0])
        else:
            self.device = choose(options.device)
            self.cl_context = cl.Context([self.device.raw])
        if self.cl_queue is None:
            self.cl_queue = cl.CommandQueue(self.cl_context, self.device.raw)
        self.cache: Path | None = cache_dir()
        self._graphs: dict[int, _Graph] = {}
        self.memories = Memories(self)
        self._lock = threading.RLock()
        self._weights = Shared()

    # ---- what there is

    def property_has_capability(self, key: int) -> int:
        if key in _HAS_NOT:
            return 1000
        return 0 if key in _HAS else super().property_has_capability(key)

    def backend_get_supported_operations(self, backend: int) -> list[tuple[str, str]]:
        return [("qti.aisw", name) for name in table()]

    def error_message(self, code: int) -> str:
        """The device's words for a failed execution, the front's for everything else."""
        e = self.last_error()
        text = e["text"]
        if e["code"] != code or not text:
            return super().error_message(code)
        g = self._graphs.get(e["graph"])
        if e["tensor"] is not None and g is not None:
            value = g.io[e["tensor"]]
            text = f"tensor {value.name!r}: {text}"
            if given := self.memories.text(e["memory"]):
                text += f" (it needs {value.dtype}{list(value.shape)}, the handle is for {given})"
        if e["opencl"]:
            return f"{text}: OpenCL error {e['opencl']} at step {e['step']}"
        return str(text)

    # ---- graphs

    def graph_create(self, context: int, name: str, config: _core.Config | None = None) -> int:
        handle = super().graph_create(context, name, config)
        self._graphs[handle] = _Graph(context, name)
        return handle

    def graph_finalize(self, graph: int, profile: int = 0, signal: int = 0) -> None:
        g = self._graphs.get(graph)
        if g is None:
            raise self.make_error(6001, "graph", "graphFinalize", "no graph of this backend")
        if g.commands is not None:
            raise self.make_error(6024, "graph", "graphFinalize", f"graph {g.name!r} is")
        target = self.target(graph)
        ir = read(g.name, self.graph_lower(graph, target.node_optimizations))
        made = compile_graph(ir, self.cl_context, self.cl_queue, target, self._weights)
        self.graph_leave(graph, made.places.kept)
        g.io = ir.io
        g.description = describe(made, target)
        g.commands = made.commands
        made.commands.install(graph)

    def target(self, graph: int) -> Target:
        """What the kernels of a graph are made for."""
        given = self.options
        return Target(
            self.device,
            compute_half=given.precision == "fp16" and self.device.half,
            precision=given.precision,
            tuning=given.tuning,
            tuning_cache=Path(given.cache_dir) if given.cache_dir is not None else self.cache,
            program_cache=self._program_cache(given),
            rebuild=given.invalidate_kernel_repo,
            memory_optimizations=given.memory_optimizations,
            node_optimizations=given.node_optimizations,
            queue_recording=given.queue_recording,
            weight_sharing=given.weight_sharing,
        )

    def _program_cache(self, given: Options) -> Path | None:
        folder = given.kernel_repo_dir if given.kernel_repo_dir is not None else given.cache_dir
        return self.cache if folder is None else Path(folder)

    def context_free(self, context: int, profile: int = 0) -> None:
        with self._lock:
            for handle in [h for h, g in self._graphs.items() if g.context == context]:
                commands = self._graphs.pop(handle).commands
                if commands is not None:
                    commands.close()
            left = self.memories.drop(context)
        if left:
            warnings.warn(
                f"a context was freed with {left} memory handles",
                ResourceWarning,
                stacklevel=2,
            )
        super().context_free(context, profile)

    # ---- memory

    def mem_register(self, context: int, descriptors: Iterable[tuple[Any, ...]]) -> list[int]:
        return self.memories.register(context, descriptors)

    def mem_deregister(self, handles: Iterable[int]) -> None:
        self.memories.deregister(handles)

    def forget(self, number: int) -> None:
        """No command list has this cl_mem as an argument from now on."""
        for g in self._graphs.copy().values():
            if g.commands is not None:
                g.commands.forget(number)

    # ---- counters

    def _commands(self, graph: int) -> _core.CommandList | None:
        g = self._graphs.get(graph)
        return g.commands if g is not None else None

    def gpu_counts(self, graph: int) -> dict[str, int]:
        """Commands enqueued by the executions of a finalized graph, and bytes moved."""
        commands = self._commands(graph)
        return commands.counts() if commands is not None else {}

    def graph_stats(self, graph: int) -> dict[str, int]:
        counts = self.gpu_counts(graph)
        reserved = counts.get("reserved_bytes", 0)
        return {
            "executes": counts.get("executes", 0),
            "copied_bytes": counts.get("written_bytes", 0) + counts.get("read_bytes", 0),
            "reserved_bytes": reserved,
            "reserved_at": 2 if reserved else 0,
            "reserved_at_finalize_bytes": 0,
            "reserved_at_execute_bytes": reserved,
        }

    def graph_copies(self, graph: int) -> list[tuple[str, str, int, str]]:
        commands = self._commands(graph)
        if commands is None:
            return []
        return [
            (v.name, "out" if v.kind == "output" else "in", n, _STAGED)
            for v, n in zip(self._graphs[graph].io, commands.copied(), strict=True)
            if n
        ]

    def graph_reset_stats(self, graph: int) -> None:
        commands = self._commands(graph)
        if commands is not None:
            commands.reset()

    def graph_describe(self, graph: int) -> str | None:
        """What its finalized steps, kernels, arena and program are, as JSON."""
        g = self._graphs.get(graph)
        return g.description if g is not None else None
