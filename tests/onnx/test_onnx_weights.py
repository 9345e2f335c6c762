"""Large constants of a file: used where they lie, and what they say is what protobuf says."""

from __future__ import annotations

import copy
import json
import mmap
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx import wire
from support.outside import MEASURED, PATHS, run_script

#: Two of them, one behind a Transpose and one in a convolution's order.
_ROWS, _COLUMNS = 1100, 1000


def _model(dtype: type = np.float32) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((_ROWS, _COLUMNS)).astype(dtype)
    k = rng.standard_normal((64, 64, 3, 3)).astype(dtype)
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "p"], ["g"]),
        helper.make_node("Gemm", ["g", "w"], ["y"], transB=1),
    ]
    p = rng.standard_normal((64 * 4, _COLUMNS)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [1, 64, 2, 2])],
        [helper.make_tensor_value_info("y", kind, [1, _ROWS])],
        [numpy_helper.from_array(a, n) for n, a in (("w", w), ("k", k), ("p", p))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return _model()


@pytest.fixture(scope="module", params=["embedded", "external"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "model.onnx"
    if request.param == "embedded":
        onnx.save(_model(), path)
    else:
        onnx.save(_model(), path, save_as_external_data=True, location="weights.bin")
    return path


def _lies_in(array: np.ndarray) -> object:
    """What the bytes of an array belong to."""
    found: object = array
    while True:
        base = found.obj if isinstance(found, memoryview) else getattr(found, "base", None)
        if base is None:
            return found
        found = base


def test_weights_stay_in_the_file(path: Path) -> None:
    importer.load(path)  # what is made once in a process
    tracemalloc.start()
    try:
        loaded = importer.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    large = [t.data for t in loaded.constants() if t.data is not None and t.nbytes > 1 << 16]
    assert len(large) == 3
    kept = [data for data in large if isinstance(_lies_in(data), mmap.mmap)]
    # The columns of one are permuted, since what it multiplies is held channel-last.
    assert len(kept) == 2
    rest = sum(d.nbytes for d in large) - sum(d.nbytes for d in kept)
    assert peak < 3 * rest + (1 << 20)


def test_weights_in_bytes_stay_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(-127, 128, (96, 64, 20, 20)).astype(np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["coded"]),
        helper.make_node("DequantizeLinear", ["coded", "scale", "zero"], ["near"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["real"]),
        helper.make_node("Conv", ["near", "real"], ["sums"]),
        helper.make_node("QuantizeLinear", ["sums", "step", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 96, 1, 1])],
        [
            numpy_helper.from_array(codes, "w"),
            numpy_helper.from_array(np.float32(2**-7), "scale"),
            numpy_helper.from_array(np.float32(4), "step"),
            numpy_helper.from_array(np.uint8(128), "zero"),
        ],
    )
    file = tmp_path / "bytes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)
    loaded = importer.load(file)
    (kept,) = (t.data for t in loaded.constants() if t.nbytes == codes.nbytes)
    assert isinstance(_lies_in(kept), mmap.mmap)
    x = (rng.integers(-128, 128, (1, 64, 20, 20)) / 128).astype(np.float32)
    with qnnrt.Session(loaded) as session:
        y = session.run({"x": x})["y"]
    wanted = np.einsum("nchw,ochw->no", x.astype(np.float64), codes * 2.0**-7)
    assert np.abs(wanted).max() < 500
    np.testing.assert_allclose(y.reshape(wanted.shape), wanted, atol=2.001)


def test_results_are_those_of_arrays_in_memory(path: Path, model: onnx.ModelProto) -> None:
    x = np.random.default_rng(2).standard_normal((1, 64, 2, 2), np.float32)
    w, k, p = (numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer)
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    wanted = w @ (np.einsum("cyxij,ocij->oyx", windows, k).ravel() @ p)
    for source in (path, model, model.SerializeToString()):
        with qnnrt.Session(importer.load(source)) as session:
            y = session.run({"x": x})["y"]
        np.testing.assert_allclose(y[0], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_two_sessions_of_one_model(path: Path, backend: str) -> None:
    loaded = importer.load(path)
    x = np.ones((1, 64, 2, 2), np.float32)
    found = []
    for _ in range(2):
        with qnnrt.Session(loaded, backend) as session:
            found.append(session.run({"x": x})["y"])
    np.testing.assert_array_equal(*found)


def test_a_copy_of_a_model_has_weights_of_its_own(path: Path) -> None:
    loaded = importer.load(path)
    for made in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        made.check()
        for t in loaded.constants():
            other = made.tensors[t.name].data
            np.testing.assert_array_equal(other, t.data)
            assert not isinstance(_lies_in(other), mmap.mmap)


def test_a_file_that_was_cut_off_since_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_model(), path)
    loaded = importer.load(path)
    whole = path.stat().st_size
    os.truncate(path, 1000)
    with pytest.raises(ModelError, match=f"had {whole} bytes when it was loaded, and has 1000"):
        qnnrt.Session(loaded)


def test_a_file_that_was_replaced_since_is_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_model(), path)
    loaded = importer.load(path)
    (tmp_path / "new.onnx").write_bytes(b"another")
    os.replace(tmp_path / "new.onnx", path)
    with qnnrt.Session(loaded) as session:
        assert np.isfinite(session.run({"x": np.ones((1, 64, 2, 2), np.float32)})["y"]).all()


def test_a_flattened_input_is_put_in_order_rather_than_large_weights(tmp_path: Path) -> None:
    """As many as a classifier has behind its last convolution: none is copied by loading."""
    rng = np.random.default_rng(3)
    k = rng.standard_normal((64, 32, 1, 1)).astype(np.float32)
    w = rng.standard_normal((4096, 300)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 32, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 300])],
        [numpy_helper.from_array(a, n) for n, a in (("k", k), ("w", w))],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    loaded = importer.load(path)
    assert loaded.op_counts()["Transpose"] == 1 + 1  # of the input of the convolution, too
    (large,) = (t.data for t in loaded.constants() if t.nbytes > 1 << 20)
    assert isinstance(_lies_in(large), mmap.mmap)
    x = rng.standard_normal((2, 32, 8, 8)).astype(np.float32)
    with qnnrt.Session(loaded) as session:
        y = session.run({"x": x})["y"]
    wanted = np.einsum("nchw,oc->nohw", x.astype(np.float64), k[..., 0, 0]).reshape(2, -1) @ w
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


