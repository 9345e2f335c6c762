"""A runtime runs a network in a process of its own, once, before it is timed with the others.

So a crash ends nothing, and what memory it takes is its own.
"""

from __future__ import annotations

import compileall
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _harness import optional
from _networks import Job, prepare
from _peers import CONVERTERS, MODULES, RUNTIMES, Unavailable

import qnnrt

LIMIT_S = 900


@dataclass
class Trial:
    """`reason` says why there are no results, `inexact` what is wrong with them. `private` is the
    peak in bytes, of what loading and running takes in anonymous and shared memory, without the
    program's own."""

    reason: str = ""
    inexact: str = ""
    results: list[np.ndarray] = field(default_factory=list)
    private: int = 0
    seconds: float = 0.0  # to load and run once
    precision: str = ""
    further: list[list[np.ndarray]] = field(default_factory=list)  # of the job's further inputs


def private_bytes(process: int | str = "self") -> int:
    """Memory that no file is behind. Shared memory counts: buffers between processes lie there."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    fields = dict(line.split(":", 1) for line in lines)
    kept = (fields.get(name, "0 kB").split()[0] for name in ("RssAnon", "RssShmem"))
    return 1024 * sum(map(int, kept))


def keeping_compiled() -> dict[str, str]:
    """The environment in which compiled modules are kept, as those of an installed package are."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def told(error: Exception) -> str:
    if isinstance(error, Unavailable):
        return str(error)
    text = " ".join(str(error).split())
    return f"refuses it: {type(error).__name__}: {text[:160]}"


def child(runtime: str, job: Job, threads: int, target: Path) -> None:
    """Loads and runs; writes what came out, or why nothing did."""
    report: dict[str, Any] = {}
    try:
        optional(MODULES.get(runtime, "qnnrt"))
        gc.collect()
        report["before"] = private_bytes()
        start = time.perf_counter()
        running = RUNTIMES[runtime](job, threads)
        running.call()
        report["seconds"] = time.perf_counter() - start
        report["precision"] = running.precision
        for i in range(job.inputs):
            if i > 0:
                for name, array in job.feeds(i).items():
                    running.inputs[name][...] = array
                running.call()
            np.savez(target / f"results-{i}.npz", *(np.array(y) for y in running.results()))
    except Exception as error:
        report["reason"] = told(error)
    (target / "report.json").write_text(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # what a runtime does at its end is not asked


def run(
    mode: str,
    runtime: str,
    job: Job,
    threads: int,
    target: Path,
    seen: int | None = subprocess.DEVNULL,
) -> tuple[int, int]:
    """The exit code, and the peak of what the process had; what it says goes to `seen`."""
    plan = asdict(job) | {"folder": str(job.folder.absolute())}
    plan |= {"threads": threads, "target": str(target)}
    command = [sys.executable, __file__, mode, runtime, json.dumps(plan)]
    peak = 0
    given: dict[str, Any] = {"cwd": target, "env": keeping_compiled()}
    with subprocess.Popen(command, stdout=seen, stderr=seen, **given) as process:
        ended = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.wait(0.002):
                peak = max(peak, private_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        finally:
            ended.set()
            watcher.join()
    return code, peak


def prepared(name: str, precision: str, folder: Path, tiny: bool, inputs: int = 1) -> Job:
    """A job with all of its files: torch leaves threads behind that the clock must not see."""
    job = Job(name, precision, folder, tiny, inputs)
    compileall.compile_dir(Path(qnnrt.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as target:
        code, _ = run("prepare", "", job, 1, Path(target), seen=None)
    if code:
        raise RuntimeError(f"{name} could not be built: {code}")
    return job


def trial(runtime: str, job: Job, threads: int) -> Trial:
    """What `runtime` makes of the job in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        target = Path(name)
        if runtime in CONVERTERS:
            run("convert", runtime, job, threads, target)
        code, peak = run("run", runtime, job, threads, target)
        if code < 0:
            return Trial(f"crashes ({signal.Signals(-code).name})")
        if not (target / "report.json").exists():
            return Trial(f"ends with {code}")
        report = json.loads((target / "report.json").read_text())
        if "reason" in report:
            return Trial(report["reason"])
        results = []
        for i in range(job.inputs):
            with np.load(target / f"results-{i}.npz") as file:
                results.append(list(file.values()))
    return Trial(
        results=results[0],
        private=max(0, peak - report["before"]),
        seconds=report["seconds"],
        precision=report["precision"],
        further=results[1:],
    )


def main() -> None:
    mode, runtime, plan = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    threads, target = plan.pop("threads"), Path(plan.pop("target"))
    job = Job(**plan | {"folder": Path(plan["folder"])})
    if mode == "prepare":
        prepare(job)
    elif mode == "run":
        child(runtime, job, threads, target)
    elif not job.file(f"-{runtime}.converted").exists():
        CONVERTERS[runtime](job)
        job.file(f"-{runtime}.converted").touch()


if __name__ == "__main__":
    main()
