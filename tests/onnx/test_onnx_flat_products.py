"""Gemm between two Reshapes, as linear layers are written, is a product of what was there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import qnnrt
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

FLAT = {"flat": np.array([-1, 6]), "spread": np.array([2, 3, 4])}


def _linear(bias: bool = True) -> list[onnx.NodeProto]:
    inputs = ["a", "w", "b"] if bias else ["a", "w"]
    return [
        node("Reshape", ["x", "flat"], ["a"]),
        node("Gemm", inputs, ["p"]),
        node("Reshape", ["p", "spread"], ["q"]),
    ]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 6), (3, 2, 6), (2, 3, 2, 3)])
def test_an_activation_behind_the_second_reshape_becomes_part_of_the_product(
    shape: tuple[int, ...], bias: bool
) -> None:
    nodes = [*_linear(bias), node("Relu", ["q"], ["y"])]
    constants = FLAT | {"w": random(1, 6, 4), "b": random(2, 4)}
    x = random(3, *shape)
    model = agree(make(nodes, {"x": shape}, ["y"], constants), {"x": x})
    assert model.op_counts()["MatMul"] == 1
    assert "FullyConnected" not in model.op_counts()
    with qnnrt.Session(model) as session:
        assert len(session.profile()[0].events) == 1


@pytest.mark.parametrize("outputs", [["y", "p"], ["y", "q"]])
def test_what_others_read_is_still_there(outputs: list[str]) -> None:
    nodes = [*_linear(), node("Relu", ["q"], ["y"])]
    constants = FLAT | {"w": random(1, 6, 4), "b": random(2, 4)}
    x = random(3, 2, 3, 6)
    model = agree(make(nodes, {"x": x.shape}, outputs, constants), {"x": x})
    kept = "FullyConnected" if "p" in outputs else "MatMul"
    assert model.op_counts()[kept] == 1


def test_a_reshape_that_divides_rows_is_no_spreading() -> None:
    nodes = [*_linear()[:2], node("Reshape", ["p", "half"], ["y"])]
    constants = FLAT | {"w": random(1, 6, 4), "b": random(2, 4), "half": np.array([2, 6, 2])}
    x = random(3, 2, 3, 6)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants), {"x": x})
    assert model.op_counts()["FullyConnected"] == 1
