"""Every op in half precision: the vendor's HTP simulator as a device, and our htp backend."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qnnrt import qnn
from qnnrt.abi import constants as abi
from qnnrt.abi.structs import QnnHtpGraph_CustomConfig_t
from support.htp.cases import all_specs
from support.htp.nodes import Operand, case_of
from support.htp.process import run_cases
from support.htp.spec import Act, Plain, Weight
from support.htp.sweep import DEVICE
from support.one_node import Case, Outcome, outcome
from support.vendor import vendor_library

PAGE = Path(__file__).resolve().parents[3] / "docs" / "htp-half-precision.md"

#: The graph option that clients ask for half precision with.
FLOAT16 = QnnHtpGraph_CustomConfig_t.pack(
    option=abi.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION, precision=abi.QNN_PRECISION_FLOAT16
)

#: Why the simulator is further than a unit from the exact result, by the labels of ops.
REASONS = {
    r"(ElementWise(Unary, )?(Atan|Cos|Sin)|.*(Sigmoid|Softplus|HardSwish|Gelu|Elu|Softmax)"
    r"|Gru)$": "its function is an approximation",
    r"(Batchnorm|(Instance|Layer|Group|L2)Norm)$": "it rounds between its steps",
    r"RmsNorm": "with a `beta` it gives something else; without one both are equal",
    r"ElementWiseBinary, FloorDiv|ElementWiseFloorDiv": "it gives other quotients, some not whole",
    r"RoiAlign|ResizeBilinear.*": "its coordinates and weights have half precision",
}


@dataclass
class Distances:
    """In units in the last place of half precision at the largest value of an output: how far the
    simulator is from the exact result, ours from it, and one from the other; of all forms the
    largest. None: the simulator refuses the op."""

    theirs: float = 0.0
    ours: float = 0.0
    between: float = 0.0
    refused: bool = False


def _operand(part: Any, rng: np.random.Generator) -> Operand | None:
    if part is None:
        return None
    if isinstance(part, Plain):
        o = Operand(part.type, part.data.shape, None, None, part.static)
        o.data = part.data.astype(o.dtype)
        return o
    shape = tuple(part.shape)
    if isinstance(part, Act):
        values = rng.uniform(part.low, part.high, shape)
        if part.distinct:
            row = np.linspace(part.low, part.high, shape[-1])
            values = rng.permuted(np.broadcast_to(row, shape).copy(), axis=-1)
    else:
        high = part.high if isinstance(part, Weight) else 1.0
        values = rng.uniform(-high, high, shape)
    static = getattr(part, "static", True)
    return Operand("f32", shape, None, values.astype(np.float32), static)


def trials() -> Iterator[tuple[str, Case]]:
    """Every form of every op, in FLOAT_32."""
    forms: dict[str, int] = {}
    for spec in all_specs():
        form = forms[spec.label] = forms.get(spec.label, -1) + 1
        rng = np.random.default_rng(zlib.crc32(f"{spec.label} {form}".encode()))
        inputs = [_operand(part, rng) for part in spec.inputs]
        outputs = [
            Operand(y[1], y[0]) if y and isinstance(y[0], tuple) else Operand("f32", y)
            for y in spec.outputs
        ]
        yield (
            spec.label.removesuffix(", other encoding"),
            case_of(spec.op, inputs, outputs, spec.params),
        )


def half(values: np.ndarray | None) -> np.ndarray | None:
    """Floats rounded to half precision, in FLOAT_32; others as they are."""
    if values is None or values.dtype != np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def exact(cpu: qnn.Backend, case: Case) -> Outcome:
    """The node on inputs in half precision, in FLOAT_32."""
    model = replace(
        case.model,
        tensors={n: replace(t, data=half(t.data)) for n, t in case.model.tensors.items()},
    )
    return outcome(cpu, Case(model, {n: half(v) for n, v in case.feeds.items()}))


def apart(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> float:
    """The largest distance, in units of half precision at the largest finite value of ``scale``;
    of integers and truths, whether they differ."""
    if a.dtype.kind != "f":
        return float(not np.array_equal(a, b))
    size = np.abs(scale[np.isfinite(scale)]).max(initial=2.0**-14)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0, np.abs(a.astype(np.float64) - b))
    return float(distance.max(initial=0) / np.spacing(np.float16(min(size, 65504.0))))


def sweep() -> dict[str, Distances]:
    """By op, in the order of the op table."""
    made = list(trials())
    cases = [case for _, case in made]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    ours = run_cases("htp", cases, custom=[FLOAT16])
    found: dict[str, Distances] = {}
    with qnn.Backend.open("cpu") as cpu:
        for (label, case), a, b in zip(made, theirs, ours, strict=True):
            assert b.stage == "ran", (label, b)
            cell = found.setdefault(label, Distances(refused=True))
            wanted = exact(cpu, case).outputs
            for i, right in enumerate(wanted):
                rounded = half(right)
                assert rounded is not None
                cell.ours = max(cell.ours, apart(b.outputs[i], rounded, right))
                if a.stage == "ran":
                    cell.refused = False
                    cell.theirs = max(cell.theirs, apart(a.outputs[i], rounded, right))
                    cell.between = max(cell.between, apart(a.outputs[i], b.outputs[i], right))
    return found


def reason(label: str) -> str:
    return next((text for rule, text in REASONS.items() if re.fullmatch(rule, label)), "")


_HEAD = """# Half precision on the htp backend, beside the vendor's simulator

