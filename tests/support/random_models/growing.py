"""A model that grows, and what rules ask of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ml_dtypes  # noqa: F401 - numpy learns bfloat16
import numpy as np

from qnnrt._native.op_table import op_table
from qnnrt.dtypes import is_float
from qnnrt.model import Model, Node, Quantization, Tensor
from support import reference
from support.fixed import Fixed

T = TypeVar("T")
Shape = tuple[int, ...]
Range = tuple[float, float]

#: Names of the op table -> numpy's. Fixed-point types have an encoding besides.
NUMPY = {
    f"{name}_{bits}": f"{prefix}{bits}"
    for name, prefix, sizes in (
        ("INT", "int", (8, 16, 32, 64)), ("UINT", "uint", (8, 16, 32, 64)),
        ("FLOAT", "float", (16, 32, 64)), ("BFLOAT", "bfloat", (16,)),
        ("SFIXED_POINT", "int", (8, 16, 32)), ("UFIXED_POINT", "uint", (8, 16)),
    )
    for bits in sizes
} | {"BOOL_8": "bool"}  # fmt: skip
FIXED = tuple(t for t in NUMPY if "FIXED" in t)
#: Those that activations have: 32 bits are for biases.
FIXED_ACTIVATIONS = tuple(t for t in FIXED if not t.endswith("32"))
FLOATS = ("FLOAT_16", "BFLOAT_16", "FLOAT_32", "FLOAT_64")
INTS = tuple(t for t in NUMPY if t.startswith(("INT", "UINT")))
INDICES = ("INT_32", "INT_64", "UINT_32")

#: Elements of a tensor at most, and the largest magnitude of a float.
LARGEST, HIGHEST = 3000, {"FLOAT_16": 500.0} | dict.fromkeys(FLOATS[1:], 5e4)


class Unfit(Exception):
    """A rule finds nothing to work on, or its result is not wanted; another one is tried."""


@dataclass
class Plan:
    """A node to be: outputs are types, or None for one left out; shapes: of outputs that the
    node's params do not decide; encodings: of outputs that cannot have any other."""

    inputs: list[str]
    outputs: list[str | None]
    params: dict[str, Any] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    encodings: list[Quantization | None] = field(default_factory=list)


Rule = Callable[["Growing", str], Plan]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, fn))
        return fn

    return register


