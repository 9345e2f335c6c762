"""Products on tensor cores: where the device has none, by kernels that do these' work themselves,
over the same registers."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import choose, ir, tune
from qnnrt.gpu.compile import launches_of
from qnnrt.gpu.configs import Configs
from qnnrt.gpu.device import WITHOUT, Device
from qnnrt.gpu.ops import gemm, tensor, trial
from qnnrt.gpu.ops.product import Product
from qnnrt.gpu.programs import rewritten, source
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import against_cpu, normal, on_gpu, one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.one_node import Case, case, pairs, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are

F32 = np.dtype(np.float32)
DTYPES = [np.float16, np.float32]
#: Small ones, since drivers of CPUs compile them for long; tiles of other shapes than square.
TALL = tensor.Block(64, 32, 64, 2, 1, 3)
WIDE = tensor.Block(32, 64, 64, 1, 2, 2)
DEEP = tensor.Block(64, 32, 128, 2, 1, 4)
#: The next words are loaded early: with one step a stage, and with several.
FLAT_AHEAD = tensor.Block(32, 64, 32, 1, 2, 4, ahead=True)
DEEP_AHEAD = tensor.Block(64, 32, 128, 2, 1, 2, ahead=True)
#: Slices of the sum, and some that are ahead.
SLICED = tensor.Block(32, 64, 64, 1, 2, 3, slices=3)
SLICED_AHEAD = tensor.Block(64, 32, 128, 2, 1, 2, ahead=True, slices=2)
#: Four warps multiply together: one group of them, and two, of two blocks each.
FOUR = tensor.Block(64, 64, 128, 4, 1, 3, grouped=True)
EIGHT = tensor.Block(256, 64, 128, 8, 1, 4, grouped=True)
#: Others copy for them.
SERVED = tensor.Block(64, 64, 128, 4, 1, 4, grouped=True, copiers=32)
#: Tiles come one after the other, by tensor maps.
MAPPED = dataclasses.replace(SERVED, maps=True)
MAPPED_EIGHT = dataclasses.replace(MAPPED, rows=128, columns=128, down=8, stages=3)
#: Rows, columns and terms into which copies of 16, 8, 4 and 2 bytes divide 16-bit floats.
SIZES = [(72, 72, 80), (36, 44, 68), (70, 66, 70), (67, 69, 71)]
LAYOUTS = [(False, False), (True, False), (False, True), (True, True)]

Use = Callable[..., None]


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Products by one variant from now on."""

    def use(block: tensor.Block, parts: int = 1) -> None:
        def variants(x: Product, target: Target) -> tune.Variants:
            return {"only": functools.partial(tensor.make, x, target, block, parts)}

        monkeypatch.setattr(gemm, "variants", variants)

    return use


def numbers(*shape: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Small whole ones: sums of their products are whole, and exact in every precision."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def exactly(*cases: Case) -> None:
    against_cpu(*cases, rtol=0, atol=0)


def product(
    sizes: tuple[int, int, int], layout: tuple[bool, bool], dtype: Any, **more: Any
) -> Case:
    m, n, k = sizes
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1)
    turned = [x.T if turn else x for x, turn in zip((a, b), layout, strict=True)]
    params = dict(zip(("transpose_in0", "transpose_in1"), layout, strict=True))
    return case("MatMul", turned, [(m, n)], params, **more)


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


# ---- when they are used


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, one_backend: qnnrt.qnn.Backend) -> Callable[..., Any]:  # noqa: F811
    """The variants of a product that a device lists, by name, and what the session says of itself;
    one of those for any device is taken."""
    library, usual = one_backend.library, gemm.variants

    def names(c: Case, tensor_cores: bool, precision: str) -> tuple[list[str], Any]:
        found: list[str] = []

        def variants(x: Product, target: Target) -> tune.Variants:
            given = usual(x, target)
            found.extend(given)
            return {name: make for name, make in given.items() if name.startswith("panels")}

        device = dataclasses.replace(library.device, kind="gpu", tensor_cores=tensor_cores)
        monkeypatch.setattr(library, "device", device)
        monkeypatch.setattr(gemm, "variants", variants)
        monkeypatch.setattr(trial, "trusted", lambda _: True)
        monkeypatch.setattr(trial, "local_bytes", lambda _: 48 << 10)
        with qnnrt.Session(c.model, "gpu", options={"gpu": {"precision": precision}}) as s:
            s.run(c.feeds)
            return found, json.loads(s.graph.describe() or "")

    return names


