"""Norms and elementwise ops in BFLOAT_16 round once, with every set of instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from session.test_precision import chain

import qnnrt
from qnnrt.model import Model, Node
from support import reference
from support.one_node import u32
from support.outside import PATHS, printed

#: Ops, with their params and the numbers of channels that go around vectors and blocks.
CHANNELS = (1, 5, 16, 19, 64, 130, 1100)
NORMS: dict[str, dict[str, Any]] = {
    "Batchnorm": {},
    "LayerNorm": {"epsilon": 1e-5, "axes": u32(3)},
    "RmsNorm": {"epsilon": 1e-5, "axes": u32(3)},
    "L2Norm": {"axes": u32(3)},
    "InstanceNorm": {"epsilon": 1e-5},
    "GroupNorm": {"epsilon": 1e-5, "group": 1},
}
BEHIND: dict[str, dict[str, Any]] = {
    "ElementWiseAbs": {},
    "Relu": {},
    "ReluMinMax": {"min_value": -0.5, "max_value": 0.25},
    "Sigmoid": {},
}
#: Norms that compute what follows; behind the others it is computed of what was rounded.
TAKE = ("Batchnorm", "InstanceNorm", "GroupNorm")
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum")


def rounded(x: np.ndarray) -> np.ndarray:
    """To the nearest number with 8 significant bits, half-way to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).reshape(np.shape(x))


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(model: Model, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    with qnnrt.Session(model, threads=2, precision="bfloat16") as s:
        return np.array(s.run(feeds)["y"])


def norms() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What comes out and what would, exactly; between two nodes whose results have 16 bits."""
    for channels in CHANNELS:
        x, (w, b) = 3 * numbers(1, 2, 9, 7, channels) + 2, numbers(2, 2, channels)
        for op, params in NORMS.items():
            vectors = [] if op == "L2Norm" else [w, b]
            for behind, more in BEHIND.items():
                if behind == "Sigmoid" and op not in TAKE:
                    continue
                tensors = dict.fromkeys(("a", "n", "y"), x.shape) | {"x": x.shape}
                names = [f"v{i}" for i in range(len(vectors))]
                model = chain(
                    Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
                    Node("norm", op, ["a", *names], ["n"], params),
                    Node("behind", behind, ["n"], ["m"], more),
                    Node("last", "ElementWiseNeg", ["m"], ["y"], {}),
                    **tensors, m=x.shape, **dict(zip(names, vectors, strict=True)),
                )  # fmt: skip
                given = [-rounded(x).astype(np.float64), *vectors]
                wanted = -reference.of(behind, [reference.of(op, given, params)], more)
                yield f"{op} {behind} {channels}", run(model, {"x": x}), wanted


def binary() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    of = {
        "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Divide": np.divide,
        "Maximum": np.maximum,
    }  # fmt: skip
    for channels in CHANNELS:
        shape = (3, 5, channels)
        x, z = numbers(3, *shape), np.abs(numbers(4, *shape)) + 1
        second = {"all": shape, "each": (channels,), "one": (1,)}
        for op in BINARY:
            for kind, other in second.items():
                k = np.abs(numbers(5, *other)) + 1
                exact = of[op]
                # Of constants, which keep 32 bits, and of what is computed, on either side.
                a, b = -rounded(x).astype(np.float64), -rounded(z).astype(np.float64)
                for first, ins, wanted in (
                    ("constant behind", ["a", "k"], exact(a, k)),
                    ("constant before", ["k", "a"], exact(k, a)),
                    ("both", ["a", "b"], exact(a, b)),
                ):
                    model = chain(
                        Node("one", "ElementWiseNeg", ["x"], ["a"], {}),
                        Node("two", "ElementWiseNeg", ["x2"], ["b"], {}),
                        Node("op", f"ElementWise{op}", ins, ["c"], {}),
                        Node("last", "ElementWiseNeg", ["c"], ["y"], {}),
                        Node("also", "ElementWiseNeg", ["b"], ["y2"], {}),
                        x=shape, x2=shape, a=shape, b=shape, c=shape, y=shape, y2=shape, k=k,
                    )  # fmt: skip
                    name = f"{op} {kind} {first} {channels}"
                    yield name, run(model, {"x": x, "x2": z}), -wanted


def worst() -> dict[str, float]:
    """Of each case the largest error over what rounding to 8 bits may leave."""
    found = {}
    for cases, slack in ((norms(), 3e-5), (binary(), 0)):
        for name, got, wanted in cases:
            # What is as small as the error of the sums before it has no 8 bits.
            room = np.abs(wanted) * 2**-8 * 1.001 + slack
            found[name] = float(np.max(np.abs(got - wanted) / np.maximum(room, 1e-30)))
    return found


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_results_are_rounded_once(isa: str | None) -> None:
    """Without a name, with whatever the processor has."""
    code = "import json\nfrom session import test_precision_kernels as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.worst()))", **sets))
    norms_of_each = len(NORMS) * (len(BEHIND) - 1) + len(TAKE)
    assert len(found) == len(CHANNELS) * (norms_of_each + len(BINARY) * 9)
    assert {name: error for name, error in found.items() if error > 1} == {}


@pytest.mark.parametrize("behind", ["Relu", "Sigmoid"])
def test_a_part_of_a_whole_is_scaled_where_it_lies(behind: str) -> None:
    """As in networks that join what they had with what is new."""
    shape, joined, whole = (2, 5, 3, 24), (2, 5, 3, 48), (2, 5, 3, 72)
    x, (w, b) = numbers(7, *shape), numbers(8, 2, 48)
    model = chain(
        Node("one", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("two", "ElementWiseAbs", ["a"], ["b"], {}),
        Node("join", "Concat", ["a", "b"], ["c"], {"axis": 3}),
        Node("scale", "Batchnorm", ["c", "w", "v"], ["n"], {}),
        Node("behind", behind, ["n"], ["m"], {}),
        Node("last", "ElementWiseNeg", ["m"], ["y"], {}),
        Node("all", "Concat", ["c", "a"], ["e"], {"axis": 3}),
        Node("also", "ElementWiseNeg", ["e"], ["y2"], {}),
        x=x.shape, a=shape, b=shape, c=joined, n=joined, m=joined, y=joined, e=whole, y2=whole,
        w=w, v=b,
    )  # fmt: skip
    a = -rounded(x).astype(np.float64)
    c = np.concatenate([a, abs(a)], -1)
    n = c * w + b
    wanted = -np.maximum(n, 0) if behind == "Relu" else -1 / (1 + np.exp(-n))
    with qnnrt.Session(model, precision="bfloat16") as s:
        found = {k: np.array(v) for k, v in s.run({"x": x}).items()}
    np.testing.assert_allclose(found["y"], wanted, rtol=2**-8 * 1.001, atol=1e-6)
    np.testing.assert_array_equal(found["y2"], -np.concatenate([c, a], -1))


def test_what_is_no_number_stays_none() -> None:
    shape = (40,)
    x = numbers(6, *shape)
    x[3], x[21], x[39], x[7] = np.nan, np.inf, -np.inf, np.nan
    model = chain(
        Node("one", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("clamp", "ReluMinMax", ["a"], ["b"], {"min_value": -2.0, "max_value": 2.0}),
        Node("add", "ElementWiseAdd", ["a", "b"], ["c"], {}),
        Node("last", "ElementWiseNeg", ["c"], ["y"], {}),
        x=shape, a=shape, b=shape, c=shape, y=shape,
    )  # fmt: skip
    a = -rounded(x)
    wanted = -rounded(a + np.clip(a, -2, 2))
    np.testing.assert_array_equal(run(model, {"x": x})[np.isfinite(x)], wanted[np.isfinite(x)])
    np.testing.assert_array_equal(
        run(model, {"x": x})[[3, 7, 21, 39]], [np.nan, np.nan, np.inf, -np.inf]
    )
