"""Valid nodes of unusual shapes, types and values: computed as ONNX Runtime does, or named."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def test_a_constant_that_onnx_evaluates_wrongly_is_computed_by_the_graph() -> None:
    """The reference evaluator of onnx drops the channels of a GlobalMaxPool over [N, C, W]."""
    nodes = [node("GlobalMaxPool", ["c"], ["p"]), node("Add", ["x", "p"], ["y"])]
    agree(
        make(nodes, {"x": (1, 8, 1)}, ["y"], {"c": random(1, 1, 8, 5)}), {"x": random(2, 1, 8, 1)}
    )


@pytest.mark.parametrize("kind", [np.uint8, np.int32])
def test_integers_shrink(kind: type) -> None:
    types = {"x": helper.np_dtype_to_tensor_dtype(np.dtype(kind))}
    x = np.array([0, 1, 2, 5, 9], kind)
    proto = make([node("Shrink", ["x"], ["y"], lambd=1.5)], {"x": (5,)}, ["y"], types=types)
    agree(proto, {"x": x})


@pytest.mark.parametrize("size", [(20, 31), (90, 100), (20, 100)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased_pixels_that_are_bytes_are_rounded(mode: str, size: tuple[int, int]) -> None:
    """As ONNX Runtime does, after each axis; a weight in fixed point moves some by one."""
    x = np.random.default_rng(1).integers(0, 256, (1, 3, 48, 64), np.uint8)
    nodes = [node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)]
    proto = make(nodes, {"x": x.shape}, ["y"], {"s": np.array([1, 3, *size])}, 19,
                 {"x": TensorProto.UINT8})  # fmt: skip
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    with qnnrt.Session(importer.load(proto)) as session:
        y = session.run({"x": x})["y"]
    apart = np.abs(y.astype(int) - wanted)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.05


@pytest.mark.parametrize("axes", [[-1, 0], [0, 2, -1], [1]])
def test_normalization_along_axes_counted_from_the_end(axes: list[int]) -> None:
    nodes = [node("MeanVarianceNormalization", ["x"], ["y"], axes=axes)]
    agree(make(nodes, {"x": (2, 3, 4, 5)}, ["y"]), {"x": random(1, 2, 3, 4, 5)}, atol=1e-4)


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
def test_a_mean_of_nothing_is_zero(axes: list[int]) -> None:
    """Of an input, and of a constant."""
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=axes, keepdims=0),
        node("ReduceMean", ["c"], ["k"], axes=axes, keepdims=0),
        node("Add", ["m", "k"], ["s"]),
        node("Add", ["s", "one"], ["y"]),
    ]
    constants = {"c": np.zeros((0, 3), np.float32)}
    shapes = {"x": (0, 3), "one": (1,)}
    if axes == [1]:
        shapes["one"] = (1, 1)
    proto = make(nodes, shapes, ["y"], constants)
    feeds = {"x": np.zeros((0, 3), np.float32), "one": np.ones(shapes["one"], np.float32)}
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    with qnnrt.Session(importer.load(proto)) as session:
        given = {name: feeds[name] for name in session.inputs}
        np.testing.assert_array_equal(session.run(given)["y"], wanted)


def test_an_axis_that_is_named_twice_is_reduced_once() -> None:
    proto = make([node("ReduceSum", ["x", "a"], ["y"])], {"x": (2, 3)}, ["y"], {"a": np.array([0])})
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([0, -2]), "a"))
    agree(proto, {"x": random(1, 2, 3)})


def test_an_empty_auto_pad_is_none() -> None:
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0], auto_pad="")]
    agree(make(nodes, {"x": (1, 2, 5)}, ["y"]), {"x": random(1, 1, 2, 5)})


def test_the_end_of_a_shape_may_be_any_integer() -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=1, end=2**63 - 1),
        node("ConstantOfShape", ["s"], ["c"]),
        node("Add", ["x", "c"], ["y"]),
    ]
    agree(make(nodes, {"x": (2, 3)}, ["y"]), {"x": random(1, 2, 3)})


def test_hardmax_of_a_vector() -> None:
    agree(make([node("Hardmax", ["x"], ["y"])], {"x": (5,)}, ["y"]), {"x": random(1, 5)})


def test_one_hot_of_a_scalar() -> None:
    nodes = [node("OneHot", ["x", "depth", "values"], ["y"])]
    constants = {"depth": np.array([4]), "values": np.array([0, 1], np.float32)}
    types = {"x": TensorProto.INT64}
    proto = make(nodes, {"x": (1,)}, ["y"], constants, types=types)
    del proto.graph.input[0].type.tensor_type.shape.dim[:]
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    model = importer.load(proto)
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run({"x": np.array([2]).reshape(model.tensors["x"].shape)})["y"]
    np.testing.assert_array_equal(found.ravel(), [0, 0, 1, 0])


@pytest.mark.parametrize("step", [5, 2**40, 2**62, -5, -(2**40), -(2**63)])
def test_a_slice_with_a_step_beyond_the_end_takes_one_element(step: int) -> None:
    ends = {1: 2**63 - 1, -1: -(2**63)}[1 if step > 0 else -1]
    constants = {
        "starts": np.array([1]), "ends": np.array([ends]), "axes": np.array([0]),
        "steps": np.array([step]),
    }  # fmt: skip
    nodes = [node("Slice", ["x", *constants], ["y"])]
    proto = helper.make_model(
        helper.make_graph(
            nodes,
            "slice",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3))],
            [onnx.ValueInfoProto(name="y")],
            [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    x = random(1, 4, 3)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], x[1:2])


@pytest.mark.parametrize("k", [2**62, -(2**62), 3, -3])
def test_a_triangle_beyond_the_matrix_is_all_or_nothing(k: int) -> None:
    proto = make([node("Trilu", ["x", "k"], ["y"])], {"x": (3, 4)}, ["y"], {"k": np.array(k)})
    x = random(1, 3, 4)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.triu(x, max(min(k, 9), -9)))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3)])
def test_a_triangle_that_the_data_decide(upper: int, shape: tuple[int, ...]) -> None:
    info = helper.make_tensor_value_info
    proto = helper.make_model(
        helper.make_graph(
            [node("Trilu", ["x", "k"], ["y"], upper=upper)],
            "g",
            [info("x", TensorProto.FLOAT, shape), info("k", TensorProto.INT64, ())],
            [info("y", TensorProto.FLOAT, shape)],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    x = random(1, *shape)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        for k in (-(2**40), -3, -1, 0, 2, 9):
            found = session.run({"x": x, "k": np.array(k)})["y"]
            np.testing.assert_array_equal(
                found, (np.triu if upper else np.tril)(x, max(min(k, 9), -9))
            )


def test_scales_of_channels_that_the_graph_computes() -> None:
    nodes = [node("Abs", ["s"], ["scale"]), node("QuantizeLinear", ["x", "scale"], ["q"], axis=1)]
    nodes.append(node("DequantizeLinear", ["q", "scale"], ["y"], axis=1))
    proto = make(nodes, {"x": (2, 3), "s": (3,)}, ["y"])
    agree(proto, {"x": np.abs(random(1, 2, 3)), "s": random(2, 3) + 2})


def test_a_node_without_elements_is_a_constant() -> None:
    constants = {"starts": np.array([3]), "ends": np.array([1])}
    nodes = [
        node("Slice", ["x", *constants], ["none"]),
        node("Relu", ["none"], ["still"]),
        node("Concat", ["x", "still"], ["y"], axis=0),
    ]
    proto = make(nodes, {"x": (4, 3)}, ["y"], constants)
    agree(proto, {"x": random(1, 4, 3)})


def _single(op: str, inputs: dict[str, tuple[int, ...]], opset: int = 21, **attrs: object):  # type: ignore[no-untyped-def]
    types = attrs.pop("types", {})
    constants = attrs.pop("constants", {})
    return make([node(op, [*inputs, *constants], ["y"], **attrs)], inputs, ["y"], constants, opset,
                types)  # fmt: skip


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(1, 2, 3), (4, 3, 5)]),
        ("...ij,...jk->...ik", [(4, 2, 3), (3, 5)]),
        ("i,i->i", [(1,), (4,)]),
        ("i,i->", [(1,), (4,)]),
        ("ij,ij->j", [(1, 5), (3, 1)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("...i,...i->...", [(2, 1, 3), (1, 5, 3)]),
        ("ii,i->i", [(1, 1), (3,)]),
        ("ij,ij,ij->i", [(2, 1), (1, 3), (2, 3)]),
    ],
)
def test_einsum_broadcasts_a_dimension_of_one(equation: str, shapes: list[tuple[int, ...]]) -> None:
    given = {f"x{i}": random(i, *shape) for i, shape in enumerate(shapes)}
    nodes = [node("Einsum", list(given), ["y"], equation=equation)]
    model = importer.load(make(nodes, {k: x.shape for k, x in given.items()}, ["y"]))
    with qnnrt.Session(model) as session:
        y = session.run(given)["y"]
    # numpy wants repeated letters of one size in one operand, and has no ellipsis left over.
    wanted = np.einsum(equation, *(x.astype(np.float64) for x in given.values()))
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("scale", [(), (1,), (4,), (3, 1), (1, 1, 3, 4), (2, 1, 1), (2, 3, 4)])
def test_a_scale_that_is_computed_is_broadcast_to_what_is_normalized(
    op: str, scale: tuple[int, ...]
) -> None:
    names = ["x", "s", "b"] if op == "LayerNormalization" else ["x", "s"]
    given = {"x": random(1, 2, 3, 4), "s": random(2, *scale), "b": random(3, *scale)}
    given = {name: given[name] for name in names}
    shapes = {k: x.shape for k, x in given.items()}
    model = importer.load(make([node(op, names, ["y"], axis=1)], shapes, ["y"], opset=23))
    with qnnrt.Session(model) as session:
        y = session.run(given)["y"]
    x = given["x"].astype(np.float64)
    if op == "LayerNormalization":
        x = x - x.mean((1, 2), keepdims=True)
    wanted = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5)
    scale = scale[-3:]
    wanted = wanted * given["s"].reshape(scale) + (given["b"].reshape(scale) if "b" in given else 0)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


REFUSED = {
    "reflection of more than there is": lambda: _single(
        "Pad", {"x": (2, 2)}, mode="reflect", constants={"pads": np.array([2, 0, 0, 0])}
    ),
    "a sampler of integers": lambda: _single(
        "GridSample", {"x": (1, 1, 3, 3), "g": (1, 2, 2, 2)}, types={"x": TensorProto.UINT8}
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_qnn_cannot_express_is_named_when_it_is_loaded(name: str) -> None:
    with pytest.raises(UnsupportedOpError):
        importer.load(REFUSED[name]())


def test_a_name_in_a_branch_that_nothing_gives_is_no_input_left_out() -> None:
    """It used to count as an optional input that is not there."""
    float_ = TensorProto.FLOAT
    branch = helper.make_graph(
        [node("Clip", ["x", "nowhere"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", float_, (3,))],
    )
    graph = helper.make_graph(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        "test",
        [helper.make_tensor_value_info("x", float_, (3,))],
        [helper.make_tensor_value_info("y", float_, (3,))],
        [onnx.numpy_helper.from_array(np.array(True), "c")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(ModelError, match="'nowhere'"):
        importer.load(proto)


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("off", [1.0, 1 + 1e-6, 1 + 1e-4, 1.2])
def test_a_linear_resize_goes_by_its_scales(mode: str, off: float) -> None:
    """QNN's operation has sizes alone; scales that are not their ratio give other coordinates.

    ONNX's evaluator is the measure: ONNX Runtime's align_corners knows sizes alone, too."""
    scales = np.array([1, 1, 2 / 9 * off, 3.0 * off], np.float32)
    proto = make(
        [node("Resize", ["x", "", "scales"], ["y"], mode="linear",
              coordinate_transformation_mode=mode)],
        {"x": (1, 2, 9, 7)}, ["y"], {"scales": scales},
    )  # fmt: skip
    x = np.cumsum(random(1, 1, 2, 9, 7) ** 2, axis=2) * 100  # steep, and never the same
    wanted = ReferenceEvaluator(proto).run(None, {"x": x.astype(np.float64)})[0]
    model = importer.load(proto)
    # A ratio that is only rounded to float32 stays one operation.
    assert ("ResizeBilinear" in model.op_counts()) == (off == 1.0)
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners"])
def test_integers_are_resized_and_cut_off(mode: str, kind: type) -> None:
    """As models of ONNX Runtime's QOperator format have it: no Dequantize around a Resize."""
    info = np.iinfo(kind)
    sizes = {"sizes": np.array([1, 2, 13, 7])}
    types = {name: helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for name in ("x", "y")}
    proto = make(
        [node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear",
              coordinate_transformation_mode=mode)],
        {"x": (1, 2, 5, 4)}, ["y"], sizes, types=types,
    )  # fmt: skip
    x = np.random.default_rng(1).integers(info.min, info.max, (1, 2, 5, 4), endpoint=True)
    x = x.astype(kind)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    wanted = session.run(None, {"x": x})[0].astype(np.int64)
    with qnnrt.Session(importer.load(proto), backend="cpu") as s:
        found = s.run({"x": x})["y"].astype(np.int64)
    # Where the exact number is whole, the last bit of a float decides.
    assert np.abs(found - wanted).max() <= 1
    assert np.mean(found != wanted) < 0.1


