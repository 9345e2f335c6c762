"""Random models on every backend, in child processes: python tests/campaigns/random_models.py

    --count 10000 --seed 7 --workers 16       models 0 to 9999 of this seed
    --backends cpu,htp,lpai,gpu               what runs them besides the cpu backend
    --only Conv2d,Relu                        models of these ops alone
    --first 1234 --count 1 --verbose          one model again
    --onnx                                    ONNX models, with ONNX Runtime and onnx's evaluator

A model is a function of seed and number, whatever the other options are. A child that dies or hangs
is a finding, with the model it was at; a wrong result is minimised and printed. Ends with counts
by check, op and type, and with status 1 when there was a finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

#: A child's models, seconds without a word from it, and address space.
BATCH, PATIENCE, MEMORY = 50, 120, 12 << 30


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--backends", default="cpu,htp,lpai")
    parser.add_argument("--checks", help="instead of those of the backends: names, with commas")
    parser.add_argument("--only", default="", help="ops, with commas")
    parser.add_argument("--theme", help="the element type of most tensors")
    parser.add_argument("--onnx", action="store_true", help="ONNX models instead")
    parser.add_argument("--verbose", action="store_true", help="print every model")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def wanted(o: argparse.Namespace) -> list[str]:
    from support.random_models.checks import CHECKS

    given = o.backends.split(",")
    backends = ("htp", "lpai", "gpu")
    if o.checks:
        names = o.checks.split(",")
        unknown = set(names) - set(CHECKS)
    else:
        names = [n for n in CHECKS if n in given or (n not in backends and "cpu" in given)]
        unknown = set(given) - {"cpu", *backends}
    if unknown:
        raise SystemExit(f"no check or backend {sorted(unknown)}; there are {', '.join(CHECKS)}")
    return names


# ---- in a child


def child(o: argparse.Namespace) -> None:
    """Works through its models; a line of JSON for what is begun, and for what came of it."""
    from support.outside import limit_process

    limit_process(MEMORY)
    if o.onnx:
        onnx_child(o)
        return
    from support.random_models.generate import generate

    only = [op for op in o.only.split(",") if op]
    names = wanted(o)
    for number in range(o.first, o.first + o.count):
        _say({"begin": number})
        try:
            made = generate(o.seed, number, only=only, theme=o.theme)
        except Exception:
            _say({"number": number, "wrong": {"generator": [traceback.format_exc()[-1500:]]}})
            continue
        _say(_checked(o, number, made, names))


def _checked(o: argparse.Namespace, number: int, made: Any, names: list[str]) -> dict[str, Any]:
    from support.random_models import checks, shrink

    case = checks.Case(made.model, made.feeds, o.seed)
    found: dict[str, Any] = {
        "number": number, "wrong": {}, "text": {}, "done": [], "left": [],
        "taken": [[*key, n] for key, n in made.taken.items()],
        "refused": [[*key, n] for key, n in made.refused.items()],
    }  # fmt: skip
    if o.verbose:
        print(shrink.described(case), file=sys.stderr)
    for name in names if made.model.nodes else ():
        _say({"check": name})
        try:
            lines = checks.check(case, name)
        except checks.Refused as e:
            found["left"].append([name, str(e)])
            continue
        found["done"].append(name)
        if not lines:
            continue
        found["wrong"][name] = lines
        if not o.no_shrink:

            def shows(other: Any, name: str = name) -> bool:
                try:
                    return bool(checks.check(other, name))
                except checks.Refused:
                    return False

            small = shrink.simpler(shrink.shrink(case, shows), shows)
            found["text"][name] = shrink.described(small)
            found["wrong"][name] = checks.check(small, name) or lines
    return found


def onnx_child(o: argparse.Namespace) -> None:
    """The same for ONNX models. ONNX Runtime may be missing: then it is named as left out."""
    from support.random_models import onnx_checks

    only = [op for op in o.only.split(",") if op]
    with_ort = importlib.util.find_spec("onnxruntime") is not None
    for number in range(o.first, o.first + o.count):
        _say({"begin": number})
        try:
            case = onnx_checks.generate(o.seed, number, only=only)
        except Exception:
            _say({"number": number, "wrong": {"generator": [traceback.format_exc()[-1500:]]}})
            continue
        if o.verbose:
            print(onnx_checks.described(case), file=sys.stderr)
        _say({"check": "onnx"})
        verdict = onnx_checks.check(case, with_ort) if case.outputs else onnx_checks.Verdict()
        found: dict[str, Any] = {
            "number": number, "wrong": {}, "text": {}, "done": ["onnx"], "left": [],
            "taken": [[*key, n] for key, n in case.taken.items()], "refused": [],
            "differs": [[who, *what] for who, what in verdict.differs.items()],
        }  # fmt: skip
        if verdict.left:
            found["done"], found["left"] = [], [["onnx", verdict.left]]
        elif not with_ort:
            found["left"] = [["onnxruntime", "it is not installed"]]
        if verdict.wrong:
            found["wrong"]["onnx"] = verdict.wrong
            found["text"]["onnx"] = onnx_checks.described(case)[:4000]
        _say(found)


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


# ---- in the parent


class Tally:
    """What all children said."""

    def __init__(self) -> None:
        self.models = 0
        self.done: Counter[str] = Counter()
        self.left: Counter[tuple[str, str]] = Counter()
        self.taken: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self.differs: Counter[tuple[str, str]] = Counter()
        self.examples: dict[tuple[str, str], str] = {}
        self.findings: list[str] = []

    def add(self, said: dict[str, Any], seed: int) -> None:
        self.models += 1
        if self.models % 500 == 0:
            print(f"{self.models} models, {len(self.findings)} findings", flush=True)
        self.done.update(said.get("done", ()))
        self.left.update((name, why) for name, why in said.get("left", ()))
        for op, kind, n in said.get("taken", ()):
            self.taken[op, kind] += n
        for op, why, n in said.get("refused", ()):
            self.refused[op, why] += n
        for who, op, line in said.get("differs", ()):
            key = (who, op or line)
            self.differs[key] += 1
            self.examples.setdefault(key, f"model {said['number']}: {line}")
        for name, lines in said["wrong"].items():
            small = said.get("text", {}).get(name, "")
            text = "\n  ".join([f"seed {seed} model {said['number']}, {name}:", *lines[:4]])
            self.finding(f"{text}\n{small}")

    def finding(self, text: str) -> None:
        self.findings.append(text)
        print(f"FINDING {text}\n", flush=True)

    def _differences(self) -> None:
        """What others have and we have not: by reason where that is known."""
        from support.random_models.onnx_checks import reason

        known: Counter[tuple[str, str]] = Counter()
        for (who, what), n in self.differs.items():
            if why := reason(who, what):
                known[who, why] += n
        for (who, why), n in known.most_common():
            print(f"  {n} differ: {who}: {why}")
        for (who, what), n in self.differs.most_common():
            if not reason(who, what):
                example = self.examples[who, what]
                print(f"  {n} differ: {who}, reason not known: {what[:160]}; {example[:240]}")

    def report(self, onnx: bool) -> None:
        from qnnrt._native.op_table import op_table

        print(f"{self.models} models; checks done: {dict(self.done)}")
        left: Counter[str] = Counter()
        for (name, _), n in self.left.items():
            left[name] += n
        print(f"models that a backend does not take: {dict(left)}")
        if onnx:
            self._differences()
        ops: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for (op, kind), n in self.taken.items():
            ops[op] += n
            kinds[kind] += n
        print("nodes by type:", ", ".join(f"{k} {n}" for k, n in kinds.most_common()))
        print("nodes by op:", ", ".join(f"{k} {n}" for k, n in sorted(ops.items())))
        if onnx:
            from support.random_models.onnx_checks import RULES

            print("operators never reached:", sorted(set(RULES) - set(ops)) or "none")
            print(f"{len(self.findings)} findings")
            return
        pairs = {
            (name, kind)
            for name, r in op_table().items()
            for kind in (r["inputs"][0]["types"] if r["inputs"] else ())
        }
        missing = sorted(pairs - set(self.taken))
        print(f"op and type of input 0: {len(pairs) - len(missing)} of {len(pairs)} reached")
        print("ops never reached:", sorted(set(op_table()) - set(ops)) or "none")
        rest = Counter(kind for _, kind in missing)
        print("not reached, by type:", dict(rest.most_common()))
        refused = Counter({key: n for key, n in self.refused.items() if "unfit" not in key[1]})
        print(f"nodes that the backend refused: {refused.total()}")
        for (op, why), n in refused.most_common(10):
            print(f"  {n} {op}: {why[:200]}")
        print(f"{len(self.findings)} findings")


def batch(o: argparse.Namespace, first: int, count: int, tally: Tally) -> None:
    """Models in a child; after one that kills it another child goes on behind."""
    while count > 0:
        at, check, died = first, "", False
        command = [sys.executable, __file__, "--child", *_passed_on(o)]
        command += ["--first", str(first), "--count", str(count)]
        with (
            tempfile.TemporaryFile("w+", errors="replace") as errors,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=None if o.verbose else errors, text=True
            ) as process,
        ):
            timer = Watch(process)
            assert process.stdout is not None
            for line in process.stdout:
                timer.heard()
                if not line.startswith("{"):
                    continue
                said = json.loads(line)
                if "begin" in said:
                    at, check = said["begin"], "generator"
                elif "check" in said:
                    check = said["check"]
                else:
                    tally.add(said, o.seed)
            died = process.wait() != 0
            timer.stop()
            errors.seek(0)
            last = errors.read()[-3000:]
        if not died:
            return
        how = "hung" if timer.hung else f"ended with {process.returncode}"
        tally.finding(f"seed {o.seed} model {at}, {check}: the process {how}\n{last}")
        count -= at + 1 - first
        first = at + 1


class Watch:
    """Ends a child that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.hung, self.last = process, False, time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def heard(self) -> None:
        self.last = time.monotonic()

    def _watch(self) -> None:
        while not self.over.wait(1):
            if time.monotonic() - self.last > PATIENCE:
                self.hung = True
                self.process.send_signal(signal.SIGKILL)
                return

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def _passed_on(o: argparse.Namespace) -> list[str]:
    given = ["--seed", str(o.seed), "--backends", o.backends, "--only", o.only]
    given += ["--checks", o.checks] if o.checks else []
    given += ["--theme", o.theme] if o.theme else []
    return given + [
        f
        for f, on in (("--verbose", o.verbose), ("--onnx", o.onnx), ("--no-shrink", o.no_shrink))
        if on
    ]


def main() -> int:
    o = options()
    if o.child:
        child(o)
        return 0
    wanted(o)
    from support.outside import PATHS

    os.environ["PYTHONPATH"] = PATHS
    print(f"seed {o.seed}, models {o.first} to {o.first + o.count - 1}", flush=True)
    tally, began = Tally(), time.monotonic()
    with ThreadPoolExecutor(o.workers) as pool:
        ends = range(o.first, o.first + o.count, BATCH)
        jobs = [pool.submit(batch, o, i, min(BATCH, o.first + o.count - i), tally) for i in ends]
        for job in jobs:
            job.result()
    tally.report(o.onnx)
    print(f"{time.monotonic() - began:.0f} s")
    return bool(tally.findings)


if __name__ == "__main__":
    sys.exit(main())
