"""Constants held as integers: whatever moves them leaves their real numbers what they were."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from qnnrt.importers.encodings import Coded, alike, same
from qnnrt.model import Quantization

SHAPE = (2, 1, 4, 3)
RNG = np.random.default_rng(14)
CODES = RNG.integers(-128, 128, SHAPE).astype(np.int8)


def pairs(count: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    scale = RNG.uniform(0.1, 2, count).astype(np.float32)
    return scale, RNG.integers(-20, 20, count).astype(np.int32)


def coded(axis: int | None = None, block: tuple[int, ...] | None = None) -> Coded:
    if block is not None:
        scale, offset = pairs(tuple(d // b for d, b in zip(SHAPE, block, strict=True)))
        q = Quantization(scale, offset, block=block)
    elif axis is not None:
        q = Quantization(*pairs((SHAPE[axis],)), axis=axis)
    else:
        q = Quantization(0.5, 3)
    return Coded(CODES, q, np.dtype(np.float32))


ALL = [coded(), *(coded(axis) for axis in range(4)), coded(block=(2, 1, 2, 1))]


@pytest.mark.parametrize("number", range(len(ALL)))
def test_transposed_constants_are_the_same_numbers(number: int) -> None:
    c = ALL[number]
    for perm in itertools.permutations(range(4)):
        np.testing.assert_array_equal(c.transpose(perm).real, c.real.transpose(perm))


@pytest.mark.parametrize("number", range(len(ALL)))
def test_reshaped_constants_are_the_same_numbers_or_none(number: int) -> None:
    c = ALL[number]
    kept = set()
    shapes = [(24,), (2, 12), (8, 3), (2, 4, 3), (4, 2, 3), (1, 2, 4, 3, 1), (2, 1, 12), (2, 3, 4)]
    for shape in shapes:
        found = c.reshape(shape)
        if found is not None:
            np.testing.assert_array_equal(found.real, c.real.reshape(shape))
            kept.add(shape)
    # Where the axis, or the blocks along one, are still there. An axis of 1 may be anywhere.
    same_dims = {(2, 4, 3), (1, 2, 4, 3, 1)}
    expected = {
        0: set(shapes),
        1: same_dims | {(2, 12), (2, 1, 12), (2, 3, 4)},
        3: same_dims,
        4: same_dims | {(8, 3), (4, 2, 3)},
        5: same_dims,
    }
    assert kept == expected.get(number, kept)


def test_taken_constants_are_the_same_numbers() -> None:
    index = np.array([1, 0, 1])
    for c in ALL[:-1]:
        for axis in (0, 2, 3):
            found = c.take(index, axis)
            assert found is not None
            np.testing.assert_array_equal(found.real, np.take(c.real, index, axis=axis))
    assert ALL[-1].take(index, 0) is None  # of a block


def test_a_factor_goes_into_the_scales_when_it_is_positive() -> None:
    for c in ALL:
        found = c.times(2)
        assert found is not None
        np.testing.assert_allclose(found.real, c.real * 2, rtol=1e-6)
        assert c.times(0) is None
        assert c.times(-1) is None
    found = ALL[0].times(0.5)
    assert found is not None
    assert type(found.quantization.scale) is float


def test_encodings_are_the_same_when_each_of_their_parts_is() -> None:
    q = Quantization(0.5, 3)
    others = [Quantization(0.25, 3), Quantization(0.5, 4), Quantization(0.5, 3, bitwidth=4), None]
    assert same(q, Quantization(0.5, 3))
    assert same(None, None)
    assert not any(same(q, other) or same(other, q) for other in others)
    assert alike(q, Quantization(0.5, 3))
    assert not any(alike(q, other) or alike(other, q) for other in others)
    assert not alike(None, None)
    for c in ALL[1:]:
        assert same(c.quantization, c.quantization)
        assert not alike(c.quantization, c.quantization)
