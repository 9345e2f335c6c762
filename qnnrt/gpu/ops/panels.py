"""Kernels of panels.cl: products without local memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..ir import Launch, Value
from ..target import Target
from .common import Defines, fused, reals
from .product import Product, scratch

__all__ = ["SHAPES", "best", "make"]

#: Rows of a work item, elements of a vector, vectors. None has 16 elements: PoCL 3.0 takes its
#: library for AVX-512 on every processor that has it, compiles for processors of AMD as if they had
#: not, and ends the process at vectors of that length.
SHAPES: Final = ((8, 8, 2), (8, 8, 4), (4, 8, 4), (4, 8, 2), (4, 8, 1), (1, 8, 2))


def best(x: Product, target: Target) -> tuple[int, int, int]:
    """What is expected to be the fastest of `SHAPES`."""
    wide = int(target.device.raw.native_vector_width_float) >= 16
    if x.rows == 1:
        return (1, 8, 2)
    return (8, 8, 2) if wide and x.rows >= 16 else (4, 8, 2)


def make(x: Product, target: Target, shape: tuple[int, int, int]) -> list[Launch]:
    """A product with one of `SHAPES`."""
    tall, wide, vectors = shape
    width = wide * vectors
    post = fused(x.node)
    panels = -(-x.columns // width)
    packed, pack = _packed(x, panels, width, target)
    defines: Defines = (
        *x.defines(post),
        *((("WINDOW", "1"),) if x.window else ()),
        ("TM", str(tall)),
        ("WIDE", str(wide)),
        ("VECTORS", str(vectors)),
    )
    b_matrix = panels * x.inner * width if x.b_count > 1 else 0
    args = [
        *x.operands(packed),
        *(x.rows, x.columns, x.depth, x.a_matrix, b_matrix, *x.place),
        *(x.window.args if x.window else (x.a_row, x.a_step)),
        *post.args,
    ]
    total = (-(-x.rows // tall), panels, x.count)
    launch = Launch("panels", "panels", defines, total, tuple(args), before=post.before)
    return [*pack, launch]


def _packed(x: Product, panels: int, width: int, target: Target) -> tuple[Value, list[Launch]]:
    """b in panels of columns, and what puts it there unless it is constant."""
    if x.constant:
        data = np.zeros((x.b_count, x.inner, panels * width), np.float32)
        data[:, :, : x.columns] = x.weights()
        split = data.reshape(x.b_count, x.inner, panels, width)
        return target.constant(split.swapaxes(1, 2)), []
    packed = scratch(x.b_count, panels, x.inner, width)
    sizes = (x.columns, x.inner, x.b_matrix, x.b_step, x.b_column, width)
    total = (panels * width, x.inner, x.b_count)
    return packed, [Launch("pack", "pack", reals(x.b), total, (x.b, packed, *sizes))]
