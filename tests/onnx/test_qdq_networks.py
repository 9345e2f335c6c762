"""The nine networks, quantized by ONNX Runtime, against ONNX Runtime's results.

AlexNet, VGG-19 and ZFNet-512 have hidden layers of 256 units instead of 4096: of what they hold and
take, nearly all is in these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.onnx.networks import EACH
from zoo import networks
from zoo.quantizing import quantized, reference

SEED = 20261121

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

KERNELS = ("auto", "portable")

#: What the quantizer leaves in float between the ends: ResNet-50 and ShuffleNet end in a Sum, a
#: Relu and an average pool without scales.
FLOAT_ISLANDS = {"resnet50": 1, "shufflenet": 1}


@dataclass
class Network:
    name: str
    proto: onnx.ModelProto
    model: Model
    feeds: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=EACH)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    proto = networks.current(networks.randomized(request.param, SEED, 256))
    networks.randomized.cache_clear()
    name = proto.graph.input[0].name
    folder: Path = tmp_path_factory.mktemp("quantized")
    samples = [{name: networks.image(SEED + i)} for i in (10, 11)]
    found = quantized(proto, samples, folder, prepare=True)
    for file in folder.iterdir():
        file.unlink()
    feeds = {name: networks.image(SEED)}
    return Network(request.param, found, importer.load(found), feeds)


def test_a_quantized_network_is_fixed_point_between_its_ends(network: Network) -> None:
    counts = network.model.op_counts()
    islands = FLOAT_ISLANDS.get(network.name, 0)
    outputs = len(network.model.outputs)
    assert counts["Quantize"] == 1 + islands
    assert counts["Dequantize"] == outputs + 2 * islands
    assert "Convert" not in counts
    assert counts.get("Relu", 0) == islands
    assert counts["Transpose"] == 1


def _steps(network: Network, found: dict[str, np.ndarray], wanted: list[np.ndarray]) -> np.ndarray:
    """Distances of the network's own output, in steps of its encoding."""
    tensors = network.model.tensors
    name = network.model.outputs[0]
    source = next(n.inputs[0] for n in network.model.nodes if n.outputs == [name])
    quantization = tensors[source].quantization
    assert quantization is not None
    return np.abs(found[name].ravel() - wanted[0].ravel()) / float(quantization.scale)


def test_a_quantized_network_gives_what_onnxruntime_gives(network: Network) -> None:
    """Single roundings differ, and random weights amplify them from layer to layer: ONNX Runtime's
    own two ways of running a model are as far apart, see docs/decisions/0012-onnx-qdq.md."""
    plain = reference(network.proto, network.feeds)
    for kernels in KERNELS:
        with qnnrt.Session(network.model, backend="cpu", options={"kernels": kernels}) as session:
            found = session.run(network.feeds)
        steps = np.rint(_steps(network, found, plain))
        assert np.mean(steps <= 1) >= 0.98, kernels
        assert steps.max() <= 4, kernels


def _apart(network: Network, names: list[str]) -> Model:
    """The model with every tensor in `names` as an input for its readers and as an output."""
    model = importer.load(network.proto)
    for name in names:
        given = f"{name}.given"
        model.tensors[given] = replace(model.tensors[name], name=given)
        model.inputs.append(given)
    for node in model.nodes:
        node.inputs = [f"{i}.given" if i in names else i for i in node.inputs]
    model.outputs += names
    model.check()
    return model


def test_every_layer_gives_what_onnxruntime_gives(network: Network) -> None:
    """Fed with ONNX Runtime's own numbers, no element is further than one step from its result."""
    tensors = network.model.tensors
    ends = {*network.model.inputs, *network.model.outputs}
    names = [n.output[0] for n in network.proto.graph.node if n.op_type == "QuantizeLinear"]
    names = [n for n in names if n in tensors and tensors[n].data is None and n not in ends]
    proto = onnx.ModelProto()
    proto.CopyFrom(network.proto)
    for name in names:
        proto.graph.output.add().name = name
    wanted = dict(
        zip(
            [o.name for o in proto.graph.output],
            reference(proto, network.feeds),
            strict=True,
        )
    )
    feeds = dict(network.feeds)
    for name in names:
        found, shape = wanted[name], tensors[name].shape
        if found.shape != shape and found.ndim == 4:
            found = found.transpose(0, 2, 3, 1)
        wanted[name] = np.ascontiguousarray(found.reshape(shape))
        feeds[f"{name}.given"] = wanted[name]
    model = _apart(network, names)
    for kernels in KERNELS:
        with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
            found = session.run(feeds)
        total = differing = 0
        for name in names:
            steps = np.abs(found[name].astype(int) - wanted[name].astype(int))
            assert steps.max() <= 1, f"{name}, {kernels} kernels"
            total += steps.size
            differing += np.count_nonzero(steps)
        # Averages of few integers are often halfway between two steps.
        assert differing <= 1e-3 * total, kernels
