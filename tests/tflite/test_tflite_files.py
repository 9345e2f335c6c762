"""TFLite files as a whole: networks, weights of other types, names, shapes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert import schema_py_generated as schema

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.models import dense_int8, open_batch, two_entries
from support.tflite.networks import NETWORKS, Layers
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign

SEED = 20261121
F32, F16, I32 = np.float32, np.float16, np.int32


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


# ---- networks


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_equals_the_interpreter(name: str, kernels: str, tmp_path: Path) -> None:
    data, shape = NETWORKS[name]()
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(data)
    x = rng().standard_normal(shape).astype(F32)
    with qnnrt.Session(path, options={"kernels": kernels}) as session:
        found = session.run({"image": x})
    (wanted,) = reference.reference(data, [x])
    assert wanted.std() > 1e-3, "the output is degenerate; the test would show nothing"
    reference.close(found["scores"], wanted)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_the_same_bytes_on_the_htp_backend(name: str) -> None:
    data, shape = NETWORKS[name]()
    model, x = importer.load(data), rng().standard_normal(shape).astype(F32)
    found = []
    for backend in ("cpu", "htp"):
        with qnnrt.Session(model, backend, threads=1) as session:
            session.inputs["image"].array[...] = x
            session.run()
            found.append(session.outputs["scores"].array.tobytes())
            assert session.stats.copied_bytes == 0
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_on_a_backend_of_others(name: str) -> None:
    """The vendor's simulator, which computes in half precision: the mapping is QNN's, not ours."""
    library = vendor_library("libQnnHtp.so")
    data, shape = NETWORKS[name]()
    x = rng().standard_normal(shape).astype(F32)
    with qnnrt.Session(importer.load(data), library, io="raw") as session:
        found = session.run({"image": x})["scores"]
    (wanted,) = reference.reference(data, [x])
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2 * wanted.max())


def test_a_network_becomes_the_operations_it_should() -> None:
    model = importer.load(NETWORKS["depthwise"]()[0])
    found = model.op_counts()
    assert found == {
        "ReluMinMax": 7,
        "Conv2d": 4,
        "DepthWiseConv2d": 3,
        "ReduceMean": 1,
        "FullyConnected": 1,
        "Softmax": 1,
    }


# ---- weights of other types


def test_operator_codes_may_be_in_the_newer_field_alone() -> None:
    """As by the quantizer of LiteRT's own tools."""
    data, _ = NETWORKS["convolutional"]()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    for code in model.operatorCodes:
        code.deprecatedBuiltinCode = 0
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    found = importer.load(bytes(builder.Output()))
    assert [n.type for n in found.nodes] == [n.type for n in importer.load(data).nodes]


def test_half_precision_weights_are_folded() -> None:
    layers = Layers((1, 8, 8, 3), SEED, half=True)
    y = layers.conv(layers.x, 4, 3, 1)
    data = layers.finish(layers.dense(y, 5))
    model = importer.load(data)
    assert set(model.op_counts()) == {"Conv2d", "ReluMinMax", "Reshape", "FullyConnected"}
    assert all(t.dtype == F32 for t in model.constants())
    reference.agree(data, [rng().standard_normal((1, 8, 8, 3)).astype(F32)])


def test_weights_that_layers_share_are_there_once_under_their_own_name() -> None:
    b = ModelBuilder()
    x = b.input((1, 8, 8, 3))
    w = b.const(rng().standard_normal((3, 3, 3, 3)).astype(F32), name="shared/weights")
    bias = b.const(np.ones(3, F32), name="shared/bias")
    fields = {"padding": 0, "strideH": 1, "strideW": 1}
    fields |= {"dilationHFactor": 1, "dilationWFactor": 1}
    for _ in range(2):
        (x,) = b.op("CONV_2D", [x, w, bias], [((1, 8, 8, 3), F32)], "Conv2DOptions", **fields)
    b.output(x)
    model = reference.agree(b.build(), [rng().standard_normal((1, 8, 8, 3)).astype(F32)])
    assert [t.name for t in model.constants()] == ["shared/weights", "shared/bias"]


