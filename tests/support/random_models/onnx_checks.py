"""Random ONNX models: imported and run here, in ONNX Runtime, and in float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

import qnnrt
from qnnrt.dtypes import is_float
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer

from . import onnx_rules, onnx_rules_shape  # noqa: F401
from .compare import EPSILON, ROUNDINGS, Truth, difference
from .growing import Unfit
from .onnx_growing import RULES, OnnxGrowing
from .onnx_orders import reordered
from .onnx_reference import OneNode, widened

Outputs = Mapping[str, np.ndarray]


@dataclass
class OnnxCase:
    """A model by its seed and number."""

    g: OnnxGrowing
    outputs: list[str]
    seed: int
    number: int
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        read = {n for node in self.g.nodes for n in node.input}
        return {n: x for n, x in self.g.feeds.items() if n in read}

    @property
    def proto(self) -> onnx.ModelProto:
        return self.g.proto(self.outputs)

    @property
    def evaluators(self) -> Sequence[OneNode]:
        return self.g.evaluators


def generate(
    seed: int, number: int, *, only: Sequence[str] = (), opset: int | None = None
) -> OnnxCase:
    g = OnnxGrowing(seed, number, opset)
    ops = list(only) or sorted(RULES)
    wanted = g.choice((1, 1, 1, 2, 3, 4, 5, 6, 8))
    case = OnnxCase(g, [], seed, number)
    for _ in range(wanted * 12):
        if len(g.nodes) >= wanted:
            break
        op = g.choice(ops)
        try:
            g.node(op, RULES[op](g, op))
        except Unfit as e:
            case.refused[op, f"unfit: {e}"] += 1
    read = {n for node in g.nodes for n in node.input}
    made = [n for node in g.nodes for n in node.output if n]
    case.outputs = [n for n in made if n not in read or g.chance(0.1)]
    for node in g.nodes:
        case.taken[node.op_type, g.types[node.input[0]] if node.input[0] else ""] += 1
    return case


#: Who else is off in which operator, and why.
KNOWN = {
    ("ort", "Resize"): "nearest pixels of coordinates on a boundary: 9 * (2 / 9) is less than 2 in "
    "float, and its floor the pixel before",
    ("ort", "ReduceLogSumExp"): "the logarithm of integers, cut off at a rounding below a whole",
    (
        "ort",
        "LRN",
    ): "a running sum along the channels: large squares are added, and taken off again",
    ("reference", "Resize"): "a result of one pixel is one of 1.000001, which has another rule",
    ("ort-refuses", "NOT_IMPLEMENTED"): "no kernel for this version or element type",
    ("ort-refuses", "ValidateOpsetForDomain"): "an opset that it does not know yet",
}


def reason(who: str, what: str) -> str:
    """Why somebody else differs; empty: not known yet."""
    return next((why for (n, part), why in KNOWN.items() if n == who and part in what), "")


# ---- what should come out

#: Doubles are computed in floats where QNN has no others.
ROUNDING = EPSILON | {"float64": EPSILON["float32"]}


def _evaluate(case: OnnxCase, rng: np.random.Generator | None = None) -> dict[str, np.ndarray]:
    g = case.g
    values = {n: widened(x) for n, x in (g.constants | g.feeds).items()}
    for one in case.evaluators:
        given = {n: values[n] for n in one.node.input if n}
        if rng is not None:
            given = {n: _noise(x, rng, g, n) for n, x in given.items()}
        for n, y in one(given).items():
            values[n] = y if rng is None else _noise(y, rng, g, n)
    return values


def _noise(x: np.ndarray, rng: np.random.Generator, g: OnnxGrowing, name: str) -> np.ndarray:
    if not is_float(x.dtype) or name in g.private:
        return x
    one = ROUNDING.get(g.types[name], 2.0**-24)
    return np.asarray(x * (1 + one * ROUNDINGS * rng.uniform(-1, 1, x.shape)))


def _truth(case: OnnxCase, names: Sequence[str], samples: int) -> Truth:
    g, exact = case.g, _evaluate(case)
    rng = np.random.default_rng(case.seed)
    moved = {n: np.zeros(exact[n].shape) for n in names}
    for _ in range(samples):
        other = _evaluate(case, rng)
        for n, far in moved.items():
            with np.errstate(all="ignore"):
                apart = np.abs(other[n].astype(np.float64) - exact[n].astype(np.float64))
            np.fmax(far, np.where(np.isnan(apart), np.inf, apart), out=far)
    allowed = {}
    for n, far in moved.items():
        one = ROUNDING.get(g.types[n], 0.0)
        base = 16 * one * np.abs(exact[n].astype(np.float64))
        if one:
            # Absolutely: importers compose functions, which round on the way.
            base = base + 32 * one * max(1.0, float(np.abs(exact[n]).max()))
        allowed[n] = base + 6 * far
    return Truth({n: exact[n].astype(g.types[n]) for n in names}, allowed)


# ---- what comes out


class Theirs(Exception):
    """ONNX Runtime does not take the model."""


def ours(case: OnnxCase, outputs: Sequence[str], moved: int | None = None) -> Outputs:
    """moved: the seed of other orders for what the inputs are held in."""
    proto, feeds = case.g.proto(outputs), case.feeds
    if moved is not None:
        proto, feeds = reordered(proto, feeds, np.random.default_rng(moved))
    with qnnrt.Session(importer.load(proto), threads=1) as s:
        found = s.run({n: feeds[n].reshape(t.shape) for n, t in s.inputs.items()})
        return {n: np.array(found[n]).reshape(case.g.shape(n)) for n in outputs}


def in_other_orders(case: OnnxCase) -> list[str]:
    """What is wrong when the inputs come in other orders of their dimensions."""
    try:
        return wrong(case, ours(case, case.outputs, case.number), case.outputs)
    except UnsupportedOpError:
        return []
    except Exception as e:
        return [f"{type(e).__name__}: {e}"]


def _arrays(case: OnnxCase) -> dict[str, np.ndarray]:
    return {n: np.asarray(x) for n, x in case.feeds.items()}


def theirs(case: OnnxCase, outputs: Sequence[str]) -> Outputs:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(
            case.g.proto(outputs).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return dict(zip(outputs, session.run(list(outputs), _arrays(case)), strict=True))
    except Exception as e:
        raise Theirs(str(e)) from e


def _far(got: Outputs, known: Truth, names: Sequence[str]) -> list[str]:
    found = (difference(n, got[n], known.values[n], known.allowed[n]) for n in names)
    return [line for line in found if line is not None]


def wrong(case: OnnxCase, got: Outputs, names: Sequence[str]) -> list[str]:
    if not _far(got, _truth(case, names, 4), names):
        return []
    return _far(got, _truth(case, names, 40), names)


@dataclass
class Verdict:
    """wrong: ours, and nobody else's. differs: who else is off -> the op at which it begins, and
    how. left: why there is nothing to compare."""

    wrong: list[str] = field(default_factory=list)
    differs: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: str = ""


def check(case: OnnxCase, with_ort: bool = True) -> Verdict:
    try:
        mine = ours(case, case.outputs)
    except UnsupportedOpError as e:
        return Verdict(left=f"refused: {_first_line(e)}")
    except Exception as e:
        return Verdict(wrong=[f"{type(e).__name__}: {e}"])
    off = wrong(case, mine, case.outputs)
    other: Outputs | None = None
    if with_ort:
        try:
            other = theirs(case, case.outputs)
        except Theirs as e:
            if not off:
                return Verdict(differs={"ort-refuses": ("", _first_line(e)[:160])})
    if other is None:
        return Verdict(wrong=off)
    if not off:
        their = wrong(case, other, case.outputs)
        if not their:
            moved = in_other_orders(case)
            return Verdict(wrong=[f"in other orders, {line}" for line in moved])
        return Verdict(differs={"ort": (_blame(case, theirs), their[0])})
    known = _truth(case, case.outputs, 8)
    known.values = {n: np.asarray(x) for n, x in other.items()}
    if not _far(mine, known, case.outputs):
        return Verdict(differs={"reference": (_blame(case, ours), off[0])})
    return Verdict(wrong=off)


def _first_line(e: Exception) -> str:
    return " ".join(str(e).split("\n")[:2])


def _blame(case: OnnxCase, run: Any) -> str:
    """The first node whose results are off when all are outputs."""
    try:
        names = [n for node in case.g.nodes for n in node.output if n]
        got = run(case, names)
        for node in case.g.nodes:
            if wrong(case, got, [n for n in node.output if n]):
                return f"{node.op_type} (opset {case.g.opset})"
    except Exception as e:
        return f"? {type(e).__name__}"
    return "a merged node of " + ",".join(n.op_type for n in case.g.nodes)


def described(case: OnnxCase) -> str:
    lines = [onnx.printer.to_text(case.proto)]
    lines += [f"{n} = {x.tolist()}" for n, x in case.feeds.items() if x.size <= 60]
    return "\n".join(lines)
