"""Products of floats with weights of 4 and 8 bits, which stay as they are: what they are made of,
and what they hold in memory."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qnnrt import Session, qnn
from qnnrt.model import Quantization
from qnnrt.qnn.options import own_graph_config
from support.one_node import KERNELS, Case, add_to, case, graph_options, pairs, u32
from support.outside import PATHS, printed
from support.processor import FORCED, processor_has

#: Of the sum of the products' absolute values. In floats these sums are off by as much.
TOLERANCE = 2e-6


@dataclass(frozen=True)
class Product:
    """`x` times a constant [n, k], or [k, n] where `across`."""

    x: tuple[int, ...]
    n: int
    bits: int = 4
    signed: bool = False
    block: int | None = None  # along k; None: `axis` says
    block_n: int = 1
    axis: bool = True  # a scale for each of the n, or one for all
    zeros: bool = False  # of many values; else those of the middle
    across: bool = False
    op: str = "MatMul"
    bias: bool = False
    packed: bool = False  # comes with two elements in a byte
    threads: int = 2

    @property
    def k(self) -> int:
        return self.x[-1]


CASES = {
    "blocks of 32": Product((1, 256), 64, block=32),
    "blocks of 16, zero points": Product((1, 256), 50, block=16, zeros=True, packed=True),
    "blocks of 64, signed": Product((3, 192), 51, block=64, signed=True, bias=True, threads=1),
    "blocks of 128": Product((2, 1, 384), 67, block=128, zeros=True, packed=True),
    "blocks of 256": Product((8, 1024), 37, block=256, signed=True, zeros=True),
    "blocks of 96": Product((2, 480), 33, block=96, zeros=True),
    "a ragged depth": Product((1, 301), 77, axis=True, zeros=True),
    "a ragged depth, packed": Product((5, 301), 77, signed=True, packed=True),
    "one scale": Product((4, 300), 64, axis=False, signed=True),
    "blocks along the outputs": Product((6, 256), 64, block=64, block_n=4, zeros=True),
    "across": Product((1, 256), 100, block=32, across=True, zeros=True, bias=True),
    "across, packed": Product((3, 256), 99, block=64, across=True, packed=True, signed=True),
    "dense": Product((7, 320), 40, op="FullyConnected", block=32, zeros=True, bias=True),
    "pointwise": Product((1, 3, 4, 160), 48, op="Conv2d", across=True, block=32, bias=True),
    "many rows": Product((70, 384), 150, block=32, zeros=True, bias=True, threads=3),
    "very many rows": Product((2, 65, 700), 61, axis=True, signed=True, bias=True),
    "many rows, blocks of 16": Product((13, 208), 45, block=16, zeros=True, packed=True),
    "many rows, a ragged depth": Product((10, 301), 77, signed=True, packed=True, threads=1),
    "many rows, 40 blocks of 16": Product((70, 640), 45, block=16, zeros=True, packed=True),
    "many rows, blocks of 64": Product((12, 256), 64, block=64, zeros=True),
    "bytes": Product((1, 256), 64, bits=8, block=32, zeros=True),
    "bytes, signed": Product((4, 333), 65, bits=8, signed=True, bias=True),
    "bytes, many rows": Product((33, 256), 65, bits=8, signed=True, across=True, threads=5),
    "bytes, pieces": Product((140, 1200), 133, bits=8, block=16, zeros=True, bias=True),
    "bytes, many rows and zeros": Product((25, 480), 70, bits=8, block=32, zeros=True, bias=True),
    "bytes, many rows and scales": Product((9, 640), 65, bits=8, block=128, signed=True),
    "bytes, one scale": Product((2, 9, 128), 70, bits=8, axis=False, zeros=True),
    "a row, 21 blocks of 32": Product((1, 672), 45, block=32, zeros=True),
    "a row, 37 blocks of 16": Product((1, 592), 31, block=16, signed=True, threads=1),
    "a row, 19 blocks of 64": Product((1, 1216), 29, block=64, zeros=True, bias=True),
    "a row, 5 blocks of 256": Product((1, 1280), 83, block=256, zeros=True, packed=True),
    "a row of bytes, 21 blocks of 32": Product((1, 672), 45, bits=8, block=32, threads=1),
    "a row of bytes, 37 blocks of 16": Product((1, 592), 31, bits=8, block=16, zeros=True),
    "a row of bytes, 19 blocks of 64": Product((1, 1216), 29, bits=8, block=64, signed=True),
    "a row, one short of a vector": Product((1, 511), 33, zeros=True),
    "rows, one short of a vector": Product((3, 255), 37, signed=True, packed=True, bias=True),
    "a row of bytes, a ragged depth": Product((1, 333), 65, bits=8, signed=True, bias=True),
    "a row shorter than a vector": Product((1, 50), 101, zeros=True, threads=1),
}


def encoding_of(p: Product, rng: np.random.Generator) -> Quantization:
    count = 1 if p.block is None else p.k // p.block
    grid = (p.n // p.block_n, count) if p.axis else (1, 1)
    scale = rng.uniform(0.01, 0.1, grid).astype(np.float32)
    middle = 0 if p.signed else 1 << (p.bits - 1)
    offset = np.full(grid, -middle, np.int32)
    if p.zeros:
        offset -= rng.integers(-(1 << (p.bits - 1)), 1 << (p.bits - 1), grid).astype(np.int32)
    axes = 4 if p.op == "Conv2d" else 2
    if p.across:
        scale, offset = scale.T, offset.T
    if p.block is not None:
        block = (p.block, p.block_n) if p.across else (p.block_n, p.block)
        block = (1,) * (axes - 2) + block
        lead = (1,) * (axes - 2)
        return Quantization(
            scale.reshape(lead + scale.shape), offset.reshape(lead + offset.shape), block=block,
            bitwidth=4 if p.bits == 4 else None,
        )  # fmt: skip
    bits = 4 if p.bits == 4 else None
    if not p.axis:
        return Quantization(float(scale.item()), int(offset.item()), bitwidth=bits)
    return Quantization(scale.ravel(), offset.ravel(), axes - (1 if p.across else 2), bits)


def spread(values: Any, q: Quantization, shape: tuple[int, ...]) -> np.ndarray:
    """A scale or an offset for each element."""
    values = np.asarray(values, np.float64)
    if q.block is not None:
        for d, size in enumerate(q.block):
            values = values.repeat(size, d)
        return values
    if q.axis is not None:
        values = values.reshape([-1 if d == q.axis else 1 for d in range(len(shape))])
    return np.broadcast_to(values, shape)


def two_in_a_byte(codes: np.ndarray) -> np.ndarray:
    flat = np.append(codes.reshape(-1), np.zeros(codes.size % 2, codes.dtype))
    low, high = flat.reshape(-1, 2).T.astype(np.uint8) & 15
    return low | high << 4


#: Numbers that become others, or no number, where sums are taken apart; a row has one of them, and
#: one more beside one that is not finite.
EXTREMES = (np.inf, 3e38, -np.inf, np.nan, -1e31)


def in_bytes(x: np.ndarray, size: int) -> np.ndarray:
    """Numbers of 8 bits with a scale for each `size` along a row."""
    rows = np.zeros((x.size // x.shape[-1], -(-x.shape[-1] // size) * size), np.float32)
    rows[:, : x.shape[-1]] = x.reshape(len(rows), -1)
    chunks = rows.reshape(len(rows), -1, size)
    largest = np.abs(chunks).max(-1, keepdims=True)
    factors = np.divide(127, largest, out=np.zeros_like(largest), where=largest > 0)
    found = np.rint(chunks * factors).astype(np.float64) * largest / 127
    return found.reshape(rows.shape)[:, : x.shape[-1]].reshape(x.shape)


def build(
    name: str, extreme: bool = False, rounded: bool = False, dtype: Any = np.float32
) -> tuple[Case, np.ndarray, np.ndarray]:
    """The case, what it should give (with activations `rounded` to bytes) and what errors are
    measured by."""
    p = CASES[name]
    rng = np.random.default_rng(list(CASES).index(name))
    x = rng.standard_normal(p.x, np.float32).astype(dtype)
    if extreme:  # every other row has none
        rows = x.reshape(-1, p.k)
        for m in range(0, len(rows), 2):
            place, value = (m * 37 + 5) % p.k, EXTREMES[m // 2 % len(EXTREMES)]
            rows[m, place] = value
            if not np.isfinite(value):
                rows[m, (place + 1) % p.k] = value
    shape: tuple[int, ...] = (p.k, p.n) if p.across else (p.n, p.k)
    shape = (1, 1, *shape) if p.op == "Conv2d" else shape
    low = -(1 << (p.bits - 1)) if p.signed else 0
    codes = rng.integers(low, low + (1 << p.bits), shape).astype(np.int8 if p.signed else np.uint8)
    q = encoding_of(p, rng)
    real = spread(q.scale, q, shape) * (codes + spread(q.offset, q, shape))
    real = real.reshape(shape[-2:])
    real = real if p.across else real.T
    inputs: list[np.ndarray | None] = [x, codes]
    if p.bias:
        inputs.append(rng.standard_normal(p.n, np.float32))
    params: dict[str, Any] = {}
    if p.op == "MatMul":
        params = {"transpose_in0": False, "transpose_in1": not p.across}
    elif p.op == "Conv2d":
        params = {"stride": u32(1, 1), "pad_amount": pairs([0, 0], [0, 0])}
    out = (*p.x[:-1], p.n)
    encodings = {"in1": q}
    made = case(p.op, inputs, [out], params, static=(1, 2), encodings=encodings, name="")
    if p.packed:
        t = made.model.tensors["in1"]
        t.data, t.quantization = two_in_a_byte(codes), replace(q, packed=True)
    factors = in_bytes(x, 16 if p.block == 16 else 32) if rounded else x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        wanted = np.einsum("...k,kn->...n", factors, real)
        size = np.einsum("...k,kn->...n", np.abs(factors), np.abs(real))
    if p.bias:
        wanted, size = wanted + inputs[2], size + np.abs(inputs[2])
    return made, wanted, size


def run(
    name: str,
    kernels: str,
    extreme: bool = False,
    byte_activations: bool = False,
    dtype: Any = np.float32,
) -> tuple[np.ndarray, dict[str, Any]]:
    made, _, _ = build(name, extreme, dtype=dtype)
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        custom = [
            *graph_options(kernels, CASES[name].threads),
            *own_graph_config(backend.library, byte_activations=byte_activations),
        ]
        graph = context.create_graph("g", custom=custom)
        add_to(graph, made.model)
        graph.finalize()
        results = {t.name: np.full(t.shape, 77, t.dtype) for t in graph.outputs}
        graph.execute(made.feeds, results)
        return results[made.model.outputs[0]], json.loads(graph.describe() or "")


def errors(kernels: str) -> dict[str, float]:
    """Of each case the largest error, of the products' sizes; once more with what is extreme."""
    found = {}
    for name, extreme in itertools.product(CASES, (False, True)):
        _, wanted, size = build(name, extreme)
        got, plan = run(name, kernels, extreme)
        assert [step["op"] for step in plan["steps"]] == ["MatMulNBits"], name
        with np.errstate(over="ignore"):
            wanted = wanted.astype(np.float32)
        number = np.isfinite(wanted)
        np.testing.assert_array_equal(got[~number], wanted[~number], name)
        off = np.abs(got[number] - wanted[number]) / size[number]
        found[f"{name}, {extreme}"] = float(off.max(initial=0))
    return found


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_products_match_the_definition(isa: str | None, kernels: str) -> None:
    code = "import json\nfrom ops import test_ops_narrow_weights as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.errors({kernels!r})))", **sets))
    assert len(found) == 2 * len(CASES)
    assert {k: error for k, error in found.items() if not error <= TOLERANCE} == {}


