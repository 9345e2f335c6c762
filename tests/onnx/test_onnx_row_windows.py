"""Windows along rows of which the data decide how many count, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

#: x[mask] as [1, 4, count] and as an image [1, 2, 2, count].
CHOSEN = [
    node("Compress", ["x", "mask"], ["some"], axis=0),
    node("Transpose", ["some"], ["turned"], perm=[1, 0]),
    node("Reshape", ["turned", "line"], ["l"]),
    node("Reshape", ["turned", "image"], ["i"]),
    node("Reshape", ["some", "steps"], ["s"]),
]
SHAPES = {
    "line": np.array([1, 4, -1]), "image": np.array([1, 2, 2, -1]), "steps": np.array([-1, 1, 4]),
}  # fmt: skip
ROOM = 12


def check(
    nodes: list[onnx.NodeProto],
    axis: int | None,
    constants: dict[str, np.ndarray],
    least: int = 4,
) -> None:
    proto = make(
        [*CHOSEN, *nodes], {"x": (ROOM, 4), "mask": (ROOM,)}, ["y"], {**SHAPES, **constants},
        types={"mask": onnx.TensorProto.BOOL},
    )  # fmt: skip
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(0)
    with qnnrt.Session(importer.load(proto)) as session:
        for count in range(least, ROOM + 1):
            mask = rng.permutation(np.arange(ROOM) < count)
            feeds = {"x": random(count, ROOM, 4), "mask": mask}
            (ref,) = reference.run(None, feeds)
            found = session.run(feeds)
            y = found["y"]
            if axis is not None:
                assert found["y.count"] == ref.shape[axis]
                y = y.take(np.arange(ref.shape[axis]), axis)
            np.testing.assert_allclose(y, ref, rtol=1e-4, atol=1e-5, err_msg=f"{count} rows")


WEIGHTS = {"w": random(1, 6, 4, 3), "b": random(2, 6)}


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [[0, 0], [1, 1], [2, 0], [0, 3], [2, 2]])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions(stride: int, pads: list[int], dilation: int) -> None:
    how = {"strides": [stride], "pads": pads, "dilations": [dilation]}
    check([node("Conv", ["l", "w", "b"], ["y"], **how)], 2, WEIGHTS, 5)


def test_a_convolution_that_keeps_the_size() -> None:
    check([node("Conv", ["l", "w", "b"], ["y"], auto_pad="SAME_UPPER")], 2, WEIGHTS)
    more = [
        node("Conv", ["i", "k"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["c"]),
        node("Conv", ["c", "k"], ["d"], pads=[1, 1, 1, 1]),
        node("Add", ["d", "i"], ["y"]),
    ]
    check(more, 3, {"k": random(3, 2, 2, 3, 3)})


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [[0, 0], [1, 1], [2, 0]])
def test_transposed_convolutions(stride: int, pads: list[int]) -> None:
    more = stride - 1
    how = {"strides": [stride], "pads": pads, "output_padding": [more]}
    check([node("ConvTranspose", ["l", "w"], ["y"], **how)], 2, {"w": random(1, 4, 3, 4)})


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pads", [[0, 0], [1, 0], [1, 1]])
def test_pools(op: str, stride: int, pads: list[int]) -> None:
    how = {"kernel_shape": [3], "strides": [stride], "pads": pads}
    if op == "AveragePool":
        how["count_include_pad"] = int(pads[1] > 0)
    check([node(op, ["l"], ["y"], **how)], 2, {})


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_pools_of_all(op: str) -> None:
    check([node(op, ["i"], ["y"])], None, {}, 1)


def test_norms() -> None:
    norms = [node("InstanceNormalization", ["i", "scale", "shift"], ["y"], epsilon=1e-3)]
    check(norms, 3, {"scale": random(1, 2), "shift": random(2, 2)})
    five = {name: np.abs(random(i, 2)) for i, name in enumerate("abcd")}
    check([node("BatchNormalization", ["i", *"abcd"], ["y"])], 3, five)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [[2, 1], [0, 3], [3, 0]])
def test_pads(mode: str, pads: list[int]) -> None:
    values = {
        "pads": np.array([0, 0, pads[0], 0, 0, pads[1]]), "with": np.float32(1.5),
    }  # fmt: skip
    names = ["l", "pads", "with"] if mode == "constant" else ["l", "pads"]
    check([node("Pad", names, ["y"], mode=mode)], 2, values)


@pytest.mark.parametrize("scale", [2, 3, 0.5])
@pytest.mark.parametrize(
    ("mode", "how"),
    [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "pytorch_half_pixel")],
)
def test_resizes(scale: float, mode: str, how: str) -> None:
    resize = node(
        "Resize", ["l", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=how,
        nearest_mode="floor",
    )  # fmt: skip
    check([resize], 2, {"scales": np.array([1, 1, scale], np.float32)})


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_networks(op: str, direction: str) -> None:
    gates, both = {"GRU": 3, "LSTM": 4, "RNN": 1}[op], 1 + (direction == "bidirectional")
    weights = {"w": random(1, both, gates * 3, 4), "r": random(2, both, gates * 3, 3)}
    how = {"hidden_size": 3, "direction": direction}
    check([node(op, ["s", "w", "r"], ["y"], **how)], 0, weights, 1)
    check([node(op, ["s", "w", "r"], ["", "y"], **how)], None, weights, 1)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Conv", ["l", "w", "b"], ["y"], auto_pad="SAME_UPPER", strides=[2])],
        [node("AveragePool", ["l"], ["y"], kernel_shape=[3], pads=[1, 1])],
        [node("MaxPool", ["l"], ["y", "at"], kernel_shape=[3])],
        [node("MaxPool", ["l"], ["y"], kernel_shape=[3], strides=[2], ceil_mode=1)],
        [node("Resize", ["l", "", "scales"], ["y"])],
        [node("Pad", ["l", "less"], ["y"])],
        [node("Pad", ["l", "moved"], ["y"])],
    ],
)
def test_what_depends_on_the_size_otherwise_is_refused(nodes: list[onnx.NodeProto]) -> None:
    proto = make(
        [*CHOSEN, *nodes], {"x": (ROOM, 4), "mask": (ROOM,)}, ["y"],
        {**SHAPES, **WEIGHTS, "scales": np.array([1, 1, 1.7], np.float32),
         "less": np.array([0, 0, -1, 0, 0, 0]), "moved": np.array([0, 0, -1, 0, 0, 1])},
        types={"mask": onnx.TensorProto.BOOL},
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="the data decide"):
        importer.load(proto)
