"""docs/htp-fixed-point.md: the table of htp_sweep as a page, and read back from it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from support.htp.reasons import TEXTS, reason
from support.htp.sweep import ACTIVATIONS, VERDICTS, Cell, Table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "htp-fixed-point.md"

_HEAD = """# Fixed point on the htp backend, beside the vendor's simulator

This page is generated: `python tests/docs/htp_table.py`. A test runs the same nodes and fails where
a result is worse than the page says. What encodings are stands in
[Quantized networks](quantization.md).

What is compared: one node at a time, with seeded random integers over the whole range of the type,
on our htp backend and on the x86 HTP simulator of the package `onnxruntime-qnn` 2.7.0
(`libQnnHtp.so` 2.51), as the device `soc_model=69, htp_arch=79`. On its default device (30 and 68)
the simulator gives the same results but for convolutions and matrix products: there it scales
their sums with fewer bits, which puts it up to 30 steps off in 16 bits, and it takes no 16-bit
weights.

## How each side rounds

| | the simulator | here |
|---|---|---|
| ties, all ops but Quantize | up: -1.5 becomes -1, 1.5 becomes 2 | to even, as ONNX has it |
| ties, Quantize and Convert from float | away from zero | to even |
| Quantize to 8 bits | `x / scale` is first rounded to FLOAT_16 | `x / scale` in float |
| NaN | the highest integer | real 0 |
| convolutions, matrix products | exact sums in 8 bits; scaled with about 16 bits | exact sums, \
scaled in float |
| functions of one number, 8 bits | a table of the correctly rounded results | the same |
| functions of one number, 16 bits | approximations | float, rounded once |

Results here are within half a step of the exact result, which is what the column "here" of the
second table shows. So a difference of one step means that the simulator rounded a tie the other
way, or that its own error carried it over a boundary.

## What the simulator takes

- All activations of a node have one fixed-point type, those of Convert, Cast and MatMul excepted.
  Here they may be mixed.
- Activations have one scale and offset. Weights may have a scale for each output channel, with
  offset 0 (UFIXED_POINT_8: -128); here with any offset. Such weights of a MatMul crash the
  simulator.
- The bias of a product is SFIXED_POINT_32 with offset 0, of any scale. The simulator counts it in
  products (the scale of the input times that of the weights), rounded towards zero; along an axis
  it takes the integers for products, whatever the scales say. Here the real number is added.
- Constant weights of SFIXED_POINT_8 with a scale for each channel under FLOAT_16 activations (of
  Conv2d, FullyConnected and MatMul), with no bias or one of FLOAT_16. Here of any fixed-point type,
  under any floats, in every op that sums products.
- 4-bit weights come as SFIXED_POINT_8 or UFIXED_POINT_8 with a bit width of 4; tensors of the type
  SFIXED_POINT_4 are refused (7004). Here both run.
- Pad takes its constant as an INT_32, an integer in the input's encoding, or as a FLOAT_32, a real
  number. The same holds here.
- OneHot to a fixed-point type writes the integers 1 and 0, here too. Given values, of whatever
  type, the simulator refuses it (3110); here an integer is one of the output's encoding, as the
  default and as in Pad, and a floating-point value is a real number.
- Softmax to SFIXED_POINT_8 always writes with offset 128, whatever the output's encoding says.
- Gru with SFIXED_POINT_32 biases; of more than one step it computes only the first. Lstm with
  fixed-point numbers is refused in every form that was tried.
- Buffer in its two non-blocking modes, in a graph that comes from a context binary (one finalized
  in place crashes); the frames that it gives are the same here. Its input `reset`, and Gru's, is
  refused when a node is validated, but works. It is not in the table, whose nodes are executed
  once.
- TopK lists equal values with the last index first; here the first index comes first, as in ONNX.

## The table

"exact": every element is equal. "1": within one step of the output's encoding. A greater number: so
many steps apart, and why is said below. With other random numbers those in 16 bits come out higher
or lower, and a few more of them above 1, for the same reasons. "-": the simulator refuses the node
when it checks it (3110) or finalizes the graph (1002).

| op | weights | u8 | s8 | u16 | s16 |
|---|---|---|---|---|---|"""

_CONVERSIONS = """
## Conversions

From the type in the row to the type in the column. Steps of float results are those of the
input's encoding.
"""

_DIFFERENCES = """
## Where results differ

`apart`: the greatest distance between the two, in steps; `share`: of the elements that are more
than one step apart; then how far each side is from the exact result at most.

