"""What the ONNX importer promises about layouts, constants, shapes, names and errors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.onnx.models import model_of
from support.reference import run as run_in_numpy

FLOAT = TensorProto.FLOAT

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def make(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[object, ...]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    types: dict[str, int] | None = None,
) -> onnx.ModelProto:
    domains = sorted({n.domain for n in nodes} - {""})
    return model_of(nodes, inputs, outputs, constants or {}, opset, types or {}, domains)


def node(op: str, inputs: list[str], outputs: list[str], **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attrs)


def agree(
    proto: onnx.ModelProto, feeds: dict[str, np.ndarray], atol: float = 1e-5, **options: object
) -> Model:
    """The imported model gives what ONNX Runtime gives, on the backend and in numpy."""
    reference = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = reference.run(None, feeds)
    model = importer.load(proto, **options)
    given = {name: feeds[name] for name in model.inputs}
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run(given)
    plain = run_in_numpy(model, given)
    for key, ref in zip(model.outputs, wanted, strict=True):
        for label, y in (("backend", found[key]), ("numpy", plain[key])):
            assert y.dtype == ref.dtype, f"{key} ({label})"
            np.testing.assert_allclose(
                y.reshape(ref.shape), ref, rtol=1e-3, atol=atol, err_msg=f"{key} ({label})"
            )
    return model


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- layouts ---------------------------------------------------------------------------------


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


# ---- constants and shapes --------------------------------------------------------------------


def test_shape_arithmetic_is_gone() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["u"]),
        node("Concat", ["u", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Shape", ["r"], ["q"]),
        node("ConstantOfShape", ["q"], ["ones"], value=numpy_helper.from_array(np.ones(1, "f"))),
        node("Add", ["r", "ones"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    proto = make(nodes, {"x": (2, 3, 4)}, ["y"], constants)
    assert agree(proto, {"x": random(1, 2, 3, 4)}).op_counts() == {
        "Reshape": 1,
        "ElementWiseAdd": 1,
    }


def test_what_no_output_needs_is_dropped() -> None:
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("NonZero", ["x"], ["z"]),  # unsupported, but nobody reads it
        node("Identity", ["z"], ["t"]),
    ]
    model = importer.load(make(nodes, {"x": (3,)}, ["y"]))
    assert model.op_counts() == {"Relu": 1}


def test_initializers_among_the_inputs_are_constants() -> None:
    proto = make([node("Add", ["x", "c"], ["y"])], {"x": (3,), "c": (3,)}, ["y"],
                 {"c": random(1, 3)})  # fmt: skip
    assert importer.load(proto).inputs == ["x"]


def test_open_dimensions_have_to_be_given() -> None:
    proto = make(
        [node("MatMul", ["x", "w"], ["y"])], {"x": ("N", 4)}, ["y"], {"w": random(1, 4, 2)}
    )
    with pytest.raises(ModelError, match=r"'x' \[N, 4\].*shapes="):
        importer.load(proto)
    for shapes in ({"x": (3, 4)}, {"N": 3}):
        assert importer.load(proto, shapes=shapes).tensors["y"].shape == (3, 2)
    with pytest.raises(ModelError, match=r"'x' is \[N, 4\]; shapes= gives it \[3, 5\]"):
        importer.load(proto, shapes={"x": (3, 5)})
    with pytest.raises(ModelError, match="no input or dimension named 'z'"):
        importer.load(proto, shapes={"N": 3, "z": 1})


def test_parameters_given_as_inputs_are_fixed_by_constants() -> None:
    types = {"shape": TensorProto.INT64}
    proto = make([node("Reshape", ["x", "shape"], ["y"])], {"x": (2, 6), "shape": (2,)}, ["y"],
                 types=types)  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="known when the model is loaded"):
        importer.load(proto)
    model = importer.load(proto, constants={"shape": np.array([3, 4])})
    assert model.inputs == ["x"]
    assert model.tensors["y"].shape == (3, 4)
    with pytest.raises(ModelError, match=r"int64\[2\]; constants= gives it float64\[3\]"):
        importer.load(proto, constants={"shape": np.zeros(3)})


def test_doubles_are_computed_in_single_precision_inside() -> None:
    types = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    nodes = [node("Exp", ["x"], ["a"]), node("Tanh", ["a"], ["y"])]
    proto = make(nodes, {"x": (2, 3)}, ["y"], types=types)
    model = agree(proto, {"x": random(1, 2, 3).astype(np.float64)})
    assert [n.type for n in model.nodes] == ["Cast", "ElementWiseExp", "Tanh", "Cast"]
    assert model.tensors["x"].dtype == model.tensors["y"].dtype == np.float64


# ---- names and edges -------------------------------------------------------------------------


def test_every_output_is_produced_by_a_node_of_its_own() -> None:
    """An input as an output, a constant as an output, one value under two names."""
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Identity", ["c"], ["fixed"]),
        node("Relu", ["x"], ["one"]),
        node("Identity", ["one"], ["two"]),
        node("Transpose", ["one"], ["three"], perm=[1, 0]),
    ]
    proto = make(
        nodes, {"x": (2, 3)}, ["same", "fixed", "one", "two", "three"], {"c": random(1, 4)}
    )
    model = agree(proto, {"x": random(2, 2, 3)})
    assert model.outputs == ["same", "fixed", "one", "two", "three"]
    assert model.inputs == ["x"]


def test_names_are_unique_and_the_files_own() -> None:
    nodes = [
        helper.make_node("Relu", ["in put/0"], ["a"], name="n"),
        helper.make_node("Neg", ["a"], ["b"], name="n"),
        helper.make_node("Abs", ["b"], ["out:0"]),
    ]
    model = importer.load(make(nodes, {"in put/0": (2, 2)}, ["out:0"]))
    assert model.inputs == ["in put/0"]
    assert model.outputs == ["out:0"]
    names = [n.name for n in model.nodes]
    assert names[0] == "n"
    assert len(set(names)) == 3


def test_scalars_are_tensors_of_one_element() -> None:
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Mul", ["x", "s"], ["y"])]
    model = agree(make(nodes, {"x": (2, 3)}, ["y", "s"]), {"x": random(1, 2, 3)})
    assert model.tensors["s"].shape == (1,)


def test_a_model_reads_well() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    proto = make(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"w": random(1, 4, 3, 3, 3)})
    model = importer.load(proto, layout="nhwc")
    assert "x: float32[1x8x8x3]" in model.summary()
    assert "2 nodes: 1 Conv2d, 1 Relu" in model.summary()
    assert "stride=[1, 1]" in str(model)
    assert "(constant)" in str(model)


# ---- what cannot be expressed ----------------------------------------------------------------


def test_every_unsupported_node_is_named_at_once() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Cast", ["a"], ["b"], to=FLOAT),
        helper.make_node("Det", ["m"], ["c"], name="second"),
        helper.make_node("Add", ["c", "c"], ["d"]),
        helper.make_node("Wobble", ["d"], ["e"], name="third", domain="my.ops"),
    ]
    proto = make(nodes, {"x": (3,), "m": (2, 2)}, ["b", "e"])
    with pytest.raises(UnsupportedOpError) as caught:
        importer.load(proto)
    assert [(n.name, n.op) for n in caught.value.nodes] == [
        ("first", "NonZero"), ("second", "Det"), ("third", "my.ops.Wobble"),
    ]  # fmt: skip
    assert caught.value.nodes[0].types == "float32[3]"
    assert all(n.reason for n in caught.value.nodes)
    assert str(caught.value).startswith("3 nodes are not supported")


def test_an_operator_defined_by_a_function_is_expanded() -> None:
    proto = make([node("MeanVarianceNormalization", ["x"], ["y"])], {"x": (2, 3, 4, 4)}, ["y"])
    assert agree(proto, {"x": random(1, 2, 3, 4, 4)})
    inner = helper.make_function(
        "local", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    proto = make([node("Relu", ["x"], ["r"])], {"x": (2,)}, ["y"])
    proto.graph.node.append(helper.make_node("Twice", ["r"], ["y"], domain="local"))
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(inner)
    assert importer.load(proto).op_counts() == {"Relu": 1, "ElementWiseAdd": 1}


def test_a_branch_with_a_known_condition_is_taken() -> None:
    branches = {
        key: helper.make_graph(
            [node(op, ["x"], [key])], key, [], [helper.make_empty_tensor_value_info(key)]
        )
        for key, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    proto = make([node("If", ["c"], ["y"], **branches)], {"x": (3,)}, ["y"],
                 {"c": np.array(False)})  # fmt: skip
    assert agree(proto, {"x": random(1, 3)}).op_counts() == {"ElementWiseNeg": 1}


@pytest.mark.parametrize("opset", [6, onnx.defs.onnx_opset_version() + 1])
def test_an_opset_out_of_range_is_named(opset: int) -> None:
    proto = make([node("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])
    proto.opset_import[0].version = opset
    with pytest.raises(ModelError, match=f"opset {opset}; opsets 7 to"):
        importer.load(proto)


# ---- where the data is -----------------------------------------------------------------------


def _external(tmp_path: Path) -> Path:
    proto = make([node("Add", ["x", "c"], ["y"])], {"x": (300,)}, ["y"], {"c": random(1, 300)})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_read(tmp_path: Path) -> None:
    path = _external(tmp_path)
    model = qnnrt.load(path)
    x = random(2, 300)
    np.testing.assert_allclose(run_in_numpy(model, {"x": x})["y"], x + random(1, 300), rtol=1e-6)


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = _external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"weights\.bin is missing.*'c'"):
        qnnrt.load(path)


def test_short_external_data_is_named(tmp_path: Path) -> None:
    path = _external(tmp_path)
    data = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").write_bytes(data[:100])
    with pytest.raises(ModelError, match=r"'c'"):
        qnnrt.load(path)


def test_external_data_stays_below_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(1200))
    path = _external(tmp_path / "deep")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../secret.bin"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="not below the model's folder"):
        qnnrt.load(path)
