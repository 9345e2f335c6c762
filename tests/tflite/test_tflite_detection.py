"""TFLite_Detection_PostProcess, in which detectors of TFLite end, beside TFLite's own kernel."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite.delegated import delegate, interpreter
from support.tflite.delegated import run as run_delegated
from support.tflite.detection import BOXES, FORMS, Form, model, settings
from support.tflite.reference import reference

pytestmark = pytest.mark.foreign

F32 = np.float32


def feeds(form: Form, quantized: bool) -> list[list[np.ndarray]]:
    """Some boxes, all of them, and none."""
    classes = form.classes + form.background
    found = []
    for seed, scale in enumerate((1.0, 0.3, 0.0)):
        r = np.random.default_rng(seed)
        scores = r.random((1, BOXES, classes)) * scale + (0.5 if scale == 0.3 else 0)
        offsets = r.normal(size=(1, BOXES, 4))
        if quantized:  # no two scores are the same, as far as 255 go
            codes = [np.round(offsets * 20 + 128).clip(0, 255), np.round(scores * 255)]
            found.append([c.astype(np.uint8) for c in codes])
        else:
            found.append([offsets.astype(F32), scores.astype(F32)])
    return found


def agree(form: Form, ours: list[np.ndarray], theirs: list[np.ndarray]) -> int:
    """What TFLite leaves behind the last detection is anything; here it is 0."""
    assert [x.shape for x in ours] == [x.shape for x in theirs]
    (count,) = theirs[3]
    assert ours[3][0] == count
    # The fast form counts boxes, and has rows for several classes of each.
    each, used = (1, 1) if form.regular else (form.each, min(form.each, form.classes))
    for x, y in zip(ours[:3], theirs[:3], strict=True):
        x, y = (v.reshape(-1, each, *v.shape[2:]) for v in (x, y))
        found = x[: int(count), :used]
        np.testing.assert_allclose(found, y[: int(count), :used], rtol=1e-5, atol=1e-6)
        assert np.count_nonzero(x) == np.count_nonzero(found)
    return int(count)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_left_is_what_tflite_leaves(name: str) -> None:
    form = FORMS[name]
    data = model(form)
    loaded = importer.load(data)
    counts = []
    with qnnrt.Session(loaded, "cpu") as session:
        taken = interpreter(data, delegate(backend_type="cpu"))
        for given in feeds(form, False):
            theirs = reference(data, given)
            found = session.run(dict(zip(loaded.inputs, given, strict=True)))
            counts.append(agree(form, [found[o] for o in loaded.outputs], theirs))
            agree(form, run_delegated(taken, given), theirs)
    assert counts[0] > 3
    assert counts[2] == 0


@pytest.mark.parametrize("regular", [False, True])
def test_of_a_quantized_network(regular: bool) -> None:
    """The anchors are quantized, too."""
    form = Form(regular=regular, classes=1, background=0, overlap=0.6)
    data = model(form, quantized=True)
    loaded = importer.load(data)
    given = feeds(form, True)[0]
    given[1] = np.random.default_rng(9).permutation(4 * BOXES)[:BOXES].reshape(1, BOXES, 1)
    given[1] = given[1].astype(np.uint8)
    with qnnrt.Session(loaded, "cpu") as session:
        found = session.run(dict(zip(loaded.inputs, given, strict=True)))
    assert agree(form, [found[o] for o in loaded.outputs], reference(data, given)) > 3


def test_options_that_are_none() -> None:
    whole = settings(Form())
    with pytest.raises(ModelError, match="no options"):
        importer.load(model(Form(), b"ab"))
    for cut in range(3, len(whole), 7):
        with pytest.raises(ModelError):
            importer.load(model(Form(), whole[:cut]))
    r = np.random.default_rng(0)
    for _ in range(200):  # damaged or not: an error of ours, or a model
        broken = bytearray(whole)
        broken[r.integers(len(broken))] = r.integers(256)
        try:
            importer.load(model(Form(), bytes(broken)))
        except (ModelError, UnsupportedOpError):
            continue


@pytest.mark.parametrize(
    ("change", "message"),
    [({"most": 0}, "max_detections of 0"), ({"classes": 3}, "of 3 classes"),
     ({"overlap": 1.5}, "nms_iou_threshold of 1.5")],
)  # fmt: skip
def test_settings_that_do_not_fit(change: dict[str, float], message: str) -> None:
    given = settings(dataclasses.replace(Form(), **change))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=message):
        importer.load(model(Form(), given))
