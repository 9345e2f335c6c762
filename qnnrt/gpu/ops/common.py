"""What families of operations share: checks and index expressions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from ..ir import Node, Value

__all__ = ["Defines", "Fused", "Refused", "at", "fused", "given", "reals"]

Defines: TypeAlias = tuple[tuple[str, str], ...]
_F16: Final = np.dtype(np.float16)
_F32: Final = np.dtype(np.float32)


class Refused(Exception):
    """There is no kernel for a node; the text says for what of it."""


def given(node: Node, index: int) -> Value | None:
    """Input ``index``; None where it is omitted."""
    return node.inputs[index] if index < len(node.inputs) else None


def reals(*values: Value | None) -> Defines:
    """The defines of a kernel's floats: all 32 bits, or all 16.

    Raises:
        Refused: other types, or a mixture.
    """
    given = [v for v in values if v is not None]
    for value in given:
        if value.dtype not in (_F32, _F16):
            raise Refused(f"tensor {value.name!r} is {value.dtype}, kernels are for floats")
        if value.dtype != given[0].dtype:
            raise Refused(
                f"tensors {given[0].name!r} and {value.name!r} are {given[0].dtype} and "
                f"{value.dtype}: kernels take floats of one width"
            )
    return (("HALF", "1"),) if given and given[0].dtype == _F16 else ()


@dataclass(frozen=True)
class Fused:
    """What a launch takes for a node's ``post``: all go to its namesakes or their ends, ``sizes``
    behind ``args``."""

    defines: Defines
    before: str
    args: tuple[Value, ...]
    sizes: tuple[int, ...] = ()


def fused(node: Node, *, by_sizes: bool = False) -> Fused:
    """Defines, source and last arguments of a kernel that does ``node.post`` by POST(v, i).

    Args:
        by_sizes: the sizes in operands' indices are arguments, for kernels of which a network has
            many that differ in these alone.
    """
    if not node.post:
        return Fused((), "", ())
    params: list[str] = []
    args: list[Value] = []
    sizes: list[int] = []
    body: list[str] = []
    kept = 0

    def sized(number: re.Match[str]) -> str:
        if int(number[0]) < 2:
            return number[0]
        sizes.append(int(number[0]))
        return f"size{len(sizes) - 1}"

    for post in node.post:
        if post.keep is not None:
            body.append(f"  const float k{kept} = v;\n")
            if post.stored:
                body.append(f"  STORE(post{len(args)}, i, v);\n")
                params.append(f"__global REAL* post{len(args)}")
                args.append(post.keep)
            kept += 1
        body.append("  {\n")
        for k, (value, index) in enumerate(post.operands):
            at = re.sub(r"\b\d+\b", sized, index) if by_sizes else index
            body.append(f"    const float p{k} = LOAD(post{len(args)}, {at});\n")
            params.append(f"__global const REAL* post{len(args)}")
            args.append(value)
        body.append(f"    v = {post.expression};\n  }}\n")
    params += [f"const int size{n}" for n in range(len(sizes))]
    names = [*(f"post{n}" for n in range(len(args))), *(f"size{n}" for n in range(len(sizes)))]
    listed = "".join(f", {param}" for param in params)
    given = "".join(f", {name}" for name in names)
    head = f"static inline float KERNEL(post)(float v, const int i{listed})"
    before = f"{head} {{\n{''.join(body)}  return v;\n}}\n"
    defines = (("POST_PARAMS", listed), ("POST(v, i)", f"KERNEL(post)(v, i{given})"))
    return Fused(defines, before, tuple(args), tuple(sizes))


def at(shape: Sequence[int], out: Sequence[int]) -> str:
    """Where element ``i`` of ``out`` is in a tensor of a shape that broadcasts to it, as C."""
    shape = (1,) * (len(out) - len(shape)) + tuple(shape)
    if math.prod(shape) == 1:
        return "0"
    if tuple(shape) == tuple(out):
        return "(i)"
    terms = []
    step = inner = 1
    for size, full in zip(reversed(shape), reversed(out), strict=True):
        if size > 1:
            terms.append(f"(i) / {inner} % {full} * {step}")
        step *= size
        inner *= full
    return f"({' + '.join(terms)})"
