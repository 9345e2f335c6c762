"""MatMul and FullyConnected agree with numpy for any shape, static weights or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import KERNELS, close, run_op

SIZES = (1, 2, 3, 7, 12, 13, 32, 33, 50, 70, 130)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(60))
def test_matmul_broadcasts_and_transposes_like_numpy(seed: int, kernels: str) -> None:
    r = np.random.default_rng(seed)
    m, n, k = (int(v) for v in r.choice(SIZES, 3))
    batch = r.integers(1, 4, int(r.integers(0, 4)))
    shapes = []
    for _ in range(2):
        mine = np.where(r.random(len(batch)) < 0.7, batch, 1)
        shapes.append(tuple(mine[int(r.integers(0, len(batch) + 1)) :]))
    a = r.standard_normal((*shapes[0], m, k), np.float32)
    b = r.standard_normal((*shapes[1], k, n), np.float32)
    bias = r.standard_normal(n).astype(np.float32) if seed % 2 else None
    flip = r.random(2) < 0.4
    inputs = [a.swapaxes(-1, -2) if flip[0] else a, b.swapaxes(-1, -2) if flip[1] else b, bias]
    params = {"transpose_in0": bool(flip[0]), "transpose_in1": bool(flip[1])}
    expected = reference.of("MatMul", inputs, params)
    (got,) = run_op(
        "MatMul", inputs, [expected.shape], params,
        static=(1,) if r.random() < 0.4 else (), kernels=kernels, threads=1 + seed % 3,
    )  # fmt: skip
    close(got, expected)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("static", [(), (1, 2)])
@pytest.mark.parametrize("rows", [1, 2, 5, 13, 100])
def test_fully_connected_is_rows_times_transposed_weights(
    rows: int, static: tuple[int, ...], kernels: str
) -> None:
    r = np.random.default_rng(rows)
    x = r.standard_normal((rows, 3, 37), np.float32)
    w = r.standard_normal((45, 37), np.float32)
    bias = r.standard_normal(45).astype(np.float32)
    run = {"static": static, "kernels": kernels}
    for params in ({"keep_dims": True}, {}):
        expected = reference.of("FullyConnected", [x, w, bias], params)
        close(run_op("FullyConnected", [x, w, bias], [expected.shape], params, **run)[0], expected)
    # Rows are formed from the elements, whatever the input's shape.
    flat = [x.reshape(-1), w]
    close(run_op("FullyConnected", flat, [expected.shape], **run)[0], expected - bias)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("columns", [5, 40, 1000])
def test_equal_columns_have_equal_results(columns: int, rows: int, kernels: str) -> None:
    """However they are shared among tiles: of large sums a rounding would decide a softmax."""
    r = np.random.default_rng(columns)
    x = 1e6 * r.standard_normal((rows, 777)).astype(np.float32)
    w = np.broadcast_to(r.standard_normal(777).astype(np.float32), (columns, 777)).copy()
    bias = np.full(columns, 0.3, np.float32)
    for threads in (1, 2):
        (y,) = run_op(
            "FullyConnected", [x, w, bias], [(rows, columns)],
            static=(1, 2), kernels=kernels, threads=threads,
        )  # fmt: skip
        np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))


def test_fully_connected_of_a_vector_gives_a_vector() -> None:
    x, w = np.arange(4, dtype=np.float32), np.ones((3, 4), np.float32)
    close(run_op("FullyConnected", [x, w], [(3,)], static=[1])[0], np.full(3, 6.0))
    close(run_op("FullyConnected", [x, w], [(1, 3)], static=[1])[0], np.full((1, 3), 6.0))


def test_fully_connected_of_a_vector_of_several_rows_gives_them_all() -> None:
    x, w = np.arange(8, dtype=np.float32), np.ones((3, 4), np.float32)
    close(run_op("FullyConnected", [x, w], [(2, 3)], static=[1])[0], [[6.0] * 3, [22.0] * 3])
    with pytest.raises(QnnError, match=r"declared as \[3\] but comes out as \[2, 3\]"):
        run_op("FullyConnected", [x, w], [(3,)], static=[1])


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_long_inner_dimension_loses_nothing(rows: int, kernels: str) -> None:
    r = np.random.default_rng(rows)
    x = r.standard_normal((rows, 6000), np.float32)
    w = r.standard_normal((70, 6000), np.float32)
    (got,) = run_op("FullyConnected", [x, w], [(rows, 70)], static=[1], kernels=kernels)
    close(got, reference.of("FullyConnected", [x, w]))


@pytest.mark.parametrize("kernels", KERNELS)
def test_matmul_takes_half_precision(kernels: str) -> None:
    r = np.random.default_rng(0)
    a = r.standard_normal((2, 9, 33)).astype(np.float16)
    b = r.standard_normal((33, 17)).astype(np.float16)
    (got,) = run_op("MatMul", [a, b], [(2, 9, 17)], kernels=kernels)
    close(got, reference.of("MatMul", [a, b]), 1e-2)


@pytest.mark.parametrize("kernels", KERNELS)
def test_activations_merged_into_a_product_change_nothing(kernels: str) -> None:
    r = np.random.default_rng(0)
    x, w = r.standard_normal((9, 33), np.float32), r.standard_normal((50, 33), np.float32)
    y = reference.of("FullyConnected", [x, w])
    for then in ("Relu", "Tanh", "Sigmoid"):
        (got,) = run_op(
            "FullyConnected", [x, w], [(9, 50)], static=[1], kernels=kernels, then=[(then, {})]
        )
        close(got, reference.of(then, [y]))


def test_a_bad_product_is_refused_with_the_rule_it_breaks() -> None:
    zeros = np.zeros
    cases: list[tuple[str, list[Any], tuple[int, ...], str]] = [
        ("MatMul", [zeros((3, 4)), zeros((5, 6))], (3, 6), "inner"),
        ("MatMul", [zeros((2, 3, 4)), zeros((3, 4, 6))], (2, 3, 6), "broadcast"),
        ("MatMul", [zeros((3, 4)), zeros((4, 6)), zeros(5)], (3, 6), "bias"),
        ("MatMul", [zeros((3, 4)), zeros((4, 6))], (3, 5), "[3, 6]"),
        ("FullyConnected", [zeros((3, 4)), zeros((6, 5))], (3, 6), "weight"),
        ("FullyConnected", [zeros((3, 4)), zeros(4)], (3, 6), "rank"),
    ]
    for op, inputs, shape, word in cases:
        with pytest.raises(QnnError) as error:
            run_op(op, [v.astype(np.float32) for v in inputs], [shape])
        assert word in str(error.value)
