"""Every op with every fixed-point type on the vendor's HTP simulator and on our htp backend."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qnnrt import qnn
from qnnrt.model import Quantization, Tensor
from support.htp import cases as htp_cases
from support.htp.conversions import conversions
from support.htp.nodes import Operand, case_of
from support.htp.process import run_cases
from support.htp.spec import Act, Bias, Spec, Weight
from support.one_node import Case, Outcome, outcome
from support.vendor import vendor_library

#: Kinds of weights that stand for the others in a quick sweep.
_QUICK_WEIGHTS = ("", "u8", "s8 per channel", "s16", "s4 per channel")

#: What the simulator stands for: the newest chip it knows takes the most types.
DEVICE = {"soc_model": 69, "htp_arch": 79}

ACTIVATIONS = ("u8", "s8", "u16", "s16")
#: Element type and bit width of weights, by the name in the table.
WEIGHTS = {
    "u8": ("u8", None),
    "s8": ("s8", None),
    "u16": ("u16", None),
    "s16": ("s16", None),
    "u4": ("u8", 4),
    "s4": ("s8", 4),
}


@dataclass
class Trial:
    """A node to run on both: where it stands in the table, and its results in real numbers."""

    label: str
    weights: str
    type: str
    case: Case
    reference: list[np.ndarray]


@dataclass
class Cell:
    """What came of the trials of one op and type, the worst of them.

    Distances are in steps of the output's encoding: `worst` and `share` (of the elements further
    than one apart) from the simulator, `theirs` and `ours` from the exact result.
    """

    verdict: str  # a name in VERDICTS
    worst: float = 0.0
    share: float = 0.0
    theirs: float = 0.0
    ours: float = 0.0
    code: str = ""

    @property
    def rank(self) -> tuple[int, float]:
        return VERDICTS.index(self.verdict), self.worst


#: From the best to the worst: the simulator's refusals say nothing against anybody.
VERDICTS = ("not taken", "exact", "within 1", "differs", "refused here")


def limits(type: str, bitwidth: int | None = None) -> tuple[int, int]:
    bits = bitwidth or int(type[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "s" else (0, (1 << bits) - 1)


def encoding(type: str, low: float, high: float, symmetric: bool = False) -> Quantization:
    """That of a range, as quantizers choose it: zero is one of the integers."""
    least, most = limits(type)
    low, high = min(low, 0.0), max(high, 0.0)
    high = high if high - low > 1e-6 else low + 1
    if symmetric:
        return Quantization(float(np.float32(max(-low, high) / most)), 0)
    scale = np.float32((high - low) / (most - least))
    return Quantization(float(scale), round(float(low / scale)) - least)


def real(o: Operand) -> np.ndarray:
    """The numbers that an operand's integers stand for."""
    assert o.data is not None
    if o.q is None:
        return o.data
    shape = [1] * len(o.shape)
    if o.q.axis is not None:
        shape[o.q.axis] = -1
    scale = (
        np.asarray(o.q.scale, np.float32)
        .astype(np.float64)
        .reshape(shape if o.q.axis is not None else ())
    )
    offset = np.asarray(o.q.offset).reshape(shape if o.q.axis is not None else ())
    return (scale * (o.data.astype(np.float64) + offset)).astype(np.float32)


