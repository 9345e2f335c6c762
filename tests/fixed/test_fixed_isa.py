"""Fixed-point kernels give the same integers on every CPU: what differs between instruction sets is
whether a multiply and an add round once or twice. (A compiler contracts them from -O2 on.)"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from support.fixed import S8, S16, TYPES, U8, U16, Fixed, run_fixed
from support.outside import printed

NEAREST, LINEAR, CUBIC = range(3)


def resize_modes() -> Iterator[tuple[str, dict[str, Any]]]:
    flags = product((False, True), repeat=2)
    for op, (align, half) in product(("ResizeBilinear", "ResizeNearestNeighbor"), flags):
        if not (align and half):
            yield op, {"align_corners": align, "half_pixel_centers": half}
    for transform in range(4):
        mode = {"transformation_mode": np.uint32(transform)}
        for nearest in range(4):
            of = {"interpolation_mode": np.uint32(NEAREST), "nearest_mode": np.uint32(nearest)}
            yield "Resize", mode | of
        yield "Resize", mode | {"interpolation_mode": np.uint32(LINEAR)}
        for outside in (False, True):
            of = {"interpolation_mode": np.uint32(CUBIC), "exclude_outside": outside}
            yield "Resize", mode | of


def resized() -> Iterator[np.ndarray]:
    """Every mode on every type; more of 16 bits, whose steps are finer."""
    rng = np.random.default_rng(31)
    for (op, mode), dtype in product(resize_modes(), (np.uint8, np.int8, np.uint16, np.int16)):
        of, to = Fixed.covering(dtype, -1.0, 2.0), Fixed.covering(dtype, -0.9, 1.7)
        x = of.random(rng, (1, 17, 19, 23))
        for result in (of, to):
            yield run_fixed(op, [(x, of)], [((1, 31, 43, 23), result)], mode)[0]


def requantized() -> Iterator[np.ndarray]:
    """From each encoding to each other one: converted, moved, joined, pooled, pointed at."""
    rng = np.random.default_rng(32)
    awkward = [Fixed(t.dtype, float(rng.uniform(1e-3, 0.1)), t.offset) for t in TYPES]
    for of, to in product((U8, S8, U16, S16, *awkward), repeat=2):
        x = (of.random(rng, (4, 6, 5, 33)), of)
        yield run_fixed("Convert", [x], [((4, 6, 5, 33), to)])[0]
        if of.dtype != to.dtype:
            continue
        y = (to.random(rng, (4, 6, 5, 33)), to)
        yield run_fixed("Transpose", [x], [((33, 5, 6, 4), to)], {"perm": np.uint32([3, 2, 1, 0])})[
            0
        ]
        yield run_fixed("Concat", [x, y], [((4, 6, 5, 66), to)], {"axis": np.uint32(3)})[0]
        yield run_fixed("ResizeNearestNeighbor", [x], [((4, 9, 8, 33), to)])[0]


def digest(results: Iterator[np.ndarray]) -> str:
    seen = hashlib.sha256()
    for result in results:
        seen.update(result.tobytes())
    return seen.hexdigest()


@pytest.mark.parametrize("isa", ["base", "avx2"])
@pytest.mark.parametrize("kernels", [resized, requantized])
def test_every_instruction_set_gives_the_same_integers(kernels: Any, isa: str) -> None:
    """On a machine that has only the named one there is nothing to tell apart."""
    code = f"from fixed import test_fixed_isa as t; print(t.digest(t.{kernels.__name__}()))"
    assert printed(code, QNNRT_ISA=isa).strip() == digest(kernels())


def by_channel() -> Iterator[np.ndarray]:
    """Windows of a channel alone, of the largest and smallest integers: sums of two products of
    bytes do not fit 16 bits. Scales are powers of two: nothing but the result is rounded."""
    rng = np.random.default_rng(33)
    for dtype, pad, stride in product((np.uint8, np.int8), (0, 1), (1, 2)):
        limits = np.iinfo(dtype)
        of = Fixed(dtype, 2.0**-6, -limits.max // 2)
        weights, to = (
            Fixed(np.int8, 2.0**-6),
            Fixed(dtype, 2.0**-1, -(limits.max + limits.min) // 2),
        )
        x = rng.choice(np.array([limits.min, limits.max], dtype), (1, 50, 48, 113))
        w = rng.choice(np.array([-128, 127], np.int8), (3, 3, 1, 113))
        size = [(n + 2 * pad - 3) // stride + 1 for n in x.shape[1:3]]
        params = {"stride": np.uint32([stride] * 2), "pad_amount": np.uint32([[pad] * 2] * 2)}
        given = [(x, of), (w, weights)]
        yield run_fixed("DepthWiseConv2d", given, [((1, *size, 113), to)], params)[0]


def exactly_by_channel() -> Iterator[np.ndarray]:
    """The same in integers."""
    rng = np.random.default_rng(33)
    for dtype, pad, stride in product((np.uint8, np.int8), (0, 1), (1, 2)):
        limits = np.iinfo(dtype)
        x = rng.choice(np.array([limits.min, limits.max], dtype), (1, 50, 48, 113)).astype(np.int64)
        w = rng.choice(np.array([-128, 127], np.int8), (3, 3, 1, 113)).astype(np.int64)
        x = np.pad(x - limits.max // 2 - limits.max % 2, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows, columns = ((n - 3) // stride + 1 for n in x.shape[1:3])
        total = sum(
            x[:, i : i + stride * rows : stride, j : j + stride * columns : stride] * w[i, j, 0]
            for i, j in product(range(3), range(3))
        )
        middle = -(-(limits.max + limits.min) // 2)
        found = np.rint(np.asarray(total) * 2.0**-11) + middle
        yield np.clip(found, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("isa", ["", "avx2"])
def test_windows_of_one_channel_are_added_up_exactly(isa: str) -> None:
    code = "from fixed import test_fixed_isa as t; print(t.digest(t.by_channel()))"
    environment = {"QNNRT_ISA": isa, "ONEDNN_MAX_CPU_ISA": isa.upper()} if isa else {}
    assert printed(code, **environment).strip() == digest(exactly_by_channel())