@pytest.mark.parametrize(
    ("attributes", "padding"),
    [
        ({"strides": [2, 2], "output_shape": [13, 9]}, r"\[4, 0\]"),
        ({"strides": [1, 2], "dilations": [3, 1], "output_padding": [2, 1]}, r"\[2, 1\]"),
    ],
)
def test_an_output_padding_that_qnn_does_not_have_is_said_at_load(
    attributes: dict[str, list[int]], padding: str
) -> None:
    weights = {"w": np.ones((1, 1, 3, 3), np.float32)}
    transposed = node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    model = make([transposed], {"x": (1, 1, 4, 4)}, ["y"], weights)
    with pytest.raises(UnsupportedOpError, match=f"output padding {padding} that is not less"):
        importer.load(model)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_rnn_of_many_steps(direction: str) -> None:
    """More than are unrolled."""
    ways = 2 if direction == "bidirectional" else 1
    constants = {"w": random(1, ways, 5, 3), "r": random(2, ways, 5, 5) * 0.3,
                 "b": random(3, ways, 10)}  # fmt: skip
    names = ["x", "w", "r", "b", "", "h"]
    how = {"hidden_size": 5, "direction": direction}
    given = {"x": random(4, 300, 2, 3), "h": random(5, ways, 2, 5)}
    shapes = {name: x.shape for name, x in given.items()}
    proto = make([node("RNN", names, ["y", "last"], **how)], shapes, ["y", "last"], constants)
    agree(proto, given)
    proto.graph.node[0].attribute.append(helper.make_attribute("activations", ["Relu"] * ways))
    with pytest.raises(UnsupportedOpError, match="an RNN of Relu is unrolled up to 256"):
        importer.load(proto)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_wide_integers_are_not_interpolated(dtype: type[np.generic], mode: str) -> None:
    """Floats do not have all of their digits, and products of integers none behind the point."""
    resize = node("Resize", ["x", "", "scales"], ["y"], mode=mode)
    for shape in ((1, 4, 6, 6), (4, 6)):
        scales = np.array([1] * (len(shape) - 1) + [2], np.float32)
        types = dict.fromkeys("xy", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        model = make([resize], {"x": shape}, ["y"], {"scales": scales}, types=types)
        with pytest.raises(UnsupportedOpError, match="floats have not all its digits"):
            importer.load(model)


@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 2, 1, 4), (1, 2, 2, 1, 5)])
@pytest.mark.parametrize("op", ["AveragePool", "LpPool", "MaxPool"])
def test_a_window_that_goes_beyond_all_there_is(op: str, shape: tuple[int, ...]) -> None:
    """With ceil_mode the only window along an axis may end behind the tensor."""
    rank = len(shape) - 2
    size = [d + 1 for d in shape[2:]]
    for counted in range(2) if op == "AveragePool" else (None,):
        how = {} if counted is None else {"count_include_pad": counted}
        pool = node(op, ["x"], ["y"], kernel_shape=size, strides=[2] * rank, ceil_mode=1, **how)
        agree(make([pool], {"x": shape}, ["y"], opset=19), {"x": random(1, *shape)})
    pool = node(op, ["x"], ["y"], kernel_shape=[d + 2 for d in shape[2:]], strides=[2] * rank,
                ceil_mode=1)  # fmt: skip
    with pytest.raises(ModelError, match="does not fit into"):
        importer.load(make([pool], {"x": shape}, ["y"], opset=19))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("to", ["bool", "float16", "float32", "int32", "int64", "uint8"])
