"""oneDNN's kernels: used where they should be, equal to the portable ones, and not needed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from qnnrt.model import Model, Node, Tensor
from support import one_node
from support.outside import in_child
from support.processor import HAS_TILES, processor_has

pytestmark = pytest.mark.skipif(
    not _core.kernel_library().startswith("oneDNN"),
    reason="oneDNN is not installed: pip install onednn-cpu-gomp",
)

F32 = np.dtype(np.float32)
F16 = np.dtype(np.float16)
Shape = tuple[int, ...]


def avx512() -> bool:
    """Whether the names of kernels below hold: which node oneDNN takes depends on the processor."""
    return processor_has("avx512bw")


@dataclass
class Case:
    """One node, and the elementwise nodes behind it."""

    name: str
    op: str
    inputs: list[Shape]  # the first is the graph's input
    output: Shape
    params: dict[str, object] = field(default_factory=dict)
    static: tuple[int, ...] = (1, 2)
    tail: tuple[str, ...] = ()  # op types; "Add" adds another input of the graph
    fast: bool = True  # whether oneDNN serves it
    dtype: np.dtype = F32

    def model(self) -> Model:
        rng = np.random.default_rng(len(self.name))
        values = [
            rng.standard_normal(shape).astype(self.dtype)
            if i in self.static
            else np.zeros(shape, self.dtype)
            for i, shape in enumerate(self.inputs)
        ]
        model = one_node.case(self.op, values, [self.output], self.params, static=self.static).model

        def tensor(name: str, shape: Shape, data: np.ndarray | None = None) -> str:
            model.tensors[name] = Tensor(name, shape, self.dtype, data)
            return name

        for i, op in enumerate(self.tail):
            operands, kind, params = [*model.outputs], op, dict(TAIL_PARAMS.get(op, {}))
            model.outputs = [tensor(f"tail{i}", self.output)]
            if op == "Add":
                kind = "ElementWiseAdd"
                operands.append(tensor(f"residual{i}", self.output))
                model.inputs.append(operands[-1])
            elif op == "Leaky":
                kind = "Prelu"
                operands.append(tensor(f"slope{i}", (1,), np.array([0.1], self.dtype)))
            elif op == "HardSigmoid":
                kind = "ElementWiseNeuron"
            model.nodes.append(Node(f"tail{i}", kind, operands, model.outputs, params))
        return model


TAIL_PARAMS: dict[str, dict[str, object]] = {
    "Elu": {"alpha": np.float32(1.3)},
    "ReluMinMax": {"min_value": np.float32(-0.5), "max_value": np.float32(0.7)},
    "HardSigmoid": {"operation": np.uint32(2), "alpha": np.float32(0.2), "beta": np.float32(0.5)},
}


def u32(*values: object) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.uint32)


def conv(
    name: str,
    size: Shape,
    channels: tuple[int, int],
    kernel: Shape,
    *,
    stride: int = 1,
    pads: tuple[tuple[int, int], ...] = ((0, 0), (0, 0)),
    dilation: int = 1,
    group: int = 1,
    op: str = "Conv2d",
    batch: int = 2,
    **more: object,
) -> Case:
    spatial = tuple(
        (n + sum(p) - dilation * (k - 1) - 1) // stride + 1
        for n, p, k in zip(size, pads, kernel, strict=True)
    )
    cin, cout = channels
    params: dict[str, object] = {
        "stride": u32([stride] * 2),
        "pad_amount": u32(pads),
        "dilation": u32([dilation] * 2),
    }
    if op == "Conv2d":
        params["group"] = np.uint32(group)
    shapes = [(batch, *size, cin), (*kernel, cin // group, cout), (cout,)]
    return Case(name, op, shapes, (batch, *spatial, cout), params, **more)  # type: ignore[arg-type]


def transpose_conv(
    name: str,
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    *,
    group: int = 1,
    fast: bool,
    pads: tuple[int, int] = (1, 1),
) -> Case:
    cin, cout = channels
    side = 13 * stride + kernel - sum(pads)
    params: dict[str, object] = {
        "stride": u32([stride] * 2),
        "pad_amount": u32([pads] * 2),
        "group": np.uint32(group),
        "output_padding": u32([0, 0]),
    }
    shapes = [(1, 14, 14, cin), (kernel, kernel, cin, cout // group), (cout,)]
    return Case(name, "TransposeConv2d", shapes, (1, side, side, cout), params, fast=fast)


def pool(op: str, name: str, window: int, stride: int, pad: int, out: int, **more: object) -> Case:
    fast = bool(more.pop("fast", True))
    channels = 12 if op.startswith("PoolMax") else 24  # maxima of many are not oneDNN's
    params: dict[str, object] = {
        "filter_size": u32([window] * 2),
        "stride": u32([stride] * 2),
        "pad_amount": u32([[pad] * 2] * 2),
        **more,
    }
    shapes = [(1, 15, 15, channels)]
    return Case(name, op, shapes, (1, out, out, channels), params, fast=fast)


def pool3d(op: str, name: str, size: int, out: int, **more: object) -> Case:
    """A window of 3 x 2 x 3 in steps of 2 x 1 x 2 over `size` x 7 x 9, padded on some sides."""
    params: dict[str, object] = {
        "filter_size": u32([3, 2, 3]),
        "stride": u32([2, 1, 2]),
        "pad_amount": u32([(1, 0), (0, 1), (1, 1)]),
        **more,
    }
    channels = 13 if op.startswith("PoolMax") else 19
    return Case(name, op, [(2, size, 7, 9, channels)], (2, out, 7, 5, channels), params)


def matmul(name: str, a: Shape, b: Shape, out: Shape, *, tb: bool = False, **more: object) -> Case:
    params: dict[str, object] = {"transpose_in0": False, "transpose_in1": tb}
    return Case(name, "MatMul", [a, b], out, params, **more)  # type: ignore[arg-type]


def lrn(name: str, beta: float, fast: bool = True) -> Case:
    params: dict[str, object] = {
        "radius": np.int32(2),
        "alpha": np.float32(0.02),
        "beta": np.float32(beta),
        "bias": np.float32(1.5),
    }
    return Case(name, "Lrn", [(1, 14, 14, 32)], (1, 14, 14, 32), params, fast=fast)


SAME = ((1, 1), (1, 1))
CASES = [
    conv("3x3", (14, 13), (16, 32), (3, 3), pads=SAME),
    conv("1x1", (14, 13), (24, 40), (1, 1)),
    conv("1x1 stride 2", (15, 14), (32, 16), (1, 1), stride=2),
    conv("first layer 7x7", (33, 31), (3, 64), (7, 7), stride=2, pads=((3, 2), (2, 3))),
    conv("odd channels", (15, 14), (17, 33), (3, 4), pads=((0, 1), (2, 0))),
    conv("one channel", (15, 14), (1, 1), (5, 5)),
    conv("dilated", (20, 19), (8, 12), (3, 3), dilation=2, pads=((2, 2), (1, 3))),
    conv("grouped", (14, 13), (24, 36), (3, 3), group=3, pads=SAME),
    conv("few pixels", (5, 6), (64, 230), (3, 3), pads=SAME, tail=("Add", "Relu"), fast=False),
    conv("few pixels, dilated", (5, 6), (64, 230), (3, 3), pads=((2, 2), (2, 2)), dilation=2),
    conv("few pixels, few weights", (5, 6), (64, 220), (3, 3), pads=SAME),
    conv("some pixels, many terms", (9, 9), (515, 260), (1, 1), tail=("Relu",), fast=False),
    conv("some pixels", (9, 9), (256, 520), (1, 1), tail=("Relu",)),
    conv("weights from outside", (14, 13), (16, 32), (3, 3), static=()),
    conv("too small", (4, 4), (4, 4), (1, 1), fast=False),
    conv(
        "depthwise, dilated", (14, 13), (24, 24), (3, 3), group=24, op="DepthWiseConv2d", dilation=2
    ),
    *(
        conv(
            f"taps far outside, {name}",
            (20, 33),
            (channels, channels),
            (3, 3),
            dilation=9,
            group=group,
            op="Conv2d" if group < channels else "DepthWiseConv2d",
            pads=((9, 9), pads),
            fast=False,
        )
        for name, channels, group, pads in [
            ("depthwise", 24, 24, (9, 9)),
            ("depthwise, behind alone", 24, 24, (0, 18)),
            ("groups of four", 64, 16, (9, 9)),
        ]
    ),
    conv("long line", (1, 1500), (8, 8), (1, 7), pads=((0, 0), (3, 3))),
    conv("long line, one channel", (1, 1500), (8, 1), (1, 7), pads=((0, 0), (3, 3))),
    conv("long line, sixteen", (1, 1500), (16, 16), (1, 7), pads=((0, 0), (3, 3)), fast=False),
    conv("short line", (1, 300), (8, 8), (1, 7), pads=((0, 0), (3, 3)), fast=False),
    conv("multiplier", (14, 13), (16, 32), (3, 3), group=16, op="DepthWiseConv2d", pads=SAME),
    *(
        conv(f"3x3 then {'+'.join(tail)}", (14, 13), (16, 32), (3, 3), pads=SAME, tail=tail)
        for tail in [
            ("Relu",),
            ("Relu6",),
            ("ReluMinMax",),
            ("Sigmoid",),
            ("Tanh",),
            ("Elu",),
            ("Gelu",),
            ("HardSwish",),
            ("HardSigmoid",),
            ("Leaky",),
            ("Add",),
            ("Add", "Relu"),
            ("Relu", "Add"),
        ]
    ),
    conv("pixels by threads", (28, 31), (24, 112), (1, 1), group=4, tail=("Add", "Relu")),
    conv("pixels by threads, uneven", (41, 43), (12, 40), (1, 1), group=2, tail=("Relu", "Add")),
    conv("half precision", (14, 13), (16, 32), (3, 3), tail=("Relu",), dtype=F16),
    conv("half precision, residual", (14, 13), (16, 32), (3, 3), tail=("Add", "Tanh"), dtype=F16),
    matmul("half precision", (2, 80, 64), (64, 96), (2, 80, 96), dtype=F16),
    transpose_conv("upsample", (64, 32), 4, 2, fast=True),
    transpose_conv("upsample, uneven padding", (64, 32), 4, 2, pads=(1, 0), fast=False),
    transpose_conv("upsample, kernel no multiple of the stride", (16, 16), 3, 2, fast=False),
    transpose_conv("grouped upsample", (16, 32), 4, 2, group=4, fast=False),
    Case("FullyConnected", "FullyConnected", [(90, 200), (300, 200), (300,)], (90, 300)),
    Case(
        "one row",
        "FullyConnected",
        [(1, 700), (1000, 700), (1000,)],
        (1, 1000),
        tail=("Relu",),
        fast=False,
    ),
    Case("a chunk", "FullyConnected", [(128, 700), (200, 700), (200,)], (128, 200), fast=False),
    Case("many terms", "FullyConnected", [(256, 700), (200, 700), (200,)], (256, 200), fast=False),
    Case("many rows", "FullyConnected", [(257, 700), (200, 700), (200,)], (257, 200)),
    Case("fewer terms", "FullyConnected", [(129, 380), (350, 380), (350,)], (129, 350)),
    Case("small", "FullyConnected", [(1, 16), (10, 16), (10,)], (1, 10), fast=False),
    matmul("static", (2, 80, 64), (64, 96), (2, 80, 96)),
    matmul("static, small", (2, 40, 64), (64, 96), (2, 40, 96), fast=False),
    matmul("batched", (2, 3, 40, 64), (2, 3, 64, 48), (2, 3, 40, 48), static=()),
    matmul("transposed", (2, 3, 40, 64), (2, 3, 48, 64), (2, 3, 40, 48), tb=True, static=()),
    matmul("broadcast", (2, 1, 40, 64), (3, 64, 48), (2, 3, 40, 48), static=(), tail=("Relu",)),
    matmul("few rows", (8, 512), (512, 512), (8, 512), static=(), fast=False),
    matmul("few rows, small", (8, 200), (200, 300), (8, 300), static=()),
    matmul("one row", (1, 1024), (1024, 768), (1, 768), static=(), fast=False),
    matmul("one row, transposed", (1, 1024), (768, 1024), (1, 768), tb=True, static=()),
    pool("PoolMax2d", "max", 3, 2, 1, 8),
    pool("PoolMax2d", "max, rounded up", 2, 2, 0, 8, rounding_mode=np.uint32(1)),
    pool("PoolAvg2d", "avg", 3, 1, 1, 15),
    pool("PoolAvg2d", "avg with padding", 3, 1, 1, 15, count_pad_for_edges=True),
    pool("PoolAvg2d", "avg, rounded up", 2, 2, 0, 8, rounding_mode=np.uint32(1)),
    pool(
        "PoolAvg2d",
        "avg with padding, rounded up",
        2,
        2,
        0,
        8,
        count_pad_for_edges=True,
        rounding_mode=np.uint32(1),
        fast=False,
    ),
    pool3d("PoolMax3d", "max", 6, 3),
    pool3d("PoolMax3d", "max, rounded up", 7, 4, rounding_mode=np.uint32(1)),
    pool3d("PoolAvg3d", "avg", 6, 3),
    pool3d("PoolAvg3d", "avg with padding", 6, 3, count_pad_for_edges=True),
    pool3d("PoolAvg3d", "avg, rounded up", 7, 4, rounding_mode=np.uint32(1)),
    lrn("power 0.75", 0.75),
    lrn("power 0.5, for which oneDNN has its reference only", 0.5, fast=False),
]


def run(model: Model, kernels: str, threads: int) -> tuple[np.ndarray, dict[str, str]]:
    """The output for seeded inputs, and the kernel of every step."""
    with qnnrt.Session(model, threads=threads, options={"kernels": kernels}) as session:
        rng = np.random.default_rng(1)
        for tensor in session.inputs.values():
            tensor.array[...] = rng.standard_normal(tensor.shape)
        session.run()
        session.run()  # with every pointer bound already
        described = session.graph.describe()
        assert described is not None
        steps = {step["name"]: step["kernel"] for step in json.loads(described)["steps"]}
        return next(iter(session.outputs.values())).array.copy(), steps


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op} {c.name}")
def test_fast_kernel_equals_portable_kernel(case: Case, threads: int) -> None:
    fast, kernels = run(case.model(), "auto", threads)
    portable, portable_kernels = run(case.model(), "portable", threads)
    assert len(kernels) == 1, f"the tail was not merged: {kernels}"
    assert not any(k.startswith("onednn") for k in portable_kernels.values())
    if avx512():
        assert all(k.startswith("onednn:") == case.fast for k in kernels.values()), kernels
    assert np.ptp(portable) > 0
    assert fast.dtype == portable.dtype == case.dtype
    # Sums of the same products in another order, in float32.
    depth = np.prod(case.inputs[1][:-1]) if len(case.inputs) > 1 else 1
    scale = max(1.0, float(np.abs(portable).max()))
    rtol, atol = 1e-4, 1e-7 * scale * np.sqrt(depth) + 2e-6
    if case.dtype == F16:  # both compute in float32 and round once: one step apart at most
        rtol, atol = 2**-10, max(atol, 1e-6)
    np.testing.assert_allclose(fast.astype(F32), portable.astype(F32), rtol=rtol, atol=atol)


BRAIN = np.dtype(ml_dtypes.bfloat16)


def dense(rows: int, terms: int, columns: int, **more: object) -> Case:
    shapes = [(rows, terms), (columns, terms), (columns,)]
    name = f"{rows} rows of {terms} by {columns}"
    return Case(name, "FullyConnected", shapes, (rows, columns), dtype=BRAIN, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "case",
    [
        conv("1x1", (28, 32), (24, 112), (1, 1), group=4, tail=("Add", "Relu")),
        dense(361, 80, 160),
        dense(96, 40, 192),
        dense(288, 64, 512),
    ],
    ids=lambda c: c.name,
)
def test_a_binary_of_pixels_that_threads_share_loads_for_one_thread(
    case: Case, tmp_path: Path
) -> None:
    for prepared, loaded in ((2, 1), (1, 2)):
        with qnnrt.Session(case.model(), threads=prepared) as session:
            session.save_binary(tmp_path / "pixels.bin")
        with qnnrt.Session(tmp_path / "pixels.bin", threads=loaded) as session:
            session.run()


SHARED = [
    conv("1x1", (28, 32), (24, 112), (1, 1), group=4, tail=("Add", "Relu")),
    conv("1x1", (23, 31), (48, 64), (1, 1), tail=("Relu", "Add")),
    conv("3x3", (41, 33), (3, 40), (3, 3), stride=2, pads=SAME, batch=1, tail=("Relu",)),
    conv("1x1", (23, 31), (64, 96), (1, 1), tail=("Add",), dtype=BRAIN),
    conv("3x3", (41, 33), (32, 40), (3, 3), pads=SAME, batch=1, tail=("Add",), dtype=BRAIN),
    conv("1x1 stride 2", (41, 33), (48, 64), (1, 1), stride=2, batch=1, dtype=BRAIN),
    conv("5x5 in groups", (27, 27), (96, 128), (5, 5), group=2, pads=((2, 2), (2, 2)), batch=1,
         tail=("Add", "Relu")),
    conv("2x2 stride 2", (41, 33), (40, 80), (2, 2), stride=2, tail=("Add", "Gelu"), dtype=BRAIN),
    conv("2x2 stride 2, few", (13, 13), (96, 80), (2, 2), stride=2, batch=1, dtype=BRAIN),
    conv("3x3", (41, 33), (32, 40), (3, 3), pads=SAME, batch=1, tail=("Add",), dtype=F16),
    matmul("rows", (3, 101, 128), (128, 192), (3, 101, 192), tail=("Add",), dtype=BRAIN,
           static=(1,)),
    matmul("rows", (303, 128), (192, 128), (303, 192), tb=True, dtype=F16, static=(1,)),
    matmul("rows", (7, 43, 40), (1, 40, 120), (7, 43, 120), tail=("Add", "Relu"), dtype=BRAIN,
           static=(1,)),
    dense(361, 16, 64, tail=("Gelu",)),
    dense(303, 100, 96, tail=("Relu", "Add")),
    dense(49, 48, 1000),
    dense(150, 32, 600),
]  # fmt: skip


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("case", SHARED, ids=lambda c: f"{c.name} {c.dtype}")
def test_pixels_that_threads_share_are_those_of_one_thread(case: Case, threads: int) -> None:
    alone, _ = run(case.model(), "auto", 1)
    shared, kernels = run(case.model(), "auto", threads)
    assert len(kernels) == 1
    np.testing.assert_array_equal(shared, alone)


@pytest.mark.skipif(not HAS_TILES, reason="no matrix tiles")
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("channels", [40, 48, 80])
def test_windows_side_by_side_are_multiplied_on_tiles(channels: int, threads: int) -> None:
    """Channels that end within a tile, too, and where there are more threads than tiles."""
    case = conv("2x2", (24, 24), (channels, 64), (2, 2), stride=2, batch=1, dtype=BRAIN)
    got, kernels = run(case.model(), "auto", threads)
    portable, _ = run(case.model(), "portable", threads)
    assert all(kernel.endswith("amx") for kernel in kernels.values()), kernels
    np.testing.assert_allclose(got.astype(F32), portable.astype(F32), rtol=2**-7, atol=1e-3)


@pytest.mark.skipif(not HAS_TILES, reason="no matrix tiles")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"), [(3025, 16, 64), (400, 96, 1536), (150, 80, 1152)]
)
def test_short_sums_of_many_rows_are_multiplied_on_matrix_tiles(
    rows: int, terms: int, columns: int, threads: int
) -> None:
    _, kernels = run(dense(rows, terms, columns).model(), "auto", threads)
    assert all("amx" in kernel for kernel in kernels.values()), kernels


def test_reference_implementations_are_never_used() -> None:
    for case in CASES:
        _, kernels = run(case.model(), "auto", 1)
        assert not any("ref" in k for k in kernels.values()), (case.name, kernels)


def test_packed_weights_are_not_kept_twice() -> None:
    """What a kernel packed is counted once; the tensor that it came from is let go."""
    case = conv("3x3", (14, 13), (16, 64), (3, 3), pads=SAME)
    weights = 4 * 3 * 3 * 16 * 64
    with qnnrt.Session(case.model(), threads=1) as session:
        described = json.loads(session.graph.describe() or "")
    assert weights <= described["weight_bytes"] < 1.1 * weights


def test_graphs_of_different_thread_counts_run_at_once() -> None:
    case = conv("3x3", (28, 28), (32, 64), (3, 3), pads=SAME, tail=("Relu",))
    expected, _ = run(case.model(), "portable", 1)

    def many(threads: int) -> list[np.ndarray]:
        return [run(case.model(), "auto", threads)[0] for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(many, [1, 2, 1, 2]):
            for output in outputs:
                np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_a_forked_child_builds_its_own_graph_and_does_not_hang() -> None:
    """The workers are gone in the child; it starts its own."""
    case = conv("3x3", (28, 28), (32, 64), (3, 3), pads=SAME)
    expected, _ = run(case.model(), "auto", 2)

    def body() -> None:
        import signal

        signal.alarm(600)
        with qnnrt.qnn.Backend.open("cpu") as backend:
            assert backend is not None
            model = case.model()
            with qnnrt.Session(model, backend, threads=2) as session:
                rng = np.random.default_rng(1)
                for tensor in session.inputs.values():
                    tensor.array[...] = rng.standard_normal(tensor.shape)
                session.run()
                output = next(iter(session.outputs.values())).array
                np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)

    in_child(body)
    np.testing.assert_array_equal(run(case.model(), "auto", 2)[0], expected)
