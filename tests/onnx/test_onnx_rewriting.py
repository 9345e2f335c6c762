"""The graph that passes rewrite knows who writes and reads a tensor, whenever it is asked."""

from __future__ import annotations

import numpy as np
import pytest

from qnnrt.importers.graph import Edge, Op
from qnnrt.importers.rewriting import Graph

FLOAT = np.dtype(np.float32)


def chain(*types: str) -> Graph:
    edges = [Edge((2,), FLOAT) for _ in range(len(types) + 1)]
    ops = [Op(t, [a], [b], {}) for t, a, b in zip(types, edges[:-1], edges[1:], strict=True)]
    return Graph(ops, edges[:1], edges[-1:])


def test_what_writes_and_reads_a_tensor_is_known_anew_after_each_change() -> None:
    graph = chain("ElementWiseAbs", "Relu", "Tanh")
    first, relu, last = graph.ops
    (x,), (a,), (b,) = first.inputs, first.outputs, relu.outputs
    assert graph.only_consumer(a) is relu
    assert graph.producer[b] is relu
    last.inputs = [a]
    graph.keep({id(relu)})
    assert graph.only_consumer(a) is last
    assert b not in graph.producer
    other = Op("Sigmoid", [x], [a], {})
    graph.apply({id(first): [other]}, set())
    assert graph.producer[a] is other
    assert graph.consumers[x] == [other]


def test_operations_that_a_pass_forgets_and_notes_are_looked_up_first() -> None:
    graph = chain("ElementWiseAbs", "Relu")
    first, last = graph.ops
    (a,) = first.outputs
    graph.forget(last)
    assert graph.only_consumer(a) is None
    graph.note(last)
    assert graph.consumers[a] == [last]


def test_a_graph_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="'Graph' object has no attribute 'reader'"):
        chain("Relu").reader  # noqa: B018
