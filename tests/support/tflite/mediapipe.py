"""Models of one custom operator of MediaPipe's."""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass

import numpy as np
from flatbuffers import flexbuffers

from .builder import ModelBuilder

F32 = np.float32
SAME, VALID = 1, 2  # TfLitePadding
#: Sizes of the transposed convolution's input.
ROWS, COLUMNS = 5, 6
#: Taps and strides, of rows and columns.
WINDOWS = [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((4, 3), (2, 1)), ((1, 1), (1, 1)), ((5, 5), (3, 2))]


def transposed(padding: int, taps: tuple[int, int], stride: tuple[int, int]) -> bytes:
    """Convolution2DTransposeBias."""
    r = np.random.default_rng(2)
    b = ModelBuilder()
    x = b.input((1, ROWS, COLUMNS, 3))
    w = b.const(r.normal(size=(4, *taps, 3)).astype(F32))
    bias = b.const(r.normal(size=4).astype(F32))
    spread = [n * s if padding == SAME else (n - 1) * s + t
              for n, s, t in zip((ROWS, COLUMNS), stride, taps, strict=True)]  # fmt: skip
    found = b.op(
        "CUSTOM", [x, w, bias], [((1, *spread, 4), F32)],
        custom="Convolution2DTransposeBias", settings=struct.pack("3i", padding, *stride[::-1]),
    )  # fmt: skip
    b.output(*found)
    return b.build()


@dataclass(frozen=True)
class Form:
    """Settings of Landmarks2TransformMatrix."""

    left_rotation_idx: int = 3
    right_rotation_idx: int = 7
    output_height: int = 16
    output_width: int = 16
    scale_x: float = 1.5
    scale_y: float = 1.5
    target_rotation_radians: float = 0.0
    subset_idxs: tuple[int, ...] = (3, 7, 1, 0, 8, 5)


FORMS = {
    "a square": Form(),
    "another size": Form(output_height=12, output_width=20, scale_x=1.3, scale_y=2.0),
    "another angle": Form(target_rotation_radians=0.4),
    "a line without length": Form(left_rotation_idx=7, target_rotation_radians=-2.5),
}
LANDMARKS = 9


def settings(**numbers: object) -> bytes:
    b = flexbuffers.Builder()
    with b.Map():
        for name, value in sorted(numbers.items()):
            b.Key(name)
            if isinstance(value, tuple):
                with b.TypedVector():
                    for number in value:
                        b.Int(number)
            elif isinstance(value, float):
                b.Float(value)
            else:
                b.Int(value)
    return bytes(b.Finish())


def _one(
    name: str,
    shapes: list[tuple[int, ...]],
    out: tuple[int, ...],
    given: bytes | None,
    version: int = 2,
) -> bytes:
    b = ModelBuilder()
    inputs = [b.input(shape) for shape in shapes]
    b.output(*b.op("CUSTOM", inputs, [(out, F32)], custom=name, settings=given, version=version))
    return b.build()


def transform_of(form: Form, version: int = 2) -> bytes:
    """Landmarks2TransformMatrix."""
    shape = (1, LANDMARKS, 3)
    given = settings(**asdict(form))
    return _one("Landmarks2TransformMatrix", [shape], (1, 4, 4), given, version)


def cut_out(picture: tuple[int, ...], height: int, width: int) -> bytes:
    """TransformTensorBilinear."""
    given = settings(output_height=height, output_width=width)
    out = (1, height, width, picture[3])
    return _one("TransformTensorBilinear", [picture, (1, 4, 4)], out, given)


def brought_back(count: int) -> bytes:
    """TransformLandmarks, which has no options."""
    return _one("TransformLandmarks", [(1, count, 2), (1, 4, 4)], (1, count, 2), None)


#: Operator -> how many models the tests run of it.
COUNTS = {
    "Convolution2DTransposeBias": 2 * len(WINDOWS),
    "Landmarks2TransformMatrix": len(FORMS),
    "TransformTensorBilinear": 3,
    "TransformLandmarks": 1,
}
