"""ONNX Runtime's QNN execution provider with quantized models: what it sends of them is taken.

It unpacks 4-bit weights into 8 bits of which 4 are used, gives biases the scales of the products
along an axis, and leaves the quantization of float inputs and outputs to its CPU provider unless
told otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zoo import client_models

pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

import test_ort_htp
import test_ort_qnn
from test_ort_htp import LIVE, RUNS, SHARED, check_moved_context
from test_ort_qnn import PROVIDER

from qnnrt import _core
from zoo.quantizing import QuantType, quantized, reference

pytestmark = pytest.mark.foreign

on_htp, on_cpu = test_ort_htp.run, test_ort_qnn.run  # fixtures

STEP = re.compile(r"step \d+ is (\w+) '[^']*'.* by kernel (\S+)", re.M)
ENCODINGS = re.compile(
    r"dataType=QNN_DATATYPE_(\wFIXED_POINT_\d+) "
    r".*quantizationEncoding=QNN_QUANTIZATION_ENCODING_(\w+)"
)
U8, S8, U16, S4 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt4
# Activations, weights, scales along an axis, and what the provider sends of weights.
KINDS = {
    "u8 s8": (U8, S8, True, ("SFIXED_POINT_8", "AXIS_SCALE_OFFSET")),
    "u8 u8": (U8, U8, False, ("UFIXED_POINT_8", "SCALE_OFFSET")),
    "s8 s8": (S8, S8, True, ("SFIXED_POINT_8", "AXIS_SCALE_OFFSET")),
    "u16 s8": (U16, S8, True, ("SFIXED_POINT_8", "AXIS_SCALE_OFFSET")),
    "u16 u8": (U16, U8, False, ("UFIXED_POINT_8", "SCALE_OFFSET")),
    "u8 s4": (U8, S4, True, ("SFIXED_POINT_8", "BW_AXIS_SCALE_OFFSET")),
    "u16 s4": (U16, S4, True, ("SFIXED_POINT_8", "BW_AXIS_SCALE_OFFSET")),
}


def net() -> onnx.ModelProto:
    """Convolutions of every kind, a pool, swish and add, a mean, a dense layer and softmax."""
    model = client_models.conv_net(31)
    graph, rng = model.graph, np.random.default_rng(31)
    del graph.node[-1], graph.output[:]
    weights = {"w": rng.normal(0, 0.3, (10, 7)), "b": rng.normal(0, 0.1, 7)}
    graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    )
    graph.node.extend(
        helper.make_node(op, inputs, [output], name=output)
        for op, inputs, output in (
            ("Sigmoid", ["c4"], "gate"),
            ("Mul", ["c4", "gate"], "swish"),
            ("Add", ["swish", "c4"], "sum"),
            ("GlobalAveragePool", ["sum"], "mean"),
            ("Flatten", ["mean"], "flat"),
            ("Gemm", ["flat", "w", "b"], "dense"),
            ("Softmax", ["dense"], "y"),
        )
    )
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7]))
    return model


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(32)
    return [{"x": rng.standard_normal((1, 3, 31, 27), dtype=np.float32)} for _ in range(3)]


def attention() -> onnx.ModelProto:
    """A layer of a transformer: two heads on eight tokens of 16 numbers."""
    rng = np.random.default_rng(34)
    weights: dict[str, np.ndarray] = {
        "gain": rng.uniform(0.5, 1.5, 16).astype(np.float32),
        "shift": rng.normal(0, 0.1, 16).astype(np.float32),
        "heads": np.array([1, 8, 2, 8]),
        "joined": np.array([1, 8, 16]),
    }
    nodes: list[onnx.NodeProto] = []

    def node(op: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def dense(x: str, name: str) -> str:
        weights[name + "_w"] = rng.normal(0, 0.2, (16, 16)).astype(np.float32)
        weights[name + "_b"] = rng.normal(0, 0.2, 16).astype(np.float32)
        return node("Add", [node("MatMul", [x, name + "_w"], name + "_m"), name + "_b"], name)

    def heads(name: str, perm: list[int]) -> str:
        split = node("Reshape", [dense("normal", name), "heads"], name + "_r")
        return node("Transpose", [split], name + "_t", perm=perm)

    node("LayerNormalization", ["x", "gain", "shift"], "normal", axis=-1, epsilon=1e-5)
    scores = node("MatMul", [heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1])], "scores")
    shares = node("Softmax", [scores], "shares", axis=-1)
    mixed = node("MatMul", [shares, heads("v", [0, 2, 1, 3])], "mixed")
    turned = node("Transpose", [mixed], "turned", perm=[0, 2, 1, 3])
    node("Add", [dense(node("Reshape", [turned, "joined"], "o"), "p"), "x"], "sum")
    node("Add", [dense(node("Gelu", [dense("sum", "f")], "gelu"), "g"), "sum"], "y")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 16]) for n in ("x", "y")]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "attention", values[:1], values[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def make(tmp_path: Path, kind: str, integer_io: bool = False) -> onnx.ModelProto:
    activations, weights, per_channel, _ = KINDS[kind]
    model = quantized(
        net(), samples(), tmp_path, activations=activations, weights=weights,
        per_channel=per_channel,
    )  # fmt: skip
    return with_integer_io(model) if integer_io else model


def with_integer_io(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without its first QuantizeLinear and its last DequantizeLinear."""
    graph = model.graph
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    [first] = [n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x"]
    [last] = [n for n in graph.node if n.output[0] == "y"]
    assert last.op_type == "DequantizeLinear"
    for value, node, name in (
        (graph.input[0], first, first.output[0]),
        (graph.output[0], last, last.input[0]),
    ):
        dtype = values[node.input[2]].dtype
        value.name = name
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)
    graph.node.remove(first)
    graph.node.remove(last)
    return model


