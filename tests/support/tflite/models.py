"""TFLite files with a little of everything: signatures, open shapes, integer weights."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from qnnrt.tflite import Interpreter
from support.tflite.builder import ModelBuilder

SEED = 20261121
F32, I32 = np.float32, np.int32


def dense_int8(per_channel: bool, explicit: bool, bits: int = 8) -> tuple[bytes, np.ndarray]:
    """One layer with integer weights, and those weights as real numbers."""
    r = np.random.default_rng(SEED)
    limit = 1 << (bits - 1)
    q = r.integers(-limit + 1, limit, (5, 8)).astype(np.int8)
    scale = r.uniform(0.01, 0.1, 5).astype(F32) if per_channel else np.array([0.05], F32)
    b = ModelBuilder()
    x = b.input((3, 8), name="x")
    if bits == 4:
        packed = (q.reshape(-1, 2)[:, 0] & 15) | (q.reshape(-1, 2)[:, 1] << 4)
        w = b.tensor((5, 8), np.int8, data=packed, scale=scale, zero=[0] * scale.size,
                     type_=schema.TensorType.INT4)  # fmt: skip
    else:
        w = b.const(q, scale=scale, zero=[0] * scale.size)
    if explicit:
        (w,) = b.op("DEQUANTIZE", [w], [((5, 8), F32)], "DequantizeOptions", version=2)
    b.output(*b.op("FULLY_CONNECTED", [x, w, -1], [((3, 5), F32)], "FullyConnectedOptions",
                   version=9))  # fmt: skip
    return b.build(), q * scale[:, None]


def two_entries() -> bytes:
    b = ModelBuilder()
    x, y = b.input((2, 3), name="serving_x:0"), b.input((2, 3), name="serving_y:0")
    (total,) = b.op("ADD", [x, y], [((2, 3), F32)], "AddOptions")
    (less,) = b.op("SUB", [x, y], [((2, 3), F32)], "SubOptions")
    b.output(total, less)
    b.signature("serving_default", {"a": x, "b": y}, {"sum": total, "difference": less})
    b.signature("other", {"left": x, "right": y}, {"plus": total, "minus": less})
    return b.build()


def open_batch() -> bytes:
    """What converters write for a reshape of an image of any batch."""
    b = ModelBuilder()
    x = b.input((1, 4, 6), name="x", signature=(-1, 4, 6))
    (shape,) = b.op("SHAPE", [x], [((3,), I32)], "ShapeOptions", outType=2)
    cut = [b.const([v], I32) for v in (0, 1, 1)]
    fields = {"shrinkAxisMask": 1}
    (n,) = b.op("STRIDED_SLICE", [shape, *cut], [((), I32)], "StridedSliceOptions", **fields)
    rest = b.const(24, I32)
    (wanted,) = b.op("PACK", [n, rest], [((2,), I32)], "PackOptions", valuesCount=2)
    b.output(*b.op("RESHAPE", [x, wanted], [((1, 24), F32)], "ReshapeOptions"))
    return b.build()


def toy(elements: int = 32) -> bytes:
    """y = relu(x + 1) * 2, in three operators."""
    b = ModelBuilder()
    x = b.input((1, elements), name="x")
    one, two = b.const([1.0], F32), b.const([2.0], F32)
    (a,) = b.op("ADD", [x, one], [((1, elements), F32)], "AddOptions")
    (r,) = b.op("RELU", [a], [((1, elements), F32)])
    b.output(*b.op("MUL", [r, two], [((1, elements), F32)], "MulOptions"))
    return b.build()


def expected(x: np.ndarray) -> np.ndarray:
    """What ``toy`` gives."""
    return np.maximum(x + 1, 0) * 2


def ends(it: Interpreter) -> tuple[int, int]:
    """The first input and output."""
    return it.get_input_details()[0]["index"], it.get_output_details()[0]["index"]
