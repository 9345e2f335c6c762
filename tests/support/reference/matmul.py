"""Products of matrices."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Node

from .registry import flag, op


@op("MatMul")
def matmul(n: Node, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    a = a.swapaxes(-1, -2) if flag(n, "transpose_in0") else a
    y = a @ (b.swapaxes(-1, -2) if flag(n, "transpose_in1") else b)
    return np.asarray(y if bias is None else y + bias)


@op("FullyConnected")
def fully_connected(
    n: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    y = x.reshape(-1, w.shape[1]) @ w.T
    y = y if bias is None else y + bias
    return y.reshape(*x.shape[:-1], -1) if flag(n, "keep_dims") else y
