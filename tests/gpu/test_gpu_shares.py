"""How many work groups a device gets for reductions and the like, without a device."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qnnrt.dtypes import data_type
from qnnrt.gpu import ir
from qnnrt.gpu.device import Device
from qnnrt.gpu.ops import table
from qnnrt.gpu.ops.shares import shared
from qnnrt.gpu.target import Target
from support.one_node import u32

UNITS = 132  # of a large GPU
RESIDENT = 2048  # work items of a unit
LENGTHS = (0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 256, 257, 1021, 8191, 8193, 100_003, 1 << 26)


def target(kind: str = "gpu", units: int = UNITS, group: int = 1024) -> Target:
    raw = SimpleNamespace(max_compute_units=units, max_work_group_size=group)
    device = Device(
        platform="p", name="d", version="v", driver="1", kind=kind, shared=False, alignment=128,
        half=True, tensor_cores=False, overlaps=True, nests=True, records=False, imports=(),
        raw=raw,
    )  # fmt: skip
    return Target(device)


def value(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> ir.Value:
    return ir.Value(name, 1, shape, np.dtype(dtype), data_type(dtype), "input")


def launches(
    op: str, shape: tuple[int, ...], params: dict[str, Any], out: tuple[int, ...], dtype: Any = None
) -> list[ir.Launch]:
    y = value("y", out, dtype or np.float32)
    return table()[op](ir.Node("n", op, [value("x", shape)], [y], params), target())


def items(launch: ir.Launch) -> int:
    return math.prod(launch.total)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("units", [1, 20, UNITS])
@pytest.mark.parametrize("group", [64, 192, 256, 1024])
def test_every_element_is_in_one_share(kind: str, units: int, group: int) -> None:
    made_for = target(kind, units, group)
    lengths = itertools.product((0, 1, 3, 40, 513, 100_003), LENGTHS, (1, 2, 3, 32, 100), (1, 4))
    for rows, terms, apart, at_once in lengths:
        s = shared(rows, terms, apart, made_for, at_once=at_once)
        assert s.groups * s.columns >= rows
        assert (s.groups - 1) * s.columns < max(rows, 1)
        assert 1 <= s.parts < 1 << 16  # what NVIDIA's devices take in a third dimension
        assert s.parts * s.chunk >= terms
        assert (s.parts - 1) * s.chunk < max(terms, 1)
        assert s.lanes & (s.lanes - 1) == 0
        assert s.lanes * s.columns <= min(group, 256)
        assert s.lanes == 1 or kind == "gpu"
        if s.parts > 1:
            assert s.chunk % at_once == 0
        total, local = s.grid
        assert all(t % n == 0 for t, n in zip(total, local, strict=True))


# What was slow on an H200 because few work groups ran: (op, shape, params, shape of the result)
SLOW = [
    ("ReduceSum", (1 << 26,), {"axes": u32(0)}, ()),
    ("ReduceMax", (1 << 26,), {"axes": u32(0)}, ()),
    ("ReduceSum", (64, 1024, 1024), {"axes": u32(0, 1, 2)}, ()),
    ("ReduceMean", (8192, 8192), {"axes": u32(0)}, (8192,)),
    ("ReduceMean", (1 << 22, 16), {"axes": u32(0)}, (16,)),
    ("ReduceMean", (32, 3, 1024, 1024), {"axes": u32(0, 2, 3)}, (3,)),
    ("ReduceSum", (1024, 8, 1024, 8), {"axes": u32(0, 2)}, (8, 8)),
    ("Softmax", (1, 1 << 26), {"axis": 1, "beta": 1.0}, (1, 1 << 26)),
    ("LogSoftmax", (1 << 22, 16), {"axis": 0, "beta": 1.0}, (1 << 22, 16)),
    ("LayerNorm", (4, 1 << 24), {"axes": u32(1), "epsilon": 1e-5}, (4, 1 << 24)),
    ("RmsNorm", (1, 1 << 26), {"axes": u32(1), "epsilon": 1e-5}, (1, 1 << 26)),
    ("L2Norm", (1 << 20, 64), {"axes": u32(0), "epsilon": 1e-5}, (1 << 20, 64)),
    ("InstanceNorm", (1, 4096, 4096, 4), {"epsilon": 1e-5, "mode": 0, "region": 0,
                                          "normalize_variance": True}, (1, 4096, 4096, 4)),
    ("GroupNorm", (1, 4096, 4096, 4), {"epsilon": 1e-5, "group": 1}, (1, 4096, 4096, 4)),
    ("CumulativeSum", (1 << 26,), {"axis": 0, "exclusive": False, "reverse": False}, (1 << 26,)),
    ("CumulativeSum", (1 << 22, 16), {"axis": 0, "exclusive": True, "reverse": True},
     (1 << 22, 16)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "params", "out"), SLOW, ids=lambda v: str(v)[:20])
def test_whoever_reads_much_has_the_whole_device(
    op: str, shape: tuple[int, ...], params: dict[str, Any], out: tuple[int, ...]
) -> None:
    """Half of the work items that the device has at once at least, in each kernel over the input;
    others are small."""
    found = launches(op, shape, params, out)
    readers = [x for x in found if any(isinstance(a, ir.Value) and a.name == "x" for a in x.args)]
    assert readers
    for launch in readers:
        assert items(launch) >= UNITS * RESIDENT // 2, launch.function
        assert launch.total[-1] < 1 << 16 or len(launch.total) == 1
    for value_ in (a for x in found for a in x.args if isinstance(a, ir.Value)):
        if value_.name not in "xy" and value_.kind == "native":
            assert value_.size <= math.prod(shape) // 16, "what one kernel leaves for the next"


@pytest.mark.parametrize("op", ["Argmax", "Argmin"])
def test_extremes_have_the_whole_device(op: str) -> None:
    first, second = launches(op, (1 << 26,), {"axis": 0}, (), np.int32)
    assert items(first) >= UNITS * RESIDENT // 2
    assert second.total[0] <= 256


def test_a_row_that_a_group_soon_has_read_is_one_launch() -> None:
    for n in (1, 100, 8192):
        (only,) = launches("ReduceSum", (1, n), {"axes": u32(1)}, (1,))
        assert only.total[2] == 1
    (many,) = launches("Softmax", (4096, 8192), {"axis": 1, "beta": 1.0}, (4096, 8192))
    assert many.total == (4096 * 256, 1, 1)


def test_lines_of_memory_are_read_whole() -> None:
    """Neighbours in a group read neighbours in memory, whichever axis goes."""
    (rows,) = launches("ReduceSum", (1 << 16, 1024), {"axes": u32(1)}, (1 << 16,))
    assert ("ROWS", "1") in rows.defines
    assert rows.group == (64, 4, 1)
    (columns,) = launches("ReduceSum", (64, 64, 1 << 14), {"axes": u32(1)}, (64, 1 << 14))
    assert ("ROWS", "1") not in columns.defines
    assert columns.group[0] >= 32
    (few,) = launches("ReduceSum", (1 << 18, 8, 3), {"axes": u32(1)}, (1 << 18, 3))
    assert few.group == (255, 1, 1)
