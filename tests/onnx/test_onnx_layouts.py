"""Layouts of imported ONNX models: no Transpose more than needed, no result changed."""

from __future__ import annotations

import json
import math

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node
from support.processor import FORCED, processor_has
from support.reference import run as run_in_numpy

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def test_operations_in_between_work_in_the_order_they_find() -> None:
    """Padding, slicing, reducing, softmax, split and concat on channel-last data: no transpose."""
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Add", ["a", "bias"], ["b"]),
        node("Pad", ["b", "pads"], ["c"]),
        node("Slice", ["c", "starts", "ends", "axes"], ["d"]),
        node("Split", ["d", "split"], ["e", "f"], axis=1),
        node("Concat", ["f", "e"], ["g"], axis=1),
        node("ReduceMean", ["g"], ["h"], axes=[1], keepdims=1),
        node("Mul", ["g", "h"], ["i"]),
        node("Softmax", ["i"], ["j"], axis=1),
        node("PRelu", ["j", "slope"], ["k"]),
        node("Conv", ["k", "w"], ["y"]),
    ]
    constants = {
        "w": random(1, 4, 4, 3, 3),
        "bias": random(2, 4, 1, 1),
        "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64),
        "starts": np.array([1], np.int64),
        "ends": np.array([9], np.int64),
        "axes": np.array([3], np.int64),
        "split": np.array([1, 3], np.int64),
        "slope": random(3, 4, 1, 1),
    }
    proto = make(nodes, {"x": (2, 4, 9, 9)}, ["y"], constants)
    model = agree(proto, {"x": random(4, 2, 4, 9, 9)})
    assert model.op_counts()["Transpose"] == 2  # in and out


def test_nhwc_edges_leave_no_transpose() -> None:
    proto = make(
        [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        {"x": (1, 3, 8, 8)},
        ["y"],
        {"w": random(1, 5, 3, 3, 3)},
    )
    model = importer.load(proto, layout="nhwc")
    assert "Transpose" not in model.op_counts()
    assert model.tensors["x"].shape == (1, 8, 8, 3)
    assert model.tensors["y"].shape == (1, 6, 6, 5)
    x = random(2, 1, 3, 8, 8)
    kept = importer.load(proto)
    y = run_in_numpy(kept, {"x": x})["y"]
    z = run_in_numpy(model, {"x": x.transpose(0, 2, 3, 1)})["y"]
    np.testing.assert_allclose(z.transpose(0, 3, 1, 2), y, rtol=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
def test_flattened_images_go_into_permuted_weights(batch: int) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Flatten", ["a"], ["b"]),
        node("Relu", ["b"], ["c"]),
        node("Gemm", ["c", "v", "bias"], ["y"], transB=1),
    ]
    constants = {"w": random(1, 4, 3, 3, 3), "v": random(2, 10, 144), "bias": random(3, 10)}
    proto = make(nodes, {"x": (batch, 3, 8, 8)}, ["y"], constants)
    model = agree(proto, {"x": random(4, batch, 3, 8, 8)})
    assert model.op_counts()["Transpose"] == 1
    assert [n.type for n in model.nodes[-3:]] == ["Relu", "Reshape", "FullyConnected"]


def test_a_global_pool_reshapes_without_a_transpose() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("GlobalAveragePool", ["a"], ["b"]),
        node("Squeeze", ["b", "axes"], ["c"]),
        node("MatMul", ["c", "v"], ["y"]),
    ]
    constants = {"w": random(1, 4, 3, 3, 3), "v": random(2, 4, 5), "axes": np.array([2, 3])}
    proto = make(nodes, {"x": (2, 3, 8, 8)}, ["y"], constants)
    assert agree(proto, {"x": random(4, 2, 3, 8, 8)}).op_counts()["Transpose"] == 1


