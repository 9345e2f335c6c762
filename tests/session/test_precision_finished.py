"""What follows a product of few terms in BFLOAT_16 is computed of its sums, strip by strip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from session.test_precision import chain
from session.test_precision_kernels import numbers, rounded

import qnnrt
from qnnrt.model import Node
from support import reference
from support.one_node import pairs, u32

BEHIND: dict[str, dict[str, Any]] = {"Sigmoid": {}, "Tanh": {}, "Silu": {}}
#: Input, kernel, output channels, stride, padding: several strips of lines and of pixels, one, and
#: two images.
CONVOLUTIONS = [
    ((1, 130, 150, 3), (3, 3), 32, 2, 1),
    ((1, 61, 223, 1), (5, 5), 64, 1, 2),
    ((1, 97, 96, 24), (1, 1), 40, 1, 0),
    ((1, 14, 14, 32), (3, 3), 48, 1, 1),
    ((2, 40, 50, 16), (1, 1), 64, 1, 0),
]


def exact(behind: str, sums: np.ndarray) -> np.ndarray:
    if behind == "Silu":
        return np.asarray(sums / (1 + np.exp(-sums)))
    return np.asarray(reference.of(behind, [sums], {}))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("added", [False, True])
def test_activations_behind_short_sums_are_rounded_once(added: bool, threads: int) -> None:
    worst = {}
    for number, (shape, kernel, cout, stride, pad) in enumerate(CONVOLUTIONS):
        x = 4 * numbers(number, *shape)
        w, b = numbers(10 + number, *kernel, shape[-1], cout), numbers(20 + number, cout)
        w /= np.float32(np.sqrt(w[..., 0].size))
        params = {"stride": u32(stride, stride), "pad_amount": pairs((pad, pad), (pad, pad))}
        given = [-rounded(x).astype(np.float64), rounded(w).astype(np.float64), b]
        sums = reference.of("Conv2d", given, params)
        z = numbers(30 + number, *sums.shape)
        for behind in BEHIND:
            nodes = [
                Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
                Node("conv", "Conv2d", ["a", "w", "b"], ["c"], params),
            ]
            if behind == "Silu":
                nodes.append(Node("gate", "Sigmoid", ["c"], ["g"], {}))
                nodes.append(Node("behind", "ElementWiseMultiply", ["c", "g"], ["m"], {}))
            else:
                nodes.append(Node("behind", behind, ["c"], ["m"], {}))
            wanted = exact(behind, sums)
            if added:
                nodes.append(Node("other", "ElementWiseNeg", ["x2"], ["n"], {}))
                nodes.append(Node("sum", "ElementWiseAdd", ["m", "n"], ["s"], {}))
                wanted = wanted - rounded(z)
            nodes.append(Node("last", "ElementWiseNeg", ["s" if added else "m"], ["y"], {}))
            tensors = dict.fromkeys("cgmnsy" if added else "cgmy", sums.shape)
            if behind != "Silu":
                del tensors["g"]
            model = chain(
                *nodes, x=shape, a=shape, w=w, b=b, **tensors, **({"x2": z.shape} if added else {})
            )
            feeds = {"x": x, "x2": z} if added else {"x": x}
            with qnnrt.Session(model, threads=threads, precision="bfloat16") as s:
                got = -s.run(feeds)["y"].astype(np.float64)
            room = np.abs(wanted) * 2**-8 * 1.001 + 3e-5
            worst[f"{number} {behind}"] = float(np.max(np.abs(got - wanted) / room))
    assert {name: error for name, error in worst.items() if not error <= 1} == {}


@pytest.mark.parametrize("behind", ["Sigmoid", "Tanh"])
def test_what_is_no_number_stays_none_and_infinity_has_its_limit(behind: str) -> None:
    shape, wide = (1, 64, 64, 1), (1, 64, 64, 16)
    x, params = numbers(1, *shape), {"stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    x[0, 3, :3, 0] = np.nan, np.inf, -np.inf
    model = chain(
        Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
        Node("conv", "Conv2d", ["a", "w"], ["c"], params),
        Node("behind", behind, ["c"], ["m"], {}),
        Node("last", "ElementWiseNeg", ["m"], ["y"], {}),
        x=shape, a=shape, w=np.ones((1, 1, 1, 16), np.float32), c=wide, m=wide, y=wide,
    )  # fmt: skip
    with qnnrt.Session(model, precision="bfloat16") as s:
        got = -s.run({"x": x})["y"][0, 3, :3, 0]
    low = 0 if behind == "Sigmoid" else -1
    np.testing.assert_allclose(got, [np.nan, low, 1], atol=1e-30)


#: As CONVOLUTIONS: too few pixels or lines for two threads, or four. The last is less work than a
#: part is made of.
SMALL = [
    ((1, 1, 34, 65), (1, 1), 248, 1, 0),
    ((1, 5, 14, 32), (1, 1), 64, 1, 0),
    ((1, 5, 40, 16), (3, 3), 64, 1, 1),
    ((1, 16, 16, 4), (1, 1), 256, 1, 0),
]


@pytest.mark.parametrize("op", ["Conv2d", "MatMul"])
@pytest.mark.parametrize("behind", ["Sigmoid", "Tanh"])
def test_threads_do_not_change_how_what_is_behind_is_rounded(op: str, behind: str) -> None:
    for number, (shape, kernel, cout, stride, pad) in enumerate(SMALL):
        if op == "MatMul" and kernel != (1, 1):
            continue
        conv = op == "Conv2d"
        pads = {"stride": u32(stride, stride), "pad_amount": pairs((pad, pad), (pad, pad))}
        x, w = numbers(number, *shape), numbers(number + 9, *kernel, shape[-1], cout)
        w *= np.float32(2 / np.sqrt(w[..., 0].size))
        wide = (*shape[:-1], cout)
        model = chain(
            Node("negative", "ElementWiseNeg", ["x"], ["a"], {}),
            Node("product", op, ["a", "w"], ["c"], pads if conv else {}),
            Node("behind", behind, ["c"], ["m"], {}),
            Node("last", "MatMul", ["m", "one"], ["y"], {}),
            x=shape, a=shape, w=w if conv else w.reshape(shape[-1], cout),
            c=wide, m=wide, one=np.eye(cout, dtype=np.float32), y=wide,
        )  # fmt: skip
        got = []
        for threads in (1, 2, 4):
            with qnnrt.Session(model, threads=threads, precision="bfloat16") as s:
                got.append(s.run({"x": x})["y"].tobytes())
        assert got == [got[0]] * 3, f"{op} {SMALL[number]}"
