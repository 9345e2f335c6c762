"""Models of a Fourier transform and what reads its complex numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .builder import ModelBuilder

F32 = np.float32
COMPLEX = schema.TensorType.COMPLEX64

#: Shape of the input, the two lengths.
FORMS = {
    "a frame": ((1, 1, 16), (1, 16)),
    "frames": ((2, 5, 1, 32), (1, 32)),
    "as long as the largest": ((1, 1, 2048), (1, 2048)),
    "shorter than the row": ((3, 1, 20), (1, 16)),
    "longer than the row": ((3, 1, 20), (1, 32)),
    "pictures": ((2, 8, 16), (8, 16)),
    "pictures, padded": ((1, 5, 12), (8, 16)),
    "pictures, cut": ((1, 9, 20), (4, 8)),
}
#: Of complex numbers to real ones.
READERS = ("REAL", "IMAG", "COMPLEX_ABS", "CAST")


def complex_tensor(b: ModelBuilder, shape: Sequence[int]) -> int:
    return b.tensor(shape, F32, type_=COMPLEX)


def transformed(b: ModelBuilder, x: int, shape: Sequence[int], lengths: tuple[int, int]) -> int:
    out = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    given = b.const(np.array(lengths, np.int32))
    return b.op("RFFT2D", [x, given], [complex_tensor(b, out)], "Rfft2dOptions")[0]


def model(name: str, reader: str) -> bytes:
    shape, lengths = FORMS[name]
    b = ModelBuilder()
    found = transformed(b, b.input(shape), shape, lengths)
    out = b.graph.tensors[found].shape
    options = None if reader in ("REAL", "IMAG", "COMPLEX_ABS") else "CastOptions"
    b.output(*b.op(reader, [found], [(out, F32)], options))
    return b.build()
