"""Random single operators through ONNX Runtime's QNN provider: on our HTP and on the vendor's.

    python tests/clients/ort_sweep.py --count 3000            # prints what differs
    python tests/clients/ort_sweep.py --count 3000 --write    # and writes docs/ort-sweep.md

Operators lie beside each other in models of a few dozen, so that a session serves many; where one
does not come up, or takes the process with it, its halves are tried. What is compared is how far
each library's result is from ONNX Runtime's own kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.onnx.single_op_models import (  # noqa: E402
    Batch,
    Case,
    Expected,
    case,
    expected_of,
)

PAGE = ROOT / "docs/ort-sweep.md"
SIZE = 24  # nodes of a model
SECONDS = 600  # for what a process is given


@dataclass
class Answer:
    """What came of one case on one library.

    stage: "ran", "left" (to ONNX Runtime's own kernels), "failed" (with its message) or "crash".
    """

    stage: str
    text: str = ""
    values: list[np.ndarray] = field(default_factory=list)

    @property
    def taken(self) -> bool:
        return self.stage == "ran"


# ---- a process with the provider in it -----------------------------------------------------------


def _session(library: str, model: bytes) -> Any:
    import onnxruntime as ort
    import onnxruntime_qnn as ort_qnn

    if ort_qnn.EP_NAME not in {d.ep_name for d in ort.get_ep_devices()}:
        ort.register_execution_provider_library(ort_qnn.EP_NAME, ort_qnn.get_library_path())
    devices = [d for d in ort.get_ep_devices() if d.ep_name == ort_qnn.EP_NAME]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": library})
    return ort.InferenceSession(model, options, enable_fallback=0)


def _answers(library: str, batch: Batch) -> dict[int, Answer]:
    """Raises what the session raises: some node of the batch is why."""
    session = _session(library, batch.model)
    assigned = {
        node.name.split("_token_")[0]  # its changes of layout rename nodes
        for part in session.get_provider_graph_assignment_info()
        if "QNN" in part.ep_name
        for node in part.get_nodes()
    }
    names = [name for c in batch.cases for name in c.outputs]
    values = dict(zip(names, session.run(names, batch.feeds), strict=True))
    return {
        c.number: Answer("ran", values=[values[n] for n in c.outputs])
        if c.name in assigned
        else Answer("left")
        for c in batch.cases
    }


def _work() -> None:
    """A record for each batch: answers, or what went wrong."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # a library may print
        library, batches = pickle.load(sys.stdin.buffer)
        for batch in batches:
            try:
                found: Any = _answers(library, batch)
            except Exception as e:
                found = str(e)
            record = pickle.dumps(found)
            out.write(struct.pack("<I", len(record)) + record)
            out.flush()
    os._exit(0)  # whatever a foreign library does at its exit does not matter here


def _records(data: bytes) -> Iterator[Any]:
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        if at + 4 + size > len(data):
            return
        yield pickle.loads(data[at + 4 : at + 4 + size])
        at += 4 + size


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.cases) // 2
    return [expected_of(part)[1] for part in (batch.cases[:middle], batch.cases[middle:])]


def answers(library: str, batches: Sequence[Batch]) -> dict[int, Answer]:
    """Of every case, by its number, from processes with the provider on this library.

    Raises:
        RuntimeError: a process does not get as far as the first case.
    """
    waiting, found = list(batches), {}
    while waiting:
        child = subprocess.run(
            [sys.executable, __file__, "--worker"],
            input=pickle.dumps((library, waiting)),
            capture_output=True,
            timeout=SECONDS + 20 * len(waiting),
            check=False,
            env={
                **os.environ,
                "QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib")),
                "LD_LIBRARY_PATH": str(Path(library).parent),
            },
        )
        if child.returncode == 1 and not child.stdout:
            raise RuntimeError(child.stderr.decode(errors="replace")[-2000:])
        records = list(_records(child.stdout))
        again = []
        for i, batch in enumerate(waiting[: len(records) + 1]):
            record = records[i] if i < len(records) else None
            if isinstance(record, dict):
                found.update(record)
            elif len(batch.cases) > 1:
                again += _halves(batch)
            else:
                text = record or f"exit status {child.returncode}"
                stage = "crash" if record is None else "failed"
                found[batch.cases[0].number] = Answer(stage, text)
        waiting = again + waiting[len(records) + 1 :]
    return found


# ---- what they say of each other -----------------------------------------------------------------


def distance(answer: Answer, expected: Expected) -> float:
    """From ONNX Runtime's result: in steps of the output's encoding, or relative to its size."""
    worst = 0.0
    for got, want, step in zip(answer.values, expected.values, expected.steps, strict=True):
        a, b = got.astype(np.float64), want.astype(np.float64)
        if a.shape != b.shape:
            return float("inf")
        with np.errstate(invalid="ignore"):
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        unit = step or max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        worst = max(worst, float(apart.max(initial=0)) / unit)
    return worst


#: How much further from ONNX Runtime's result ours may be than the vendor's.
TOLERANCE = {"f32": 1e-4, "u8": 1.01, "s8": 1.01, "u16": 2.01}


@dataclass
class Pair:
    """One case on both libraries."""

    case: Case
    theirs: Answer
    ours: Answer
    apart: tuple[float, float] = (0.0, 0.0)  # theirs and ours, from ONNX Runtime's result

    @property
    def wrong(self) -> bool:
        """Taken here, and further off than the vendor's (where that does not take it: at all)."""
        allowed = TOLERANCE[self.case.kind]
        return self.ours.taken and not self.apart[1] <= self.apart[0] + allowed

    @property
    def label(self) -> str:
        return f"{self.case.number} {self.case.kind} {self.case.node.label}"


