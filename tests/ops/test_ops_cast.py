"""Cast and Convert between any two types."""

from __future__ import annotations

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support.one_node import run_op
from support.reference.elementwise import cast

TYPES = ("float32", "float16", "float64", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64", "bool")  # fmt: skip


@pytest.mark.parametrize("source", TYPES)
def test_every_pair_of_types(source: str) -> None:
    for to in TYPES:
        r = np.random.default_rng(0)
        if source == "bool":
            x = r.integers(0, 2, (3, 700)).astype(bool)
        elif source.startswith("float"):
            x = np.concatenate(
                [r.normal(size=2000) * 100, [0.3, -0.4, 300.7, -300.7, 6e4, 0, -0.0]]
            )
            x = x.astype(source)
        else:
            info = np.iinfo(source)
            x = np.concatenate([r.integers(0, 100, 2000), [0, 1]]).astype(source)
            x[-2:] = info.min, info.max
        with np.errstate(all="ignore"):
            expected = cast(x, to)
        for op in ("Cast", "Convert"):
            (got,) = run_op(op, [x], [x.shape], dtype=to)
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("count", [11, 1003])  # some, and blocks of them
def test_what_an_integer_cannot_hold_is_clamped(source: str, count: int) -> None:
    odd = [np.nan, np.inf, -np.inf, 1e30, -1e30, 2147483520, 2147483648, -2147483648, 255.9, -128.9,
           -0.9]  # fmt: skip
    x = np.resize(odd, count).astype(source)
    for to in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        (got,) = run_op("Cast", [x], [x.shape], dtype=to)
        np.testing.assert_array_equal(got, cast(x, to), to)
    (got,) = run_op("Cast", [x], [x.shape], dtype="bool")
    assert got.all()


@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 4, 5, 6), (400, 1001)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(1).normal(size=shape) * 50).astype(np.float32)
    for to in ("int32", "float16", "float32"):
        (got,) = run_op("Cast", [x], [shape], dtype=to)
        np.testing.assert_array_equal(got, x.astype(to))


def test_the_shape_stays() -> None:
    with pytest.raises(QnnError, match=r"Cast.*\[3, 2\].*\[2, 3\]"):
        run_op("Cast", [np.zeros((2, 3), np.float32)], [(3, 2)], dtype="int32")
    with pytest.raises(QnnError, match="to"):
        run_op("Cast", [np.zeros(2, np.float32)], [(2,)], {"to": 1}, dtype="int32")
