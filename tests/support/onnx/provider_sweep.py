"""Single operators through ONNX Runtime's QNN provider, on one backend library and on another."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from support import records
from support.onnx.single_op_models import Batch, Case, Expected, case, expected_of

TESTS = Path(__file__).resolve().parents[2]
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


def work() -> None:
    """For the library and batches of standard input a record each: answers, or what went wrong."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # a library may print
        library, batches = pickle.load(sys.stdin.buffer)
        for batch in batches:
            try:
                found: Any = _answers(library, batch)
            except Exception as e:
                found = str(e)
            records.answer(out, found)
    os._exit(0)  # whatever a foreign library does at its exit does not matter here


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
            [sys.executable, "-c", f"from {__name__} import work; work()"],
            input=pickle.dumps((library, waiting)),
            capture_output=True,
            timeout=SECONDS + 20 * len(waiting),
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": str(TESTS),  # and not the libraries of this package
                "QNNRT_PACKAGE_LIBS": str(Path(sys.prefix, "lib")),
                "LD_LIBRARY_PATH": str(Path(library).parent),
            },
        )
        if child.returncode == 1 and not child.stdout:
            raise RuntimeError(child.stderr.decode(errors="replace")[-2000:])
        whole = list(records.answers(child.stdout))
        again = []
        for i, batch in enumerate(waiting[: len(whole) + 1]):
            record = whole[i] if i < len(whole) else None
            if isinstance(record, dict):
                found.update(record)
            elif len(batch.cases) > 1:
                again += _halves(batch)
            else:
                last = child.stderr.decode(errors="replace").rstrip().rpartition("\n")[2]
                text = record or f"exit status {child.returncode}: {last.strip()}"
                stage = "crash" if record is None else "failed"
                found[batch.cases[0].number] = Answer(stage, text)
        waiting = again + waiting[len(whole) + 1 :]
    return found


# ---- what they say of each other -----------------------------------------------------------------


def distance(answer: Answer, expected: Expected) -> float:
    """From what is expected: in steps of the output's encoding, or relative to its size."""
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
TOLERANCE = {"f32": 1e-4, "f16": 2e-3, "u8": 1.01, "s8": 1.01, "u16": 2.01}


@dataclass
class Pair:
    """One case on both libraries."""

    case: Case
    theirs: Answer
    ours: Answer
    apart: tuple[float, float] = (0.0, 0.0)  # theirs and ours, from ONNX Runtime's result
    between: float = 0.0  # of theirs and ours

    @property
    def wrong(self) -> bool:
        """Taken here, and further off than the vendor's (where that does not take it: at all)."""
        allowed = TOLERANCE[self.case.kind]
        return self.ours.taken and not self.apart[1] <= self.apart[0] + allowed

    @property
    def elsewhere(self) -> bool:
        """Taken by both, off on both, and not by giving the node the same meaning."""
        allowed = TOLERANCE[self.case.kind]
        return (
            self.theirs.taken
            and not self.wrong
            and self.apart[1] > allowed
            and not self.between <= 2 * allowed
        )

    @property
    def label(self) -> str:
        return f"{self.case.number} {self.case.kind} {self.case.node.label}"


def _alike(case: Case) -> tuple[Any, ...]:
    x = case.node.inputs[0]
    return case.node.op, case.kind, 0 if x is None else x.ndim, case.number


def sweep(
    libraries: tuple[str, str],
    count: int,
    seed: int,
    size: int = SIZE,
    jobs: int = 1,
    first: int = 0,
) -> list[Pair]:
    """``count`` cases of a seed on the vendor's library and on ours, in this order, but for those
    without a kernel in ONNX Runtime itself."""
    batches, expected = [], {}
    # Those that share a fate lie in one model: then few of its parts have to be tried.
    cases = sorted((case(seed, first + n) for n in range(count)), key=_alike)
    waiting = [cases[at : at + size] for at in range(0, count, size)]
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
        right = expected[c.number]
        apart = [distance(x, right) if x.taken else 0.0 for x in (a, b)]
        both = a.taken and b.taken
        between = distance(b, Expected(a.values, right.steps)) if both else 0.0
        pairs.append(Pair(c, a, b, (apart[0], apart[1]), between))
    return pairs


def vendor() -> str:
    import onnxruntime_qnn

    return str(Path(onnxruntime_qnn.__file__).parent / "libQnnHtp.so")


def own() -> str:
    import qnnrt

    return str(Path(qnnrt.__file__).parent / "lib" / "libQnnHtp.so")