class _Builder:
    """The operands of one trial."""

    def __init__(self, spec: Spec, type: str, weights: str, seed: int, symmetric: bool) -> None:
        self.type, self.symmetric = type, symmetric
        self.stored, self.bitwidth = WEIGHTS.get(weights.split(" ")[0], ("", None))
        self.per_channel = weights.endswith("channel")
        self.rng = np.random.default_rng(seed)
        self.activation: Quantization | None = None
        self.weight: Quantization | None = None
        self.same = spec.same
        self.inputs = [None if p is None else self._operand(p) for p in spec.inputs]

    def _operand(self, p: Any) -> Operand:
        if isinstance(p, Act):
            return self._act(p)
        if isinstance(p, Weight):
            return self._weight(p)
        if isinstance(p, Bias):
            return self._bias(p)
        o = Operand(p.type, p.data.shape, None, p.data, p.static)
        o.data = p.data.astype(o.dtype)
        return o

    def _act(self, p: Act) -> Operand:
        q = encoding(self.type, p.low, p.high, self.symmetric)
        if self.same and self.activation is not None:
            q = self.activation
        self.activation = self.activation or q
        least, most = limits(self.type)
        low = max(least, int(np.ceil(p.low / q.scale - 1e-3)) - int(q.offset))
        high = min(most, int(np.floor(p.high / q.scale + 1e-3)) - int(q.offset))
        if p.distinct:
            last = p.shape[-1]
            rows = [
                self.rng.choice(high - low + 1, last, False)
                for _ in range(int(np.prod(p.shape[:-1])))
            ]
            values = np.reshape(rows, p.shape) + low
        else:
            values = self.rng.integers(low, high, p.shape, endpoint=True)
            values.flat[: min(2, values.size)] = [low, high][: values.size]
        o = Operand(self.type, p.shape, q, None, p.static)
        o.data = values.astype(o.dtype)
        return o

    def _weight(self, p: Weight) -> Operand:
        least, most = limits(self.stored, self.bitwidth)
        axis = p.axis if self.per_channel else None
        count = 1 if axis is None else p.shape[axis]
        highs = p.high * (0.5 + self.rng.random(count))
        signed = self.stored[0] == "s"
        scales = (highs / most if signed else 2 * highs / most).astype(np.float32)
        offset = 0 if signed else -(most + 1) // 2
        if axis is None:
            q = Quantization(float(scales[0]), offset, None, self.bitwidth)
        else:
            q = Quantization(scales, np.full(count, offset, np.int32), axis, self.bitwidth)
        self.weight = q
        o = Operand(self.stored, p.shape, q, None, p.static)
        o.data = self.rng.integers(least + signed, most, p.shape, endpoint=True).astype(o.dtype)
        return o

    def _bias(self, p: Bias) -> Operand:
        assert self.activation is not None
        assert self.weight is not None
        scale = np.asarray(self.weight.scale, np.float64) * self.activation.scale * p.steps
        along = self.weight.axis is not None if p.along is None else p.along
        if along:
            scale = np.broadcast_to(scale, p.shape)
        elif scale.ndim > 0:
            scale = scale.max()
        reach = np.minimum(1 / scale, 2.0**30)  # 16-bit weights have tiny scales
        values = np.rint(self.rng.uniform(-1, 1, p.shape) * reach).astype(np.int32)
        if along:
            q = Quantization(scale.astype(np.float32), np.zeros(p.shape, np.int32), 0)
        else:
            q = Quantization(float(np.float32(scale)), 0)
        return Operand("s32", p.shape, q, values, True)


def _reference(
    cpu: qnn.Backend, spec: Spec, inputs: Sequence[Operand | None]
) -> tuple[list[Operand], Outcome]:
    """The node in float, on the real numbers."""
    wide = [
        o if o is None or o.q is None else Operand("f32", o.shape, None, real(o), o.static)
        for o in inputs
    ]
    outputs = [
        Operand(y[1], y[0]) if y and isinstance(y[0], tuple) else Operand("f32", y)
        for y in spec.outputs
    ]
    return outputs, outcome(cpu, case_of(spec.op, wide, outputs, spec.params))


def trial_of(cpu: qnn.Backend, spec: Spec, form: int, type: str, weights: str) -> Trial:
    """The node of one form of an op, with types."""
    seed = zlib.crc32(f"{spec.label} {form} {type} {weights}".encode())
    # Symmetric encodings of signed types in the first form, any in the others.
    symmetric = type == "s16" or (type == "s8" and form == 0)
    built = _Builder(spec, type, weights, seed, symmetric)
    outputs, found = _reference(cpu, spec, built.inputs)
    for i, o in enumerate(outputs):
        if o.type != "f32":
            continue
        o.type = type
        if spec.same and built.activation is not None:
            o.q = built.activation
            continue
        low, high = -4.0, 4.0
        if spec.range is not None:
            low, high = spec.range
        elif found.stage == "ran":
            finite = found.outputs[i][np.isfinite(found.outputs[i])]
            low, high = float(finite.min(initial=0)), float(finite.max(initial=0))
        o.q = encoding(type, low, high, symmetric and (spec.range is None or type == "s16"))
    case = case_of(spec.op, built.inputs, outputs, spec.params)
    return Trial(spec.label, weights, type, case, found.outputs if spec.exact else [])


