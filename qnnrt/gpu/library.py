"""The gpu backend's function table, where the device has a say in it."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .._native import _core
from .._native.descriptor import MemDescriptor
from ..abi import constants as abi
from .allocation import Shared
from .compile import compile_graph
from .configs import Configs, context_queue, drop_measurements
from .describe import describe, sizes
from .device import Device, TooLarge, choose, pyopencl
from .ir import Value
from .loader import functions
from .lower import read
from .memory import Memories
from .ops import table
from .options import EACH, Options
from .programs import Programs
from .tune import Bench

__all__ = ["Library"]

_FLUSH_EVERY: Final = 32  # commands, on devices that the host does not share its memory with
_NO_MEMORY: Final = (-4, -5, -6)  # CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_*
_STAGED: Final = "RAW memory is not the device's"


@dataclass
class _Graph:
    """A graph that is being built, or its commands.

    Attributes:
        lock: held while it is compiled: what it reads of the runtime stays meanwhile.
        commands: once it is finalized.
        installed: what the runtime was given, and may call as long as the graph exists.
    """

    context: int
    name: str
    lock: Any = field(default_factory=threading.RLock)
    commands: _core.CommandList | None = None
    installed: _core.CommandList | None = None
    io: tuple[Value, ...] = ()
    description: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)


class Library(_core.GpuLibrary):
    """Backend "gpu" on one OpenCL device.

    Attributes:
        device: the device.
        cl_context, cl_queue: what kernels run in, and what buffers must belong to.
        arenas: memory of the intermediates of all graphs, with ``counts()``.
    """

    def __new__(cls, front: str, options: Options) -> Library:
        return super().__new__(cls, front)

    def __init__(self, front: str, options: Options) -> None:
        cl = pyopencl()
        _check_objects(cl, options)
        self._queue_each = isinstance(options.queue, str)
        given = None if self._queue_each else options.queue
        self.cl_queue: Any = given
        self._given_queue = given is not None
        self._queues: dict[int, Any] = {}  # of contexts that have their own
        self.cl_context = options.context
        if given is not None:
            if self.cl_context is None:
                self.cl_context = given.context
            if given.context != self.cl_context:
                raise ValueError("gpu: the queue belongs to another OpenCL context than 'context'")
            self.device = Device.of(given.device)
        elif self.cl_context is not None:
            self.device = Device.of(self.cl_context.devices[0])
        else:
            self.device = choose(options.device)
            self.cl_context = cl.Context([self.device.raw])
        if self.cl_queue is None:
            self.cl_queue = cl.CommandQueue(self.cl_context, self.device.raw)
        self._graphs: dict[int, _Graph] = {}
        self.memories = Memories(self)
        self._lock = threading.RLock()
        self._weights = Shared()
        self._programs = Programs(self.cl_context, self.device)
        self.arenas = _core.ArenaPool(functions(), self.cl_context.int_ptr)
        self._sleep = options.wait == "sleep"

    # ---- what there is

    def backend_create(self, log: int, config: _core.Config | None = None) -> int:
        handle = super().backend_create(log, config)
        configs = Configs.of(self, handle)
        if configs.backend.get("INVALIDATE_PERFORMANCE_CACHE"):
            drop_measurements(configs.tuning_cache)
        return handle

    def context_create(self, backend: int, device: int, config: _core.Config | None = None) -> int:
        handle = super().context_create(backend, device, config)
        configs = Configs.of(self, handle)
        hint = configs.context.get("PERF_HINT", "normal")
        if not self._given_queue:
            queue = context_queue(self.cl_context, self.device, hint)
            if queue is None and self._queue_each:
                queue = pyopencl().CommandQueue(self.cl_context, self.device.raw)
            if queue is not None:
                self._queues[handle] = queue
        return handle

    def backend_get_supported_operations(self, backend: int) -> list[tuple[str, str]]:
        return [("qti.aisw", name) for name in table()]

    # ---- graphs

    def graph_create(self, context: int, name: str, config: _core.Config | None = None) -> int:
        handle = super().graph_create(context, name, config)
        self.adopt_graph(context, handle, name)
        return handle

    def adopt_graph(self, context: int, graph: int, name: str) -> None:
        self._graphs[graph] = _Graph(context, name)

    def graph_finalize(self, graph: int, profile: int = 0, signal: int = 0) -> None:
        started = time.monotonic_ns()
        g = self._graphs.get(graph)
        if g is None:
            raise self.make_error(
                abi.QNN_GRAPH_ERROR_INVALID_HANDLE,
                "graph",
                "graphFinalize",
                "no graph of this backend",
            )
        with g.lock:
            if g.commands is not None:
                text = f"graph {g.name!r} is finalized already"
                raise self.make_error(
                    abi.QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph", "graphFinalize", text
                )
            self._finalize(g, graph, profile, signal, started)

    def _finalize(self, g: _Graph, graph: int, profile: int, signal: int, started: int) -> None:
        configs = Configs.of(self, graph)
        target = configs.target(self.device)
        if target.tuning:
            bench = Bench(self.cl_context, self.device, self._programs, target.program_cache)
            target = replace(target, bench=bench)
        queue = self._queues.get(g.context, self.cl_queue)
        ir = read(g.name, self.graph_lower(graph, target.node_optimizations))
        try:
            made = compile_graph(
                ir,
                self.cl_context,
                queue,
                target,
                self._programs,
                self._weights,
                self.arenas,
                self._queue_facts(configs, queue),
            )
        except pyopencl().Error as e:
            raise self._driver_error(e, "graph", "graphFinalize", f"graph {g.name!r}") from e
        except TooLarge as e:
            text = f"graph {g.name!r}: {e}"
            code = abi.QNN_COMMON_ERROR_MEM_ALLOC
            raise self.make_error(code, "graph", "graphFinalize", text) from e
        made.commands.install(self, g.context, graph, started)
        g.installed = made.commands
        super().graph_finalize(graph, profile, signal)
        self.release_constants(graph, made.memory.kept)
        g.io = ir.io
        g.description = describe(made, target)
        g.sizes = sizes(made)
        g.commands = made.commands

    def _driver_error(self, e: Any, component: str, call: str, what: str) -> Exception:
        """What OpenCL refused, as an error of QNN's."""
        full = getattr(e, "code", 0) in _NO_MEMORY
        code = abi.QNN_COMMON_ERROR_MEM_ALLOC if full else abi.QNN_COMMON_ERROR_GENERAL
        text = f"{what}: {self.device} refused it: {' '.join(str(e).split())}"
        return self.make_error(code, component, call, text)

    def _queue_facts(self, configs: Configs, queue: Any = None) -> dict[str, Any]:
        """What a command list has to know of its queue, see ``_core.CommandList``."""
        flags = pyopencl().command_queue_properties
        properties = self.cl_queue.properties
        # Where no memory changes owners, nothing ties queues of contexts to the backend's.
        apart = queue is not None and self._queue_each and not self.device.shared
        return {
            "device": self.device.raw.int_ptr,
            "base": (queue if apart else self.cl_queue).int_ptr,
            "in_order": not properties & flags.OUT_OF_ORDER_EXEC_MODE_ENABLE,
            "timestamps": bool(properties & flags.PROFILING_ENABLE),
            "own_queue": not self._given_queue,
            "nodes": configs.kernel_profiling,
            "flush_every": 0 if self.device.shared else _FLUSH_EVERY,
            "sleep": self._sleep,
        }

    def context_free(self, context: int, profile: int = 0) -> None:
        with contextlib.ExitStack() as compiling:
            for g in [g for g in self._graphs.copy().values() if g.context == context]:
                compiling.enter_context(g.lock)
            super().context_free(context, profile)  # waits for executions
        with self._lock:
            for handle in [h for h, g in self._graphs.items() if g.context == context]:
                del self._graphs[handle]
            left = self.memories.drop(context)
        self._queues.pop(context, None)
        if left:
            warnings.warn(
                f"a context was freed with {left} memory handles",
                ResourceWarning,
                stacklevel=2,
            )

    # ---- memory

    def mem_register(self, context: int, descriptors: Iterable[MemDescriptor]) -> list[int]:
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
            "copied_in_bytes": counts.get("written_bytes", 0),
            "copied_out_bytes": counts.get("read_bytes", 0),
            **(g.sizes if (g := self._graphs.get(graph)) is not None else {}),
        }

    def graph_weights(self, graph: int) -> tuple[int, int] | None:
        return None

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


def _check_objects(cl: Any, options: Options) -> None:
    """Raises ``ValueError`` for what is no object of pyopencl's, and for a device named beside
    those that have one."""
    for name, kind in (("context", cl.Context), ("queue", cl.CommandQueue)):
        given = getattr(options, name)
        if name == "queue" and isinstance(given, str) and given == EACH:
            continue
        if given is not None and not isinstance(given, kind):
            raise ValueError(
                f"gpu: {name} is a pyopencl.{kind.__name__}, not a {type(given).__name__}"
            )
        if given is not None and options.device is not None:
            raise ValueError(
                f"gpu: the device is that of {name!r}, so leave out device={options.device!r}"
            )
