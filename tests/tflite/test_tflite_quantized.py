"""Quantized TFLite files equal TFLite's own interpreter to one step, and real arithmetic too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import cases as tflite_cases
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.case import Case, w, x
from support.tflite.networks import NETWORKS
from support.tflite.quantized import ENCODINGS, F32, KINDS, conversion, hybrid, quantize
from support.tflite.quantizer import Quantizer, quantized_network
from support.tflite.random import random_network
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign

SEED = 20261121


def has_floats(case: Case) -> bool:
    given = [g for g in case.inputs if g is not None]
    return any(np.dtype(g.dtype if g.values is None else g.values.dtype) == F32 for g in given)


CASES: dict[str, list[Case]] = {}
for _case in filter(has_floats, tflite_cases.cases()):
    CASES.setdefault(_case.op, []).append(_case)

#: LiteRT has no kernel for them: what real numbers give, rounded once, is the reference.
NO_KERNEL = {
    "int8": {"REVERSE_SEQUENCE"},
    "uint8": {
        "ABS", "BATCH_MATMUL", "ELU", "EXP", "LOG", "REDUCE_PROD", "RSQRT", "SQRT",
        "SQUARED_DIFFERENCE",
    },
    "int16": {
        "ARG_MAX", "ARG_MIN", "DEPTH_TO_SPACE", "ELU", "HARD_SWISH", "L2_NORMALIZATION",
        "LOG_SOFTMAX", "ONE_HOT", "RELU_0_TO_1", "RELU_N1_TO_1", "SPACE_TO_DEPTH",
        "SPARSE_TO_DENSE", "SQUARED_DIFFERENCE",
    },
}  # fmt: skip
NEVER = {
    "ADD_N", "ATAN2", "BUCKETIZE", "CEIL", "CONV_3D_TRANSPOSE", "COS", "CUMSUM", "FLOOR",
    "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "POW", "ROUND", "SEGMENT_SUM", "SIGN", "SIN",
    "SQUARE", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD",
    "UNSORTED_SEGMENT_SUM",
}  # fmt: skip
#: LiteRT's kernels take the integers as they are, or fill with the integer 0.
PLAIN_INTEGERS = {
    "FLOOR_DIV", "FLOOR_MOD", "MATRIX_DIAG", "NEG", "SCATTER_ND", "STABLEHLO_ADD",
    "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY",
}  # fmt: skip
#: LiteRT's own kernels are further off: they resize with 10 bits of coordinates behind the point,
#: compare 16-bit numbers with 8 bits behind it, and scale negative ones wrongly in PRELU.
OFF = {
    "int8": {"RESIZE_BILINEAR"},
    "uint8": set[str](),
    "int16": {
        "EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL", "PRELU",
        "RESIZE_BILINEAR",
    },
}  # fmt: skip
#: Steps that LiteRT's 16-bit kernels are off: a table of 513 entries, interpolated, or products
#: rounded one after the other.
STEPS_IN_16_BITS = {
    "EXP": 4, "GELU": 74, "LOG": 42, "REDUCE_PROD": 8, "RSQRT": 640, "SOFTMAX": 2, "TANH": 2,
}  # fmt: skip
#: No float model's kernels: CAST hands the integers on, and for 8 bits the pixels are others.
ONLY_LITERT = {"CAST", "RESIZE_NEAREST_NEIGHBOR"}
#: FAKE_QUANT makes LiteRT write beyond its memory; constants make no operator of the others.
LEFT_OUT = {"CONV_3D", "FAKE_QUANT", "RANGE", "ZEROS_LIKE"}


def apart(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> int:
    """The most steps between two results of the same types."""
    assert [a.dtype for a in found] == [b.dtype for b in wanted]
    pairs = [
        (a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64))
        for a, b in zip(found, wanted, strict=True)
    ]
    return int(max(np.abs(a - b).max(initial=0) for a, b in pairs))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", sorted(CASES.keys() - LEFT_OUT))
def test_an_operator_is_within_a_step_of_the_interpreter(op: str, kind: str) -> None:
    there = op not in NO_KERNEL[kind] | NEVER | PLAIN_INTEGERS | OFF[kind]
    unequal = total = 0
    for case in CASES[op]:
        q = quantize(case, kind)
        found = reference.run(importer.load(q.data), q.feeds)
        if there:
            steps = STEPS_IN_16_BITS.get(op, 1) if kind == "int16" else 1
            assert apart(found, reference.reference(q.data, q.feeds)) <= steps, case.label
        if op not in ONLY_LITERT:
            assert apart(found, q.exact) <= 1, case.label
            pairs = zip(found, q.exact, strict=True)
            unequal += sum(int((a != b.reshape(a.shape)).sum()) for a, b in pairs)
            total += sum(a.size for a in found)
    # Only what lies in the middle of two steps may go either way.
    assert unequal <= 0.05 * total


def sixteen_bits(op: str, scale: float, q: np.ndarray) -> bytes:
    """An operator of numbers of 16 bits, its result in steps of 1/32768."""
    b = ModelBuilder()
    given = b.input(q.shape, np.int16, scale=scale)
    options = {"SOFTMAX": "SoftmaxOptions"}.get(op)
    fields = {"beta": 1.0} if op == "SOFTMAX" else {}
    made = b.tensor(q.shape, np.int16, scale=1 / 32768)
    b.output(*b.op(op, [given], [made], options, **fields))
    return b.build()


@pytest.mark.parametrize(("op", "steps"), [("TANH", 12), ("LOGISTIC", 6)])
def test_every_number_of_16_bits_is_nearer_than_the_interpreters(op: str, steps: int) -> None:
    """TFLite interpolates in a table: see docs/tflite.md."""
    q = np.arange(-32768, 32768, dtype=np.int16).reshape(256, 256)
    most = 0
    for scale in (1 / 32768, 1 / 4096, 1e-4, 3e-4, 3.3e-3):
        data, real = sixteen_bits(op, scale, q), q * np.float64(F32.type(scale))
        exact = np.tanh(real) if op == "TANH" else 1 / (1 + np.exp(-real))
        rounded = np.clip(np.rint(exact * 32768), -32768, 32767).astype(np.int16)
        found = reference.run(importer.load(data), [q])
        assert apart(found, [rounded]) <= 1
        most = max(most, apart(reference.reference(data, [q]), [rounded]))
    assert 1 < most <= steps


@pytest.mark.parametrize("size", [3, 16, 100])
def test_a_softmax_of_16_bits_is_nearer_than_the_interpreters(size: int) -> None:
    q = np.random.default_rng(SEED).integers(-32767, 32768, (200, size)).astype(np.int16)
    data = sixteen_bits("SOFTMAX", 1e-3, q)
    real = q * np.float64(F32.type(1e-3))
    exact = np.exp(real - real.max(1, keepdims=True))
    rounded = np.rint(exact / exact.sum(1, keepdims=True) * 32768).clip(0, 32767).astype(np.int16)
    assert apart(reference.run(importer.load(data), [q]), [rounded]) <= 1
    assert 1 < apart(reference.reference(data, [q]), [rounded]) <= 2 * size


CONV = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
LAYERS = {
    "conv": Case("CONV_2D", [x(1, 7, 6, 8), w(5, 3, 3, 8), w(5)], "Conv2DOptions", CONV),
    "dense": Case("FULLY_CONNECTED", [x(3, 16), w(6, 16), w(6)], "FullyConnectedOptions"),
}


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("layer", LAYERS)
def test_weights_of_4_bits_and_of_one_scale(layer: str, bits: int) -> None:
    for per_channel in (False, True):
        q = quantize(LAYERS[layer], "int8", per_channel=per_channel, bits=bits)
        model = importer.load(q.data)
        found = reference.run(model, q.feeds)
        assert apart(found, reference.reference(q.data, q.feeds)) <= 1
        weights = next(t for t in model.constants() if t.dtype == np.int8)
        assert weights.quantization is not None
        assert weights.quantization.bitwidth == (4 if bits == 4 else None)
        assert (weights.quantization.axis is None) != per_channel


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_integer_weights_under_floats_are_the_numbers_they_stand_for(op: str) -> None:
    """TFLite rounds the activations to 8 bits as well; nothing is rounded here."""
    for case in CASES[op][:8]:
        data, exact, feeds = hybrid(case)
        (found,) = reference.run(importer.load(data), feeds)
        (wanted,) = reference.reference(exact, feeds)
        reference.close(found, wanted)
        (rounded,) = reference.reference(data, feeds)
        assert np.abs(found - rounded).max() <= 0.02 * np.abs(wanted).max(), case.label


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_integer_weights_with_scales_of_their_own_may_be_computed(op: str) -> None:
    for case in CASES[op][:4]:
        inputs = [replace(g, constant=g.constant and i != 1) if g else g
                  for i, g in enumerate(case.inputs)]  # fmt: skip
        given = replace(case, inputs=inputs)
        data, _, feeds = hybrid(given)
        (found,) = reference.run(importer.load(data), feeds)
        _, exact, feeds = hybrid(case)
        reference.close(found, reference.reference(exact, feeds)[0])
        q = quantize(given, "int8")
        found = reference.run(importer.load(q.data), q.feeds)
        assert apart(found, reference.reference(q.data, q.feeds)) <= 1


# ---- QUANTIZE, DEQUANTIZE


@pytest.mark.parametrize("kind", KINDS)
def test_floats_become_fixed_point_numbers_and_come_back(kind: str) -> None:
    values = np.random.default_rng(SEED).uniform(-8, 8, (3, 50)).astype(F32)
    data = conversion("QUANTIZE", (F32,), (kind, *ENCODINGS[kind]))
    (q,) = reference.run(importer.load(data), [values])
    assert apart([q], reference.reference(data, [values])) <= 1
    data = conversion("DEQUANTIZE", (kind, *ENCODINGS[kind]), (F32,))
    model = reference.agree(data, [q])
    assert model.op_counts() == {"Dequantize": 1}


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_fixed_point_numbers_change_their_encoding(kind: str, to: str) -> None:
    scale, zero = ENCODINGS[to]
    data = conversion("QUANTIZE", (kind, *ENCODINGS[kind]), (to, 2 * scale, zero and zero + 3))
    info = np.iinfo(kind)
    q = np.random.default_rng(SEED).integers(info.min, info.max + 1, (3, 50)).astype(kind)
    model = importer.load(data)
    assert model.op_counts() == {"Convert": 1}
    found = reference.run(model, [q])
    if (kind, to) not in (("uint8", "int16"), ("int16", "uint8")):  # LiteRT has no such kernels
        assert apart(found, reference.reference(data, [q])) <= 1
    real = ENCODINGS[kind][0] * (q.astype(np.float64) - ENCODINGS[kind][1])
    limits = np.iinfo(to)
    exact = np.rint(real / (2 * scale)) + (zero and zero + 3)
    assert apart(found, [np.clip(exact, limits.min, limits.max).astype(to)]) <= 1


# ---- what importing does


def test_float_operators_around_quantized_ones() -> None:
    b = ModelBuilder()
    given = b.input((1, 4), np.int8, scale=0.5, zero=3)
    (y,) = b.op("RELU", [given], [b.tensor((1, 4), np.int8, scale=0.25, zero=-128)])
    (z,) = b.op("DEQUANTIZE", [y], [((1, 4), F32)], "DequantizeOptions")
    b.output(*b.op("EXP", [z], [((1, 4), F32)]))
    q = np.array([[-9, 3, 5, 8]], np.int8)
    model = reference.agree(b.build(), [q])
    assert model.op_counts() == {"Relu": 1, "Dequantize": 1, "ElementWiseExp": 1}


def test_a_move_between_encodings_keeps_the_real_numbers() -> None:
    """Converters write equal encodings around them; TFLite would copy the bytes."""
    b = ModelBuilder()
    given = b.input((2, 6), np.int8, scale=0.5, zero=0)
    steps = [((2, 6), 0.5, 0), ((3, 4), 0.25, 4), ((3, 4), 0.25, 4), ((3, 4), 1.0, 0)]
    t = given
    for shape, scale, zero in steps:
        made = b.tensor(shape, np.int8, scale=scale, zero=zero)
        (t,) = b.op("RESHAPE", [t, b.const(shape, np.int32)], [made], "ReshapeOptions")
    b.output(t)
    model = importer.load(b.build())
    q = np.arange(-6, 6, dtype=np.int8).reshape(2, 6)
    (found,) = reference.run(model, [q])
    np.testing.assert_array_equal(found.reshape(-1), np.rint(q.reshape(-1) * 0.5))


def biased(bias: np.ndarray, scale: float, step: float = 0.125) -> bytes:
    b = ModelBuilder()
    given = b.input((1, 4), np.int16, scale=0.5, zero=0)
    weights = b.const(np.eye(2, 4, dtype=np.int8), scale=0.25)
    added = b.const(bias, scale=scale)
    out = b.tensor((1, 2), np.int16, scale=step, zero=0)
    b.output(*b.op("FULLY_CONNECTED", [given, weights, added], [out], "FullyConnectedOptions"))
    return b.build()


def test_a_bias_is_counted_in_products_whatever_its_own_scale() -> None:
    data = biased(np.array([8, -16], np.int64), 0.1251)
    model = importer.load(data)
    bias = model.tensors[model.nodes[0].inputs[2]]
    assert bias.dtype == np.int32
    assert bias.quantization is not None
    assert (bias.quantization.scale, bias.quantization.offset) == (0.125, 0)
    (found,) = reference.run(model, [np.array([[4, 8, 0, 0]], np.int16)])
    np.testing.assert_array_equal(found, [[4 + 8, 8 - 16]])
    assert apart([found], reference.reference(data, [np.array([[4, 8, 0, 0]], np.int16)])) == 0


def test_a_layer_whose_bias_takes_more_than_32_bits_computes_in_floats() -> None:
    data = biased(np.array([1 << 31, -5], np.int64), 0.125, step=16384)
    model = importer.load(data)
    assert model.op_counts() == {"Dequantize": 1, "FullyConnected": 1, "Quantize": 1}
    q = np.array([[4, 8, 0, 0]], np.int16)
    (found,) = reference.run(model, [q])
    np.testing.assert_array_equal(found, [[16384, 0]])
    assert apart([found], reference.reference(data, [q])) == 0


def test_a_bias_of_64_bits_beside_floats_is_refused() -> None:
    b = ModelBuilder()
    given = b.input((1, 4), F32)
    weights = b.const(np.eye(2, 4, dtype=np.int8), scale=0.25)
    added = b.const(np.array([1, 2], np.int64), scale=0.125)
    out = b.tensor((1, 2), np.int16, scale=0.5, zero=0)
    b.output(*b.op("FULLY_CONNECTED", [given, weights, added], [out], "FullyConnectedOptions"))
    with pytest.raises(ModelError, match=r"has an encoding, .* 8, 16 or 32 bits, not int64"):
        importer.load(b.build())


def test_scales_that_are_no_numbers_are_named_once() -> None:
    b = ModelBuilder()
    given = b.input((1, 4), np.int8, scale=float("nan"), zero=0)
    b.output(*b.op("RELU", [given], [b.tensor((1, 4), np.int8, scale=0.5, zero=0)]))
    with pytest.raises(ModelError, match=r"has a scale that is negative or not finite$"):
        importer.load(b.build())


def test_a_scale_of_zero_stands_for_nothing_but_zeros() -> None:
    """Converters write it for a constant of 0, and for weights of one channel."""
    b = ModelBuilder()
    given = b.input((1, 4), np.int16, scale=0.5)
    none = b.const(np.zeros(1, np.int16), scale=0.0)
    (y,) = b.op("MUL", [given, none], [b.tensor((1, 4), np.int16, scale=0.25)], "MulOptions")
    b.output(y)
    (found,) = reference.run(importer.load(b.build()), [np.array([[-9, 3, 5, 800]], np.int16)])
    np.testing.assert_array_equal(found, 0)

    b = ModelBuilder()
    given = b.input((1, 4), np.int8, scale=0.5, zero=0)
    weights = np.array([[1, 2, 3, 4], [0, 0, 0, 0], [4, 3, 2, 1]], np.int8)
    scales = b.const(weights, scale=[0.5, 0.0, 0.25], zero=[0, 0, 0])
    bias = b.const(np.array([5, 0, 6], np.int32), scale=[0.25, 0.0, 0.125], zero=[0, 0, 0])
    out = b.tensor((1, 3), np.int8, scale=0.5, zero=0)
    b.output(*b.op("FULLY_CONNECTED", [given, scales, bias], [out], "FullyConnectedOptions",
                   version=12))  # fmt: skip
    (found,) = reference.run(importer.load(b.build()), [np.array([[2, 4, -1, 4]], np.int8)])
    np.testing.assert_array_equal(found, [[14, 0, 7]])


def test_weights_without_scales_are_refused() -> None:
    b = ModelBuilder()
    given = b.input((1, 4), np.int8, scale=0.5, zero=0)
    weights = b.const(np.eye(2, 4, dtype=np.int8))
    out = b.tensor((1, 2), np.int8, scale=0.125, zero=0)
    b.output(*b.op("FULLY_CONNECTED", [given, weights, -1], [out], "FullyConnectedOptions"))
    with pytest.raises(UnsupportedOpError, match="int8 weights without scales"):
        importer.load(b.build())


# ---- networks


def network(name: str, kind: str, float_io: bool = False) -> tuple[bytes, np.ndarray]:
    data, shape = NETWORKS[name]()
    values = np.random.default_rng(SEED).standard_normal(shape).astype(F32)
    found, (q,) = quantized_network(data, [values], kind, float_io=float_io)
    return found, q


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_within_a_step_of_the_interpreter(name: str, kind: str) -> None:
    """In int16 two steps more: so far off is its softmax, see docs/tflite.md."""
    data, q = network(name, kind)
    (wanted,) = reference.reference(data, [q])
    assert wanted.std() > 3, "the output is degenerate; the test would show nothing"
    model = importer.load(data)
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, options={"kernels": kernels}) as session:
            found = session.run({model.inputs[0]: q})[model.outputs[0]]
        assert apart([found], [wanted]) <= (3 if kind == "int16" else 1)
    assert not model.op_counts().keys() & {"Quantize", "Dequantize", "Convert"}


@pytest.mark.parametrize("seed", range(40))
def test_a_random_network_is_as_near_to_the_float_one_as_the_interpreter(seed: int) -> None:
    """Operators on each other's results, where a step of difference grows."""
    data, shapes = random_network(seed, fixed=True)
    rng = np.random.default_rng(seed)
    feeds = [rng.uniform(-1, 1, shape).astype(F32) for shape in shapes]
    quantizer = Quantizer(data, feeds, "int8", float_io=False)
    codes = [quantizer.encodings[i] for i in quantizer.graph.outputs]
    exact = [c.encode(r) for c, r in zip(codes, reference.reference(data, feeds), strict=True)]
    data, feeds = quantized_network(data, feeds, "int8")
    ours, theirs = reference.run(importer.load(data), feeds), reference.reference(data, feeds)
    assert apart(ours, theirs) <= 6
    for a, b, e in zip(ours, theirs, exact, strict=True):
        mine, other = (np.square(x.reshape(e.shape) - e.astype(F32)).mean() ** 0.5 for x in (a, b))
        assert mine <= 1.5 * other + 0.3


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_float_inputs_and_outputs(name: str) -> None:
    data, values = network(name, "int8", float_io=True)
    model = importer.load(data)
    assert [model.tensors[t].dtype for t in (*model.inputs, *model.outputs)] == [F32, F32]
    (found,), (wanted,) = reference.run(model, [values]), reference.reference(data, [values])
    assert np.abs(found - wanted).max() <= 1 / 256


