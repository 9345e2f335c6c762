"""Models and graphs whose executions take a while, and executions that others wait for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Tensor
from support.toy import F32, tensors


def slow_model(steps: int = 60, n: int = 1 << 16) -> Model:
    """y = tanh(...tanh(x)...)."""
    names = ["x", *(f"t{i}" for i in range(steps - 1)), "y"]
    return Model(
        "slow",
        tensors(*(Tensor(name, (n,), F32) for name in names)),
        [Node(f"n{i}", "Tanh", [names[i]], [names[i + 1]]) for i in range(steps)],
        ["x"],
        ["y"],
    )


def graph_of(backend: qnn.Backend, n: int = 16, **context: object) -> qnn.Graph:
    """y = relu(x)."""
    graph = backend.create_context(**context).create_graph("g")
    x = graph.add_tensor("x", (n,), np.float32, type="app_write", mem_type="memhandle")
    y = graph.add_tensor("y", (n,), np.float32, type="app_read", mem_type="memhandle")
    graph.add_node("n", "Relu", [x], [y])
    graph.finalize()
    return graph


class Gate:
    """Executions of what it makes, y = x, are in flight until it is opened: at the latest at the
    end of its ``with``, which has to come before the end of a session."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()

    def open(self) -> None:
        self._opened.set()

    def close(self) -> None:
        self._opened.clear()

    def session(self, backend: str = "htp", **options: Any) -> qnnrt.Session:
        self._register()
        try:
            return qnnrt.Session(
                Model(
                    "gated",
                    tensors(Tensor("x", (16,), F32), Tensor("y", (16,), F32)),
                    [Node("n", f"{qnn.PYTHON_PACKAGE}::Gate", ["x"], ["y"])],
                    ["x"],
                    ["y"],
                ),
                backend,
                **options,
            )
        finally:
            qnn.unregister_op("Gate")

    def graph(self, backend: qnn.Backend) -> qnn.Graph:
        self._register()
        try:
            graph = backend.create_context().create_graph("gated")
            x = graph.add_tensor("x", (16,), np.float32, type="app_write")
            y = graph.add_tensor("y", (16,), np.float32, type="app_read")
            graph.add_node("n", "Gate", [x], [y], package=qnn.PYTHON_PACKAGE)
            graph.finalize()
            return graph
        finally:
            qnn.unregister_op("Gate")

    def _register(self) -> None:
        def wait(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            self._opened.wait()
            outputs[0][...] = inputs[0]

        qnn.register_op("Gate", lambda inputs: tuple(inputs[0].shape), wait)
