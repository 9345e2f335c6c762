"""Convolutions by channel and in groups, and recurrent ops, in BFLOAT_16: operands of 8 bits, sums
of 24, with every set of instructions. Products of 16-bit weights, which stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from session.test_precision import chain
from session.test_precision_kernels import numbers, rounded

import qnnrt
from qnnrt.model import Model, Node
from support import reference
from support.one_node import pairs, u32
from support.outside import PATHS, printed
from support.processor import HAS_BRAINS, HAS_TILES

#: Behind a convolution: nothing, clamps and what is none.
BEHIND: dict[str, dict[str, Any]] = {
    "Relu": {},
    "ReluMinMax": {"min_value": -0.5, "max_value": 0.25},
    "Sigmoid": {},
}
#: Channels, kernel, stride, before, after and size: windows of 3x3 that hang over on each side,
#: wider than the image, and such as have kernels of their own.
WINDOWS = [
    (16, (3, 3), (1, 1), (1, 1), (1, 1), (9, 20)),
    (19, (3, 3), (1, 2), (0, 1), (1, 0), (8, 35)),
    (32, (3, 3), (2, 2), (1, 1), (1, 1), (7, 7)),
    (70, (3, 3), (2, 1), (2, 2), (2, 2), (3, 1)),
    (128, (3, 3), (1, 1), (0, 0), (0, 0), (3, 3)),
    (5, (3, 3), (1, 1), (1, 1), (1, 1), (6, 6)),
    (24, (5, 5), (1, 1), (2, 2), (2, 2), (7, 9)),
    (48, (3, 3), (3, 3), (1, 1), (1, 1), (9, 9)),
]
#: Channels of a group, groups, stride, and size.
GROUPS = [
    (4, 32, (1, 1), (9, 20)), (8, 5, (2, 2), (11, 11)), (16, 3, (1, 1), (5, 33)),
    (24, 4, (1, 1), (6, 7)), (32, 2, (2, 1), (7, 18)), (2, 40, (1, 1), (6, 6)),
]  # fmt: skip
#: Steps, batch, inputs and units: one row, some, what fills up matrix tiles, and states that they
#: multiply as two halves, in one tile and in three.
SEQUENCES = [
    (1, 1, 9, 16), (40, 1, 33, 32), (5, 2, 64, 48), (6, 7, 20, 16), (9, 3, 7, 13),
    (5, 1, 33, 128), (3, 20, 70, 72), (4, 2, 19, 129),
]  # fmt: skip

#: Rows, depth and columns of products of FLOAT_16: one row, and chunks by weights of 512 KiB.
HALVES = [(1, 64, 32), (1, 301, 100), (1, 7, 1), (2, 520, 530), (13, 1031, 257), (128, 600, 444)]
#: And of BFLOAT_16, where small weights stay, too, and any number of rows.
BRAINS = [*HALVES, (3, 33, 70), (12, 128, 32), (300, 129, 65)]
#: What they are stored as, cases, and bits behind the point.
NARROW: dict[str, tuple[Any, list[tuple[int, int, int]], int]] = {
    "float16": (np.float16, HALVES, 11),
    "bfloat16": (ml_dtypes.bfloat16, BRAINS, 8),
}


def run(model: Model, x: np.ndarray, threads: int) -> np.ndarray:
    with qnnrt.Session(model, threads=threads, precision="bfloat16") as s:
        return np.array(s.run({"x": x})["y"])


def convolutions() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What comes out and what would, exactly."""
    cases: list[tuple[str, tuple[int, ...], np.ndarray, dict[str, Any]]] = []
    for i, (c, kernel, stride, before, after, size) in enumerate(WINDOWS):
        pads = pairs(before, after)
        w = numbers(i, *kernel, 1, c)
        cases.append(
            ("DepthWiseConv2d", (2, *size, c), w, {"stride": u32(*stride), "pad_amount": pads})
        )
    for i, (depth, groups, stride, size) in enumerate(GROUPS):
        c = depth * groups
        w = numbers(i, 3, 3, depth, c)
        params = {"stride": u32(*stride), "pad_amount": pairs((1, 1), (1, 1)), "group": groups}
        cases.append(("Conv2d", (2, *size, c), w, params))
    for number, (op, shape, w, params) in enumerate(cases):
        x, b = numbers(50, *shape), numbers(51, shape[-1])
        given = [-rounded(x).astype(np.float64), rounded(w).astype(np.float64), b]
        sums = reference.of(op, given, params)
        for behind, more in BEHIND.items():
            model = chain(
                Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
                Node("conv", op, ["a", "w", "b"], ["c"], params),
                Node("behind", behind, ["c"], ["m"], more),
                Node("last", "ElementWiseNeg", ["m"], ["y"], {}),
                x=shape, a=shape, w=w, b=b, c=sums.shape, m=sums.shape, y=sums.shape,
            )  # fmt: skip
            wanted = -reference.of(behind, [sums], more)
            yield f"{op} {number} {behind}", run(model, x, 1 + number % 2), wanted


