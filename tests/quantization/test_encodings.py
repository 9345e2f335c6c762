"""Encodings of fixed-point tensors: what is taken, what it means, and what is refused by name."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from qnnrt import _core, qnn
from qnnrt.errors import QnnError, TensorError
from qnnrt.model import Quantization
from qnnrt.qnn.backend import library_path
from support.c_table import Table
from support.fixed import Fixed

NAN, INF = float("nan"), float("inf")
U8, S8, U16, S16, S32 = (f"{kind}FIXED_POINT_{bits}" for kind, bits in
                         (("U", 8), ("S", 8), ("U", 16), ("S", 16), ("S", 32)))  # fmt: skip
CONV = {"stride": np.array([1, 1], np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}


@pytest.fixture(scope="module")
def backend():
    with qnn.Backend.open("cpu") as backend:
        yield backend


@pytest.fixture
def graph(backend):
    with backend.create_context() as context:
        yield context.create_graph("g")


def refused(graph: qnn.Graph, code: int, *words: str, **given: Any) -> None:
    given = {"shape": (2, 4), "dtype": U8, "quantization": Quantization(0.1, 0)} | given
    with pytest.raises(TensorError) as caught:
        graph.add_tensor("t", **given)
    assert caught.value.code == code
    for word in ("tensor 't'", *words):
        assert word in str(caught.value)


# ---- tensors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, -1.0, NAN, INF, -INF])
def test_a_scale_is_positive_and_finite(graph, scale: float) -> None:
    refused(graph, 7004, "positive, finite", quantization=Quantization(scale, 0))
    scales = np.array([1, 1, scale, 1], np.float32)
    refused(graph, 7004, "scale 2 is", quantization=Quantization(scales, 0, axis=1))
    refused(graph, 7004, "positive, finite", quantization=Quantization(scale, 0, bitwidth=8))


@pytest.mark.parametrize(
    ("dtype", "bitwidth", "good", "bad"),
    [
        (U8, None, (0, -255), (1, -256)),
        (S8, None, (128, -127), (129, -128)),
        (U16, None, (0, -65535), (1, -65536)),
        (S16, None, (32768, -32767), (32769, -32768)),
        (S8, 4, (8, -7), (9, -8)),
        (U8, 4, (0, -15), (1, -16)),
    ],
)
def test_zero_is_one_of_the_integers(backend, dtype, bitwidth, good, bad) -> None:
    with backend.create_context() as context:
        graph = context.create_graph("g")
        for i, offset in enumerate(good):
            quantization = Quantization(0.5, offset, bitwidth=bitwidth)
            graph.add_tensor(f"good{i}", (2,), dtype, quantization=quantization)
        for offset in bad:
            quantization = Quantization(0.5, offset, bitwidth=bitwidth)
            refused(graph, 7004, f"offset is {offset}", dtype=dtype, quantization=quantization)


@pytest.mark.parametrize("axis", [-1, 2, 100])
def test_an_axis_is_one_of_the_tensors(graph, axis: int) -> None:
    for bitwidth in (None, 8):
        q = Quantization(np.ones(4, np.float32), 0, axis=axis, bitwidth=bitwidth)
        refused(graph, 7004, f"axis {axis}", "rank is 2", quantization=q)


@pytest.mark.parametrize("count", [0, 1, 3, 5, 70000])
def test_an_axis_has_as_many_scales_as_indices(graph, count: int) -> None:
    for bitwidth in (None, 8):
        q = Quantization(np.ones(count, np.float32), 0, axis=1, bitwidth=bitwidth)
        refused(graph, 7004, f"{count} scales", "size 4", quantization=q)


@pytest.mark.parametrize(("dtype", "bitwidth"), [(U8, 0), (U8, 1), (U8, 9), (S16, 17), (S32, 33)])
def test_a_bit_width_is_one_of_the_type(graph, dtype: str, bitwidth: int) -> None:
    q = Quantization(0.1, 0, bitwidth=bitwidth)
    refused(graph, 7004, f"{bitwidth}", dtype=dtype, quantization=q)


@pytest.mark.parametrize("dtype", [U8, S8, U16, S16, S32])
def test_a_fixed_point_type_needs_an_encoding(graph, dtype: str) -> None:
    refused(graph, 7004, "needs an encoding", dtype, dtype=dtype, quantization=None)


def test_an_encoding_of_another_type_means_nothing(backend) -> None:
    # As for the vendor's backend.
    with backend.create_context() as context:
        graph = context.create_graph("g")
        for dtype in ("FLOAT_32", "INT_32", "UINT_8"):
            for i, q in enumerate((Quantization(0.0, 0), Quantization(np.ones(3), 0, axis=7))):
                graph.add_tensor(f"{dtype}{i}", (2, 4), dtype, quantization=q)


def created(graph: qnn.Graph, encoding: int, union: bytes = b"") -> tuple[int, str]:
    """Code and message of the C call for a static SFIXED_POINT_8 tensor of [2, 4]."""
    dims, data = (ctypes.c_uint32 * 2)(2, 4), ctypes.create_string_buffer(8)
    name, text = ctypes.create_string_buffer(b"t"), ctypes.c_char_p()
    tensor = struct.pack("<I4xI4xQIII4xII32sI4xQI4xQI4x24x", 1, 0, ctypes.addressof(name), 4, 0,
                         0x0308, 1, encoding, union, 2, ctypes.addressof(dims), 0,
                         ctypes.addressof(data), 8)  # fmt: skip
    assert len(tensor) == 144
    table = Table(str(library_path("cpu")))
    buffer = ctypes.create_string_buffer(tensor, 144)
    code = table.tensorCreateGraphTensor(graph.handle, ctypes.addressof(buffer))
    table.errorGetVerboseMessage(code, ctypes.addressof(text))
    return code, (text.value or b"").decode()


@pytest.mark.parametrize("encoding", [6, 7, 8, 9, 10, 11, 12])
def test_encodings_that_are_not_supported_say_which_are(graph, encoding: int) -> None:
    code, message = created(graph, encoding)
    assert code == 7005
    assert "tensor 't'" in message
    for name in ("SCALE_OFFSET (0)", "BW_AXIS_SCALE_OFFSET (3)", "BLOCK (4)", "EXPANSION (5)"):
        assert name in message


def test_arrays_that_are_not_there_are_not_read(graph) -> None:
    most = 0xFFFFFFFF
    for encoding, union, words in (
        (1, struct.pack("<iIQ", 1, 4, 0), "scales along an axis are null"),
        (1, struct.pack("<iIQ", 1, most, 1), f"{most} scales"),
        (3, struct.pack("<IiIxxxxQQ", 8, 1, 4, 0, 0), "scales along an axis are null"),
        (3, struct.pack("<IiIxxxxQQ", 8, 1, most, 1, 1), f"{most} scales"),
        (4, struct.pack("<QQ", 0, 1), "sizes or scales of its blocks are null"),
        (4, struct.pack("<QQ", 1, 0), "sizes or scales of its blocks are null"),
        (5, struct.pack("<Q", 0), "blockwise expansion is null"),
    ):
        code, message = created(graph, encoding, union)
        assert code == 7004
        assert words in message


# ---- four bits --------------------------------------------------------------------------------


def convolve(backend: qnn.Backend, dtype: Any, data: Any, q: Any, shape: Any) -> np.ndarray:
    """Real numbers: weights of one convolution of the identity in 16 bits."""
    inputs, outputs = shape[2:]
    x = Fixed(np.uint16, 1 / 1024, -32768)
    y = Fixed(np.int16, 1 / 1024, 0)
    with backend.create_context() as context:
        graph = context.create_graph("g")
        tensors = [
            graph.add_tensor("x", (1, 1, inputs, inputs), np.uint16, type="app_write",
                             quantization=x.quantization),
            graph.add_tensor("w", shape, dtype, type="static", data=data, quantization=q),
            graph.add_tensor("y", (1, 1, inputs, outputs), np.int16, type="app_read",
                             quantization=y.quantization),
        ]  # fmt: skip
        graph.add_node("conv", "Conv2d", tensors[:2], tensors[2:], CONV)
        graph.finalize()
        identity = x.quantize(np.eye(inputs, dtype=np.float32)[None, None])
        result = np.empty((1, 1, inputs, outputs), np.int16)
        graph.execute({"x": identity}, {"y": result})
    return y.dequantize(result).reshape(shape)


def pack(values: np.ndarray) -> np.ndarray:
    """Two in a byte, the first one in its low half."""
    flat = np.append(values.reshape(-1), np.zeros(values.size % 2, values.dtype))
    low, high = flat.reshape(-1, 2).T & 15
    return (low | high << 4).astype(np.uint8)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("axis", [None, 3])
def test_four_bits_are_the_same_however_they_come(backend, signed: bool, axis: int | None) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(4)
    shape = (1, 1, 5, 3)  # an odd number of elements
    dtype, four = (np.int8, ml_dtypes.int4) if signed else (np.uint8, ml_dtypes.uint4)
    kind = Fixed(dtype, 0.125, 2, bitwidth=4) if signed else Fixed(dtype, 0.125, -9, bitwidth=4)
    if axis is not None:
        scales = np.array([0.125, 0.25, 0.5], np.float32)
        kind = Fixed(dtype, scales, np.full(3, kind.offset), axis, 4)
    values = kind.random(rng, shape)
    expected = kind.dequantize(values)
    whole = Quantization(kind.scale, kind.offset, axis)
    ways = [
        (dtype, values, kind.quantization),
        (dtype, values & 15, kind.quantization),  # the high half is not looked at
        (f"{'SU'[not signed]}FIXED_POINT_4", pack(values), whole),
        (f"{'SU'[not signed]}FIXED_POINT_4", pack(values), kind.quantization),
        (four, values.astype(four), whole),
    ]
    for given, data, q in ways:
        assert np.array_equal(convolve(backend, given, data, q, shape), expected), given


def test_packed_elements_have_their_exact_size(graph) -> None:
    given = {"shape": (3, 5), "dtype": "SFIXED_POINT_4", "type": "static"}
    for size in (0, 7, 9, 15):
        words = (f"{size} bytes", "SFIXED_POINT_4 [3, 5] needs 8, two elements in each")
        refused(graph, 7004, *words, data=np.zeros(size, np.uint8), **given)
    graph.add_tensor("t", quantization=Quantization(1, 0), data=np.zeros(8, np.uint8), **given)


def test_packed_elements_are_constants_of_four_bits(graph) -> None:
    for kind in ("native", "app_write", "app_read"):
        words = ("SFIXED_POINT_4 is for STATIC", "use SFIXED_POINT_8")
        refused(graph, 7005, *words, dtype="SFIXED_POINT_4", type=kind)
    given = {"dtype": "UFIXED_POINT_4", "type": "static", "data": np.zeros(4, np.uint8)}
    refused(graph, 7004, "bit width", "is 5", quantization=Quantization(1, 0, bitwidth=5), **given)


# ---- blocks -----------------------------------------------------------------------------------


def test_each_block_has_its_scale_and_offset(backend) -> None:
    rng = np.random.default_rng(5)
    shape, block = (1, 1, 6, 4), (1, 1, 3, 2)
    values = rng.integers(-8, 8, shape).astype(np.int8)
    scales = (2.0 ** rng.integers(-6, 0, (1, 1, 2, 2))).astype(np.float32)
    offsets = rng.integers(-7, 8, (1, 1, 2, 2))
    q = Quantization(scales, offsets, block=block)
    grown = [np.repeat(np.repeat(a, 3, 2), 2, 3) for a in (scales, offsets)]
    expected = grown[0] * (values + grown[1])
    assert np.array_equal(convolve(backend, np.int8, values, q, shape), expected)
    assert np.array_equal(convolve(backend, "SFIXED_POINT_4", pack(values), q, shape), expected)


@pytest.mark.parametrize("offset", [-3, np.int32(-3), np.array([-3]), np.full((1, 1, 1, 1), -3)])
def test_one_offset_stands_for_those_of_all_blocks(backend, offset) -> None:
    values = np.arange(24, dtype=np.int8).reshape(1, 1, 6, 4)
    scales = np.array([[[[1, 2], [4, 8]]]], np.float32) / 16
    q = Quantization(scales, offset, block=(1, 1, 3, 2))
    expected = np.repeat(np.repeat(scales, 3, 2), 2, 3) * (values - 3.0)
    assert np.array_equal(convolve(backend, np.int8, values, q, values.shape), expected)


@pytest.mark.parametrize("wide", [np.uint8, np.uint16])
@pytest.mark.parametrize("axis", [2, 3])
def test_an_expansion_multiplies_the_scales_of_an_axis(backend, wide, axis: int) -> None:
    rng = np.random.default_rng(6)
    shape, blocks = (1, 1, 8, 4), 2
    values = rng.integers(-8, 8, shape).astype(np.int8)
    factors = rng.integers(1, 9, (shape[axis], blocks)).astype(wide)
    scales = (2.0 ** rng.integers(-9, -6, shape[axis])).astype(np.float32)
    q = Quantization(scales, 0, axis=axis, block_scales=factors)
    # Along the input channels, where the axis is that of the output channels.
    each = (scales[:, None] * factors).repeat(shape[5 - axis] // blocks, axis=1)
    expected = values * (each.T if axis == 3 else each)
    assert np.array_equal(convolve(backend, np.int8, values, q, shape), expected)
    assert np.array_equal(convolve(backend, "SFIXED_POINT_4", pack(values), q, shape), expected)


def test_only_constants_come_in_blocks(graph) -> None:
    q = Quantization(np.ones((1, 2), np.float32), 0, block=(2, 2))
    refused(graph, 7004, "only a STATIC tensor", quantization=q)
    q = Quantization(np.ones(4, np.float32), 0, axis=1, block_scales=np.ones((4, 2), np.uint8))
    refused(graph, 7004, "only a STATIC tensor", quantization=q)


def test_blocks_are_checked(graph) -> None:
    given = {"dtype": S8, "type": "static", "data": np.zeros(8, np.int8)}
    bad = np.array([[1, 0]], np.float32)
    q = Quantization(bad, 0, block=(2, 2))
    refused(graph, 7004, "scale 1 is 0", quantization=q, **given)
    one = np.ones(4, np.float32)
    for factor in (0, 17):
        q = Quantization(one, 0, axis=1, block_scales=np.full((4, 1), factor, np.uint8))
        refused(graph, 7004, f"block scale 0 is {factor}", "2^4", quantization=q, **given)
    q = Quantization(one, 0, axis=1, block_scales=np.ones((4, 3), np.uint8))
    refused(graph, 7004, "3 blocks do not divide", quantization=q, **given)
    for bits in (0, 9):
        table = np.ones((4, 1), np.uint8)
        q = Quantization(one, 0, axis=1, block_scales=table, block_scale_bits=bits)
        refused(graph, 7004, f"{bits} bits", quantization=q, **given)


def test_lengths_that_the_c_struct_does_not_carry_are_checked_before(graph) -> None:
    for block in ((2,), (2, 3), (2, 0)):
        with pytest.raises(ValueError, match="blocks of"):
            graph.add_tensor("t", (2, 4), S8, quantization=Quantization(np.ones(1), 0, block=block))
    with pytest.raises(ValueError, match="2 blocks but 1 scales"):
        graph.add_tensor("t", (2, 4), S8, quantization=Quantization(np.ones(1), 0, block=(2, 2)))
    table = np.ones((3, 1), np.uint8)
    for axis, factors in ((1, table), (2, table), (0, table[0]), (0, np.ones((2, 1), np.int8))):
        q = Quantization(np.ones(3), 0, axis=axis, block_scales=factors)
        with pytest.raises(ValueError, match="block scales"):
            graph.add_tensor("t", (2, 4), S8, quantization=q)


# ---- nodes ------------------------------------------------------------------------------------


class Conv:
    """A convolution of one pixel whose tensors are given or left as they should be."""

    def __init__(self, graph: qnn.Graph, **given: Any) -> None:
        q = Quantization
        self.graph = graph
        tensors = {
            "x": ((1, 1, 1, 4), U8, q(0.1, -128), "app_write", None),
            "w": ((1, 1, 4, 8), S8, q(0.05, 0), "static", np.ones(32, np.int8)),
            "b": ((8,), S32, q(0.005, 0), "static", np.ones(8, np.int32)),
            "y": ((1, 1, 1, 8), U8, q(0.2, -128), "app_read", None),
        }
        for name, (dtype, quantization) in given.items():
            shape, _, _, kind, data = tensors[name]
            if data is not None:
                data = data.astype({"FLOAT_32": np.float32, "INT_32": np.int32, U8: np.uint8,
                                    S8: np.int8, S32: np.int32}[dtype])  # fmt: skip
            tensors[name] = (shape, dtype, quantization, kind, data)
        self.tensors = [
            graph.add_tensor(name, shape, dtype, type=kind, data=data, quantization=quantization)
            for name, (shape, dtype, quantization, kind, data) in tensors.items()
        ]

    def refused(self, *words: str) -> None:
        args = ("Conv2d", self.tensors[:3], self.tensors[3:], CONV)
        for code, call in (
            (3110, lambda: self.graph.context.backend.validate_op(*args)),
            (6005, lambda: self.graph.add_node("conv", *args)),
        ):
            with pytest.raises(QnnError) as caught:
                call()
            assert caught.value.code == code
            for word in words:
                assert word in str(caught.value)

    def taken(self) -> None:
        args = ("Conv2d", self.tensors[:3], self.tensors[3:], CONV)
        self.graph.context.backend.validate_op(*args)
        self.graph.add_node("conv", *args)
        self.graph.finalize()


def test_a_bias_has_any_scale_and_no_offset(backend) -> None:
    each = np.linspace(0.01, 0.08, 8, dtype=np.float32)
    per_channel = Quantization(each, 0, axis=3)
    good: list[dict[str, Any]] = [
        {},
        {"b": (S32, Quantization(0.5, 0))},
        {"b": (S32, Quantization(each, 0, axis=0))},
        {"w": (S8, per_channel)},
        {"w": (S8, per_channel), "b": (S32, Quantization(each, 0, axis=0))},
        {"b": (U8, Quantization(0.3, -7))},
    ]
    for given in good:
        with backend.create_context() as context:
            Conv(context.create_graph("g"), **given).taken()
    with backend.create_context() as context:
        given = {"b": (S32, Quantization(0.005, 3))}
        Conv(context.create_graph("g"), **given).refused("'b'", "Conv2d", "offset 3")


def test_activations_of_products_have_one_scale(backend) -> None:
    for name, size in (("x", 4), ("y", 8)):
        q = Quantization(np.full(size, 0.1), -128, axis=3)
        with backend.create_context() as context:
            Conv(context.create_graph("g"), **{name: (U8, q)}).refused(
                f"'{name}'", "axis 3", "one scale"
            )


@pytest.mark.parametrize("name", ["x", "w", "b", "y"])
def test_floats_and_fixed_point_numbers_do_not_mix(backend, name: str) -> None:
    with backend.create_context() as context:
        Conv(context.create_graph("g"), **{name: ("FLOAT_32", None)}).refused(
            f"'{name}'", "FLOAT_32"
        )


def test_a_node_is_validated_before_its_tensors_are_in_a_graph(backend) -> None:
    def tensor(name: str, scale: float) -> _core.Tensor:
        return _core.Tensor(name, (2, 4), 0x0408, 3, quantization=Quantization(scale, 0))

    backend.validate_op("Relu", [tensor("x", 0.1)], [tensor("y", 0.1)])
    with pytest.raises(QnnError) as caught:
        backend.validate_op("Relu", [tensor("x", 0.1)], [tensor("y", -0.1)])
    assert caught.value.code == 7004
    assert "tensor 'y'" in str(caught.value)