_LOAD = """
import json, sys
from pathlib import Path
import qnnrt

def held(*names):
    fields = dict(l.split(":", 1) for l in Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[n].split()[0]) * 1024 for n in names)

with qnnrt.Session(sys.argv[1], precision=sys.argv[3]) as session:  # imports, threads
    session.run()
before = held("RssAnon")
most = held("VmRSS")
with qnnrt.Session(sys.argv[2], precision=sys.argv[3]) as session:
    peak = held("VmHWM") - most
    session.run()
    kept = held("RssAnon") - before
print(json.dumps([peak, kept]))
"""


def _products(path: Path, width: int, count: int, factor: float) -> int:
    """Matrix products in a row, each with a factor behind it; the bytes of the file."""
    rng = np.random.default_rng(4)
    names = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
    nodes = []
    for i in range(count):
        nodes.append(helper.make_node("MatMul", [names[i], f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Mul", [f"m{i}", "factor"], [names[i + 1]]))
    weights = [rng.standard_normal((width, width)).astype(np.float32) for _ in range(count)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, width])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
        + [numpy_helper.from_array(np.float32(factor), "factor")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path.stat().st_size


@MEASURED
@pytest.mark.parametrize(
    ("precision", "factor", "most", "after"),
    [("float32", 1.0, 2.6, 1.3), ("float32", 0.75, 2.6, 1.3), ("bfloat16", 1.0, 2.3, 0.65)],
)
def test_a_session_holds_its_weights_once(
    precision: str, factor: float, most: float, after: float, tmp_path: Path
) -> None:
    """The file in the page cache and the graph's copy at the peak, each part of which goes when it
    has been scaled, rounded or packed; one after it."""
    _products(tmp_path / "small.onnx", 64, 2, factor)
    size = _products(tmp_path / "large.onnx", 1536, 8, factor)
    script = tmp_path / "load.py"
    script.write_text(_LOAD)
    done = run_script(
        script, tmp_path / "small.onnx", tmp_path / "large.onnx", precision, PYTHONPATH=PATHS
    )
    peak, kept = json.loads(done.stdout.splitlines()[-1])
    assert peak < most * size, peak / size
    assert kept < after * size


@MEASURED
@pytest.mark.parametrize("form", ["as it is", "transB", "behind a Transpose"])
def test_a_matrix_is_packed_from_where_the_file_has_it(form: str, tmp_path: Path) -> None:
    """The file in the page cache and what a product reads: no copy between the two."""
    sizes = {}
    for name, width in (("small", 64), ("large", 3072)):
        w = np.random.default_rng(5).standard_normal((width, width)).astype(np.float32)
        if form == "behind a Transpose":
            nodes = [
                helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
                helper.make_node("MatMul", ["x", "t"], ["y"]),
            ]
        else:
            nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], transB=int(form == "transB"))]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, width])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, width])],
            [numpy_helper.from_array(w, "w")],
        )
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        sizes[name] = path.stat().st_size
    x = np.random.default_rng(6).standard_normal((4, width)).astype(np.float32)
    wanted = x.astype(np.float64) @ (w if form == "as it is" else w.T)
    with qnnrt.Session(path) as session:
        y = session.run({"x": x})["y"]
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    script = tmp_path / "load.py"
    script.write_text(_LOAD)
    done = run_script(
        script, tmp_path / "small.onnx", tmp_path / "large.onnx", "float32", PYTHONPATH=PATHS
    )
    peak, kept = json.loads(done.stdout.splitlines()[-1])
    assert peak < 2.3 * sizes["large"], peak / sizes["large"]
    assert kept < 1.3 * sizes["large"]