def output_scale(model: onnx.ModelProto) -> float:
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    name = model.graph.output[0].name
    [node] = [n for n in model.graph.node if n.output[0] == name]
    return float(values[node.input[1]])


def integer_feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    given = model.graph.input[0]
    dtype = helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    info = np.iinfo(dtype)
    rng = np.random.default_rng(33)
    return {given.name: rng.integers(info.min, info.max, shape, dtype, endpoint=True)}


def steps(kind: str) -> int:
    """How many may lie between two runtimes: those of 16 bits are so fine that they add up."""
    return 3 if KINDS[kind][0] == U16 else 1


def within_steps(got: list[np.ndarray], expected: list[np.ndarray], step: float = 1) -> None:
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.ptp(other) > 20 * step, "a result without contrast shows nothing"
        difference = np.abs(one.astype(np.float64) - other.astype(np.float64)) / step
        assert difference.max() <= 1.01, difference.max()


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantized_network_runs_whole_and_gives_the_integers(on_htp, tmp_path, kind) -> None:
    model = make(tmp_path, kind, integer_io=True)
    feeds = integer_feeds(model)
    ran = on_htp("ort_client.py", model, feeds, {})
    assigned = {name: Counter(ops) for name, ops in ran.said["assigned"].items()}
    assert assigned[PROVIDER]["Conv"] == 4
    assert set(assigned) == {PROVIDER}
    assert ran.executions == [RUNS]
    sent = set(ENCODINGS.findall(ran.log))
    assert KINDS[kind][3] in sent
    axis = "AXIS_" if KINDS[kind][2] else ""
    assert ("SFIXED_POINT_32", f"{axis}SCALE_OFFSET") in sent
    within_steps(ran.outputs, reference(model, feeds), steps(kind))


@pytest.mark.parametrize("kind", ["u8 s8", "u16 s8"])
@pytest.mark.parametrize("offload", ["0", "1"])
def test_float_inputs_are_quantized_by_either_of_them(on_htp, tmp_path, kind, offload) -> None:
    model = make(tmp_path, kind)
    feeds = samples()[0]
    case = {"provider": {"offload_graph_io_quantization": offload}}
    ran = on_htp("ort_client.py", model, feeds, case)
    ops = {op for name, ops in ran.said["assigned"].items() if name != PROVIDER for op in ops}
    assert ops == ({"QuantizeLinear", "DequantizeLinear"} if offload == "1" else set())
    within_steps(ran.outputs, reference(model, feeds), steps(kind) * output_scale(model))


