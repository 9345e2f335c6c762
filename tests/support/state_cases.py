"""Nodes that keep state, executed again and again; what Buffer gives, in numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from qnnrt import qnn
from qnnrt.model import Quantization
from support.one_node import add_to, case

BLOCKING, LEFT, RIGHT = range(3)
NEVER = np.zeros(1, np.bool_)


class Steps:
    """A node of which input 0, and its reset when that is dynamic, come with each execution."""

    def __init__(self, graph: qnn.Graph, resets: bool) -> None:
        self.graph, self.resets = graph, resets

    def __call__(self, x: np.ndarray, reset: bool = False) -> list[np.ndarray]:
        feeds = [np.ascontiguousarray(x), *([np.array([reset])] if self.resets else [])]
        results = [np.full(t.shape, 77, t.dtype) for t in self.graph.outputs]
        self.graph.execute(feeds, results)
        return results

    def all(self, frames: Sequence[np.ndarray], resets: Sequence[int] = ()) -> list[np.ndarray]:
        """Output 0 of one execution for each."""
        return [self(x, i in resets)[0] for i, x in enumerate(frames)]


def add_node(
    graph: qnn.Graph,
    op: str,
    x: tuple[tuple[int, ...], Any],
    rest: Sequence[np.ndarray | None],
    outputs: Sequence[tuple[int, ...]],
    params: Mapping[str, Any],
    reset: int | None = None,
    encodings: Mapping[int | str, Quantization] | None = None,
) -> Steps:
    """Finalizes ``graph`` with one node; ``reset`` is the number of an input for each execution.

    x: shape and type of input 0. rest: the static inputs behind it.
    encodings: of inputs by number, "y" of all outputs.
    """
    shape, dtype = x
    inputs = [np.zeros(shape, dtype), *rest]
    if reset is not None:
        inputs += [*[None] * (reset - len(inputs)), np.zeros(1, np.bool_)]
    given = dict(encodings or {})
    named = {f"out{i}": given.get("y") for i in range(len(outputs))}
    named |= {f"in{i}": q for i, q in given.items() if i != "y"}
    static = range(1, 1 + len(rest))
    add_to(graph, case(op, inputs, outputs, params, static=static, encodings=named).model)
    graph.finalize()
    return Steps(graph, reset is not None)


@contextmanager
def steps_of(*args: Any, backend: str = "cpu", **options: Any) -> Iterator[Steps]:
    """``add_node`` to a graph of its own."""
    with qnn.Backend.open(backend) as opened, opened.create_context() as context:
        yield add_node(context.create_graph("g"), *args, **options)


def buffered(
    frames: Sequence[np.ndarray],
    *,
    size: int,
    dim: int,
    stride: int = 1,
    mode: int = BLOCKING,
    padding: int = 0,
    resets: Sequence[int] = (),
    zero: int = 0,
) -> list[np.ndarray | None]:
    """What a Buffer gives for each execution; None: it ends early."""

    def zeros(count: int) -> np.ndarray:
        shape = list(frames[0].shape)
        shape[dim] = count
        return np.full(shape, zero, frames[0].dtype)

    found: list[np.ndarray | None] = []
    held: np.ndarray | None = None
    for i, x in enumerate(frames):
        if held is None or i in resets:
            held = zeros(padding if mode == BLOCKING else 0)
        if held.shape[dim] == size:
            held = np.take(held, range(stride, size), dim)
        held = np.concatenate([held, x], dim)
        rest = zeros(size - held.shape[dim])
        if mode == BLOCKING:
            found.append(None if rest.shape[dim] else held)
        else:
            found.append(np.concatenate([held, rest] if mode == LEFT else [rest, held], dim))
    return found


def stream(context: qnn.Context, size: int = 3) -> qnn.Graph:
    """z = x + 1; y = tanh of the last frames of x."""
    graph = context.create_graph("g")
    x = graph.add_tensor("x", (1, 4), np.float32, type="app_write")
    z = graph.add_tensor("z", (1, 4), np.float32, type="app_read")
    one = graph.add_tensor("one", (1,), np.float32, type="static", data=np.ones(1, np.float32))
    kept = graph.add_tensor("kept", (size, 4), np.float32, type="native")
    y = graph.add_tensor("y", (size, 4), np.float32, type="app_read")
    graph.add_node("before", "ElementWiseAdd", [x, one], [z])
    params = {"buffer_size": np.uint32(size), "buffer_dim": np.uint32(0)}
    graph.add_node("buffer", "Buffer", [x], [kept], params)
    graph.add_node("after", "Tanh", [kept], [y])
    graph.finalize()
    return graph