| op | weights | type | apart | share | simulator | here | why |
|---|---|---|---|---|---|---|---|"""


def _text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.verdict == "not taken":
        return "crash" if cell.code == "crash" else "-"
    return {"exact": "exact", "within 1": "1", "differs": _number(cell.worst)}.get(
        cell.verdict, cell.verdict
    )


def _number(steps: float) -> str:
    return f"{steps:.0f}" if steps < 1e6 else f"{steps:.1e}"


def _cell(text: str) -> Cell | None:
    if text in ("", "-", "crash"):
        return Cell("not taken") if text else None
    if text in VERDICTS:
        return Cell(text)
    steps = float(text)
    return Cell("within 1" if steps <= 1 else "differs", steps)


def _is_conversion(key: tuple[str, str, str]) -> bool:
    return " to " in key[2]


def _main(table: Table) -> list[str]:
    """Rows of the ops; kinds of weights with the same results share one."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for label, weights in dict.fromkeys(k[:2] for k in table if not _is_conversion(k)):
        cells = tuple(_text(table.get((label, weights, type))) for type in ACTIVATIONS)
        rows.setdefault((label, cells), []).append(weights)
    return [
        f"| {label} | {', '.join(weights) or '-'} | {' | '.join(cells)} |"
        for (label, cells), weights in rows.items()
    ]


def _conversions(table: Table) -> list[str]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for key in table:
        if _is_conversion(key):
            source, target = key[2].split(" to ")
            found.setdefault(key[0], {}).setdefault(source, {})[target] = _text(table[key])
    lines = []
    for op, rows in found.items():
        targets = list(dict.fromkeys(t for row in rows.values() for t in row))
        lines += [f"| {op} from | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
        lines += [
            f"| {source} | {' | '.join(row.get(t, '') for t in targets)} |"
            for source, row in rows.items()
        ]
        lines.append("")
    return lines


def _differences(table: Table) -> list[str]:
    lines = []
    for key, cell in table.items():
        if cell.verdict != "differs":
            continue
        label, weights, type = key
        theirs, ours = f"{cell.theirs:.1f}", f"{cell.ours:.1f}"
        if label == "Cast":
            theirs = ours = ""  # what is exact is the question
        lines.append(
            f"| {label} | {weights} | {type} | {_number(cell.worst)} | {100 * cell.share:.1f} % | "
            f"{theirs} | {ours} | {reason(*key)} |"
        )
    return lines


def _summary(table: Table) -> str:
    counts = Counter(cell.verdict for cell in table.values())
    taken = len(table) - counts["not taken"]
    return (
        f"Of {len(table)} pairs of an op and its types the simulator takes {taken}: "
        f"{counts['exact']} exact, {counts['within 1']} within one step, {counts['differs']} "
        f"further apart, {counts['refused here']} refused here."
    )


def page(table: Table) -> str:
    """The page's text."""
    reasons = dict.fromkeys(reason(*k) for k, c in table.items() if c.verdict == "differs")
    lines = [_HEAD, *_main(table), "", _summary(table), _CONVERSIONS, *_conversions(table)]
    lines[-1:] = [_DIFFERENCES, *_differences(table), "", "The reasons:", ""]
    lines += [f"- **{name}**: {TEXTS[name]}" for name in reasons if name is not None]
    return "\n".join(lines) + "\n"


def unexplained(table: Table) -> list[str]:
    """Places where the two differ, and nobody has said why; refusals of ours among them."""
    return [
        ", ".join(filter(None, key)) + f": {_text(cell)} {cell.code}"
        for key, cell in table.items()
        if cell.verdict == "refused here" or (cell.verdict == "differs" and not reason(*key))
    ]


def read(text: str) -> Table:
    """The table that a page has."""
    table: Table = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or set(cells[0]) == {"-"}:
            header = header if cells else []
        elif cells[0] == "op" or cells[0].endswith(" from"):
            header = cells
        elif header[:1] == ["op"] and len(header) == 6:
            for weights in cells[1].removeprefix("-").split(", "):
                for type, text in zip(ACTIVATIONS, cells[2:], strict=True):
                    if (cell := _cell(text)) is not None:
                        table[cells[0], weights, type] = cell
        elif header and header[0].endswith(" from"):
            op = header[0].removesuffix(" from")
            for target, text in zip(header[1:], cells[1:], strict=True):
                if (cell := _cell(text)) is not None:
                    table[op, "", f"{cells[0]} to {target}"] = cell
    return table


def worse(table: Table, text: str | None = None) -> list[str]:
    """Results that are worse than the page says, and those that it does not know."""
    known = read(PAGE.read_text() if text is None else text)
    found = []
    for key, cell in table.items():
        said = known.get(key)
        name = ", ".join(filter(None, key))
        if said is None:
            found.append(f"{name}: not on the page")
        elif said.verdict == "not taken" and cell.verdict != "not taken":
            found.append(f"{name}: the page says that the simulator does not take it")
        elif _exceeds(cell, said):
            found.append(f"{name}: {_text(cell)} ({cell.code}), the page says {_text(said)}")
    return found


def _exceeds(cell: Cell, said: Cell) -> bool:
    if cell.verdict == said.verdict == "differs":
        return cell.worst > said.worst * 1.1 + 1  # floats round otherwise on another processor
    return VERDICTS.index(cell.verdict) > VERDICTS.index(said.verdict)
