"""Loops that are compiled for several instruction sets compute the same in each: what can be exact
is what numpy has."""

from __future__ import annotations

import numpy as np
import pytest
from ops.test_ops_reduce import check_top_k

from support import reference
from support.one_node import run_op, u32
from support.outside import PATHS, printed

WORDS = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = ("int8", "int16", "int32", "int64", *WORDS)


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return (rng.normal(size=shape) * 1000).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def turn() -> None:
    for dtype in WORDS:
        for shape in ((37, 53), (16, 16), (100, 7), (3, 65, 40), (2, 17, 33)):
            x = numbers(shape, dtype)
            perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            (got,) = run_op("Transpose", [x], [x.transpose(perm).shape], {"perm": u32(*perm)})
            np.testing.assert_array_equal(got, x.transpose(perm))


def reduce_integers() -> None:
    for dtype in INTEGERS:
        for shape in ((100, 1), (37, 4), (3, 31), (5, 32), (3, 33), (2, 1025)):
            x = numbers(shape, dtype) // (2**32 if dtype[-2:] == "64" else 1)  # no sum wraps
            for name in ("Sum", "Max", "Min", "Mean"):
                for axis in (0, 1):
                    params = {"axes": u32(axis)}
                    expected = reference.of("Reduce" + name, [x], params)
                    (got,) = run_op("Reduce" + name, [x], [expected.shape], params)
                    np.testing.assert_array_equal(got, expected.astype(dtype), f"{name} {dtype}")


def reduce_bands() -> None:
    """Along a middle axis, of whole numbers, whose sums are exact, and with NaN."""
    shapes = [(5, rows, columns) for rows in (2, 3, 64, 65) for columns in (1, 4, 16, 23, 64, 131)]
    for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8"):
        for shape in (*shapes, (1, 8, 127), (1, 8, 3000), (300, 4, 7)):
            x = (np.arange(np.prod(shape)) * 7919 % 15).reshape(shape).astype(dtype)
            for name in ("Sum", "Mean", "Max", "Min", "SumSquare"):
                if name == "Max" and dtype.startswith("float"):
                    x.flat[:: x.size // 3] = np.nan
                params = {"axes": u32(1)}
                expected = reference.of("Reduce" + name, [x], params).astype(dtype)
                (got,) = run_op("Reduce" + name, [x], [expected.shape], params)
                np.testing.assert_array_equal(got, expected, f"{name} {dtype} {shape}")


def divide() -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max], dtype)
        edges = np.concatenate([edges, edges - 1]) if info.min == 0 else np.append(edges, [-1, -7])
        edges = np.concatenate([edges.astype(dtype), numbers((40,), dtype)])
        x, y = (np.ascontiguousarray(v).ravel() for v in np.meshgrid(edges, edges))
        with np.errstate(all="ignore"):
            exact = [0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
                     for a, b in zip(x.tolist(), y.tolist(), strict=True)]  # fmt: skip
        size = 2 ** (8 * np.dtype(dtype).itemsize)
        expected = np.array([v % size for v in exact], f"uint{8 * np.dtype(dtype).itemsize}")
        (got,) = run_op("ElementWiseDivide", [x, y], [x.shape])
        np.testing.assert_array_equal(got, expected.view(dtype), dtype)


def convert() -> None:
    limits = [float(s) * 2.0**p + d for p in (7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1)
              for d in (-1, -0.5, 0, 0.5)]  # fmt: skip
    x = np.array([*limits, np.nan, np.inf, -np.inf, -0.0, 0.9, -0.9, *range(-40, 41)])
    x = np.tile(x, 5)  # in blocks, too
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        expected = [0 if v != v else info.max if v >= info.max else info.min if v <= info.min
                    else int(v) for v in x.tolist()]  # fmt: skip
        (got,) = run_op("Cast", [x], [x.shape], dtype=dtype)
        assert got.tolist() == expected, dtype


def pick() -> None:
    for dtype in ("float32", "float16", *INTEGERS):
        for largest in (True, False):
            x = np.round(numbers((2, 1000), dtype, 4)).astype(dtype)
            if dtype == "float32":
                x[1, [3, 500, 998]] = -np.inf, np.inf, np.inf
            for k in (1, 5, 64, 700):
                check_top_k(x, k, largest, dtype)


