"""Fixed-point numbers on OpenCL devices: every node gives the cpu backend's integers, or those next
to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model, Node, Quantization, Tensor
from support.fixed import S8, S16, U8, U16, Fixed, Value
from support.gpu.cases import joined, loops_and_lanes, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case, pairs, u32
from support.quantizing import Graph

pytestmark = pytest.mark.foreign  # OpenCL drivers are

TYPES = pytest.mark.parametrize("of", [U8, S8, U16, S16], ids=lambda of: str(of.dtype))


def fixed(
    op: str,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[tuple[int, ...], Any]],
    params: Mapping[str, Any] | None = None,
    static: Sequence[int] = (),
) -> Case:
    """A node; integers with a `Fixed` stand for real numbers, and so do outputs of one."""
    given = {f"in{i}": v[1] for i, v in enumerate(inputs) if isinstance(v, tuple)}
    given |= {f"out{i}": of for i, (_, of) in enumerate(outputs) if isinstance(of, Fixed)}
    return case(
        op,
        [v[0] if isinstance(v, tuple) else v for v in inputs],
        [shape for shape, _ in outputs],
        params,
        static=static,
        dtype=[np.dtype(of.dtype if isinstance(of, Fixed) else of) for _, of in outputs],
        encodings={name: of.quantization for name, of in given.items()},
    )


def codes(of: Fixed, *shape: int, seed: int = 0) -> tuple[np.ndarray, Fixed]:
    return of.random(np.random.default_rng(seed), shape), of


def agree(*cases: Case, steps: int = 1, **options: Any) -> None:
    """Both backends, in one graph; integers at most so many steps apart, others equal."""
    whole = joined(cases)
    with qnnrt.Session(whole.model, "cpu") as s:
        expected = s.run(whole.feeds)
    with qnnrt.Session(whole.model, "gpu", **options) as s:
        got = s.run(whole.feeds)
    for name, wanted in expected.items():
        text = f"{name} of {[n.type for n in whole.model.nodes if name in n.outputs]}"
        assert (got[name].dtype, got[name].shape) == (wanted.dtype, wanted.shape), text
        if whole.model.tensors[name].quantization is None:
            np.testing.assert_allclose(got[name], wanted, rtol=1e-6, err_msg=text)
            continue
        apart = np.abs(got[name].astype(np.int64) - wanted.astype(np.int64))
        assert apart.max(initial=0) <= steps, f"{text}: {apart.max()} steps apart"


def kernels(model: Model) -> list[str]:
    with qnnrt.Session(model, "gpu") as s:
        return [step["kernel"] for step in json.loads(s.graph.describe())["steps"]]


def weights(shape: tuple[int, ...], axis: int, scale: float = 0.01) -> tuple[np.ndarray, Fixed]:
    """Signed bytes with a scale for each index of an axis."""
    n = shape[axis]
    scales = (scale * np.linspace(0.5, 1.5, n)).astype(np.float32)
    of = Fixed("int8", scales, np.zeros(n, np.int32), axis % len(shape))
    return np.random.default_rng(7).integers(-127, 128, shape).astype(np.int8), of


def bias(n: int, scale: float = 1e-4) -> tuple[np.ndarray, Fixed]:
    rng = np.random.default_rng(8)
    return rng.integers(-9000, 9000, n).astype(np.int32), Fixed("int32", scale)


@TYPES
def test_convolutions_and_products(of: Fixed, loops_and_lanes: str) -> None:  # noqa: F811
    around = Fixed.covering(of.dtype, -9, 11)
    window = {"stride": u32(1, 2), "pad_amount": pairs((1, 1), (1, 0))}
    image = codes(of, 2, 5, 6, 8)
    filters = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    a, b = codes(of, 2, 4, 16, seed=1), codes(of, 2, 16, 5, seed=2)
    agree(
        fixed("Conv2d", [image, weights((3, 3, 8, 12), 3), bias(12)], [((2, 5, 3, 12), around)],
              window, static=(1, 2)),
        fixed("DepthWiseConv2d", [image, weights((3, 3, 1, 8), 3), bias(8)],
              [((2, 5, 6, 8), around)], filters, static=(1, 2)),
        fixed("FullyConnected", [codes(of, 6, 24), weights((10, 24), 0), bias(10)],
              [((6, 10), around)], static=(1, 2)),
        fixed("MatMul", [a, weights((16, 7), 1)], [((2, 4, 7), around)], static=(1,)),
        fixed("MatMul", [a, b], [((2, 4, 5), Fixed.covering(of.dtype, -300, 300))]),
    )  # fmt: skip


@TYPES
def test_elementwise_operations(of: Fixed) -> None:
    other, wide = Fixed.covering(of.dtype, -2, 3), Fixed.covering(of.dtype, -12, 15)
    x, y = codes(of, 3, 40), codes(other, 40, seed=1)
    cases = [
        fixed(f"ElementWise{op}", [x, y], [((3, 40), wide)])
        for op in ("Add", "Subtract", "Multiply", "Maximum", "SquaredDifference")
    ]
    unit = Fixed("uint8", 1 / 256)
    cases += [fixed(op, [x], [((3, 40), unit)]) for op in ("Sigmoid", "Relu")]
    cases += [fixed(op, [x], [((3, 40), other)]) for op in ("Tanh", "Gelu", "HardSwish")]
    cases += [
        fixed("ElementWiseLess", [x, y], [((3, 40), np.bool_)]),
        fixed("ElementWiseEqual", [x, x], [((3, 40), np.bool_)]),
        fixed("ElementWiseSelect", [y[0] > 0, x, y], [((3, 40), wide)]),
        fixed("Prelu", [x, codes(other, 40, seed=2)], [((3, 40), wide)]),
        fixed("Convert", [x], [((3, 40), other)]),
    ]
    agree(*cases)


@pytest.mark.slow
@TYPES
def test_sums_norms_and_windows(of: Fixed) -> None:
    x, image = codes(of, 4, 6, 8), codes(of, 2, 4, 6, 8, seed=1)
    out, unit = Fixed.covering(of.dtype, -6, 6), Fixed("uint8", 1 / 256)
    gamma, beta = weights((8,), 0), bias(8)
    gamma = gamma[0], Fixed("int8", 0.02)
    pool = {"filter_size": u32(2, 2), "stride": u32(2, 2), "pad_amount": pairs((0, 0), (0, 0))}
    corners = {"align_corners": False, "half_pixel_centers": True}
    agree(
        fixed("Softmax", [x], [((4, 6, 8), unit)]),
        fixed("LayerNorm", [x, gamma, beta], [((4, 6, 8), out)], {"axes": u32(2)}, static=(1, 2)),
        fixed("ReduceMean", [x], [((4, 8), out)], {"axes": u32(1)}),
        fixed("ReduceMax", [x], [((4, 6), of)], {"axes": u32(2)}),
        fixed("ReduceSum", [x], [((4, 6), Fixed.covering(of.dtype, -50, 50))], {"axes": u32(2)}),
        fixed("Argmax", [x], [((4, 6), np.int32)], {"axis": 2}),
        fixed("PoolAvg2d", [image], [((2, 2, 3, 8), out)], pool),
        fixed("PoolMax2d", [image], [((2, 2, 3, 8), of)], pool),
        fixed("PoolMax2d", [image], [((2, 2, 3, 8), out)], pool),
        fixed("ResizeBilinear", [image], [((2, 7, 9, 8), out)], corners),
        fixed("ResizeNearestNeighbor", [image], [((2, 7, 9, 8), out)], corners),
    )


def test_moves_within_an_encoding_and_into_another(loops_and_lanes: str) -> None:  # noqa: F811
    x, y = codes(U8, 3, 4), codes(S8, 3, 4, seed=1)
    pad = {"scheme": 0, "pad_amount": pairs((1, 0), (0, 2))}
    bits = Fixed("uint8", 0.5, -1)
    one_hot = {"depth": np.uint32(4), "axis": 1}
    indices = np.array([2, 0, 3], np.int32)
    table = codes(U16, 9, 4)
    cases = [
        fixed("Transpose", [x], [((4, 3), U8)], {"perm": u32(1, 0)}),
        fixed("Transpose", [x], [((4, 3), S8)], {"perm": u32(1, 0)}),
        fixed("Reshape", [x], [((12,), U8)]),
        fixed("Reshape", [x], [((12,), S16)]),
        fixed("Concat", [x, y], [((6, 4), S8)], {"axis": 0}),
        fixed("Split", [x], [((3, 1), U8), ((3, 3), S8)], {"axis": 1, "split_index": u32(1)}),
        fixed("Pad", [x], [((4, 6), U8)], pad),
        fixed("Pad", [x], [((4, 6), U8)], pad | {"pad_constant_value": np.int32(3)}),
        fixed("Pad", [x], [((4, 6), S8)], pad | {"pad_constant_value": np.int32(3)}),
        fixed("Pad", [x], [((4, 6), S8)], pad | {"pad_constant_value": np.float32(0.71)}),
        fixed("OneHot", [indices], [((3, 4), bits)], one_hot),
        fixed("OneHot", [indices], [((3, 4), bits)], one_hot | {"on_value": np.int32(9)}),
        fixed("Gather", [table, indices], [((3, 4), U16)], {"axis": 0}, static=(0,)),
        fixed("Gather", [table, indices], [((3, 4), U8)], {"axis": 0}, static=(0,)),
    ]
    agree(*cases[:7], steps=0)
    agree(*cases[7:])


def test_casts_take_the_integers_but_those_of_64_bits_the_numbers() -> None:
    x = codes(U8, 50)
    wide = np.arange(-8, 5, dtype=np.int64)
    agree(
        fixed("Cast", [x], [((50,), np.int32)]),
        fixed("Cast", [x], [((50,), np.float32)]),
        fixed("Cast", [x], [((50,), np.int64)]),
        fixed("Cast", [wide], [((13,), S8)]),
        fixed("Cast", [np.arange(13, dtype=np.int32)], [((13,), U8)]),
        steps=0,
    )


def test_integers_of_32_and_of_4_bits() -> None:
    x = np.append(np.linspace(-1, 1, 99), [1e9, -1e9, np.nan]).astype(np.float32)
    of = Fixed("int32", 2.0**-20, 5)
    narrow = Fixed("int8", 0.25, 1, bitwidth=4)
    y = of.quantize(x[:99]), of
    agree(
        fixed("Quantize", [x], [(x.shape, of)]),
        fixed("Dequantize", [y], [((99,), np.float32)]),
        fixed("ElementWiseAdd", [y, y], [((99,), of)]),
        fixed("Quantize", [x], [(x.shape, narrow)]),
        fixed("Relu", [codes(S8, 60)], [((60,), narrow)]),
    )


def test_weights_in_blocks_are_the_numbers_that_they_stand_for() -> None:
    w = np.arange(-32, 32).astype(np.int8).reshape(4, 16)
    scales = np.linspace(0.01, 0.4, 8).astype(np.float32)
    q = Quantization(scales.reshape(4, 2), np.zeros((4, 2), np.int32), block=(1, 8))
    x = U8.random(np.random.default_rng(3), (3, 16))
    encodings = {"in0": U8.quantization, "in1": q, "out0": Quantization(0.5, 0)}
    agree(case("FullyConnected", [x, w], [(3, 4)], dtype="int16", static=(1,), encodings=encodings))


def chain(*ops: str, of: Fixed = U8) -> Model:
    """A convolution, and operations of one operand behind it."""
    x, w, b = (1, 6, 6, 8), weights((3, 3, 8, 8), 3), bias(8)
    around = Fixed.covering(of.dtype, -4, 4)
    tensors = [
        Tensor("x", x, np.dtype(of.dtype), None, of.quantization),
        Tensor("w", w[0].shape, w[0].dtype, w[0], w[1].quantization),
        Tensor("b", b[0].shape, b[0].dtype, b[0], b[1].quantization),
    ]
    window = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    nodes = [Node("conv", "Conv2d", ["x", "w", "b"], ["t0"], window)]
    tensors.append(Tensor("t0", x, np.dtype(of.dtype), None, around.quantization))
    for i, op in enumerate(ops, 1):
        ins = [f"t{i - 1}", "x"] if op == "ElementWiseAdd" else [f"t{i - 1}"]
        nodes.append(Node(f"n{i}", op, ins, [f"t{i}"]))
        tensors.append(Tensor(f"t{i}", x, np.dtype(of.dtype), None, around.quantization))
    return Model("chain", {t.name: t for t in tensors}, nodes, ["x"], [f"t{len(ops)}"])


def test_what_is_behind_a_product_is_rounded_by_its_kernel() -> None:
    """Three kernels: what comes in is decoded, the convolution, and what goes out is encoded."""
    model = chain("Tanh", "ElementWiseAdd", "Sigmoid")
    found = [k for k in kernels(model) if not k.startswith("pack")]
    assert len(found) == 3
    assert (found[0], found[-1]) == ("elementwise.elementwise", "elementwise.elementwise")
    feeds = {"x": codes(U8, 1, 6, 6, 8)[0]}
    agree(Case(model, feeds))
    agree(
        Case(chain("Tanh", "ElementWiseAdd", "Sigmoid", of=S16), {"x": codes(S16, 1, 6, 6, 8)[0]})
    )


def test_moves_of_what_comes_in_stay_with_the_integers() -> None:
    x = codes(U8, 1, 3, 4, 5)
    model = fixed("Transpose", [x], [((1, 4, 5, 3), U8)], {"perm": u32(0, 2, 3, 1)}).model
    assert [k.split(".")[0] for k in kernels(model)] == ["move"]


def test_half_precision_inside(one_backend: qnnrt.qnn.Backend) -> None:  # noqa: F811
    """16-bit floats hold all numbers of 8 bits."""
    feeds = {"x": codes(U8, 1, 6, 6, 8)[0]}
    agree(Case(chain("Relu", "ElementWiseAdd"), feeds),
          options={"gpu": {"precision": "hybrid"}})  # fmt: skip


def test_a_value_that_is_an_output_and_read_has_one_rounding() -> None:
    model = chain("Relu", "Sigmoid")
    model.outputs = ["t0", "t1", "t2"]
    agree(Case(model, {"x": codes(U8, 1, 6, 6, 8)[0]}))


def test_scales_along_an_axis_at_run_time_are_refused_by_name() -> None:
    of = Fixed("uint8", np.full(4, 0.5, np.float32), np.zeros(4, np.int32), axis=1)
    what = fixed("Dequantize", [codes(of, 3, 4)], [((3, 4), np.float32)])
    with pytest.raises(qnnrt.UnsupportedOpError, match=r"'in0'.*have one scale in kernels"):
        qnnrt.Session(what.model, "gpu")


def network() -> tuple[Model, dict[str, np.ndarray]]:
    """A small residual network with QDQ, as quantizers write them."""
    rng = np.random.default_rng(11)
    g = Graph()

    def conv(x: str, cin: int, scale: float) -> str:
        w = rng.integers(-90, 90, (8, cin, 3, 3)).astype(np.int8)
        weight = g.weights(w, rng.uniform(0.002, 0.006, 8))
        return g.qdq(g.op("Conv", [x, weight], pads=[1, 1, 1, 1]), scale, 128)

    a = conv(g.qdq("x", 1 / 64, 128), 3, 0.03)
    a = g.qdq(g.op("Relu", [a]), 0.015)
    c = g.qdq(g.op("Add", [a, conv(a, 8, 0.02)]), 0.03, 60)
    c = g.qdq(g.op("GlobalAveragePool", [c]), 0.02, 60)
    c = g.op("Flatten", [c])
    w = g.weights(rng.integers(-90, 90, (8, 5)).astype(np.int8), 0.01)
    y = g.qdq(g.op("MatMul", [c, w]), 0.02, 128)
    proto = g.proto({"x": (2, 3, 8, 8)}, [y])
    return importer.load(proto), {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}


def test_a_quantized_network_gives_what_the_cpu_gives(loops_and_lanes: str) -> None:  # noqa: F811
    model, feeds = network()
    with qnnrt.Session(model, "cpu") as s:
        expected = s.run(feeds)
    with qnnrt.Session(model, "gpu") as s:
        got = s.run(feeds)
    for name, wanted in expected.items():
        assert np.abs(got[name] - wanted).max() <= 0.02 * 1.01, "more than a step"
        assert np.mean(got[name] != wanted) < 0.3
