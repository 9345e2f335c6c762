"""Encodings in context binaries, in their descriptions and in the tools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.errors import QnnError
from qnnrt.model import ContextBinary, Model, Node, Quantization, Tensor
from support.fixed import Fixed
from support.tool_cases import Capture, call, listed, numbers, raw, report

X, H, Y = Fixed("uint8", 0.05, -128), Fixed("uint8", 0.1, -120), Fixed("uint16", 2**-15, 0)
CHANNELS = Fixed("int8", np.array([0.5, 0.25, 2.0], np.float32), np.array([0, -4, 9]), axis=1)
NARROW = Fixed("int8", 0.25, 1, bitwidth=4)
NARROW_CHANNELS = Fixed("uint8", np.array([0.5, 1, 0.125]), np.array([-8, 0, -15]), 1, 4)
INPUTS = {"x": X, "channels": CHANNELS, "narrow": NARROW, "narrow_channels": NARROW_CHANNELS}


def encoded_model() -> Model:
    """4-bit weights along an axis and in blocks, and an input of each encoding."""
    model = Model("encoded")

    def tensor(name: str, shape: tuple[int, ...], of: Fixed | None = None) -> str:
        dtype = np.dtype(np.float32 if of is None else of.dtype)
        q = None if of is None else of.quantization
        model.tensors[name] = Tensor(name, shape, dtype, quantization=q)
        return name

    def constant(name: str, data: np.ndarray, q: Quantization) -> str:
        model.tensors[name] = Tensor(name, data.shape, data.dtype, data, q)
        return name

    def node(op: str, inputs: list[str], output: str, **params: object) -> None:
        model.nodes.append(Node(f"{op} {output}", op, inputs, [output], params))

    rng = np.random.default_rng(42)
    pixel = {"stride": np.array([1, 1], np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    scales = rng.uniform(0.02, 0.05, 32).astype(np.float32)
    first = rng.integers(-8, 8, (1, 1, 16, 32)).astype(np.int8)
    second = rng.integers(-8, 8, (1, 1, 32, 8)).astype(np.int8)
    factors = rng.integers(1, 16, (8, 4)).astype(np.uint8)
    tensor("x", (1, 4, 4, 16), X)
    constant("w1", first, Quantization(scales, 0, axis=3, bitwidth=4))
    bias = Quantization(scales * np.float32(X.scale), 0, axis=0)
    constant("b1", rng.integers(-99, 99, 32).astype(np.int32), bias)
    tensor("h", (1, 4, 4, 32), H)
    node("Conv2d", ["x", "w1", "b1"], "h", **pixel)
    each = rng.uniform(0.001, 0.002, 8).astype(np.float32)
    constant("w2", second, Quantization(each, 0, axis=3, block_scales=factors))
    tensor("z", (1, 4, 4, 8), Fixed("int16", 0.001, 0))
    node("Conv2d", ["h", "w2"], "z", **pixel)
    tensor("y", (1, 4, 4, 8), Y)
    node("Softmax", ["z"], "y")
    for name, of in list(INPUTS.items())[1:]:
        tensor(name, (2, 3), of)
        tensor(f"real_{name}", (2, 3))
        node("Dequantize", [name], f"real_{name}")
    model.inputs = list(INPUTS)
    model.outputs = ["h", "y", *(f"real_{name}" for name in INPUTS if name != "x")]
    model.check()
    return model


def feeds() -> dict[str, np.ndarray]:
    shapes, rng = {"x": (1, 4, 4, 16)}, np.random.default_rng(41)
    return {name: of.random(rng, shapes.get(name, (2, 3))) for name, of in INPUTS.items()}


@pytest.fixture(scope="module")
def binary(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("binary") / "encoded.bin"
    with qnnrt.Session(encoded_model(), "htp") as s:
        s.save_binary(path)
    return path


def same(one: Quantization | None, other: Quantization | None) -> bool:
    assert one is not None
    assert other is not None
    pairs = [(np.float32(a), np.float32(b)) for a, b in ((one.scale, other.scale),)]
    pairs.append((np.asarray(one.offset), np.asarray(other.offset)))
    return (one.axis, one.bitwidth) == (other.axis, other.bitwidth) and all(
        np.array_equal(a, b) for a, b in pairs
    )


@pytest.mark.parametrize("options", [{}, {"kernels": "portable"}])
def test_a_loaded_graph_computes_the_same_integers(tmp_path: Path, options) -> None:
    path, given = tmp_path / "m.bin", feeds()
    with qnnrt.Session(encoded_model(), "htp", options=options) as s:
        made = s.run(given)
        s.save_binary(path)
    with qnnrt.Session(qnnrt.load(path), "htp") as s:
        again = s.run(given)
    assert np.ptp(made["h"].astype(int)) > 100
    assert np.ptp(made["y"].astype(int)) > 1000
    for name, value in made.items():
        assert value.dtype == again[name].dtype
        assert np.array_equal(value, again[name]), name
    for name, of in list(INPUTS.items())[1:]:
        assert np.array_equal(made[f"real_{name}"], of.dequantize(given[name]))


def test_bound_tensors_have_the_encodings(binary: Path) -> None:
    for model in (encoded_model(), qnnrt.load(binary)):
        with qnnrt.Session(model, "htp") as s:
            for name, of in INPUTS.items():
                assert same(s.inputs[name].quantization, of.quantization)
            assert same(s.outputs["y"].quantization, Y.quantization)
            assert s.outputs["real_narrow"].quantization is None


def test_a_description_has_the_encodings(binary: Path) -> None:
    graph = ContextBinary(binary).graph()
    assert [t.data_type for t in graph.inputs] == [0x0408, 0x0308, 0x0308, 0x0408]
    for tensor in graph.inputs:
        assert same(tensor.quantization, INPUTS[tensor.name].quantization)
    kinds = [
        t["quantization"]["encoding"] for t in ContextBinary(binary).info["graphs"][0]["inputs"]
    ]
    assert kinds == ["scale_offset", "axis_scale_offset", "bw_scale_offset", "bw_axis_scale_offset"]


def test_the_utility_shows_the_encodings(binary: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert call("context-binary-utility", "--context_binary", binary, "--json_file", out) == 0
    [graph] = json.loads(out.read_text())["info"]["graphs"]
    shown = {t["info"]["name"]: t["info"] for t in graph["info"]["graphInputs"]}
    assert shown["x"]["dataType"] == "QNN_DATATYPE_UFIXED_POINT_8"
    assert shown["x"]["quantizeParams"] == {
        "definition": "QNN_DEFINITION_DEFINED",
        "encoding": "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET",
        "scaleOffset": {"scale": pytest.approx(0.05), "offset": -128},
    }
    axis = shown["channels"]["quantizeParams"]["axisScaleOffset"]
    assert (axis["axis"], axis["numScaleOffsets"]) == (1, 3)
    assert axis["scaleOffsets"][1] == {"scale": 0.25, "offset": -4}
    assert shown["narrow"]["quantizeParams"]["bwScaleOffset"] == {
        "bitwidth": 4, "scale": 0.25, "offset": 1,
    }  # fmt: skip
    narrow = shown["narrow_channels"]["quantizeParams"]["bwAxisScaleOffset"]
    assert (narrow["bitwidth"], narrow["axis"]) == (4, 1)
    assert narrow["scaleOffsets"][2] == {"scale": 0.125, "offset": -15}


@pytest.mark.parametrize("native", [False, True])
def test_net_run_quantizes_files_unless_they_are_native(
    binary: Path, tmp_path: Path, capsys: Capture, native: bool
) -> None:
    given = feeds()
    with qnnrt.Session(qnnrt.load(binary), "htp") as s:
        expected = s.run(given)
    for name, of in INPUTS.items():
        if native:
            raw(tmp_path / f"{name}.raw", given[name], given[name].dtype)
        else:
            raw(tmp_path / f"{name}.raw", of.dequantize(given[name]))
    line = " ".join(f"{name}:={tmp_path / name}.raw" for name in INPUTS)
    flags = ["--use_native_input_files", "--use_native_output_files"] if native else []
    given_list, out = listed(tmp_path / "l", line), tmp_path / "o"
    where = ("--retrieve_context", binary, "--backend", "htp", "--output_dir", out)
    report(capsys, "net-run", *where, "--input_list", given_list, *flags)
    ends = {"h": H, "y": Y}
    for name, value in expected.items():
        of = ends.get(name)
        suffix = "_native" if native else ""
        dtype = value.dtype if native else np.float32
        got = numbers(out / "Result_0" / f"{name}{suffix}.raw", dtype)
        if of is not None and not native:
            value = of.dequantize(value)
        np.testing.assert_array_equal(got, value.ravel())


def test_a_model_with_a_bad_encoding_is_refused_by_name() -> None:
    model = encoded_model()
    model.tensors["h"].quantization = Quantization(0.0, 0)
    with pytest.raises(QnnError, match="tensor 'h': scale is 0"):
        qnnrt.Session(model, "cpu")
    model.tensors["h"].quantization = H.quantization
    model.tensors["b1"].quantization = Quantization(0.5, 2)
    with pytest.raises(QnnError, match="bias 'b1' has the offset 2"):
        qnnrt.Session(model, "cpu")