@pytest.mark.parametrize(("activations", "steps"), [(U8, 1), (U16, 256)])
def test_a_layer_of_a_transformer_runs_whole(on_htp, tmp_path, activations, steps: int) -> None:
    rng = np.random.default_rng(35)
    feeds = [{"x": rng.standard_normal((1, 8, 16), dtype=np.float32)} for _ in range(4)]
    model = quantized(attention(), feeds, tmp_path, activations=activations, per_channel=False)
    case = {"provider": {"offload_graph_io_quantization": "0"}}
    ran = on_htp("ort_client.py", model, feeds[0], case)
    assert set(ran.said["assigned"]) == {PROVIDER}
    # In 16 bits the provider itself has the second operand of a product of two activations
    # converted to 8, of which a step is 256 of 16 bits.
    assert ("Convert" in {op for op, _ in STEP.findall(ran.log)}) == (activations == U16)
    within_steps(ran.outputs, reference(model, feeds[0]), steps * output_scale(model))


@pytest.mark.parametrize("kind", ["u8 s8", "u16 s8"])
def test_integers_in_shared_memory_are_not_copied(on_htp, tmp_path, kind: str) -> None:
    model = make(tmp_path, kind, integer_io=True)
    feeds = integer_feeds(model)
    outputs = {o.name: [d.dim_value for d in o.type.tensor_type.shape.dim]
               for o in model.graph.output}  # fmt: skip
    case = {
        "memory": dict.fromkeys([*feeds, *outputs], "QnnHtpShared"),
        "outputs": outputs,
        "types": dict.fromkeys(outputs, next(iter(feeds.values())).dtype.name),
        "provider": SHARED,
    }
    ran = on_htp("ort_shared_client.py", model, feeds, case)
    assert ran.copied == [(0, 0)]
    assert ran.said["during"]["mem_handles"] == 2
    for what in LIVE:
        assert ran.said["after"][what] == 0, what
    within_steps(ran.outputs, reference(model, feeds), steps(kind))


@pytest.mark.parametrize("kind", ["u8 s8", "u16 s4"])
def test_a_context_model_keeps_the_encodings(on_htp, tmp_path, kind: str) -> None:
    model = make(tmp_path, kind, integer_io=True)
    feeds = integer_feeds(model)
    context = tmp_path / "made.onnx"
    settings = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
    made = on_htp(
        "ort_client.py", model, feeds, {"session": settings | {"ep.context_embed_mode": "1"}}
    )
    [node] = [n for n in onnx.load(context).graph.node if n.op_type == "EPContext"]
    [data] = [a.s for a in node.attribute if a.name == "ep_cache_context"]
    [graph] = _core.SystemLibrary.open().binary_info(data)["graphs"]
    for tensor in (*graph["inputs"], *graph["outputs"]):
        assert tensor["data_type"] == (0x0408 if kind.startswith("u8") else 0x0416)
        assert tensor["quantization"]["encoding"] == "scale_offset"
        assert tensor["quantization"]["scale"] > 0
    again = on_htp("ort_client.py", context, feeds, {})
    assert again.executions == [RUNS]
    np.testing.assert_array_equal(again.outputs[0], made.outputs[0])


@pytest.mark.parametrize("kind", ["u8 s8", "u16 s8"])
def test_a_context_model_of_integers_loads_with_other_instructions(
    on_htp, tmp_path, kind: str
) -> None:
    model = make(tmp_path, kind, integer_io=True)
    check_moved_context(on_htp, model, integer_feeds(model), tmp_path)


def test_what_the_provider_lets_through_to_a_cpu_backend_is_quantized_there(
    on_cpu, tmp_path
) -> None:
    """It keeps 8-bit convolutions and pools from CPU backends itself, whatever those say."""
    model = make(tmp_path, "u8 s8", integer_io=True)
    feeds = integer_feeds(model)
    report = on_cpu(model, feeds)
    ours = report.assigned[PROVIDER]
    assert {op: ours[op] for op in ("Mul", "Sigmoid", "Add", "Gemm", "Softmax")} == {
        "Mul": 1, "Sigmoid": 1, "Add": 1, "Gemm": 1, "Softmax": 1,
    }  # fmt: skip
    assert "Data type 2 is not supported for Conv operator in CPU backend" in report.log
    within_steps(report.outputs, reference(model, feeds))
