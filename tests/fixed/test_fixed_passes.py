"""What a fixed-point graph loses when it is finalized: nodes that change no code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from support.fixed import Fixed
from support.one_node import u32

A = Fixed(np.uint8, 0.1, -3)
REAL = np.dtype(np.float32)


def run_chain(
    x: np.ndarray, types: Sequence[Any], ops: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[np.ndarray, list[str]]:
    """The result of ops one after the other, types[i] before op i, and the ops that were left."""
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        tensors = []
        for i, of in enumerate(types):
            kind = "app_write" if i == 0 else "app_read" if i == len(ops) else "native"
            q = of.quantization if isinstance(of, Fixed) else None
            dtype = of.dtype if isinstance(of, Fixed) else of
            tensors.append(graph.add_tensor(f"t{i}", x.shape, dtype, type=kind, quantization=q))
        for i, (op, params) in enumerate(ops):
            graph.add_node(f"n{i}", op, [tensors[i]], [tensors[i + 1]], params)
        graph.finalize()
        out = np.zeros(x.shape, types[-1].dtype if isinstance(types[-1], Fixed) else types[-1])
        graph.execute([x], [out])
        return out, [step["op"] for step in json.loads(graph.describe())["steps"]]


def codes(of: Fixed) -> np.ndarray:
    return of.codes().reshape(1, -1)


MAX = ("ReduceMax", {"axes": u32(0), "keep_dims": True})  # keeps what it sees


@pytest.mark.parametrize(
    ("op", "params", "of"),
    [
        ("Relu", {}, Fixed(np.uint8, 0.1, 0)),
        ("Relu", {}, Fixed(np.int8, 0.1, 128)),
        ("Relu6", {}, Fixed(np.uint8, 6 / 255, 0)),
        ("Relu1", {}, Fixed(np.int16, 1 / 32768, 0)),
        ("ReluMinMax", {"min_value": np.float32(-1), "max_value": np.float32(30)}, A),
        ("ElementWiseNeuron", {"operation": np.uint32(4)}, Fixed(np.uint16, 0.01, 0)),
    ],
)
def test_limits_that_no_code_reaches_go(op, params, of):
    out, left = run_chain(codes(of), [of] * 4, [MAX, (op, params), MAX])
    np.testing.assert_array_equal(out, codes(of))
    assert left == ["ReduceMax", "ReduceMax"]


@pytest.mark.parametrize(
    ("op", "params", "of"),
    [
        ("Relu", {}, Fixed(np.uint8, 0.1, -1)),
        ("Relu6", {}, Fixed(np.uint8, 6.2 / 255, 0)),
        ("ReluMinMax", {"min_value": np.float32(-0.2), "max_value": np.float32(30)}, A),
        ("Sigmoid", {}, Fixed(np.uint8, 1 / 256, 0)),
    ],
)
def test_limits_that_a_code_reaches_stay(op, params, of):
    out, left = run_chain(codes(of), [of] * 4, [MAX, (op, params), MAX])
    assert op in left
    assert (out != codes(of)).any()


def test_limits_stay_where_the_encodings_differ():
    of = Fixed(np.uint8, 0.1, 0)
    _, left = run_chain(codes(of), [of, of, Fixed(np.uint8, 0.2, 0)], [MAX, ("Relu", {})])
    assert left == ["ReduceMax", "Relu"]


def test_an_app_tensor_is_written_by_what_wrote_it():
    of = Fixed(np.uint8, 0.1, 0)
    out, left = run_chain(codes(of), [of, of, of], [MAX, ("Relu", {})])
    np.testing.assert_array_equal(out, codes(of))
    assert left == ["ReduceMax", "Relu"]


def test_floats_between_two_encodings_go():
    to = Fixed(np.int8, 0.17, 5)
    out, left = run_chain(codes(A), [A, REAL, to], [("Dequantize", {}), ("Quantize", {})])
    np.testing.assert_array_equal(out, to.quantize(A.dequantize(codes(A))))
    assert left == ["Convert"]


def test_there_and_back_again_is_nothing():
    out, left = run_chain(
        codes(A), [A, A, REAL, A, A], [MAX, ("Dequantize", {}), ("Quantize", {}), MAX]
    )
    np.testing.assert_array_equal(out, codes(A))
    assert left == ["ReduceMax", "ReduceMax"]


def test_two_conversions_become_one_where_no_code_sees_a_difference():
    fine = Fixed(np.uint16, 0.1 / 256, -3 * 256)
    out, left = run_chain(codes(A), [A, fine, A], [("Convert", {}), ("Convert", {})])
    np.testing.assert_array_equal(out, codes(A))
    assert left == ["Convert"]


def test_a_coarse_encoding_between_two_others_stays():
    coarse = Fixed(np.uint8, 1.0, 0)
    out, left = run_chain(codes(A), [A, coarse, A], [("Convert", {}), ("Convert", {})])
    expected = A.quantize(coarse.dequantize(coarse.quantize(A.dequantize(codes(A)))))
    np.testing.assert_array_equal(out, expected)
    assert left == ["Convert", "Convert"]


def test_rounding_between_floats_stays():
    x = np.linspace(-1, 30, 50, dtype=np.float32).reshape(1, 50)
    out, left = run_chain(x, [REAL, A, REAL], [("Quantize", {}), ("Dequantize", {})])
    np.testing.assert_array_equal(out, A.dequantize(A.quantize(x)))
    assert left == ["Quantize", "Dequantize"]


def test_transposes_and_reshapes_that_requantize_stay():
    other = Fixed(np.uint8, 0.2, 0)
    swap = ("Transpose", {"perm": u32(1, 0)})
    x = np.arange(16, dtype=np.uint8).reshape(4, 4)
    out, left = run_chain(x, [A, other, A], [swap, swap])
    np.testing.assert_array_equal(
        out, A.quantize(other.dequantize(other.quantize(A.dequantize(x))))
    )
    assert left == ["Transpose", "Transpose"]
    out, left = run_chain(x, [A, A, A], [swap, swap])
    np.testing.assert_array_equal(out, x)
    assert left == ["Reshape"]


@pytest.mark.parametrize("op", ["Dequantize", "Convert"])
def test_constants_are_brought_to_their_type_once(op):
    to = REAL if op == "Dequantize" else Fixed(np.uint8, 0.2, -1)
    dtype, q = (REAL, None) if to is REAL else (to.dtype, to.quantization)
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (1, 256), dtype, type="app_write", quantization=q)
        w = graph.add_tensor(
            "w", (1, 256), np.uint8, type="static", data=codes(A), quantization=A.quantization
        )
        v = graph.add_tensor("v", (1, 256), dtype, type="native", quantization=q)
        y = graph.add_tensor("y", (1, 256), dtype, type="app_read", quantization=q)
        graph.add_node("c", op, [w], [v])
        graph.add_node("m", "ElementWiseMaximum", [x, v], [y])
        graph.finalize()
        steps = json.loads(graph.describe())["steps"]
        assert [step["op"] for step in steps] == ["ElementWiseMaximum"]
        low = np.zeros((1, 256), dtype)
        out = np.zeros((1, 256), dtype)
        graph.execute([low], [out])
        real = A.dequantize(codes(A))
        expected = np.maximum(real, 0) if to is REAL else np.maximum(to.quantize(real), 0)
        np.testing.assert_array_equal(out, expected)
