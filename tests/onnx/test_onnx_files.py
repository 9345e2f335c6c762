"""Bad files: truncated, corrupted, of another kind: one clear ModelError each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx import models as onnx_models
from support.outside import MEASURED, run_code


@pytest.fixture(scope="module")
def good() -> bytes:
    return onnx_models.small_network().SerializeToString()


def _refused(data: bytes) -> str:
    """The message of the one ModelError that `data` gives."""
    with pytest.raises(ModelError) as caught:
        importer.load(data)
    text = str(caught.value)
    assert text.strip()
    assert "Traceback" not in text
    return text


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path, good: bytes) -> None:
    cuts = sorted({0, 1, 2, len(good) - 1, *range(3, len(good), max(len(good) // 150, 1))})
    for cut in cuts:
        path = tmp_path / "cut.onnx"
        path.write_bytes(good[:cut])
        with pytest.raises(ModelError, match=re.escape(str(path))):
            qnnrt.load(path)
    path.write_bytes(good)
    assert qnnrt.load(path).op_counts()["Conv2d"] == 1


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_give_a_model_or_one_clear_error(seed: int, good: bytes) -> None:
    """Weights may change unnoticed; structure may not bring anything but a ModelError."""
    rng = np.random.default_rng(seed)
    messages = []
    for i in range(60):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            # Half of the flips hit the nodes, which come first and are small beside the weights.
            end = len(good) if i % 2 else 700
            data[int(rng.integers(0, end))] ^= 1 << int(rng.integers(0, 8))
        try:
            importer.load(bytes(data)).check()
        except ModelError as exc:
            messages.append(str(exc).strip())
    assert messages, f"seed {seed}: no flip was noticed"
    assert all(messages), f"seed {seed}"
    assert importer.load(good).inputs == ["x"]


def test_random_bytes_are_refused() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 10, 100, 5000):
        assert "ONNX" in _refused(rng.bytes(size))


_LARGER = """
import sys
import onnx
from pathlib import Path
import qnnrt
from support.outside import limit_process

folder = Path(sys.argv[1])
model = onnx.load(folder / "m.onnx")
onnx.save(model, folder / "beside.onnx", save_as_external_data=True, location="data")
for name in ("large.onnx", "large.tflite", "large.bin", "data"):
    with (folder / name).open("ab") as file:
        file.truncate(1 << 40)
limit_process(8 << 30)
for name in ("large.onnx", "large.tflite", "large.bin", "beside.onnx"):
    try:
        qnnrt.load(folder / name)
    except MemoryError as e:
        assert str(folder / name.replace("beside.onnx", "data")) in str(e), e
    else:
        raise AssertionError(name)
qnnrt.load(folder / "m.onnx")
"""


@MEASURED
def test_a_file_beyond_the_address_space_is_named(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 256]) for n in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y])
    graph.initializer.append(weights)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    done = run_code(_LARGER, str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    for name, data in (("a.onnx", b"PK\x03\x04" + bytes(100)), ("b.onnx", b"hello\n")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError, match=name):
            qnnrt.load(tmp_path / name)
    (tmp_path / "c.txt").write_text("x")
    with pytest.raises(ModelError, match=r"c\.txt"):
        qnnrt.load(tmp_path / "c.txt")
    with pytest.raises(FileNotFoundError):
        qnnrt.load(tmp_path / "none.onnx")


def _changed(change: str) -> onnx.ModelProto:
    model = onnx_models.small_network()
    graph = model.graph
    conv = next(n for n in graph.node if n.op_type == "Conv")
    weights = next(i for i in graph.initializer if i.name == conv.input[1])
    if change == "an initializer with too few bytes":
        weights.raw_data = weights.raw_data[:-4]
    elif change == "an initializer with a negative size":
        weights.dims[0] = -6
    elif change == "weights for another number of channels":
        weights.dims[:] = [2, 9, 3, 3]
    elif change == "weights of another type":
        weights.data_type = TensorProto.INT32
    elif change == "a name that nobody gives":
        conv.input[0] = "nowhere"
    elif change == "a name given twice":
        graph.node[1].output[0] = conv.output[0]
    elif change == "an input listed twice":
        graph.input.append(graph.input[0])
    elif change == "nodes that wait for each other":
        conv.input[0] = graph.node[1].output[0]
    elif change == "an operator that does not exist":
        conv.op_type = "Convv"
    elif change == "no operator at all":
        conv.op_type = ""
    elif change == "an output that nobody gives":
        graph.output[0].name = "none"
    elif change == "an attribute of the wrong kind":
        del conv.attribute[:]
        conv.attribute.append(helper.make_attribute("pads", "same"))
    elif change == "an attribute of the wrong length":
        del conv.attribute[:]
        conv.attribute.append(helper.make_attribute("pads", [1, 1, 1]))
    elif change == "a shape that does not fit":
        reshape = next(n for n in graph.node if n.op_type == "Reshape")
        shape = next(i for i in graph.initializer if i.name == reshape.input[1])
        shape.CopyFrom(onnx.numpy_helper.from_array(np.array([7, -1]), shape.name))
    elif change == "an input without a type":
        graph.input[0].ClearField("type")
    elif change == "an input of a type that QNN does not have":
        graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    elif change == "no opset":
        del model.opset_import[:]
    elif change == "no graph":
        model.ClearField("graph")
    elif change == "a constant larger than the machine":
        node = helper.make_node("ConstantOfShape", ["huge"], ["big"])
        graph.node.insert(0, node)
        huge = np.array([1 << 40, 1 << 10])
        graph.initializer.append(onnx.numpy_helper.from_array(huge, "huge"))
        graph.node.append(helper.make_node("Add", ["big", "big"], ["z"]))
        graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    return model


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("an initializer with too few bytes", "cannot be read"),
        ("an initializer with a negative size", "-6"),
        ("weights for another number of channels", "Conv"),
        ("weights of another type", "Conv"),
        ("a name that nobody gives", "'nowhere'"),
        ("a name given twice", "has a value already"),
        ("an input listed twice", "lists the input 'x' twice"),
        ("nodes that wait for each other", "reads"),
        ("an operator that does not exist", "Convv"),
        ("no operator at all", "no op type"),
        ("an output that nobody gives", "'none'"),
        ("an attribute of the wrong kind", "Conv"),
        ("an attribute of the wrong length", "Conv"),
        ("a shape that does not fit", "Reshape"),
        ("an input without a type", "'x'"),
        ("an input of a type that QNN does not have", "'x'"),
        ("no opset", "opset"),
        ("no graph", "no graph"),
        ("a constant larger than the machine", "elements"),
    ],
)
def test_a_broken_graph_is_refused_with_what_and_where(change: str, says: str) -> None:
    assert says in _refused(_changed(change).SerializeToString())


def test_an_unsupported_node_is_also_a_model_error() -> None:
    assert issubclass(UnsupportedOpError, ModelError)


def test_a_wrong_layout_is_refused(good: bytes) -> None:
    with pytest.raises(ValueError, match="'keep' or 'nhwc', not 'nchw'"):
        importer.load(good, layout="nchw")  # type: ignore[arg-type]