def test_codes_that_are_cast_are_the_integers(kind: str, to: str) -> None:
    """Of a QuantizeLinear and of a tensor that is moved, also beside their DequantizeLinear; and
    the other way, of integers that become codes."""
    code, number = (helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (kind, to))
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Transpose", ["q"], ["t"], perm=[1, 0]),
        node("DequantizeLinear", ["t", "s", "z"], ["d"]),
        node("Cast", ["q"], ["a"], to=number),
        node("Cast", ["t"], ["b"], to=number),
        node("Cast", ["i"], ["c"], to=code),
        node("DequantizeLinear", ["c", "s", "z"], ["e"]),
    ]
    proto = make(
        nodes, {"x": (4, 5), "i": (3,)}, ["a", "b", "d", "e"],
        {"s": np.array(0.25, np.float32), "z": np.array(3, kind)}, 21,
        {"i": TensorProto.INT64, "a": number, "b": number},
    )  # fmt: skip
    x = np.linspace(0, 20, 20, dtype=np.float32).reshape(4, 5)  # as 8 bits without a sign
    agree(proto, {"x": x, "i": np.array([0, 7, 99], np.int64)})


@pytest.mark.parametrize("outputs", [["y", "", ""], ["y", "h", ""], ["", "h", ""], ["", "", "c"]])
def test_results_that_nobody_wants_have_no_name(outputs: list[str]) -> None:
    """Of an LSTM over sequences of several lengths, which is written as other operators."""
    constants = {"w": random(1, 2, 8, 3), "r": random(2, 2, 8, 2), "l": np.array([2, 4], np.int32)}
    lstm = node("LSTM", ["x", "w", "r", "", "l"], outputs, hidden_size=2, direction="bidirectional")
    proto = make([lstm], {"x": (4, 2, 3)}, [o for o in outputs if o], constants)
    agree(proto, {"x": random(3, 4, 2, 3)})


