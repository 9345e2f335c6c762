"""Products of matrices by CLBlast, where pyclblast is installed: a routine from outside.

It knows neither a bias nor what is fused behind a product: a kernel of ours does these to what it
has computed. Convolutions of more than one pixel are not products of matrices that lie in memory,
and are left to the kernels of ours.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..device import pyopencl
from ..ir import Launch, Value
from ..target import Target
from .common import fused
from .product import Product, combined, scratch

__all__ = ["make", "offered"]

_F16: Final = np.dtype(np.float16)
_F32: Final = np.dtype(np.float32)
#: Of one product of batches whose matrices are not equally far from each other.
_MOST_CALLS: Final = 64
#: The version that takes one reference too many to each event that it gives, so that neither the
#: event nor its queue would ever be freed.
_KEEPS: Final = "1.4.0"


def offered(x: Product, target: Target) -> bool:
    """Whether it can compute a product on this machine.

    16-bit floats are added up as such, so it takes them where kernels may do that too; what has to
    be done behind these is done to 32-bit floats, which it does not give.
    """
    dtypes = {v.dtype for v in (x.a, x.b, x.y)}
    half = dtypes == {_F16} and target.compute_half and not _is_more(x)
    if not (half or dtypes == {_F32}) or x.window or not x.inner:
        return False
    if _stride(_starts(x)) is None and x.count > _MOST_CALLS:
        return False
    try:
        importlib.import_module("pyclblast")
    except ImportError:
        return False
    return True


def make(x: Product) -> list[Launch]:
    """A product of which ``offered`` is true."""
    total = (x.count, x.rows, x.columns)
    y, y_row, y_matrix, y_first = x.y, x.y_row, x.y_matrix, x.y_first
    if _is_more(x):
        y, y_row, y_matrix = scratch(1, *total), x.columns, x.rows * x.columns
        y_first = 0
    a_turned, b_turned = x.a_step != 1, x.b_column != 1
    gemm = _Gemm(
        dtype=x.a.dtype,
        sizes=(x.rows, x.columns, x.inner),
        turned=(a_turned, b_turned),
        # A single row or column says nothing of where the next one would be.
        steps=(
            x.a_step if a_turned else max(x.a_row, x.inner),
            x.b_column if b_turned else max(x.b_step, x.columns),
            y_row,
        ),
        starts=tuple((a, b, y_first + p * y_matrix) for p, (a, b) in enumerate(_starts(x))),
    )
    launch = Launch("clblast", "gemm", (), total, (x.a, x.b, y), call=gemm)
    return [launch, combined(x, fused(x.node), y, 1)] if _is_more(x) else [launch]


def _is_more(x: Product) -> bool:
    """Whether there is something to do behind the product."""
    return x.bias is not None or bool(x.node.post)


def _starts(x: Product) -> list[tuple[int, int]]:
    """Elements before the two matrices of each product."""
    return [
        (int(a) * x.a_matrix, int(b) * x.b_matrix)
        for a, b in zip(_matrices(x.a, x), _matrices(x.b, x), strict=True)
    ]


def _matrices(value: Value, x: Product) -> Sequence[int] | np.ndarray:
    """Which matrix of a value each product takes."""
    if x.node.type != "MatMul" or x.count == 1:  # groups of a convolution, or one product
        return range(x.count)
    batch = value.shape[:-2]
    index = np.arange(math.prod(batch)).reshape(batch)
    return np.broadcast_to(index, x.node.outputs[0].shape[:-2]).ravel()


def _stride(starts: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """How far it is from each product's matrices to the next one's; None where that differs."""
    steps = {
        tuple(b - a for a, b in zip(one, two, strict=True))
        for one, two in itertools.pairwise(starts)
    }
    return steps.pop() if len(steps) == 1 and min(min(steps)) >= 0 else None


@dataclass(frozen=True)
class _Gemm:
    """What enqueues it. All but ``starts``, of each product, is of (a, b) or (a, b, y)."""

    dtype: np.dtype[Any]
    sizes: tuple[int, int, int]
    turned: tuple[bool, bool]
    steps: tuple[int, int, int]  # from row to row in memory, in elements
    starts: tuple[tuple[int, int, int], ...]

    def __call__(self, queue: int, memories: list[int]) -> None:
        cl = pyopencl()
        library = importlib.import_module("pyclblast")
        ours = cl.CommandQueue.from_int_ptr(queue, retain=True)
        arrays = [self._array(ours, number) for number in memories]
        names = ("a_ld", "b_ld", "c_ld")
        how = dict(zip(names, self.steps, strict=True))
        how |= {"a_transp": self.turned[0], "b_transp": self.turned[1]}
        stride = _stride(self.starts)
        if stride is not None:
            names = ("a_stride", "b_stride", "c_stride")
            how |= dict(zip(names, stride, strict=True))
            count = len(self.starts)
            _drop(library.gemmStridedBatched(ours, *self.sizes, count, *arrays, **how))
            return
        for a, b, y in self.starts:
            how |= {"a_offset": a, "b_offset": b, "c_offset": y}
            _drop(library.gemm(ours, *self.sizes, *arrays, **how))

    def _array(self, queue: Any, number: int) -> Any:
        """Memory as pyclblast takes it, which looks at its type and number of dimensions."""
        buffer = pyopencl().Buffer.from_int_ptr(number, retain=True)
        array = importlib.import_module("pyopencl.array").Array
        return array(queue, (1, 1), self.dtype, data=buffer)


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("pyclblast")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _drop(event: Any) -> None:
    """Release the event of a routine."""
    if _version() == _KEEPS:
        pyopencl().Event.from_int_ptr(event.int_ptr, retain=False)
