"""Where the range of each part of an encoding ends: what is taken, and what one more is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.errors import TensorError
from qnnrt.model import Quantization
from support.fixed import Fixed, run_fixed

#: Type -> its bits, and whether it has a sign.
TYPES = {
    "UFIXED_POINT_8": (8, False),
    "SFIXED_POINT_8": (8, True),
    "UFIXED_POINT_16": (16, False),
    "SFIXED_POINT_16": (16, True),
    "SFIXED_POINT_32": (32, True),
}


def ends(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


class Tensors:
    """Adds tensors to a graph and says whether each was taken."""

    def __init__(self, graph: qnn.Graph) -> None:
        self._graph, self._count = graph, 0

    def takes(
        self, q: Quantization, dtype: str, shape: tuple[int, ...] = (2,), **more: Any
    ) -> bool:
        self._count += 1
        name = f"t{self._count}"
        try:
            self._graph.add_tensor(name, shape, dtype, quantization=q, **more)
        except TensorError as error:
            code, text = error.code, str(error)
        else:
            return True
        assert code == 7004, text
        assert f"tensor '{name}'" in text
        return False


@pytest.fixture
def tensors():
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        yield Tensors(context.create_graph("g"))


@pytest.mark.parametrize("dtype", TYPES)
def test_bit_widths_are_from_2_to_those_of_the_type(tensors: Tensors, dtype: str) -> None:
    most, _ = TYPES[dtype]
    for bits in [*range(40), 64, 2**31, 2**32 - 1]:
        scales = np.ones(2, np.float32)
        for q in (
            Quantization(1.0, 0, bitwidth=bits),
            Quantization(scales, 0, axis=0, bitwidth=bits),
        ):
            assert tensors.takes(q, dtype) == (2 <= bits <= most), bits


@pytest.mark.parametrize("dtype", TYPES)
def test_zero_is_within_the_bit_width(tensors: Tensors, dtype: str) -> None:
    most, signed = TYPES[dtype]
    for bits in [None, *range(2, most + 1)]:
        low, high = ends(bits or most, signed)
        for zero in (low - 1, low, low + 1, high - 1, high, high + 1):
            if not -(2**31) <= -zero < 2**31:
                continue  # no offset
            good = low <= zero <= high
            q = Quantization(1.0, -zero, bitwidth=bits)
            assert tensors.takes(q, dtype) == good, (bits, zero)
            offsets = np.array([-low if low > -(2**31) else 0, -zero], np.int64)
            q = Quantization(np.ones(2, np.float32), offsets, axis=0, bitwidth=bits)
            assert tensors.takes(q, dtype) == good, (bits, zero)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 3, 4), (5, 1, 2, 3)])
def test_an_axis_and_its_scales_are_those_of_the_shape(
    tensors: Tensors, shape: tuple[int, ...]
) -> None:
    for axis in range(-2, len(shape) + 2):
        for bitwidth in (None, 8):
            for count in {1, 2, 3, 4, 5, 6}:
                q = Quantization(np.ones(count, np.float32), 0, axis=axis, bitwidth=bitwidth)
                good = 0 <= axis < len(shape) and shape[axis] == count
                assert tensors.takes(q, "UFIXED_POINT_8", shape) == good, (axis, count)


@pytest.mark.parametrize("scale", [2.0**-149, 2.0**-126, 3.4e38])
def test_a_scale_may_be_as_small_or_as_large_as_a_float(tensors: Tensors, scale: float) -> None:
    assert tensors.takes(Quantization(scale, 0), "UFIXED_POINT_8")
    assert not tensors.takes(Quantization(-scale, 0), "UFIXED_POINT_8")


@pytest.mark.parametrize(("table", "most"), [(np.uint8, 8), (np.uint16, 16)])
def test_block_scales_are_up_to_the_power_of_their_bits(
    tensors: Tensors, table: Any, most: int
) -> None:
    scales = np.ones(2, np.float32)
    given = {"shape": (2, 4), "type": "static", "data": np.zeros(8, np.int8)}
    for bits in [*range(most + 3), 31, 32, 33, 2**32 - 1]:
        for factor in {0, 1, 2, *(2 ** min(bits, 20) + by for by in (-1, 0, 1))}:
            if factor > np.iinfo(table).max:
                continue
            factors = np.array([[1, 1], [1, factor]], table)  # the last one counts, too
            q = Quantization(scales, 0, axis=0, block_scales=factors, block_scale_bits=bits)
            good = 1 <= bits <= most and 1 <= factor <= 2**bits
            assert tensors.takes(q, "SFIXED_POINT_8", **given) == good, (bits, factor)


def test_blocks_divide_the_other_dimension(tensors: Tensors) -> None:
    given = {"type": "static", "data": np.zeros(24, np.int8)}
    for shape, axis, other in (
        ((4, 6), 0, 1),
        ((4, 6), 1, 0),
        ((2, 2, 6), 0, 2),
        ((2, 6, 2), 2, 1),
    ):
        size = shape[axis]
        for blocks in range(1, 8):
            factors = np.ones((size, blocks), np.uint8)
            q = Quantization(np.ones(size, np.float32), 0, axis=axis, block_scales=factors)
            good = shape[other] % blocks == 0
            assert tensors.takes(q, "SFIXED_POINT_8", shape, **given) == good, (shape, axis, blocks)
    factors = np.ones((24, 1), np.uint8)
    q = Quantization(np.ones(24, np.float32), 0, axis=0, block_scales=factors)
    assert not tensors.takes(q, "SFIXED_POINT_8", (24,), **given), "there is no other dimension"


# ---- what the ops make of them


@pytest.mark.parametrize("name", ["uint8", "int8", "uint16", "int16", "int32"])
def test_ops_end_at_the_bit_width(name: str) -> None:
    dtype = np.dtype(name)
    most = 8 * dtype.itemsize
    for bits in [None, 2, 3, most // 2, most - 1, most]:
        low, high = ends(bits or most, dtype.kind == "i")
        for zero in {low + 1, 0, high}:
            of = Fixed(name, 0.5, -zero, bitwidth=bits)
            steps = [low - 2, low - 1, low, low + 1, high - 1, high, high + 1, high + 2, zero]
            x = np.array([(s - zero) * 0.5 for s in steps] + [-np.inf, np.inf, np.nan], np.float32)
            x = np.repeat(x, 3)  # beyond what vectors take
            [found] = run_fixed("Quantize", [x], [(x.shape, of)])
            assert found.min() >= low
            assert found.max() <= high
            assert np.array_equal(found, qnnrt.quantize(x, of.quantization, name)), (bits, zero)
            if most < 32:  # of 32 bits floats do not tell all of them
                expected = [*np.clip(steps, low, high), low, high, zero]
                assert found[::3].tolist() == expected, (bits, zero)


@pytest.mark.parametrize("count", [1, 7, 255, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Fixed("int32", 1e-4, 0), Fixed("uint8", 0.037, -117)),
        (Fixed("uint8", 0.037, -117), Fixed("int16", 3e-4, 5)),
        (Fixed("uint16", 1.7e-4, -30011), Fixed("int8", 0.05, 3)),
        (Fixed("int8", 0.05, 3), Fixed("int8", 0.11, -9, bitwidth=6)),
        (Fixed("int16", 2e-4, 0), Fixed("int32", 1e-5, 0)),
    ],
    ids=lambda f: f"{f.dtype}",
)
def test_conversions_of_any_length_are_those_of_each_number(
    source: Fixed, target: Fixed, count: int
) -> None:
    codes = source.random(np.random.default_rng(count), (count,))
    [found] = run_fixed("Convert", [(codes, source)], [((count,), target)])
    real = qnnrt.dequantize(codes, source.quantization)
    assert np.array_equal(found, qnnrt.quantize(real, target.quantization, target.dtype))