def test_buffers_behind_the_flatbuffer_are_found() -> None:
    """Where files of more than 2 GB have them."""
    data, weights = dense_int8(False, False)
    b = ModelBuilder()
    b.model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    values = bytes(b.model.buffers[1].data)
    b.model.buffers[1].data = None
    b.model.buffers[1].offset, b.model.buffers[1].size = 1 << 20, len(values)
    made = b.build()
    b.model.buffers[1].offset = len(made) + 24
    made = b.build() + bytes(24) + values
    x = rng().standard_normal((3, 8)).astype(F32)
    (found,) = reference.run(importer.load(made), [x])
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-5, atol=1e-5)


def test_a_half_precision_tensor_becomes_single_when_run() -> None:
    b = ModelBuilder()
    x = b.input((2, 3), F16)
    (y,) = b.op("DEQUANTIZE", [x], [((2, 3), F32)], "DequantizeOptions")
    b.output(*b.op("EXP", [y], [((2, 3), F32)]))
    reference.agree(b.build(), [rng().standard_normal((2, 3)).astype(F16)])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("explicit", "bits"), [(False, 8), (True, 8), (False, 4)])
def test_integer_weights_of_float_layers_are_the_numbers_they_stand_for(
    per_channel: bool, explicit: bool, bits: int
) -> None:
    """TFLite rounds the activations of such layers to 8 bits as well; here nothing is rounded."""
    data, weights = dense_int8(per_channel, explicit, bits)
    x = rng().standard_normal((3, 8)).astype(F32)
    (found,) = reference.run(importer.load(data), [x])
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-5, atol=1e-5)


def test_integer_weights_are_within_the_interpreters_own_rounding() -> None:
    data, weights = dense_int8(True, False)
    x = rng().standard_normal((3, 8)).astype(F32)
    (found,) = reference.run(importer.load(data), [x])
    (wanted,) = reference.reference(data, [x])
    step = np.abs(x).max() / 127
    assert np.abs(found - wanted).max() <= step * np.abs(weights).sum(axis=1).max()


def test_quantization_is_carried_into_the_model() -> None:
    b = ModelBuilder()
    r = rng()
    x = b.input((1, 6, 6, 4), np.int8, name="x", scale=0.5, zero=3)
    scales = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    w = b.const(r.integers(-9, 9, (8, 3, 3, 4)).astype(np.int8), scale=scales, zero=[0] * 8,
                axis=0, name="w")  # fmt: skip
    y = b.tensor((1, 4, 4, 8), np.int8, name="y", scale=0.25, zero=-128)
    fields = {"padding": 1, "strideH": 1, "strideW": 1, "dilationHFactor": 1}
    fields |= {"dilationWFactor": 1, "fusedActivationFunction": 3}
    (y,) = b.op("CONV_2D", [x, w, -1], [y], "Conv2DOptions", **fields)
    b.output(y)
    model = importer.load(b.build())
    assert [n.type for n in model.nodes] == ["Conv2d", "ReluMinMax"]
    q = model.tensors["x"].quantization
    assert q is not None
    assert (q.scale, q.offset, q.axis) == (0.5, -3, None)
    weights = model.tensors[model.nodes[0].inputs[1]]
    assert weights.shape == (3, 3, 4, 8)
    assert weights.quantization is not None
    assert weights.quantization.axis == 3
    np.testing.assert_allclose(weights.quantization.scale, scales)
    for name in (model.nodes[0].outputs[0], "y"):
        q = model.tensors[name].quantization
        assert q is not None
        assert (q.scale, q.offset) == (0.25, 128)


# ---- names and signatures


def test_inputs_and_outputs_have_the_names_of_the_signature() -> None:
    data = two_entries()
    model = importer.load(data)
    assert (model.inputs, model.outputs) == (["a", "b"], ["sum", "difference"])
    model = importer.load(data, signature="other")
    assert (model.inputs, model.outputs) == (["left", "right"], ["plus", "minus"])
    a, b = rng().standard_normal((2, 2, 3)).astype(F32)
    with qnnrt.Session(model) as session:
        found = session.run({"left": a, "right": b})
    np.testing.assert_array_equal(found["minus"], a - b)
    with pytest.raises(ModelError, match="there are: 'serving_default', 'other'"):
        importer.load(data, signature="missing")