@pytest.mark.parametrize(
    ("precision", "tensor_cores", "first"),
    [
        ("user", True, "tiles"),
        ("tf32", True, "tensor"),
        ("fp16", True, "tensor"),
        ("hybrid", True, "tensor"),
        ("tf32", False, "tiles"),
        ("fp16", False, "tiles"),
    ],
)
def test_they_come_first_where_they_may_be_used(
    listed: Callable[..., Any], precision: str, tensor_cores: bool, first: str
) -> None:
    c = product((64, 64, 64), (False, False), np.float32)
    names, told = listed(c, tensor_cores, precision)
    assert names[0].startswith(first)
    few = tune._candidates(dict.fromkeys(names, list))
    assert any(name.startswith("tiles") for name in few), "measured beside them"
    assert any(name.startswith("tensor") for name in names) == (first == "tensor")
    assert told["precision"] == precision


def test_few_rows_are_bound_by_memory(listed: Callable[..., Any]) -> None:
    c = product((1, 64, 64), (False, True), np.float16)
    names, _ = listed(c, True, "user")
    assert names[0] == "dots"
    assert names[1].startswith("tensor")


def test_precision_tf32_is_an_option(caplog: pytest.LogCaptureFixture) -> None:
    """Of graphs; a device without tensor cores multiplies 32-bit floats, and says so."""
    c = case("MatMul", [normal(33, 50), normal(50, 36)], [(33, 36)])
    plain, _ = on_gpu(c.model, c.feeds)
    options = {"gpu": {"precision": "tf32"}}
    with (
        caplog.at_level(logging.INFO, "qnnrt"),
        qnnrt.Session(c.model, "gpu", options=options) as s,
    ):
        assert s.precision == "tf32"
        y = s.run(c.feeds)["out0"].copy()
        kernels = [step["kernel"] for step in json.loads(s.graph.describe() or "")["steps"]]
    if choose().tensor_cores:
        assert kernels == ["tensor.tensor"]
        assert 0 < np.abs(y - plain["out0"]).max() < 50 * 2.0**-9
    else:
        assert "tensor.tensor" not in kernels
        assert "has no tensor cores" in caplog.text
        np.testing.assert_array_equal(y, plain["out0"])


def test_they_are_tried_before_they_are_used(caplog: pytest.LogCaptureFixture) -> None:
    """By what does their work where there are none: right there, and refused as PTX."""
    device = choose()
    assert [trial.differences(device, np.dtype(dtype), WIDE) for dtype in DTYPES] == [0, 0]
    for block in (FOUR, MAPPED):
        for layout in ((False, False), (False, True), (True, True)):
            assert trial.differences(device, np.dtype(np.float32), block, turned=layout) == 0
    if not device.tensor_cores:
        claims = dataclasses.replace(device, tensor_cores=True, driver="claims")
        with caplog.at_level(logging.WARNING, "qnnrt"):
            assert not trial.trusted(claims)
        assert "are not used: clBuildProgram failed" in caplog.text