def test_inputs_and_outputs_become_fixed_point_on_request() -> None:
    data, values = network("depthwise", "uint8", float_io=True)
    model = importer.load(data, quantized_io=True)
    assert not model.op_counts().keys() & {"Quantize", "Dequantize"}
    first, last = (model.tensors[t] for t in (*model.inputs, *model.outputs))
    assert (first.dtype, last.dtype) == (np.uint8, np.uint8)
    assert first.quantization is not None
    assert last.quantization is not None
    step, zero = first.quantization.scale, -first.quantization.offset
    q = np.clip(np.rint(values / step) + zero, 0, 255).astype(np.uint8)
    (found,) = reference.run(model, [q])
    (wanted,) = reference.run(importer.load(data), [values])
    np.testing.assert_array_equal(np.float32(last.quantization.scale) * found, wanted)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["convolutional", "depthwise"])
def test_a_network_runs_on_a_backend_of_others(name: str, kind: str) -> None:
    """The vendor's simulator: what the importer writes is QNN, not only what is understood here."""
    library = vendor_library("libQnnHtp.so")
    data, q = network(name, kind)
    model = importer.load(data)
    with qnnrt.Session(model, library, io="raw") as session:
        found = session.run({model.inputs[0]: q})[model.outputs[0]]
    assert apart([found], reference.reference(data, [q])) <= 2


def test_a_network_gives_the_same_bytes_on_the_htp_backend() -> None:
    data, q = network("convolutional", "uint8")
    model, found = importer.load(data), []
    for backend in ("cpu", "htp"):
        with qnnrt.Session(model, backend, threads=1) as session:
            session.inputs[model.inputs[0]].array[...] = q
            session.run()
            found.append(session.outputs[model.outputs[0]].array.tobytes())
            assert session.stats.copied_bytes == 0
    assert found[0] == found[1]