This page is generated: `python tests/docs/half_table.py`. A test runs the same nodes and fails
where a result is worse than the page says.

`Session(..., precision="float16")`, HTP's graph option PRECISION and ONNX Runtime's
`enable_htp_fp16_precision` compute a FLOAT_32 graph as a device does that has no other floats:
every tensor is rounded to half precision, the graph's inputs and outputs too, sums are kept in
single precision, and what exceeds 65,504 is infinity. What that gives is compared node by node with
the x86 HTP simulator of the package `onnxruntime-qnn` as the device `soc_model=69, htp_arch=79`,
with seeded random numbers. The simulator computes in half precision on such a device whether the
option is set or not, and in single precision where no device is named; here the option alone
decides.

Distances are in units in the last place of half precision at the largest value of the output: of
the simulator and of ours from the result on inputs in half precision, computed in FLOAT_32 and
rounded once, and from each other. {equal} ops and forms are equal on both sides (but for numbers
below 2^-14, which are 0 on the simulator); the others:

| op | simulator | ours | apart | |
|---|---|---|---|---|"""

_REFUSED = """
The simulator refuses these as FLOAT_32 nodes of such a device, and they run here: {ops}.
"""


def page(found: dict[str, Distances]) -> str:
    lines = []
    for label, d in found.items():
        if d.refused or max(d.theirs, d.ours, d.between) < 0.05:
            continue
        why = reason(label) if d.between > 1 else ""
        far = "far" if d.between > 1000 else f"{d.between:.2g}"
        theirs = "far" if d.theirs > 1000 else f"{d.theirs:.2g}"
        lines.append(f"| {label} | {theirs} | {d.ours:.2g} | {far} | {why} |")
    refused = sorted(label for label, d in found.items() if d.refused)
    equal = len(found) - len(lines) - len(refused)
    text = _HEAD.format(equal=equal) + "\n" + "\n".join(lines) + "\n"
    return text + _REFUSED.format(ops=", ".join(refused))


def worse(found: dict[str, Distances], text: str) -> list[str]:
    """What is further from the exact result here than the page says, or from the simulator for no
    reason."""
    rows = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([\d.e+-]+) \|", text, re.M))
    wrong = []
    for label, d in found.items():
        said = float(rows.get(label, 0))
        if d.ours > said * 1.06 + 0.02:
            wrong.append(f"{label}: {d.ours} units from the exact result, the page says {said}")
        if not d.refused and d.between > 1.001 and not reason(label):
            wrong.append(f"{label}: {d.between} units from the simulator, and no reason is given")
    return wrong
