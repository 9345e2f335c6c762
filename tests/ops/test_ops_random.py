"""Random numbers: Philox4x32-10's, the same for the same seed, new ones without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support import reference
from support.one_node import Case, add_to, case, run_op, u32
from support.reference.random import philox, shares


def one(op: str, shape: tuple[int, ...], seed: float | None = 3.0, **params: Any) -> Case:
    inputs = [u32(*shape)]
    if seed is not None:
        inputs.append(np.array([seed], np.float32))
    return case(op, inputs, [shape], params, static=(0, 1), dtype="float32", name=op)


def runs(what: Case, count: int) -> list[np.ndarray]:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        add_to(graph, what.model)
        graph.finalize()
        results = []
        for _ in range(count):
            y = {t.name: np.zeros(t.shape, t.dtype) for t in graph.outputs}
            graph.execute(what.feeds, y)
            results += y.values()
        return results


def test_the_reference_is_philox() -> None:
    """The known answers that its authors give."""
    for counter, key, answer in (
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([2**32 - 1] * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], (0xA4093822, 0x299F31D0),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):  # fmt: skip
        found = philox(np.array(counter, np.uint64), key)
        assert " ".join(f"{int(word):08x}" for word in found) == answer


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 4, 4, 8), (3, 50000)])
@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("RandomUniformLike", {}),
        ("RandomUniformLike", {"low": -3.0, "high": 5.0}),
        ("RandomNormalLike", {}),
        ("RandomNormalLike", {"mean": 2.0, "scale": 0.5}),
    ],
)
def test_a_seed_gives_the_same_numbers_in_every_execution(
    op: str, params: dict[str, Any], shape: tuple[int, ...]
) -> None:
    seed = np.array([3.0], np.float32)
    expected = reference.of(op, [np.array(shape), seed], params)
    first, second = runs(one(op, shape, **params), 2)
    np.testing.assert_allclose(first, expected, rtol=2e-6, atol=4e-6)
    np.testing.assert_array_equal(first, second)
    for threads in (1, 2):
        inputs = [np.array(shape, np.int64), seed]
        (got,) = run_op(op, inputs, [shape], params, dtype="float32", threads=threads)
        np.testing.assert_array_equal(got, first)


def test_numbers_are_spread_as_they_should_be() -> None:
    (x,) = runs(one("RandomUniformLike", (200, 500), low=-2.0, high=3.0), 1)
    assert x.min() >= -2
    assert x.max() < 3
    counts = np.histogram(x, 50, (-2, 3))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 90  # chi squared of 49 degrees: 1 in 3,000
    (z,) = runs(one("RandomNormalLike", (200, 500), mean=1.0, scale=2.0), 1)
    z = (z - 1) / 2
    for power, moment, error in ((1, 0, 0.015), (2, 1, 0.02), (3, 0, 0.04), (4, 3, 0.15)):
        assert abs((z**power).mean() - moment) < error
    (x,) = runs(one("RandomUniformLike", (5,), low=2.0, high=2.0), 1)
    assert (x == 2).all()


def test_without_a_seed_executions_go_on_and_nodes_differ() -> None:
    first, second = runs(one("RandomUniformLike", (64,), None), 2)
    again = runs(one("RandomUniformLike", (64,), None), 2)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal([first, second], again)
    name, key = "RandomUniformLike.node", 0xCBF29CE484222325
    for c in name.encode():
        key = (key ^ c) * 0x100000001B3 % 2**64
    for run, got in enumerate((first, second)):
        np.testing.assert_array_equal(got, shares(64, (key % 2**32, key >> 32), run))
    what = one("RandomUniformLike", (64,), None)
    what.model.nodes[0].name = "another"
    assert not np.array_equal(runs(what, 1)[0], first)


def test_numbers_of_other_types_are_the_float_ones() -> None:
    inputs = [u32(5, 40), np.array([8.0], np.float32)]
    params = {"low": -1.0, "high": 2.0}
    (wide,) = run_op("RandomUniformLike", inputs, [(5, 40)], params, dtype="float32")
    (half,) = run_op("RandomUniformLike", inputs, [(5, 40)], params, dtype="float16")
    np.testing.assert_array_equal(half, wide.astype(np.float16))
    q = Quantization(3 / 255, -85)
    (codes,) = run_op(
        "RandomUniformLike", inputs, [(5, 40)], params, dtype="uint8", encodings={"out0": q}
    )
    np.testing.assert_array_equal(codes, np.clip(np.rint(wide / np.float32(3 / 255)) + 85, 0, 255))


def test_what_breaks_a_rule_is_refused() -> None:
    seed = np.array([1.0], np.float32)
    cases: list[tuple[str, list[np.ndarray], dict[str, Any], str]] = [
        ("RandomUniformLike", [u32(2, 3)], {"low": 2.0, "high": 1.0}, "low.*2.*high.*1"),
        ("RandomUniformLike", [u32(2, 4)], {}, r"\[2, 3\].*\[2, 4\]"),
        ("RandomUniformLike", [u32(2, 3, 1)], {}, "3 values.*rank 2"),
        ("RandomNormalLike", [u32(2, 3), np.resize(seed, 2)], {}, r"seed.*\[1\].*\[2\]"),
        ("RandomNormalLike", [u32(2, 3), seed], {"low": 1.0}, "unknown param 'low'"),
        ("RandomNormalLike", [u32(2, 3), seed], {"scale": -1.0}, "scale.*-1"),
        ("RandomUniformLike", [u32(2, 3)], {"low": -3e38, "high": 3e38}, "'high' - 'low'"),
        *(
            (op, [u32(2, 3), seed], {param: value}, f"'{param}' is -?{value}.*finite")
            for op, param in (
                ("RandomNormalLike", "mean"),
                ("RandomNormalLike", "scale"),
                ("RandomUniformLike", "low"),
                ("RandomUniformLike", "high"),
            )
            for value in (np.nan, np.inf)
        ),
    ]
    for op, inputs, params, message in cases:
        with pytest.raises(QnnError, match=message) as e:
            run_op(op, inputs, [(2, 3)], params, static=(0, 1), dtype="float32")
        assert op in str(e.value)
    with pytest.raises(QnnError, match="asks for 4 as dim 1"):  # seen when it runs
        run_op("RandomUniformLike", [u32(2, 4)], [(2, 3)], dtype="float32")
