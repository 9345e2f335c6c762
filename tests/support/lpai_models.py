"""Quantized networks for tests of the lpai backend."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.qnn import Backend, Graph
from qnnrt.session.build import add_model
from support.loading import loaded

U8 = np.dtype(np.uint8)


def example() -> ModuleType:
    """examples/lpai_keyword.py: an LSTM that gets one frame at a time."""
    return loaded("examples/lpai_keyword.py")


def keyword() -> Model:
    network: Model = example().network()
    return network


def quantized_relu(size: int = 16) -> Model:
    """y = max(x, 0) on 8-bit codes: 10 stands for 0."""
    encoding = Quantization(scale=0.1, offset=-10)
    return Model(
        "relu",
        {name: Tensor(name, (1, size), U8, quantization=encoding) for name in "xy"},
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )


def quantized_conv(seed: int = 0) -> Model:
    """y = pool(relu(conv(x))), with a second output r = relu(conv(x)); 1x8x8x4 to 1x8x8x8."""
    random = np.random.default_rng(seed)
    codes = random.integers(-127, 128, (3, 3, 4, 8)).astype(np.int8)
    tensors = [
        Tensor("x", (1, 8, 8, 4), U8, quantization=Quantization(scale=0.02, offset=-128)),
        Tensor("w", codes.shape, codes.dtype, codes, Quantization(scale=0.01, offset=0)),
        Tensor("c", (1, 8, 8, 8), U8, quantization=Quantization(scale=0.05, offset=-128)),
        Tensor("r", (1, 8, 8, 8), U8, quantization=Quantization(scale=0.025, offset=0)),
        Tensor("y", (1, 4, 4, 8), U8, quantization=Quantization(scale=0.025, offset=0)),
    ]
    conv = {
        "stride": np.array([1, 1], np.uint32),
        "pad_amount": np.array([[1, 1], [1, 1]], np.uint32),
    }
    pool = {
        "filter_size": np.array([2, 2], np.uint32),
        "stride": np.array([2, 2], np.uint32),
        "pad_amount": np.zeros((2, 2), np.uint32),
    }
    nodes = [
        Node("conv", "Conv2d", ["x", "w"], ["c"], conv),
        Node("relu", "Relu", ["c"], ["r"]),
        Node("pool", "PoolMax2d", ["r"], ["y"], pool),
    ]
    return Model("conv", {t.name: t for t in tensors}, nodes, ["x"], ["r", "y"])


def codes(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Random 8-bit codes."""
    return np.random.default_rng(seed).integers(0, 256, shape).astype(U8)


def on_cpu(model: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with qnnrt.Session(model) as s:
        return s.run(feeds)


def compose(backend: Backend, model: Model, name: str = "g") -> Graph:
    """A model's graph, not finalized."""
    graph = backend.create_context().create_graph(name)
    add_model(graph, model, dict.fromkeys((*model.inputs, *model.outputs), "raw"))
    return graph
