"""What a graph compiles to, in the form that libQnnGpu.so runs and that context binaries hold.

``csrc/gpu/executable.h`` reads it. Numbers are little-endian, texts are UTF-8 behind their length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .allocation import Arena, check_size, constants_of, most_bytes, places
from .allocation import arenas as plan_arenas
from .compile import args_before, group_of, launches_of, noting_steps, read_by
from .describe import description
from .ir import FAULTS, Ir, Launch, Node, Value
from .passes import run
from .programs import ROUNDED, STANDARD, kernel_name, source
from .target import Target

__all__ = ["Executable", "make"]

_MAGIC: Final = b"\x89QNNRTCL"
_VERSION: Final = 1
_IO, _ARENA, _CONSTANT, _FAULTS = range(4)  # kinds of memory
_MEMORY, _INT, _FLOAT = range(3)  # kinds of arguments
_OUTPUT, _READ = 1, 2  # flags of inputs and outputs
_ARGS_BEFORE: Final = 16  # the bit of these flags from which on there is a count
_ALIGNED: Final = ((4096, 4096), (0, 64))  # constants of so many bytes begin at multiples of


class _Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def put(self, form: str, *values: Any) -> None:
        self.parts.append(struct.pack("<" + form, *values))

    def text(self, *texts: str) -> None:
        for text in texts:
            data = text.encode()
            self.put("I", len(data))
            self.parts.append(data)


@dataclass
class Executable:
    """A compiled graph.

    Attributes:
        data: the executable in its written form.
        constants: what kernels read and the request does not have, with the offset of each.
        nbytes: of all of these, with the room between them.
    """

    data: bytes
    constants: list[tuple[int, np.ndarray]] = field(default_factory=list)
    nbytes: int = 0


class _Memories:
    """Numbers of values' memories, given as they are met."""

    def __init__(
        self, ir: Ir, arenas: Iterable[Arena], noting: Sequence[int], request: np.ndarray
    ) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.constants: list[tuple[int, np.ndarray]] = []
        self.end = 0
        self._request = request
        self._numbers: dict[Value, int] = {}
        self._places: dict[Value, tuple[int, int, int, int]] = {
            value: (_IO, i, 0, value.nbytes) for i, value in enumerate(ir.io)
        }
        self._places |= {value: (_ARENA, *place) for value, place in places(arenas).items()}
        self._places[FAULTS] = (_FAULTS, 0, 0, len(noting) * FAULTS.nbytes)

    def of(self, value: Value) -> int:
        root = value.root
        if root not in self._numbers:
            self._numbers[root] = len(self.rows)
            place = self._places.get(root)
            self.rows.append(self._constant(root) if place is None else place)
        return self._numbers[root]

    def _constant(self, value: Value) -> tuple[int, int, int, int]:
        """Where the request has it, or behind the others of the answer."""
        assert value.data is not None
        data = np.ascontiguousarray(value.data)
        start = data.ctypes.data - self._request.ctypes.data
        if start >= 0 and start + data.nbytes <= self._request.nbytes:
            return (_CONSTANT, 0, start, data.nbytes)
        step = next(step for least, step in _ALIGNED if data.nbytes >= least)
        offset = -(-self.end // step) * step
        self.constants.append((offset, data))
        self.end = offset + data.nbytes
        return (_CONSTANT, 1, offset, data.nbytes)


def make(ir: Ir, target: Target, request: np.ndarray) -> Executable:
    """Compile a graph, which is changed.

    Args:
        request: the bytes in which the client has the graph's constants: what is used as it is
            there is named by its place.

    Raises:
        UnsupportedOpError: nodes for which there is no kernel.
        TooLarge: the device does not have as much memory.
    """
    run(ir, target)
    launches = launches_of(ir, target)
    only = [launch for _, launch in launches]
    arenas = plan_arenas(only, target, most_bytes(target.device))
    constants = constants_of(only)
    check_size(arenas, constants, target.device)
    memories = _Memories(ir, arenas, noting_steps(only), request)
    steps = _Writer()
    programs: dict[str, int] = {}
    steps.put("I", len(launches))
    for node, launch in launches:
        _step(steps, node, launch, target, memories, programs)

    out = _Writer()
    out.parts.append(_MAGIC)
    out.put("I", _VERSION)
    out.text("", " ".join(STANDARD), ROUNDED)
    _io(out, ir, read_by(launches), args_before(only, ir))
    out.put("I", len(arenas))
    out.put(f"{len(arenas)}Q", *(arena.plan.peak for arena in arenas))
    out.put("I", len(memories.rows))
    for row in memories.rows:
        out.put("BIQQ", *row)
    out.put("I", len(programs))
    for text in programs:
        out.text(text, "")
    out.parts += steps.parts
    weights = sum(value.nbytes for value in constants)
    out.text(description(ir, launches, arenas, target, weight_bytes=weights))
    return Executable(b"".join(out.parts), memories.constants, memories.end)


def _io(out: _Writer, ir: Ir, read: set[Value], before: dict[Value, int]) -> None:
    out.put("I", len(ir.io))
    for value in ir.io:
        out.text(value.name)
        flags = _OUTPUT * (value.kind == "output") | _READ * (value in read)
        flags |= before[value] << _ARGS_BEFORE
        out.put("IIII", value.id, value.code, flags, len(value.shape))
        out.put(f"{len(value.shape)}IQ", *value.shape, value.nbytes)


def _step(
    out: _Writer,
    node: Node,
    launch: Launch,
    target: Target,
    memories: _Memories,
    programs: dict[str, int],
) -> None:
    assert launch.call is None, "routines of libraries are not portable"
    out.text(node.name, launch.function, kernel_name(launch))
    out.put("I", programs.setdefault(source(launch), len(programs)))
    for sizes in (launch.total, launch.group or group_of(launch.total, target.device) or ()):
        out.put(f"B{len(sizes)}Q", len(sizes), *sizes)
    out.put("I", len(launch.args))
    for arg in launch.args:
        if isinstance(arg, Value):
            out.put("BI", _MEMORY, memories.of(arg))
        elif isinstance(arg, int):
            out.put("Bi", _INT, arg)
        else:
            out.put("Bf", _FLOAT, arg)