@pytest.mark.parametrize("groups", [2, 3])
def test_reshape_transpose_reshape_is_a_channel_shuffle(groups: int) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Reshape", ["a", "split"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["c", "join"], ["d"]),
        node("Conv", ["d", "v"], ["y"]),
    ]
    constants = {
        "w": random(1, 6, 3, 1, 1),
        "v": random(2, 6, 6, 1, 1),
        "split": np.array([2, groups, 6 // groups, 5, 7]),
        "join": np.array([0, -1, 5, 7]),
    }
    proto = make(nodes, {"x": (2, 3, 5, 7)}, ["y"], constants)
    model = agree(proto, {"x": random(4, 2, 3, 5, 7)})
    assert model.op_counts()["ChannelShuffle"] == 1
    assert model.op_counts()["Transpose"] == 2
    assert "Reshape" not in model.op_counts()


def test_inverse_transposes_cancel() -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        node("Relu", ["a"], ["b"]),
        node("Transpose", ["b"], ["y"], perm=[0, 3, 1, 2]),
    ]
    model = agree(make(nodes, {"x": (2, 3, 4, 5)}, ["y"]), {"x": random(1, 2, 3, 4, 5)})
    assert model.op_counts() == {"Relu": 1}


def test_a_transposed_operand_becomes_a_parameter_of_the_product() -> None:
    nodes = [
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["y"]),
    ]
    proto = make(nodes, {"q": (2, 3, 4, 5), "k": (2, 3, 6, 5)}, ["y"])
    model = agree(proto, {"q": random(1, 2, 3, 4, 5), "k": random(2, 2, 3, 6, 5)})
    assert model.op_counts() == {"MatMul": 1}


def test_heads_move_in_whole_rows_before_a_product() -> None:
    """They have to move anyway: then not the elements of a row, and the product reads it plainly.
    What need not move stays, and the product turns it."""
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["r"]),
        node("MatMul", ["r", "w"], ["y"]),
        node("Transpose", ["x"], ["u"], perm=[0, 3, 1, 2]),
        node("Reshape", ["u", "rows"], ["s"]),
        node("MatMul", ["s", "v"], ["z"]),
    ]
    constants = {
        "joined": np.array([2, 6, 20], np.int64),
        "rows": np.array([2, 5, 24], np.int64),
        "w": random(1, 20, 7),
        "v": random(2, 24, 3),
    }
    proto = make(nodes, {"x": (2, 4, 6, 5)}, ["y", "z"], constants)
    model = agree(proto, {"x": random(3, 2, 4, 6, 5)})
    (moved,) = (n for n in model.nodes if n.type == "Transpose")
    assert list(moved.params["perm"]) == [0, 2, 1, 3]
    products = [n.params["transpose_in0"] for n in model.nodes if n.type == "MatMul"]
    assert products == [False, True]


def test_scales_of_other_frameworks_join_the_normalization() -> None:
    names = ("scale", "bias", "mean", "variance")
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("BatchNormalization", ["a", *names], ["b"]),
        node("Mul", ["b", "m"], ["c"]),
        node("Add", ["c", "s"], ["y"]),
    ]
    constants = {name: np.abs(random(i, 4)) + 0.5 for i, name in enumerate(names)}
    constants |= {"w": random(9, 4, 3, 3, 3), "m": random(7, 4, 1, 1), "s": random(8, 4, 1, 1)}
    model = agree(make(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants), {"x": random(4, 1, 3, 8, 8)})
    counts = model.op_counts()
    assert counts["Batchnorm"] == 1
    assert "ElementWiseMultiply" not in counts
    assert "ElementWiseAdd" not in counts


@pytest.mark.parametrize("order", ["x first", "half first", "half of x"])
def test_the_error_function_form_of_gelu_is_found(order: str) -> None:
    nodes = [
        node("Div", ["x", "root"], ["a"]),
        node("Erf", ["a"], ["b"]),
        node("Add", ["b", "one"], ["c"]),
    ]
    if order == "x first":
        nodes += [node("Mul", ["x", "c"], ["d"]), node("Mul", ["d", "half"], ["y"])]
    elif order == "half first":
        nodes += [node("Mul", ["c", "half"], ["d"]), node("Mul", ["d", "x"], ["y"])]
    else:
        nodes += [node("Mul", ["x", "half"], ["d"]), node("Mul", ["d", "c"], ["y"])]
    constants = {
        "root": np.array(math.sqrt(2), np.float32),
        "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32),
    }
    proto = make(nodes, {"x": (3, 5)}, ["y"], constants)
    assert agree(proto, {"x": random(1, 3, 5)}).op_counts() == {"Gelu": 1}


# ---- random convolutional networks -----------------------------------------------------------


#: Operations that need their input channel-last.
CHANNEL_LAST = {"Batchnorm", "Conv2d", "DepthWiseConv2d", "PoolAvg2d", "PoolMax2d"}


