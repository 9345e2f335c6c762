"""Products of bytes whose scales are computed: DynamicQuantizeLinear, MatMulInteger and what is
behind them, against their definition in integers, and against ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import QuantType, quantize_dynamic

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.fixed import integer_products
from support.quantizing import KERNELS, Graph, image
from zoo.quantizing import reference

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

MICROSOFT = "com.microsoft"
UINT8, INT32 = TensorProto.UINT8, TensorProto.INT32
FUSED = "fuse dynamic quantization"


def steps(model: Model) -> list[str]:
    """What a session of the model runs."""
    with qnnrt.Session(model, backend="cpu") as session:
        return [step["op"] for step in json.loads(session.graph.describe() or "")["steps"]]


def run(
    model: Model, feeds: dict[str, np.ndarray], kernels: str = "auto", threads: int = 1
) -> list[np.ndarray]:
    options = {"kernels": kernels}
    with qnnrt.Session(model, backend="cpu", threads=threads, options=options) as session:
        found = session.run({name: feeds[name] for name in model.inputs})
        return [np.array(found[name]) for name in model.outputs]


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.float32, np.float32]:
    """DynamicQuantizeLinear by its definition: codes, scale and zero point."""
    high, low = max(np.float32(0), x.max()), min(np.float32(0), x.min())
    scale = np.float32(high - low) / np.float32(255)
    zero = np.rint(np.clip(np.float32(0) - low / scale, 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255), scale, zero


class Case:
    """DynamicQuantizeLinear, MatMulInteger, Cast, Mul and Add, of everything at random."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        m, self.k, self.n = (int(v) for v in rng.integers(1, 150, 3))
        self.shape = [(m, self.k), (2, m, self.k), (1, 2, 3, self.k)][int(rng.integers(3))]
        dtype = [np.uint8, np.int8][int(rng.integers(2))]
        per_column, zeros, biased = (bool(v) for v in rng.integers(2, size=3))
        count = (self.n,) if per_column else ()
        info = np.iinfo(dtype)

        def codes(*shape: int) -> np.ndarray:
            return np.asarray(rng.integers(info.min, info.max + 1, shape)).astype(dtype)

        self.w, self.zero = codes(self.k, self.n), codes(*count) if zeros else None
        self.scale = rng.uniform(0.001, 0.01, count).astype(np.float32)
        self.bias = rng.normal(size=self.n).astype(np.float32) if biased else None

    def x(self) -> np.ndarray:
        wide = 10 ** self.rng.uniform(-3, 3)
        return (self.rng.normal(size=self.shape) * wide + self.rng.normal()).astype(np.float32)

    def proto(self) -> onnx.ModelProto:
        g = Graph(17)
        q = g.op("DynamicQuantizeLinear", ["x"], 3)
        scale, zero = (q.replace(".0", f".{i}") for i in (1, 2))
        inputs = [q, g.const(self.w), zero]
        inputs += [] if self.zero is None else [g.const(self.zero)]
        y = g.op("Cast", [g.op("MatMulInteger", inputs)], to=TensorProto.FLOAT)
        y = g.op("Mul", [y, g.op("Mul", [scale, g.const(self.scale)])])
        if self.bias is not None:
            y = g.op("Add", [y, g.const(self.bias)])
        return g.proto({"x": self.shape}, [y])

    def wanted(self, x: np.ndarray) -> np.ndarray:
        codes, scale, zero = quantized(x)
        w = self.w.astype(np.int64) - (0 if self.zero is None else self.zero.astype(np.int64))
        sums = (codes - zero).astype(np.int64) @ w
        y = sums.astype(np.float32) * (scale * self.scale)
        return y if self.bias is None else y + self.bias


