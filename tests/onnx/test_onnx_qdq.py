"""Quantized ONNX models: what their Quantize and Dequantize nodes become, and what comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnxruntime.quantization import QuantFormat, QuantType

import qnnrt
from qnnrt.importers import onnx as importer
from support.quantizing import (
    KERNELS,
    SEED,
    Graph,
    check,
    codes,
    conversions,
    convolution,
    image,
    make,
    node,
    run,
    types,
)
from zoo.quantizing import quantized, reference

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


# ---- networks of ONNX Runtime's quantizer ----------------------------------------------------


def residual_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Convolution, residual sum, pools, a depthwise convolution, a fully connected layer."""

    def weights(*shape: int) -> np.ndarray:
        fan_in = np.prod(shape[1:])
        return (rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)

    nodes = [
        node("Conv", ["x", "w0", "b0"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1", "b1"], ["c"], pads=[1] * 4),
        node("Add", ["c", "b"], ["d"]),
        node("Relu", ["d"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["f", "wd"], ["g"], pads=[1] * 4, group=16),
        node("Clip", ["g", "low", "high"], ["h"]),
        node("AveragePool", ["h"], ["i"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["i", "i"], ["j"], axis=1),
        node("Flatten", ["j"], ["k"]),
        node("Gemm", ["k", "wf", "bf"], ["l"], transB=1),
        node("Softmax", ["l"], ["y"]),
    ]
    constants = {
        "w0": weights(16, 3, 3, 3),
        "b0": weights(16, 1).ravel(),
        "w1": weights(16, 16, 3, 3),
        "b1": weights(16, 1).ravel(),
        "wd": weights(16, 1, 3, 3),
        "wf": weights(10, 512),
        "bf": weights(10, 1).ravel(),
        "low": np.float32(0),
        "high": np.float32(1),
    }
    return make(nodes, {"x": (1, 3, 16, 16)}, ["y"], constants)


HALF, UINT8 = TensorProto.FLOAT16, TensorProto.UINT8
U8, S8, U16, S4 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt4

#: Settings of the quantizer, and whether a Relu is left of them.
SETTINGS: dict[str, tuple[dict[str, object], bool]] = {
    "u8": ({}, False),
    "s8": ({"activations": S8}, False),
    "u16": ({"activations": U16}, False),
    "u8-u8": ({"weights": QuantType.QUInt8}, False),
    "u8-s4": ({"weights": S4}, False),
    "u16-s4": ({"activations": U16, "weights": S4}, False),
    "s8-symmetric": ({"activations": S8, "extra_options": {"ActivationSymmetric": True}}, True),
    "float-bias": ({"extra_options": {"QuantizeBias": False}}, False),
    "float-weights": ({"extra_options": {"AddQDQPairToWeight": True}}, False),
    "dedicated": ({"extra_options": {"DedicatedQDQPair": True}}, False),
    "contrib": ({"activations": U16, "extra_options": {"UseQDQContribOps": True}}, False),
    "activations": ({"extra_options": {"QDQKeepRemovableActivations": True}}, True),
    "reduced": ({"reduce_range": True}, False),
    "operators-u8": ({"form": QuantFormat.QOperator}, False),
    "operators-s8": ({"form": QuantFormat.QOperator, "activations": S8}, False),
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_quantized_residual_network_is_fixed_point_inside(tmp_path: Path, settings: str) -> None:
    options, activations = SETTINGS[settings]
    rng = np.random.default_rng(SEED)
    samples = [{"x": rng.standard_normal((1, 3, 16, 16), np.float32)} for _ in range(4)]
    proto = quantized(residual_network(rng), samples, tmp_path, **options)
    model = importer.load(proto)
    found = conversions(model)
    assert found.pop("Convert", 0) <= 1  # Concat and Flatten may have scales of their own
    assert found == {"Quantize": 1, "Dequantize": 1}
    assert bool({"Relu", "ReluMinMax"} & set(types(model))) == activations
    step = next(n for n in model.nodes if n.type == "Dequantize").inputs[0]
    encoding = model.tensors[step].quantization
    assert encoding is not None
    feeds = {"x": rng.standard_normal((1, 3, 16, 16), np.float32)}
    wanted = reference(proto, feeds)[0]
    for kernels in KERNELS:
        y = run(model, feeds, kernels)[0]
        steps = np.abs(y - wanted).max() / float(encoding.scale)
        # A step of 16 bits is less than what a rounding in front of the softmax changes.
        assert steps <= (1.01 if model.tensors[step].dtype.itemsize == 1 else 40), kernels


# ---- single nodes and what lies between them -------------------------------------------------


MOVES = [
    ("Transpose", [], {"perm": [0, 3, 1, 2]}),
    ("Reshape", [np.array([2, -1])], {}),
    ("Slice", [np.array([1]), np.array([3]), np.array([2])], {}),
    ("Squeeze", [np.array([0])], {}),
    ("Gather", [np.array([2, 0, 1])], {"axis": 1}),
    ("Pad", [np.array([0, 0, 1, 1, 0, 0, 0, 2])], {}),
    ("Pad", [np.array([0, 0, 1, 1, 0, 0, 0, 2]), np.float32(0.25)], {}),
    ("Pad", [np.array([0, 0, 1, 1, 0, 0, 0, 2])], {"mode": "reflect"}),
    ("DepthToSpace", [], {"blocksize": 2}),
    ("SpaceToDepth", [], {"blocksize": 2}),
    ("Tile", [np.array([1, 1, 2, 1])], {}),
    ("MaxPool", [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Relu", [], {}),
    ("ReduceMax", [np.array([2, 3])], {}),
]


@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize(("op", "parameters", "attrs"), MOVES)
def test_moves_are_made_of_the_integers(
    op: str, parameters: list[np.ndarray], attrs: dict[str, object], zero: int
) -> None:
    """In front of a fixed-point operation, and behind one."""
    for behind in (False, True):
        g = Graph()
        inputs = [g.const(p) for p in parameters]
        x = g.qdq("x", 1 / 32, zero)
        if behind:
            x = g.op("Sigmoid", [x])
        y = g.op(op, [x, *inputs], **attrs)
        y = g.qdq(y if behind else g.op("Sigmoid", [y]), 1 / 256)
        model = check(g.proto({"x": (1, 4, 6, 8)}, [y]), {"x": 2 * image(1, 4, 6, 8)}, 1 / 256)
        assert conversions(model) == {"Quantize": 1, "Dequantize": 1}, (behind, types(model))


def test_split_and_concat_keep_one_encoding() -> None:
    g = Graph()
    x = g.op("Sigmoid", [g.qdq("x", 1 / 32, 128)])
    g.op("Split", [x], count=2, axis=1, num_outputs=2)
    parts = list(g.nodes[-1].output)
    joined = g.op("Concat", parts[::-1], axis=1)
    proto = g.proto({"x": (1, 4, 6, 8)}, [g.qdq(joined, 1 / 256)])
    model = check(proto, {"x": image(1, 4, 6, 8)}, 1 / 256)
    assert types(model) == ["Quantize", "Sigmoid", "Split", "Concat", "Dequantize"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_an_activation_behind_a_convolution_is_its_range(dtype: type) -> None:
    """A Relu that the encoding cannot go below is nothing; another one stays, in fixed point."""
    info = np.iinfo(dtype)
    step = 64.0 / (info.max - info.min)
    middle = (int(info.max) + int(info.min) + 1) // 2
    for zero, op in ((int(info.min), None), (middle, "Relu")):
        g = Graph()
        y = g.op(
            "Relu", [convolution(g, g.qdq("x", 8 / (info.max - info.min), middle, dtype), 1 / 300)]
        )
        y = g.qdq(y, step, zero, dtype)
        model = check(g.proto({"x": (1, 4, 8, 8)}, [y]), {"x": image(1, 4, 8, 8)}, step)
        assert (op in types(model)) == (op is not None)
        assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


@pytest.mark.parametrize("limits", [(0.0, 6.0), (-1.0, 3.3), (-100.0, 100.0)])
def test_a_clip_behind_a_convolution(limits: tuple[float, float]) -> None:
    g = Graph()
    y = convolution(g, g.qdq("x", 1 / 32, 128))
    y = g.op("Clip", [y, *(g.const(np.float32(v)) for v in limits)])
    y = g.op("MaxPool", [y], kernel_shape=[2, 2])
    proto = g.proto({"x": (1, 4, 8, 8)}, [g.qdq(y, 1 / 16, 100)])
    model = check(proto, {"x": image(1, 4, 8, 8)}, 1 / 16)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}
    assert ("ReluMinMax" in types(model)) == (limits[1] < 50)


def test_what_is_read_twice_is_shared() -> None:
    """A Dequantize and weights with several readers, a bias with two scales."""
    g = Graph()
    x = g.qdq("x", 1 / 32, 128)
    w = g.weights(codes(4, 4, 1, 1), np.float32(1 / 64))
    bias = g.const(image(4))
    a = g.qdq(g.op("Conv", [x, w, bias]), 1 / 8, 128)
    b = g.qdq(g.op("Conv", [a, w, bias]), 1 / 4, 128)
    y = g.qdq(g.op("Add", [g.op("Add", [x, a]), b]), 1 / 4, 128)
    model = importer.load(g.proto({"x": (1, 4, 8, 8)}, [y, a]))
    found = model.op_counts()
    # The inner sum has no scale: it is computed in float.
    assert found["Conv2d"] == 2
    assert len({n.inputs[1] for n in model.nodes if n.type == "Conv2d"}) == 1
    scales = [
        float(model.tensors[n.inputs[2]].quantization.scale)
        for n in model.nodes
        if n.type == "Conv2d"
    ]
    assert scales == [1 / 32 / 64, 1 / 8 / 64]
    check(g.proto({"x": (1, 4, 8, 8)}, [y, a]), {"x": image(1, 4, 8, 8)}, 1 / 4)


@pytest.mark.parametrize("shape", [(2, 4, 6, 6), (2, 4, 6), (3, 4), (1, 4, 2, 3, 3)])
def test_a_normalization_has_exact_constants(shape: tuple[int, ...]) -> None:
    g = Graph()
    parts = [g.const(v) for v in (image(4), image(4) * 2, image(4) / 3, np.abs(image(4)) + 0.1)]
    y = g.op("Relu", [g.op("BatchNormalization", [g.qdq("x", 1 / 32, 128), *parts])])
    proto = g.proto({"x": shape}, [g.qdq(y, 1 / 16)])
    model = check(proto, {"x": image(*shape)}, 1 / 16)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}
    [node] = [n for n in model.nodes if n.type == "Batchnorm"]
    scale, offset, mean, variance = (g.constants[name].astype(np.float64) for name in parts)
    weight = scale / np.sqrt(variance + 1e-5)
    for name, real in zip(node.inputs[1:], (weight, offset - mean * weight), strict=True):
        tensor = model.tensors[name]
        assert tensor.data is not None
        assert tensor.quantization is not None
        assert tensor.data.dtype == np.int32
        np.testing.assert_allclose(tensor.data * float(tensor.quantization.scale), real, 1e-6)


def test_channels_that_a_normalization_drops() -> None:
    """A weight of 0, and one of next to nothing beside a large offset."""
    g = Graph()
    scale = np.array([0, 1e-9, 1, -2], np.float32)
    offset = np.array([1.5, 3, 0, 1], np.float32)
    parts = [g.const(v) for v in (scale, offset, np.zeros(4, np.float32), np.ones(4, np.float32))]
    y = g.op("BatchNormalization", [g.qdq("x", 1 / 32, 128), *parts], epsilon=0.0)
    proto = g.proto({"x": (1, 4, 5, 5)}, [g.qdq(y, 1 / 16, 128)])
    model = check(proto, {"x": image(1, 4, 5, 5)}, 1 / 16)
    assert model.op_counts()["Batchnorm"] == 1


def test_float_islands_stay_float() -> None:
    """Two operations in a row, with no scale between them."""
    g = Graph()
    y = g.op("Exp", [g.op("Sin", [g.qdq("x", 1 / 32, 128)])])
    y = g.op("Sigmoid", [g.qdq(y, 1 / 64)])
    proto = g.proto({"x": (2, 8)}, [g.qdq(y, 1 / 256)])
    model = check(proto, {"x": image(2, 8)}, 1 / 256)
    assert types(model) == [
        "Quantize", "Dequantize", "ElementWiseSin", "ElementWiseExp", "Quantize", "Sigmoid",
        "Dequantize",
    ]  # fmt: skip


def test_another_encoding_is_a_convert() -> None:
    g = Graph()
    y = g.op("Transpose", [g.qdq("x", 1 / 32, 128)], perm=[1, 0])
    proto = g.proto({"x": (4, 8)}, [g.qdq(y, 1 / 20, 3, np.int8)])
    model = check(proto, {"x": image(4, 8)}, 1 / 20)
    assert types(model) == ["Quantize", "Convert", "Transpose", "Dequantize"]


def test_numbers_that_fit_are_constants_in_fixed_point() -> None:
    """A factor, and a mask of two values, are exact with a scale of their own."""
    g = Graph()
    mask = np.where(image(4, 8) > 0, np.float32(-10000), np.float32(0))
    y = g.op("Mul", [g.qdq("x", 1 / 32, 128), g.const(np.float32(0.125))])
    y = g.op("Add", [g.qdq(y, 1 / 256, 128), g.const(mask)])
    y = g.op("Softmax", [g.qdq(y, 40, 255)])
    proto = g.proto({"x": (4, 8)}, [g.qdq(y, 1 / 256)])
    model = check(proto, {"x": image(4, 8)}, 1 / 256)
    assert types(model) == [
        "Quantize", "ElementWiseMultiply", "ElementWiseAdd", "Softmax", "Dequantize"
    ]  # fmt: skip


def test_layer_normalization_and_attention_in_fixed_point() -> None:
    g = Graph()
    x = g.qdq("x", 1 / 32, 128)
    gamma = g.weights(codes(8, dtype=np.uint8), np.float32(1 / 256))
    beta = g.weights(np.arange(-4, 4, dtype=np.int32) * 100, np.float32(1 / 32 / 256))
    n = g.qdq(g.op("LayerNormalization", [x, gamma, beta]), 1 / 32, 128)
    product = g.qdq(g.op("MatMul", [n, g.op("Transpose", [n], perm=[0, 2, 1])]), 1 / 8, 128)
    heads = g.qdq(g.op("Softmax", [product], axis=1), 1 / 256)
    y = g.qdq(g.op("MatMul", [heads, n]), 1 / 32, 128)
    model = check(g.proto({"x": (2, 6, 8)}, [y]), {"x": image(2, 6, 8)}, 1 / 32, 2.01)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}
    assert "Transpose" not in types(model)


def test_positions_of_extremes_are_those_of_the_integers() -> None:
    g = Graph()
    q = g.q("x", 1 / 32, 128)
    a = g.op("ArgMax", [g.dq(q, 1 / 32, 128)], axis=1)
    b = g.op("ArgMin", [q], axis=1)
    proto = g.proto({"x": (4, 8)}, [a, b], **dict.fromkeys((a, b), TensorProto.INT64))
    model = check(proto, {"x": image(4, 8)}, 1, 0)
    assert types(model)[0] == "Quantize"
    assert conversions(model) == {"Quantize": 1}


def test_half_precision_around_fixed_point() -> None:
    g = Graph()
    scale, zero = g.const(np.float16(1 / 32)), g.const(np.uint8(128))
    x = g.op("DequantizeLinear", [g.op("QuantizeLinear", ["x", scale, zero]), scale, zero])
    w = [g.const(codes(4, 4, 3, 3)), g.const(np.float16(1 / 256)), g.const(np.int8(0))]
    y = g.op("Conv", [x, g.op("DequantizeLinear", w), g.const(image(4).astype(np.float16))])
    scale = g.const(np.float16(1 / 8))
    y = g.op("DequantizeLinear", [g.op("QuantizeLinear", [y, scale, zero]), scale, zero])
    proto = g.proto({"x": (1, 4, 8, 8)}, [y], x=HALF, **{y: HALF})
    model = check(proto, {"x": image(1, 4, 8, 8).astype(np.float16)}, 1 / 8)
    assert model.tensors[y].dtype == np.float16
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}


def test_integers_that_are_no_quantized_numbers() -> None:
    """Codes that a graph computes with are plain integers to it."""
    g = Graph()
    q = g.q("x", 1 / 32, 128)
    y = g.op("Cast", [q], to=TensorProto.INT32)
    z = g.op("Equal", [q, g.const(np.uint8(128))])
    proto = g.proto({"x": (4, 8)}, [y, z], **{y: TensorProto.INT32, z: TensorProto.BOOL})
    check(proto, {"x": image(4, 8)}, 1, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("code", [np.uint8, np.int8, np.uint16])
@pytest.mark.parametrize("turned", [False, True])
def test_scales_of_channels_take_one_operation(dtype: type, code: type, turned: bool) -> None:
    """Exactly as ONNX Runtime has it, whatever order the channels are held in."""
    rng = np.random.default_rng(5)
    scale = {"s": rng.uniform(0.01, 0.1, 6).astype(dtype), "z": np.arange(6).astype(code)}
    axis = 3 if turned else 1
    nodes = [
        node("QuantizeLinear", ["t" if turned else "x", *scale], ["q"], axis=axis),
        node("DequantizeLinear", ["q", *scale], ["y"], axis=axis),
    ]
    if turned:
        nodes.insert(0, node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]))
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = make(nodes, {"x": (2, 6, 5, 7)}, ["y"], scale, 21, {"x": kind, "y": kind})
    x = (rng.normal(size=(2, 6, 5, 7)) * 2).astype(dtype)
    model = importer.load(proto)
    assert conversions(model) == {"Quantize": 1, "Dequantize": 1}
    assert not [op for op in model.op_counts() if op.startswith("ElementWise")]
    wanted = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(["y"], {"x": x})
    with qnnrt.Session(model, backend="cpu") as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], wanted[0])


def test_quantized_inputs_and_outputs() -> None:
    g = Graph()
    y = g.qdq(convolution(g, g.qdq("x", 1 / 32, 128)), 1 / 8, 100)
    proto = g.proto({"x": (1, 4, 8, 8)}, [y])
    x = image(1, 4, 8, 8)
    model = importer.load(proto)
    wanted = run(model, {"x": x})[0]
    for layout in ("keep", "nhwc"):
        fixed = importer.load(proto, quantized_io=True, layout=layout)
        assert conversions(fixed) == {}
        assert fixed.inputs == model.inputs
        assert fixed.outputs == model.outputs
        given, result = fixed.tensors["x"], fixed.tensors[fixed.outputs[0]]
        assert (given.dtype, result.dtype) == (np.uint8, np.uint8)
        assert given.quantization is not None
        assert result.quantization is not None
        assert (given.quantization.scale, given.quantization.offset) == (1 / 32, -128)
        assert (result.quantization.scale, result.quantization.offset) == (1 / 8, -100)
        feed = np.clip(np.rint(x * 32) + 128, 0, 255).astype(np.uint8)
        if layout == "nhwc":
            feed = np.ascontiguousarray(feed.transpose(0, 2, 3, 1))
        found = run(fixed, {"x": feed})[0]
        if layout == "nhwc":
            found = found.transpose(0, 3, 1, 2)
        np.testing.assert_array_equal((found.astype(np.float32) - 100) / 8, wanted)


def test_models_whose_inputs_are_integers() -> None:
    """An 8-bit input behind which there is a DequantizeLinear, an 8-bit output."""
    g = Graph()
    y = g.q(convolution(g, g.dq("x", 1 / 32, 128)), 1 / 8, 100)
    proto = g.proto({"x": (1, 4, 8, 8)}, [y], x=UINT8, **{y: UINT8})
    model = check(proto, {"x": codes(1, 4, 8, 8, dtype=np.uint8)}, 1)
    assert conversions(model) == {}
    assert model.tensors["x"].quantization is not None
