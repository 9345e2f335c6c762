"""Defines and arguments of the kernels of matrix products, which convolutions are as well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...dtypes import data_type
from ..ir import Launch, Lead, Node, Value
from .common import Defines, Fused, reals

__all__ = ["Product", "Window", "combined", "in_tiles", "scratch"]

_F32: Final = np.dtype(np.float32)


@dataclass(frozen=True)
class Window:
    """What a convolution reads for each pixel of its output; pairs are of rows and columns."""

    size: tuple[int, int]  # of the input
    channels: int  # of an input pixel, all groups together
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]  # before the first row and column

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def args(self) -> tuple[int, ...]:
        """In the order of the kernels' parameters."""
        pairs = (self.output, self.kernel, self.stride, self.dilation, self.pad)
        return (*self.size, self.channels, *itertools.chain.from_iterable(pairs))


@dataclass(frozen=True)
class Product:
    """y[p, m, n] = sum over k of a[p, m, k] * b[p, k, n], with a bias for each n.

    Steps are in elements. ``a_index`` and ``b_index`` are C for which matrix product ``(p)`` takes;
    with ``window`` rows are pixels, ``depth`` is the channels of a group and products are groups.
    """

    node: Node
    a: Value
    b: Value
    bias: Value | None
    y: Value
    count: int
    rows: int
    columns: int
    depth: int
    a_matrix: int
    a_row: int
    a_step: int
    b_count: int
    b_matrix: int
    b_step: int
    b_column: int
    y_matrix: int
    y_row: int
    a_index: str = "(p)"
    b_index: str = "(p)"
    bias_step: int = 0  # from product to product
    y_first: int = 0  # elements of y before it
    window: Window | None = None

    @property
    def inner(self) -> int:
        """Products of two elements in each of the output's."""
        return self.depth * (self.window.taps if self.window else 1)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where kernels write: elements from product to product and row to row, and before all."""
        return self.y_matrix, self.y_row, self.y_first

    @property
    def constant(self) -> bool:
        """Whether b is known, and can be kept as a kernel likes it."""
        return self.b.root.data is not None

    def weights(self) -> np.ndarray:
        """The elements of a constant b, as [matrix, k, n]."""
        assert self.b.root.data is not None
        flat = np.ascontiguousarray(self.b.root.data).reshape(-1)
        steps = [flat.itemsize * n for n in (self.b_matrix, self.b_step, self.b_column)]
        shape = (self.b_count, self.inner, self.columns)
        return np.lib.stride_tricks.as_strided(flat, shape, steps)

    def defines(self, post: Fused) -> Defines:
        """Those that all kernels of products know."""
        bias = (("BIAS", f"p * {self.bias_step}" if self.bias_step else "0"),) if self.bias else ()
        return (
            *reals(self.a, self.b, self.bias, self.y, *post.args),
            ("AT_A(p)", self.a_index),
            ("AT_B(p)", self.b_index),
            *bias,
            *post.defines,
        )

    @property
    def lead(self) -> Lead | None:
        """What is done to a first."""
        return self.node.lead

    def operands(self, b: Value) -> list[Value | int | float]:
        """The first arguments of a kernel that finishes the product."""
        return [self.a, b, *((self.bias,) if self.bias else ()), self.y]

    def __str__(self) -> str:
        """What matters for how long it takes, as text without spaces."""
        parts = [
            self.a.dtype.name,
            f"{self.count}x{self.rows}x{self.columns}x{self.inner}",
            *(("turned_a",) if self.a_step != 1 else ()),
            *(("turned_b",) if self.b_column != 1 and not self.constant else ()),
            *(("weights",) if self.constant else ()),
            *(("lead",) if self.lead else ()),
        ]
        if self.window:
            w = self.window
            pairs = zip("ksd", (w.kernel, w.stride, w.dilation), strict=True)
            parts += [f"{letter}{h}x{v}" for letter, (h, v) in pairs]
        return "-".join(parts)


def scratch(*shape: int) -> Value:
    """32-bit floats between two kernels of a node."""
    return Value("", 0, shape, _F32, data_type(_F32), "native")


def in_tiles(
    x: Product,
    post: Fused,
    kernel: str,
    defines: Defines,
    tile: tuple[int, int, int],
    b: tuple[Value, int, int],
    parts: int,
) -> list[Launch]:
    """The launches of a kernel with the parameters of operands.cl.

    Args:
        x: the product.
        post: what is behind it.
        kernel: its name, and its file's.
        defines: all but PARTIAL.
        tile: rows and columns of a work group, and its work items.
        b: the second matrix as the kernel reads it, its elements from matrix to matrix and from
            line to line.
        parts: that the sum is cut into; one more kernel adds them.
    """
    rows, columns, items = tile
    groups = (-(-x.columns // columns), -(-x.rows // rows), x.count * parts)
    total, group = (groups[0] * items, *groups[1:]), (items, 1, 1)
    sizes = (x.rows, x.columns, x.depth, x.inner, parts, x.a_matrix, *b[1:], *x.place)
    a_row = x.a_row if x.a_step == 1 else x.a_step
    args = (*sizes, *(x.window.args if x.window else (a_row,)))
    if parts == 1:
        whole = (*x.operands(b[0]), *args, *post.args)
        return [Launch(kernel, kernel, defines, total, whole, group, post.before)]
    # Neither bias nor what comes behind is done to a part.
    later = ("BIAS", *(name for name, _ in post.defines))
    defines = (*(d for d in defines if d[0] not in later), ("PARTIAL", "1"))
    pieces = scratch(parts, x.count, x.rows, x.columns)
    return [
        Launch(kernel, kernel, defines, total, (x.a, b[0], pieces, *args), group),
        combined(x, post, pieces, parts),
    ]


def combined(x: Product, post: Fused, pieces: Value, parts: int) -> Launch:
    """The kernel that adds ``parts`` pieces of all products, and then does what is behind them."""
    sizes = (parts, x.rows, x.columns, *x.place)
    args = (pieces, *x.operands(x.b)[2:], *sizes, *post.args)
    elements = (x.count * x.rows * x.columns,)
    return Launch("combine", "combine", x.defines(post), elements, args, None, post.before)