@pytest.mark.parametrize("name", CASES)
def test_activations_may_be_bytes(name: str) -> None:
    """Where the client allows it, and the processor multiplies bytes faster."""
    exact, _ = run(name, "auto")
    got, _ = run(name, "auto", byte_activations=True)
    if not processor_has("avx512_vnni") or FORCED:
        assert np.array_equal(got, exact)
        return
    _, wanted, size = build(name, rounded=True)
    assert (np.abs(got - wanted) / size).max() <= TOLERANCE
    assert (np.abs(exact - wanted) / size).max() > 10 * TOLERANCE


@pytest.mark.parametrize("name", [name for name, p in CASES.items() if not p.bias])
def test_activations_of_16_bits_lose_nothing_more(name: str) -> None:
    """But for the last bits beside the largest number of a few: results are rounded to nearest."""
    got, plan = run(name, "auto", dtype=ml_dtypes.bfloat16)
    assert [step["op"] for step in plan["steps"]] == ["MatMulNBits"]
    _, wanted, size = build(name, dtype=ml_dtypes.bfloat16)
    off = np.abs(got.astype(np.float64) - wanted) - np.abs(wanted) / 256
    assert (off / size).max() <= 1e-5


def test_what_is_no_number_stays_none_in_bytes() -> None:
    for name in CASES:
        exact, _ = run(name, "auto", extreme=True)
        got, _ = run(name, "auto", extreme=True, byte_activations=True)
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(exact), name)


