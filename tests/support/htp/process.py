"""Cases in a process of their own: a backend that crashes on one of them costs only that one."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from qnnrt import qnn
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
        found = list(_records(child.stdout))
        if not found:
            raise RuntimeError(f"{library} does not open: {child.stderr.decode()[-2000:]}")
        done += found[1:]
        if len(done) < len(cases):
            done.append(Outcome("crash", child.returncode))
    return done


def _records(data: bytes) -> Iterator[Any]:
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        if at + 4 + size > len(data):
            return
        yield pickle.loads(data[at + 4 : at + 4 + size])
        at += 4 + size


def _serve(job: BinaryIO, out: BinaryIO) -> None:
    """Answers with a first record when the backend is there, and one for each case."""

    def answer(found: Any) -> None:
        record = pickle.dumps(found)
        out.write(struct.pack("<I", len(record)) + record)
        out.flush()

    library, device, custom, cases = pickle.load(job)
    backend = qnn.Backend.open(library, log_level="error", **device)
    answer("ready")
    for case in cases:
        answer(outcome(backend, case, custom))
    os._exit(0)  # whatever a foreign library does at its exit does not matter here


if __name__ == "__main__":
    # The library may print to stdout: the answers go to a copy of it, and the rest to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(sys.stdin.buffer, answers)
