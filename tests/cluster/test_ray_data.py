"""Datasets of Ray through sessions: numpy and arrow batches of any size, the weights once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support.toy import add_model, relu_model

ray = pytest.importorskip("ray", reason="Ray is not installed")

import pyarrow  # noqa: E402

import qnnrt.ray as qr  # noqa: E402

# Ray tells itself of what is deprecated.
pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "relu.bin"
    with qnnrt.Session(relu_model((4, 3, 5)), "htp") as session:
        session.save_binary(path)
    return path


@pytest.mark.parametrize("form", ["numpy", "pyarrow"])
def test_a_dataset_goes_through_actors(cluster: None, binary: Path, form: str) -> None:
    rows = np.random.default_rng(3).standard_normal((23, 3, 5), np.float32)
    dataset = ray.data.from_numpy(rows).rename_columns({"data": "image"}).repartition(3)
    done = dataset.map_batches(
        qr.SessionActor,
        fn_constructor_args=(str(binary), "htp"),
        fn_constructor_kwargs={"inputs": {"x": "image"}, "outputs": {"y": "positive"}},
        batch_format=form,
        batch_size=7,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=0.5,
    )
    found = np.stack([row["positive"] for row in done.take_all()])
    order = np.argsort(found[:, 0, 0] * 0 + found.sum((1, 2)))
    expected = np.maximum(rows, 0)
    np.testing.assert_array_equal(found[order], expected[np.argsort(expected.sum((1, 2)))])


def actor(**options: object) -> qr.SessionActor:
    return qr.SessionActor(add_model((4, 8)), **options)


@pytest.mark.parametrize("count", [1, 4, 6, 8])
def test_any_number_of_rows_is_run(count: int) -> None:
    a, b = np.random.default_rng(count).standard_normal((2, count, 8), np.float32)
    done = actor()({"a": a, "b": b, "name": np.arange(count)})
    assert list(done) == ["name", "w", "z"]
    np.testing.assert_array_equal(done["w"], a + b)
    np.testing.assert_array_equal(done["z"], np.maximum(a + b, 0))
    assert list(actor(keep=False)({"a": a, "b": b, "name": a})) == ["w", "z"]


def test_arrow_columns_in_chunks_of_any_kind_are_run() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 7, 8), np.float32)
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(a[:3].ravel()), 8)
    more = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(a[2:].ravel()), 8)[1:]
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(b)
    table = pyarrow.table({"a": pyarrow.chunked_array([lists, more]), "b": tensors})
    done = actor(outputs={"z": "result"})(table)
    assert done.column_names == ["w", "result"]
    result = done["result"].combine_chunks().to_numpy_ndarray()
    np.testing.assert_array_equal(result, np.maximum(a + b, 0))


@pytest.mark.parametrize("rows", [slice(None), slice(2, 6), slice(3, 3)])
@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.list_(pyarrow.float32())),
        pyarrow.large_list(pyarrow.list_(pyarrow.float32(), 4)),
        pyarrow.list_(pyarrow.list_(pyarrow.float32(), 4), 2),
    ],
    ids=str,
)
def test_lists_of_lists_are_rows(kind: pyarrow.DataType, rows: slice) -> None:
    x = np.random.default_rng(1).standard_normal((7, 2, 4), np.float32)
    column = pyarrow.array(x.tolist(), kind)[rows]
    one = qr.SessionActor(relu_model((4, 2, 4)))
    for batch in (pyarrow.table({"x": column}), pyarrow.record_batch({"x": column})):
        done = one(batch)["y"]
        assert done.type == pyarrow.fixed_shape_tensor(pyarrow.float32(), (2, 4))
        np.testing.assert_array_equal(
            np.array(done.to_pylist(), np.float32).reshape(-1, 8),
            np.maximum(x[rows], 0).reshape(-1, 8),
        )


def test_a_column_without_a_chunk_has_no_rows() -> None:
    fixed = pyarrow.list_(pyarrow.float32(), 8)
    for kind in (fixed, pyarrow.list_(pyarrow.float32())):
        empty = pyarrow.table({"x": pyarrow.chunked_array([], kind)})
        done = qr.SessionActor(relu_model((4, 8)))(empty)
        assert (done.num_rows, done["y"].type.shape) == (0, [8])


def test_booleans_become_lists() -> None:
    shape = (4, 2, 3)
    tensors = {
        "x": Tensor("x", shape, np.dtype(np.float32)),
        "y": Tensor("y", shape, np.dtype(bool)),
    }
    model = Model("nan", tensors, [Node("n", "IsNan", ["x"], ["y"])], ["x"], ["y"])
    x = np.zeros((5, 2, 3), np.float32)
    x[1, 0, 2] = x[4, 1, 0] = np.nan
    table = pyarrow.table({"x": pyarrow.FixedShapeTensorArray.from_numpy_ndarray(x)})
    done = qr.SessionActor(model)(table)["y"]
    np.testing.assert_array_equal(np.array(done.to_pylist()), np.isnan(x))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([[1.0] * 8, None], "1 values that are null"),
        ([[1.0] * 7 + [None]], "1 values that are null"),
        ([[1.0] * 8, [1.0] * 5], "lists of 5 to 8 elements"),
        ([[1.0] * 7], r"needs rows of float32\[8\], not float32\[7\]"),
    ],
)
def test_arrow_rows_that_are_none_are_refused(values: list[object], text: str) -> None:
    table = pyarrow.table({"x": pyarrow.array(values, pyarrow.list_(pyarrow.float32()))})
    with pytest.raises(ValueError, match=text):
        qr.SessionActor(relu_model((4, 8)))(table)


def test_rows_are_copied_once_in_and_once_out() -> None:
    one = actor()
    a = np.ones((6, 8), np.float32)
    one({"a": a, "b": a})
    assert one._batches.copied_bytes == 4 * a.nbytes
    assert one._batches.session.stats.copied_bytes == 0


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    """y = relu(x), of any number of rows of any length."""
    onnx = pytest.importorskip("onnx")
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", "seq"])
        for n in ("x", "y")
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "relu.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    return path


@pytest.mark.parametrize(
    ("shapes", "sizes", "runs"),
    [
        ("any", {7, 3}, 2),
        ({"batch": "any", "seq": 5}, {7, 3}, 2),
        ({"batch": [1, 4], "seq": [5, 9]}, {4}, 3),
        ({"batch": [1, 2, 4], "seq": "any"}, {4}, 3),
        ({"batch": [6, 1], "seq": 5}, {6, 1}, 3),
    ],
)
def test_a_short_batch_is_run_at_its_own_size(
    sequences: Path, shapes: object, sizes: set[int], runs: int
) -> None:
    one = qr.SessionActor(sequences, shapes=shapes)
    rng = np.random.default_rng(2)
    for count in (7, 3):
        x = rng.standard_normal((count, 5), np.float32)
        np.testing.assert_array_equal(one({"x": x})["y"], np.maximum(x, 0))
    session = one._batches.session
    assert {s["batch"] for s in session.shapes} == sizes
    assert session.stats.executes == runs
    assert session.stats.copied_bytes == 0
    assert one._batches.copied_bytes == 2 * (7 + 3) * 5 * 4


def test_a_model_of_many_shapes_refuses_what_it_has_no_graph_for(sequences: Path) -> None:
    model = qnnrt.load(sequences, shapes={"batch": [2, 4], "seq": [5, 9]})
    one = qr.SessionActor(model)
    x = np.ones((3, 9), np.float32)
    assert one({"x": x})["y"].shape == (3, 9)
    assert one({"x": x[:0]})["y"].shape == (0, 9)
    with pytest.raises(ValueError, match="no graph for"):
        one({"x": x[:, :8]})
    with pytest.raises(ValueError, match=r"needs rows of float32\[9\], not float64\[9\]"):
        one({"x": x.astype(np.float64)})
    with pytest.raises(ValueError, match="a single number"):
        one({"x": x[0, 0]})
    with pytest.raises(ValueError, match="loaded already"):
        qr.SessionActor(model, shapes="any")
    with pytest.raises(qnnrt.ModelError, match="rows"):
        qr.SessionActor(sequences, shapes={"batch": [0], "seq": [1, 2]})


def test_what_does_not_fit_is_refused() -> None:
    a = np.ones((6, 8), np.float32)
    with pytest.raises(KeyError, match="no column 'b'"):
        actor()({"a": a})
    with pytest.raises(ValueError, match=r"needs rows of float32\[8\], not float64\[8\]"):
        actor()({"a": a, "b": a.astype(np.float64)})
    with pytest.raises(ValueError, match="as many rows"):
        actor()({"a": a, "b": a[:2]})
    with pytest.raises(ValueError, match="a single number"):
        actor()({"a": a, "b": a[0, 0]})
    with pytest.raises(TypeError, match="batch_format has to be"):
        actor()([a, a])
    with pytest.raises(ValueError, match="two outputs cannot become one column"):
        actor(outputs={"z": "w"})
    with pytest.raises(ValueError, match="no input 'q'"):
        actor(inputs={"q": "a"})
    names = {"x": (2, 8), "y": (16,)}
    flat = Model(
        "flat",
        {n: Tensor(n, shape, np.dtype(np.float32)) for n, shape in names.items()},
        [Node("flat", "Reshape", ["x"], ["y"])],
        ["x"],
        ["y"],
    )
    with pytest.raises(qnnrt.ModelError, match="same number of rows"):
        qr.SessionActor(flat)
