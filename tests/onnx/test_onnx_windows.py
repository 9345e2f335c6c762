"""Convolutions with the pads, slices and reshapes that exporters put around them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from qnnrt import Session
from qnnrt.importers import onnx as importer
from qnnrt.model import Model, Node, Quantization, Tensor
from support.one_node import pairs, u32
from support.onnx.agreement import make

node = helper.make_node


def values(name: str, *shape: int) -> onnx.TensorProto:
    r = np.random.default_rng(sum(map(ord, name)))
    return numpy_helper.from_array(r.uniform(0.2, 1.0, shape).astype(np.float32), name)


def ints(name: str, *of: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(of, np.int64), name)


ONE = numpy_helper.from_array(np.array(1, np.float32), "one")
NORM = [values(name, 8) for name in ("scale", "shift", "mean", "variance")]
NORM_OF = ["scale", "shift", "mean", "variance"]
FIRST, LAST = node("Conv", ["x", "w0"], ["a"]), node("Conv", ["z", "w9"], ["y"])
LINE = [values("w0", 6, 4, 1), values("w", 8, 6, 3), values("w9", 5, 8, 1), *NORM]
IMAGE = [values("w0", 6, 4, 1, 1), values("w", 8, 6, 3, 3), values("w9", 5, 8, 1, 1), *NORM]

Case = tuple[list[onnx.NodeProto], list[onnx.TensorProto], list[int], list[str]]
ENDS = ["Transpose", "Conv2d"], ["Conv2d", "Transpose"]
ALL = ["Transpose", "Conv2d", "Conv2d", "Conv2d", "Transpose"]

#: Nodes between two convolutions of one pixel, constants, the input's shape, the steps.
CASES: dict[str, Case] = {
    "normalized line": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[1, 1]),
            node("BatchNormalization", ["b", *NORM_OF], ["c"]),
            node("Relu", ["c"], ["z"]),
        ],
        LINE, [2, 4, 20], ALL,
    ),
    "causal, by a slice": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[8, 8], dilations=[4]),
            node("Slice", ["b", "zero", "minus8", "two"], ["c"]),
            node("BatchNormalization", ["c", *NORM_OF], ["d"]),
            node("Relu", ["d"], ["z"]),
        ],
        [*LINE, ints("zero", 0), ints("minus8", -8), ints("two", 2)], [1, 4, 30], ALL,
    ),
    "causal, by a pad": (
        [
            node("Pad", ["a", "pads"], ["b"]),
            node("Conv", ["b", "w"], ["c"], dilations=[4]),
            node("Relu", ["c"], ["z"]),
        ],
        [*LINE, ints("pads", 0, 0, 8, 0, 0, 0)], [1, 4, 30], ALL,
    ),
    "residual line": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[1, 1]),
            node("Conv", ["a", "w1"], ["c"], pads=[2, 2], dilations=[2]),
            node("Add", ["b", "c"], ["d"]),
            node("Relu", ["d"], ["z"]),
        ],
        [*LINE, values("w1", 8, 6, 3)], [1, 4, 20],
        ["Transpose", "Conv2d", "Conv2d", "Conv2d", "Conv2d", "Transpose"],
    ),
    "padded image": (
        [
            node("Pad", ["a", "pads"], ["b"]),
            node("Conv", ["b", "w"], ["c"], strides=[2, 2], pads=[0, 1, 0, 0]),
            node("Relu", ["c"], ["z"]),
        ],
        [*IMAGE, ints("pads", 0, 0, 0, 1, 0, 0, 1, 1)], [1, 4, 10, 11], ALL,
    ),
    "cut image": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[2, 2, 2, 2]),
            node("Slice", ["b", "begin", "end", "axes"], ["c"]),
            node("Relu", ["c"], ["z"]),
        ],
        [*IMAGE, ints("begin", 1, 2), ints("end", -1, 10), ints("axes", 2, 3)], [1, 4, 9, 10], ALL,
    ),
    "cut with strides": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[2, 4, 3, 5], strides=[2, 3]),
            node("Slice", ["b", "begin", "end", "axes"], ["z"]),
        ],
        [*IMAGE, ints("begin", 1, 1), ints("end", -1, -1), ints("axes", 2, 3)], [1, 4, 11, 11],
        ALL,
    ),
    "window past the image": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[12, 12, 12, 12], dilations=[12, 12]),
            node("Relu", ["b"], ["z"]),
        ],
        IMAGE, [1, 4, 9, 20], ALL,
    ),
    # What is not the convolution's to do.
    "padded with ones": (
        [node("Pad", ["a", "pads", "one"], ["b"]), node("Conv", ["b", "w"], ["z"])],
        [*IMAGE, ints("pads", 0, 0, 1, 1, 0, 0, 1, 1), ONE],
        [1, 4, 9, 10], [*ENDS[0], "Pad", "Conv2d", *ENDS[1]],
    ),
    "padded by copies": (
        [node("Pad", ["a", "pads"], ["b"], mode="edge"), node("Conv", ["b", "w"], ["z"])],
        [*IMAGE, ints("pads", 0, 0, 1, 1, 0, 0, 1, 1)],
        [1, 4, 9, 10], [*ENDS[0], "Pad", "Conv2d", *ENDS[1]],
    ),
    "padded channels": (
        [node("Pad", ["a", "pads"], ["b"]), node("Conv", ["b", "w1"], ["z"])],
        [*IMAGE, values("w1", 8, 7, 3, 3), ints("pads", 0, 1, 1, 1, 0, 0, 1, 1)],
        [1, 4, 9, 10], [*ENDS[0], "Pad", "Conv2d", *ENDS[1]],
    ),
    "padded more than a window": (
        [node("Pad", ["a", "pads"], ["b"]), node("Conv", ["b", "w"], ["z"])],
        [*IMAGE, ints("pads", 0, 0, 3, 1, 0, 0, 1, 1)],
        [1, 4, 9, 10], [*ENDS[0], "Pad", "Conv2d", *ENDS[1]],
    ),
    "cut into the image": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
            node("Slice", ["b", "begin", "end", "axes"], ["z"]),
        ],
        [*IMAGE, ints("begin", 2), ints("end", 7), ints("axes", 3)],
        [1, 4, 9, 10], [*ENDS[0], "Conv2d", "StridedSlice", *ENDS[1]],
    ),
    "every second": (
        [
            node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
            node("Slice", ["b", "begin", "end", "axes", "step"], ["z"]),
        ],
        [*IMAGE, ints("begin", 0), ints("end", 9), ints("axes", 2), ints("step", 2)],
        [1, 4, 9, 10], [*ENDS[0], "Conv2d", "StridedSlice", *ENDS[1]],
    ),
    "read twice": (
        [
            node("Pad", ["a", "pads"], ["b"]),
            node("Conv", ["b", "w"], ["c"]),
            node("Conv", ["b", "w1"], ["d"], pads=[1, 1, 1, 1], dilations=[2, 2]),
            node("Add", ["c", "d"], ["z"]),
        ],
        [*IMAGE, values("w1", 8, 6, 3, 3), ints("pads", 0, 0, 1, 1, 0, 0, 1, 1)],
        [1, 4, 9, 10], [*ENDS[0], "Pad", "Conv2d", "Conv2d", *ENDS[1]],
    ),
}  # fmt: skip


def model_of(name: str) -> tuple[onnx.ModelProto, np.ndarray]:
    nodes, constants, shape, _ = CASES[name]
    graph = helper.make_graph(
        [FIRST, *nodes, LAST],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, np.random.default_rng(7).standard_normal(shape, np.float32)


def steps(session: Session) -> list[str]:
    return [step["op"] for step in json.loads(session.graph.describe() or "")["steps"]]


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_takes_what_is_around_it(name: str) -> None:
    model, x = model_of(name)
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = peer.run(None, {"x": x})
    with Session(importer.load(model)) as session:
        session.run({"x": x})
        np.testing.assert_allclose(
            session.outputs["y"].array, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
        )
        assert steps(session) == CASES[name][3]


def fixed_model(zero: int) -> tuple[Model, np.ndarray]:
    """A Pad of `zero` and a convolution, in 8 bits with a zero point of 9."""
    r = np.random.default_rng(3)
    x = r.integers(0, 256, (1, 8, 9, 5), np.uint8)
    w = r.integers(-90, 90, (3, 3, 5, 6), np.int8)
    activations, weights = Quantization(0.02, -9), Quantization(0.01, 0)
    model = Model("padded")
    for name, shape, data, q in (
        ("x", x.shape, None, activations),
        ("p", (1, 10, 12, 5), None, activations),
        ("w", w.shape, w, weights),
        ("y", (1, 8, 10, 6), None, Quantization(0.3, -100)),
    ):
        dtype = np.int8 if name == "w" else np.uint8
        model.tensors[name] = Tensor(name, shape, np.dtype(dtype), data, q)
    model.inputs, model.outputs = ["x"], ["y"]
    pads = {
        "scheme": 0,
        "pad_amount": pairs([0, 1, 2, 0], [0, 1, 1, 0]),
        "pad_constant_value": zero,
    }
    strides: dict[str, Any] = {"stride": u32(1, 1), "pad_amount": pairs([0, 0], [0, 0])}
    model.nodes = [Node("pad", "Pad", ["x"], ["p"], pads)]
    model.nodes += [Node("conv", "Conv2d", ["p", "w"], ["y"], strides)]
    return model, x


@pytest.mark.parametrize("zero", [9, 0])
def test_a_pad_of_bytes_is_one_of_zeros_where_it_has_the_zero_point(zero: int) -> None:
    model, x = fixed_model(zero)
    with Session(model) as session:
        session.run({"x": x})
        got = session.outputs["y"].array.copy()
        assert steps(session) == (["Conv2d"] if zero == 9 else ["Pad", "Conv2d"])
    padded = np.pad(x, ((0, 0), (1, 1), (2, 1), (0, 0)), constant_values=zero)
    apart = Model("apart")
    apart.tensors = {name: model.tensors[name] for name in "pwy"}
    apart.inputs, apart.outputs, apart.nodes = ["p"], ["y"], model.nodes[1:]
    with Session(apart) as session:
        session.run({"p": padded})
        np.testing.assert_array_equal(got, session.outputs["y"].array)


def wrapped(x: np.ndarray, pads: tuple[int, ...]) -> Model:
    pad = node("Pad", ["x", "p"], ["y"], mode="wrap")
    return importer.load(make([pad], {"x": x.shape}, ["y"], {"p": np.array(pads)}, opset=19))


@pytest.mark.parametrize("pads", [(0, 0, 2, 3, 0, 0, 1, 0), (1, 0, 4, 0, 0, 0, 4, 5)])
def test_a_wrapped_border_is_copied_in_runs(pads: tuple[int, ...]) -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    model = wrapped(x, pads)
    assert "Gather" not in {step.type for step in model.nodes}
    with Session(model) as session:
        around = list(zip(pads[:4], pads[4:], strict=True))
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.pad(x, around, mode="wrap"))


def test_a_border_of_more_than_one_turn_wraps() -> None:
    x = np.arange(3, dtype=np.float32)
    with Session(wrapped(x, (5, 7))) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.pad(x, (5, 7), mode="wrap"))