def order() -> None:
    """Few of a row, many, more than there is room for, all, of many that are equal, and NaN."""
    for dtype in ("float32", "float16", "float64", *INTEGERS):
        for size, of in ((70, 5), (500, 40), (5000, 300), (9000, 2000), (9000, 2049), (40, 40)):
            x = (np.arange(2 * size) * 7919 % (size // 2)).reshape(2, size).astype(dtype)
            if dtype.startswith("float"):
                x = np.where(x % 3 == 0, -x, x)  # with negative 0
            for largest in (True, False):
                for k in (1, of):
                    check_top_k(x, k, largest, dtype)
                    check_nan_first(x, k, largest, dtype)
    falling = np.arange(9000, dtype=np.float32)[None]  # each better than those before
    check_top_k(falling, 300, True, "float32")


def check_nan_first(x: np.ndarray, k: int, largest: bool, dtype: str) -> None:
    if not dtype.startswith("float"):
        return
    x = x.copy()
    x[1, 3::50] = np.nan
    key = np.where(np.isnan(x), -np.inf, x * (-1 if largest else 1))
    expected = np.argsort(key, -1, kind="stable")[:, :k]
    params = {"k": k, "largest": largest}
    _, where = run_op("TopK", [x], [expected.shape] * 2, params, dtype=[dtype, "int64"])
    np.testing.assert_array_equal(where, expected)


def clamp() -> None:
    for dtype in INTEGERS:
        x, info = numbers((131,), dtype), np.iinfo(dtype)
        for low, high in ((3, 9), (-7, 100), (-np.inf, 5), (0, np.inf)):
            params = {"min_value": np.float32(low), "max_value": np.float32(high)}
            expected = np.minimum(np.maximum(x, dtype_of(max(low, info.min), dtype)),
                                  dtype_of(min(high, info.max), dtype))  # fmt: skip
            (got,) = run_op("ReluMinMax", [x], [x.shape], params)
            np.testing.assert_array_equal(got, expected, dtype)


def dtype_of(value: float, dtype: str) -> np.generic:
    return np.dtype(dtype).type(int(value))


def compare() -> None:
    for dtype in ("float64", *INTEGERS):
        x, y = numbers((257,), dtype, 1), numbers((257,), dtype, 2)
        y[::3] = x[::3]
        for name, of in (
            ("Equal", np.equal),
            ("Less", np.less),
            ("GreaterEqual", np.greater_equal),
        ):
            (got,) = run_op("ElementWise" + name, [x, y], [x.shape], dtype="bool")
            np.testing.assert_array_equal(got, of(x, y), f"{name} {dtype}")
        for name, of in (("Maximum", np.maximum), ("Multiply", np.multiply)):
            (got,) = run_op("ElementWise" + name, [x, y], [x.shape])
            np.testing.assert_array_equal(got, of(x, y), f"{name} {dtype}")


def resize() -> None:
    """Few channels are gathered from tables."""
    for channels in (1, 3, 5):
        x = numbers((2, 9, 11, channels), "float32")
        params = {"align_corners": True, "half_pixel_centers": False}
        for size in ((17, 21), (5, 6), (9, 30)):
            for op in ("ResizeBilinear", "ResizeNearestNeighbor"):
                shape = (2, *size, channels)
                (got,) = run_op(op, [x], [shape], params)
                expected = reference.of(op, [x], params, shape)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-3)


def soften() -> None:
    """Rows shorter than a vector, and few columns, are turned."""
    rows = ((300, 8), (131, 3), (2, 2), (129, 15), (3, 40, 4), (2, 100, 15), (2, 3, 600, 7))
    for shape in (*rows, (1, 16, 2), (5, 4, 3)):
        axis = max(1, len(shape) - 2)
        x = numbers(shape, "float32") / 300
        for op in ("Softmax", "LogSoftmax"):
            params = {"axis": axis, "beta": np.float32(0.5)}
            (got,) = run_op(op, [x], [shape], params)
            expected = reference.of(op, [x], params)
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
def test_every_instruction_set_computes_what_numpy_does(isa: str) -> None:
    code = """
    from ops import test_ops_isa as t
    names = "turn reduce_integers reduce_bands divide convert pick order clamp compare resize"
    for name in (*names.split(), "soften"):
        getattr(t, name)()
    print("done")
    """
    assert printed(code, PYTHONPATH=PATHS, QNNRT_ISA=isa).strip() == "done"