def _weights_of(spec: Spec) -> Iterator[str]:
    weights = [p for p in spec.inputs if isinstance(p, Weight)]
    if not weights:
        yield ""
        return
    for name in WEIGHTS:
        along = any(p.axis is not None for p in weights)
        if along or name[1:] != "4":
            yield name
        if along:
            yield f"{name} per channel"


def trials(quick: bool = False) -> list[Trial]:
    """Of all ops and types; quick: one form of each op, and fewer kinds of weights."""
    made = []
    forms: dict[str, int] = {}
    with qnn.Backend.open("cpu") as cpu:
        for spec in htp_cases.all_specs():
            form = forms[spec.label] = forms.get(spec.label, -1) + 1
            if quick and form > 0:
                continue
            made += [
                trial_of(cpu, spec, form, type, weights)
                for weights in _weights_of(spec)
                if not quick or weights in _QUICK_WEIGHTS
                for type in ACTIVATIONS
            ]
    made += [Trial(label, "", pair, case, exact) for label, pair, case, exact in conversions()]
    return made


def _steps(o: Tensor, a: np.ndarray, b: np.ndarray, unit: float) -> np.ndarray:
    """How far apart, in steps of a fixed-point type; of a float one, in those of the input."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    apart = np.where(
        (a == b) | (np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))), 0, apart
    )
    if o.dtype.kind == "f":
        return apart / np.maximum(unit, np.spacing(np.abs(b).astype(o.dtype)).astype(np.float64))
    return apart


def _from_exact(o: Tensor, exact: np.ndarray, got: np.ndarray) -> float:
    q = o.quantization
    if q is None:
        return 0.0
    info = np.iinfo(o.dtype)
    ideal = np.clip(exact.astype(np.float64) / q.scale - q.offset, info.min, info.max)
    return float(np.nanmax(np.abs(got.astype(np.float64) - ideal), initial=0))


def compare(trial: Trial, theirs: Outcome, ours: Outcome) -> Cell:
    """The verdict of one trial."""
    if theirs.stage != "ran":
        code = "crash" if theirs.stage == "crash" else f"{theirs.stage} {theirs.code}"
        return Cell("not taken", code=code)
    if ours.stage != "ran":
        return Cell("refused here", code=ours.text)
    cell = Cell("exact")
    model = trial.case.model
    first = next(iter(model.tensors.values())).quantization
    unit = float(first.scale) if first is not None and first.axis is None else 0.0
    for i, o in enumerate(model.tensors[name] for name in model.outputs):
        apart = _steps(o, theirs.outputs[i], ours.outputs[i], unit)
        cell.worst = max(cell.worst, float(apart.max(initial=0)))
        cell.share = max(cell.share, float((apart > 1).mean()))
        if i < len(trial.reference):
            cell.theirs = max(cell.theirs, _from_exact(o, trial.reference[i], theirs.outputs[i]))
            cell.ours = max(cell.ours, _from_exact(o, trial.reference[i], ours.outputs[i]))
    if cell.worst > 0:
        cell.verdict = "within 1" if cell.worst <= 1 else "differs"
    return cell


def _worse(a: Cell, b: Cell) -> Cell:
    worst = max(a, b, key=lambda c: c.rank)
    return replace(
        worst,
        share=max(a.share, b.share),
        theirs=max(a.theirs, b.theirs),
        ours=max(a.ours, b.ours),
    )


#: By op (with its form), type of the weights, type of the activations.
Table = dict[tuple[str, str, str], Cell]


def sweep(made: Iterable[Trial]) -> Table:
    """The table: the worst cell of the trials that belong to one place in it."""
    made = list(made)
    cases = [t.case for t in made]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    ours = run_cases("htp", cases)
    table: Table = {}
    for trial, a, b in zip(made, theirs, ours, strict=True):
        key = trial.label, trial.weights, trial.type
        cell = compare(trial, a, b)
        table[key] = _worse(table[key], cell) if key in table else cell
    return table
