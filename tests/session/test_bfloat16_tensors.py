"""Graphs whose tensors a client declares as BFLOAT_16: through sessions, binaries, shared memory
and DLPack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support.toy import relu_model

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
OWN = pytest.mark.parametrize("backend", ["cpu", "htp"])

SHAPE = (1, 12, 12, 16)


def network(dtype: np.dtype = BF16, depth: int = 3) -> Model:
    """Convolutions, normalisations and sums, everything of one type, with the same numbers."""
    rng = np.random.default_rng(8)
    model = Model("net", inputs=["x"])
    pads = {
        "stride": np.array([1, 1], np.uint32),
        "pad_amount": np.array([[1, 1], [1, 1]], np.uint32),
    }

    def tensor(name: str, shape: tuple[int, ...], values: np.ndarray | None = None) -> str:
        data = None if values is None else values.astype(BF16).astype(dtype)
        model.tensors[name] = Tensor(name, shape, dtype, data)
        return name

    last = tensor("x", SHAPE)
    for i in range(depth):
        w = tensor(f"w{i}", (3, 3, 16, 16), rng.standard_normal((3, 3, 16, 16)) / 12)
        b = tensor(f"b{i}", (16,), rng.standard_normal(16) / 10)
        g = tensor(f"g{i}", (16,), rng.uniform(0.5, 1.5, 16))
        c, n, s = (tensor(f"{kind}{i}", SHAPE) for kind in "cns")
        model.nodes += [
            Node(f"conv{i}", "Conv2d", [last, w, b], [c], pads),
            Node(
                f"norm{i}", "LayerNorm", [c, g, b], [n],
                {"axes": np.array([3], np.uint32), "epsilon": np.float32(1e-5)},
            ),
            Node(f"sum{i}", "ElementWiseAdd", [n, last], [s], {}),
        ]  # fmt: skip
        last = s
    tensor("y", SHAPE)
    model.nodes.append(Node("last", "Gelu", [last], ["y"], {}))
    model.outputs = ["y"]
    return model


def given(seed: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(BF16)


def exact(x: np.ndarray) -> np.ndarray:
    with qnnrt.Session(network(F32)) as s:
        return np.array(s.run({"x": x.astype(F32)})["y"])


@OWN
@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("io", ["raw", "memhandle"])
def test_a_network_in_bfloat16_is_as_near_as_that_allows(
    backend: str, kernels: str, io: str
) -> None:
    x = given()
    wanted = exact(x)
    with qnnrt.Session(network(), backend, io=io, options={"kernels": kernels}) as s:
        assert s.inputs["x"].dtype == s.outputs["y"].dtype == BF16
        assert s.precision == "bfloat16"
        got = s.run({"x": x})["y"]
    assert got.dtype == BF16
    off = got.astype(F32) - wanted
    assert 0 < np.sqrt(np.mean(off**2) / np.mean(wanted**2)) < 4 * 2**-9


@OWN
def test_a_binary_has_the_tensors_and_gives_the_same_bytes(backend: str, tmp_path: Path) -> None:
    x = given()
    with qnnrt.Session(network(), backend) as s:
        wanted = s.run({"x": x})["y"].tobytes()
        s.save_binary(tmp_path / "x.bin")
    with qnnrt.Session(tmp_path / "x.bin", backend) as s:
        assert s.inputs["x"].dtype == BF16
        assert s.run({"x": x})["y"].tobytes() == wanted


def test_torch_gives_and_takes_its_own_bfloat16_in_place() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(given().astype(F32)).bfloat16()
    y = torch.full(SHAPE, 77.0, dtype=torch.bfloat16)
    with qnnrt.Session(network(), io="raw") as s:
        wanted = s.run({"x": given()})["y"].astype(F32)
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        s.run()
        np.testing.assert_array_equal(y.float().numpy(), wanted)
        with pytest.raises(qnnrt.BindError, match="no bfloat16"):
            s.inputs["x"].bind(x.half())
        with pytest.raises(qnnrt.BindError, match="needs elements of type bfloat16, not float16"):
            s.inputs["x"].bind(given().astype(np.float16))
    with qnnrt.Session(relu_model(), io="raw") as s, pytest.raises(qnnrt.BindError):
        next(iter(s.inputs.values())).bind(x)


def test_backends_without_bfloat16_name_the_nodes() -> None:
    with pytest.raises(qnnrt.UnsupportedOpError) as e:
        qnnrt.Session(network(), "lpai")
    assert len(e.value.nodes) == len(network().nodes)
