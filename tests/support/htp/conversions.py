"""Quantize, Dequantize, Convert and Cast: every pair of types, on values that lie between steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qnnrt.model import Quantization
from support.htp.nodes import Operand, case_of
from support.one_node import Case

_FIXED = ("u8", "s8", "u16", "s16")
_ENCODINGS = {
    "u8": Quantization(0.05, -120),
    "s8": Quantization(0.05, 3),
    "u16": Quantization(0.0002, -30000),
    "s16": Quantization(0.0002, 0),
}
_COUNT = 4096


def _integers(type: str, rng: np.random.Generator) -> Operand:
    o = Operand(type, (_COUNT,), _ENCODINGS[type])
    info = np.iinfo(o.dtype)
    o.data = rng.integers(info.min, info.max, _COUNT, endpoint=True).astype(o.dtype)
    o.data[:2] = info.min, info.max
    return o


def _numbers(type: str, rng: np.random.Generator) -> Operand:
    o = Operand(type, (_COUNT,))
    o.data = (rng.standard_normal(_COUNT) * 3).astype(o.dtype)
    o.data[:3] = -1000, 1000, 0
    return o


def _whole(type: str, rng: np.random.Generator) -> Operand:
    o = Operand(type, (_COUNT,))
    o.data = rng.integers(0, 2 if type == "bool" else 127, _COUNT).astype(o.dtype)
    return o


def _out(type: str) -> Operand:
    return Operand(type, (_COUNT,), _ENCODINGS.get(type))


def conversions() -> Iterator[tuple[str, str, Case, list[np.ndarray]]]:
    """Op, "from to", the node, and its result in real numbers; a Cast has none."""
    rng = np.random.default_rng(15)
    pairs = [("Quantize", f, t) for f in ("f32", "f16") for t in _FIXED]
    pairs += [("Dequantize", f, t) for f in _FIXED for t in ("f32", "f16")]
    pairs += [("Convert", f, t) for f in _FIXED for t in _FIXED if f != t]
    pairs += [("Convert", f, t) for f in _FIXED for t in ("f32", "f16", "i32")]
    pairs += [("Convert", f, t) for f in ("f32", "f16") for t in _FIXED]
    pairs += [("Cast", f, t) for f in _FIXED for t in _FIXED if f != t]
    plain = ("f32", "f16", "i32", "ui32", "ui8", "bool")
    pairs += [("Cast", f, t) for f in _FIXED for t in plain]
    pairs += [("Cast", f, t) for f in plain for t in _FIXED]
    for op, source, target in pairs:
        if source in _FIXED:
            x = _integers(source, rng)
            q = _ENCODINGS[source]
            exact = q.scale * (x.data.astype(np.float64) + q.offset)
        else:
            x = _whole(source, rng) if op == "Cast" else _numbers(source, rng)
            exact = x.data.astype(np.float64)
        yield (
            op,
            f"{source} to {target}",
            case_of(op, [x], [_out(target)]),
            [] if op == "Cast" else [exact],
        )
