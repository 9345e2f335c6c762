#!/usr/bin/env python3
"""What had to be changed in the code of the QNN tutorials, as a table for docs/tutorials.md.

    python tools/tutorials.py                # write the tables into the page
    python tools/tutorials.py --check        # exit status 1 when the page is not up to date
    python tools/tutorials.py --texts DIR    # compare with the tutorials' texts first

The tutorials are not in this repository. Its programs in examples/ have their code between
``// [TEXT NUMBER]`` and ``// [end]``; examples/tutorials.json has, for each such part, the lines as
they were printed where the program has others, and a checksum of the whole part as printed. So
what was printed can be put together again from a program and that file, and the checksum says that
it is right. With ``--texts`` the file is made anew out of the texts.

Compared are lines of code: without comments, indentation and empty lines. A comment that begins
with ``// Changed:`` is the reason for the changed lines behind it.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/tutorials.md"
DATA = ROOT / "examples/tutorials.json"
COPY = "Copy to clipboard"


@dataclass(frozen=True)
class Part:
    """A program's version of the code of one or more texts.

    Attributes:
        names: "TEXT NUMBER" of each block of code that is printed so.
        lines: of code.
        reasons: for the line of that index and those of the same change.
    """

    program: str
    names: tuple[str, ...]
    lines: tuple[str, ...]
    reasons: dict[int, str]


@dataclass(frozen=True)
class Change:
    """Lines of a part from ``at`` on, and what was printed in their place."""

    at: int
    here: tuple[str, ...]
    printed: tuple[str, ...]
    why: str


def squeezed(line: str) -> str:
    """A line of code with single spaces."""
    return " ".join(line.split())


def code(text: str) -> list[str]:
    """Lines of code: no comments, no empty lines."""
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [s for line in bare.splitlines() if (s := squeezed(re.sub(r"//.*", "", line)))]


def parts(program: Path) -> list[Part]:
    """The marked parts of a program, which may lie in each other, or in several pieces."""
    lines: dict[str, list[str]] = {}
    reasons: dict[str, dict[int, str]] = {}
    inside: list[str] = []
    reason: list[str] = []
    for line in program.read_text().splitlines():
        bare = line.strip()
        if begin := re.fullmatch(r"// \[([a-z][^\]]* \d+)\]", bare):
            inside.append(begin[1])
            lines.setdefault(begin[1], [])
            reasons.setdefault(begin[1], {})
        elif bare == "// [end]":
            inside.pop()
        elif bare.startswith("// Changed:"):
            reason = [bare.removeprefix("// Changed:").strip()]
        elif bare.startswith("//"):
            if reason:
                reason.append(bare.removeprefix("//").strip())
        elif found := code(line):
            for names in inside:
                if reason:
                    reasons[names][len(lines[names])] = " ".join(reason)
                lines[names] += found
            reason = []
    return [
        Part(program.name, tuple(names.split(", ")), tuple(found), reasons[names])
        for names, found in lines.items()
    ]


def all_parts() -> list[Part]:
    return [p for path in sorted((ROOT / "examples").glob("tutorial_*.cc")) for p in parts(path)]


def changes(part: Part, hunks: Sequence[Sequence[Any]]) -> list[Change]:
    """The changes of a part: each hunk is where, how many lines here, and the lines as printed."""
    found = []
    for at, count, printed in hunks:
        why = "; ".join(part.reasons[i] for i in range(at, at + max(count, 1)) if i in part.reasons)
        found.append(Change(at, part.lines[at : at + count], tuple(printed), why))
    return found


def as_printed(part: Part, hunks: Sequence[Sequence[Any]]) -> list[str]:
    """A part as the text has it."""
    lines = list(part.lines)
    for at, count, printed in reversed(hunks):
        lines[at : at + count] = printed
    return lines


def checksum(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


# ---- the texts


def blocks(text: str) -> list[list[str]]:
    """The blocks of code in a text: in front of COPY, or numbered from 1 on."""
    found: list[list[str]] = []
    lines = text.splitlines()
    if COPY in text:
        for end, line in enumerate(lines):
            if line.strip() != COPY:
                continue
            start = end
            while start > 0 and (lines[start - 1].startswith("    ") or not lines[start - 1]):
                start -= 1
            found.append(_unnumbered(lines[start - 1 : end]))
        return found
    at = 0
    while at < len(lines):
        block = []
        while at < len(lines) and re.match(rf"{len(block) + 1}(?!\d)", lines[at]):
            block.append(lines[at])
            at += 1
        if len(block) > 1:
            found.append(_unnumbered(block))
        at += 1 if not block else 0
    return found


def _unnumbered(lines: Sequence[str]) -> list[str]:
    if lines and re.match(r"1\D", lines[0]):
        lines = [re.sub(r"^ *\d+ ?", "", line) for line in lines]
    return code("\n".join(lines))


def split(printed: Sequence[str], here: Sequence[str], at: int) -> list[list[Any]]:
    """A change in smaller ones: where two lines are much alike, one is the other's."""
    pairs = [
        (difflib.SequenceMatcher(None, p, h).ratio(), -i, -j)
        for i, p in enumerate(printed)
        for j, h in enumerate(here)
    ]
    ratio, i, j = max(pairs, default=(0.0, 0, 0))
    if ratio < 0.6:
        return [[at, len(here), list(printed)]] if printed or here else []
    i, j = -i, -j
    return [
        *split(printed[:i], here[:j], at),
        [at + j, 1, [printed[i]]],
        *split(printed[i + 1 :], here[j + 1 :], at + j + 1),
    ]