def sweep(
    libraries: tuple[str, str], count: int, seed: int, size: int = SIZE, jobs: int = 1
) -> list[Pair]:
    """The first ``count`` cases of a seed on the vendor's library and on ours, in this order, but
    for those without a kernel in ONNX Runtime itself."""
    batches, expected = [], {}
    waiting = [[case(seed, n) for n in range(at, min(at + size, count))]
               for at in range(0, count, size)]  # fmt: skip
    while waiting:
        part = waiting.pop(0)
        try:
            found, batch = expected_of(part)
        except Exception:  # ONNX Runtime itself has no kernel for one of them
            middle = len(part) // 2
            waiting[:0] = [half for half in (part[:middle], part[middle:]) if middle]
            continue
        expected.update(found)
        batches.append(batch)
    with ThreadPoolExecutor(jobs) as pool:
        parts = [
            [pool.submit(answers, library, batches[i::jobs]) for i in range(jobs)]
            for library in libraries
        ]
        theirs, ours = ({k: v for p in some for k, v in p.result().items()} for some in parts)
    pairs = []
    for c in sorted((c for batch in batches for c in batch.cases), key=lambda c: c.number):
        a, b = theirs[c.number], ours[c.number]
        apart = [distance(x, expected[c.number]) if x.taken else 0.0 for x in (a, b)]
        pairs.append(Pair(c, a, b, (apart[0], apart[1])))
    return pairs


# ---- the page ------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def table(pairs: Sequence[Pair]) -> list[str]:
    by_op: dict[str, list[Pair]] = defaultdict(list)
    for p in pairs:
        by_op[p.case.node.op].append(p)
    heads = ("operator", "cases", "both", "ours alone", "vendor's alone", "neither",
             "floats: vendor's, ours", "steps: vendor's, ours")  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for op, some in sorted(by_op.items()):
        count = Counter((p.theirs.taken, p.ours.taken) for p in some)
        far = []
        for real in (True, False):
            both = [
                p.apart
                for p in some
                if p.theirs.taken and p.ours.taken and (p.case.kind == "f32") == real
            ]
            worst = [max((a[i] for a in both), default=0.0) for i in (0, 1)]
            far.append(", ".join(map(_number, worst)) if both else "-")
        cells = [op, len(some), *(count[k] for k in ((True, True), (False, True), (True, False),
                                                     (False, False))), *far]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def lists(pairs: Sequence[Pair]) -> list[str]:
    """What the vendor takes and we do not, and what is wrong here."""
    alone = [
        f"- {p.label}: {p.ours.stage} {p.ours.text[:160]}".rstrip()
        for p in pairs
        if p.theirs.taken and not p.ours.taken
    ]
    wrong = [
        f"- {p.label}: {_number(p.apart[1])}, the vendor's "
        + (_number(p.apart[0]) if p.theirs.taken else p.theirs.stage)
        for p in pairs
        if p.wrong
    ]
    none = ["None."]
    return [
        *("## Taken by the vendor's library alone", "", *(alone or none), ""),
        *("## Further from ONNX Runtime's result than the vendor's", "", *(wrong or none)),
    ]


def page(pairs: Sequence[Pair], count: int, seed: int) -> str:
    both = Counter((p.theirs.taken, p.ours.taken) for p in pairs)
    lines = [
        "# Operators through ONNX Runtime's provider",
        "",
        "Random nodes of one ONNX operator each, as ONNX Runtime's QNN provider gives them to a",
        "backend library: to `libQnnHtp.so` of this package, and to the vendor's x86 simulator.",
        "Written by",
        f"`python tests/clients/ort_sweep.py --count {count} --seed {seed} --write`;",
        "cases without a kernel in ONNX Runtime itself are left out.",
        "",
        f"Of {len(pairs)} cases {both[True, True]} are taken by both, {both[False, True]} by ours",
        f"alone, {both[True, False]} by the vendor's alone, {both[False, False]} by neither: those",
        "that the provider itself does not translate, or leaves to other kernels.",
        "",
        "The last two columns are the largest distances from the result of ONNX Runtime's own",
        "kernels, of cases that both take: in floats relative to the largest number of a result,",
        "in fixed point (8 or 16 bits, between Q and DQ nodes) in steps of the output's encoding.",
        "Where both are far off, and alike, the provider has given the node another meaning.",
        "",
        *table(pairs),
        "",
        *lists(pairs),
    ]
    return "\n".join(lines) + "\n"


def vendor() -> str:
    import onnxruntime_qnn

    return str(Path(onnxruntime_qnn.__file__).parent / "libQnnHtp.so")


def own() -> str:
    import qnnrt

    return str(Path(qnnrt.__file__).parent / "lib" / "libQnnHtp.so")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=SIZE, help="nodes of a model")
    parser.add_argument("--library", default=own(), help="ours, by its path")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--json", type=Path, help="write what was found for each case")
    args = parser.parse_args()
    pairs = sweep((vendor(), args.library), args.count, args.seed, args.size, args.jobs)
    text = page(pairs, args.count, args.seed)
    if args.json:
        args.json.write_text(json.dumps([
            [p.label, p.theirs.stage, p.theirs.text, p.ours.stage, p.ours.text, *p.apart]
            for p in pairs
        ], indent=0))  # fmt: skip
    if args.write:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    _work() if sys.argv[1:] == ["--worker"] else main()