class Chance:
    """Random choices."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def int(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def number(self, low: float, high: float) -> np.float32:
        return np.float32(self.rng.uniform(low, high))

    def choice(self, of: Sequence[T]) -> T:
        if not of:
            raise Unfit("nothing to choose from")
        return of[int(self.rng.integers(len(of)))]

    def random_shape(self, low: int, high: int) -> Shape:
        rank = self.int(max(low, 0 if self.chance(0.05) else 1), max(min(high, 5), low))
        shape = [self.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33)) for _ in range(rank)]
        while math.prod(shape) > LARGEST // 4:
            i = int(np.argmax(shape))
            shape[i] = max(1, shape[i] // 2)
        return tuple(shape)

    def broadcast_to(self, shape: Shape) -> Shape:
        """A shape that broadcasts to this one."""
        if self.chance(0.4):
            return shape
        kept = shape[self.int(0, len(shape)) :] if self.chance(0.4) else shape
        return tuple(1 if self.chance(0.4) else d for d in kept)


class Growing(Chance):
    """The model so far; its values on the feeds."""

    def __init__(self, seed: int, number: int, theme: str | None = None) -> None:
        super().__init__(seed, number)
        self.model = Model(f"random-{seed}-{number}")
        self.feeds: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}  # as stored
        self.kinds: dict[str, str] = {}  # names of the op table
        self.private: set[str] = set()  # made for one node: no operand of others
        self.theme = theme or self.choice(
            ["FLOAT_32"] * 8
            + ["FLOAT_16", "FLOAT_16", "BFLOAT_16"]
            + ["FIXED"] * 5
            + [*INTS, "FLOAT_64", "BOOL_8"]
        )
        if self.theme == "FIXED":
            self.theme = self.choice((*FIXED_ACTIVATIONS * 3, "SFIXED_POINT_32"))
        self._count = 0

    # ---- what there is

    def shape(self, name: str) -> Shape:
        return self.model.tensors[name].shape

    def rank(self, name: str) -> int:
        return len(self.shape(name))

    def kind(self, name: str) -> str:
        return self.kinds[name]

    def is_fixed(self, name: str) -> bool:
        return "FIXED" in self.kinds[name]

    def encoding(self, name: str) -> Quantization | None:
        return self.model.tensors[name].quantization

    def real(self, name: str) -> np.ndarray:
        """The numbers that it stands for."""
        return reference.real(self.model.tensors[name], self.values[name], Node("", "", [], []))

    def _has_range(self, name: str, domain: Range | None) -> bool:
        if domain is None:
            return True
        x = self.real(name)
        return x.size == 0 or bool(x.min() >= domain[0] and x.max() <= domain[1])

    def existing(
        self, types: Sequence[str], ranks: tuple[int, int], domain: Range | None = None,
        fits: Callable[[Shape], bool] | None = None,
    ) -> list[str]:  # fmt: skip
        return [
            n
            for n in self.values
            if self.kinds[n] in types
            and n not in self.private
            and ranks[0] <= self.rank(n) <= ranks[1]
            and (fits is None or fits(self.shape(n)))
            and self._has_range(n, domain)
        ]

    # ---- new tensors

    def fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def add(
        self, kind: str, values: np.ndarray, *, constant: bool = False, private: bool = False,
        encoding: Quantization | None = None,
    ) -> str:  # fmt: skip
        """A new input, or a constant; values: as stored."""
        values = np.ascontiguousarray(values, NUMPY[kind]).reshape(np.shape(values))
        name = self.fresh()
        data = values if constant else None
        self.model.tensors[name] = Tensor(name, values.shape, values.dtype, data, encoding)
        if not constant:
            self.model.inputs.append(name)
            self.feeds[name] = values
        self.values[name], self.kinds[name] = values, kind
        if private:
            self.private.add(name)
        return name

    def new(
        self, kind: str, shape: Shape, domain: Range | None = None, *, constant: bool | None = None,
        private: bool = False,
    ) -> str:  # fmt: skip
        """A new tensor of random values, an input or a constant."""
        constant = self.chance(0.4) if constant is None else constant
        low, high = domain or ((-3.0, 3.0) if kind in FLOATS or "FIXED" in kind else (-5, 5))
        dtype = np.dtype(NUMPY[kind])
        encoding = None
        values: Any
        if "FIXED" in kind:
            of = covering(kind, low, high)
            values = of.quantize(np.asarray(self.rng.uniform(low, high, shape)))
            encoding = of.quantization
        elif kind == "BOOL_8":
            values = self.rng.integers(0, 2, shape)
        elif kind in FLOATS:
            values = self.rng.uniform(low, high, shape)
            if domain is None and self.chance(0.1):
                values = np.rint(values)  # equal ones, and zeros
        else:
            info = np.iinfo(dtype)
            if domain is None and self.chance(0.2):
                low, high = info.min, info.max
            values = self.rng.integers(
                max(int(low), info.min), min(int(high), info.max), shape, dtype, endpoint=True
            )
        return self.add(kind, np.asarray(values), constant=constant, private=private,
                        encoding=encoding)  # fmt: skip

    # ---- operands

    def types(self, op: str, port: int = 0, side: str = "inputs") -> list[str]:
        ports = op_table()[op][side]
        return list(ports[min(port, len(ports) - 1)]["types"])

    def pick_type(self, types: Sequence[str]) -> str:
        """The theme's mostly, if it is among them."""
        if self.theme in types and self.chance(0.8):
            return self.theme
        usable = [t for t in types if t != "SFIXED_POINT_32"]
        if self.theme in FIXED and self.chance(0.5):
            usable = [t for t in usable if t in FIXED] or usable
        return self.choice(usable)

    def operand(
        self, types: Sequence[str], low: int = 0, high: int = 5, domain: Range | None = None,
        fits: Callable[[Shape], bool] | None = None, make: Callable[[], Shape] | None = None,
    ) -> str:  # fmt: skip
        """A tensor that is there, newer ones more often; or a new one, of the shape that `make`
        gives."""
        kind = self.pick_type(types)
        if self.chance(0.85):
            found = self.existing([kind], (low, high), domain, fits)
            if found:
                return self.choice(found[-4:]) if self.chance(0.7) else self.choice(found)
            if make is None and fits is None and self.chance(0.6):
                known = self.existing([kind], (0, 8), domain)
                if known:
                    return self.reshaped(self.choice(known[-4:]), low, high)
        shape = make() if make else self.random_shape(low, high)
        if fits is not None and not fits(shape):
            raise Unfit("no shape that fits")
        return self.new(kind, shape, domain, constant=self.chance(0.1) and bool(self.feeds))

    def reshaped(self, name: str, low: int, high: int) -> str:
        """The elements of a tensor in another shape, by a node of its own."""
        size = math.prod(self.shape(name))
        rank = self.int(max(low, 1), max(low, min(high, 5)))
        shape = [1] * rank
        for factor in _factors(size):
            shape[self.int(0, rank - 1)] *= factor
        made = self.node("Reshape", Plan([name], [self.kind(name)], {}, [tuple(shape)]))
        return made[0]

    def like(
        self, name: str, shape: Shape, domain: Range | None = None, *, constant: bool | None = None
    ) -> str:
        """Another operand of the same type; of fixed-point numbers perhaps in other bits."""
        kind = self.kind(name)
        if constant is not True and self.chance(0.5):
            found = self.existing([kind], (0, 8), domain, lambda s: s == shape)
            if found:
                return self.choice(found)
        if "FIXED" in kind and self.chance(0.2):
            kind = self.choice(FIXED_ACTIVATIONS)
        return self.new(kind, shape, domain, constant=constant)

    # ---- nodes

    accepts: Callable[[Node], None] = staticmethod(lambda node: None)

    def node(self, op: str, plan: Plan) -> list[str]:
        """Adds a node; Unfit: its results are not wanted, or it is refused."""
        names = ["" if kind is None else self.fresh() for kind in plan.outputs]
        node = Node(f"n{len(self.model.nodes)}", op, plan.inputs, names, plan.params)
        reals = [
            reference.real(self.model.tensors[n], self.values[n], node) if n else None
            for n in plan.inputs
        ]
        found = reference.results(node, reals, plan.shapes[0] if plan.shapes else ())
        if len(found) < len(names):
            raise AssertionError(f"{op}: {len(found)} results for {len(names)} outputs")
        made: list[str] = []
        try:
            for i, (name, kind) in enumerate(zip(names, plan.outputs, strict=True)):
                if kind is None:
                    continue
                y = found[i] if i >= len(plan.shapes) else found[i].reshape(plan.shapes[i])
                self._wanted(kind, y, node)
                tensor = Tensor(name, y.shape, np.dtype(NUMPY[kind]))
                if "FIXED" in kind:
                    given = plan.encodings[i] if i < len(plan.encodings) else None
                    tensor.quantization = given or self._encoding(op, plan, kind, y)
                self.model.tensors[name] = tensor
                made.append(name)
                with np.errstate(all="ignore"):
                    self.values[name] = reference.stored(tensor, y, node)
                self.kinds[name] = kind
            self.accepts(node)
        except BaseException:
            for name in made:
                for table in (self.model.tensors, self.values, self.kinds):
                    table.pop(name, None)
            raise
        self.model.nodes.append(node)
        return made

    def _wanted(self, kind: str, y: np.ndarray, node: Node) -> None:
        if y.size > LARGEST or y.size == 0:
            raise Unfit("size")
        if not is_float(y.dtype):
            return
        if not np.isfinite(y).all():
            raise Unfit("not finite")
        if np.abs(y).max() > HIGHEST.get(kind, 5e4):
            raise Unfit("too large")

    def _encoding(self, op: str, plan: Plan, kind: str, y: np.ndarray) -> Quantization:
        """One that covers the results; where the op moves elements often that of its input."""
        first = plan.inputs[0]
        if self.kinds[first] == kind and (self.chance(0.6) if _moves(op) else self.chance(0.05)):
            given = self.encoding(first)
            if given is not None and given.axis is None:
                return given
        low, high = float(y.min()), float(y.max())
        if high - low < 1e-3:
            low, high = low - 0.5, high + 0.5
        if self.chance(0.3):  # cut off, or more than needed
            low, high = low * float(self.number(0.5, 1.5)), high * float(self.number(0.5, 1.5))
            low, high = min(low, high - 0.01), max(high, low + 0.01)
        return covering(kind, low, high).quantization


def covering(kind: str, low: float, high: float) -> Fixed:
    """A type that reaches from `low` to `high`; one of 32 bits around 0, for its offset's sake."""
    if not kind.endswith("32"):
        return Fixed.covering(np.dtype(NUMPY[kind]), low, high)
    # A little more than that: the last integers are no floats.
    return Fixed(np.dtype(np.int32), float(np.float32(max(-low, high, 1e-3) * 1.01 / 2**31)))


def _moves(op: str) -> bool:
    record = op_table()[op]
    return bool(record["moves"] or record["may_move"] or record["fills"])


def _factors(size: int) -> list[int]:
    found, d = [], 2
    while size > 1:
        while size % d == 0:
            found.append(d)
            size //= d
        d += 1
    return found
