"""Runs pytest again and again in children of one process, which has the big imports made already.

Reads a request a line, as JSON: "environment", "tests", and what they may take, "seconds" by the
clock and "cpu" seconds. Answers: "status", pytest's exit status or "time"; "tail", its last words.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

#: Of the address space of one child.
MEMORY = 8 << 30


def child(request: dict[str, Any], output: IO[bytes]) -> int:
    os.setpgid(0, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.environ.update(request["environment"])
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"] + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import pytest
    import sitecustomize

    sitecustomize.install()
    # A first failure decides about a mutant; where reach is measured, the others count, too.
    first = [] if "QNNRT_MUTANTS_RESULT" in request["environment"] else ["-x"]
    options = [*first, "-q", "-p", "no:cacheprovider", "-p", "mutation.pytest_reached", "-n0"]
    options += ["-m", "", "--tb=line"]
    return int(pytest.main([*options, *request["tests"]]))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = child(request, output)
            finally:
                os._exit(code)
        status: int | str | None = None
        while status is None:
            done, wait_status = os.waitpid(pid, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(wait_status)
            elif time.monotonic() - start > request["seconds"]:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                status = "time"
            else:
                time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it left behind
        output.seek(0)
        tail = output.read()[-1500:].decode(errors="replace")
    return {"status": status, "tail": tail}


def main() -> None:
    sys.path.insert(0, str(Path("tests").resolve()))
    for name in ("numpy", "onnx", "pytest", "_pytest.assertion.rewrite", "xdist", "hypothesis"):
        try:
            __import__(name)
        except ImportError:
            continue
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