def _quantized(op: str, kind: type, width: int, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A Conv or a MatMul with a Quantize before it, one behind, and weights of 8 bits; some input
    and the exact sums. The output's step is 1/64."""
    rng = np.random.default_rng(8)
    low = np.iinfo(kind).min
    shape = (width, width, 2, 2) if op == "Conv" else (4 * width, width)
    weights = rng.integers(low, low + 256, shape).astype(kind)
    scales = (rng.uniform(0.5, 1, width) / 16 / width).astype(np.float32)
    zeros = np.full(width, low + 128, kind)
    step, zero = np.float32(1 / 32), np.uint8(100)
    fed = [1, width, 2, 2] if op == "Conv" else [2, 4 * width]
    given = [1, width, 1, 1] if op == "Conv" else [2, width]
    constants = {"w": weights, "ws": scales, "wz": zeros, "xs": step, "xz": zero}
    constants |= {"ys": np.float32(1 / 64), "yz": np.uint8(128)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=int(op != "Conv")),
        helper.make_node(op, ["xd", "wd"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "ys", "yz"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, fed)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, given)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = (rng.integers(-100, 156, fed) * step).astype(np.float32)
    real = weights.astype(np.float64) - (low + 128)
    sums = np.einsum("nihw,oihw->no", x, real) if op == "Conv" else x @ real
    return x, (sums * scales).reshape(given)


@MEASURED
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_weights_of_8_bits_are_written_once_before_they_are_packed(
    op: str, kind: type, tmp_path: Path
) -> None:
    """The file in the page cache, what is packed from, and what a product reads."""
    # As wide as to have the same kernels: pages of their library are not measured then.
    _quantized(op, kind, 512, tmp_path / "small.onnx")
    path = tmp_path / "large.onnx"
    x, wanted = _quantized(op, kind, 2048, path)
    with qnnrt.Session(path) as session:
        y = session.run({"x": x})["y"]
    assert np.abs(wanted).max() > 0.5
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1.01 / 128)
    script = tmp_path / "load.py"
    script.write_text(_LOAD)
    done = run_script(script, tmp_path / "small.onnx", path, "float32", PYTHONPATH=PATHS)
    peak, kept = json.loads(done.stdout.splitlines()[-1])
    assert peak < 3.4 * path.stat().st_size, peak / path.stat().st_size
    assert kept < 1.3 * path.stat().st_size


_AGAIN = """
import json, sys
from pathlib import Path
import qnnrt

def held(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) * 1024

first = qnnrt.Session(sys.argv[1])
first.run()
before = held("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
second = qnnrt.Session(sys.argv[1])
print(json.dumps(held("VmHWM") - before))
"""


