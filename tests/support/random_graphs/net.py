"""A graph that grows: tensors with their shapes, constants, and helpers for the blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper

F32 = np.float32
Shape = tuple[int, ...]
T = TypeVar("T")

#: Elements of a result at most, and its dimensions.
LARGEST, RANK = 8000, 6
OPSETS = (7, 9, *range(10, 25))


class Skip(Exception):
    """A block does not fit what is there."""


class Batch(int):
    """The size of a dimension that is open in the file."""


def is_open(shape: Sequence[int]) -> bool:
    return any(isinstance(d, Batch) for d in shape)


def broadcast(a: Sequence[int], b: Sequence[int]) -> Shape:
    """Raises Skip where two shapes have none in common, whatever the batch is."""
    rank = max(len(a), len(b))
    out = []
    for p, q in zip([1] * (rank - len(a)) + [*a], [1] * (rank - len(b)) + [*b], strict=True):
        open_p, open_q = isinstance(p, Batch), isinstance(q, Batch)
        if (p == 1 and not open_p) or (p == q and open_p == open_q):
            out.append(q)
        elif q == 1 and not open_q:
            out.append(p)
        else:
            raise Skip
    return tuple(out)


class Net:
    """`shapes` has inputs and results, `aside` those of them that blocks do not go on with."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.batch = Batch(self.between(1, 3))
        self.opset = self.choice([o for o in OPSETS if o <= onnx.defs.onnx_opset_version()])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: dict[str, Shape] = {}
        self.shapes: dict[str, Shape] = {}
        self.aside: set[str] = set()
        self.count = 0

    # ---- chance

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choice(self, of: Sequence[T]) -> T:
        return of[int(self.rng.integers(len(of)))]

    def order(self, count: int) -> list[int]:
        return [int(i) for i in self.rng.permutation(count)]

    # ---- tensors

    def shape(self, name: str) -> Shape:
        return self.shapes[name] if name in self.shapes else self.constants[name].shape

    def input(self, *shape: int, aside: bool = False) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.shapes[name] = shape
        if aside:
            self.aside.add(name)
        return name

    def const(self, value: object, dtype: Any = F32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def ints(self, *values: int) -> str:
        return self.const([int(v) for v in values], np.int64)

    def number(self, value: float) -> str:
        """A constant of one element."""
        return self.const(np.full(self.choice([(), (), (1,), (1, 1)]), value))

    def weights(self, *shape: int, scale: float | None = None) -> str:
        inner = math.prod(shape[1:]) if len(shape) > 1 else 4
        size = scale if scale is not None else 1 / math.sqrt(max(inner, 1))
        return self.const(self.rng.normal(size=[int(d) for d in shape]) * size)

    def matrix(self, rows: int, columns: int) -> str:
        return self.weights(rows, columns, scale=1 / math.sqrt(rows))

    def pick(self, rank: int | None = None, fits: Callable[[Shape], bool] | None = None) -> str:
        good = [
            n for n, s in self.shapes.items()
            if n not in self.aside and rank in (None, len(s)) and (fits is None or fits(s))
        ]  # fmt: skip
        if not good:
            raise Skip
        return self.choice(good[-3:]) if self.chance(0.75) else self.choice(good)

    def same_shape(self, name: str) -> list[str]:
        shape = self.shape(name)
        return [n for n, s in self.shapes.items() if s == shape and n not in self.aside]

    def image(self) -> tuple[str, int, int, int, int]:
        """A result in [N, C, H, W], and these."""
        x = self.pick(4, lambda s: isinstance(s[0], Batch) and not is_open(s[1:])
                      and min(s[2:]) >= 2 and s[1] <= 48 and math.prod(s) <= 5000)  # fmt: skip
        return x, *self.shapes[x]  # type: ignore[return-value]

    def sequence(self) -> tuple[str, int, int, int]:
        """A result in [N, T, C], and these."""
        x = self.pick(3, lambda s: isinstance(s[0], Batch) and not is_open(s[1:])
                      and s[2] <= 64 and math.prod(s) <= 3000)  # fmt: skip
        return x, *self.shapes[x]  # type: ignore[return-value]

    # ---- nodes

    def results(
        self, op: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], **attrs: Any
    ) -> list[str]:
        names = []
        for shape in shapes:
            self.count += 1
            names.append(f"v{self.count}")
            self.shapes[names[-1]] = tuple(shape)
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{self.count}", **attrs))
        return names

    def op(
        self, op: str, inputs: Sequence[str], shape: Sequence[int] | None = None, **attrs: Any
    ) -> str:
        """One result, of the first input's shape unless given."""
        return self.results(op, inputs, [self.shape(inputs[0]) if shape is None else shape],
                            **attrs)[0]  # fmt: skip

    def hidden(self, *args: Any, **attrs: Any) -> str:
        """A result that blocks do not go on with: no float, or a size."""
        name = self.op(*args, **attrs)
        self.aside.add(name)
        return name

    def both(self, op: str, a: str, b: str) -> str:
        return self.op(op, [a, b], broadcast(self.shape(a), self.shape(b)))

    def either(self, op: str, a: str, b: str) -> str:
        """In whichever order."""
        return self.both(op, a, b) if self.chance(0.5) else self.both(op, b, a)

    def matmul(self, a: str, b: str) -> str:
        s, t = self.shape(a), self.shape(b)
        return self.op("MatMul", [a, b], (*broadcast(s[:-2], t[:-2]), s[-2], t[-1]))

    def transpose(self, x: str, *perm: int) -> str:
        s = self.shape(x)
        return self.op("Transpose", [x], [s[p] for p in perm], perm=list(perm))

    def reshape(self, x: str, *shape: int) -> str:
        """By constants, with -1 or 0 for the batch, or by sizes that are computed."""
        source, target = self.shape(x), [int(d) for d in shape]
        if not is_open(shape) and not is_open(source):
            if self.chance(0.4):
                target[self.between(0, len(target) - 1)] = -1
            return self.op("Reshape", [x, self.ints(*target)], shape)
        at = [i for i, d in enumerate(shape) if isinstance(d, Batch)]
        if len(at) != 1:
            raise Skip
        first = at == [0] and isinstance(source[0], Batch) and source[0] == shape[0]
        if first and self.chance(0.3):
            sizes = self.hidden("Shape", [x], (len(source),))
            batch = self.hidden("Gather", [sizes, self.ints(0)], (1,), axis=0)
            sizes = self.hidden("Concat", [batch, self.ints(*target[1:])], (len(shape),), axis=0)
            return self.op("Reshape", [x, sizes], shape)
        target[at[0]] = 0 if first and self.chance(0.4) else -1
        return self.op("Reshape", [x, self.ints(*target)], shape)

    def along(self, op: str, x: str, axes: Sequence[int], since: int, shape: Shape,
              **attrs: Any) -> str:  # fmt: skip
        """Axes are an input since some opset, an attribute before."""
        if self.opset >= since:
            return self.op(op, [x, self.ints(*axes)], shape, **attrs)
        if self.opset < 11:
            axes = [a % len(self.shape(x)) for a in axes]
        return self.op(op, [x], shape, axes=list(axes), **attrs)

    def reduce(self, op: str, x: str, axes: Sequence[int], keep: int = 1) -> str:
        s = self.shape(x)
        gone = {a % len(s) for a in axes}
        shape = tuple(1 if i in gone else d for i, d in enumerate(s) if keep or i not in gone)
        return self.along(op, x, axes, 13 if op == "ReduceSum" else 18, shape, keepdims=keep)

    def unsqueeze(self, x: str, axis: int) -> str:
        s = self.shape(x)
        return self.along("Unsqueeze", x, [axis], 13, (*s[:axis], 1, *s[axis:]))

    def squeeze(self, x: str, axis: int) -> str:
        s = self.shape(x)
        return self.along("Squeeze", x, [axis], 13, (*s[:axis], *s[axis + 1 :]))

    def slice(self, x: str, axis: int, begin: int, end: int | None, step: int = 1) -> str:
        s = list(self.shape(x))
        s[axis] = len(range(*slice(begin, end, step).indices(s[axis])))
        last = (2**62 if step > 0 else -(2**62)) if end is None else end
        if self.opset < 10:
            if step != 1:
                raise Skip
            return self.op("Slice", [x], s, starts=[begin], ends=[last], axes=[axis])
        given = [x, self.ints(begin), self.ints(last), self.ints(axis)]
        steps = [self.ints(step)] if step != 1 or self.chance(0.3) else []
        return self.op("Slice", given + steps, s)

    def split(self, x: str, axis: int, sizes: Sequence[int]) -> list[str]:
        s = self.shape(x)
        shapes = [(*s[:axis], n, *s[axis + 1 :]) for n in sizes]
        if self.opset >= 13:
            return self.results("Split", [x, self.ints(*sizes)], shapes, axis=axis)
        return self.results("Split", [x], shapes, axis=axis, split=list(sizes))

    def concat(self, parts: Sequence[str], axis: int) -> str:
        s = list(self.shape(parts[0]))
        if isinstance(s[axis], Batch):
            raise Skip
        s[axis] = sum(self.shape(x)[axis] for x in parts)
        from_end = self.opset >= 11 and self.chance(0.4)
        return self.op("Concat", parts, s, axis=axis - len(s) if from_end else axis)


Block = Callable[[Net], str]
#: Blocks, each as often as it is to be drawn.
BLOCKS: list[Block] = []


def block(weight: int = 1) -> Callable[[Block], Block]:
    def register(fn: Block) -> Block:
        BLOCKS.extend([fn] * weight)
        return fn

    return register
