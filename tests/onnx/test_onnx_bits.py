"""Operators on the bits of integers, in every type, beside numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make
from support.reference import run as run_in_numpy

UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
SIGNED = [name.removeprefix("u") for name in UNSIGNED]
BITWISE: dict[str, Callable[..., np.ndarray]] = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """The ends of the type are among them."""
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x.flat[:4] = [info.min, info.max, 1, 0]
    return x


def check(op: str, x: list[np.ndarray], wanted: np.ndarray, fixed: int = -1, **how: object) -> None:
    """On both kinds of kernels and in numpy; `fixed`: which input is a constant."""
    names = [f"i{i}" for i in range(len(x))]
    types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in zip(names, x, strict=True)}
    shapes = {n: a.shape for i, (n, a) in enumerate(zip(names, x, strict=True)) if i != fixed}
    constants = {names[fixed]: x[fixed]} if fixed >= 0 else {}
    proto = make([helper.make_node(op, names, ["y"], **how)], shapes, ["y"], constants, 18, types)
    model = importer.load(proto)
    feeds = {n: a for n, a in zip(names, x, strict=True) if n in model.inputs}
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, "cpu", options={"kernels": kernels}) as session:
            y = session.run(feeds)["y"]
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(run_in_numpy(model, feeds)["y"].reshape(wanted.shape), wanted)


@pytest.mark.parametrize("dtype", [*UNSIGNED, *SIGNED])
@pytest.mark.parametrize("op", BITWISE)
def test_bits_of_two_numbers(op: str, dtype: str) -> None:
    for shapes in (((6, 5), (6, 5)), ((3, 1, 4), (5, 4))):
        x = [numbers(dtype, shape, seed) for seed, shape in enumerate(shapes)]
        check(op, x, BITWISE[op](*x))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("mask", [0x0F, 1, 0x55, -1, 0])
def test_a_known_mask(mask: int, dtype: str) -> None:
    x = numbers(dtype, (5, 6))
    known = np.array(mask % 2 ** (8 * x.itemsize), f"uint{8 * x.itemsize}").astype(dtype)
    for second in (known, np.full((2, 5, 1), known)):
        check("BitwiseAnd", [x, second], x & second, fixed=1)
        check("BitwiseAnd", [second, x], x & second, fixed=0)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("fixed", [-1, 0, 1])
def test_shifts(direction: str, dtype: str, fixed: int) -> None:
    x = numbers(dtype, (4, 8))
    by = np.random.default_rng(1).integers(0, 8 * x.itemsize, (4, 8)).astype(dtype)
    by.flat[:2] = [0, 8 * x.itemsize - 1]
    by.flat[2] = 8 * x.itemsize + 3
    shift = np.left_shift if direction == "LEFT" else np.right_shift  # as ONNX defines it, too
    check("BitShift", [x, by], shift(x, by), fixed, direction=direction)
    check("BitShift", [x, by[0, 3]], shift(x, by[0, 3]), 1, direction=direction)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_all_bits_the_other_way(dtype: str) -> None:
    x = numbers(dtype, (4, 4))
    check("BitwiseNot", [x], ~x)


def test_bits_of_floats_are_refused() -> None:
    node = helper.make_node("BitCast", ["x"], ["y"], to=onnx.TensorProto.INT32)
    proto = make([], {"x": (3,)}, ["y"], opset=onnx.defs.onnx_opset_version())
    proto.graph.node.append(node)
    with pytest.raises(UnsupportedOpError, match="the bits of float32 as int32"):
        importer.load(proto)