def sequences() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for i, (steps, batch, inputs, units) in enumerate(SEQUENCES):
        x = numbers(60 + i, steps, batch, inputs)
        for op in ("Lstm", "Gru"):
            gates = 4 if op == "Lstm" else 3
            w = [numbers(70 + g, units, inputs) / np.float32(np.sqrt(inputs)) for g in range(gates)]
            r = [numbers(80 + g, units, units) / np.float32(np.sqrt(units)) for g in range(gates)]
            b = [numbers(90 + g, units) for g in range(gates)]
            values: list[np.ndarray | None]
            if op == "Lstm":
                values = [None, *w[:3], *r[:3], *b[:3], *[None] * 6, w[3], r[3], *[None] * 3, b[3]]
            else:
                values = [None, *w, *r, *b]
            params = {"time_major": True} if op == "Lstm" else {}
            names = {f"v{n}": v for n, v in enumerate(values) if v is not None}
            ports = ["" if v is None else f"v{n}" for n, v in enumerate(values)][1:]
            shape = (steps, batch, units)
            model = chain(
                Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
                Node("cells", op, ["a", *ports], ["c"], params),
                Node("last", "ElementWiseNeg", ["c"], ["y"], {}),
                x=x.shape, a=x.shape, c=shape, y=shape, **names,
            )  # fmt: skip
            exact = [v if v is None or v.ndim == 1 else rounded(v) for v in values]
            exact[0] = -rounded(x)
            wanted = -reference.of(
                op, [v if v is None else v.astype(np.float64) for v in exact], params
            )[0]
            yield f"{op} {i}", run(model, x, 1 + i % 2), wanted


def worst() -> dict[str, float]:
    """Of each case the largest error over what rounding to 8 bits may leave."""
    found = {}
    for cases, slack in ((convolutions(), 3e-5), (sequences(), 3e-5)):
        for name, got, wanted in cases:
            # What is as small as the error of the sums before it has no 8 bits.
            room = np.abs(wanted) * 2**-8 * 1.001 + slack
            found[name] = float(np.max(np.abs(got - wanted) / room))
    return found


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_products_have_operands_of_8_bits_and_sums_of_24(isa: str | None) -> None:
    """Without a name, with whatever the processor has."""
    code = "import json\nfrom session import test_precision_products as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.worst()))", **sets))
    assert len(found) == (len(WINDOWS) + len(GROUPS)) * len(BEHIND) + 2 * len(SEQUENCES)
    assert {name: error for name, error in found.items() if error > 1} == {}


def worst_narrow(precision: str) -> dict[str, float]:
    """Of each case the largest error over what rounding to its bits may leave, and whether the
    weights are there in 16 bits alone."""
    found = {}
    dtype, cases, bits = NARROW[precision]
    for i, (m, k, n) in enumerate(cases):
        x, w, b = numbers(i, m, k), numbers(20 + i, k, n), numbers(40 + i, n)
        w[:, ::3] *= 2.0**-20  # below the smallest normal number
        w[0, 0], w[k - 1, n - 1] = 65504, 0
        x[:, 0] = 2.0**-12
        half = [v.astype(dtype).astype(np.float64) for v in (x, w)]
        # A bias stays in FLOAT_32 beside products of BFLOAT_16.
        wanted = -(half[0] @ half[1]) + (b.astype(dtype) if precision == "float16" else b)
        model = chain(
            Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
            Node("product", "MatMul", ["a", "w", "b"], ["c"], {}),
            Node("last", "ElementWiseNeg", ["c"], ["y"], {}),
            x=x.shape, a=x.shape, w=w, b=b, c=wanted.shape, y=wanted.shape,
        )  # fmt: skip
        options = {"share_weights": "nobody"}
        with qnnrt.Session(model, threads=1 + i % 2, precision=precision, options=options) as s:
            got = -s.run({"x": x})["y"].astype(np.float64)
            packed = s.stats.private_weight_bytes
        depth = 32 if HAS_TILES else 2  # of a block of weights
        columns = 64 if HAS_TILES or (HAS_BRAINS and precision == "bfloat16") else 32
        size = -(-k // depth) * depth * -(-n // columns) * columns * 2  # in whole blocks
        assert packed < size + 8192, (m, k, n, packed)
        room = np.abs(wanted) * 2.0**-bits + 3e-5
        found[f"{m} {k} {n}"] = float(np.max(np.abs(got - wanted) / room))
    return found


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_weights_of_16_bits_are_multiplied_as_they_are(isa: str | None, precision: str) -> None:
    code = "import json\nfrom session import test_precision_products as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.worst_narrow({precision!r})))", **sets))
    assert len(found) == len(NARROW[precision][1])
    assert {name: error for name, error in found.items() if error > 1} == {}


@pytest.mark.skipif(not HAS_TILES, reason="a processor without matrix tiles")
def test_groups_of_few_channels_are_multiplied_on_tiles() -> None:
    x, w, b = (1, 12, 12, 128), numbers(1, 3, 3, 4, 128), numbers(2, 128)
    params = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1)), "group": 32}
    model = chain(
        Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("conv", "Conv2d", ["a", "w", "b"], ["y"], params),
        x=x, a=x, w=w, b=b, y=x,
    )  # fmt: skip
    with qnnrt.Session(model, precision="bfloat16") as s:
        steps = json.loads(s.graph.describe() or "")["steps"]
    assert {step["name"]: step["kernel"] for step in steps}["conv"] == "amx:groups"