@pytest.mark.parametrize(
    ("op", "how"),
    [
        ("GlobalLpPool", {}),
        ("LpPool", {"kernel_shape": [2, 3]}),
        ("LpPool", {"kernel_shape": [2, 2], "dilations": [1, 2]}),
        ("ReduceL2", {"axes": [2, -1]}),
        ("ReduceL2", {"axes": [1], "keepdims": 0}),
    ],
)
@pytest.mark.parametrize("scale", [1, 1000])
def test_squares_that_halves_do_not_hold(op: str, how: dict[str, object], scale: int) -> None:
    """The root of their sum is one again, which is what counts."""
    opset = 17 if op == "ReduceL2" else 18
    types = dict.fromkeys("xy", TensorProto.FLOAT16)
    proto = make([node(op, ["x"], ["y"], **how)], {"x": (2, 3, 4, 5)}, ["y"], {}, opset, types)
    x = (random(1, 2, 3, 4, 5) * scale).astype(np.float16)
    x[0] = x[0, 0]
    agree(proto, {"x": x}, atol=2e-3)


@pytest.mark.parametrize("scale", [0, 1, 1000])
def test_a_variance_that_halves_do_not_hold(scale: int) -> None:
    """Beside numpy: ONNX Runtime has no such kernel, and no types for ONNX's function."""
    types = dict.fromkeys("xy", TensorProto.FLOAT16)
    nodes = [node("MeanVarianceNormalization", ["x"], ["y"])]
    x = (random(1, 2, 3, 4, 5) * scale).astype(np.float16)
    wide = x.astype(np.float64)
    wanted = wide - wide.mean((0, 2, 3), keepdims=True)
    wanted /= np.sqrt((wanted**2).mean((0, 2, 3), keepdims=True)) + 1e-9
    with qnnrt.Session(importer.load(make(nodes, {"x": x.shape}, ["y"], types=types))) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, atol=2e-3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_constant_of_more_dimensions_behind_a_transpose(side: str) -> None:
    """As torch.bucketize of rearranged pixels is exported."""
    limits = np.array([0.0, 0.5], np.float32).reshape(2, 1, 1, 1, 1)
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Mul", ["t", "t"], ["m"]),
        node("Greater", ["m", "c"] if side == "left" else ["c", "m"], ["g"]),
        node("Cast", ["g"], ["i"], to=TensorProto.INT64),
        node("ReduceSum", ["i", "axes"], ["y"], keepdims=0),
    ]
    constants = {"c": limits, "axes": np.array([0])}
    types = {"y": TensorProto.INT64}
    proto = make(nodes, {"x": (1, 6, 8, 4)}, ["y"], constants, types=types)
    agree(proto, {"x": random(1, 1, 6, 8, 4)})
