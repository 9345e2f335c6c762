"""Conversions to 16 bits and back are part of the transposition that a network begins or ends with,
and of the last kernel."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from test_precision import chain

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from support.toy import tensors

OWN = pytest.mark.parametrize("backend", ["cpu", "htp"])


def steps(s: qnnrt.Session) -> Counter[str]:
    return Counter(step["op"] for step in json.loads(s.graph.describe() or "")["steps"])


def turned(shape: tuple[int, ...], perm: tuple[int, ...]) -> Model:
    """Absolute values in another order than the inputs and outputs have."""
    inside = tuple(shape[p] for p in perm)
    back = np.argsort(perm).astype(np.uint32)
    return chain(
        Node("in", "Transpose", ["x"], ["a"], {"perm": np.array(perm, np.uint32)}),
        Node("abs", "ElementWiseAbs", ["a"], ["b"], {}),
        Node("out", "Transpose", ["b"], ["y"], {"perm": back}),
        x=shape, a=inside, b=inside, y=shape,
    )  # fmt: skip


SHAPES = [
    ((1, 3, 70, 90), (0, 2, 3, 1)),
    ((1, 3, 224, 224), (0, 2, 3, 1)),
    ((2, 64, 40, 3), (0, 3, 1, 2)),
    ((9000, 3), (1, 0)),
    ((3, 9001), (1, 0)),
    ((131, 4099), (1, 0)),
    ((2, 3, 4, 5, 6), (4, 2, 0, 3, 1)),
    ((7, 1, 5), (2, 0, 1)),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("shape", "perm"), SHAPES)
def test_a_transposition_rounds_and_widens_on_the_way(
    shape: tuple[int, ...], perm: tuple[int, ...], threads: int
) -> None:
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    with qnnrt.Session(turned(shape, perm), precision="float16", threads=threads) as s:
        assert steps(s) == {"Transpose": 2, "ElementWiseAbs": 1}
        y = s.run({"x": x})["y"]
    np.testing.assert_array_equal(y, np.abs(x.astype(np.float16)).astype(np.float32))


@OWN
@pytest.mark.parametrize("kernels", ["auto", "portable"])
def test_a_network_of_images_needs_no_cast(backend: str, kernels: str, tmp_path) -> None:
    """From and to channels first: every conversion is part of a node that was there before."""
    rng = np.random.default_rng(6)
    pads = {
        "stride": np.array([1, 1], np.uint32),
        "pad_amount": np.array([[1, 1], [1, 1]], np.uint32),
    }
    w = (rng.standard_normal((3, 3, 16, 16)) / 12).astype(np.float32)
    first = {"perm": np.array([0, 2, 3, 1], np.uint32)}
    last = {"perm": np.array([0, 3, 1, 2], np.uint32)}
    model = chain(
        Node("in", "Transpose", ["x"], ["a"], first),
        Node("conv0", "Conv2d", ["a", "w"], ["b"], pads),
        Node("tanh", "Tanh", ["b"], ["c"], {}),
        Node("conv1", "Conv2d", ["c", "w"], ["d"], pads),
        Node("out", "Transpose", ["d"], ["y0"], last),
        Node("more", "ElementWiseMultiply", ["d", "d"], ["y1"], {}),
        x=(1, 16, 24, 24), a=(1, 24, 24, 16), w=w, b=(1, 24, 24, 16), c=(1, 24, 24, 16),
        d=(1, 24, 24, 16), y0=(1, 16, 24, 24), y1=(1, 24, 24, 16),
    )  # fmt: skip
    x = rng.standard_normal((1, 16, 24, 24), np.float32)
    options = {"kernels": kernels}
    with qnnrt.Session(model, backend, options=options) as s:
        before, wanted = steps(s), {n: np.array(v) for n, v in s.run({"x": x}).items()}
    with qnnrt.Session(model, backend, precision="bfloat16", options=options) as s:
        assert steps(s) == before
        assert "Cast" not in before
        got = {n: np.array(v) for n, v in s.run({"x": x}).items()}
        s.save_binary(tmp_path / "x.bin")
    for name, values in got.items():
        assert values.dtype == np.float32
        off = np.sqrt(np.mean((values - wanted[name]) ** 2) / np.mean(wanted[name] ** 2))
        assert 0 < off < 8 * 2**-9
    # The last kernels write FLOAT_32 themselves: nothing was rounded to 16 bits at the end.
    assert np.any(got["y0"].view(np.uint32) & 0xFFFF)
    assert np.any(got["y1"].view(np.uint32) & 0xFFFF)
    with qnnrt.Session(tmp_path / "x.bin", backend) as s:
        for name, values in s.run({"x": x}).items():
            np.testing.assert_array_equal(values, got[name])


def test_an_input_of_a_product_is_converted_once() -> None:
    """oneDNN's products of BFLOAT_16 read nothing else: one Cast for all readers."""
    w = np.eye(64, dtype=np.float32)
    model = chain(
        Node("p", "FullyConnected", ["x", "w"], ["a"], {}),
        Node("q", "FullyConnected", ["x", "w"], ["b"], {}),
        Node("sum", "ElementWiseAdd", ["a", "b"], ["y"], {}),
        x=(8, 64), w=w, a=(8, 64), b=(8, 64), y=(8, 64),
    )  # fmt: skip
    with qnnrt.Session(model, precision="bfloat16") as s:
        assert steps(s)["Cast"] == 1