@MEASURED
@pytest.mark.parametrize("op", ["Conv", "GRU"])
def test_what_is_packed_already_is_not_copied(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    if op == "Conv":
        shapes, x, y = [(768, 768, 3, 3)], [1, 768, 8, 8], [1, 768, 8, 8]
        made = helper.make_node("Conv", ["x", "w0"], ["y"], pads=[1, 1, 1, 1])
    else:
        shapes, x, y = [(1, 3072, 1024), (1, 3072, 1024)], [4, 1, 1024], [4, 1, 1, 1024]
        made = helper.make_node("GRU", ["x", "w0", "w1"], ["y"], hidden_size=1024)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph = helper.make_graph(
        [made],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    script = tmp_path / "again.py"
    script.write_text(_AGAIN)
    done = run_script(script, path, PYTHONPATH=PATHS)
    peak = json.loads(done.stdout.splitlines()[-1])
    # The pages of the file, which are read for what they are.
    assert peak < 1.4 * path.stat().st_size, peak / path.stat().st_size


# ---- protobuf's messages, taken apart


def _together(data: bytes, least: int = 8) -> onnx.ModelProto:
    """What is read: the message without raw data, and these put back."""
    parts = wire.split(memoryview(data), least)
    text, apart = parts.text, parts.apart
    found = onnx.ModelProto()
    found.ParseFromString(text)
    for index, raw in apart.items():
        assert not found.graph.initializer[index].HasField("raw_data")
        found.graph.initializer[index].raw_data = bytes(raw)
    return found


def _parsed(data: bytes) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.ParseFromString(data)
    return found


def _small() -> onnx.ModelProto:
    """Every kind of data: raw, typed, too short, none, and initializers of a branch."""
    numbers = np.arange(6, dtype=np.float32)
    branch = helper.make_graph([], "b", [], [], [numpy_helper.from_array(numbers, "in")])
    tensors = [
        numpy_helper.from_array(numbers, "raw"),
        helper.make_tensor("typed", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
        numpy_helper.from_array(np.float32(1), "short"),
        TensorProto(name="none", dims=[0]),
        numpy_helper.from_array(numbers.astype(np.int64), "wide"),
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([node], "g", [], [], tensors)
    return helper.make_model(graph, producer_name="x" * 200)


def test_a_message_taken_apart_is_the_message() -> None:
    data = _small().SerializeToString()
    parts = wire.split(memoryview(data), 8)
    text, apart = parts.text, parts.apart
    assert sorted(apart) == [0, 4]
    assert len(text) < len(data)
    assert _together(data) == _parsed(data)


def _field(number: int, value: bytes) -> bytes:
    return wire._field(number, len(value)) + value


@pytest.mark.parametrize(
    "data",
    {
        "two graphs": _field(7, _field(5, _field(9, b"12345678"))) * 2,
        "raw data twice": _field(7, _field(5, _field(9, b"12345678") + _field(9, b"87654321"))),
        "an unknown field": _field(7, _field(99 & 15, b"x") + _field(5, _field(9, b"12345678"))),
        "a group": _field(7, _field(5, _field(9, b"12345678") + b"\x9b\x06\x9c\x06")),
        "a number for a graph": b"\x38\x05" + _field(7, _field(5, _field(9, b"12345678"))),
        "a number for raw data": _field(7, _field(5, b"\x48\x05" + _field(9, b"12345678"))),
        "a long number": _field(7, _field(5, b"\x10\x81\x80\x80\x00" + _field(9, b"12345678"))),
        "raw data alone": _field(7, _field(5, _field(9, b"12345678"))),
    }.items(),
    ids=lambda item: item[0],
)
def test_odd_messages_mean_what_protobuf_says(data: tuple[str, bytes]) -> None:
    assert _together(data[1]) == _parsed(data[1])


def test_damaged_messages_are_protobufs_to_judge() -> None:
    """One that cannot be parsed cannot be parsed without its raw data, and the other way round."""
    whole = _small().SerializeToString()
    seed = 5
    rng = np.random.default_rng(seed)
    parsed = 0
    for i in range(3000):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        if i % 3 == 0:
            del data[int(rng.integers(len(data))) :]
        try:
            wanted = _parsed(bytes(data))
        except Exception:
            with pytest.raises(Exception):  # noqa: B017 - whatever protobuf raises
                _together(bytes(data))
            continue
        parsed += 1
        # Bytes, since a NaN is not itself.
        assert _together(bytes(data)).SerializeToString() == wanted.SerializeToString(), seed
    assert parsed > 100
