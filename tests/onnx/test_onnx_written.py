"""Nodes as they are taken out of a file: what protobuf says that they are."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from qnnrt._native import _core
from qnnrt.importers.onnx.checks import attributes_of
from qnnrt.importers.onnx.written import Written, tensor_array


def _nodes() -> list[onnx.NodeProto]:
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "body", [], [])
    marked = helper.make_node("Conv", ["x", "w", ""], ["y"], name="ü", strides=[2, 3], auto_pad="X")
    marked.doc_string = "a remark"
    marked.metadata_props.add(key="k", value="v")
    odd = helper.make_node("Relu", ["x"], ["y"])
    odd.attribute.add(name="a", ref_attr_name="b", type=onnx.AttributeProto.INT)
    longest = helper.make_node("Slice", ["x"], ["y", "", "z"], starts=list(range(2000)))
    return [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5, domain="ai.onnx", overload="o"),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(np.ones(3))),
        helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(np.ones(5000))),
        helper.make_node("Constant", [], ["y"], value=helper.make_tensor("t", 1, [2], [1, 2])),
        helper.make_node("Constant", [], ["y"], value_float=1.0),
        helper.make_node("Other", ["x"], ["y"], value=numpy_helper.from_array(np.ones(3))),
        helper.make_node("Dropout", ["x"], ["y"], a=[1], b=b"", c=["t", "u"], d=[0.5]),
        marked,
        odd,
        longest,
        onnx.NodeProto(),
    ]


@pytest.mark.parametrize("proto", _nodes(), ids=lambda proto: proto.op_type)
def test_what_is_taken_out_is_what_protobuf_gives(proto: onnx.NodeProto) -> None:
    for _ in range(2):  # the second time the attributes are known
        found = Written(proto)
        for field in ("name", "op_type", "domain", "overload"):
            assert getattr(found, field) == getattr(proto, field)
        assert found.input == list(proto.input)
        assert found.output == list(proto.output)
        assert found.names == [a.name for a in proto.attribute]
        assert found.kinds == [a.type for a in proto.attribute]
        held = [a for a in proto.attribute if a.HasField("t")]
        assert found.tensors == [a.t for a in held]
        assert found.graphs == [a.g for a in proto.attribute if a.HasField("g")]


def test_tensors_of_raw_data_are_read_as_by_onnx() -> None:
    tensors = [
        numpy_helper.from_array(array, "t")
        for array in (
            np.float32(3), np.arange(6, dtype=np.int64).reshape(1, 2, 3), np.zeros((0, 4), np.int8),
            np.ones((40, 200), np.float16), np.array([True, False]),
        )
    ]  # fmt: skip
    tensors[1].doc_string = "a remark"
    for tensor in tensors:
        array = tensor_array(tensor.SerializeToString())
        constant = Written(helper.make_node("Constant", [], ["y"], value=tensor)).value
        wanted = numpy_helper.to_array(tensor)
        for found in (array, constant):
            if wanted.size or found is not None:  # numpy makes no array of no bytes
                assert found is not None
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


def test_listed_elements_are_read_as_by_onnx() -> None:
    kinds = onnx.TensorProto
    for kind, dims, values in (
        (kinds.FLOAT, [], [0.1]),
        (kinds.FLOAT, [2, 3], [1.5, -2.0, 0.0, 3e38, 1e-45, float("inf")]),
        (kinds.INT8, [], [-3]),
        (kinds.UINT8, [3], [0, 127, 255]),
        (kinds.INT16, [2], [-32768, 32767]),
        (kinds.UINT16, [1], [65535]),
        (kinds.INT32, [4], [0, -1, -(2**31), 2**31 - 1]),
    ):
        tensor = helper.make_tensor("t", kind, dims, values)
        found = tensor_array(tensor.SerializeToString())
        wanted = numpy_helper.to_array(tensor)
        assert found is not None
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "tensor",
    [
        onnx.TensorProto(dims=[2], data_type=1, float_data=[1.0]),
        onnx.TensorProto(dims=[-1], data_type=3, int32_data=[1]),
        onnx.TensorProto(dims=[1], data_type=3, int32_data=[1, 2]),
        onnx.TensorProto(dims=[1], data_type=11, float_data=[1.0, 2.0]),
        onnx.TensorProto(dims=[1], data_type=10, int32_data=[1]),
        onnx.TensorProto(dims=[1], data_type=3, int32_data=[1], float_data=[1.0]),
        onnx.TensorProto(dims=[1], data_type=7, int64_data=[1]),
        onnx.TensorProto(),
    ],
)
def test_other_lists_are_left_to_protobuf(tensor: onnx.TensorProto) -> None:
    assert tensor_array(tensor.SerializeToString()) is None


def _tensor(**fields: object) -> onnx.TensorProto:
    return onnx.TensorProto(**{"dims": [1], "data_type": 1, "raw_data": b"1234", **fields})


@pytest.mark.parametrize(
    "tensor",
    [
        _tensor(dims=[2]),
        _tensor(dims=[-1]),
        _tensor(raw_data=b"123"),
        _tensor(raw_data=b"1" * 20001, dims=[5000]),
        _tensor(data_type=onnx.TensorProto.STRING),
        _tensor(data_type=onnx.TensorProto.INT4),
        _tensor(data_location=onnx.TensorProto.EXTERNAL),
        _tensor(float_data=[1.0]),
        _tensor(segment=onnx.TensorProto.Segment(begin=0, end=1)),
        onnx.TensorProto(),
    ],
)
def test_other_tensors_are_left_to_protobuf(tensor: onnx.TensorProto) -> None:
    assert tensor_array(tensor.SerializeToString()) is None
    assert Written(helper.make_node("Constant", [], ["y"], value=tensor)).value is None


def test_a_constant_that_lists_its_elements_is_left_to_protobuf() -> None:
    tensor = onnx.TensorProto(dims=[1], data_type=1, float_data=[1.0])
    assert Written(helper.make_node("Constant", [], ["y"], value=tensor)).value is None


def test_a_constant_that_is_more_than_its_tensor_is_left_to_protobuf() -> None:
    good = helper.make_node("Constant", [], ["y"], name="n", value=_tensor())
    message = good.SerializeToString()
    at = message.index(b"1234")
    assert _core.onnx_constant(message) == ("n", "y", "", ((1,), 1, at, at + 4))
    for change in (
        lambda n: n.input.append("x"),
        lambda n: n.output.append("z"),
        lambda n: n.ClearField("output"),
        lambda n: n.ClearField("attribute"),
        lambda n: n.attribute.append(n.attribute[0]),
        lambda n: setattr(n, "overload", "o"),
        lambda n: setattr(n, "op_type", "Other"),
        lambda n: setattr(n.attribute[0], "name", "values"),
        lambda n: setattr(n.attribute[0], "type", onnx.AttributeProto.FLOAT),
        lambda n: setattr(n.attribute[0], "ref_attr_name", "a"),
        lambda n: setattr(n.attribute[0], "f", 1.0),
    ):
        other = onnx.NodeProto()
        other.CopyFrom(good)
        change(other)
        assert _core.onnx_constant(other.SerializeToString()) is None


def test_values_of_attributes_belong_to_the_node() -> None:
    proto = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 3], group=4)
    for _ in range(3):
        values = attributes_of(Written(proto))
        assert values == {"strides": [2, 3], "group": 4}
        strides = values["strides"]
        assert isinstance(strides, list)
        strides.append(5)


def test_attributes_that_are_wrong_are_refused_each_time() -> None:
    proto = helper.make_node("Relu", ["x"], ["y"], a=1)
    proto.attribute.append(proto.attribute[0])
    for _ in range(3):
        with pytest.raises(ValueError, match="attribute 'a' twice"):
            attributes_of(Written(proto))


def test_a_text_that_is_not_utf8_is_left_to_protobuf() -> None:
    data = helper.make_node("Relu", ["x"], ["y"], name="n").SerializeToString()
    assert _core.onnx_node(data.replace(b"\x1a\x01n", b"\x1a\x01\xff")) is None


def test_damaged_bytes_are_read_within_their_bounds() -> None:
    rng = random.Random(3)
    nodes = [proto.SerializeToString() for proto in _nodes()]
    read = 0
    for _ in range(3000):
        data = bytearray(rng.choice(nodes))
        for _ in range(rng.randint(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        damaged = bytes(data[: rng.randint(0, len(data))])
        _core.onnx_constant(damaged)
        _core.onnx_tensor(damaged, 8)
        _core.onnx_initializers(damaged, 0, len(damaged), 8)
        found = _core.onnx_node(damaged)
        if found is not None:
            read += 1
            assert len(found[6]) <= len(damaged)
            assert sum(len(text.encode()) for text in (*found[0], *found[1])) <= len(damaged)
    assert 0 < read < 3000


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # no size
        b"\x0a\x05x",  # more than there is
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a negative size
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # the largest
        b"\x08\x01",  # an integer
        b"\x2a\x00\x0a\x00\x2a\x00",  # attributes apart
        b"\x5a\x00",  # an unknown field
    ],
)
def test_bytes_that_no_writer_makes_are_left_to_protobuf(data: bytes) -> None:
    assert _core.onnx_node(data) is None


def test_fields_lie_where_they_are_written() -> None:
    tensor = onnx.TensorProto(dims=[-1, 300], data_type=1, name="n", raw_data=b"1234")
    tensor.double_data.append(1.0)
    data = b"##" + tensor.SerializeToString() + b"##"
    found = _core.protobuf_fields(data, 2, len(data) - 2)
    assert found is not None
    assert [begin for _, _, begin, _, _ in found] == [2, *(end for *_, end in found[:-1])]
    assert found[-1][-1] == len(data) - 2
    values = {(number, kind): data[value:end] for number, kind, _, value, end in found}
    assert values[1, 0] == b"\xac\x02"  # the last of the dims
    assert values[8, 2] == b"n"
    assert values[9, 2] == b"1234"
    assert len(values[10, 2]) == 8


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # no size
        b"\x0a\x05x",  # more than there is
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a negative size
        b"\x08",  # no number
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # of more than 64 bits
        b"\x09\x00\x00\x00",  # fewer than eight bytes
        b"\x0d\x00",  # fewer than four
        b"\x0b\x0c",  # a group
        b"\x02\x00",  # field 0
    ],
)
def test_what_is_no_message_has_no_fields(data: bytes) -> None:
    assert _core.protobuf_fields(data, 0, len(data)) is None


def test_a_message_lies_within_its_bytes() -> None:
    with pytest.raises(ValueError, match="bytes 0 to 3 of 2"):
        _core.protobuf_fields(b"\x08\x01", 0, 3)