@pytest.mark.parametrize("seed", range(40))
def test_products_are_those_of_the_definition(seed: int) -> None:
    case = Case(seed)
    model = importer.load(case.proto())
    assert len(steps(model)) == 3  # the quantization, the product of the scales, the product
    x = case.x()
    wanted = case.wanted(x)
    for kernels in KERNELS:
        for threads in (1, 2):
            (y,) = run(model, {"x": x}, kernels, threads)
            np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(40, 60))
def test_products_are_those_of_onnxruntime(seed: int) -> None:
    case = Case(seed)
    proto, x = case.proto(), case.x()
    (wanted,) = reference(proto, {"x": x})
    (y,) = run(importer.load(proto), {"x": x})
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


SPECIAL = {
    "zeros": np.zeros((3, 4), np.float32),
    "one sign": np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4),
    "the other": np.linspace(-2, -1, 12, dtype=np.float32).reshape(3, 4),
    "halves": (np.arange(12, dtype=np.float32).reshape(3, 4) - 4) / 2,
    "one element": np.full((1, 1), -3, np.float32),
    "tiny": np.full((2, 2), 1e-42, np.float32),
    "many": np.random.default_rng(3).normal(size=(300, 400)).astype(np.float32),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("kernels", KERNELS)
def test_quantization_is_that_of_the_definition(name: str, kernels: str) -> None:
    x = SPECIAL[name]
    g = Graph(17)
    q = g.op("DynamicQuantizeLinear", ["x"], 3)
    names = [q, q.replace(".0", ".1"), q.replace(".0", ".2")]
    proto = g.proto({"x": x.shape}, names, **{names[0]: UINT8, names[2]: UINT8})
    model = importer.load(proto)
    assert len(steps(model)) == 2  # and the zero point as a byte
    codes, scale, zero = run(model, {"x": x}, kernels)
    # Of zeros the definition's scale is 0, the evaluator's 1 / 255: there as ONNX Runtime.
    feeds = {"x": x}
    if name == "zeros":
        wanted = reference(proto, feeds)
    else:
        wanted = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_array_equal(codes, wanted[0])
    assert (scale.item(), zero.item()) == (wanted[1].item(), wanted[2].item())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 37, 63])
def test_what_is_not_finite_has_no_finite_scale(value: float, place: int) -> None:
    x = image(8, 8)
    x.ravel()[place] = value
    g = Graph(17)
    q = g.op("DynamicQuantizeLinear", ["x"], 3)
    y = g.op("MatMulInteger", [q, g.const(np.ones((8, 5), np.int8)), q.replace(".0", ".2")])
    y = g.op("Mul", [g.op("Cast", [y], to=TensorProto.FLOAT), q.replace(".0", ".1")])
    model = importer.load(g.proto({"x": (8, 8)}, [y, q.replace(".0", ".1")]))
    for kernels in KERNELS:
        found, scale = run(model, {"x": x}, kernels)
        assert not np.isfinite(scale).any()
        assert np.isnan(scale).all() == bool(np.isnan(value))
        assert not np.isfinite(found).any()