@pytest.mark.parametrize("name", CASES)
def test_weights_take_what_their_bits_take(name: str) -> None:
    """And a float for each block, where its zero point is its own a byte, or, of 4 bits, 8 for 16
    blocks if that is less."""
    p = CASES[name]
    _, plan = run(name, "auto")
    given = p.k if p.block is None else p.block
    block = 32 if given == 96 else given
    each = 1 if p.block is None else p.k // block
    blocks = p.n * each
    rows = p.n * ((p.k * p.bits + 7) // 8)
    zeros = p.n * min(each, -(-each // 16) * 8 if p.bits == 4 else each) if p.zeros else 0
    assert plan["weight_bytes"] == rows + 4 * blocks + zeros + 4 * p.n * p.bias


def test_a_session_says_the_same() -> None:
    made, wanted, size = build("blocks of 16, zero points")
    with Session(made.model) as session:
        (got,) = session.run(made.feeds).values()
    assert (np.abs(got - wanted) / size).max() <= TOLERANCE


def test_graphs_of_a_context_have_them_once() -> None:
    """A decode step and a prefill of the same weights: one copy of all that they take."""
    rng = np.random.default_rng(0)
    n, k, block = 256, 512, 32
    q = Quantization(
        rng.uniform(0.01, 0.1, (n, k // block)).astype(np.float32),
        -rng.integers(0, 16, (n, k // block)).astype(np.int32),
        block=(1, block),
        bitwidth=4,
        packed=True,
    )
    codes = rng.integers(0, 256, n * k // 2).astype(np.uint8)
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graphs = []
        for rows in (1, 40):
            graph = context.create_graph(f"g{rows}")
            x = graph.add_tensor("x", (rows, k), np.float32, type="app_write")
            w = graph.add_tensor("w", (n, k), np.uint8, type="static", data=codes, quantization=q)
            y = graph.add_tensor("y", (rows, n), np.float32, type="app_read")
            graph.add_node("node", "FullyConnected", [x, w], [y], {})
            graph.finalize()
            graphs.append(graph)
        size = n * k // 2 + 4 * n * k // block + n * k // block // 2
        for graph in graphs:
            assert json.loads(graph.describe() or "")["weight_bytes"] == size
            assert backend.library.graph_weights(graph.handle) == (size, 0)
