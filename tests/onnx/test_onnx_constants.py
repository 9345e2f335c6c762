"""Nodes whose inputs are all constants give what they give on inputs: ONNX's own evaluator, which
once folded them, has the wrong results or shapes for these."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from qnnrt.model import Model

RNG = np.random.default_rng(3)


def f32(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 1.5, shape).astype(np.float32)


def loaded(op: str, opset: int, values: list[np.ndarray], constant: bool, attrs: dict) -> Model:
    """A node on constants or on inputs, beside one that has an input in any case."""
    names = [f"i{k}" for k in range(len(values))]
    nodes = [helper.make_node(op, names, ["y"], **attrs), helper.make_node("Relu", ["x"], ["z"])]
    each = list(zip(names, values, strict=True))
    given = [] if constant else each
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", 1, [1]),
         *(helper.make_tensor_value_info(n, 1, v.shape) for n, v in given)],
        [helper.make_tensor_value_info(n, 1, None) for n in ("y", "z")],
        [numpy_helper.from_array(v, n) for n, v in each if constant],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 8
    return importer.load(proto)


CASES = {
    "more channels than LRN's window": ("LRN", 13, [f32(1, 8, 3, 3)], {"size": 5, "alpha": 0.5}),
    "fewer channels than LRN's window": ("LRN", 11, [f32(6, 2, 6, 8)], {"size": 5}),
    "a norm of order 1": ("LpNormalization", 19, [f32(2, 4, 3) - 1], {"p": 1, "axis": 1}),
    "batches normalized in opset 11": (
        "BatchNormalization", 11, [f32(1, 4, 3, 3), *(f32(4) for _ in range(4))],
        {"epsilon": 0.1},
    ),
    "batches normalized in opset 7": (
        "BatchNormalization", 7, [f32(2, 4, 3), *(f32(4) for _ in range(4))], {},
    ),
    "a global maximum of two dimensions": ("GlobalMaxPool", 13, [f32(2, 3, 5)], {}),
    "a global maximum of three": ("GlobalMaxPool", 13, [f32(1, 2, 5, 4, 3)], {}),
    "a global norm": ("GlobalLpPool", 13, [f32(1, 3, 4, 2)], {}),
    "softmax over what follows": ("Softmax", 7, [f32(2, 3, 4)], {"axis": 1}),
    "coupled gates": (
        "LSTM", 14, [f32(2, 1, 3), f32(1, 8, 3), f32(1, 8, 2)],
        {"hidden_size": 2, "input_forget": 1, "clip": 0.5},
    ),
    "both directions": (
        "RNN", 14, [f32(3, 2, 4), f32(2, 3, 4), f32(2, 3, 3)],
        {"hidden_size": 3, "direction": "bidirectional"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_node_on_constants_gives_what_it_gives_on_inputs(name: str) -> None:
    op, opset, values, attrs = CASES[name]
    found = []
    for constant in (True, False):
        model = loaded(op, opset, values, constant, attrs)
        feeds = {f"i{k}": v for k, v in enumerate(values)}
        with qnnrt.Session(model) as s:
            given = {n: feeds[n] for n in model.inputs if n != "x"}
            found.append(s.run({"x": np.ones(1, np.float32), **given})["y"])
    assert found[0].shape == found[1].shape
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_a_form_that_is_refused_is_refused_on_constants() -> None:
    """It was folded without the attribute: wrong results."""
    values = [f32(2, 1, 3), f32(1, 8, 3), f32(1, 8, 2)]
    how = {"hidden_size": 2, "activations": ["Sigmoid", "Tanh", "Sine"]}
    for constant in (True, False):
        with pytest.raises(UnsupportedOpError, match="activation sine"):
            loaded("LSTM", 14, values, constant, how)


@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_of_one_dimension(opset: int) -> None:
    """It loaded, and the backend refused it."""
    x = np.float32([0.3, 2, -1, 2])
    axis = 0 if opset < 13 else -1
    with qnnrt.Session(loaded("Hardmax", opset, [x], False, {"axis": axis})) as s:
        y = s.run({"x": np.ones(1, np.float32), "i0": x})["y"]
    np.testing.assert_array_equal(y, [0, 1, 0, 0])


@pytest.mark.parametrize(
    ("op", "types", "name"),
    [
        ("ConstantOfShape", [7], "input"), ("Range", [1, 1, 1], "start"),
        ("HannWindow", [6], "size"), ("MelWeightMatrix", [6, 6, 6, 1, 1], "num_mel_bins"),
    ],
)  # fmt: skip
def test_what_is_made_of_parameters_alone_says_which_it_needs(
    op: str, types: list[int], name: str
) -> None:
    shape = [2] if op == "ConstantOfShape" else []
    given = [helper.make_tensor_value_info(f"i{k}", t, shape) for k, t in enumerate(types)]
    graph = helper.make_graph(
        [helper.make_node(op, [v.name for v in given], ["y"])], "g", given,
        [helper.make_tensor_value_info("y", 1, None)],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedOpError, match=rf"{name} \(input 0\) must be known .*constants="):
        importer.load(proto)