#: Numbers that half precision has others for: an op between the client's floats and other numbers,
#: the tensor of these, and both, which are those of the vendor's simulator.
CONVERSIONS = {
    "Cast": (np.dtype(np.int32), None, [2049.0, 40001.0, -7.0], [2049, 40001, -7]),
    "Quantize": (np.dtype(np.uint16), Quantization(0.001, 0), [4.9951, 9.9951], [4995, 9995]),
    "Convert": (np.dtype(np.uint16), Quantization(0.001, 0), [4.9951, 9.9951], [4995, 9995]),
}


@OWN
@pytest.mark.parametrize("op", CONVERSIONS)
def test_half_precision_reads_and_writes_the_clients_numbers_as_they_are(
    op: str, backend: str
) -> None:
    dtype, quantization, floats, others = CONVERSIONS[op]
    real, whole = np.array([floats], np.float32), np.array([others], dtype)
    f32, shape = np.dtype(np.float32), real.shape
    model = Model(
        "borders",
        tensors(
            Tensor("x", shape, f32),
            Tensor("n", shape, dtype, quantization=quantization),
            Tensor("to", shape, dtype, quantization=quantization),
            Tensor("half", shape, f32),
            Tensor("from", shape, f32),
        ),
        [
            Node("to", op, ["x"], ["to"]),
            Node("abs", "ElementWiseAbs", ["x"], ["half"]),
            Node("from", {"Quantize": "Dequantize"}.get(op, op), ["n"], ["from"]),
        ],
        ["x", "n"],
        ["to", "half", "from"],
    )
    with qnnrt.Session(model, backend, precision="float16") as s:
        found = s.run({"x": real, "n": whole})
    np.testing.assert_array_equal(found["to"], whole)
    np.testing.assert_allclose(found["from"], whole * (0.001 if quantization else 1), rtol=1e-6)
    # Others that read the same input get it in half precision.
    np.testing.assert_array_equal(found["half"], np.abs(real.astype(np.float16)))


@OWN
def test_half_precision_takes_truths_of_halves(backend: str) -> None:
    model = chain(Node("cast", "Cast", ["x"], ["y"]), x=(1, 3), y=(1, 3))
    model.tensors["y"] = Tensor("y", (1, 3), np.dtype(np.bool_))
    with qnnrt.Session(model, backend, precision="float16") as s:
        y = s.run({"x": np.array([[1e-9, 0, 1]], np.float32)})["y"]
    np.testing.assert_array_equal(y, [[False, False, True]])
