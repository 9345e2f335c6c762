#!/usr/bin/env python3
"""Changes the sources in small ways, one at a time, and lists the changes that no test notices.

    python tools/mutate.py                         # the lines changed since main
    python tools/mutate.py --since v0.1 FILE...    # since another revision, of these files
    python tools/mutate.py --part planner          # all lines of a part; `--part all`
    python tools/mutate.py --again REPORT.json     # what a report lists as survived or not reached

A mutant is one small change: another comparison, a number one higher, a call left out, a condition
that never holds. All of them are in one build, in build/mutation, and an environment variable says
which one is on. A first run of the tests finds which mutants each test reaches; then those tests
run once for each mutant. A survivor asks for a test, or for its reason, which
tools/mutation/accepted.toml keeps. The parts and the tests that cover them:
tools/mutation/parts.py. Exit status 1: survivors without a reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from mutation.mutant import Mutant  # noqa: E402
from mutation.parts import OTHER, PARTS, Part  # noqa: E402
from mutation.running import Server, Verdict, judge, measure  # noqa: E402
from mutation.tree import Tree  # noqa: E402

ACCEPTED = ROOT / "tools/mutation/accepted.toml"
_SOURCES = ("csrc/*.cc", "csrc/*.h", "qnnrt/*.py")


def sources_of(part: Part) -> list[str]:
    """Paths, in the order of the part's patterns."""
    found = [p.relative_to(ROOT).as_posix() for s in part.sources for p in sorted(ROOT.glob(s))]
    return list(dict.fromkeys(found))


