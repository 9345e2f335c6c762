"""backendValidateOpConfig answers what graphAddNode does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn

AXIS0 = {"axis": np.uint32(0)}
SHORT, LONG = (np.array([*range(n), 7], np.int32) for n in (2, 2000))


def _answers(
    op: str, params: dict[str, Any], inputs: list[Any], outputs: list[tuple[int, ...]]
) -> list[int]:
    """The codes of both; shapes are inputs of the graph, arrays constants."""
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        ins = [
            graph.add_tensor(f"in{i}", x.shape, x.dtype, type="static", data=x)
            if isinstance(x, np.ndarray)
            else graph.add_tensor(f"in{i}", x, np.float32, type="app_write")
            for i, x in enumerate(inputs)
        ]
        outs = [graph.add_tensor(f"out{i}", s, np.float32) for i, s in enumerate(outputs)]
        codes = []
        for ask in (backend.validate_op, lambda *node: graph.add_node("n", *node)):
            try:
                ask(op, ins, outs, params)
                codes.append(0)
            except qnnrt.QnnError as e:
                codes.append(e.code)
        return codes


@pytest.mark.parametrize("indices", [SHORT, LONG], ids=("few", "many"))
@pytest.mark.parametrize("beyond", [False, True])
def test_validation_refuses_a_constant_index_without_an_element(indices, beyond):
    n, rows = len(indices), indices.reshape(-1, 1)
    size = int(indices.max()) + (not beyond)
    expected = [6005, 6005] if beyond else [0, 0]
    assert _answers("Gather", AXIS0, [(size, 3), indices], [(n, 3)]) == expected
    assert _answers("GatherElements", AXIS0, [(size, 1), rows], [(n, 1)]) == expected
    assert _answers("ScatterElements", AXIS0, [(size, 1), rows, (n, 1)], [(size, 1)]) == expected


def test_validation_takes_a_tensor_without_elements_where_one_is_needed():
    """Optional ones may be left out by it."""
    assert _answers("Relu", {}, [(0, 3)], [(0, 3)]) == [0, 0]
    split = {"axis": np.uint32(0), "split_index": np.array([2], np.uint32)}
    assert _answers("Split", split, [(2, 3)], [(2, 3), (0, 3)]) == [0, 0]
    assert _answers("MatMul", {}, [(2, 3), (3, 4), (0,)], [(2, 4)]) == [0, 0]


@pytest.mark.parametrize(
    ("code", "type_"), [(6004, "static"), (6004, "app_write"), (0, "app_read")]
)
def test_validation_refuses_an_output_that_no_node_may_write(code: int, type_: str) -> None:
    data = {"data": np.zeros((2, 3), np.float32)} if type_ == "static" else {}
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (2, 3), np.float32, type="app_write")
        y = graph.add_tensor("y", (2, 3), np.float32, type=type_, **data)
        codes = []
        for ask in (backend.validate_op, lambda *node: graph.add_node("n", *node)):
            try:
                ask("Relu", [x], [y], {})
                codes.append(0)
            except qnnrt.QnnError as e:
                codes.append(e.code)
        assert codes == [code, code]
