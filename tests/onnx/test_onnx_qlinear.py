"""Operators on quantized tensors: ONNX's own, ONNX Runtime's, and those of dynamic quantization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic

import qnnrt
from qnnrt.importers import onnx as importer
from support import quantizing
from support.quantizing import Graph, check, codes, conversions, image, types
from zoo.quantizing import reference

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

MICROSOFT = "com.microsoft"
UINT8, INT8 = TensorProto.UINT8, TensorProto.INT8


def parameters(g: Graph, scale: float, zero: int, dtype: type = np.uint8) -> list[str]:
    return [g.const(np.float32(scale)), g.const(dtype(zero))]


SIMPLE = [
    ("QLinearSigmoid", {}, 1 / 256, 0, (2, 5)),
    ("QLinearLeakyRelu", {"alpha": 0.2}, 1 / 40, 30, (2, 5)),
    ("QLinearSoftmax", {"axis": -1, "opset": 13}, 1 / 256, 0, (2, 5)),
    ("QLinearSoftmax", {"axis": 1, "opset": 11}, 1 / 256, 0, (2, 5, 3)),
    ("QLinearGlobalAveragePool", {}, 1 / 40, 128, (2, 4, 6, 6)),
    ("QLinearGlobalAveragePool", {"channels_last": 1}, 1 / 40, 128, (2, 6, 6, 4)),
    (
        "QLinearAveragePool",
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        1 / 40,
        128,
        (2, 4, 6, 6),
    ),
]


@pytest.mark.parametrize(("op", "attrs", "scale", "zero", "shape"), SIMPLE)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_operators_of_one_tensor(
    op: str,
    attrs: dict[str, object],
    scale: float,
    zero: int,
    shape: tuple[int, ...],
    dtype: type,
) -> None:
    shift = 128 if dtype is np.int8 else 0
    g = Graph(17)
    inputs = ["x", *parameters(g, 1 / 32, 128 - shift, dtype)]
    y = g.op(op, [*inputs, *parameters(g, scale, zero - shift, dtype)], domain=MICROSOFT, **attrs)
    kind = INT8 if dtype is np.int8 else UINT8
    proto = g.proto({"x": shape}, [y], x=kind, **{y: kind})
    model = check(proto, {"x": codes(*shape, dtype=dtype)}, 1)
    assert conversions(model) == {}


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("constant", [False, True])
def test_sums_and_products(op: str, constant: bool) -> None:
    g = Graph(17)
    other = g.const(codes(4, 1, dtype=np.uint8)) if constant else "b"
    inputs = ["a", *parameters(g, 1 / 32, 100), other, *parameters(g, 1 / 50, 90)]
    y = g.op(op, [*inputs, *parameters(g, 1 / 20, 128)], domain=MICROSOFT)
    shapes = {"a": (3, 4, 5)} | ({} if constant else {"b": (4, 1)})
    proto = g.proto(shapes, [y], **dict.fromkeys((*shapes, y), UINT8))
    feeds = {k: codes(*v, dtype=np.uint8) for k, v in shapes.items()}
    assert conversions(check(proto, feeds, 1)) == {}


def test_concatenation_of_unequal_encodings() -> None:
    g = Graph(17)
    inputs = [*parameters(g, 1 / 20, 128), "a", *parameters(g, 1 / 32, 100)]
    inputs += ["b", *parameters(g, 1 / 20, 128)]
    y = g.op("QLinearConcat", inputs, domain=MICROSOFT, axis=1)
    shapes = {"a": (2, 3, 4), "b": (2, 5, 4)}
    proto = g.proto(shapes, [y], **dict.fromkeys((*shapes, y), UINT8))
    feeds = {k: codes(*v, dtype=np.uint8) for k, v in shapes.items()}
    assert types(check(proto, feeds, 1)) == ["Concat"]


def test_choice_between_encodings() -> None:
    g = Graph(17)
    inputs = ["c", "a", *parameters(g, 1 / 32, 100), "b", *parameters(g, 1 / 20, 128)]
    y = g.op("QLinearWhere", [*inputs, *parameters(g, 1 / 20, 128)], domain=MICROSOFT)
    shapes = {"c": (3, 4), "a": (3, 4), "b": (3, 4)}
    proto = g.proto(shapes, [y], c=TensorProto.BOOL, a=UINT8, b=UINT8, **{y: UINT8})
    feeds = {k: codes(3, 4, dtype=np.uint8) for k in ("a", "b")}
    feeds["c"] = image(3, 4) > 0
    assert types(check(proto, feeds, 1)) == ["ElementWiseSelect"]


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("quantized", [False, True])
def test_gemm(turned: int, quantized: bool) -> None:
    g = Graph(17)
    scales = np.linspace(0.5, 2, 6, dtype=np.float32) / 100
    w = codes(6, 8) if turned else codes(8, 6)
    inputs = ["x", *parameters(g, 1 / 32, 128)]
    inputs += [g.const(w), g.const(scales), g.const(np.zeros(6, np.int8))]
    inputs.append(g.const(np.arange(-3, 3, dtype=np.int32) * 1000))
    if quantized:
        inputs += parameters(g, 1 / 10, 128)
    y = g.op("QGemm", inputs, domain=MICROSOFT, transB=turned)
    kind = UINT8 if quantized else TensorProto.FLOAT
    proto = g.proto({"x": (3, 8)}, [y], x=UINT8, **{y: kind})
    model = check(proto, {"x": codes(3, 8, dtype=np.uint8)}, 1 if quantized else 1e-4)
    assert ("Dequantize" in types(model)) == (not quantized)


def test_quantization_in_the_domain_of_onnxruntime() -> None:
    """Before opset 21 its quantizer writes types of 16 bits that way."""
    g = Graph(17)
    zero = g.const(np.uint16(30000))
    q = g.op("QuantizeLinear", ["x", g.const(np.float32(1e-4)), zero], domain=MICROSOFT)
    y = g.op("DequantizeLinear", [q, g.const(np.float32(1e-4)), zero], domain=MICROSOFT)
    model = check(g.proto({"x": (4, 5)}, [y]), {"x": image(4, 5)}, 1e-4)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


# ---- dynamic quantization --------------------------------------------------------------------


def dense(g: Graph, op: str, inputs: list[str], **attrs: object) -> str:
    return g.op(op, inputs, domain=MICROSOFT, **attrs)


def test_products_of_dynamically_quantized_numbers() -> None:
    g = Graph(17)
    w, scale = g.const(codes(8, 6)), g.const(np.linspace(0.5, 2, 6, dtype=np.float32) / 100)
    zero, bias = g.const(np.zeros(6, np.int8)), g.const(image(6))
    y = dense(g, "DynamicQuantizeMatMul", ["x", w, scale, zero, bias])
    check(g.proto({"x": (2, 3, 8)}, [y]), {"x": image(2, 3, 8)}, 1e-4)


def test_a_product_of_integers_as_a_float() -> None:
    g = Graph(17)
    w, scales = g.const(codes(8, 6)), g.const(np.linspace(0.5, 2, 6, dtype=np.float32) / 100)
    inputs = ["x", w, g.const(np.float32(0.05)), scales, g.const(np.uint8(120))]
    y = dense(g, "MatMulIntegerToFloat", inputs)
    proto = g.proto({"x": (3, 8)}, [y], x=UINT8)
    check(proto, {"x": codes(3, 8, dtype=np.uint8)}, 1e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_and_pools_with_the_channels_last(bias: bool) -> None:
    """As ONNX Runtime writes them at its highest level."""
    g = Graph(17)
    weights = codes(6, 4, 3, 3, dtype=np.int8)
    inputs = ["x", *parameters(g, 1 / 40, 128), g.const(weights)]
    inputs += [
        g.const(np.linspace(0.005, 0.01, 6, dtype=np.float32)),
        g.const(np.zeros(6, np.int8)),
    ]
    inputs += parameters(g, 1 / 10, 120)
    if bias:
        inputs.append(g.const(np.arange(-3, 3, dtype=np.int32) * 1000))
    y = dense(g, "QLinearConv", inputs, channels_last=1, pads=[1, 1, 1, 1], strides=[2, 1])
    y = dense(g, "NhwcMaxPool", [y], kernel_shape=[2, 2], strides=[1, 2])
    proto = g.proto({"x": (2, 9, 8, 4)}, [y], **{"x": UINT8, y: UINT8})
    check(proto, {"x": codes(2, 9, 8, 4, dtype=np.uint8)}, 1)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_of_4_bits_beside_floats(zeros: bool, bias: bool) -> None:
    """Two in a byte, in blocks of 32; the last block is not full."""
    rows, depth, size = 24, 80, 32
    blocks = 3
    packed = codes(rows, blocks, size // 2, dtype=np.uint8)
    scales = np.random.default_rng(1).uniform(0.01, 0.1, rows * blocks).astype(np.float32)
    g = Graph(17)
    inputs = ["x", g.const(packed), g.const(scales)]
    inputs.append(g.const(codes(rows * 2, dtype=np.uint8)) if zeros else "")
    inputs += ["", g.const(image(rows)) if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    y = dense(g, "MatMulNBits", inputs, K=depth, N=rows, bits=4, block_size=size)
    model = check(g.proto({"x": (2, 3, depth)}, [y]), {"x": image(2, 3, depth)}, 1e-3)
    assert types(model) == ["MatMul", *["ElementWiseAdd"] * bias]


@pytest.mark.parametrize(
    ("count", "attrs", "message"),
    [
        (2, {"K": 64, "N": 8, "block_size": 32}, "it has 2 inputs; it has to have 3 to 6"),
        (3, {"K": 64, "N": 8, "bits": 2, "block_size": 32}, "256 bytes for 8 x 2 blocks of 32"),
        (3, {"K": 64, "N": 8}, "the attribute .block_size. is missing"),
        (3, {"K": -64, "N": 8, "block_size": 32}, "K and block_size have to be positive, and are"),
    ],
)
def test_bad_weights_of_4_bits_are_refused(count: int, attrs: dict[str, int], message: str) -> None:
    g = Graph(17)
    inputs = ["x", g.const(codes(8, 2, 16, dtype=np.uint8)), g.const(np.ones(16, np.float32))]
    y = dense(g, "MatMulNBits", inputs[:count], **attrs)
    with pytest.raises(qnnrt.ModelError, match=message):
        importer.load(g.proto({"x": (2, 64)}, [y]))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("rows", "depth", "size"), [(24, 64, 32), (7, 20, 16), (5, 9, 16)])
def test_weights_of_fp4_and_nf4(kind: int, rows: int, depth: int, size: int) -> None:
    """As `MatMulBnb4Quantizer` writes them: blocks do not end where rows do."""
    packed = codes(-(-rows * depth // 2), dtype=np.uint8)
    largest = np.random.default_rng(1).uniform(0.1, 1, -(-rows * depth // size))
    g = Graph(17)
    inputs = ["x", g.const(packed), g.const(largest.astype(np.float32))]
    how = {"K": depth, "N": rows, "block_size": size, "quant_type": kind}
    y = dense(g, "MatMulBnb4", inputs, **how)
    model = check(g.proto({"x": (2, 3, depth)}, [y]), {"x": image(2, 3, depth)}, 1e-4)
    assert types(model) == ["MatMul"]


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"quant_type": 2}, "quant_type=2"),
        ({"quant_type": 1, "transB": 0}, "transB=0"),
        ({"quant_type": 1, "N": 9}, "B has 256 bytes and absmax 16 numbers for 9 x 64 numbers"),
        ({"quant_type": 1, "block_size": 0}, "have to be positive, and are"),
    ],
)
def test_bad_weights_of_fp4_and_nf4_are_refused(attrs: dict[str, int], message: str) -> None:
    g = Graph(17)
    inputs = ["x", g.const(codes(256, dtype=np.uint8)), g.const(np.ones(16, np.float32))]
    y = dense(g, "MatMulBnb4", inputs, **{"K": 64, "N": 8, "block_size": 32, **attrs})
    with pytest.raises(qnnrt.Error, match=message):
        importer.load(g.proto({"x": (2, 64)}, [y]))


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
def test_a_dynamically_quantized_network(tmp_path: Path, weights: QuantType) -> None:
    g = Graph(17)
    y = g.op("Conv", ["x", g.const(image(4, 3, 3, 3))], pads=[1] * 4)
    y = g.op("Flatten", [g.op("Relu", [y])])
    y = g.op("Gemm", [y, g.const(image(8, 4 * 36) / 12), g.const(image(8))], transB=1)
    y = g.op("MatMul", [g.op("Tanh", [y]), g.const(image(8, 5))])
    source, target = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    onnx.save(g.proto({"x": (2, 3, 6, 6)}, [y]), source)
    quantize_dynamic(str(source), str(target), weight_type=weights)
    proto = onnx.load(target)
    assert {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"} <= {
        n.op_type for n in proto.graph.node
    }
    feeds = {"x": image(2, 3, 6, 6)}
    wanted = reference(proto, feeds)
    found = quantizing.run(importer.load(proto), feeds)
    np.testing.assert_allclose(found[0], wanted[0], atol=0.02 * np.abs(wanted[0]).max())


def lstm(direction: str, states: bool) -> onnx.ModelProto:
    steps, batch, width, hidden = 7, 2, 12, 10
    ways = 2 if direction == "bidirectional" else 1
    g = Graph(17)
    shapes = [(ways, 4 * hidden, width), (ways, 4 * hidden, hidden), (ways, 8 * hidden)]
    w, r, bias = (g.const(image(*shape) / 4) for shape in shapes)
    inputs = ["x", w, r, bias, "", *["h", "c"] * states]
    first = g.op("LSTM", inputs, 3, hidden_size=hidden, direction=direction)
    feeds = {"x": (steps, batch, width)} | dict.fromkeys("hc" * states, (ways, batch, hidden))
    return g.proto(feeds, [first.replace(".0", f".{i}") for i in range(3)])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
def test_a_dynamically_quantized_lstm(
    tmp_path: Path, weights: QuantType, per_channel: bool, states: bool, direction: str
) -> None:
    """That of its weights in float, and near ONNX Runtime's, which rounds input and state, too."""
    source, target = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    proto = lstm(direction, states)
    onnx.save(proto, source)
    # Seven bits: with eight, ONNX Runtime's sums saturate on processors without VNNI.
    options = {"per_channel": per_channel, "reduce_range": True}
    quantize_dynamic(str(source), str(target), weight_type=weights, **options)
    quantized = onnx.load(target)
    (node,) = quantized.graph.node
    assert node.op_type == "DynamicQuantizeLSTM"
    feeds = {
        i.name: image(*(d.dim_value for d in i.type.tensor_type.shape.dim))
        for i in proto.graph.input
    }
    found = quantizing.run(importer.load(quantized), feeds)
    held = {i.name: onnx.numpy_helper.to_array(i) for i in quantized.graph.initializer}
    for place, scale in ((1, 8), (2, 10)):
        w, s, z = (held[node.input[i]] for i in (place, scale, scale + 1))
        per = (w.shape[0], 1, -1)
        real = (w.astype(np.float32) - z.reshape(per)) * s.reshape(per)
        name = proto.graph.node[0].input[place]
        (initializer,) = (i for i in proto.graph.initializer if i.name == name)
        initializer.CopyFrom(onnx.numpy_helper.from_array(real.transpose(0, 2, 1).copy(), name))
    for y, exact, rounded in zip(
        found, reference(proto, feeds), reference(quantized, feeds), strict=True
    ):
        np.testing.assert_allclose(y, exact, rtol=0, atol=1e-5)
        np.testing.assert_allclose(y, rounded, rtol=0, atol=0.03)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            (1, 6, 20),
            r"3 scales or .* of weights of shape \[1, 6, 20\]; .* \(1\) or .* \(20\)",
        ),
        ((6,), r"weights of shape \[6\]; it has to be \[directions, I, 4 \* H\]"),
    ],
)
def test_a_bad_dynamically_quantized_lstm_is_refused(shape: tuple[int, ...], message: str) -> None:
    g = Graph(17)
    scales = [g.const(np.ones(3, np.float32)), g.const(np.zeros(3, np.int8))]
    inputs = ["x", g.const(codes(*shape)), g.const(codes(1, 5, 20)), *[""] * 5, *scales, *scales]
    y = dense(g, "DynamicQuantizeLSTM", inputs, hidden_size=5)
    with pytest.raises(qnnrt.ModelError, match=message):
        importer.load(g.proto({"x": (2, 1, 6)}, [y]))


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
def test_every_opset_has_the_same_quantization(opset: int) -> None:
    g = Graph(opset)
    w = g.dq(g.const(codes(4, 4, 1, 1)), 1 / 64, 0, np.int8)
    y = g.qdq(g.op("Conv", [g.qdq("x", 1 / 32, 128), w]), 1 / 8, 128)
    proto = g.proto({"x": (1, 4, 8, 8)}, [y])
    model = check(proto, {"x": image(1, 4, 8, 8)}, 1 / 8)
    assert types(model) == ["Quantize", "Transpose", "Conv2d", "Transpose", "Dequantize"]


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_a_product_by_scales_that_are_computed_is_as_exact_as_by_known_ones(kind: int) -> None:
    """Scales of half precision do not make halves of what they scale."""
    half = onnx.helper.tensor_dtype_to_np_dtype(kind)
    a, b = codes(40, 19, dtype=np.uint8), codes(19, 30, dtype=np.uint8)
    scales = [np.asarray(v, half) for v in (0.0131, 0.0172, 0.9)]
    zeros = [np.uint8(v) for v in (11, 200, 128)]
    values = {"a": a, "as": scales[0], "az": zeros[0], "b": b, "bs": scales[1], "bz": zeros[1]}
    values |= {"ys": scales[2], "yz": zeros[2]}
    inputs = [
        onnx.helper.make_tensor_value_info(
            k, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.shape(v)
        )
        for k, v in values.items()
    ]
    y = onnx.helper.make_tensor_value_info("y", UINT8, (40, 30))
    product = onnx.helper.make_node("QLinearMatMul", list(values), ["y"])
    proto = onnx.helper.make_model(
        onnx.helper.make_graph([product], "g", inputs, [y]),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
    )
    sums = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    ratio = float(scales[0]) * float(scales[1]) / float(scales[2])
    expected = np.clip(np.rint(sums * ratio) + 128, 0, 255)
    with qnnrt.Session(importer.load(proto)) as session:
        found = session.run({k: np.asarray(v) for k, v in values.items()})["y"]
    np.testing.assert_array_equal(found, expected)
