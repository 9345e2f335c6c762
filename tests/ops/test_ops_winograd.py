"""3x3 convolutions in FLOAT_32 by F(2x2, 3x3), with every set of instructions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from qnnrt import Session
from support import reference
from support.one_node import KERNELS, case, pairs, run_op, u32
from support.outside import PATHS, printed

#: Of the largest value. A direct sum of as many products is off by 3e-7 to 1e-6.
TOLERANCE = 3e-6
#: Image, channels in and out, and what differs from stride 1 and a frame of 1.
CASES: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "plain": ((1, 12, 12, 32), 32, {}),
    "odd": ((1, 13, 11, 32), 48, {}),
    "a partial panel": ((1, 9, 9, 37), 45, {}),
    "many channels": ((1, 9, 10, 200), 80, {}),
    "deep": ((1, 8, 8, 1100), 33, {}),
    "images": ((5, 6, 7, 32), 64, {}),
    "no frame": ((2, 11, 12, 32), 32, {"pad_amount": pairs([0, 0], [0, 0])}),
    "a frame on one side": ((1, 12, 12, 32), 32, {"pad_amount": pairs([2, 0], [0, 1])}),
    "a wide frame": ((1, 8, 8, 32), 32, {"pad_amount": pairs([4, 3], [3, 4])}),
    "dilated": ((1, 15, 16, 32), 32, {"dilation": u32(2, 2), "pad_amount": pairs([2, 2], [2, 2])}),
    "dilated one way": ((2, 12, 20, 32), 40, {"dilation": u32(1, 3)}),
    "groups": ((1, 12, 12, 96), 192, {"group": 3}),
    "a large group": ((1, 10, 10, 80), 72, {"group": 2}),
    "many squares": ((1, 60, 64, 32), 64, {}),
}
THREADS = (1, 2, 5)


def inputs_of(name: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    shape, columns, given = CASES[name]
    params = {"stride": u32(1, 1), "pad_amount": pairs([1, 1], [1, 1])} | given
    r = np.random.default_rng(list(CASES).index(name))
    x = r.standard_normal(shape, np.float32)
    w = r.standard_normal((3, 3, shape[-1] // params.get("group", 1), columns), np.float32)
    bias = r.standard_normal(columns, np.float32)
    return ([x, w] if name == "odd" else [x, w, bias]), params


def errors(kernels: str) -> dict[str, float]:
    """Of each case the largest error, of the largest value: alone, behind limits, with a sum."""
    found = {}
    for i, name in enumerate(CASES):
        inputs, params = inputs_of(name)
        wanted = reference.of("Conv2d", [x.astype(np.float64) for x in inputs], params)
        for then in ([], [("ReluMinMax", {"min_value": -3.0, "max_value": 5.0})], [("Elu", {})]):
            y = wanted
            for op, _ in then:
                y = np.clip(y, -3, 5) if op == "ReluMinMax" else np.where(y < 0, np.expm1(y), y)
            (got,) = run_op(
                "Conv2d", inputs, [wanted.shape], params, static=(1, 2), kernels=kernels,
                threads=THREADS[i % len(THREADS)], then=then,
            )  # fmt: skip
            what = " ".join([name, *(op for op, _ in then)])
            found[what] = float(np.abs(got - y).max() / np.abs(wanted).max())
    return found


def kernel(shape: tuple[int, ...], columns: int, **given: Any) -> str:
    """What computes such a convolution."""
    params = {"stride": u32(1, 1), "pad_amount": pairs([1, 1], [1, 1])} | given
    size = params.pop("size", 3)
    x = np.ones(shape, np.float32)
    w = np.ones((size, size, shape[-1] // params.get("group", 1), columns), np.float32)
    out = reference.of("Conv2d", [x, w], params).shape
    with Session(case("Conv2d", [x, w], [out], params, static=(1,)).model) as session:
        (step,) = json.loads(session.graph.describe() or "")["steps"]
        name: str = step["kernel"]
        return name


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_squares_of_outputs_match_the_definition(isa: str | None, kernels: str) -> None:
    code = "import json\nfrom ops import test_ops_winograd as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.errors({kernels!r})))", **sets))
    assert len(found) == 3 * len(CASES)
    assert {k: error for k, error in found.items() if not error <= TOLERANCE} == {}


def test_it_is_taken_where_it_is_faster() -> None:
    for shape, columns, given in CASES.values():
        assert kernel(shape, columns, **given) == "winograd"
    pixels = (1, 12, 12, 32)
    for other in (
        kernel(pixels, 16),
        kernel((1, 12, 12, 24), 32),
        kernel((1, 7, 7, 64), 64),
        kernel(pixels, 64, group=2),
        kernel(pixels, 32, stride=u32(2, 2)),
        kernel((1, 12, 12, 32), 32, dilation=u32(12, 12), pad_amount=pairs([12, 12], [12, 12])),
        kernel(pixels, 32, size=1),
        kernel(pixels, 32, size=5),
    ):
        assert other != "winograd"


def test_the_environment_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QNNRT_WINOGRAD", "0")
    assert kernel((1, 12, 12, 32), 32) != "winograd"


def test_what_is_no_number_stays_in_its_square() -> None:
    """A square of 2x2 outputs is a sum of the same products: what it sees, all four may have."""
    inputs, params = inputs_of("plain")
    inputs[0][0, 5, 5, 3] = np.nan
    (got,) = run_op("Conv2d", inputs, [(1, 12, 12, 32)], params, static=(1, 2))
    bad = np.isnan(got[0]).any(-1)
    assert bad[4:7, 4:7].all()
    bad[4:8, 4:8] = False
    assert not bad.any()