def compare(texts: Path) -> dict[str, Any]:
    """What ``examples/tutorials.json`` is to have."""
    found: dict[str, Any] = {}
    for part in all_parts():
        for name in part.names:
            text, number = name.split()
            printed = blocks((texts / f"{text}.txt").read_text())[int(number) - 1]
            matcher = difflib.SequenceMatcher(None, printed, part.lines, autojunk=False)
            hunks = [
                hunk
                for tag, i1, i2, j1, j2 in matcher.get_opcodes()
                if tag != "equal"
                for hunk in split(printed[i1:i2], part.lines[j1:j2], j1)
            ]
            found[name] = {"hunks": hunks, "sha256": checksum(printed)}
    return found


# ---- the page


def table(part: Part, hunks: Sequence[Sequence[Any]]) -> str:
    """The changes of a part as a table."""
    rows = [f"| {_cell(c.printed)} | {_cell(c.here)} | {c.why} |" for c in changes(part, hunks)]
    head = ["| as printed | here | why |", "|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else "Compiles as it is printed."


def _cell(lines: Sequence[str]) -> str:
    return "<br>".join("`" + line.replace("|", "\\|") + "`" for line in lines) or "(nothing)"


def page(text: str, data: dict[str, Any]) -> str:
    """The page with its tables made anew."""
    known = {part.names: part for part in all_parts()}
    for names, part in known.items():
        name = names[0]
        pattern = rf"(<!-- changes: {re.escape(name)} -->\n).*?(<!-- end -->)"
        made, count = re.subn(
            pattern,
            lambda m, part=part, name=name: (
                m.group(1) + table(part, data[name]["hunks"]) + "\n" + m.group(2)
            ),
            text,
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(f"{PAGE.name}: {count} places for the changes of {name}; 1 is needed")
        text = made
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--texts", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.texts is not None:
        made = compare(options.texts)
        if not options.check:
            DATA.write_text(json.dumps(made, indent=1) + "\n")
        elif made != json.loads(DATA.read_text()):
            print(f"{DATA.name} is not what the texts say", file=sys.stderr)
            return 1
    data = json.loads(DATA.read_text())
    new = page(PAGE.read_text(), data)
    if options.check:
        return int(new != PAGE.read_text())
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
