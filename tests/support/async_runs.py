"""Models and graphs whose executions take a while, and executions that others wait for."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

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


def slow_graph(backend: qnn.Backend, steps: int = 400, n: int = 1 << 16) -> qnn.Graph:
    graph = backend.create_context().create_graph("slow")
    before = graph.add_tensor("x", (n,), np.float32, type="app_write")
    for i in range(steps):
        kind = "app_read" if i + 1 == steps else "native"
        after = graph.add_tensor(f"t{i}", (n,), np.float32, type=kind)
        graph.add_node(f"n{i}", "Tanh", [before], [after])
        before = after
    graph.finalize()
    return graph


def ahead_of(graph: qnn.Graph, count: int = 8) -> list[Future[None]]:
    """Executions that the next one waits for, so that it is in flight on a busy machine, too."""
    x = np.zeros(graph.inputs[0].shape, np.float32)
    return [graph.execute_async([x], [np.zeros_like(x)]) for _ in range(count)]
