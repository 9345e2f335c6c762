"""Shifts, and integers of one type as those of another, by arithmetic: QNN has neither."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from .bodies import AsDefined, Body, body
from .checks import ELEMENT_TYPES
from .expanded import OPSET, array
from .nodes import OnnxNode, Unsupported


def _unsigned(kind: np.dtype) -> np.dtype:
    return np.dtype(f"uint{8 * kind.itemsize}")


def _number(kind: np.dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(kind))


def _powers(kind: np.dtype) -> np.ndarray:
    """What each bit of an unsigned integer stands for, the lowest first."""
    return np.left_shift(np.ones(1, kind), np.arange(8 * kind.itemsize, dtype=kind)).astype(kind)


def _check_open(n: OnnxNode) -> None:
    """Nodes of constants are computed as such."""
    if all(v is None or v.is_const for v in n.inputs):
        raise AsDefined


@body("", "BitShift", to="Gather, ElementWiseMultiply or ElementWiseDivide")
def _shift(n: OnnxNode) -> onnx.FunctionProto:
    """Nothing is left of a number that is shifted by as many bits as it has, or more, but its
    sign."""
    _check_open(n)
    b, kind = Body(n), n.input(0).dtype
    plain, direction = _unsigned(kind), n.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction is {direction!r}; it has to be LEFT or RIGHT")
    powers, places = _powers(plain), b.given(1)
    held = n.input(1).data
    inside = ""
    if held is None or (held.astype(np.uint64) >= len(powers)).any():
        # As unsigned numbers; those below 0 are beyond, too.
        given, most = b.given(1), array(b, np.array(len(powers), plain))
        if plain != kind:
            given = b.op("Cast", [given], to=_number(plain))
        places = b.op("Cast", [b.op("Min", [given, most])], to=onnx.TensorProto.INT32)
        if direction == "RIGHT":
            inside = b.op("Less", [given, most])
        # Times 0 nothing is left; what is divided by it is not taken.
        powers = np.append(powers, plain.type(0 if direction == "LEFT" else 1))
    else:
        places = b.op("Cast", [places], to=onnx.TensorProto.INT64)
    factor = b.op("Gather", [array(b, powers), places])
    zero = array(b, np.zeros((), plain))

    def shifted(x: str) -> str:
        y = b.op("Mul" if direction == "LEFT" else "Div", [x, factor])
        return b.op("Where", [inside, y, zero]) if inside else y

    if plain == kind:
        return b.proto(shifted(b.given(0)), opset=OPSET)
    if direction == "LEFT":
        y = shifted(b.op("Cast", [b.given(0)], to=_number(plain)))
        return b.proto(b.op("Cast", [y], to=_number(kind)), opset=OPSET)
    # The sign comes in from above: what is not set in a negative number is shifted.
    below = b.op("Less", [b.given(0), array(b, np.zeros((), kind))])
    ones = array(b, np.array(-1, kind))
    x = b.op("Where", [below, b.op("Sub", [ones, b.given(0)]), b.given(0)])
    y = shifted(b.op("Cast", [x], to=_number(plain)))
    y = b.op("Cast", [y], to=_number(kind))
    return b.proto(b.op("Where", [below, b.op("Sub", [ones, y]), y]), opset=OPSET)


@body("", "BitCast", to="Cast")
def _cast(n: OnnxNode) -> onnx.FunctionProto:
    """Between integers of one size: the same bits, as a Cast gives them, too."""
    _check_open(n)
    b, kind = Body(n), n.input(0).dtype
    wanted = ELEMENT_TYPES.get(n.integer("to"))
    if wanted is None or kind.kind not in "iub" or wanted.kind not in "iu":
        raise Unsupported(f"the bits of {kind.name} as {'none' if wanted is None else wanted.name}")
    if kind.itemsize != wanted.itemsize:
        raise ValueError(f"{kind.name} and {wanted.name} have different numbers of bits")
    return b.proto(b.op("Cast", [b.given(0)], to=n.integer("to")), opset=OPSET)
