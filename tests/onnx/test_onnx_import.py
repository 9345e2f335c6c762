"""What the ONNX importer promises about constants, shapes, names and errors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from qnnrt.importers.guard import open_file
from qnnrt.importers.onnx import external
from qnnrt.importers.onnx.external import _added
from qnnrt.importers.onnx.reader import read
from support.onnx.agreement import agree, make, random
from support.onnx.models import node
from support.reference import run as run_in_numpy

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

FLOAT = TensorProto.FLOAT


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
        node("Unique", ["x"], ["z"]),  # unsupported, but nobody reads it
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


def test_a_dimension_of_minus_one_is_open() -> None:
    """So some converters write it; any other negative one is an error."""
    proto = make([node("Relu", ["x"], ["y"])], {"x": (-1, 4)}, ["y"])
    with pytest.raises(ModelError, match=r"'x' \[\?, 4\].*shapes="):
        importer.load(proto)
    x = random(1, 3, 4)
    agree(proto, {"x": x}, shapes={"x": (3, 4)})
    model = importer.load(proto, shapes="any")
    with qnnrt.Session(model) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x, 0))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -2
    with pytest.raises(ModelError, match=r"'x' has the shape \[-2, 4\]"):
        importer.load(proto)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    with pytest.raises(ModelError, match=r"'x' is \[0, 4\]; shapes= gives it \[3, 4\]"):
        importer.load(proto, shapes={"x": (3, 4)})


def test_results_without_elements_are_not_computed() -> None:
    for op, attrs in (("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": 1}), ("Hardmax", {})):
        proto = make([node(op, ["x"], ["y"], **attrs)], {"x": (3, 0)}, ["y"])
        assert importer.load(proto).tensors["y"].shape == (3, 0)


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


def test_the_constant_of_an_input_of_open_shape_settles_it() -> None:
    types = {"the 'shape'": TensorProto.INT64}
    proto = make([node("Reshape", ["x", "the 'shape'"], ["y"])],
                 {"x": (2, 6), "the 'shape'": ("rank",)}, ["y"], types=types)  # fmt: skip
    model = importer.load(proto, constants={"the 'shape'": np.array([3, 4])})
    assert (model.inputs, model.tensors["y"].shape) == (["x"], (3, 4))
    with pytest.raises(ModelError, match=r"is \[rank\]; constants= gives it \[1, 2\]"):
        importer.load(proto, constants={"the 'shape'": np.array([[3, 4]])})


def run_here(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], **options: object):
    with qnnrt.Session(importer.load(proto, **options)) as session:
        return session.run(feeds)


def test_an_output_that_is_an_input_is_a_tensor_of_its_own() -> None:
    proto = make([node("Neg", ["x"], ["y"])], {"x": (3,)}, ["y"])
    proto.graph.output.append(proto.graph.input[0])
    x = random(1, 3)
    results = run_here(proto, {"x": x})
    assert list(results) == ["y", "x.2"]
    assert np.array_equal(results["x.2"], x)
    assert np.array_equal(results["y"], -x)
    cut = run_here(proto, {"y": x}, inputs=["y"], outputs=["y"])
    assert list(cut) == ["y.2"]
    assert np.array_equal(cut["y.2"], x)
    assert importer.load(proto, outputs=["y"]).outputs == ["y"]
    many = importer.load(proto, shapes={"x": [(3,)]})
    assert list(many.outputs) == ["y", "x.2"]


def test_an_output_that_is_listed_twice_is_two() -> None:
    proto = make([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y.2"])], {"x": (3,)}, ["y"])
    proto.graph.output.extend(
        [proto.graph.output[0], helper.make_tensor_value_info("y.2", FLOAT, (3,))]
    )
    x = random(1, 3)
    results = run_here(proto, {"x": x})
    assert list(results) == ["y", "y.3", "y.2"]
    for name, wanted in (("y", -x), ("y.3", -x), ("y.2", abs(x))):
        assert np.array_equal(results[name], wanted), name


def test_a_constant_may_be_sparse() -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2, 3], "f"), "w"),
        numpy_helper.from_array(np.array([[0, 1], [2, 0]]), "where"),
        [3, 2],
    )
    nodes = [node("Constant", [], ["w"], sparse_value=sparse), node("Add", ["x", "w"], ["y"])]
    agree(make(nodes, {"x": (3, 2)}, ["y"]), {"x": random(1, 3, 2)})


def test_doubles_stay_single_between_operations_without_kernels_of_64_bits() -> None:
    types = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    nodes = [node("Softmax", ["x"], ["a"]), node("LogSoftmax", ["a"], ["y"])]
    proto = make(nodes, {"x": (2, 3)}, ["y"], types=types)
    model = agree(proto, {"x": random(1, 2, 3).astype(np.float64)})
    assert [n.type for n in model.nodes] == ["Cast", "Softmax", "LogSoftmax", "Cast"]
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


def test_a_dimension_may_be_called_as_an_input() -> None:
    proto = make([node("Relu", ["n"], ["y"])], {"n": (1, "n")}, ["y"])
    assert importer.load(proto, shapes={"n": 5}).tensors["n"].shape == (1, 5)
    assert importer.load(proto, shapes={"n": (1, 4)}).tensors["n"].shape == (1, 4)
    other = make([node("Relu", ["x"], ["y"])], {"x": (1, "n")}, ["y"])
    with pytest.raises(ModelError, match="one size, 5: give its whole shape"):
        importer.load(other, shapes={"x": 5})


# ---- what cannot be expressed ----------------------------------------------------------------


def test_every_unsupported_node_is_named_at_once() -> None:
    nodes = [
        helper.make_node("MaxRoiPool", ["m", "m"], ["a"], name="first", pooled_shape=[1, 1]),
        helper.make_node("Cast", ["a"], ["b"], to=FLOAT),
        helper.make_node("MaxRoiPool", ["m", "m"], ["c"], name="second", pooled_shape=[1, 1]),
        helper.make_node("Add", ["c", "c"], ["d"]),
        helper.make_node("Wobble", ["d"], ["e"], name="third", domain="my.ops"),
    ]
    proto = make(nodes, {"x": (3,), "m": (2, 2)}, ["b", "e"])
    with pytest.raises(UnsupportedOpError) as caught:
        importer.load(proto)
    assert [(n.name, n.op) for n in caught.value.nodes] == [
        ("first", "MaxRoiPool"), ("second", "MaxRoiPool"), ("third", "my.ops.Wobble"),
    ]  # fmt: skip
    assert caught.value.nodes[0].types == "float32[2, 2], float32[2, 2]"
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


def test_a_data_file_is_opened_once_for_tensors_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = {f"c{i}": random(i, 300) for i in range(6)}
    nodes = [
        node("Add", [f"h{i}" if i else "x", f"c{i}"], [f"h{i + 1}" if i < 5 else "y"])
        for i in range(6)
    ]
    proto = make(nodes, {"x": (300,)}, ["y"], constants)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    opened: list[Path] = []

    def counted(file: Path, what: str) -> object:
        opened.append(file)
        return open_file(file, what)

    monkeypatch.setattr(external, "open_file", counted)
    model = importer.load(path)
    assert [file.name for file in opened] == ["weights.bin"]
    x = random(9, 300)
    wanted = x + sum(constants.values())
    np.testing.assert_allclose(run_in_numpy(model, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)


def test_only_the_bytes_that_tensors_name_count(tmp_path: Path) -> None:
    """A hole of a terabyte behind them gives no room for constants, nor for reading them again."""
    path = _external(tmp_path)
    found = read(path)
    whole = found.size
    named = sum(len(t.raw_data) for t in found.model.graph.initializer)
    named += sum(map(len, found.apart.values()))
    assert whole == path.stat().st_size + named
    os.truncate(tmp_path / "weights.bin", 1 << 40)
    assert read(path).size == whole
    shared = onnx.load(path, load_external_data=False)
    for i in range(20):
        shared.graph.initializer.add().CopyFrom(shared.graph.initializer[0])
        shared.graph.initializer[-1].name = f"again{i}"
    path.write_bytes(shared.SerializeToString())
    with pytest.raises(ModelError, match="more than 4 times as much"):
        read(path)


def test_bytes_that_parts_of_a_file_share_count_once() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        parts: list[tuple[int, int]] = []
        marks, total = np.zeros(60, bool), 0
        for begin, length in zip(rng.integers(0, 40, 12), rng.integers(0, 12, 12), strict=True):
            total += _added(parts, int(begin), int(begin + length))
            marks[begin : begin + length] = True
            assert total == marks.sum()


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


def _as_a_download_cache(folder: Path) -> Path:
    """The model as huggingface_hub leaves one: what lies in ``blobs`` is linked to by name."""
    (folder / "blobs").mkdir(parents=True)
    (folder / "snapshot/onnx").mkdir(parents=True)
    path = _external(folder / "blobs")
    for name in (path.name, "weights.bin"):
        (folder / "blobs" / name).rename(folder / "blobs" / f"hash of {name}")
        (folder / "snapshot/onnx" / name).symlink_to(f"../../blobs/hash of {name}")
    return folder / "snapshot/onnx" / path.name


def test_external_data_lies_beside_a_link_or_where_it_leads(tmp_path: Path) -> None:
    path = _as_a_download_cache(tmp_path / "cache")
    assert qnnrt.load(path).op_counts()
    (tmp_path / "secret.bin").write_bytes((path.parent / "weights.bin").read_bytes())
    (path.parent / "weights.bin").unlink()
    (path.parent / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="not below the model's folder"):
        qnnrt.load(path)


def test_external_data_is_not_looked_for_around_what_a_link_leads_to(tmp_path: Path) -> None:
    path = _as_a_download_cache(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../blobs/hash of weights.bin"
    path.resolve().write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="not below the model's folder"):
        qnnrt.load(path)


def test_external_data_has_one_place(tmp_path: Path) -> None:
    path = _external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="said twice"):
        qnnrt.load(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.pt2", "cannot read .pt2 models.*by torch.onnx.export"),
        ("net.dlc", "cannot read .dlc models.*a context binary made of it"),
        ("net.LITE", "cannot read .lite models.*called .tflite"),
        ("net.xyz", r"cannot read .xyz models.*\(model libraries\)$"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_what_to_do(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK")
    with pytest.raises(ModelError, match=text):
        qnnrt.load(path)
