"""Products on tensor cores: where the device has none, by kernels that do these' work themselves,
over the same registers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu.ops import tensor, trial
from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import against_cpu, normal, on_gpu, one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.gpu.tensor_cores import (  # noqa: F401
    DEEP,
    DEEP_AHEAD,
    DTYPES,
    EIGHT,
    F32,
    FLAT_AHEAD,
    FOUR,
    MAPPED,
    MAPPED_EIGHT,
    SERVED,
    SLICED,
    SLICED_AHEAD,
    TALL,
    WIDE,
    Use,
    by_one_variant,
    numbers,
    product,
)
from support.one_node import Case, case, pairs, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are

#: Rows, columns and terms into which copies of 16, 8, 4 and 2 bytes divide 16-bit floats.
SIZES = [(72, 72, 80), (36, 44, 68), (70, 66, 70), (67, 69, 71)]
LAYOUTS = [(False, False), (True, False), (False, True), (True, True)]


def exactly(*cases: Case) -> None:
    against_cpu(*cases, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("block", "sizes"),
    [
        (TALL, SIZES),
        (WIDE, SIZES[1:3]),
        (DEEP, [(1, 1, 1), SIZES[3]]),
        (FLAT_AHEAD, SIZES),
        (DEEP_AHEAD, [(1, 1, 1), *SIZES[2:]]),
        (SLICED, SIZES),
        (SLICED_AHEAD, [(1, 1, 1), *SIZES[2:]]),
    ],
)
def test_whole_numbers_are_exact(
    only: Use, block: tensor.Block, sizes: list[tuple[int, int, int]], dtype: Any
) -> None:
    """Every row, column and term is where instructions expect it, in all layouts, with all copies,
    beyond one tile each way."""
    only(block)
    exactly(*(product(n, layout, dtype) for n, layout in zip(sizes, LAYOUTS, strict=False)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_of_four_warps_together(only: Use, dtype: Any) -> None:
    """All layouts, more stages than are on their way, and 32-bit floats that are turned and rounded
    beforehand: of one matrix and of several, of constants, of parts."""
    only(FOUR, 2)
    sizes = [(70, 66, 332), (66, 68, 70), (67, 69, 331), (72, 40, 328)]
    cases = [product(n, layout, dtype) for n, layout in zip(sizes, LAYOUTS, strict=True)]
    cases += [product((72, 68, 66), layout, dtype) for layout in LAYOUTS[:2]]
    cases.append(product((66, 66, 330), (True, False), dtype, static=[1], then=[("Relu", {})]))
    for n in (34, 36):
        a, b = numbers(2, 1, 9, 40, dtype=dtype), numbers(3, 40, n, dtype=dtype)
        cases.append(case("MatMul", [a, b], [(2, 3, 9, n)]))
    cases.append(convolution((1, 7, 9, 8), (3, 3, 4), 10, dtype, pad=1, group=2))
    exactly(*cases)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [1, 2])
def test_slices_of_sums_of_several_steps(only: Use, parts: int, dtype: Any) -> None:
    """Of as many steps, of fewer at the end, and of none; with what is behind a product."""
    only(SLICED, parts)
    a, w, bias = (numbers(*s, dtype=dtype) for s in ((37, 500), (70, 500), (70,)))
    exactly(
        case("FullyConnected", [a, w, bias], [(37, 70)], static=[1, 2], then=[("Relu", {})]),
        convolution((2, 9, 7, 16), (3, 3, 16), 40, dtype, pad=1),
        convolution((1, 7, 9, 8), (3, 3, 4), 70, dtype, pad=1, group=2),
        product((33, 65, 136), (False, False), dtype),
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", [EIGHT, SERVED])
def test_several_blocks_and_work_items_that_copy(only: Use, block: tensor.Block) -> None:
    only(block)
    exactly(product((260, 70, 260), (False, False), np.float16))
    exactly(convolution((1, 7, 9, 8), (3, 3, 8), 70, np.float32, pad=1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("block", "parts"), [(MAPPED, 1), (MAPPED, 2), (MAPPED_EIGHT, 1)])
def test_tiles_one_after_the_other_by_tensor_maps(
    only: Use, block: tensor.Block, parts: int, dtype: Any
) -> None:
    """More tiles than groups run at a time, of one matrix and of several, in all layouts, of fewer
    steps than stages and of more, with what is behind a product."""
    only(block, parts)
    sizes = [(200, 200, 328), (72, 264, 72), (136, 72, 16), (264, 136, 80)]
    cases = [product(n, layout, dtype) for n, layout in zip(sizes, LAYOUTS, strict=True)]
    cases.append(product((200, 72, 328), (False, False), dtype, static=[1], then=[("Relu", {})]))
    a, b = numbers(2, 1, 72, 40, dtype=dtype), numbers(3, 40, 72, dtype=dtype)
    cases.append(case("MatMul", [a, b], [(2, 3, 72, 72)]))
    a, w, bias = (numbers(*s, dtype=dtype) for s in ((70, 512), (70, 512), (70,)))
    cases.append(case("FullyConnected", [a, w, bias], [(70, 70)], static=[1, 2]))
    exactly(*cases)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_become_lines_of_whole_pieces(only: Use, dtype: Any) -> None:
    only(TALL)
    exactly(
        *(product(sizes, LAYOUTS[2 * i % 4], dtype, static=[1]) for i, sizes in enumerate(SIZES))
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_in_parts_with_what_is_behind_them(only: Use, dtype: Any) -> None:
    only(WIDE, 3)
    a, w, bias = (numbers(*s, dtype=dtype) for s in ((5, 500), (70, 500), (70,)))
    exactly(
        case("FullyConnected", [a, w, bias], [(5, 70)], static=[1, 2], then=[("Relu", {})]),
        case("MatMul", [a.reshape(5, 1, 500), w.T[None]], [(5, 1, 70)]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_that_broadcast(only: Use, dtype: Any) -> None:
    only(TALL)
    a = numbers(2, 1, 9, 40, dtype=dtype)
    exactly(
        case("MatMul", [a, numbers(3, 40, 34, dtype=dtype)], [(2, 3, 9, 34)]),
        case("MatMul", [a, numbers(3, 40, 33, dtype=dtype)], [(2, 3, 9, 33)], static=[1]),
    )


def convolution(
    size: tuple[int, ...], kernel: tuple[int, ...], features: int, dtype: Any, **params: Any
) -> Case:
    """Of an image (n, height, width, channels)."""
    x, bias = numbers(*size, dtype=dtype), numbers(features, dtype=dtype)
    w = numbers(*kernel, features, dtype=dtype, seed=2)
    pad = params.pop("pad", 0)
    stride, dilation = params.pop("stride", 1), params.pop("dilation", 1)
    out = [
        (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(size[1:-1], kernel[:-1], strict=True)
    ]
    given = {"stride": u32(stride, stride), "dilation": u32(dilation, dilation)}
    given |= {"pad_amount": pairs((pad, pad), (pad, pad)), **params}
    shape = (size[0], *out, features)
    return case("Conv2d", [x, w, bias], [shape], given, static=[1, 2], then=[("Relu", {})])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions_read_their_input_in_place(only: Use, dtype: Any) -> None:
    only(TALL, 2 if dtype == np.float16 else 1)
    exactly(
        convolution((2, 9, 7, 16), (3, 3, 16), 40, dtype, pad=1),
        convolution((1, 11, 13, 3), (5, 4, 3), 24, dtype, stride=2, pad=2),
        convolution((1, 12, 9, 12), (3, 3, 6), 20, dtype, dilation=2, group=2),
        convolution((2, 6, 7, 24), (1, 1, 8), 48, dtype, group=3),
        convolution((1, 6, 9, 16), (1, 1, 16), 36, dtype, stride=2),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_residual_block(only: Use, dtype: Any) -> None:
    """Bias, the sum with another tensor and an activation, by the kernel of the product."""
    only(TALL)
    shape, t = (1, 7, 9, 40), np.dtype(dtype)
    model = Model("residual", outputs=["y"], inputs=["x"])
    weights = {"w": numbers(3, 3, 40, 40, dtype=t) / 8, "b": normal(40, dtype=t)}
    for name in ("x", "conv", "sum", "y"):
        model.tensors[name] = Tensor(name, shape, t)
    for name, data in weights.items():
        model.tensors[name] = Tensor(name, data.shape, t, data.astype(t))
    params = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    model.nodes = [
        Node("conv", "Conv2d", ["x", "w", "b"], ["conv"], params),
        Node("add", "ElementWiseAdd", ["conv", "x"], ["sum"]),
        Node("relu", "Relu", ["sum"], ["y"]),
    ]
    feeds = {"x": numbers(*shape, dtype=t)}
    against_cpu(model, feeds=feeds, terms=360)
    assert on_gpu(model, feeds)[1] == 1


def as_tf32(x: np.ndarray) -> np.ndarray:
    """32-bit floats with 10 bits of mantissa, half away from zero."""
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & ~np.uint32(0x1FFF)).view(np.float32)


@pytest.mark.parametrize("block", [TALL, FOUR], ids=str)
def test_tf32_rounds_what_it_multiplies_and_nothing_else(only: Use, block: tensor.Block) -> None:
    only(block)
    a, b = normal(70, 300), normal(300, 40, seed=1)
    a[0, 0], a[0, 1:], a[1, 0], a[1, 1:] = 1 + 2.0**-11, 0, -(1 + 2.0**-11 + 2.0**-22), 0
    b[0] = 1
    c = case("MatMul", [a, b], [(70, 40)])
    got, _ = on_gpu(c.model, c.feeds)
    y = got["out0"].astype(np.float64)
    wide, sizes = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    rounded = as_tf32(a).astype(np.float64) @ as_tf32(b)
    assert (np.abs(y - rounded) <= 2e-6 * sizes).all()
    assert (np.abs(y - wide) <= 2 * 2.0**-11 * 1.001 * sizes).all()
    np.testing.assert_array_equal(y[:2], [[1 + 2.0**-10] * 40, [-1 - 2.0**-10] * 40])
    assert np.abs(y - wide).max() > 1e-5 * sizes.max(), "nothing was rounded"


def test_what_is_no_number_stays_none(only: Use) -> None:
    only(TALL)
    a, b = np.eye(8, dtype=np.float32), normal(8, 8)
    for i, value in enumerate((np.inf, -np.inf, np.nan)):
        a[i, i] = value
    c = case("MatMul", [a, np.abs(b) + np.float32(1)], [(8, 8)])
    y = on_gpu(c.model, c.feeds)[0]["out0"]
    assert np.isnan(y[2]).all()
    assert np.isposinf(np.diag(y)[0])
    assert np.isneginf(np.diag(y)[1])
    assert np.isfinite(y[3:]).all()


@pytest.mark.parametrize("precision", ["user", "fp16"])
@pytest.mark.parametrize("both", [False, True])
def test_an_image_comes_to_a_convolution_by_one_kernel(
    only: Use, precision: str, both: bool
) -> None:
    """Cast, transposed and widened at once; not where somebody else reads what lies between."""
    only(WIDE)
    planes = numbers(2, 3, 9, 7, dtype=np.float32)
    weights = numbers(3, 3, 3, 8, dtype=np.float32, seed=1)
    shapes = {"x": planes.shape, "image": (2, 9, 7, 3), "y": (2, 7, 5, 8), "w": weights.shape}
    made = {n: Tensor(n, s, F32) for n, s in shapes.items()}
    made["w"] = Tensor("w", weights.shape, F32, weights)
    strides = {"stride": u32(1, 1), "pad_amount": np.zeros((2, 2), np.uint32)}
    model = Model(
        "image",
        made,
        [
            Node("turn", "Transpose", ["x"], ["image"], {"perm": u32(0, 2, 3, 1)}),
            Node("conv", "Conv2d", ["image", "w"], ["y"], strides),
        ],
        ["x"],
        ["y", "image"] if both else ["y"],
    )
    with qnnrt.Session(model, "gpu", options={"gpu": {"precision": precision}}) as s:
        y = s.run({"x": planes})["y"].copy()
        steps = json.loads(s.graph.describe() or "")["steps"]
    with qnnrt.Session(model, "cpu") as s:
        np.testing.assert_array_equal(y, s.run({"x": planes})["y"])
    kernels = [step["kernel"] for step in steps]
    before = kernels[: kernels.index("tensor.tensor")]
    assert before[-1] == "widen.widen"
    assert len(before) == (1 if not both else 2 if precision == "user" else 3)


def dense(layers: int, channels: int, growth: int, relu: bool = True) -> tuple[Model, np.ndarray]:
    """Layers that read what all before them have made, scaled anew for each."""
    r = np.random.default_rng(layers)

    def constant(name: str, *shape: int) -> str:
        data = (r.standard_normal(shape) * np.sqrt(2 / max(1, np.prod(shape[:-1])))).astype(F32)
        model.tensors[name] = Tensor(name, shape, F32, data)
        return name

    def add(op: str, inputs: list[str], y: str, width: int, **params: Any) -> str:
        model.tensors[y] = Tensor(y, (2, 7, 5, width), F32)
        model.nodes.append(Node(y, op, inputs, [y], params))
        return y

    def scaled(x: str, width: int) -> str:
        names = [constant(f"{part} of {x}", width) for part in ("scale", "shift")]
        y = add("Batchnorm", [x, *names], f"{x} scaled", width)
        return add("Relu", [y], f"{x} positive", width) if relu else y

    def convolved(x: str, y: str, side: int, width: int, features: int) -> str:
        pads = np.full((2, 2), side // 2, np.uint32)
        weights = constant(f"weights of {y}", side, side, width, features)
        return add("Conv2d", [x, weights], y, features, stride=u32(1, 1), pad_amount=pads)

    model = Model("dense", {"x": Tensor("x", (2, 7, 5, channels), F32)}, [], ["x"], ["y"])
    joined = "x"
    for layer in range(layers):
        narrow = convolved(scaled(joined, channels), f"narrow{layer}", 1, channels, 24)
        new = convolved(narrow, f"new{layer}", 3, 24, growth)
        channels += growth
        joined = add("Concat", [joined, new], f"joined{layer}", channels, axis=3)
    convolved(scaled(joined, channels), "y", 1, channels, 16)
    return model, r.standard_normal((2, 7, 5, model.tensors["x"].shape[-1])).astype(F32)


@pytest.mark.parametrize("precision", ["user", "fp16"])
@pytest.mark.parametrize(
    ("block", "parts", "relu"),
    [
        (WIDE, 2, False),
        (FLAT_AHEAD, 1, True),
        (SLICED, 1, True),
    ],
)
def test_layers_that_read_all_before_them(
    only: Use,
    monkeypatch: pytest.MonkeyPatch,
    block: tensor.Block,
    parts: int,
    relu: bool,
    precision: str,
) -> None:
    """What they read is scaled on its way to the product, and joined where it was written."""
    only(block, parts)
    monkeypatch.setattr(trial, "trusted", lambda _: True)
    monkeypatch.setattr(tensor, "multiplies", lambda dtype, target: True)
    model, x = dense(2, 40, 8, relu)
    with qnnrt.Session(model, "gpu", options={"gpu": {"precision": precision}}) as s:
        y = s.run({"x": x})["y"].copy()
        said = json.loads(s.graph.describe() or "")
    with qnnrt.Session(model, "cpu") as s:
        expected = s.run({"x": x})["y"]
    assert np.abs(y - expected).max() <= 5e-3 * np.abs(expected).max()
    # The first scale reads no Concat, and the first Concat copies what the graph is given.
    kernels = [step["kernel"] for step in said["steps"]]
    assert kernels.count("slices.slices") == 1
    assert kernels.count("tensor.tensor") == 5
    others = ("elementwise.elementwise", "batchnorm.batchnorm")
    assert sum(map(kernels.count, others)) <= 1 + 2 * (precision == "fp16")
