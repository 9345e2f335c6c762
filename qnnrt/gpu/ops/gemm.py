"""Kernels for products of matrices, which convolutions are as well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...dtypes import data_type
from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines, Fused, fused, reals

__all__ = ["Product", "Window", "launches"]

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

    Steps are in elements. ``a_place`` and ``b_place`` are C for which matrix product ``(p)`` takes;
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
    a_place: str = "(p)"
    b_place: str = "(p)"
    bias_step: int = 0  # from product to product
    window: Window | None = None

    @property
    def inner(self) -> int:
        """Products of two elements in each of the output's."""
        return self.depth * (self.window.taps if self.window else 1)

    def weights(self) -> np.ndarray:
        """The elements of a constant b, as [matrix, k, n]."""
        assert self.b.root.data is not None
        flat = np.ascontiguousarray(self.b.root.data).reshape(-1)
        steps = [flat.itemsize * n for n in (self.b_matrix, self.b_step, self.b_column)]
        shape = (self.b_count, self.inner, self.columns)
        return np.lib.stride_tricks.as_strided(flat, shape, steps)


def launches(product: Product, target: Target) -> list[Launch]:
    """The kernels of a product."""
    return _direct(product, target)


def _scratch(shape: tuple[int, ...]) -> Value:
    """32-bit floats that live between two kernels of a node."""
    return Value("", 0, shape, _F32, data_type(_F32), "native")


def _direct(x: Product, target: Target) -> list[Launch]:
    """Rows in registers, columns in vectors, nothing in local memory."""
    native = int(target.device.raw.native_vector_width_float)
    wide = 16 if native >= 16 else 8
    vectors = 16 // wide
    tall = 1 if x.rows == 1 else 4 if x.rows < 16 or wide == 8 else 8
    post = fused(x.node)
    panels = -(-x.columns // 16)
    packed, pack = _packed(x, panels, target)
    b_matrix = panels * x.inner * 16 if x.b_count > 1 else 0
    defines: Defines = (
        *_common_defines(x, post),
        ("TM", str(tall)),
        ("WIDE", str(wide)),
        ("VECTORS", str(vectors)),
    )
    args: list[Value | int | float] = [
        *_operands(x, packed),
        *(x.rows, x.columns, x.depth, x.a_matrix, b_matrix, x.y_matrix, x.y_row),
        *(x.window.args if x.window else (x.a_row, x.a_step)),
        *post.args,
    ]
    total = (-(-x.rows // tall), panels, x.count)
    launch = Launch("panels", "panels", defines, total, tuple(args), before=post.before)
    return [*pack, launch]


def _packed(x: Product, panels: int, target: Target) -> tuple[Value, list[Launch]]:
    """b in panels of 16 columns, and what puts it there unless it is constant."""
    shape = (x.b_count, panels, x.inner, 16)
    if x.b.root.data is not None:
        data = np.zeros((x.b_count, x.inner, panels * 16), np.float32)
        data[:, :, : x.columns] = x.weights()
        split = data.reshape(x.b_count, x.inner, panels, 16)
        return target.constant(split.swapaxes(1, 2)), []
    packed = _scratch(shape)
    sizes = (x.columns, x.inner, x.b_matrix, x.b_step, x.b_column, 16)
    total = (panels * 16, x.inner, x.b_count)
    return packed, [Launch("pack", "pack", reals(x.b), total, (x.b, packed, *sizes))]


def _common_defines(x: Product, post: Fused) -> Defines:
    bias = (("BIAS", f"p * {x.bias_step}" if x.bias_step else "0"),) if x.bias else ()
    return (
        *reals(x.a, x.b, x.bias, x.y, *post.args),
        ("AT_A(p)", x.a_place),
        ("AT_B(p)", x.b_place),
        *bias,
        *((("WINDOW", "1"),) if x.window else ()),
        *post.defines,
    )


def _operands(x: Product, b: Value) -> list[Value]:
    return [x.a, b, *((x.bias,) if x.bias else ()), x.y]
