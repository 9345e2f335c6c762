"""Convolutions, as products of matrices whose rows are pixels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..ir import Launch, Node
from ..target import Target
from . import tensor, trial
from .common import given
from .gemm import launches
from .product import Product, Window

#: Kernels of these do ``Node.post``, and write to a ``Node.line``.
TAKES_POST: Final = frozenset({"Conv1d", "Conv2d"})
TAKES_LINE: Final = TAKES_POST
#: Bytes of an input from which on the fastest kernels are those that take no ``Node.lead``.
_MOST_LED: Final = 8 << 20


def _pair(value: Any, default: int) -> tuple[int, int]:
    """Of rows and columns; a convolution over one dimension is over columns."""
    given = [int(v) for v in np.ravel(value)]
    return (given[0], given[1]) if len(given) > 1 else (default, given[0])


def takes_lead(node: Node, target: Target) -> bool:
    """Whether its kernel does a ``Node.lead``: on tensor cores, where each pixel is read once and
    no zeros are read around the image."""
    if node.type not in TAKES_POST:
        return False
    x, w = node.inputs[:2]
    if x is None or w is None or w.root.data is None:
        return False
    ones = (*np.ravel(node.params["stride"]), *w.shape[:-2])
    return (
        all(int(n) == 1 for n in ones)
        and not np.any(node.params["pad_amount"])
        and int(node.params["group"]) == 1
        and x.nbytes <= _MOST_LED
        and tensor.multiplies(x.dtype, target)
        and trial.trusted(target.device)
    )


def _conv(node: Node, target: Target) -> list[Launch]:
    x, w, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert w is not None
    depth, features = w.shape[-2:]
    group = int(node.params["group"])
    flat = len(x.shape) == 3  # one row of pixels

    def plane(shape: tuple[int, ...]) -> tuple[int, int]:
        return (1, shape[-1]) if flat else (shape[-2], shape[-1])

    pads = np.reshape(node.params["pad_amount"], (-1, 2))[:, 0]
    window = Window(
        size=plane(x.shape[1:-1]),
        channels=x.shape[-1],
        output=plane(y.shape[1:-1]),
        kernel=plane(w.shape[:-2]),
        stride=_pair(node.params["stride"], 1),
        dilation=_pair(node.params["dilation"], 1),
        pad=_pair(pads, 0),
    )
    columns = features // group
    rows = y.size // features
    ones = (1, 1)
    pixelwise = window.kernel == window.stride == ones and window.pad == (0, 0)
    pixelwise = pixelwise and window.size == window.output  # no pads after the last one either
    return launches(
        Product(
            node,
            x,
            w,
            bias,
            y,
            count=group,
            rows=rows,
            columns=columns,
            depth=depth,
            a_matrix=depth,
            a_row=node.reads or window.channels,
            a_step=1,
            b_count=group,
            b_matrix=columns,
            b_step=features,
            b_column=1,
            y_matrix=columns,
            y_row=node.line[1] if node.line else features,
            y_first=node.line[0] if node.line else 0,
            bias_step=columns if group > 1 else 0,
            window=None if pixelwise else window,
        ),
        target,
    )


OPS: Final = {"Conv1d": _conv, "Conv2d": _conv}
