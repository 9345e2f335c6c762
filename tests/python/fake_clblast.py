"""In the place of pyclblast: its two routines for products, computed by numpy.

Arguments are refused as CLBlast refuses them: types, steps that are too small, buffers that end too
early.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from opencl import cl

__all__ = ["Fake"]


class Fake(types.ModuleType):
    """The module. ``calls`` has what was asked for: the routine, its sizes and its keywords;
    ``fails`` is the text of the RuntimeError that the next calls raise."""

    def __init__(self) -> None:
        super().__init__("pyclblast")
        self.calls: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
        self.fails = ""

    def gemm(self, queue: Any, m: int, n: int, k: int, a: Any, b: Any, c: Any, **how: Any) -> None:
        offsets = tuple(how.pop(f"{which}_offset") for which in "abc")
        self.calls.append(("gemm", (m, n, k), how))
        self._compute(queue, (m, n, k), (a, b, c), [offsets], **how)

    def gemmStridedBatched(
        self, queue: Any, m: int, n: int, k: int, count: int, a: Any, b: Any, c: Any, **how: Any
    ) -> None:
        self.calls.append(("gemmStridedBatched", (m, n, k, count), dict(how)))
        strides = tuple(how.pop(f"{which}_stride") for which in "abc")
        starts = [tuple(p * s for s in strides) for p in range(count)]
        self._compute(queue, (m, n, k), (a, b, c), starts, **how)

    def _compute(
        self,
        queue: Any,
        sizes: tuple[int, int, int],
        arrays: tuple[Any, Any, Any],
        starts: list[tuple[int, ...]],
        *,
        a_ld: int,
        b_ld: int,
        c_ld: int,
        a_transp: bool,
        b_transp: bool,
    ) -> None:
        import pyopencl.array

        if self.fails:
            raise RuntimeError(self.fails)
        m, n, k = sizes
        assert min(sizes) > 0
        assert isinstance(queue, cl.CommandQueue)
        for array in arrays:
            assert isinstance(array, pyopencl.array.Array)
            assert len(array.shape) == 2
            assert array.dtype == arrays[0].dtype
        memories = [x.base_data for x in arrays]
        a, b, c = (np.empty(x.size // arrays[0].dtype.itemsize, arrays[0].dtype) for x in memories)
        for memory, array in zip(memories, (a, b, c), strict=True):
            cl.enqueue_copy(queue, array, memory)
        shapes = ((k, m) if a_transp else (m, k), (n, k) if b_transp else (k, n), (m, n))
        for start in starts:
            x, y, z = (
                self._matrix(flat, *where)
                for flat, *where in zip((a, b, c), shapes, start, (a_ld, b_ld, c_ld), strict=True)
            )
            z[...] = (x.T if a_transp else x) @ (y.T if b_transp else y)
        cl.enqueue_copy(queue, memories[2], c)

    def _matrix(
        self, flat: np.ndarray, shape: tuple[int, int], start: int, step: int
    ) -> np.ndarray:
        rows, columns = shape
        assert step >= columns
        assert start + (rows - 1) * step + columns <= flat.size
        strides = (step * flat.itemsize, flat.itemsize)
        return np.lib.stride_tricks.as_strided(flat[start:], shape, strides)