def test_local_memory_beyond_what_opencl_says_is_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As many bytes as the compute capability has, if a product with them comes out right."""
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    found: list[tensor.Block] = []
    answers = {"right": 0, "wrong": 1}

    def differences(real: Device, dtype: Any, block: tensor.Block) -> int:
        found.append(block)
        if real.driver not in answers:
            raise RuntimeError("ptxas: too much shared data")
        return answers[real.driver]

    monkeypatch.setattr(trial, "differences", differences)
    monkeypatch.setattr(trial, "_real", lambda device: device)
    monkeypatch.setattr(trial, "_local", {})
    with caplog.at_level(logging.INFO, "qnnrt"):
        each = [
            trial.local_bytes(dataclasses.replace(device, driver=driver))
            for driver in ("right", "wrong", "refuses")
        ]
    assert each == [227 << 10, 48 << 10, 48 << 10]
    assert "too much shared data" in caplog.text
    assert all(200 << 10 < block.local_bytes <= 227 << 10 for block in found)


@pytest.mark.parametrize("maps", [False, True])
def test_four_warps_together_are_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, maps: bool
) -> None:
    """Where the compute capability has such instructions, with each type and layout; and so are
    tensor maps for these."""
    tried: list[tuple[str, str, tuple[bool, bool]]] = []

    def differences(
        real: Device, dtype: Any, block: tensor.Block, turned: tuple[bool, bool]
    ) -> int:
        assert block.grouped
        assert block.maps == maps
        tried.append((real.driver, dtype.name, turned))
        if real.driver == "refuses":
            raise RuntimeError("clBuildProgram failed")
        return int((real.driver, dtype.name) == ("wrong", "float32"))

    monkeypatch.setattr(trial, "differences", differences)
    monkeypatch.setattr(trial, "_real", lambda device: device)
    monkeypatch.setattr(trial, "_grouped", {})
    monkeypatch.setattr(trial, "_maps", {})
    asked = trial.maps if maps else trial.grouped
    monkeypatch.setattr(
        trial, "local_bytes", lambda device: {"small": 48 << 10}.get(device.driver, 227 << 10)
    )
    found = {}
    with caplog.at_level(logging.INFO, "qnnrt"):
        for driver in ("right", "wrong", "refuses", "small", "older", "newer"):
            raw = described(
                "cl_nv_device_attribute_query", {"older": 8, "newer": 10}.get(driver, 9)
            )
            found[driver] = asked(dataclasses.replace(Device.of(raw), driver=driver))
    assert [driver for driver, is_ in found.items() if is_] == ["right"]
    assert [t[1:] for t in tried if t[0] == "right"] == [
        ("float16", (False, False)),
        ("float16", (True, True)),
        ("float32", (False, maps)),
    ]
    assert {driver for driver, *_ in tried} == {"right", "wrong", "refuses"}
    assert "float32, 1 numbers are wrong" in caplog.text
    assert "clBuildProgram failed" in caplog.text


@pytest.mark.parametrize("size", [256, 4096])
@pytest.mark.parametrize("dtype", DTYPES)
def test_four_warps_together_make_large_products(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, size: int
) -> None:
    """Those that they take less time for; 32-bit floats that are no constants are rounded first."""
    monkeypatch.delenv(WITHOUT, raising=False)
    monkeypatch.setattr(trial, "trusted", lambda _: True)
    monkeypatch.setattr(trial, "local_bytes", lambda _: 227 << 10)
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    made = {}
    for grouped in (False, True):
        monkeypatch.setattr(trial, "grouped", lambda _, is_=grouped: is_)
        monkeypatch.setattr(trial, "maps", lambda _: False)
        a, b, y = (ir.Value("", 0, (size, size), np.dtype(dtype), 0, "native") for _ in range(3))
        graph = ir.Ir("g", (a, b, y), [ir.Node("n", "MatMul", [a, b], [y], {})])
        target = Target(device, tf32=True, kernels_alone=True)
        made[grouped] = [launch for _, launch in launches_of(graph, target)]
    defines = {
        grouped: {d for launch in launches for d in launch.defines if d[0] == "GROUPED"}
        for grouped, launches in made.items()
    }
    assert not defines[False]
    assert bool(defines[True]) == (size == 4096)
    if defines[True]:
        before = [launch.file for launch in made[True][:-1]]
        assert before == (["prepare"] if dtype is np.float32 else [])


def test_marked_instructions_are_put_into_ptx() -> None:
    ptx = b"\n.version 8.8\n.target sm_90, texmode_independent\n\t//@ one {%r1};\n//@ two;\n\0\0"
    better = b"\n.version 8.8\n.target sm_90a, texmode_independent\n\tone {%r1};\ntwo;\n"
    assert rewritten(ptx) == better
    assert rewritten(better) is None
    assert rewritten(b"\x7fELF") is None


def test_wrong_numbers_are_not_trusted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = dataclasses.replace(choose(), driver="wrong")

    def wrong(x: Product, target: Target, block: tensor.Block, parts: int) -> list[ir.Launch]:
        (launch,) = tensor.make(x, target, WIDE, parts)
        first, inner = launch.args.index(x.depth), launch.args[launch.args.index(x.depth)]
        args = (*launch.args[:first], inner - 1, inner - 1, *launch.args[first + 2 :])
        return [dataclasses.replace(launch, args=args)]

    monkeypatch.setattr(trial, "make", wrong)
    with caplog.at_level(logging.WARNING, "qnnrt"):
        assert not trial.trusted(device)
    assert "numbers are wrong" in caplog.text


def test_a_device_that_cannot_be_tried_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    with caplog.at_level(logging.INFO, "qnnrt"):
        assert not trial.trusted(device)
    assert "cannot be tried here" in caplog.text


def described(extensions: str, major: int) -> SimpleNamespace:
    """A GPU as pyopencl has it, and as libQnnGpu.so tells its compiler."""
    return SimpleNamespace(
        name="d", type=4, version="v", driver_version="1", host_unified_memory=0,
        mem_base_addr_align=1024, extensions=extensions, compute_capability_major_nv=major,
        max_compute_units=132, max_work_group_size=1024, local_mem_size=48 << 10,
        max_mem_alloc_size=1 << 34, native_vector_width_float=1,
        platform=SimpleNamespace(name="p"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("precision", "dtype", "instruction"),
    [
        ({"precision": "fp32", "TF32": True}, np.float32, "m16n8k8"),
        ({"precision": "hybrid"}, np.float16, "m16n8k16"),
    ],
)
def test_they_are_compiled_for_without_one(
    monkeypatch: pytest.MonkeyPatch, precision: dict[str, Any], dtype: Any, instruction: str
) -> None:
    """As in the compiler of libQnnGpu.so, which has no OpenCL: a kernel with the instructions."""
    monkeypatch.delenv(WITHOUT, raising=False)
    monkeypatch.setattr(trial, "trusted", lambda _: True)
    monkeypatch.setattr(trial, "local_bytes", lambda _: 48 << 10)
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    target = Configs.read({"graph": precision, "portable": True}).target(device)
    a, b, y = (ir.Value("", 0, (256, 256), np.dtype(dtype), 0, "native") for _ in range(3))
    graph = ir.Ir("g", (a, b, y), [ir.Node("n", "MatMul", [a, b], [y], {})])
    launch = launches_of(graph, target)[0][1]  # that behind it, if any, adds the parts of sums
    text = source(launch)
    assert launch.file == "tensor"
    assert ("PTX", "1") in launch.defines
    assert f"mma.sync.aligned.{instruction}" in text
    assert "#include" not in text


@pytest.mark.parametrize(
    ("extensions", "major", "there"),
    [
        ("cl_nv_device_attribute_query", 8, True),
        ("cl_nv_device_attribute_query", 9, True),
        ("cl_nv_device_attribute_query", 7, False),
        ("cl_khr_fp16", 9, False),  # of another maker's attribute nothing is known
    ],
)
def test_a_device_says_whether_it_has_them(
    monkeypatch: pytest.MonkeyPatch, extensions: str, major: int, there: bool
) -> None:
    raw = described(extensions, major)
    monkeypatch.delenv(WITHOUT, raising=False)
    assert Device.of(raw).tensor_cores == there
    monkeypatch.setenv(WITHOUT, "0")
    assert not Device.of(raw).tensor_cores


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
