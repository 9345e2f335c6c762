"""Index of an operand's element, broadcast, for element i of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ElementIndex", "element_index", "magic"]


@dataclass(frozen=True)
class ElementIndex:
    """A function of i, and of numbers that are arguments, so that shapes share kernels.

    Attributes:
        body: of the function in C: of ``i``, returns the index. Empty: i itself.
        params, args: names and values of the numbers.
        one: the same element for all i.
        together: of four neighbours from a multiple of four on: "vector", they are neighbours as
            well; "same", they are one element; "apart", neither.
    """

    body: str
    params: tuple[str, ...]
    args: tuple[int, ...]
    one: bool = False
    together: str = "vector"


def magic(divisor: int) -> tuple[int, int]:
    """What ``over`` in functions.cl takes: a 32-bit factor, as a signed number, and a shift."""
    shift = (divisor - 1).bit_length()
    factor = (((1 << shift) - divisor) << 32) // divisor + 1
    return (factor - (1 << 32) if factor >> 31 else factor), shift


def element_index(shape: Sequence[int], out: Sequence[int]) -> ElementIndex:
    """Of an operand of a shape that broadcasts to ``out``."""
    shape = (1,) * (len(out) - len(shape)) + tuple(shape)
    if math.prod(shape) == 1:
        return ElementIndex("return 0;", (), (), one=True, together="same")
    if shape == tuple(out):
        return ElementIndex("", (), ())
    dims = _merged(shape, out)
    text, names, numbers = "uint r = i, q, o = 0; ", [], []

    def number(name: str, value: int) -> str:
        names.append(name)
        numbers.append(value)
        return name

    for k, (size, step) in enumerate(dims):
        rest = "r"
        if k + 1 < len(dims):
            factor, shift = magic(size)
            text += f"q = over(r, {number(f'm{k}', factor)}, {number(f's{k}', shift)}); "
            rest = f"(r - q * {number(f'd{k}', size)})" if step else ""
        if step:
            scaled = "" if step == 1 else f" * {number(f't{k}', step)}"
            text += f"o += {rest}{scaled}; "
        if not any(later for _, later in dims[k + 1 :]):
            break
        text += "r = q; "
    size, step = dims[0]
    together = "apart" if size % 4 or step > 1 else "vector" if step else "same"
    return ElementIndex(f"{text}return o;", tuple(names), tuple(numbers), together=together)


def _merged(shape: Sequence[int], out: Sequence[int]) -> list[tuple[int, int]]:
    """(size, step in the operand) of the loops over ``out``, the innermost first, as few as do."""
    dims: list[tuple[int, int]] = []
    inner = 1
    for size, full in zip(reversed(shape), reversed(out), strict=True):
        if full == 1:
            continue
        step = inner if size > 1 else 0
        if dims and (dims[-1][1] == 0) == (step == 0):
            dims[-1] = (dims[-1][0] * full, dims[-1][1])
        else:
            dims.append((full, step))
        inner *= size
    return dims
