"""Many cases on several workers: outcomes counted, findings minimised and written down."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from .process import Child, Limits, Result, run
from .target import Target

_TOGETHER = 32  # candidates of a minimisation in one child


@dataclass
class Finding:
    """A kind of finding.

    Attributes:
        number: the first case that showed it.
        times: how many cases did.
        data: that case, minimised as far as the time allowed.
        alone: whether the case shows it without those before it.
    """

    kind: str
    number: int
    text: str
    data: bytes
    times: int = 1
    alone: bool = True
    file: Path | None = None


@dataclass
class Report:
    """What came out."""

    cases: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)


def campaign(
    target: Target,
    numbers: range,
    case: Callable[[int], bytes],
    limits: Limits,
    *,
    workers: int = 1,
    batch: int = 500,
    minimise_seconds: float = 60.0,
    folder: Path | None = None,
    progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Run cases.

    Args:
        numbers: of the cases.
        case: the bytes of one; called in the children, and here for findings.
        limits: of each child.
        workers: children at a time.
        batch: cases of a child.
        minimise_seconds: for each kind of finding, beside the workers' own time.
        folder: where findings are written; None: nowhere.
        progress: called now and then.
    """
    report = Report()
    begin = time.monotonic()
    todo = [numbers[at : at + batch] for at in range(0, len(numbers), batch)][::-1]
    running: list[tuple[Child, range]] = []
    while todo or running:
        while todo and len(running) < workers:
            part = todo.pop()
            running.append((Child(target, part, case, limits), part))
        time.sleep(0.01)
        for entry in [*running]:
            child, part = entry
            if not child.poll():
                continue
            running.remove(entry)
            results = child.results()
            done = results[-1].number + 1 if results else part.stop
            if part.start <= done < part.stop:
                todo.append(range(done, part.stop))
            for result in results:
                _count(report, result, case)
            report.seconds = time.monotonic() - begin
            progress(report)
    for finding in report.findings.values():
        _minimise(target, finding, limits, minimise_seconds)
        if folder is not None:
            finding.file = write(target, finding, folder)
    return report


def _count(report: Report, result: Result, case: Callable[[int], bytes]) -> None:
    report.cases += 1
    if result.finding is None:
        report.outcomes[result.outcome] += 1
        return
    report.outcomes[f"FOUND {result.finding}"] += 1
    known = report.findings.get(result.finding)
    if known is not None:
        known.times += 1
        return
    try:
        data = case(result.number)
    except Exception:  # it is the mutator that fails; the text says where
        data = b""
    report.findings[result.finding] = Finding(result.finding, result.number, result.text, data)


def _minimise(target: Target, finding: Finding, limits: Limits, seconds: float) -> None:
    """Make the case smaller as long as it shows the same kind."""
    end = time.monotonic() + seconds
    finding.alone = _first(target, [finding.data], finding.kind, limits) is not None
    while finding.alone and time.monotonic() < end:
        candidates = target.smaller(finding.data)
        better = None
        while better is None and time.monotonic() < end:
            some = list(islice(candidates, _TOGETHER))
            if not some:
                return
            better = _first(target, some, finding.kind, limits)
        if better is not None:
            finding.data = better


def _first(target: Target, some: list[bytes], kind: str, limits: Limits) -> bytes | None:
    """The first of some cases that ends in a finding of this kind."""
    at = 0
    while at < len(some):
        results = run(target, some, limits, at)
        for result in results:
            if result.finding == kind:
                return some[result.number]
        at = results[-1].number + 1 if results else len(some)
    return None


def write(target: Target, finding: Finding, folder: Path) -> Path:
    """Keep a finding: the case as a file, and beside it what was seen."""
    folder.mkdir(parents=True, exist_ok=True)
    title = re.sub(r"\W+", "-", finding.kind)[:80].strip("-")
    mark = hashlib.sha256(finding.data).hexdigest()[:8]
    file = folder / f"{target.name}-{title}-{mark}{target.suffix}"
    file.write_bytes(finding.data)
    alone = "" if finding.alone else "not seen when the case runs alone\n"
    file.with_name(f"{file.name}.txt").write_text(
        f"{finding.kind}\ncase {finding.number}, {finding.times} times\n{alone}\n{finding.text}\n"
    )
    return file
