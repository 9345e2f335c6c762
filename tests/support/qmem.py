"""A model with tensors of two sizes in each direction, and runs of it that count."""

from __future__ import annotations

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support.toy import F32, tensors

WORDS = ("raw", "memhandle")


def broadcast_model() -> Model:
    """w = a + b with b broadcast, z = relu(b): two sizes in each direction."""
    shapes = {"a": (4, 8), "b": (1, 8), "w": (4, 8), "z": (1, 8)}
    return Model(
        "four",
        tensors(*(Tensor(name, shape, F32) for name, shape in shapes.items())),
        [
            Node("add", "ElementWiseAdd", ["a", "b"], ["w"]),
            Node("relu", "Relu", ["b"], ["z"]),
        ],
        ["a", "b"],
        ["w", "z"],
    )


SIZES = {"a": 128, "b": 32, "w": 128, "z": 32}


TOTAL = sum(SIZES.values())


def run_and_check(s: qnnrt.Session, value: float) -> None:
    """One run whose results nobody can have had before."""
    s.inputs["a"].array[...] = value
    s.inputs["b"].array[...] = np.arange(8) - 4
    s.run()
    expected = value + np.arange(8) - 4
    assert (s.outputs["w"].array == expected).all()
    assert (s.outputs["z"].array == np.maximum(np.arange(8) - 4, 0)).all()
