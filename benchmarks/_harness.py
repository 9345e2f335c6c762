"""What every benchmark here shares: interleaved rounds, medians, ratios, JSON.

All ways of a case are timed in one process in interleaved rounds, because machines drift: a round
takes one sample of each way, in an order that rotates. A sample is the mean of as many calls as
fill the sample time. Reported are the median over the rounds, the 10th and 90th percentile, and the
ratio to the case's own way: the median of the ratios within a round. The garbage collector is off
while the clock runs. Results are compared across the ways before anything is timed. A way whose
package is missing is reported as such.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "qnnrt", "numpy", "onnxruntime", "openvino", "ai-edge-litert", "onednn-cpu-gomp",
    "torch", "ncnn", "executorch", "ray",
)  # fmt: skip
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

Call = Callable[[], object]


def optional(module: str) -> ModuleType | None:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


@dataclass
class Way:
    """One way to do what a case is about."""

    name: str
    call: Call | None  # None: not there, for the reason given
    reason: str = ""
    sample: Callable[[int], float] | None = None  # seconds for n calls, where a loop will not do
    calls: int = 1
    times: list[float] = field(default_factory=list)  # seconds for a call, one for each round
    facts: dict[str, Any] = field(default_factory=dict)  # what else the report says of it


#: Before each sample. Threads of the previous runtime poll for work for some milliseconds, and
#: would have a core that this one counts on.
REST_S = 0.01
#: That a case has even where its time is up.
LEAST_ROUNDS = 3


def loop(call: Call, n: int) -> float:
    """Seconds for a call, the mean of n, with the garbage collector off.

    One call goes before them: what the previous way left in the caches must not count here.
    """
    times = repeat(None, n)
    gc.disable()
    call()
    start = time.perf_counter()
    for _ in times:
        call()
    seconds = time.perf_counter() - start
    gc.enable()
    return seconds / n


class Case:
    """Ways to do one thing, the first one being the one that the others are compared with."""

    def __init__(self, bench: Benchmark, name: str, unit: str, moved: int) -> None:
        self.bench, self.name, self.unit, self.moved = bench, name, unit, moved
        self.ways: list[Way] = []
        self.strangers = 0.0

    def add(self, name: str, call: Call, **facts: Any) -> None:
        self.ways.append(Way(name, call, facts=facts))

    def sampled(self, name: str, sample: Callable[[int], float]) -> None:
        """A way that times itself: `sample(n)` is the mean of n calls, in seconds."""
        self.ways.append(Way(name, lambda: sample(1), sample=sample))

    def missing(self, name: str, reason: str = "not installed") -> None:
        self.ways.append(Way(name, None, reason))

    def sample(self, way: Way, n: int) -> float:
        assert way.call is not None
        return way.sample(n) if way.sample else loop(way.call, n)

    def measure(self) -> Case:
        ways = [way for way in self.ways if way.call is not None]
        options = self.bench.options
        for way in ways:
            self.warm_up(way, options.sample_ms / 1e3)
        before, start = other_busy_seconds(), time.perf_counter()
        for i in range(options.rounds):
            late = time.perf_counter() - start > options.limit_s
            if late and i >= min(LEAST_ROUNDS, options.rounds):
                break
            gc.collect()
            first = i % len(ways)
            for way in ways[first:] + ways[:first]:
                time.sleep(REST_S)
                way.times.append(self.sample(way, way.calls))
        self.strangers = (other_busy_seconds() - before) / (time.perf_counter() - start)
        self.bench.show(self)
        return self

    def warm_up(self, way: Way, seconds: float) -> None:
        """Calls until a sample is long enough, which also fills caches and wakes threads."""
        while True:
            took = self.sample(way, way.calls) * way.calls
            if took >= seconds or way.calls >= 1 << 24:
                return
            way.calls = max(way.calls + 1, min(way.calls * 8, int(way.calls * seconds / took) + 1))

    def rows(self) -> list[dict[str, Any]]:
        base = next((way for way in self.ways if way.call is not None), None)
        rows: list[dict[str, Any]] = []
        for way in self.ways:
            if way.call is None or base is None:
                rows.append({"name": way.name, "missing": way.reason})
                continue
            low, median, high = percentiles(way.times)
            ratio = statistics.median(t / b for t, b in zip(way.times, base.times, strict=True))
            row = {
                "name": way.name,
                "seconds": {"median": median, "p10": low, "p90": high, "min": min(way.times)},
                "ratio": ratio,
                "calls_per_sample": way.calls,
                **way.facts,
            }
            if self.moved:
                row["gigabytes_per_second"] = self.moved / median / 1e9
            rows.append(row)
        return rows


def percentiles(times: list[float]) -> tuple[float, float, float]:
    """10 %, 50 % and 90 %."""
    low, median, high = np.percentile(times, [10, 50, 90])
    return float(low), float(median), float(high)


def other_busy_seconds() -> float:
    """Processor seconds spent on anything but this process, since the machine started."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    total = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return total - time.process_time()


