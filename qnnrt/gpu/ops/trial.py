"""Whether a device's tensor cores compute what is expected of them: tried before they are used.

Their instructions are PTX, which another driver may refuse, or read otherwise than the one that a
release was tried with. A product that fails to build, or comes out wrong, makes the others go by
``tiles.cl``, and the log says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from ...dtypes import data_type
from ...errors import BackendNotFoundError
from ...support import log
from ...support.guard import Guard
from ..device import Device, devices, pyopencl
from ..ir import Node, Value
from ..programs import Programs, cache_dir
from ..target import Target
from .matrices import matrices
from .tensor import BLOCKS, GROUPED, MAPPED, Block, make

__all__ = ["grouped", "local_bytes", "maps", "trusted"]

T = TypeVar("T")

#: Beyond one block each way and all stages, and no multiples of what is copied at once; for tensor
#: maps, of no more than that.
_SIZES: Final = (134, 140, 340)
_MAPPED: Final = (136, 144, 344)
#: Less than 1 by a quarter of what tf32 tells apart: whole numbers times this are rounded to them.
_LESS: Final = 1 - 2**-13

#: What a kernel can have of a multiprocessor's shared memory, by compute capability. NVIDIA's
#: driver lets a kernel declare that much, whatever it says of the device.
_SHARED: Final = {(8, 0): 163 << 10, (8, 7): 163 << 10, (9, 0): 227 << 10, (10, 0): 227 << 10}
_SHARED_ELSE: Final = 99 << 10

#: The compute capability whose warps multiply together: the one with `wgmma`.
_GROUPED: Final = (9, 0)

_found: dict[tuple[str, ...], bool] = {}
_grouped: dict[tuple[str, ...], bool] = {}
_maps: dict[tuple[str, ...], bool] = {}
_local: dict[tuple[str, ...], int] = {}
_guard = Guard()


def trusted(device: Device) -> bool:
    """Whether they may be used. Tried once in a process.

    Of a device that only its description is known of, as to the compiler of libQnnGpu.so, the one
    that OpenCL has under the same name here is tried; where there is none, the answer is no.
    """
    return _once(_found, device, lambda: _works(device))


def grouped(device: Device) -> bool:
    """Whether four warps may multiply together. Tried once in a process, where `trusted` is so."""
    most = local_bytes(device)
    return _once(_grouped, device, lambda: _multiplies(device, most, GROUPED, "multiply together"))


def maps(device: Device) -> bool:
    """Whether the copy engine may copy for these. Tried once in a process, where `grouped` says
    so."""
    most, what = local_bytes(device), "have tiles copied by tensor maps"
    return _once(_maps, device, lambda: _multiplies(device, most, MAPPED, what))


def local_bytes(device: Device) -> int:
    """How much local memory a kernel on tensor cores may declare: what OpenCL says, or more where a
    product with that much comes out right. Tried once in a process."""
    return _once(_local, device, lambda: _most_local(device))


def _once(found: dict[tuple[str, ...], T], device: Device, trial: Callable[[], T]) -> T:
    key = _key(device)
    with _guard.lock:
        if key not in found:
            found[key] = trial()
        return found[key]


def _key(device: Device) -> tuple[str, ...]:
    return (str(device), device.version, device.driver)


@contextlib.contextmanager
def _logged(line: Callable[..., None], text: str, *args: object) -> Iterator[None]:
    """What goes wrong inside ends with a line of the log."""
    try:
        yield
    except Exception as e:  # what drivers say of code that they do not take has many forms
        line(f"{text}: %s", *args, " ".join(str(e).split())[:300])


def _most_local(device: Device) -> int:
    said = int(device.raw.local_mem_size)
    with _logged(log.info, "kernels of %s have %d bytes of local memory", device, said):
        if (real := _real(device)) is None:
            return said
        most = _SHARED.get(_capability(real), _SHARED_ELSE)
        block = replace(BLOCKS[0], stages=most * BLOCKS[0].stages // BLOCKS[0].local_bytes)
        if not differences(real, np.dtype(np.float16), block):
            return max(said, most)
    return said


def _capability(device: Device) -> tuple[int, int]:
    major, minor = (f"compute_capability_{part}_nv" for part in ("major", "minor"))
    return int(getattr(device.raw, major, 0)), int(getattr(device.raw, minor, 0))


def _multiplies(device: Device, most: int, blocks: tuple[Block, ...], what: str) -> bool:
    with _logged(log.info, "warps of %s do not %s", device, what):
        if (real := _real(device)) is None or _capability(real) != _GROUPED:
            return False
        if (block := next((b for b in blocks if b.local_bytes <= most), None)) is None:
            return False
        # 32-bit floats are turned by kernels, but those that tensor maps describe.
        lines = ((False, True),) if block.maps else ((False, False),)
        for dtype, layouts in ((np.float16, ((False, False), (True, True))), (np.float32, lines)):
            if wrong := sum(
                differences(real, np.dtype(dtype), block, turned=turned) for turned in layouts
            ):
                log.warning(
                    "warps of %s do not %s: of products of %s, %d numbers are wrong",
                    device, what, np.dtype(dtype).name, wrong,
                )  # fmt: skip
                break
        else:
            return True
    return False


def _works(device: Device) -> bool:
    with _logged(log.warning, "the tensor cores of %s are not used", device):
        real = _real(device)
        if real is None:
            log.info("the tensor cores of %s are not used: they cannot be tried here", device)
            return False
        for dtype in (np.float16, np.float32):
            if wrong := differences(real, np.dtype(dtype), BLOCKS[0]):
                name, all_ = np.dtype(dtype).name, _SIZES[0] * _SIZES[1]
                log.warning(
                    "the tensor cores of %s are not used: of a product of %s, %d of %d numbers "
                    "are wrong", device, name, wrong, all_,
                )  # fmt: skip
                break
        else:
            return True
    return False


def _real(device: Device) -> Device | None:
    if hasattr(device.raw, "int_ptr"):
        return device
    try:
        return next(
            (
                d
                for d in devices()
                if (str(d), d.version, d.driver) == (str(device), device.version, device.driver)
            ),
            None,
        )
    except BackendNotFoundError:
        return None


def differences(
    device: Device,
    dtype: np.dtype[Any],
    block: Block,
    *,
    turned: tuple[bool, bool] = (False, False),
) -> int:
    """How many numbers of a product are not what they are: whole ones, so that sums are exact in
    every precision. 32-bit floats are such once they are rounded. Matrices lie as [m][k] and
    [k][n], or ``turned``, as [k][m] and [n][k]."""
    cl = pyopencl()
    rng = np.random.default_rng(0)
    rows, columns, depth = _MAPPED if block.maps else _SIZES
    a, b = (rng.integers(-3, 4, s).astype(dtype) for s in ((rows, depth), (depth, columns)))
    exact = a.astype(np.float32) @ b.astype(np.float32)
    if dtype == np.float32:
        a, b = a * dtype.type(_LESS), b * dtype.type(_LESS)
    y = np.full((rows, columns), 77, dtype)
    context = cl.Context([device.raw])
    queue = cl.CommandQueue(context, device.raw)
    memory = {}
    values = []
    lie = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), turned, strict=True)]
    for array in (*lie, y):
        value = Value("", 0, array.shape, dtype, data_type(dtype), "native")
        memory[value] = cl.Buffer(context, cl.mem_flags.READ_WRITE, array.nbytes)
        cl.enqueue_copy(queue, memory[value], array)
        values.append(value)
    params = dict(zip(("transpose_in0", "transpose_in1"), turned, strict=True))
    product = matrices(Node("trial", "MatMul", [*values[:2]], [values[2]], params))
    programs = Programs(context, device)
    for launch in make(product, Target(device), block, 1):
        kernel = programs.of(launch, cache_dir()).kernel(launch)
        for i, arg in enumerate(launch.args):
            if not isinstance(arg, Value):
                kernel.set_arg(i, np.int32(arg) if isinstance(arg, int) else np.float32(arg))
                continue
            if arg not in memory:
                memory[arg] = cl.Buffer(context, cl.mem_flags.READ_WRITE, arg.nbytes)
            kernel.set_arg(i, memory[arg])
        cl.enqueue_nd_range_kernel(queue, kernel, launch.total, launch.group)
    cl.enqueue_copy(queue, y, memory[values[2]])
    queue.finish()
    return int(np.count_nonzero(y.astype(np.float32) != exact))
