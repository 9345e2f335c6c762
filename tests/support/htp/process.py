"""Cases in a process of their own: a backend that crashes on one of them costs only that one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from qnnrt import qnn
from support import records
from support.one_node import Case, Outcome, outcome
from support.outside import PATHS


def run_cases(
    library: str,
    cases: Sequence[Case],
    timeout: float = 1800,
    custom: Sequence[bytes] = (),
    **device: Any,
) -> list[Outcome]:
    """The outcome of every case, in order; "crash" for one that took the process with it.

    custom: structs of the graphs' own options.

    Raises:
        RuntimeError: the process does not get as far as the first case.
    """
    done: list[Outcome] = []
    while len(done) < len(cases):
        child = subprocess.run(
            [sys.executable, "-m", __name__],
            input=pickle.dumps((library, device, custom, cases[len(done) :])),
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        found = list(records.answers(child.stdout))
        if not found:
            raise RuntimeError(f"{library} does not open: {child.stderr.decode()[-2000:]}")
        done += found[1:]
        if len(done) < len(cases):
            done.append(Outcome("crash", child.returncode))
    return done


def _serve(job: BinaryIO, out: BinaryIO) -> None:
    """Answers with a first record when the backend is there, and one for each case."""
    library, device, custom, cases = pickle.load(job)
    backend = qnn.Backend.open(library, log_level="error", **device)
    records.answer(out, "ready")
    for case in cases:
        records.answer(out, outcome(backend, case, custom))
    os._exit(0)  # whatever a foreign library does at its exit does not matter here


if __name__ == "__main__":
    # The library may print to stdout: the answers go to a copy of it, and the rest to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(sys.stdin.buffer, answers)
