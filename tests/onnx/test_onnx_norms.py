"""Normalizations that exporters write as several nodes: found by what they compute."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

CONSTANTS = {
    "two": np.float32(2), "one": np.float32(1), "minus half": np.float32(-0.5),
    "epsilon": np.float32(1e-5),
}  # fmt: skip


def _positive(seed: int, *shape: int) -> np.ndarray:
    return np.abs(random(seed, *shape)) + 0.5


# ---- GroupNorm -------------------------------------------------------------------------------


def _grouped(
    x: str, y: str, groups: int, channels: int, rank: int, unit: bool = True
) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """As torch exports nn.GroupNorm."""
    nodes = [
        node("Reshape", [x, "split"], ["g0"]),
        node("InstanceNormalization", ["g0", "ones", "zeros"], ["g1"], epsilon=1e-4),
        node("Shape", [x], ["whole"]),
        node("Reshape", ["g1", "whole"], ["g2"]),
        node("Mul", ["g2", "gamma"], ["g3"]),
        node("Add", ["g3", "beta"], [y]),
    ]
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    along = (channels, *[1] * (rank - 2))
    return nodes, {
        "split": np.array([0, groups, -1]),
        "ones": ones if unit else _positive(1, groups),
        "zeros": zeros if unit else random(2, groups),
        "gamma": _positive(3, *along),
        "beta": random(4, *along),
    }


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("channels", "groups"), [(12, 3), (12, 1), (40, 8)])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_group_norm_between_convolutions_moves_nothing(
    batch: int, channels: int, groups: int, unit: bool
) -> None:
    norm, constants = _grouped("a", "b", groups, channels, 4, unit)
    nodes = [node("Conv", ["x", "w"], ["a"]), *norm, node("Conv", ["b", "v"], ["y"])]
    constants |= {"w": random(5, channels, 3, 3, 3), "v": random(6, 4, channels, 1, 1)}
    x = random(7, batch, 3, 9, 8)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants), {"x": x}, atol=1e-4)
    assert model.op_counts() == {"Transpose": 2, "Conv2d": 2, "GroupNorm": 1}


@pytest.mark.parametrize("shape", [(2, 12, 7), (1, 12, 5, 6), (2, 12, 3, 4, 2)])
def test_a_group_norm_of_an_input(shape: tuple[int, ...]) -> None:
    nodes, constants = _grouped("x", "y", 4, 12, len(shape))
    x = random(1, *shape)
    model = agree(make(nodes, {"x": shape}, ["y"], constants), {"x": x})
    assert model.op_counts() == {"Transpose": 2, "GroupNorm": 1}


def _operator(opset: int) -> tuple[onnx.ModelProto, np.ndarray]:
    channels, groups = 12, 4
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("GroupNormalization", ["a", "scale", "bias"], ["b"], num_groups=groups),
        node("Add", ["beta", "b"], ["c"]),
        node("Mul", ["gamma", "c"], ["d"]),
        node("Conv", ["d", "v"], ["y"]),
    ]
    scale, bias = _positive(1, groups), random(2, groups)
    if opset >= 21:
        scale, bias = (np.repeat(v, channels // groups) for v in (scale, bias))
    constants = {
        "scale": scale, "bias": bias, "gamma": random(3, channels, 1, 1),
        "beta": random(4, 1, channels, 1, 1), "w": random(5, channels, 3, 3, 3),
        "v": random(6, 4, channels, 1, 1),
    }  # fmt: skip
    x = random(7, 2, 3, 9, 8)
    return make(nodes, {"x": x.shape}, ["y"], constants, opset), x


def test_the_operator_takes_the_scales_behind_it() -> None:
    proto, x = _operator(21)
    model = agree(proto, {"x": x}, atol=1e-4)
    assert model.op_counts() == {"Transpose": 2, "Conv2d": 2, "GroupNorm": 1}


def test_the_first_version_of_the_operator_has_a_scale_for_each_group() -> None:
    """Withdrawn since, so that ONNX Runtime does not run it."""
    (wanted, x), (first, _) = _operator(21), _operator(18)
    loaded = [importer.load(p) for p in (wanted, first)]
    with qnnrt.Session(loaded[0]) as new, qnnrt.Session(loaded[1]) as old:
        np.testing.assert_array_equal(old.run({"x": x})["y"], new.run({"x": x})["y"])


def _arithmetic(
    x: str, y: str, square: str = "Pow", end: str = "Div", centred: bool = True, name: str = "n"
) -> list[onnx.NodeProto]:
    """(x - mean) / sqrt(variance + epsilon), or without the mean, along "axes"."""
    s = {k: f"{name}.{k}" for k in ("m", "d", "q", "v", "e", "r", "i")}
    d = s["d"] if centred else x
    nodes = []
    if centred:
        nodes.append(node("ReduceMean", [x, "axes"], [s["m"]]))
        nodes.append(node("Sub", [x, s["m"]], [d]))
    nodes.append(node(square, [d, "two" if square == "Pow" else d], [s["q"]]))
    nodes.append(node("ReduceMean", [s["q"], "axes"], [s["v"]]))
    nodes.append(node("Add", [s["v"], "epsilon"], [s["e"]]))
    if end == "power":
        nodes.append(node("Pow", [s["e"], "minus half"], [s["i"]]))
    else:
        nodes.append(node("Sqrt", [s["e"]], [s["r"]]))
    if end == "Div":
        return [*nodes, node("Div", [d, s["r"]], [y])]
    if end == "reciprocal":
        nodes.append(node("Reciprocal", [s["r"]], [s["i"]]))
    elif end == "one over":
        nodes.append(node("Div", ["one", s["r"]], [s["i"]]))
    return [*nodes, node("Mul", [s["i"], d], [y])]


def test_arithmetic_over_groups_of_channels_is_a_group_norm() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Reshape", ["a", "split"], ["s"]),
        *_arithmetic("s", "n"),
        node("Reshape", ["n", "whole"], ["b"]),
        node("Mul", ["b", "gamma"], ["c"]),
        node("Add", ["c", "beta"], ["d"]),
        node("Conv", ["d", "v"], ["y"]),
    ]
    constants = CONSTANTS | {
        "w": random(1, 12, 3, 3, 3), "v": random(2, 5, 12, 1, 1), "axes": np.array([2, 3, 4]),
        "gamma": random(3, 12, 1, 1), "beta": random(4, 12, 1, 1),
        "split": np.array([2, 4, 3, 7, 6]), "whole": np.array([2, 12, 7, 6]),
    }  # fmt: skip
    x = random(5, 2, 3, 9, 8)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x}, atol=1e-4)
    assert model.op_counts() == {"Transpose": 2, "Conv2d": 2, "GroupNorm": 1}


@pytest.mark.parametrize(
    ("axes", "becomes"), [([2, 3], "InstanceNorm"), ([1, 2, 3], "GroupNorm"), ([1], "LayerNorm")]
)
def test_arithmetic_on_images_is_the_norm_of_its_axes(axes: list[int], becomes: str) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        *_arithmetic("a", "b"),
        node("Mul", ["b", "gamma"], ["c"]),
        node("Add", ["c", "beta"], ["d"]),
        node("Conv", ["d", "v"], ["y"]),
    ]
    constants = CONSTANTS | {
        "w": random(1, 12, 3, 3, 3), "v": random(2, 5, 12, 1, 1), "axes": np.array(axes),
        "gamma": random(3, 12, 1, 1), "beta": random(4, 12, 1, 1),
    }  # fmt: skip
    x = random(5, 2, 3, 9, 8)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x}, atol=1e-4)
    assert model.op_counts() == {"Transpose": 2, "Conv2d": 2, becomes: 1}


# ---- along the last axis -----------------------------------------------------------------------


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("square", "end"),
    list(itertools.product(["Pow", "Mul"], ["Div", "reciprocal", "one over", "power"])),
)
def test_every_form_of_a_norm_along_the_last_axis(square: str, end: str, centred: bool) -> None:
    nodes = [*_arithmetic("x", "n", square, end, centred), node("Mul", ["gamma", "n"], ["y"])]
    constants = CONSTANTS | {"axes": np.array([-1]), "gamma": random(1, 16)}
    x = random(2, 2, 5, 16) + 1
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x})
    assert model.op_counts() == {"LayerNorm" if centred else "RmsNorm": 1}


@pytest.mark.parametrize("half", [False, True])
def test_a_norm_between_casts(half: bool) -> None:
    """As transformers write it: the statistics in 32 bits, whatever the type around them."""
    outer = onnx.TensorProto.FLOAT16 if half else onnx.TensorProto.FLOAT
    nodes = [
        node("Cast", ["x"], ["a"], to=onnx.TensorProto.FLOAT),
        *_arithmetic("a", "n", end="reciprocal", centred=False),
        node("Cast", ["n"], ["b"], to=outer),
        node("Mul", ["gamma", "b"], ["y"]),
    ]
    dtype = np.float16 if half else np.float32
    constants = CONSTANTS | {"axes": np.array([-1]), "gamma": random(1, 16).astype(dtype)}
    x = random(2, 2, 5, 16).astype(dtype)
    proto = make(nodes, {"x": x.shape}, ["y"], constants, 18, {"x": outer, "y": outer})
    counts = agree(proto, {"x": x}, atol=5e-3 if half else 1e-5).op_counts()
    wanted = {"Cast": 2, "RmsNorm": 1, "ElementWiseMultiply": 1} if half else {"RmsNorm": 1}
    assert counts == wanted


@pytest.mark.parametrize("expanded", [False, True])
def test_a_vector_of_length_one(expanded: bool) -> None:
    """As torch exports functional.normalize."""
    nodes = [
        node("ReduceL2", ["x", "axes"], ["l"]),
        node("Clip", ["l", "epsilon"], ["c"]),
        node("Expand", ["c", "shape"], ["e"]),
        node("Div", ["x", "e" if expanded else "c"], ["y"]),
    ]
    constants = CONSTANTS | {"axes": np.array([-1]), "shape": np.array([2, 5, 16])}
    x = random(2, 2, 5, 16)
    x[0, 1] = 0
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x})
    assert model.op_counts() == {"L2Norm": 1}


def test_weights_of_several_dimensions_join_too() -> None:
    nodes = [
        *_arithmetic("x", "n"),
        node("Mul", ["n", "gamma"], ["a"]),
        node("Add", ["beta", "a"], ["b"]),
        node("Mul", ["b", "two"], ["y"]),
    ]
    gamma, beta = random(1, 1, 5, 16), random(3, 5, 1)
    constants = CONSTANTS | {"axes": np.array([-2, -1]), "gamma": gamma, "beta": beta}
    x = random(2, 2, 5, 16)
    model = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x})
    assert model.op_counts() == {"LayerNorm": 1}


# ---- what only looks like one --------------------------------------------------------------------


def _near_misses() -> dict[str, tuple[list[onnx.NodeProto], list[str], dict[str, np.ndarray]]]:
    whole = _arithmetic("x", "y")
    square, plus, last = (whole[i] for i in (2, 4, 6))

    def but(old: onnx.NodeProto, *new: onnx.NodeProto) -> list[onnx.NodeProto]:
        at = next(i for i, n in enumerate(whole) if n is old)
        return [*whole[:at], *new, *whole[at + 1 :]]

    return {
        "the variance is an output": (whole, ["y", "n.v"], {}),
        "a cube": (but(square, node("Pow", ["n.d", "three"], ["n.q0"]),
                       node("Abs", ["n.q0"], ["n.q"])), ["y"], {"three": np.float32(3)}),
        "epsilon behind the root": (
            [*whole[:4], node("Sqrt", ["n.v"], ["n.e"]), node("Add", ["n.e", "epsilon"], ["n.r"]),
             last], ["y"], {},
        ),
        "no epsilon": (but(plus, node("Identity", ["n.v"], ["n.e"])), ["y"], {}),
        "an epsilon for each row": (
            but(plus, node("Add", ["n.v", "rows"], ["n.e"])), ["y"], {"rows": _positive(9, 5, 1)},
        ),
        "a least variance for each row": (
            but(plus, node("Max", ["n.v", "rows"], ["n.l"]),
                node("Add", ["n.l", "epsilon"], ["n.e"])), ["y"], {"rows": _positive(9, 5, 1)},
        ),
        "another numerator": (but(last, node("Div", ["x", "n.r"], ["y"])), ["y"], {}),
    }  # fmt: skip


@pytest.mark.parametrize("case", _near_misses())
def test_what_is_no_norm_stays_arithmetic(case: str) -> None:
    nodes, outputs, more = _near_misses()[case]
    x = random(1, 2, 5, 16)
    proto = make(nodes, {"x": x.shape}, outputs, CONSTANTS | {"axes": np.array([-1])} | more, 18)
    counts = agree(proto, {"x": x}, atol=1e-4).op_counts()
    assert not {"LayerNorm", "RmsNorm", "GroupNorm", "InstanceNorm"} & set(counts)


@pytest.mark.parametrize("case", ["the mean", "the difference"])
def test_what_is_left_without_a_mean_that_others_need_is_an_rms_norm(case: str) -> None:
    nodes = _arithmetic("x", "y")
    if case == "the difference":
        nodes.append(node("Relu", ["n.d"], ["z"]))
    outputs = ["y", "n.m" if case == "the mean" else "z"]
    x = random(1, 2, 5, 16)
    proto = make(nodes, {"x": x.shape}, outputs, CONSTANTS | {"axes": np.array([-1])}, 18)
    counts = agree(proto, {"x": x}, atol=1e-4).op_counts()
    counts.pop("Relu", None)
    assert counts == {"ReduceMean": 1, "ElementWiseSubtract": 1, "RmsNorm": 1}


@pytest.mark.parametrize("centred", [True, False])
def test_a_sum_of_squares_is_a_norm_of_another_scale(centred: bool) -> None:
    nodes = [
        node("ReduceSum", [n.input[0], "axes"], [n.output[0]])
        if n.op_type == "ReduceMean" and n.output[0] == "n.v"
        else n
        for n in _arithmetic("x", "y", centred=centred)
    ]
    x = random(1, 2, 5, 16)
    proto = make(nodes, {"x": x.shape}, ["y"], CONSTANTS | {"axes": np.array([-1])}, 18)
    model = agree(proto, {"x": x})
    assert model.op_counts() == {"LayerNorm" if centred else "RmsNorm": 1}


@pytest.mark.parametrize("which", ["mean", "square"])
def test_a_mean_along_another_axis_is_not_part_of_the_norm(which: str) -> None:
    nodes = _arithmetic("x", "y")
    nodes[0 if which == "mean" else 3].input[1] = "other"
    x = random(1, 2, 5, 16)
    constants = CONSTANTS | {"axes": np.array([-1]), "other": np.array([1])}
    counts = agree(make(nodes, {"x": x.shape}, ["y"], constants, 18), {"x": x}).op_counts()
    assert counts == {"ReduceMean": 1, "ElementWiseSubtract": 1, "RmsNorm": 1}


@pytest.mark.parametrize("case", ["batch", "computed scale", "channels in no groups"])
def test_an_instance_norm_of_other_reshapes_stays_one(case: str) -> None:
    split = {
        "batch": (4, 6, 42),
        "computed scale": (2, 4, 126),
        "channels in no groups": (2, 8, 63),
    }
    shape = split.get(case, (2, 8, 63))
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Reshape", ["a", "split"], ["b"]),
        node("InstanceNormalization", ["b", "scale", "bias"], ["c"]),
        node("Reshape", ["c", "whole"], ["y"]),
    ]
    constants = {
        "w": random(1, 12, 3, 3, 3), "split": np.array(shape), "whole": np.array([2, 12, 7, 6]),
        "scale": random(2, shape[1]), "bias": random(3, shape[1]),
    }  # fmt: skip
    inputs: dict[str, tuple[object, ...]] = {"x": (2, 3, 9, 8)}
    feeds = {"x": random(5, 2, 3, 9, 8)}
    if case == "computed scale":
        feeds["scale"] = constants.pop("scale")
        inputs["scale"] = (shape[1],)
    counts = agree(make(nodes, inputs, ["y"], constants), feeds, atol=1e-4).op_counts()
    assert counts["InstanceNorm"] == 1
    assert "GroupNorm" not in counts


def test_a_scale_for_each_pixel_stays_a_multiplication() -> None:
    norm, constants = _grouped("a", "b", 4, 12, 4)
    constants["gamma"] = random(8, 1, 7, 6)
    nodes = [node("Conv", ["x", "w"], ["a"]), *norm]
    constants["w"] = random(5, 12, 3, 3, 3)
    x = random(7, 2, 3, 9, 8)
    counts = agree(make(nodes, {"x": x.shape}, ["b"], constants), {"x": x}, atol=1e-4).op_counts()
    assert counts["GroupNorm"] == 1
    assert counts["ElementWiseMultiply"] == 1
    assert counts["ElementWiseAdd"] == 1


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_a_vector_of_zeros_has_no_norm_in_any_precision(precision: str) -> None:
    x = np.array([[1, 2, -5, 0], [0, 0, 0, 0], [2**-12, 0, 0, 0]], np.float32)
    proto = make([node("LpNormalization", ["x"], ["y"], axis=1, p=1)], {"x": x.shape}, ["y"])
    with qnnrt.Session(importer.load(proto), "htp", precision=precision) as session:
        y = session.run({"x": x})["y"]
    wanted = [[0.125, 0.25, -0.625, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(y, wanted, rtol=0.01)


@pytest.mark.parametrize("constant", [True, False])
def test_weights_that_batch_statistics_standardize(constant: bool) -> None:
    """As timm's ScaledStdConv2d is exported."""
    gain, w = _positive(2, 6), random(1, 1, 6, 27)
    nodes = [
        node("BatchNormalization", ["w", "gain", "none", "none", "one"],
             ["standard", "m", "v"], training_mode=1, epsilon=1e-3),
        node("Add", ["x", "standard"], ["y"]),
    ]  # fmt: skip
    constants = {"gain": gain, "none": np.zeros(6, np.float32), "one": np.ones(6, np.float32)}
    x = random(3, 1, 6, 27)
    feeds, inputs = {"x": x, "w": w}, {"x": x.shape, "w": w.shape}
    if constant:
        constants["w"] = feeds.pop("w")
        del inputs["w"]
    model = importer.load(make(nodes, inputs, ["y"], constants))
    with qnnrt.Session(model) as session:
        y = session.run(feeds)["y"]
    centred = w - w.mean(2, keepdims=True)
    root = np.sqrt((centred**2).mean(2, keepdims=True) + 1e-3)
    np.testing.assert_allclose(y, x + centred / root * gain[:, None], atol=1e-5)
    assert not constant or model.op_counts() == {"ElementWiseAdd": 1}


@pytest.mark.parametrize("backend", ["cpu", "htp"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_statistics_of_a_layer_norm_leave_its_result_alone(precision: str, backend: str) -> None:
    """Squares of differences of 300 are infinite in half precision: y was 0 or no number."""
    layer = node("LayerNormalization", ["x", "s", "b"], ["y", "mean", "inverse"], epsilon=1e-3)
    spread = np.float32([[0], [1e-3], [1], [300], [2000]])
    x = random(1, 5, 40) * spread + np.float32(3) * spread
    constants = {"s": random(2, 40), "b": random(3, 40)}
    proto = make([layer], {"x": x.shape}, ["y", "mean", "inverse"], constants)
    mean, deviation = x.mean(1, keepdims=True), np.sqrt(x.astype(np.float64).var(1) + 1e-3)[:, None]
    wanted = ((x - mean) / deviation * constants["s"] + constants["b"], mean, 1 / deviation)
    bound = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 4e-3}[precision]
    with qnnrt.Session(importer.load(proto), backend, precision=precision) as session:
        for name, ref in zip(proto.graph.output, wanted, strict=True):
            found = session.run({"x": x})[name.name]
            np.testing.assert_allclose(found, ref, rtol=bound, atol=bound)