def _random_network(seed: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A chain of random layers with skip connections, on random sizes."""
    rng = np.random.default_rng(seed)
    shape = [int(rng.integers(1, 3)), int(rng.integers(2, 7)), *map(int, rng.integers(9, 15, 2))]
    nodes, constants = [], {}
    current, channels, older = "x", shape[1], []
    for i in range(8):
        name = f"v{i}"
        kind = rng.choice(["conv", "depth", "group", "pool", "act", "bn", "skip", "pad", "cat"])
        if kind in ("conv", "group", "depth"):
            group = {"conv": 1, "group": 2 if channels % 2 == 0 else 1, "depth": channels}[kind]
            out = channels if kind == "depth" else 2 * int(rng.integers(1, 4))
            kernel = rng.integers(1, 4, 2)
            constants[f"w{i}"] = random(seed + i, out, channels // group, *kernel)
            constants[f"w{i}"] /= math.sqrt(channels * kernel.prod())
            pads = [int(p) for k in (kernel, kernel) for p in rng.integers(0, k)]
            nodes.append(
                node("Conv", [current, f"w{i}"], [name], group=group, pads=pads,
                     strides=[1, int(rng.integers(1, 3))] if i < 2 else [1, 1])
            )  # fmt: skip
            channels, older = out, []
        elif kind == "pool":
            op = str(rng.choice(["MaxPool", "AveragePool"]))
            nodes.append(node(op, [current], [name], kernel_shape=[2, 3], pads=[1, 1, 0, 1]))
            older = []
        elif kind == "act":
            op = str(rng.choice(["Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Elu", "Tanh"]))
            nodes.append(node(op, [current], [name]))
        elif kind == "bn":
            names = [f"{p}{i}" for p in ("s", "b", "m", "q")]
            constants |= {n: np.abs(random(seed + i, channels)) + 0.5 for n in names}
            nodes.append(node("BatchNormalization", [current, *names], [name]))
        elif kind == "skip" and older:
            nodes.append(node("Add", [current, str(rng.choice(older))], [name]))
        elif kind == "cat" and older:
            nodes.append(node("Concat", [current, str(rng.choice(older))], [name], axis=1))
            channels, older = 2 * channels, []
        else:
            constants[f"p{i}"] = np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64)
            nodes.append(node("Pad", [current, f"p{i}"], [name], mode="reflect"))
            older = []
        older.append(name)
        current = name
    proto = make(nodes, {"x": tuple(shape)}, [current], constants)
    return proto, random(seed + 99, *shape)


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_match_onnxruntime(seed: int) -> None:
    proto, x = _random_network(seed)
    model = agree(proto, {"x": x}, atol=1e-4)
    # One on the way to the first layer that needs channel-last data, one on the way out.
    moved = [i for i, n in enumerate(model.nodes) if n.type == "Transpose"]
    layers = [i for i, n in enumerate(model.nodes) if n.type in CHANNEL_LAST]
    assert len(moved) <= 2, f"seed {seed}: {model}"
    assert not [i for i in moved if layers and layers[0] < i < layers[-1]], f"seed {seed}: {model}"


#: Operators whose further operands are not of the first one's shape, and the shapes of all.
OPERANDS: dict[str, tuple[dict[str, object], tuple[tuple[int, ...], ...]]] = {
    "LayerNormalization": ({"axis": 1}, ((1, 4, 4, 1), (4, 4, 1), (4, 4, 1))),
    "LayerNormalization of ones": ({"axis": 0}, ((1, 4, 1, 1), (1, 4, 1, 1), (1, 4, 1, 1))),
    "LayerNormalization broadcast": ({"axis": 1}, ((2, 3, 4, 4), (3, 1, 4), (1, 3, 4, 4))),
    "InstanceNormalization": ({}, ((2, 4, 3, 5), (4,), (4,))),
    "GroupNormalization": ({"num_groups": 2}, ((2, 4, 3, 5), (4,), (4,))),
    "Conv": ({}, ((1, 3, 9), (4, 3, 2), (4,))),
    "Conv 2": ({"group": 2}, ((1, 4, 6, 5), (6, 2, 3, 2), (6,))),
    "Conv depthwise": ({"group": 4}, ((1, 4, 6, 5), (4, 1, 3, 2), (4,))),
    "Conv 3": ({}, ((1, 2, 4, 4, 3), (4, 2, 3, 2, 1), (4,))),
    "ConvTranspose": ({"strides": [2]}, ((1, 3, 5), (3, 4, 2), (4,))),
    "ConvTranspose 2": ({"strides": [2, 1]}, ((1, 3, 5, 4), (3, 4, 2, 2), (4,))),
    "BatchNormalization": ({}, ((2, 4, 3, 5), (4,), (4,), (4,), (4,))),
    "Gemm": ({}, ((4, 6), (6, 8), (8,))),
}


@pytest.mark.parametrize("how", ["transposed", "reshaped", "channels last"])
@pytest.mark.parametrize("case", OPERANDS)
def test_scales_biases_and_weights_come_in_any_order(case: str, how: str) -> None:
    """As other nodes leave them: not moved yet, whatever the shapes are."""
    attrs, shapes = OPERANDS[case]
    op, nodes, inputs, feeds, constants, names = case.split()[0], [], {}, {}, {}, []
    for i, shape in enumerate(shapes):
        name, x = f"i{i}", np.abs(random(i, *shape)) + 0.5
        names.append(name)
        if how == "transposed":
            order = np.roll(np.arange(len(shape)), 1).tolist()
            x = np.ascontiguousarray(x.transpose(np.argsort(order)))
            nodes.append(node("Transpose", [f"{name}.raw"], [name], perm=order))
        elif how == "channels last" and len(shape) >= 3:
            ones = [1] * (len(shape) - 2)
            nodes.append(node("MaxPool", [f"{name}.raw"], [name], kernel_shape=ones))
        else:
            x = x.reshape(2, -1).T if x.size % 2 == 0 else x.reshape(-1, 1)
            constants[f"{name}.shape"] = np.array(shape, np.int64)
            nodes.append(node("Transpose", [f"{name}.raw"], [f"{name}.turned"]))
            nodes.append(node("Reshape", [f"{name}.turned", f"{name}.shape"], [name]))
        inputs[f"{name}.raw"], feeds[f"{name}.raw"] = x.shape, np.ascontiguousarray(x)
    nodes.append(node(op, names, ["y"], **attrs))
    opset = 21 if op == "GroupNormalization" else 17
    agree(make(nodes, inputs, ["y"], constants, opset), feeds, atol=1e-4)


def test_a_part_that_reads_what_it_has_made_itself_transposed() -> None:
    nodes = [
        node("Split", ["x", "sizes"], ["a", "b"], axis=2),
        node("Transpose", ["b"], ["turned"], perm=[1, 3, 0, 2]),
        node("Concat", ["a", "x", "b"], ["joined"], axis=2),
        node("Mul", ["joined", "turned"], ["y"]),
    ]
    x = random(1, 1, 8, 5, 1)
    proto = make(nodes, {"x": x.shape}, ["y"], {"sizes": np.array([3, 2])})
    agree(proto, {"x": x})


def steps(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[str]:
    """The ops that a graph runs, whose results agree with ONNX Runtime's."""
    model = agree(proto, feeds)
    with qnnrt.Session(model, backend="cpu") as session:
        return [s["op"] for s in json.loads(session.graph.describe() or "")["steps"]]


@pytest.mark.parametrize("shape", [(2, 5, 9), (3, 17, 7, 9), (2, 3, 4, 5, 6), (1, 2, 100, 130)])
@pytest.mark.parametrize("op", ["BatchNormalization", "InstanceNormalization"])
def test_a_norm_alone_is_computed_in_channels_first(op: str, shape: tuple[int, ...]) -> None:
    count = 4 if op == "BatchNormalization" else 2
    constants = {f"c{i}": np.abs(random(i, shape[1])) + 0.5 for i in range(count)}
    x = random(9, *shape) * 3 + 20  # of which the mean is most
    alone = make([node(op, ["x", *constants], ["y"])], {"x": shape}, ["y"], constants)
    named = {"BatchNormalization": "Batchnorm", "InstanceNormalization": "InstanceNorm"}[op]
    assert steps(alone, {"x": x}) == [named + "ChannelsFirst"]
    if op == "InstanceNormalization" and len(shape) != 4:
        return  # an image is reshaped between the norm and what follows
    nodes = [node(op, ["x", *constants], ["a"]), node("Relu", ["a"], ["y"])]
    assert "Transpose" not in steps(make(nodes, {"x": shape}, ["y"], constants), {"x": x})


@pytest.mark.parametrize(
    ("mode", "scales", "alone"),
    [("nearest", (2, 3), True), ("linear", (0.5, 0.75), True), ("cubic", (0.5, 0.5), True),
     ("linear", (2, 2), False)],
)  # fmt: skip
def test_a_resize_alone_reads_planes(mode: str, scales: tuple[float, float], alone: bool) -> None:
    """An image that grows by interpolation is moved: fewer numbers are gathered."""
    factors = np.array([1, 1, *scales], np.float32)
    x = random(1, 2, 17, 8, 12)
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode=mode)]
    found = steps(make(nodes, {"x": x.shape}, ["y"], {"scales": factors}), {"x": x})
    assert ("Transpose" not in found) == alone


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        {"kernel_shape": [5, 4], "pads": [2, 1, 2, 2]},
    ],
)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_pool_alone_reads_planes(op: str, attrs: dict[str, object]) -> None:
    x = random(1, 2, 17, 19, 41)
    found = steps(make([node(op, ["x"], ["y"], **attrs)], {"x": x.shape}, ["y"]), {"x": x})
    assert ("Transpose" in found) != (processor_has("avx512bw") and not FORCED)


