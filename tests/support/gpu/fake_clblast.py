"""In the place of pyclblast: its two routines for products, computed by numpy.

Arguments are refused as CLBlast refuses them: types, steps that are too small, buffers that end too
early.
"""

from __future__ import annotations

import ctypes
import time
import types
from typing import Any

import numpy as np

from qnnrt.gpu.loader import address
from support.gpu.opencl import cl

__all__ = ["Fake"]


class Fake(types.ModuleType):
    """The module. ``calls`` has what was asked for: the routine, its sizes and its keywords;
    ``fails`` is the text of the RuntimeError that the next calls raise, ``seconds`` how
    long they take more. ``keeps``: a reference to each event, as pyclblast 1.4.0 does."""

    def __init__(self) -> None:
        super().__init__("pyclblast")
        self.calls: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
        self.fails = ""
        self.seconds = 0.0
        self.keeps = False

    def gemm(self, queue: Any, m: int, n: int, k: int, a: Any, b: Any, c: Any, **how: Any) -> Any:
        offsets = tuple(how.pop(f"{which}_offset") for which in "abc")
        self.calls.append(("gemm", (m, n, k), how))
        return self._compute(queue, (m, n, k), (a, b, c), [offsets], **how)

    def gemmStridedBatched(
        self, queue: Any, m: int, n: int, k: int, count: int, a: Any, b: Any, c: Any, **how: Any
    ) -> Any:
        self.calls.append(("gemmStridedBatched", (m, n, k, count), dict(how)))
        strides = tuple(how.pop(f"{which}_stride") for which in "abc")
        starts = [tuple(p * s for s in strides) for p in range(count)]
        return self._compute(queue, (m, n, k), (a, b, c), starts, **how)

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
    ) -> Any:
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
        time.sleep(self.seconds)
        event = cl.enqueue_marker(queue)
        if self.keeps:
            retain = address("clRetainEvent")
            ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(retain)(event.int_ptr)
        return event

    def _matrix(
        self, flat: np.ndarray, shape: tuple[int, int], start: int, step: int
    ) -> np.ndarray:
        rows, columns = shape
        assert step >= columns
        assert start + (rows - 1) * step + columns <= flat.size
        strides = (step * flat.itemsize, flat.itemsize)
        return np.lib.stride_tricks.as_strided(flat[start:], shape, strides)