def machine() -> dict[str, Any]:
    """What the numbers depend on, as text that names no host."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    if versions["qnnrt"] == "not installed":  # a checkout on PYTHONPATH
        versions["qnnrt"] = importlib.import_module("qnnrt").__version__
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
        "load_average": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


class Benchmark:
    """Options, cases, the report."""

    def __init__(
        self,
        name: str,
        description: str,
        *,
        rounds: int = 25,
        sample_ms: float = 20,
        more: Callable[[argparse.ArgumentParser], object] | None = None,
    ) -> None:
        parser = argparse.ArgumentParser(description=description.strip().partition("\n")[0])
        parser.add_argument("--smoke", action="store_true", help="seconds: shows that it runs")
        parser.add_argument("--rounds", type=int, help=f"samples of each way (default {rounds})")
        parser.add_argument("--sample-ms", type=float, help=f"of a sample (default {sample_ms})")
        parser.add_argument(
            "--limit-s", type=float, default=math.inf, help="no round of a case begins after that"
        )
        parser.add_argument("--json", type=Path, help="where to write (default results/NAME.json)")
        if more is not None:
            more(parser)
        self.options = parser.parse_args()
        self.smoke: bool = self.options.smoke
        if self.options.rounds is None:
            self.options.rounds = 3 if self.smoke else rounds
        if self.options.sample_ms is None:
            self.options.sample_ms = 1 if self.smoke else sample_ms
        if self.options.rounds < 1:
            parser.error("--rounds must be at least 1")
        self.name = name
        self.machine = machine()
        self.cases: list[Case] = []
        self.elsewhere: list[dict[str, Any]] = []  # cases that other processes measured
        self.extra: dict[str, Any] = {}  # what a benchmark reports beside times
        print(f"{name}: {self.machine['processor']}, {self.machine['cores']} cores, ", end="")
        print(f"{self.options.rounds} rounds of {self.options.sample_ms:g} ms for each way")

    def case(self, name: str, unit: str = "us", moved: int = 0) -> Case:
        """A case; `moved` bytes a call adds gigabytes per second to the report."""
        case = Case(self, name, unit, moved)
        self.cases.append(case)
        return case

    def show(self, case: Case) -> None:
        scale = UNITS[case.unit]
        print(f"\n{case.name}   [others used {case.strangers:.2f} cores]")
        print(f"  {'':34}{'median':>10} {case.unit:2} {'p10 .. p90':>19}  ratio")
        for row in case.rows():
            if "missing" in row:
                print(f"  {row['name']:34}{row['missing']}")
                continue
            s = {k: v * scale for k, v in row["seconds"].items()}
            spread = f"{s['p10']:.3f} .. {s['p90']:.3f}"
            line = f"  {row['name']:34}{s['median']:10.3f}    {spread:>19} {row['ratio']:6.2f}"
            if case.moved:
                line += f"  {row['gigabytes_per_second']:6.1f} GB/s"
            if "max_error" in row:
                line += f"  {row['private_bytes'] / 2**20:6.0f} MiB  error {row['max_error']:.1e}"
                line += f"  {row['precision']}" if "precision" in row else ""
                line += f"  {row['inexact']}" if "inexact" in row else ""
            print(line, flush=True)

    def means(self, ratios: dict[str, list[float]]) -> None:
        """Shows and reports the geometric mean of each list of ratios."""
        rows = self.extra.setdefault("geometric_means", [])
        for name, values in ratios.items():
            mean = statistics.geometric_mean(values)
            rows.append({"name": name, "ratio": mean, "cases": len(values)})
            if len(rows) == 1:
                print("\ngeometric means of the ratios")
            print(f"  {name:60}{mean:6.2f}  of {len(values)}")

    def reported(self) -> list[dict[str, Any]]:
        """All cases as the report has them."""
        return self.elsewhere + [
            {"name": c.name, "others_used_cores": round(c.strangers, 3), "ways": c.rows()}
            for c in self.cases
        ]

    def finish(self) -> None:
        """Writes the JSON report."""
        path = self.options.json or RESULTS / f"{self.name}{'-smoke' * self.smoke}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        report = {
            "benchmark": self.name,
            "smoke": self.smoke,
            "machine": self.machine,
            "rounds": self.options.rounds,
            "cases": self.reported(),
            **self.extra,
        }
        path.write_text(json.dumps(report, indent=1) + "\n")
        print(f"\nwritten to {path}")


def at_once(*calls: Callable[[], object]) -> Callable[[int], float]:
    """Seconds for a call of n of each of these, which are made at once, in a thread for each."""

    def sample(n: int) -> float:
        start = threading.Barrier(len(calls) + 1)

        def work(call: Callable[[], object]) -> None:
            start.wait()
            for _ in range(n):
                call()

        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        start.wait()
        begun = time.perf_counter()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - begun) / n

    return sample


def same(name: str, got: np.ndarray, expected: np.ndarray, rtol: float = 1e-5) -> None:
    """Ways are compared only when they compute the same."""
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(
        got.reshape(expected.shape),
        expected,
        rtol=rtol,
        atol=rtol * 1e-2 * scale,
        err_msg=f"{name} computes something else",
    )