def test_one_quantization_serves_all_readers() -> None:
    g = Graph(17)
    outputs = []
    for i in range(3):
        w, scale = g.const(np.full((8, 5), i, np.int8)), g.const(np.float32(0.01 * (i + 1)))
        outputs.append(g.op("DynamicQuantizeMatMul", ["x", w, scale], domain=MICROSOFT))
    proto = g.proto({"x": (4, 8)}, outputs)
    assert len(steps(importer.load(proto))) == 1 + 3 * 2
    for y, ref in zip(
        run(importer.load(proto), {"x": image(4, 8)}), reference(proto, {"x": image(4, 8)}),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(y, ref, rtol=1e-6)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_two_computed_factors(left: type, right: type, zeros: int, kernels: str) -> None:
    """With batches that are broadcast, and the integers themselves as the result."""
    rng = np.random.default_rng(zeros)
    a = rng.integers(np.iinfo(left).min, np.iinfo(left).max + 1, (3, 1, 20, 30)).astype(left)
    b = rng.integers(np.iinfo(right).min, np.iinfo(right).max + 1, (2, 30, 40)).astype(right)
    feeds = {"a": a, "b": b, "za": left(100), "zb": right(77)}
    names = ["a", "b", "za", "zb"][: 2 + zeros]
    g = Graph(17)
    y = g.op("MatMulInteger", names)
    kinds = {n: onnx.helper.np_dtype_to_tensor_dtype(np.dtype(feeds[n].dtype)) for n in names}
    model = importer.load(g.proto({n: feeds[n].shape for n in names}, [y], **kinds, **{y: INT32}))
    wanted = (a.astype(np.int64) - (100 if zeros else 0)) @ (b.astype(np.int64) - 77 * (zeros > 1))
    (found,) = run(model, {n: feeds[n] for n in names}, kernels)
    np.testing.assert_array_equal(found, wanted)
    assert len(steps(model)) == 1 + zeros  # and zero points as 32-bit integers


def test_sums_beyond_24_bits_are_exact() -> None:
    """A float would round them."""
    g = Graph(17)
    w = np.full((3000, 8), 127, np.int8)
    w[0] = 1
    y = g.op("MatMulInteger", ["q", g.const(w)])
    model = importer.load(g.proto({"q": (2, 3000)}, [y], q=UINT8, **{y: INT32}))
    q = np.full((2, 3000), 255, np.uint8)
    for kernels in KERNELS:
        (found,) = run(model, {"q": q}, kernels)
        assert (found == 255 * 127 * 2999 + 255).all()


# ---- networks ----------------------------------------------------------------------------------


def encoder(width: int = 64, heads: int = 4, rows: int = 24) -> onnx.ModelProto:
    """A layer of a transformer."""
    rng = np.random.default_rng(5)
    g = Graph(17)

    def dense(x: str, i: int, o: int) -> str:
        w = g.const(rng.normal(0, i**-0.5, (i, o)).astype(np.float32))
        bias = g.const(rng.normal(0, 0.1, o).astype(np.float32))
        return g.op("Add", [g.op("MatMul", [x, w]), bias])

    def split(x: str, perm: list[int]) -> str:
        shape = g.const(np.array([1, rows, heads, width // heads]))
        return g.op("Transpose", [g.op("Reshape", [x, shape])], perm=perm)

    q, k = (split(dense("x", width, width), p) for p in ([0, 2, 1, 3], [0, 2, 3, 1]))
    v = split(dense("x", width, width), [0, 2, 1, 3])
    y = g.op("MatMul", [g.op("Softmax", [g.op("MatMul", [q, k])], axis=-1), v])
    y = g.op("Transpose", [y], perm=[0, 2, 1, 3])
    y = g.op("Reshape", [y, g.const(np.array([1, rows, width]))])
    y = g.op("Add", ["x", dense(y, width, width)])
    hidden = g.op("Relu", [dense(y, width, 4 * width)])
    y = g.op("Add", [y, dense(hidden, 4 * width, width)])
    return g.proto({"x": (1, rows, width)}, [y])


@pytest.fixture(scope="module")
def float_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dynamic") / "float.onnx"
    onnx.save(encoder(), path)
    return path


KINDS = {
    "int8": {"weight_type": QuantType.QInt8},
    "uint8": {"weight_type": QuantType.QUInt8},
    "int8 per channel": {"weight_type": QuantType.QInt8, "per_channel": True},
    "uint8 per channel": {"weight_type": QuantType.QUInt8, "per_channel": True},
    "7 bits": {"weight_type": QuantType.QInt8, "reduce_range": True},
    "computed factors": {"extra_options": {"MatMulConstBOnly": False}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_of_quantize_dynamic(float_encoder: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "dynamic.onnx"
    quantize_dynamic(str(float_encoder), str(target), **KINDS[kind])
    model = qnnrt.load(target)
    x = image(1, 24, 64)
    (wanted,) = reference(onnx.load(target), {"x": x})
    (exact,) = reference(onnx.load(float_encoder), {"x": x})
    (found,) = run(model, {"x": x})
    # A rounding error of a float can move an activation by a step, here as there.
    assert np.abs(found - wanted).max() <= np.abs(wanted - exact).max()
    with qnnrt.Session(model, backend="cpu") as session:
        described = json.loads(session.graph.describe() or "")
        counts = {p["name"]: p["changes"] for p in described["passes"]}
        products = 8 if kind == "computed factors" else 6
        quantizations = products + products - 6 - 2  # q, k and v share one
        assert counts[FUSED] == products + quantizations
        names = " ".join(step["kernel"] for step in described["steps"])
    assert "portable" in names  # such steps as the quantizations
    # The Model keeps weights as the bytes that they are in the file.
    big = [t for t in model.tensors.values() if t.data is not None and t.data.size >= 64 * 64]
    assert {t.dtype.itemsize for t in big} == {1}


def test_a_context_binary_holds_it(float_encoder: Path, tmp_path: Path) -> None:
    target, binary = tmp_path / "dynamic.onnx", tmp_path / "dynamic.bin"
    quantize_dynamic(str(float_encoder), str(target), per_channel=True)
    x = image(1, 24, 64)
    with qnnrt.Session(str(target), backend="cpu", threads=1) as session:
        (wanted,) = session.run({"x": x}).values()
        wanted = np.array(wanted)
        session.save_binary(binary)
    with qnnrt.Session(str(binary), backend="cpu", threads=1) as session:
        (found,) = session.run({"x": x}).values()
        np.testing.assert_array_equal(found, wanted)
    # Without 8-bit products on the processor the weights are packed as 16-bit integers.
    share = 1 / 2 if integer_products() else 2 / 3
    assert binary.stat().st_size < share * float_encoder.stat().st_size


def test_several_threads_give_what_one_gives(float_encoder: Path, tmp_path: Path) -> None:
    target = tmp_path / "dynamic.onnx"
    quantize_dynamic(str(float_encoder), str(target))
    model, x = qnnrt.load(target), image(1, 24, 64)
    for kernels in KERNELS:
        (one,) = run(model, {"x": x}, kernels, 1)
        (two,) = run(model, {"x": x}, kernels, 2)
        np.testing.assert_allclose(two, one, atol=1e-2)


# ---- convolutions ------------------------------------------------------------------------------


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, gap: int, pads: list[int], group: int
) -> np.ndarray:
    """[N, C, H, W] with [Cout, Cin / group, KH, KW], in 64-bit integers."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    kh, kw = w.shape[2:]
    size = [
        (d - (k - 1) * gap - 1) // stride + 1 for d, k in zip(x.shape[2:], (kh, kw), strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.int64)
    each = w.shape[0] // group
    for g in range(group):
        xs, ws = np.split(x, group, 1)[g], w[g * each : (g + 1) * each]
        for i in range(kh):
            for j in range(kw):
                part = xs[:, :, i * gap :, j * gap :]
                part = part[:, :, : (size[0] - 1) * stride + 1 : stride]
                part = part[:, :, :, : (size[1] - 1) * stride + 1 : stride]
                y[:, g * each : (g + 1) * each] += np.einsum("nchw,oc->nohw", part, ws[:, :, i, j])
    return y


@pytest.mark.parametrize("seed", range(40))
def test_convolutions_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = int(rng.choice([1, 1, 1, 2, 8]))
    cin, cout = (int(v) * group for v in rng.integers(1, 9 if group < 8 else 2, 2))
    kernel, stride, gap = (int(v) for v in rng.integers(1, 4, 3))
    pads = [int(v) for v in rng.integers(0, 3, 4)]
    shape = (int(rng.integers(1, 3)), cin, *(int(v) for v in rng.integers(9, 24, 2)))
    dtype = [np.uint8, np.int8][seed % 2]
    info = np.iinfo(dtype)
    w = rng.integers(info.min, info.max + 1, (cout, cin // group, kernel, kernel)).astype(dtype)
    zero = dtype(rng.integers(info.min, info.max + 1)) if rng.integers(2) else dtype(0)
    bias = rng.normal(size=(1, cout, 1, 1)).astype(np.float32)
    scale = np.float32(0.003)

    g = Graph(17)
    q = g.op("DynamicQuantizeLinear", ["x"], 3)
    inputs = [q, g.const(w), q.replace(".0", ".2"), g.const(zero)]
    y = g.op(
        "ConvInteger", inputs, pads=pads, strides=[stride] * 2, dilations=[gap] * 2, group=group
    )  # fmt: skip
    y = g.op("Cast", [y], to=TensorProto.FLOAT)
    y = g.op("Mul", [y, g.op("Mul", [q.replace(".0", ".1"), g.const(scale)])])
    if rng.integers(2):
        y = g.op("Relu", [g.op("Add", [y, g.const(bias)])])
    model = importer.load(g.proto({"x": shape}, [y]))
    found = steps(model)
    assert found.count("IntegerConv2d") == 1
    assert len(found) <= 5  # with the transposes at both ends

    x = rng.normal(size=shape).astype(np.float32)
    codes, step, point = quantized(x)
    weights = w.astype(np.int64) - int(zero)
    sums = convolved((codes - point).astype(np.int64), weights, stride, gap, pads, group)
    wanted = sums.astype(np.float32) * (step * scale)
    if any("Relu" in node.op_type for node in g.proto({"x": shape}, [y]).graph.node):
        wanted = np.maximum(wanted + bias, 0)
    for kernels in KERNELS:
        for threads in (1, 2):
            (found,) = run(model, {"x": x}, kernels, threads)
            limit = 1e-6 * max(np.abs(wanted).max(), 1)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_scales_stay_exact_where_floats_have_16_bits(
    float_encoder: Path, tmp_path: Path, precision: str, kernels: str
) -> None:
    target, binary = tmp_path / "dynamic.onnx", tmp_path / "dynamic.bin"
    quantize_dynamic(str(float_encoder), str(target))
    model, x = qnnrt.load(target), image(1, 24, 64)
    (wanted,) = run(model, {"x": x}, kernels)
    options = {"kernels": kernels}
    with qnnrt.Session(model, precision=precision, options=options, threads=1) as session:
        found = np.array(next(iter(session.run({"x": x}).values())))
        session.save_binary(binary)
    # A step of 8 bits here and there, and what 16 bits round.
    assert 0 < np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)) < 0.02
    with qnnrt.Session(str(binary), threads=1) as session:
        np.testing.assert_array_equal(next(iter(session.run({"x": x}).values())), found)


def test_an_empty_batch_is_quantized_as_onnx_runtime_does() -> None:
    codes, scale, zero = "codes", "scale", "zero"
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], [codes, scale, zero]),
        onnx.helper.make_node("MatMulInteger", [codes, "w", zero], ["y"]),
    ]
    w = onnx.numpy_helper.from_array(np.ones((3, 2), np.int8), "w")
    value = onnx.helper.make_tensor_value_info
    types = {codes: UINT8, scale: TensorProto.FLOAT, zero: UINT8, "y": INT32}
    outputs = [value(name, type_, None) for name, type_ in types.items()]
    given = [value("x", TensorProto.FLOAT, [0, 3])]
    graph = onnx.helper.make_graph(nodes, "g", given, outputs, [w])
    opset = [onnx.helper.make_opsetid("", 21)]
    proto = onnx.helper.make_model(graph, opset_imports=opset, ir_version=9)
    feeds = {"x": np.empty((0, 3), np.float32)}
    for found, wanted in zip(
        run(importer.load(proto), feeds), reference(proto, feeds), strict=True
    ):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert np.array_equal(found, wanted)
