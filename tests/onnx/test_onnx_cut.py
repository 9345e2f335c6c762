"""Parts of ONNX files: tensors of the graph as inputs and outputs of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

W, V = random(1, 4, 5), random(2, 5, 3)


def chain() -> onnx.ModelProto:
    """y = tanh(relu(x W) V) and z = relu(x W) V + b, in a file that says no shape between."""
    nodes = [
        node("MatMul", ["x", "w"], ["hidden"]),
        node("Relu", ["hidden"], ["active"]),
        node("MatMul", ["active", "v"], ["logits"]),
        node("Tanh", ["logits"], ["y"]),
        node("Add", ["logits", "b"], ["z"]),
    ]
    shapes: dict[str, tuple[object, ...]] = {"x": ("N", 4), "b": (3,)}
    proto = make(nodes, shapes, ["y", "z"], {"w": W, "v": V})
    proto.graph.ClearField("value_info")
    return proto


def run(model: object, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with qnnrt.Session(model, backend="cpu") as session:  # type: ignore[arg-type]
        return {name: array.copy() for name, array in session.run(feeds).items()}


def test_outputs_alone_leave_the_inputs_that_they_need() -> None:
    model = importer.load(chain(), outputs=["logits", "hidden"], shapes={"N": 2})
    assert (model.inputs, model.outputs) == (["x"], ["logits", "hidden"])
    x = random(3, 2, 4)
    found = run(model, {"x": x})
    np.testing.assert_allclose(found["hidden"], x @ W, rtol=1e-5)
    np.testing.assert_allclose(found["logits"], np.maximum(x @ W, 0) @ V, rtol=1e-4, atol=1e-5)


def test_what_comes_before_an_input_is_not_loaded() -> None:
    proto = chain()
    proto.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ModelError, match="'active' cannot become an input"):
        importer.load(proto, inputs=["active"], outputs=["y"], shapes={"N": 2})
    proto.graph.value_info.append(helper.make_tensor_value_info("active", TensorProto.FLOAT, None))
    model = importer.load(proto, inputs=["active"], outputs=["y"], shapes={"active": (2, 5)})
    assert model.op_counts() == {"FullyConnected": 1, "Tanh": 1}
    active = random(3, 2, 5)
    np.testing.assert_allclose(run(model, {"active": active})["y"], np.tanh(active @ V), atol=1e-5)


def test_the_type_of_an_input_is_computed_where_the_file_does_not_say_it() -> None:
    model = importer.load(chain(), inputs=["active", "b"], shapes={"N": 7})
    assert model.inputs == ["active", "b"]
    assert model.tensors["active"].shape == (7, 5)
    stated = onnx.shape_inference.infer_shapes(chain())  # [N, 5], with the name of the dimension
    model = importer.load(stated, inputs=["b", "active"], shapes={"N": 7})
    assert model.inputs == ["b", "active"]
    assert model.tensors["active"].shape == (7, 5)


def test_one_of_several_results_of_a_node_can_be_an_input() -> None:
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=0),
        node("Sub", ["a", "b"], ["y"]),
    ]
    proto = make(nodes, {"x": (4, 3)}, ["y"])
    model = importer.load(proto, inputs=["b", "x"])
    x, b = random(1, 4, 3), random(2, 2, 3)
    np.testing.assert_array_equal(run(model, {"x": x, "b": b})["y"], x[:2] - b)


def test_weights_and_inputs_can_change_places() -> None:
    model = importer.load(chain(), inputs=["x", "v"], outputs=["logits"], shapes={"N": 2})
    x, v = random(3, 2, 4), random(4, 5, 3)
    found = run(model, {"x": x, "v": v})["logits"]
    np.testing.assert_allclose(found, np.maximum(x @ W, 0) @ v, rtol=1e-4, atol=1e-5)
    fixed = importer.load(
        chain(), inputs=["x"], outputs=["z"], shapes={"N": 2}, constants={"b": np.ones(3, "f")}
    )
    assert fixed.inputs == ["x"]
    held = np.ones((2, 5), np.float32)
    fixed = importer.load(chain(), inputs=["active", "b"], constants={"active": held})
    np.testing.assert_allclose(
        run(fixed, {"b": random(5, 3)})["z"], held @ V + random(5, 3), rtol=1e-4, atol=1e-5
    )


def test_inputs_of_branches_are_those_of_the_graph() -> None:
    branch = helper.make_graph(
        [node("Mul", ["hidden", "hidden"], ["square"])],
        "branch",
        [],
        [onnx.ValueInfoProto(name="square")],
    )
    nodes = [
        node("Abs", ["x"], ["hidden"]),
        node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
    ]
    proto = make(nodes, {"x": (3,)}, ["y"], {"yes": np.array(True)})
    model = importer.load(proto, inputs=["hidden"])
    assert model.op_counts() == {"ElementWiseMultiply": 1}
    with pytest.raises(ModelError, match="depend on 'x', too"):
        importer.load(proto, inputs=["yes"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"outputs": ["logit"]}, r"no tensor 'logit' \(nearest: 'logits'\): outputs="),
        ({"inputs": ["acitve", "b"]}, r"no tensor 'acitve' \(nearest: 'active'\): inputs="),
        ({"inputs": ["active"]}, "the outputs depend on 'b', too, which inputs= does not list"),
        ({"inputs": ["active", "b"], "outputs": ["y"]}, "no output depends on 'b'"),
        ({"inputs": [], "outputs": ["y"]}, "depend on 'x', too"),
    ],
)
def test_what_cannot_be_is_one_error(how: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        importer.load(chain(), shapes={"N": 2}, **how)


def test_names_come_in_lists() -> None:
    with pytest.raises(TypeError, match="outputs is a list of names"):
        importer.load(chain(), outputs="y", shapes={"N": 2})
    with pytest.raises(ValueError, match="inputs names a tensor twice"):
        importer.load(chain(), inputs=["x", "x"], shapes={"N": 2})
    with pytest.raises(ValueError, match="outputs names no tensor"):
        importer.load(chain(), outputs=[], shapes={"N": 2})


def test_load_takes_the_ends_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(chain(), path)
    model = qnnrt.load(path, inputs=["active"], outputs=["y"], shapes={"N": 2})
    assert isinstance(model, qnnrt.Model)
    assert (model.inputs, model.outputs) == (["active"], ["y"])
