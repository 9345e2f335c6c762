"""One row times weights that no core's cache holds: in FLOAT_32, and stored as BFLOAT_16."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from qnnrt import Session
from support.one_node import case

DEPTH = 1500


def model(columns: int, bias: bool, rank: int, across: bool) -> tuple:
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((*[1] * (rank - 1), DEPTH), np.float32)
    w = rng.standard_normal((DEPTH, columns) if across else (columns, DEPTH), np.float32)
    row = [rng.standard_normal(columns, np.float32)] if bias else []
    params = {"transpose_in0": False, "transpose_in1": not across}
    out = (*[1] * (rank - 1), columns)
    then = [("Relu", {})] if bias else []
    return case("MatMul", [x, w, *row], [out], params, static=(1, 2), then=then), x, w, row


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("columns", "rank", "across"), [(1500, 2, False), (1427, 3, True)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_is_the_sum_of_products(
    precision: str, columns: int, rank: int, across: bool, bias: bool, threads: int
) -> None:
    made, x, w, row = model(columns, bias, rank, across)
    if precision == "bfloat16":
        x, w = (v.astype(ml_dtypes.bfloat16) for v in (x, w))
    x, w = x.astype(np.float64), w.astype(np.float64)
    wanted = x @ (w if across else w.T) + (row[0] if bias else 0)
    wanted = np.maximum(wanted, 0) if bias else wanted
    with Session(made.model, precision=precision, threads=threads) as session:
        (got,) = session.run(made.feeds).values()
        steps = json.loads(session.graph.describe() or "")["steps"]
    (product,) = [s for s in steps if s["op"] == "MatMul"]
    assert product["kernel"] == "portable"  # the fast library is slower there
    assert np.abs(got - wanted).max() <= 2e-5 * np.abs(x).sum()
