"""Option "precision": floats inside of a graph in another width, the same tensors at its ends."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import ir
from qnnrt.gpu.device import choose
from qnnrt.gpu.passes import precision
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.toy import F32, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are

F16 = np.dtype(np.float16)
X = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)


def model(dtype: np.dtype = F32, lowest: float = -1.0) -> Model:
    """y = tanh(x @ w + mask), z = relu(x)."""
    weight = np.random.default_rng(0).standard_normal((6, 6)).astype(dtype)
    mask = np.array([0, 0, 0, 0, 0, lowest]).astype(dtype)
    names = ("product", "sum", "y", "z")
    return Model(
        "inside",
        tensors(
            Tensor("x", X.shape, dtype),
            Tensor("w", weight.shape, dtype, weight),
            Tensor("mask", mask.shape, dtype, mask),
            *(Tensor(n, X.shape, dtype) for n in names),
        ),
        [
            Node("matmul", "MatMul", ["x", "w"], ["product"]),
            Node("add", "ElementWiseAdd", ["product", "mask"], ["sum"]),
            Node("tanh", "Tanh", ["sum"], ["y"]),
            Node("relu", "Relu", ["x"], ["z"]),
        ],
        ["x"],
        ["y", "z"],
    )


def run(m: Model, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with qnnrt.Session(m, "gpu", options={"gpu": {"precision": name}}) as s:
        given = X.astype(m.tensors["x"].dtype)
        got = {k: v.copy() for k, v in s.run({"x": given}).items()}
        text = s.graph.describe()
        s.backend.close()
    assert text is not None
    return got, json.loads(text)


@pytest.mark.parametrize("name", ["fp16", "hybrid"])
def test_floats_inside_have_16_bits_and_ends_keep_their_type(name: str) -> None:
    m = model(lowest=-3.4e38)
    with qnnrt.Session(m, "cpu") as s:
        expected = s.run({"x": X})
    got, told = run(m, name)
    for key, y in got.items():
        assert y.dtype == F32
        np.testing.assert_allclose(y, expected[key], rtol=1e-2, atol=1e-2)
    casts = [s for s in told["steps"] if s["op"] == "Cast"]
    assert [c["name"] for c in casts] == ["x as float16", "y from float16", "z from float16"]
    others = [s for s in told["steps"] if s["op"] != "Cast"]
    assert others
    assert all("HALF" in s["defines"] for s in others)
    assert all(i["size"] == 2 * X.size for i in told["arena"]["items"])


def test_floats_inside_have_32_bits() -> None:
    m = model(F16)
    got, told = run(m, "fp32")
    plain, _ = run(m, "user")
    for key, y in got.items():
        assert y.dtype == F16
        np.testing.assert_allclose(y, plain[key], rtol=1e-2, atol=1e-2)
    assert not any("HALF" in s["defines"] for s in told["steps"] if s["op"] != "Cast")
    assert all(i["size"] == 4 * X.size for i in told["arena"]["items"])


def test_what_the_tensors_say_is_the_default() -> None:
    _, told = run(model(), "user")
    assert told["precision"] == "user"
    assert "Cast" not in [s["op"] for s in told["steps"]]


def test_only_floats_change_and_finite_constants_stay_finite() -> None:
    def value(name: str, code: int, kind: str, data: Any = None) -> ir.Value:
        dtype = np.dtype({0x0232: np.float32, 0x0032: np.int32}[code])
        data = None if data is None else np.array(data, dtype)
        return ir.Value(name, 1, (3,), dtype, code, kind, data)

    x, n = value("x", 0x0232, "input"), value("n", 0x0032, "input")
    k = value("k", 0x0232, "static", [1e6, -np.inf, 0.5])
    a, y = value("a", 0x0232, "native"), value("y", 0x0032, "output")
    g = ir.Ir(
        "g",
        (x, n, y),
        [
            ir.Node("one", "Some", [x, n, k, None], [a], {}),
            ir.Node("two", "Other", [a, x], [y], {}),
        ],
    )
    precision.apply(g, Target(choose(), precision="fp16"))
    cast, one, two = g.nodes
    assert (cast.type, cast.inputs) == ("Cast", [x])
    assert one.inputs == [cast.outputs[0], n, k, None]
    assert two.inputs == [a, cast.outputs[0]]
    assert two.outputs == [y]
    assert (a.code, k.code, n.code, y.code) == (0x0216, 0x0216, 0x0032, 0x0032)
    assert k.data is not None
    np.testing.assert_array_equal(k.data, np.array([65504, -np.inf, 0.5], np.float16))
    assert g.passes == [("fp16 inside", 3)]


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(3, 20), (1, 40_000)])
def test_a_softmax_writes_what_an_output_is(op: str, shape: tuple[int, ...]) -> None:
    """No cast behind it, and its results are not rounded to 16 bits."""
    x = np.random.default_rng(3).integers(-4, 4, shape).astype(np.float32)
    softmax = Model(
        "softmax",
        tensors(Tensor("x", shape, F32), Tensor("y", shape, F32)),
        [Node("softmax", op, ["x"], ["y"], {"axis": 1})],
        ["x"],
        ["y"],
    )
    with qnnrt.Session(softmax, "gpu", options={"gpu": {"precision": "fp16"}}) as s:
        got = s.run({"x": x})["y"].copy()
        steps = json.loads(s.graph.describe() or "")["steps"]
        s.backend.close()
    assert [step["op"] for step in steps if step["op"] == "Cast"] == ["Cast"], "at the input"
    with qnnrt.Session(softmax, "cpu") as s:
        np.testing.assert_allclose(got, s.run({"x": x})["y"], rtol=2e-6)
