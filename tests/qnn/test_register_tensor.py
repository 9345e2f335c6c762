"""Memory registered for a tensor of a graph, and the copies that a graph counts."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.model import Quantization

CODES = np.arange(8, dtype=np.uint8).reshape(1, 8)


@pytest.fixture
def graph():
    """y = max(x, 0) in fixed point, on htp; 3 stands for 0."""
    with qnn.Backend.open("htp") as backend, backend.create_context() as context:
        made = context.create_graph("g")
        q = Quantization(0.5, -3)
        x = made.add_tensor("x", (1, 8), np.uint8, type="app_write", quantization=q)
        y = made.add_tensor("y", (1, 8), np.uint8, type="app_read", quantization=q)
        made.add_node("relu", "Relu", [x], [y])
        made.finalize()
        yield made


@pytest.mark.parametrize("kind", ["ion", "shared_buffer", "dma_buf"])
def test_a_tensor_of_the_graph_stands_for_shape_and_type(graph: qnn.Graph, kind: str) -> None:
    buffers = [qnnrt.alloc(8), qnnrt.alloc(8)]
    tensors = (graph.inputs[0], graph.outputs[0])
    x, y = (graph.context.register(b, t, kind=kind) for b, t in zip(buffers, tensors, strict=True))
    assert (x.shape, x.dtype, x.data_type) == ((1, 8), np.uint8, qnn.data_type("UFIXED_POINT_8"))
    x.array[...] = CODES
    graph.execute([x], [y])
    np.testing.assert_array_equal(y.array, np.maximum(CODES, 3))
    assert (graph.copied_bytes, graph.copies) == (0, ())


def test_the_same_handle_is_found_by_tensor_and_by_type(graph: qnn.Graph) -> None:
    buffer = qnnrt.alloc(8)
    found = graph.context.get_or_register(buffer, graph.inputs[0])
    assert graph.context.get_or_register(buffer, (1, 8), "UFIXED_POINT_8") is found


def test_a_type_beside_a_tensor_is_refused(graph: qnn.Graph) -> None:
    with pytest.raises(TypeError, match="tensor 'x' has a type: leave dtype out"):
        graph.context.register(qnnrt.alloc(8), graph.inputs[0], np.uint8)


def test_a_name_in_the_place_of_a_tensor_is_refused_with_the_tensor(graph: qnn.Graph) -> None:
    for register in (graph.context.register, graph.context.get_or_register):
        with pytest.raises(TypeError, match=r"not a name: graph\.tensors\['x'\]"):
            register(qnnrt.alloc(8), "x")


def test_memory_of_another_type_is_refused_with_the_type_to_give(graph: qnn.Graph) -> None:
    handle = graph.context.register(qnnrt.alloc(8), (1, 8), np.uint8)
    with pytest.raises(qnnrt.GraphError, match=r"'x' is UFIXED_POINT_8 .* registered as UINT_8"):
        graph.execute([handle], [np.empty((1, 8), np.uint8)])


def test_a_scalar_is_registered_with_one_dimension() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (), np.float32, type="app_write")
        assert context.register(qnnrt.alloc(4), x).shape == (1,)


def test_a_graph_counts_what_was_copied_for_it(graph: qnn.Graph) -> None:
    out = np.empty((1, 8), np.uint8)
    for _ in range(3):
        graph.execute([CODES], [out])
    assert graph.copied_bytes == 48
    assert [(c.tensor, c.direction, c.nbytes) for c in graph.copies] == [
        ("x", "in", 24),
        ("y", "out", 24),
    ]
    assert all("prepared raw" in c.reason for c in graph.copies)
    graph.reset_copies()
    assert (graph.copied_bytes, graph.copies) == (0, ())