def test_a_signature_selects_its_subgraph() -> None:
    b = ModelBuilder()
    x = b.input((2,), name="x")
    b.output(*b.op("EXP", [x], [((2,), F32)]))
    first = b.graph
    b.graph = schema.SubGraphT()
    b.graph.name, b.graph.tensors, b.graph.operators = "second", [], []
    b.graph.inputs, b.graph.outputs = [], []
    b.model.subgraphs = [first, b.graph]
    y = b.input((3,), name="y")
    (z,) = b.op("NEG", [y], [((3,), F32)])
    b.output(z)
    b.signature("negate", {"value": y}, {"result": z}, subgraph=1)
    model = importer.load(b.build(), signature="negate")
    assert (model.name, model.inputs, model.outputs) == ("negate", ["value"], ["result"])
    assert model.op_counts() == {"ElementWiseNeg": 1}
    assert importer.load(b.build()).inputs == ["x"]


def test_without_a_signature_tensors_give_the_names_and_repeated_ones_get_numbers() -> None:
    b = ModelBuilder()
    x, y = b.input((2,), name="same"), b.input((2,), name="same")
    (z,) = b.op("ADD", [x, y], [b.tensor((2,), name="")], "AddOptions")
    b.output(z)
    model = importer.load(b.build())
    assert (model.inputs, model.outputs) == (["same", "same.2"], ["tensor_2"])


