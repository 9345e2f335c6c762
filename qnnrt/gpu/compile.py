"""From a checked graph to a command list: kernels, a place for every tensor, arguments set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from .. import _core, planning
from ..errors import UnsupportedNode, UnsupportedOpError
from . import passes
from .device import Device, pyopencl
from .ir import Ir, Launch, Node, Value
from .loader import functions
from .ops import Refused, table
from .programs import build, source
from .target import Target

_MOST: Final = 1 << 31  # elements

__all__ = ["compile_graph", "launches_of", "unsupported"]


def launches_of(ir: Ir, target: Target) -> list[Launch]:
    """The kernels of all nodes, in order.

    Raises:
        UnsupportedOpError: with every node for which there is none.
    """
    known = table()
    launches: list[Launch] = []
    refused = []
    for node in ir.nodes:
        try:
            if node.type not in known:
                raise Refused("the gpu backend has no such operation")
            _check_sizes(node, device=target.device)
            launches += [x for x in known[node.type](node, target) if min(x.total) > 0]
        except Refused as e:
            refused.append(unsupported(node, str(e)))
    if refused:
        raise UnsupportedOpError(refused)
    return launches


def _check_sizes(node: Node, device: Device) -> None:
    """Kernels count elements in 32 bits, and a device limits what one buffer may have."""
    for value in (*node.inputs, *node.outputs):
        if value is None:
            continue
        if value.size >= _MOST:
            raise Refused(
                f"tensor {value.name!r} has {value.size} elements, kernels take {_MOST - 1} at most"
            )
        if value.nbytes > device.raw.max_mem_alloc_size:
            raise Refused(
                f"tensor {value.name!r} has {value.nbytes} bytes, a buffer of {device} at most "
                f"{device.raw.max_mem_alloc_size}"
            )


def unsupported(node: Node, reason: str) -> UnsupportedNode:
    """A line of the error."""
    types = ", ".join(v.dtype.name for v in node.inputs if v is not None)
    return UnsupportedNode(node.name, node.type, types, reason)


def compile_graph(
    ir: Ir, context: Any, queue: Any, target: Target, cache: Path | None
) -> tuple[_core.CommandList, planning.Plan]:
    """Everything that an execution needs.

    Returns:
        the command list, with the inputs and outputs of ``ir.io``; where intermediates lie.

    Raises:
        UnsupportedOpError: nodes for which there is no kernel.
    """
    cl = pyopencl()
    device = target.device
    passes.run(ir, target)
    launches = launches_of(ir, target)
    text, names = source(launches)
    program = build(context, device, text, cache) if launches else None
    plan, places = _intermediates(launches, context, device)
    places |= _constants(launches, context, device)
    patches: dict[Value, list[tuple[int, int]]] = {v: [] for v in ir.io}
    kernels = []
    steps: list[tuple[int, tuple[int, ...], tuple[int, ...] | None]] = []
    for launch, name in zip(launches, names, strict=True):
        kernel = cl.Kernel(program, name)  # its own: arguments are the kernel object's
        for i, arg in enumerate(launch.args):
            if not isinstance(arg, Value):
                kernel.set_arg(i, np.int32(arg) if isinstance(arg, int) else np.float32(arg))
            elif arg.root in patches:
                patches[arg.root].append((kernel.int_ptr, i))
            else:
                kernel.set_arg(i, places[arg.root])
        kernels.append(kernel)
        steps.append((kernel.int_ptr, launch.total, launch.group))
    commands = _core.CommandList(
        functions(),
        context.int_ptr,
        queue.int_ptr,
        steps,
        [(v.id, v.code, v.nbytes, v.shape, v.kind == "output", patches[v]) for v in ir.io],
        (context, queue, program, kernels, places),
    )
    return commands, plan


def _read_or_written(launches: Sequence[Launch], kind: str) -> dict[Value, tuple[int, int]]:
    """Values of a kind that have memory of their own, with the first and last step of each."""
    found: dict[Value, tuple[int, int]] = {}
    for step, launch in enumerate(launches):
        for arg in launch.args:
            if isinstance(arg, Value) and arg.root.kind == kind:
                found[arg.root] = (found.get(arg.root, (step, step))[0], step)
    return found


def _intermediates(
    launches: Sequence[Launch], context: Any, device: Device
) -> tuple[planning.Plan, dict[Value, Any]]:
    """Sub-buffers of one buffer for what lives between kernels."""
    cl = pyopencl()
    alive = _read_or_written(launches, "native")
    items = [
        planning.Item(first, last, max(v.nbytes, 1), device.alignment)
        for v, (first, last) in alive.items()
    ]
    plan = planning.plan(items)
    if not items:
        return plan, {}
    arena = cl.Buffer(context, cl.mem_flags.READ_WRITE, plan.peak)
    return plan, {
        v: arena.get_sub_region(offset, item.size)
        for v, item, offset in zip(alive, items, plan.offsets, strict=True)
    }


def _constants(launches: Sequence[Launch], context: Any, device: Device) -> dict[Value, Any]:
    """Sub-buffers of one buffer for the constants that kernels read."""
    cl = pyopencl()
    offsets: dict[Value, int] = {}
    end = 0
    for value in _read_or_written(launches, "static"):
        offsets[value] = end
        end += -(-max(value.nbytes, 1) // device.alignment) * device.alignment
    if not offsets:
        return {}
    weights = np.zeros(end, np.uint8)
    for value, offset in offsets.items():
        assert value.data is not None
        weights[offset : offset + value.nbytes] = value.data.reshape(-1).view(np.uint8)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(context, flags, hostbuf=weights)
    return {v: buffer.get_sub_region(n, max(v.nbytes, 1)) for v, n in offsets.items()}