def test_a_norm_between_convolutions_stays_in_channels_last() -> None:
    constants = {"w": random(1, 6, 6, 3, 3), "s": random(2, 6), "b": random(3, 6)}
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("InstanceNormalization", ["a", "s", "b"], ["n"]),
        node("Conv", ["n", "w"], ["y"]),
    ]
    x = random(4, 1, 6, 12, 12)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants), {"x": x}, atol=1e-3)
    with qnnrt.Session(model, backend="cpu") as session:
        found = [s["op"] for s in json.loads(session.graph.describe() or "")["steps"]]
    assert "InstanceNorm" in found


@pytest.mark.parametrize("width", [6, 48])
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("SpaceToDepth", {}), ("DepthToSpace", {"mode": "DCR"}), ("DepthToSpace", {"mode": "CRD"})],
)
def test_blocks_alone_are_one_transpose(
    op: str, attrs: dict[str, str], block: int, width: int
) -> None:
    channels = 5 if op == "SpaceToDepth" else 5 * block * block
    x = random(1, 2, channels, 12, width)
    proto = make([node(op, ["x"], ["y"], blocksize=block, **attrs)], {"x": x.shape}, ["y"])
    assert steps(proto, {"x": x}) == ["Transpose"]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((2, 3, 40), {"kernel_shape": [3], "dilations": [4]}),
        ((1, 5, 20, 33), {"kernel_shape": [3, 3], "dilations": [2, 3], "pads": [2, 1, 2, 2]}),
        ((2, 4, 30, 28), {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 1]}),
        ((1, 2, 7, 8, 25), {"kernel_shape": [2, 2, 3], "dilations": [2, 1, 2]}),
    ],
)
def test_dilated_pools_read_windows_once(
    op: str, shape: tuple[int, ...], attrs: dict[str, list[int]]
) -> None:
    opset = 19  # the first in which averages have dilations
    x = random(1, *shape)
    proto = make([node(op, ["x"], ["y"], **attrs)], {"x": shape}, ["y"], opset=opset)
    found = steps(proto, {"x": x})
    assert "ElementWiseSliding" in found
    assert "StridedSlice" not in found


