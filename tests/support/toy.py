"""Small models made by hand."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Model, Node, Tensor

F32 = np.dtype(np.float32)


def tensors(*items: Tensor) -> dict[str, Tensor]:
    return {t.name: t for t in items}


def relu_model(shape: tuple[int, ...] = (1, 16), dtype: np.dtype = F32) -> Model:
    """y = max(x, 0)."""
    return Model(
        "relu",
        tensors(Tensor("x", shape, dtype), Tensor("y", shape, dtype)),
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )


def add_model(shape: tuple[int, ...] = (4, 8)) -> Model:
    """z = relu(a + b), with a second output w = a + b."""
    names = ("a", "b", "w", "z")
    return Model(
        "add",
        tensors(*(Tensor(n, shape, F32) for n in names)),
        [
            Node("add", "ElementWiseAdd", ["a", "b"], ["w"]),
            Node("relu", "Relu", ["w"], ["z"]),
        ],
        ["a", "b"],
        ["w", "z"],
    )


def conv_model(seed: int = 0) -> Model:
    """y = relu(conv3x3(x) + bias), NHWC 1x8x8x8 to 1x8x8x16, padding 1."""
    rng = np.random.default_rng(seed)
    weight = (rng.standard_normal((3, 3, 8, 16)) * 0.1).astype(np.float32)
    bias = rng.standard_normal(16).astype(np.float32)
    return Model(
        "conv",
        tensors(
            Tensor("x", (1, 8, 8, 8), F32),
            Tensor("weight", weight.shape, F32, weight),
            Tensor("bias", bias.shape, F32, bias),
            Tensor("c", (1, 8, 8, 16), F32),
            Tensor("y", (1, 8, 8, 16), F32),
        ),
        [
            Node(
                "conv",
                "Conv2d",
                ["x", "weight", "bias"],
                ["c"],
                {
                    "stride": np.array([1, 1], np.uint32),
                    "pad_amount": np.array([[1, 1], [1, 1]], np.uint32),
                    "dilation": np.array([1, 1], np.uint32),
                    "group": np.uint32(1),
                },
            ),
            Node("relu", "Relu", ["c"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
