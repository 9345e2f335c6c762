"""From a checked graph to a command list: kernels, memory for every tensor, arguments set."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from .._native import _core
from ..errors import UnsupportedNode, UnsupportedOpError
from . import passes
from .allocation import Allocations, Shared, allocate, most_bytes
from .device import Device, pyopencl
from .ir import FAULTS, Ir, Launch, Node, Value
from .join import join_images
from .loader import functions, recording
from .ops import Refused, table
from .ops.sizes import simt
from .programs import Programs
from .target import Target
from .together import each_kernel, run_together

_MOST: Final = 1 << 31  # elements
_CPU_GROUP: Final = 64

__all__ = [
    "Compiled",
    "args_before",
    "compile_graph",
    "group_of",
    "launches_of",
    "noting_steps",
    "read_by",
    "unsupported",
]


def launches_of(ir: Ir, target: Target) -> list[tuple[Node, Launch]]:
    """The kernels of all nodes in order, each with its node.

    Raises:
        UnsupportedOpError: with every node for which there is none.
    """
    known = table()
    launches: list[tuple[Node, Launch]] = []
    refused = []
    for node in ir.nodes:
        try:
            if node.type not in known:
                raise Refused("the gpu backend has no such operation")
            _check_tensors(node, device=target.device)
            made = known[node.type](node, target)
            launches += [(node, launch) for launch in made if min(launch.total) > 0]
        except Refused as e:
            refused.append(unsupported(node, str(e)))
    if refused:
        raise UnsupportedOpError(refused)
    if target.node_optimizations:
        launches = join_images(launches)
        if simt(target):  # a CPU's driver starts kernels in a microsecond
            widest = int(target.device.raw.max_work_group_size)
            launches = run_together(launches, widest, target.device.nests)
    noting = itertools.count()
    return [(node, _numbered(launch, noting)) for node, launch in launches]


def _numbered(launch: Launch, noting: Iterator[int]) -> Launch:
    """With the number of its struct among `FAULTS`, if it has one."""
    if FAULTS not in launch.args:
        return launch
    behind = launch.args.index(FAULTS) + 1
    args = (*launch.args[:behind], next(noting), *launch.args[behind + 1 :])
    return replace(launch, args=args)


def noting_steps(launches: Iterable[Launch]) -> list[int]:
    """The steps whose kernels note what they find, in the order of their structs."""
    return [i for i, launch in enumerate(launches) if FAULTS in launch.args]


def _check_tensors(node: Node, device: Device) -> None:
    """Kernels count elements in 32 bits, and a device limits what one buffer may have."""
    for value in (*node.inputs, *node.outputs):
        if value is None:
            continue
        if value.dtype.name == "bfloat16":
            raise Refused(f"tensor {value.name!r} is BFLOAT_16, which no kernel of gpu takes")
        if value.size >= _MOST:
            raise Refused(
                f"tensor {value.name!r} has {value.size} elements, kernels take {_MOST - 1} at most"
            )
        if value.nbytes > most_bytes(device):
            raise Refused(
                f"tensor {value.name!r} has {value.nbytes} bytes, a buffer of {device} at most "
                f"{most_bytes(device)}"
            )


def unsupported(node: Node, reason: str) -> UnsupportedNode:
    """A line of the error."""
    types = ", ".join(v.dtype.name for v in node.inputs if v is not None)
    return UnsupportedNode(node.name, node.type, types, reason)


@dataclass
class Compiled:
    """A graph that can be executed.

    Attributes:
        commands: its command list, with the inputs and outputs of ``ir.io``.
        ir: the graph as it was compiled.
        launches: the kernels in order, with the node that each belongs to.
        memory: of intermediates and constants.
        origins: how many programs were "built", on "disk" or in "memory".
    """

    commands: _core.CommandList
    ir: Ir
    launches: list[tuple[Node, Launch]]
    memory: Allocations
    origins: Counter[str]


def compile_graph(
    ir: Ir,
    context: Any,
    queue: Any,
    target: Target,
    programs: Programs,
    shared: Shared,
    pool: _core.ArenaPool,
    facts: Mapping[str, Any],
) -> Compiled:
    """Everything that an execution needs. ``ir`` is changed.

    Args:
        programs, shared, pool: what the graphs of a backend share: programs, constants, and memory
            of intermediates.
        facts: of the queue, see ``_core.CommandList``.

    Raises:
        UnsupportedOpError: nodes for which there is no kernel.
    """
    passes.run(ir, target)
    launches = launches_of(ir, target)
    only = [launch for _, launch in launches]
    origins: dict[Any, str] = {}
    memory = allocate(only, target, context, queue, shared)
    noting = noting_steps(only)
    faults = None
    if noting:
        mem_flags = pyopencl().mem_flags
        zeros = np.zeros((len(noting), *FAULTS.shape), FAULTS.dtype)
        flags = mem_flags.READ_WRITE | mem_flags.COPY_HOST_PTR
        faults = memory.buffers[FAULTS] = pyopencl().Buffer(context, flags, hostbuf=zeros)
    patches: dict[Value, list[tuple[int, int]]] = {v: [] for v in ir.io}
    read, before = read_by(launches), args_before(only, ir)
    kernels = []
    steps: list[tuple[Any, ...]] = []
    places: list[tuple[int, ...]] = []

    def memory_of(value: Value, index: int) -> Any:
        """A constant's buffer; of others the next step's place is noted, to be set when it runs."""
        root = value.root
        if root in patches:
            patches[root].append((len(steps), index))
        elif root in memory.places:
            places.append((*memory.places[root], len(steps), index))
        return memory.buffers.get(root)

    for node, launch in launches:
        if launch.call is not None:
            assert all(isinstance(arg, Value) for arg in launch.args), "a call takes values alone"
            found = [memory_of(v, i) for i, v in enumerate(launch.args) if isinstance(v, Value)]
            memories = [0 if buffer is None else buffer.int_ptr for buffer in found]
            steps.append((launch.call, memories, None, node.name, launch.function))
            continue
        program = programs.of(launch, target.program_cache, anew=target.rebuild)
        origins.setdefault(program.raw, program.origin)
        kernel = program.kernel(launch)
        for i, arg in enumerate(launch.args):
            if not isinstance(arg, Value):
                kernel.set_arg(i, np.int32(arg) if isinstance(arg, int) else np.float32(arg))
            elif (buffer := memory_of(arg, i)) is not None:
                kernel.set_arg(i, buffer)
        kernels.append(kernel)
        group = launch.group or group_of(launch.total, target.device)
        steps.append((kernel.int_ptr, launch.total, group, node.name, launch.function))
    commands = _core.CommandList(
        functions(),
        context.int_ptr,
        queue.int_ptr,
        steps,
        [
            (
                v.id,
                v.code,
                v.nbytes,
                v.shape,
                v.kind == "output",
                patches[v],
                v.name,
                v in read,
                before[v],
            )
            for v in ir.io
        ],
        (context, queue, list(origins), kernels, list(memory.buffers.values()), memory.keep),
        pool=pool,
        arenas=[arena.plan.peak for arena in memory.arenas],
        places=places,
        recording=recording(target.device) if target.queue_recording else None,
        faults=(0 if faults is None else faults.int_ptr, noting),
        **facts,
    )
    return Compiled(commands, ir, launches, memory, Counter(origins.values()))


def read_by(launches: Iterable[tuple[Node, Launch]]) -> set[Value]:
    """What kernels read: outputs, too, that another node takes or that a kernel adds to."""
    found = set()
    for node, launch in each_kernel(launches):
        posts = (value for post in node.post for value, _ in post.operands)
        found |= {v.root for v in (*node.inputs, *posts) if v is not None}
        if launch.reads_back:
            found |= {v.root for v in node.outputs}
    return found


def args_before(launches: Iterable[Launch], ir: Ir) -> dict[Value, int]:
    """How many arguments an output's first step is done with when it writes the output: those of
    the parts before, and of the part that writes where it reads, of graph inputs, the elements
    alone that it writes. A graph input among them may have the output's memory."""
    found: dict[Value, int] = {}
    written: set[Value] = set()
    for launch in launches:
        before = 0
        for part in [part for _, part in launch.parts] or [launch]:
            args = [arg.root for arg in part.args if isinstance(arg, Value)]
            outputs = {v for v in args if v.kind == "output"} - written
            written |= outputs
            inputs = Counter(v for v in args if v.kind == "input")
            single = not inputs - Counter(read.root for _, read in part.in_place)
            behind = before + len(part.args)
            for y in outputs:
                over = single and all(x.nbytes == y.nbytes for x in inputs)
                found[y] = behind if over else before
            before = behind
    return {y: found.get(y, 0) for y in ir.io}


def group_of(total: tuple[int, ...], device: Device) -> tuple[int, ...] | None:
    """The work group of a launch that names none; None is the driver's choice.

    Drivers of CPUs compile a kernel for each size of its groups, and would choose another for each
    index space: networks took seconds longer to start.
    """
    if device.kind != "cpu":
        return None
    if len(total) > 1:  # tiles of products and the like, each of them much work
        return (1,) * len(total)
    return (math.gcd(total[0], _CPU_GROUP),)