def test_windows_that_are_written_as_slices() -> None:
    """Of integers, from within, at steps; and what is no window stays as it is."""
    x = np.random.default_rng(1).integers(-100, 100, (3, 50, 20)).astype(np.int32)
    types = {"x": onnx.TensorProto.INT32, "y": onnx.TensorProto.INT32}

    def proto(starts: list[int], op: str) -> onnx.ModelProto:
        nodes, last = [], ""
        constants = {"axes": np.array([1]), "steps": np.array([2])}
        for i, start in enumerate(starts):
            constants[f"s{i}"], constants[f"e{i}"] = np.array([start]), np.array([start + 20])
            nodes.append(node("Slice", ["x", f"s{i}", f"e{i}", "axes", "steps"], [f"v{i}"]))
            if last:
                nodes.append(node(op, [last, f"v{i}"], [f"o{i}"]))
            last = f"o{i}" if last else f"v{i}"
        nodes[-1].output[0] = "y"
        return make(nodes, {"x": x.shape}, ["y"], constants, types=types)

    for op in ("Max", "Add", "Min"):
        assert steps(proto([3, 7, 11, 15], op), {"x": x}) == ["ElementWiseSliding"]
        assert "ElementWiseSliding" not in steps(proto([7, 3, 12], op), {"x": x})