def changed_lines(revision: str) -> dict[str, set[int]]:
    """Path -> its lines that are new or other than in the revision, in the working tree."""
    command = ["git", "diff", "-U0", "--no-color", "--no-ext-diff", revision, "--"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines: dict[str, set[int]] = {}
    path = ""
    for line in text.splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))?", line):
            first, count = int(found[1]), int(found[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


def accepted() -> dict[str, str]:
    """Key of a mutant -> why it may survive."""
    if not ACCEPTED.exists():
        return {}
    groups = tomllib.loads(ACCEPTED.read_text()).get("accepted", [])
    return {key: group["reason"] for group in groups for key in group["mutants"]}


class Choice:
    """Which mutants are run, and the part of each."""

    def __init__(self, options: argparse.Namespace) -> None:
        names = {part.name for part in PARTS}
        if wrong := sorted(set(options.part) - names - {"all"}):
            sys.exit(f"no part {', '.join(wrong)}; there are: {', '.join(sorted(names))}")
        self._keys: set[str] = set()
        self._lines: dict[str, set[int]] = {}
        self._whole: set[str] = set()
        if options.again:
            rows = json.loads(Path(options.again).read_text())["mutants"]
            self._keys = {row["key"] for row in rows if row["state"] != "killed"}
        elif options.part:
            wanted = [p for p in PARTS if "all" in options.part or p.name in options.part]
            self._whole = {path for part in wanted for path in sources_of(part)}
        else:
            self._lines = changed_lines(options.since)
        self._files = {os.path.relpath(Path(f).resolve(), ROOT) for f in options.files}
        self.parts = {path: part for part in PARTS for path in sources_of(part)}
        for path in sorted(self._lines):
            known = any(fnmatch.fnmatch(path, pattern) for pattern in _SOURCES)
            if known and (ROOT / path).exists():
                self.parts.setdefault(path, OTHER)

    def sources(self) -> set[str]:
        """The files that may have some of them."""
        if self._keys:
            found = {key.partition(" :: ")[0] for key in self._keys}
        else:
            found = self._whole | (self._lines.keys() & self.parts.keys())
        return found & self._files if self._files else found

    def __contains__(self, mutant: Mutant) -> bool:
        if self._files and mutant.path not in self._files:
            return False
        if self._keys:
            return mutant.key in self._keys
        return mutant.path in self._whole or mutant.line in self._lines.get(mutant.path, ())


def run(options: argparse.Namespace) -> list[Verdict]:
    choice = Choice(options)
    tree = Tree(ROOT, options.tree.resolve(), choice.parts, choice.sources())
    if not any(mutant in choice for mutant in tree.mutants.values()):
        return []
    wanted_parts = {choice.parts[m.path] for m in tree.mutants.values() if m in choice}
    names = sorted({name for part in wanted_parts for name in part.native})
    names = [name for name in names if list((ROOT / "tests/native").glob(f"*{name}*.cc"))]
    start = time.monotonic()
    programs = {path.name: path for path in tree.build(names)}
    print(
        f"{len(tree.mutants)} mutants in {len(choice.parts)} files, built in "
        f"{time.monotonic() - start:.0f} s; left out: {sum(tree.left_out.values())} in constants, "
        f"{tree.dropped} that do not compile",
        flush=True,
    )
    verdicts: list[Verdict] = []
    for part in [*PARTS, OTHER]:
        mutants = [m for m in tree.mutants.values() if m in choice and choice.parts[m.path] == part]
        if options.sample and len(mutants) > options.sample:
            mutants = random.Random(options.seed).sample(mutants, options.sample)
        if mutants:
            verdicts += run_part(tree, part, mutants, programs, options)
            if options.json:  # after each part, since the next may take long
                rows = [verdict.row() for verdict in verdicts]
                options.json.write_text(json.dumps({"mutants": rows}, indent=1))
    return verdicts


def run_part(
    tree: Tree,
    part: Part,
    mutants: list[Mutant],
    programs: dict[str, Path],
    options: argparse.Namespace,
) -> list[Verdict]:
    start = time.monotonic()
    reach = measure(tree, programs, part)
    for name in reach.failed:
        print(f"{part.name}: fails without a mutant, left out: {name}", flush=True)
    for name in reach.slow:
        print(f"{part.name}: takes too long to run for each mutant: {name}", flush=True)
    mutants = [mutant for mutant in mutants if mutant.id not in reach.void]
    print(
        f"{part.name}: {len(mutants)} mutants, tests {time.monotonic() - start:.0f} s", flush=True
    )
    local = threading.local()
    servers: list[Server] = []

    def one(mutant: Mutant) -> Verdict:
        if not hasattr(local, "server"):
            local.server = Server(tree)
            servers.append(local.server)
        verdict = judge(tree, part, mutant, reach.tests.get(mutant.id, []), local.server)
        if options.verbose:
            print(f"{verdict.state}: {mutant.line}: {mutant.key}  {verdict.by[:60]}", flush=True)
        return verdict

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            return list(pool.map(one, mutants))
    finally:
        for server in servers:
            server.__exit__()
        print(f"{part.name}: {time.monotonic() - start:.0f} s", flush=True)


def report(verdicts: list[Verdict], reasons: dict[str, str]) -> int:
    """Prints survivors without a reason, and the table; returns how many they are."""
    new = 0
    for state in ("survived", "never reached"):
        for verdict in verdicts:
            if verdict.state == state and verdict.mutant.key not in reasons:
                print(f"{state}: {verdict.mutant.line}: {verdict.mutant.key}")
                new += 1
    head = ("part", "mutants", "killed", "accepted", "survived", "never reached", "score")
    print("{:16}{:>9}{:>9}{:>10}{:>10}{:>15}{:>8}".format(*head))
    for part in dict.fromkeys(verdict.part for verdict in verdicts):
        states = Counter(
            "accepted" if v.state != "killed" and v.mutant.key in reasons else v.state
            for v in verdicts
            if v.part == part
        )
        count = sum(states.values())
        # What may survive is not asked for; what no test reaches is.
        score = 100 * states["killed"] / max(1, count - states["accepted"])
        print(
            f"{part:16}{count:9}{states['killed']:9}{states['accepted']:10}{states['survived']:10}"
            f"{states['never reached']:15}{score:7.1f}%"
        )
    return new


def main() -> int:
    text = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=text[0], epilog=text[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="only these sources")
    parser.add_argument("--since", default="main", metavar="REVISION", help="default: main")
    parser.add_argument("--part", action="append", default=[], help="all lines of a part, or all")
    parser.add_argument("--again", metavar="REPORT", help="what survived in an earlier run")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="at most N of a part")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there, too")
    parser.add_argument(
        *("-j", "--jobs"), type=int, default=len(os.sched_getaffinity(0)), help="mutants at a time"
    )
    parser.add_argument("--tree", type=Path, default=ROOT / "build/mutation", help="the build")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each mutant")
    options = parser.parse_args()
    verdicts = run(options)
    if not verdicts:
        print("no mutants on these lines")
        return 0
    return 1 if report(verdicts, accepted()) else 0


if __name__ == "__main__":
    sys.exit(main())
