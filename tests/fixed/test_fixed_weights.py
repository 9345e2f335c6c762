"""Constant weights in fixed point under float activations: the numbers that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.model import Quantization
from support.one_node import KERNELS, case, outcome, pairs, run_op, u32
from support.outside import PATHS, printed
from support.vendor import vendor_library

RNG = np.random.default_rng(16)
CONV = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
#: An op: shapes of input, weights and output, the axis of the weights' outputs, params.
OPS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, dict[str, Any]]]
OPS = {
    "FullyConnected": ("FullyConnected", (3, 64), (16, 64), (3, 16), 0, {}),
    "MatMul": ("MatMul", (3, 64), (64, 16), (3, 16), 1, {}),
    "MatMul of rows": ("MatMul", (3, 64), (16, 64), (3, 16), 0, {"transpose_in1": np.bool_(True)}),
    "Conv2d": ("Conv2d", (1, 7, 6, 16), (3, 3, 16, 8), (1, 7, 6, 8), 3, CONV),
    "DepthWiseConv2d": ("DepthWiseConv2d", (1, 7, 6, 8), (3, 3, 1, 8), (1, 7, 6, 8), 3, CONV),
    "TransposeConv2d": ("TransposeConv2d", (1, 5, 6, 8), (3, 3, 8, 4), (1, 5, 6, 4), 3, CONV),
}
#: Of weights: the type, the range of integers, the offset, the bit width; along the axis or not.
WEIGHTS: dict[str, tuple[Any, tuple[int, int], int, int | None, bool]] = {
    "8 bits": (np.int8, (-127, 128), 0, None, True),
    "4 bits": (np.int8, (-8, 8), 0, 4, True),
    "unsigned": (np.uint8, (0, 256), -128, None, False),
    "16 bits": (np.int16, (-32768, 32768), 0, None, False),
}


def weights(op: str, kind: str) -> tuple[np.ndarray, Quantization, np.ndarray]:
    """The integers, how they are to be read, and the numbers that they stand for."""
    _, _, shape, _, axis, _ = OPS[op]
    dtype, limits, offset, bits, along = WEIGHTS[kind]
    codes = RNG.integers(*limits, shape).astype(dtype)
    scale = np.float32(2) ** -RNG.integers(6, 9, shape[axis] if along else ()).astype(np.float32)
    offsets = np.full(scale.shape, offset, np.int32)
    q = Quantization(scale, offsets, axis=axis if along else None, bitwidth=bits)
    lying = scale.reshape([-1 if along and d == axis else 1 for d in range(len(shape))])
    return codes, q, (codes.astype(np.float32) + offset) * lying


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("op", OPS)
def test_products_are_those_of_the_numbers_that_weights_stand_for(
    op: str, kind: str, dtype: Any
) -> None:
    type_, x_shape, _, y_shape, _, params = OPS[op]
    codes, q, real = weights(op, kind)
    x = RNG.standard_normal(x_shape).astype(dtype)
    for kernels in KERNELS:
        (found,) = run_op(
            type_, [x, codes], [y_shape], params, static={1}, encodings={"in1": q}, kernels=kernels
        )
        (wanted,) = run_op(
            type_, [x, real.astype(dtype)], [y_shape], params, static={1}, kernels=kernels
        )
        np.testing.assert_array_equal(found, wanted)


def test_activations_behind_it_and_biases_are_floats_as_ever() -> None:
    codes, q, real = weights("FullyConnected", "8 bits")
    x, bias = RNG.standard_normal((3, 64)), RNG.standard_normal(16)
    x, bias = x.astype(np.float16), bias.astype(np.float16)
    more = {"static": {1, 2}, "then": [("Relu", {})], "kernels": "auto"}
    args: Any = [(3, 16)], {}
    (found,) = run_op("FullyConnected", [x, codes, bias], *args, encodings={"in1": q}, **more)
    (wanted,) = run_op("FullyConnected", [x, real.astype(np.float16), bias], *args, **more)
    np.testing.assert_array_equal(found, wanted)
    assert found.min() == 0 < found.max()


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_binaries_of_them_are_those_of_floats(backend: str, tmp_path: Path) -> None:
    codes, q, real = weights("Conv2d", "8 bits")
    x = RNG.standard_normal((1, 7, 6, 16)).astype(np.float16)
    args: Any = [(1, 7, 6, 8)], CONV
    given = case("Conv2d", [x, codes], *args, static={1}, encodings={"in1": q})
    plain = case("Conv2d", [x, real.astype(np.float16)], *args, static={1})
    results = []
    for what in (given, plain):
        with qnnrt.Session(what.model, backend) as s:
            results.append(np.array(s.run(what.feeds)["out0"]))
            s.save_binary(tmp_path / "net.bin")
            with qnnrt.Session(tmp_path / "net.bin", backend) as loaded:
                np.testing.assert_array_equal(loaded.run(what.feeds)["out0"], results[-1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("static", "bias"),
    [(set(), np.zeros(16, np.float16)), ({1, 2}, np.zeros(16, np.int32))],
    ids=["weights that change", "a bias in fixed point"],
)
def test_other_mixtures_are_refused(static: set[int], bias: np.ndarray) -> None:
    codes, q, _ = weights("FullyConnected", "8 bits")
    encodings = {"in1": Quantization(0.5, 0) if not static else q, "in2": Quantization(0.5, 0)}
    if bias.dtype == np.float16:
        del encodings["in2"]
    x = np.zeros((3, 64), np.float16)
    what = case("FullyConnected", [x, codes, bias], [(3, 16)], static=static, encodings=encodings)
    with qnn.Backend.open("htp") as backend:
        found = outcome(backend, what)
    assert (found.stage, found.code) == ("validate", 3110)


def compare(op: str, kind: str) -> None:
    """With the vendor's simulator. It keeps what devices were made with, and computes in half
    precision from then on: for a process of its own."""
    type_, x_shape, _, y_shape, _, params = OPS[op]
    codes, q, _ = weights(op, kind)
    x = RNG.standard_normal(x_shape).astype(np.float16)
    what = case(type_, [x, codes], [y_shape], params, static={1}, encodings={"in1": q})
    found = []
    for name in ("htp", vendor_library("libQnnHtp.so")):
        with qnn.Backend.open(name, log_level="error", soc_model=57, htp_arch=75) as backend:
            ran = outcome(backend, what)
            assert ran.stage == "ran", ran
            found.append(ran.outputs[0].astype(np.float64))
    size = np.abs(found[0]).max()
    np.testing.assert_allclose(found[1], found[0], atol=2e-3 * size, rtol=0)


@pytest.mark.foreign
@pytest.mark.parametrize("kind", ["8 bits", "4 bits"])
@pytest.mark.parametrize("op", ["FullyConnected", "MatMul", "MatMul of rows"])
def test_the_vendors_simulator_gives_the_same(op: str, kind: str) -> None:
    code = f"from fixed import test_fixed_weights as t; t.compare({op!r}, {kind!r}); print('same')"
    # Beside what the simulator itself prints.
    assert printed(code, PYTHONPATH=PATHS).endswith("same\n")
