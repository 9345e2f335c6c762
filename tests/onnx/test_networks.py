"""Real networks: the nine that onnx ships, from their files, on both sets of kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.onnx.networks import EACH
from zoo import networks

SEED = 20261121

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

KERNELS = ("auto", "portable")


@pytest.fixture(scope="module", params=EACH)
def network(request: pytest.FixtureRequest) -> tuple[str, Model]:
    return request.param, qnnrt.load(networks.path(request.param))


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_network_gives_its_reference_output(network: tuple[str, Model], kernels: str) -> None:
    name, model = network
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        found = session.run({model.inputs[0]: networks.ramp()})
    np.testing.assert_allclose(found[model.outputs[0]], networks.reference(name), rtol=1e-3)


def test_one_transpose_at_the_edge_and_none_between(network: tuple[str, Model]) -> None:
    _, model = network
    moved = [node for node in model.nodes if node.type == "Transpose"]
    assert len(moved) == 1
    assert moved[0].inputs == model.inputs
    assert model.tensors[moved[0].outputs[0]].shape == (1, 224, 224, 3)


EXPECTED_OPS = {
    "bvlc_alexnet": {"Conv2d": 5, "Lrn": 2, "FullyConnected": 3, "PoolMax2d": 3},
    "densenet121": {"Conv2d": 121, "Batchnorm": 121, "Concat": 58},
    "inception_v1": {"Conv2d": 57, "Concat": 9, "Lrn": 2, "FullyConnected": 1},
    "inception_v2": {"Conv2d": 69, "Batchnorm": 69, "Concat": 10, "FullyConnected": 1},
    "resnet50": {"Conv2d": 53, "Batchnorm": 53, "ElementWiseAdd": 16, "FullyConnected": 1},
    "shufflenet": {"Conv2d": 33, "DepthWiseConv2d": 16, "ChannelShuffle": 16, "Concat": 3},
    "squeezenet": {"Conv2d": 26, "Concat": 8, "PoolMax2d": 3},
    "vgg19": {"Conv2d": 16, "FullyConnected": 3, "PoolMax2d": 5},
    "zfnet512": {"Conv2d": 5, "Lrn": 2, "FullyConnected": 3},
}


def test_a_network_becomes_the_operations_it_should(network: tuple[str, Model]) -> None:
    name, model = network
    found = model.op_counts()
    assert {op: found.get(op) for op in EXPECTED_OPS[name]} == EXPECTED_OPS[name]
    scales = {"ElementWiseMultiply", "ElementWiseDivide", "Squeeze", "ExpandDims"}
    assert not scales & set(found), "scales belong in the normalizations"
    assert found["Reshape"] <= 1


@pytest.mark.parametrize("name", EACH)
def test_no_transpose_at_all_when_the_edges_are_nhwc(name: str) -> None:
    model = qnnrt.load(networks.path(name), layout="nhwc")
    assert model.tensors[model.inputs[0]].shape == (1, 224, 224, 3)
    assert "Transpose" not in model.op_counts()


def test_an_nhwc_input_gives_the_same_result() -> None:
    proto, x = networks.randomized("squeezenet", SEED), networks.image(SEED)
    found = []
    for layout, given in (("keep", x), ("nhwc", np.ascontiguousarray(x.transpose(0, 2, 3, 1)))):
        model = importer.load(proto, layout=layout)
        with qnnrt.Session(model, backend="cpu") as session:
            found.append(session.run({model.inputs[0]: given})[model.outputs[0]])
    assert found[0].shape == (1, 1000, 1, 1)
    assert found[1].shape == (1, 1, 1, 1000)
    np.testing.assert_array_equal(found[0].ravel(), found[1].ravel())


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.NAMES)
def test_random_weights_match_onnxruntime(name: str) -> None:
    """The shipped weights are constants, which a swapped layout would leave as they are."""
    proto = networks.randomized(name, SEED)
    x = networks.image(SEED)
    reference = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = reference.run(None, {reference.get_inputs()[0].name: x})
    del reference
    assert wanted[-1].std() > 1, "the outputs are degenerate; the test would show nothing"
    model = importer.load(proto)
    for kernels in KERNELS:
        with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
            found = session.run({model.inputs[0]: x})
        for key, ref in zip(model.outputs, wanted, strict=True):
            # Values near zero are sums of large ones: their error is that of the whole.
            np.testing.assert_allclose(
                found[key],
                ref,
                rtol=1e-3,
                atol=1e-4 * np.abs(ref).max(),
                err_msg=f"{name} {key}, {kernels} kernels, seed {SEED}",
            )


def _transposes_between_convolutions(model: Model) -> int:
    inner = set(model.inputs) | set(model.outputs)
    return sum(
        node.type == "Transpose" and not inner & {*node.inputs, *node.outputs}
        for node in model.nodes
    )


def test_branches_in_both_orders_share_one_transpose() -> None:
    """A value that is wanted plain and channel-last is moved once, whoever asks."""
    rng = np.random.default_rng(SEED)
    helper = onnx.helper
    w = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["c", "x"], ["d"]),
            helper.make_node("Conv", ["x", "w"], ["e"], pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["d", "e"], ["y"]),
        ],
        "branches",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = importer.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert model.op_counts()["Transpose"] == 2
    assert _transposes_between_convolutions(model) == 0
