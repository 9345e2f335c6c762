"""Models of one TFLite_Detection_PostProcess, in which detectors of TFLite end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flatbuffers import flexbuffers

from .builder import ModelBuilder

F32 = np.float32
NAME = "TFLite_Detection_PostProcess"
BOXES = 60


@dataclass(frozen=True)
class Form:
    most: int = 10
    each: int = 1
    classes: int = 5
    background: int = 1
    regular: bool = False
    per_class: int | None = None
    overlap: float = 0.5
    score: float = 0.4


FORMS = {
    "fast": Form(),
    "fast, several classes a box": Form(each=3),
    "fast, more classes than there are": Form(each=7),
    "fast, no background": Form(background=0, most=100),
    "regular": Form(regular=True, per_class=4),
    "regular, several classes a box": Form(regular=True, each=2),
    "regular, as many as there may be": Form(regular=True, most=40, overlap=0.3),
    "regular, more than there are": Form(regular=True, most=50, classes=2, per_class=9),
}


def settings(form: Form, **more: object) -> bytes:
    b = flexbuffers.Builder()
    with b.Map():
        b.Int("max_detections", form.most)
        b.Int("max_classes_per_detection", form.each)
        if form.per_class is not None:
            b.Int("detections_per_class", form.per_class)
        b.Bool("use_regular_nms", form.regular)
        b.Float("nms_score_threshold", form.score)
        b.Float("nms_iou_threshold", form.overlap)
        b.Int("num_classes", form.classes)
        for name, scale in (("y", 10.0), ("x", 10.0), ("h", 5.0), ("w", 5.0)):
            b.Float(f"{name}_scale", scale)
        b.String("not_a_number", "text")
    return bytes(b.Finish())


def model(form: Form, given: bytes | None = None, quantized: bool = False) -> bytes:
    r = np.random.default_rng(1)
    b = ModelBuilder()
    kind = np.uint8 if quantized else F32
    classes = form.classes + form.background
    encodings = ({"scale": 0.05, "zero": 128}, {"scale": 1 / 256}) if quantized else ({}, {})
    offsets = b.input((1, BOXES, 4), kind, **encodings[0])
    scores = b.input((1, BOXES, classes), kind, **encodings[1])
    places = np.concatenate([r.uniform(0, 1, (BOXES, 2)), r.uniform(0.1, 0.4, (BOXES, 2))], 1)
    if quantized:
        codes = np.round(places * 200).astype(np.uint8)
        anchors = b.const(codes, scale=1 / 200)
    else:
        anchors = b.const(places.astype(F32))
    room = form.most * form.each
    shapes = ((1, room, 4), (1, room), (1, room), (1,))
    found = b.op(
        "CUSTOM", [offsets, scores, anchors], [(s, F32) for s in shapes],
        custom=NAME, settings=settings(form) if given is None else given,
    )  # fmt: skip
    b.output(*found)
    return b.build()
