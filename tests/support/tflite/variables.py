"""TFLite files with resource variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from support.tflite.builder import ModelBuilder

F32, I8, I32, BOOL = np.float32, np.int8, np.int32, np.bool_
SHAPE, WINDOW = (1, 2), (1, 3, 2)
RESOURCE = schema.TensorType.RESOURCE


def handle(b: ModelBuilder, name: str, container: str = "") -> int:
    out = b.tensor((), name=f"handle of {name}", type_=RESOURCE)
    b.op("VAR_HANDLE", [], [out], "VarHandleOptions", sharedName=name, container=container)
    return out


def read(b: ModelBuilder, of: int, *like: Any, **more: Any) -> int:
    (out,) = b.op("READ_VARIABLE", [of], [b.tensor(*like, **more)], "ReadVariableOptions")
    return out


def assign(b: ModelBuilder, of: int, value: int) -> None:
    b.op("ASSIGN_VARIABLE", [of, value], [], "AssignVariableOptions")


def add(b: ModelBuilder, x: int, y: int, shape: tuple[int, ...] = SHAPE) -> int:
    (out,) = b.op("ADD", [x, y], [(shape, F32)], "AddOptions")
    return out


def once(b: ModelBuilder, first: dict[str, Any], **more: Any) -> None:
    """A subgraph, the last one of the file, that sets variables."""
    b.subgraph("NoOp")
    for name, value in first.items():
        assign(b, handle(b, name), b.const(value, **more))


def call_once(b: ModelBuilder, index: int = 1) -> None:
    b.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=index)


def total(first: float = 0.0) -> bytes:
    """The sum of all inputs so far, and what it was before."""
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    call_once(b)
    h = handle(b, "sum")
    old = read(b, h, SHAPE)
    new = add(b, old, x)
    assign(b, h, new)
    again = read(b, h, SHAPE)
    (y,) = b.op("NEG", [again], [b.tensor(SHAPE, name="y")])
    (z,) = b.op("EXP", [old], [b.tensor(SHAPE, name="z")])
    b.output(y, z)
    once(b, {"sum": np.full(SHAPE, first, F32)})
    return b.build()


def window(zero: int = -128) -> bytes:
    """The last three frames of a stream in fixed point, as streaming convolutions keep them."""
    b = ModelBuilder()
    q = {"scale": 0.1, "zero": zero}
    x = b.input((1, 1, 2), I8, name="x", **q)
    call_once(b)
    h = handle(b, "frames")
    old = read(b, h, WINDOW, I8, **q)
    (joined,) = b.op(
        "CONCATENATION", [old, x], [b.tensor((1, 4, 2), I8, **q)], "ConcatenationOptions", axis=1
    )
    sizes = [b.const(v, I32) for v in ([0, 1, 0], [1, 4, 2], [1, 1, 1])]
    (kept,) = b.op(
        "STRIDED_SLICE", [joined, *sizes], [b.tensor(WINDOW, I8, **q)], "StridedSliceOptions"
    )
    assign(b, h, kept)
    (y,) = b.op("ABS", [joined], [b.tensor((1, 4, 2), I8, name="y", **q)])
    b.output(y)
    once(b, {"frames": np.full(WINDOW, zero, I8)}, **q)
    return b.build()


def branch() -> bytes:
    """Only what is positive is added, in a branch that gets the handle."""
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    call_once(b, 3)
    h = handle(b, "sum")
    (s,) = b.op("SUM", [x, b.const([0, 1], I32)], [((), F32)], "ReducerOptions")
    (c,) = b.op("GREATER", [s, b.const(0, F32)], [((), BOOL)], "GreaterOptions")
    (y,) = b.op(
        "IF", [c, h, x], [b.tensor(SHAPE, name="y")], "IfOptions",
        thenSubgraphIndex=1, elseSubgraphIndex=2,
    )  # fmt: skip
    b.output(y)
    for adds in (True, False):
        b.subgraph("then" if adds else "else")
        g = b.tensor((), name="handle", type_=RESOURCE)
        b.graph.inputs.append(g)
        z = b.input(SHAPE)
        old = read(b, g, SHAPE)
        if adds:
            assign(b, g, add(b, old, z))
        b.output(old)
    once(b, {"sum": np.full(SHAPE, 3, F32)})
    return b.build()


def loop() -> bytes:
    """Two turns in a run, each of which doubles the variable."""
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    call_once(b, 3)
    n, _ = b.op(
        "WHILE", [b.const(0, I32), x], [((), I32), (SHAPE, F32)], "WhileOptions",
        condSubgraphIndex=1, bodySubgraphIndex=2,
    )  # fmt: skip
    del n
    b.output(read(b, handle(b, "v"), SHAPE, name="y"))
    b.subgraph("condition")
    i, _ = b.input((), I32), b.input(SHAPE)
    b.output(*b.op("LESS", [i, b.const(2, I32)], [((), BOOL)], "LessOptions"))
    b.subgraph("body")
    i, z = b.input((), I32), b.input(SHAPE)
    h = handle(b, "v")
    old = read(b, h, SHAPE)
    assign(b, h, add(b, add(b, old, old), z))
    b.output(*b.op("ADD", [i, b.const(1, I32)], [((), I32)], "AddOptions"), z)
    once(b, {"v": np.full(SHAPE, 0.5, F32)})
    return b.build()


FILES: dict[str, Callable[[], bytes]] = {
    "total": total,
    "begun": lambda: total(2.5),
    "window": window,
    "branch": branch,
    "loop": loop,
}
