"""Constants of quantized ONNX models: weights, biases and scales that are kept, or refused."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.quantizing import (
    SEED,
    Graph,
    check,
    codes,
    conversions,
    convolution,
    image,
    node,
    types,
)

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

UINT8 = TensorProto.UINT8


def bias_of(model: Model) -> tuple[np.ndarray, np.ndarray]:
    conv = next(n for n in model.nodes if n.type in ("Conv2d", "FullyConnected"))
    tensor = model.tensors[conv.inputs[2]]
    assert tensor.data is not None
    assert tensor.quantization is not None
    assert tensor.dtype == np.int32
    assert not np.any(tensor.quantization.offset)
    return tensor.data, np.asarray(tensor.quantization.scale)


@pytest.mark.parametrize("kind", ["float", "matching", "other"])
def test_a_bias_gets_the_product_of_the_scales(kind: str) -> None:
    g = Graph()
    values = np.array([1.5, -0.75, 0.0, 3.0], np.float32)
    product = np.float32(1 / 32) * (np.float32(1 / 100) * np.array([1, 0.5, 2, 0.25], np.float32))
    if kind == "float":
        bias = g.const(values)
    elif kind == "matching":
        bias = g.weights(np.rint(values / product).astype(np.int32), product)
    else:
        bias = g.weights(np.array([150, -75, 0, 300], np.int32), np.float32(0.01))
    y = g.qdq(convolution(g, g.qdq("x", 1 / 32, 128), bias=bias), 1 / 8, 128)
    model = check(g.proto({"x": (1, 4, 8, 8)}, [y]), {"x": image(1, 4, 8, 8)}, 1 / 8)
    found, scale = bias_of(model)
    np.testing.assert_allclose(scale, product, rtol=1e-6)
    np.testing.assert_array_equal(found, np.rint(values / product))
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


def test_a_bias_beyond_32_bits_leaves_the_operation_in_float() -> None:
    g = Graph()
    bias = g.const(np.full(4, 1e9, np.float32))
    y = g.qdq(convolution(g, g.qdq("x", 1 / 32, 128), 1e-4, bias), 1e7, 0)
    model = check(g.proto({"x": (1, 4, 8, 8)}, [y]), {"x": image(1, 4, 8, 8)}, 1e7)
    assert "Dequantize" in types(model)[: types(model).index("Conv2d")]


@pytest.mark.parametrize("held", ["plain", "turned"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_fully_connected_layers_keep_their_weights(held: str, per_channel: bool) -> None:
    """Behind a flattened image the rows are permuted, and a transposed matrix is turned."""
    g = Graph()
    x = g.qdq(convolution(g, g.qdq("x", 1 / 32, 128)), 1 / 8, 128)
    flat = g.op("Flatten", [x])
    scales = np.linspace(0.5, 2, 5) / 4096 if per_channel else 1 / 4096
    if held == "plain":
        w = g.weights(codes(4 * 64, 5), scales, axis=1)
        y = g.op("MatMul", [flat, w])
    else:
        w = g.op("Transpose", [g.weights(codes(5, 4 * 64), scales, axis=0)], perm=[1, 0])
        y = g.op("Gemm", [flat, w, g.const(image(5))])
    proto = g.proto({"x": (1, 4, 8, 8)}, [g.qdq(y, 1 / 16, 128)])
    model = check(proto, {"x": image(1, 4, 8, 8)}, 1 / 16)
    layer = next(n for n in model.nodes if n.type == "FullyConnected")
    weights = model.tensors[layer.inputs[1]]
    assert weights.dtype == np.int8
    assert weights.quantization is not None
    assert weights.quantization.axis == (0 if per_channel else None)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("signed", [False, True])
def test_weights_of_all_widths(bits: int, signed: bool) -> None:
    rng = np.random.default_rng(SEED)
    low = -(1 << (bits - 1)) if signed else 0
    values = rng.integers(low, low + (1 << bits), (8, 16))
    kind = getattr(TensorProto, f"{'' if signed else 'U'}INT{bits}")
    g = Graph()
    x = g.qdq("x", 1 / 32, 128)
    g.nodes.append(node("DequantizeLinear", ["w", g.const(np.float32(2.0**-bits)), "wz"], ["wr"]))
    y = g.qdq(g.op("Gemm", [x, "wr"], transB=1), 1 / 8, 128)
    proto = g.proto({"x": (3, 16)}, [y])
    zero = [0 if signed else 1 << (bits - 1)]
    proto.graph.initializer.append(helper.make_tensor("w", kind, (8, 16), values.ravel()))
    proto.graph.initializer.append(helper.make_tensor("wz", kind, (), zero))
    model = check(proto, {"x": image(3, 16)}, 1 / 8)
    layer = next(n for n in model.nodes if n.type == "FullyConnected")
    weights = model.tensors[layer.inputs[1]]
    assert weights.quantization is not None
    assert weights.quantization.bitwidth == (4 if bits == 4 else None)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


@pytest.mark.parametrize(("op", "shape"), [("Gemm", (3, 16)), ("MatMul", (2, 3, 16))])
@pytest.mark.parametrize("size", [4, 5])
def test_weights_in_blocks(size: int, op: str, shape: tuple[int, ...]) -> None:
    """Blocks that divide their dimension are an encoding; others become real numbers."""
    g = Graph()
    rng = np.random.default_rng(SEED)
    grid = (-(-16 // size), 8)
    scales = rng.uniform(0.001, 0.01, grid).astype(np.float32)
    inputs = [g.const(codes(16, 8)), g.const(scales), g.const(np.zeros(grid, np.int8))]
    w = g.op("DequantizeLinear", inputs, axis=0, block_size=size)
    bias = [g.const(image(8))] if op == "Gemm" else []
    y = g.op(op, [g.qdq("x", 1 / 32, 128), w, *bias])
    model = check(g.proto({"x": shape}, [g.qdq(y, 1 / 8, 128)]), {"x": image(*shape)}, 1 / 8)
    product = next(n for n in model.nodes if n.type in ("FullyConnected", "MatMul"))
    weights = model.tensors[product.inputs[1]]
    assert (weights.dtype == np.int8) == (size == 4)
    if size == 4:
        assert weights.quantization is not None
        assert sorted(weights.quantization.block or ()) == [*[1] * (len(shape) - 1), 4]
        assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


def test_weights_in_blocks_behind_floats_become_real_numbers() -> None:
    g = Graph()
    scales = np.random.default_rng(SEED).uniform(0.001, 0.01, (8, 4)).astype(np.float32)
    inputs = [g.const(codes(8, 16)), g.const(scales), g.const(np.zeros((8, 4), np.int8))]
    w = g.op("DequantizeLinear", inputs, axis=1, block_size=4)
    y = g.op("Gemm", ["x", w], transB=1)
    model = check(g.proto({"x": (3, 16)}, [y]), {"x": image(3, 16)}, 1e-5)
    assert types(model) == ["FullyConnected"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_along_an_axis_of_an_activation(axis: int) -> None:
    """QNN has no such activations: they are computed with."""
    g = Graph()
    count = (3, 4, 5)[axis]
    parameters = [g.const(np.linspace(0.01, 0.05, count, dtype=np.float32))]
    parameters.append(g.const(np.arange(count, dtype=np.uint8) + 100))
    q = g.op("QuantizeLinear", ["x", *parameters], axis=axis)
    y = g.op("DequantizeLinear", [q, *parameters], axis=axis)
    check(g.proto({"x": (3, 4, 5)}, [y]), {"x": image(3, 4, 5)}, 0.05)


@pytest.mark.parametrize(
    ("parameters", "attrs", "message"),
    [
        ([np.float32(np.nan)], {}, "scales have to be finite"),
        ([np.array([1, 1, np.inf, 1, 1, 1], np.float32)], {}, "scales have to be finite"),
        ([np.int32(1)], {}, r"(floats, and are|scale'. is) int32"),
        ([np.ones(5, np.float32)], {}, r"scales along dimension 1. has the shape \[5\]"),
        ([np.ones(6, np.float32)], {"axis": 2}, "axis 2 is not one of"),
        ([np.ones((4, 5), np.float32)], {"block_size": 4}, "blocks of 4 along dimension 1. has"),
        ([np.ones((4, 2), np.float32)], {"block_size": -4}, "block_size is -4"),
    ],
)
def test_bad_encodings_are_refused(
    parameters: list[np.ndarray], attrs: dict[str, object], message: str
) -> None:
    for name, source in (("QuantizeLinear", "x"), ("DequantizeLinear", "c0")):
        g = Graph()
        weights = g.const(codes(4, 6))
        y = g.op(name, [source, *(g.const(p) for p in parameters)], **attrs)
        y = y if source == "x" else g.op("Add", ["x", y])
        kinds = {y: UINT8} if source == "x" else {}
        assert weights == "c0"
        with pytest.raises(qnnrt.ModelError, match=f"{name}.*{message}"):
            importer.load(g.proto({"x": (4, 6)}, [y], **kinds))


@pytest.mark.parametrize("least", [-128, 0])
@pytest.mark.parametrize("grid", [(), (8,), (4, 8)])
def test_constants_with_scales_below_zero(grid: tuple[int, ...], least: int) -> None:
    """The same numbers by positive scales: what quantizers write that make use of the lower end."""
    g = Graph()
    rng = np.random.default_rng(SEED)
    values = codes(16, 8, dtype=np.dtype("int8" if least else "uint8"))
    values[0], values[1] = least, least + 255
    scales = np.asarray(rng.uniform(0.001, 0.01, grid), np.float32)
    scales = np.where(rng.random(grid) < 0.5, -scales, scales).astype(np.float32)
    scales = -np.abs(scales) if not grid else scales
    if scales.ndim == 2:
        scales[0, 0] = 0
    zeros = rng.integers(least, least + 255, grid, values.dtype, endpoint=True)
    attrs = {"axis": 0, "block_size": 4} if scales.ndim == 2 else {"axis": 1}
    inputs = [g.const(values), g.const(scales), g.const(np.asarray(zeros))]
    y = g.op("MatMul", ["x", g.op("DequantizeLinear", inputs, **attrs)])
    check(g.proto({"x": (3, 16)}, [y]), {"x": image(3, 16)}, 1e-5)


def test_activations_with_a_scale_below_zero() -> None:
    g = Graph()
    parameters = [g.const(np.float32(-1 / 16)), g.const(np.uint8(100))]
    q = g.op("QuantizeLinear", ["x", *parameters])
    check(
        g.proto({"x": (3, 16)}, [g.op("DequantizeLinear", [q, *parameters])]),
        {"x": image(3, 16)},
        0.07,
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("bits", "qdq"), [(4, False), (4, True), (8, False)])
def test_narrow_weights_of_the_quantizer_stay_narrow(
    bits: int, qdq: bool, symmetric: bool, dtype: str
) -> None:
    """Symmetric ones have scales below zero, and of 0 where all weights of a block are."""
    quantizer = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    formats = pytest.importorskip("onnxruntime.quantization").QuantFormat
    rng = np.random.default_rng(SEED)
    weights = rng.standard_normal((256, 64)).astype(dtype)
    weights[32:64, 5] = 0
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [3, 256])],
        [helper.make_tensor_value_info("y", kind, [3, 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    work = quantizer.MatMulNBitsQuantizer(
        proto,
        bits=bits,
        block_size=32,
        is_symmetric=symmetric,
        quant_format=formats.QDQ if qdq else formats.QOperator,
    )
    work.process()
    x = rng.standard_normal((3, 256)).astype(dtype)
    with qnnrt.Session(importer.load(work.model.model)) as session:
        got = session.run({"x": x})["y"].astype(np.float64)
        steps = [step["op"] for step in json.loads(session.graph.describe())["steps"]]
    assert steps == ["MatMulNBits"]
    # What the codes stand for, worked out here: their rounding is the quantizer's.
    real = narrow_weights(work.model.model)
    rounding = 1e-5 if dtype == "float32" else 2e-3
    expected = x.astype(np.float64) @ real
    np.testing.assert_allclose(got, expected, atol=rounding * np.abs(expected).max())
    assert np.abs(real - weights.astype(np.float64)).max() < (0.5 if bits == 4 else 0.03)


def narrow_weights(proto: onnx.ModelProto) -> np.ndarray:
    """[K, N], of a MatMulNBits or a DequantizeLinear along K."""
    by_name = {t.name: t for t in proto.graph.initializer}
    node_ = next(n for n in proto.graph.node if n.op_type in ("MatMulNBits", "DequantizeLinear"))
    at = 1 if node_.op_type == "MatMulNBits" else 0
    parts = [by_name[name] if name else None for name in node_.input[at : at + 3]]
    arrays = [None if t is None else numpy_helper.to_array(t) for t in parts]
    while len(arrays) < 3:
        arrays.append(None)
    scales = arrays[1].astype(np.float64)
    if node_.op_type == "DequantizeLinear":
        values = arrays[0].astype(np.float64)
        zeros = 0.0 if arrays[2] is None else np.repeat(arrays[2].astype(np.float64), 32, 0)
        return (values - zeros) * np.repeat(scales, 32, 0)
    bits = next(a.i for a in node_.attribute if a.name == "bits")

    def numbers(packed: np.ndarray) -> np.ndarray:
        if bits == 8:
            return packed.astype(np.float64)
        return (
            np.stack((packed & 15, packed >> 4), -1)
            .reshape(*packed.shape[:-1], -1)
            .astype(np.float64)
        )

    values = numbers(arrays[0])
    rows, blocks = values.shape[:2]
    zeros = float(1 << (bits - 1))
    if arrays[2] is not None:
        zeros = numbers(arrays[2].reshape(rows, -1))[:, :blocks, None]
    real = (values - zeros) * scales.reshape(rows, blocks, 1)
    return real.reshape(rows, -1).T


def test_types_that_qnn_does_not_have_are_refused() -> None:
    g = Graph()
    g.op("QuantizeLinear", ["x", g.const(np.float32(1))], output_dtype=TensorProto.FLOAT8E4M3FN)
    y = g.op("DequantizeLinear", [g.nodes[-1].output[0], g.const(np.float32(1))])
    with pytest.raises(qnnrt.UnsupportedOpError, match="the type float8_e4m3fn, which QNN does"):
        importer.load(g.proto({"x": (4, 6)}, [y]))
    for kind, name in (
        (TensorProto.FLOAT8E5M2, "float8_e5m2"), (TensorProto.FLOAT8E4M3FN, "float8_e4m3fn"),
        (TensorProto.INT4, "int4"), (TensorProto.STRING, "text"),
    ):  # fmt: skip
        g = Graph()
        y = g.op("Cast", [g.op("Cast", ["x"], to=kind)], to=TensorProto.FLOAT)
        with pytest.raises(qnnrt.UnsupportedOpError, match=f"(?s)1 node .*the type {name}, which"):
            importer.load(g.proto({"x": (4, 6)}, [y]))


@pytest.mark.parametrize("constant", [False, True])
def test_a_zero_point_of_another_type_is_refused(constant: bool) -> None:
    g = Graph()
    source = g.const(codes(4, 6, dtype=np.uint8)) if constant else "x"
    y = g.op("DequantizeLinear", [source, g.const(np.float32(0.5)), g.const(np.int8(-3))])
    with pytest.raises(qnnrt.ModelError, match=r"'x_zero_point'. is int8 and input 0 uint8"):
        importer.load(g.proto({"x": (4, 6)}, [y], x=UINT8))


@pytest.mark.parametrize(
    ("zero", "output", "message"),
    [
        (np.int32(3), 0, "'y_zero_point'. is int32; QuantizeLinear of"),
        (None, TensorProto.INT32, "output 0 .*would be int32; QuantizeLinear of"),
        (np.int8(3), TensorProto.UINT8, "the zero point is int8, and output_dtype uint8"),
        (np.int32(3), TensorProto.UINT8, "'y_zero_point'. is int32; QuantizeLinear of"),
    ],
)
def test_types_that_nothing_is_quantized_to_are_refused(
    zero: np.generic | None, output: int, message: str
) -> None:
    g = Graph()
    parameters = [g.const(v) for v in (np.float32(0.5), zero) if v is not None]
    attrs = {"output_dtype": output} if output else {}
    y = g.op("QuantizeLinear", ["x", *parameters], **attrs)
    y = g.op("DequantizeLinear", [y, *parameters])
    with pytest.raises(qnnrt.ModelError, match=f"QuantizeLinear.*{message}"):
        importer.load(g.proto({"x": (4, 6)}, [y]))


def test_a_zero_point_without_a_negative_is_refused() -> None:
    g = Graph()
    zero = g.const(np.int32(-(1 << 31)))
    y = g.op("DequantizeLinear", ["x", g.const(np.float32(0.5)), zero])
    with pytest.raises(qnnrt.UnsupportedOpError, match="the zero point -2147483648"):
        importer.load(g.proto({"x": (4, 6)}, [y], x=TensorProto.INT32))