def test_an_output_that_is_an_input_a_constant_or_listed_twice_is_its_own_tensor() -> None:
    b = ModelBuilder()
    x = b.input((2, 3), name="x")
    c = b.const(np.arange(3, dtype=F32), name="c")
    (y,) = b.op("EXP", [x], [((2, 3), F32)])
    (z,) = b.op("RESHAPE", [y, b.const([2, 3], I32)], [((2, 3), F32)], "ReshapeOptions")
    b.output(x, c, y, z)
    model = importer.load(b.build())
    assert len(model.outputs) == 4
    value = rng().standard_normal((2, 3)).astype(F32)
    found = reference.run(model, [value])
    for got, wanted in zip(found, (value, np.arange(3), np.exp(value), np.exp(value)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


# ---- shapes


def test_an_open_batch_has_the_size_of_the_file_unless_another_is_given() -> None:
    model = importer.load(open_batch())
    assert model.tensors["x"].shape == (1, 4, 6)
    model = importer.load(open_batch(), shapes={"x": (5, 4, 6)})
    assert model.op_counts() == {"Reshape": 1}, "shape arithmetic is folded"
    assert model.tensors[model.outputs[0]].shape == (5, 24)


def test_a_session_runs_whatever_batch_comes_in() -> None:
    model = importer.load(open_batch(), shapes="any")
    assert model.shapes == ({"x_0": "any"},)
    with qnnrt.Session(model) as session:
        for batch in (1, 5, 0, 3):
            x = rng().standard_normal((batch, 4, 6)).astype(F32)
            (y,) = session.run({"x": x}).values()
            np.testing.assert_array_equal(y, x.reshape(batch, 24))
        assert [s["x_0"] for s in session.shapes] == [1, 5, 0, 3]


def test_batches_of_an_input_are_listed_as_its_shapes() -> None:
    model = importer.load(open_batch(), shapes={"x": [(1, 4, 6), (7, 4, 6)]})
    assert model.listed == (((1, 4, 6),), ((7, 4, 6),))
    assert model.at({"x_0": 7}).name == "main_x_0_7"
    with pytest.raises(ModelError, match=r"shapes= gives it \[1, 4, 7\]"):
        importer.load(open_batch(), shapes={"x": [(1, 4, 6), (1, 4, 7)]})
    with pytest.raises(ModelError, match="no input or dimension named 'y'"):
        importer.load(open_batch(), shapes={"y": [(1, 4, 6), (2, 4, 6)]})
    with pytest.raises(ModelError, match="states are inputs"):
        importer.load(open_batch(), shapes="any", variables="io")


@pytest.mark.parametrize("dtype", [F32, I32])
@pytest.mark.parametrize(
    ("activation", "low", "high"), [("RELU", 0, 99), ("RELU_N1_TO_1", -1, 1), ("RELU6", 0, 6)]
)
def test_constants_are_clipped_as_their_fused_activation_says(
    activation: str, low: int, high: int, dtype: type
) -> None:
    b = ModelBuilder()
    x = b.input((5,), dtype, name="x")
    one, two = b.const([-9, -1, 0, 3, 9], dtype), b.const([-2, 0, 0, 1, 9], dtype)
    number = getattr(schema.ActivationFunctionType, activation)
    fields = {"fusedActivationFunction": number}
    (c,) = b.op("ADD", [one, two], [((5,), dtype)], "AddOptions", **fields)
    b.output(*b.op("SUB", [x, c], [((5,), dtype)], "SubOptions"))
    model = importer.load(b.build())
    assert model.op_counts() == {"ElementWiseSubtract": 1}
    (found,) = (t.data for t in model.tensors.values() if t.data is not None)
    np.testing.assert_array_equal(found, np.clip([-11, -1, 0, 4, 18], low, high))


def test_shapes_that_do_not_fit_the_file_are_refused() -> None:
    with pytest.raises(ModelError, match=r"\[-1, 4, 6\], where -1 is open"):
        importer.load(open_batch(), shapes={"x": (5, 4, 7)})
    with pytest.raises(ModelError, match="no input named 'y'; there are 'x'"):
        importer.load(open_batch(), shapes={"y": (5, 4, 6)})


def test_an_input_without_a_size_asks_for_one() -> None:
    b = ModelBuilder()
    x = b.input((-1, 3), name="x")
    b.output(*b.op("EXP", [x], [((-1, 3), F32)]))
    with pytest.raises(ModelError, match=r"'x' \[-1, 3\].*shapes="):
        importer.load(b.build())
    assert importer.load(b.build(), shapes={"x": (2, 3)}).nodes


def test_a_shape_that_depends_on_the_data_is_refused() -> None:
    b = ModelBuilder()
    x, shape = b.input((2, 3)), b.input((1,), I32)
    b.output(*b.op("RESHAPE", [x, shape], [((6,), F32)], "ReshapeOptions"))
    with pytest.raises(UnsupportedOpError, match="computed when the model runs"):
        importer.load(b.build())


# ---- what is refused


def test_every_operator_without_a_counterpart_is_listed_with_its_reason() -> None:
    b = ModelBuilder()
    x = b.input((2, 3))
    (y,) = b.op("CUSTOM", [x], [((2, 3), F32)], custom="MyOp")
    (z,) = b.op("EXP", [y], [((2, 3), F32)])
    (u,) = b.op("STABLEHLO_WHILE", [z], [((2, 3), F32)])
    (v,) = b.op("UNIQUE", [x], [((2, 3), F32)])
    b.output(u, v)
    with pytest.raises(UnsupportedOpError) as info:
        importer.load(b.build())
    found = [(n.name, n.op, n.reason.split(":")[0]) for n in info.value.nodes]
    assert [f[:2] for f in found] == [
        ("CUSTOM_0", "CUSTOM 'MyOp'"),
        ("STABLEHLO_WHILE_2", "STABLEHLO_WHILE"),
        ("UNIQUE_3", "UNIQUE"),
    ]
    assert found[1][2] == "control flow"


def test_operators_that_no_output_needs_do_not_matter() -> None:
    b = ModelBuilder()
    x = b.input((2, 3))
    b.op("CUSTOM", [x], [((2, 3), F32)], custom="Log")
    b.output(*b.op("EXP", [x], [((2, 3), F32)]))
    assert importer.load(b.build()).op_counts() == {"ElementWiseExp": 1}


def test_types_that_qnn_does_not_have_are_refused_by_name() -> None:
    b = ModelBuilder()
    x = b.input((2, 3))
    (y,) = b.op("CAST", [x], [b.tensor((2, 3), type_=schema.TensorType.COMPLEX64)])
    b.output(*b.op("COMPLEX_ABS", [y], [((2, 3), F32)]))
    with pytest.raises(UnsupportedOpError, match="complex64"):
        importer.load(b.build())
    b = ModelBuilder()
    text = b.input((2,), type_=schema.TensorType.STRING, name="text")
    b.output(*b.op("EXP", [text], [((2,), F32)]))
    with pytest.raises(ModelError, match="'text' is string"):
        importer.load(b.build())


def test_options_that_are_no_choice_are_errors_of_the_call() -> None:
    with pytest.raises(ValueError, match="'reset' or 'io'"):
        importer.load(two_entries(), variables="keep")  # type: ignore[arg-type]
