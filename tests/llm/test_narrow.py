"""Weights of few bits: the file says what ONNX Runtime reads in it, tied output layers too."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.llm import LanguageModel
from qnnrt.llm.narrow import main, narrow, quantized
from support.decoders import VOCABULARY, Exported, build

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.foreign  # torch

TEXT = [int(t) for t in np.random.default_rng(3).integers(0, VOCABULARY, 12)]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "depth", "block"), [(5, 64, 32), (3, 40, 16), (2, 48, 32)])
def test_weights_are_a_step_away(bits: int, rows: int, depth: int, block: int) -> None:
    w = np.random.default_rng(bits).standard_normal((rows, depth)).astype(np.float32)
    w[0] = 0
    w[1] += 20  # zero is outside of what they are
    codes, scales, zeros = quantized(w, bits, block)
    blocks = -(-depth // block)
    assert codes.shape == (rows, blocks, block * bits // 8)
    assert zeros.shape == (rows, -(-blocks * bits // 8))
    assert scales.shape == (rows, blocks)

    def numbers(packed: np.ndarray) -> np.ndarray:
        halves = [packed & 15, packed >> 4] if bits == 4 else [packed]
        return np.stack(halves, -1).reshape(rows, -1).astype(np.float32)

    real = numbers(codes).reshape(rows, blocks, block) - numbers(zeros)[:, :blocks, None]
    real = (real * scales[..., None]).reshape(rows, -1)
    steps = np.repeat(scales, block, 1)[:, :depth]
    assert (np.abs(real[:, :depth] - w) <= steps * 1.0001).all()
    assert (real[:, depth:] == 0).all()


def products(path: Path) -> Counter[str]:
    nodes = onnx.load(path, load_external_data=False).graph.node
    return Counter(n.op_type for n in nodes if n.op_type in ("MatMul", "Gemm", "MatMulNBits"))


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def tied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """GPT-2's products add a bias; its output layer is tied, too."""
    sizes = {"tie_word_embeddings": True} if request.param == "llama" else {}
    return build(request.param, tmp_path_factory.mktemp(request.param), **sizes)


@pytest.mark.parametrize("bits", [4, 8])
def test_all_products_are_narrow_and_compute_what_onnxruntime_does(
    tied: Exported, bits: int, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    before = products(tied.folder / "model.onnx")
    path = narrow(tied.folder / "model.onnx", tmp_path / "model.onnx", bits=bits)
    assert products(path) == {"MatMulNBits": sum(before.values())}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(path, options)
    feeds = {
        "tokens": np.array([TEXT]),
        "position": np.array([0]),
        "rows": np.array([len(TEXT) - 1]),
    }
    for i in theirs.get_inputs():
        if i.name not in feeds:
            feeds[i.name] = np.zeros((1, *i.shape[1:]), np.float32)
    (expected,) = theirs.run(["logits"], feeds)
    with LanguageModel(path, strict=True) as model, LanguageModel(tied.folder) as floats:
        texts = [m.conversation() for m in (model, floats)]
        for text in texts:
            text.append(TEXT)
        np.testing.assert_allclose(texts[0].logits, expected[0, 0], rtol=1e-3, atol=1e-3)
        away = np.abs(texts[0].logits - texts[1].logits).max() / np.abs(texts[1].logits).max()
        assert 0 < away < (2 if bits == 4 else 0.2)  # few and large random weights
        assert model.copied_bytes == 0


def test_a_folder_goes_with_its_tokenizer(llama: Exported, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for file in llama.folder.iterdir():
        shutil.copy(file, source)
    (source / "qnnrt.json").write_text('{"end": [3]}')
    main([str(source), str(tmp_path / "narrower"), "--bits", "8"])
    main([str(source), str(tmp_path / "bytes"), "--bits", "8", "--byte-activations"])
    logits = []
    for name in ("narrower", "bytes"):
        with LanguageModel(tmp_path / name) as model:
            assert model.end == {3}
            text = model.conversation()
            text.append(TEXT)
            logits.append(text.logits)
        nodes = onnx.load(tmp_path / name / "model.onnx", load_external_data=False).graph.node
        levels = {a.i for n in nodes for a in n.attribute if a.name == "accuracy_level"}
        assert levels == ({4} if name == "bytes" else set())
    assert np.abs(logits[1] - logits[0]).max() < 0.1 * np.abs(logits[0]).max()
    with pytest.raises(ValueError, match="overwritten"):
        narrow(source / "model.onnx", source / "model.onnx")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([node], "g", [info], [out])),
        tmp_path / "relu.onnx",
    )
    with pytest.raises(ValueError, match="no product"):
        narrow(tmp_path / "relu.onnx", tmp_path / "y.onnx")
    for wrong in ({"bits": 3}, {"block": 24}, {"block": 8}):
        with pytest.raises(ValueError, match="power of two"):
            narrow(tmp_path / "relu.onnx", tmp_path / "y.onnx", **wrong)
    with pytest.raises(qnnrt.ModelError):
        LanguageModel(tmp_path / "relu.onnx")


def test_a_folder_without_a_model_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from qnnrt.llm import export

    for program, name in ((main, "narrow"), (export.main, "export")):
        with pytest.raises(SystemExit) as ended:
            program([str(tmp_path), str(tmp_path / "out")])
        error = capsys.readouterr().err
        assert ended.value.code == 1
        assert error.startswith(f"python -m qnnrt.llm.{name}: error: ")
        assert str(tmp_path) in error
        assert error.count("\n") == 1
