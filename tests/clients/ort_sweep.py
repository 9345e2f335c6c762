"""Random single operators through ONNX Runtime's QNN provider: on our HTP and on the vendor's.

    python tests/clients/ort_sweep.py --count 3040            # prints what differs
    python tests/clients/ort_sweep.py --count 3040 --write    # and writes docs/ort-sweep.md

Operators lie beside each other in models of a few dozen, so that a session serves many; where one
does not come up, or takes the process with it, its halves are tried. What is compared is how far
each library's result is from ONNX Runtime's own kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.onnx.provider_sweep import SIZE, Pair, own, sweep, vendor  # noqa: E402
from support.onnx.single_op_models import FLOATS, Case  # noqa: E402

PAGE = ROOT / "docs/ort-sweep.md"

# ---- why they differ -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """Why a difference is none of ours; `holds` says of which pairs. One that holds of no pair of a
    whole sweep is an error."""

    text: str
    holds: Callable[[Pair], bool]


def _longer_strides(case: Case) -> bool:
    given = case.node.attributes
    return any(s > k for s, k in zip(given["strides"], given["kernel_shape"], strict=True))


def _scales_are_rounded(case: Case) -> bool:
    x, _, scales = (*case.node.inputs, None, None)[:3]
    return scales is not None and any(n % 1 for n in np.array(x.shape) * scales)


REASONS: tuple[Reason, ...] = (
    Reason(
        "With auto_pad, where a stride is longer than the kernel of a pool, the provider halves a "
        "padding of -1 as an unsigned number and sends 2,147,483,647 and 2,147,483,648: refused "
        "here, where the simulator goes on",
        lambda p: (
            p.case.node.op.endswith("Pool")
            and p.case.node.attributes.get("auto_pad", "").startswith("SAME")
            and p.ours.stage == "failed"
            and _longer_strides(p.case)
        ),
    ),
    Reason(
        "The provider sends GELU by tanh as QNN's Gelu, which is by the error function",
        lambda p: (
            p.case.node.attributes.get("approximate") == "tanh"
            and p.case.kind in FLOATS
            and p.apart[1] < 1e-3
        ),
    ),
    Reason(
        "The provider converts a second factor of 16 bits to 8, where it is no constant; what it "
        "sends is computed here within a step of float64, by the simulator within some more",
        lambda p: (
            p.case.kind == "u16"
            and p.case.node.op in ("MatMul", "Gemm", "Einsum")
            and 1 not in p.case.node.constant
            and p.apart[1] < 1.1 * p.apart[0]
        ),
    ),
    Reason(
        "The provider itself ends the process, whatever the library: with auto_pad, where a stride "
        "is longer than the kernel, a padding of less than nothing is its narrowing_error",
        lambda p: (
            p.case.node.attributes.get("auto_pad", "").startswith("SAME")
            and "narrowing_error" in p.ours.text
        ),
    ),
)

#: Of pairs of other seeds than the page's.
ELSEWHERE: tuple[Reason, ...] = (
    Reason(
        "QNN's Resize has the sizes of its output, and no scales: given sizes, ONNX Runtime has "
        "the result that is computed here",
        lambda p: p.case.node.op == "Resize" and _scales_are_rounded(p.case),
    ),
    Reason(
        "The provider declares the INT_32 copy of a dividend that is broadcast with the shape of "
        "the result: refused here, and garbage on the simulator",
        lambda p: (
            p.case.node.op == "Mod"
            and p.ours.stage == "failed"
            and p.case.node.inputs[0].size < p.case.node.inputs[1].size
        ),
    ),
)


def reason_of(pair: Pair) -> Reason | None:
    return next((r for r in (*REASONS, *ELSEWHERE) if r.holds(pair)), None)


def differences(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """What asks for a reason, under headings."""
    return {
        "Taken by the vendor's library alone": [
            p for p in pairs if p.theirs.taken and not p.ours.taken
        ],
        "Further from ONNX Runtime's result than the vendor's": [p for p in pairs if p.wrong],
        "Off on both libraries, in different ways": [p for p in pairs if p.elsewhere],
        "The process ends": [
            p for p in pairs if p.ours.stage == "crash" and not p.theirs.taken
        ],
    }  # fmt: skip


def unexplained(pairs: Sequence[Pair]) -> list[str]:
    return [
        f"{heading}: {said(p)}"
        for heading, some in differences(pairs).items()
        for p in some
        if reason_of(p) is None
    ]


def unused(pairs: Sequence[Pair]) -> list[str]:
    found = [p for some in differences(pairs).values() for p in some]
    return [r.text for r in REASONS if not any(reason_of(p) is r for p in found)]


def said(p: Pair) -> str:
    sides = [
        f"{_number(apart)} off" if answer.taken else f"{answer.stage} {answer.text[:160]}".rstrip()
        for answer, apart in zip((p.theirs, p.ours), p.apart, strict=True)
    ]
    return f"{p.label}: the vendor's {sides[0]}, ours {sides[1]}"


# ---- the page ------------------------------------------------------------------------------------

#: Types of a column of the page.
COLUMNS = {"f32": ("f32",), "f16": ("f16",), "8 bits": ("u8", "s8"), "16 bits": ("u16",)}


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def _taken(pairs: Sequence[Pair]) -> list[int]:
    count = Counter((p.theirs.taken, p.ours.taken) for p in pairs)
    return [count[k] for k in ((True, True), (False, True), (True, False), (False, False))]


def _far(pairs: Sequence[Pair], floats: bool) -> str:
    both = [
        p.apart
        for p in pairs
        if p.theirs.taken and p.ours.taken and (p.case.kind in FLOATS) == floats
    ]
    if not both:
        return "-"
    return ", ".join(_number(max(a[i] for a in both)) for i in (0, 1))


_TAKEN = ("cases", "both", "ours alone", "vendor's alone", "neither")
_FAR = ("floats: vendor's, ours", "steps: vendor's, ours")


def kinds(pairs: Sequence[Pair]) -> list[str]:
    """A row for each precision."""
    rows = []
    for name, column in COLUMNS.items():
        some = [p for p in pairs if p.case.kind in column]
        closer = Counter(
            (p.apart[1] > p.apart[0]) - (p.apart[1] < p.apart[0])
            for p in some
            if p.theirs.taken and p.ours.taken
        )
        rows.append([name, len(some), *_taken(some), *(closer[k] for k in (-1, 0, 1))])
    return _table(("precision", *_TAKEN, "ours closer", "alike", "vendor's closer"), rows)


def operators(pairs: Sequence[Pair]) -> list[str]:
    """A row for each operator."""
    by_op: dict[str, list[Pair]] = defaultdict(list)
    for p in pairs:
        by_op[p.case.node.op].append(p)
    rows = [
        [
            op,
            *(sum(p.case.kind in column for p in some) for column in COLUMNS.values()),
            *_taken(some),
            *(_far(some, floats) for floats in (True, False)),
        ]
        for op, some in sorted(by_op.items())
    ]
    return _table(("operator", *COLUMNS, *_TAKEN[1:], *_FAR), rows)


def lists(pairs: Sequence[Pair]) -> list[str]:
    """What differs, with its reason."""
    lines = []
    for heading, some in differences(pairs).items():
        lines += [f"## {heading}", ""]
        of: dict[str, list[str]] = defaultdict(list)
        for p in some:
            reason = reason_of(p)
            of["No reason is known" if reason is None else reason.text].append(f"- {said(p)}")
        for text, cases in sorted(of.items()):
            lines += [f"{text} ({len(cases)}):", "", *cases[:20], ""]
            if len(cases) > 20:
                lines[-1:] = [f"- and {len(cases) - 20} more", ""]
        if not of:
            lines += ["None.", ""]
    return lines[:-1]


def page(pairs: Sequence[Pair], command: str) -> str:
    both, ours, theirs, neither = _taken(pairs)
    lines = [
        "# Operators through ONNX Runtime's provider",
        "",
        "Random nodes of one ONNX operator each, as ONNX Runtime's QNN provider gives them to a",
        "backend library: to `libQnnHtp.so` of this package, and to the vendor's x86 simulator.",
        f"Written by `python tests/clients/ort_sweep.py {command}`;",
        "cases without a kernel in ONNX Runtime itself are left out. A test in CI runs others.",
        "",
        f"Of {len(pairs)} cases {both} are taken by both, {ours} by ours alone, {theirs} by the",
        f"vendor's alone, {neither} by neither: those that the provider itself does not translate,",
        "or leaves to other kernels.",
        "",
        *kinds(pairs),
        "",
        "Fixed point is 8 or 16 bits between Q and DQ nodes, with weights of 8 bits. A result is",
        "closer if its largest distance from that of ONNX Runtime's own kernels is smaller.",
        "",
        "In the next table the last two columns are the largest such distances of cases that both",
        "take: in floats relative to the largest number of a result, in fixed point in steps of",
        "the output's encoding. Where both are far off, and alike, the provider has given the node",
        "another meaning: QNN's Resize has the sizes of its output, and no scales.",
        "",
        *operators(pairs),
        "",
        *lists(pairs),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3040)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=SIZE, help="nodes of a model")
    parser.add_argument("--library", default=own(), help="ours, by its path")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--json", type=Path, help="write what was found for each case")
    args = parser.parse_args()
    pairs = sweep((vendor(), args.library), args.count, args.seed, args.size, args.jobs, args.first)
    text = page(pairs, f"--count {args.count} --seed {args.seed} --write")
    if args.json:
        args.json.write_text(json.dumps([
            [p.label, p.theirs.stage, p.theirs.text, p.ours.stage, p.ours.text, *p.apart, p.between]
            for p in pairs
        ], indent=0))  # fmt: skip
    if args.write:
        PAGE.write_text(text)
    print(text)
    wrong = unexplained(pairs)
    if args.write:
        wrong += [f"a reason that nothing needs: {text}" for text in unused(pairs)]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
