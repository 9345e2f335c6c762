"""A network of 500 MB: ready and first result, from a context binary, from ONNX, in ONNX Runtime.

    python benchmarks/binary_load.py [--smoke] [--json FILE] [--processes N] [--folder DIR]

VGG-19 with random weights (SqueezeNet with --smoke). Each way in processes of its own, interleaved:
libraries are imported first, then the clock runs until the session is there ("load"), and until it
has given its first result ("load and first run"). The files are in the page cache. The results are
compared. Then N processes (4) load the same file, run once and stay: what they hold, as the kernel
counts it. RSS is what a process has mapped; PSS divides shared pages among those who share them, so
the sum over the processes is what the machine gives; private is what nobody shares.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, Case, Way, optional, other_busy_seconds, same

sys.path.append(str(Path(__file__).parents[1] / "tools"))

MIB = 1 << 20
BINARY, MODEL, OTHER = "qnnrt, context binary", "qnnrt, ONNX", "onnxruntime, ONNX"
WAYS = {BINARY: ("binary", ".bin"), MODEL: ("onnx", ".onnx"), OTHER: ("onnxruntime", ".onnx")}


# ---- in a process of its own: load, run once, report, and stay until stdin ends


def held() -> dict[str, int]:
    """Memory of this process in bytes."""
    fields = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        fields[name.rstrip(":")] = int(value) * 1024
    private = fields["Private_Clean"] + fields["Private_Dirty"]
    return {"rss": fields["Rss"], "pss": fields["Pss"], "private": private}


def work(kind: str, model: str, feed: str, threads: int) -> None:
    x = np.load(feed)
    if kind == "onnxruntime":
        import onnxruntime as ort

        before = held()
        start = time.perf_counter()
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        loaded = time.perf_counter()
        y = session.run(None, {session.get_inputs()[0].name: x})[0]
    else:
        import qnnrt
        from qnnrt.importers import onnx as _  # noqa: F401 - imported before the clock runs

        before = held()
        start = time.perf_counter()
        given = {} if kind == "binary" else {"threads": threads}
        ours = qnnrt.Session(model, "htp", **given)
        loaded = time.perf_counter()
        next(iter(ours.inputs.values())).array[...] = x
        ours.run()
        y = next(iter(ours.outputs.values())).array
    done = time.perf_counter()
    print(json.dumps({"load": loaded - start, "total": done - start, "y": y.ravel()[:8].tolist()}))
    sys.stdout.flush()
    for line in sys.stdin:  # asked once everybody is there
        if line.strip() == "held":
            print(json.dumps({"before": before, "after": held()}), flush=True)


# ---- the process that asks


@dataclass
class Worker:
    process: subprocess.Popen[str]
    report: dict[str, Any] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"the worker ended with status {self.process.wait()}")
        return dict(json.loads(text))

    def ask(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("held\n")
        self.process.stdin.flush()
        return self.line()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Files:
    folder: Path
    threads: int

    def start(self, name: str) -> Worker:
        kind, suffix = WAYS[name]
        model, feed = self.folder / f"model{suffix}", self.folder / "x.npy"
        command = [sys.executable, __file__, "--work", kind, str(model), str(feed)]
        process = subprocess.Popen(
            [*command, str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        return Worker(process)


def prepare(folder: Path, name: str, threads: int) -> None:
    """The network as ONNX, an input for it, and a context binary out of it."""
    import onnx

    import qnnrt
    from zoo import client_models

    model = client_models.light_model(name, seed=1)
    del model.graph.output[1:]
    onnx.save(model, str(folder / "model.onnx"))
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
    np.save(folder / "x.npy", x)
    with qnnrt.Session(str(folder / "model.onnx"), "htp", threads=threads) as session:
        session.save_binary(folder / "model.bin")


def times(bench: Benchmark, files: Files, names: list[str], title: str) -> None:
    cases = {k: bench.case(f"{title}, {t}", "ms") for k, t in
             (("load", "load"), ("total", "load and first run"))}  # fmt: skip
    ways = {k: {n: Way(n, lambda: None) for n in names} for k in cases}
    first: dict[str, Any] = {}
    before, start = other_busy_seconds(), time.perf_counter()
    for i in range(bench.options.rounds):
        at = i % len(names)
        for name in names[at:] + names[:at]:
            worker = files.start(name)
            report = worker.line()
            worker.end()
            for key in cases:
                ways[key][name].times.append(report[key])
            first.setdefault(name, report["y"])
    # Workers are this benchmark's own; what strangers took cannot be seen from outside.
    busy = (other_busy_seconds() - before) / (time.perf_counter() - start)
    for key, case in cases.items():
        case.strangers = busy
        add(case, ways[key])
        bench.show(case)
    for name, y in first.items():
        same(name, np.array(y), np.array(first[names[0]]), rtol=1e-3)


def add(case: Case, ways: dict[str, Way]) -> None:
    case.ways += list(ways.values())
    if OTHER not in ways:
        case.missing(OTHER)


def memory(files: Files, name: str, processes: int) -> dict[str, Any]:
    """What several processes with the same file hold, all of them there at once."""
    workers = [files.start(name) for _ in range(processes)]
    for worker in workers:
        worker.report = worker.line()
    answers = [worker.ask() for worker in workers]
    for worker in workers:
        worker.end()
    after = [a["after"] for a in answers]
    return {
        "name": name,
        "processes": processes,
        "rss_each": max(a["rss"] for a in after),
        "private_each": max(a["private"] for a in after),
        "pss_sum": sum(a["pss"] for a in after),
        "pss_sum_before_load": sum(a["before"]["pss"] for a in answers),
    }


def show_memory(rows: list[dict[str, Any]]) -> None:
    print(f"\n{'MiB':34}{'RSS each':>10}{'private':>10}{'PSS, sum':>10}{'before':>10}")
    for row in rows:
        fields = ("rss_each", "private_each", "pss_sum", "pss_sum_before_load")
        values = "".join(f"{row[f] / MIB:10.0f}" for f in fields)
        print(f"{row['processes']} x {row['name']:30}{values}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=4, help="that share a file (default 4)")
    parser.add_argument("--threads", type=int, help="kernel threads (default: the cores)")
    parser.add_argument("--folder", type=Path, help="for the model files (default: a temporary)")


def main() -> None:
    bench = Benchmark("binary_load", __doc__, rounds=7, more=arguments)
    if optional("onnxruntime") is None:
        bench.case("all").missing("onnxruntime", "not installed: it scales the weights")
        bench.finish()
        return
    network = "squeezenet" if bench.smoke else "vgg19"
    threads = bench.options.threads or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=bench.options.folder) as folder:
        files = Files(Path(folder), threads)
        prepare(files.folder, network, threads)
        sizes = {p.suffix: p.stat().st_size for p in files.folder.glob("model.*")}
        print(", ".join(f"{s} {n / 1e6:.0f} MB" for s, n in sorted(sizes.items())))
        times(bench, files, list(WAYS), f"{network}, {threads} threads")
        rows = [memory(files, name, bench.options.processes) for name in WAYS]
    show_memory(rows)
    bench.extra = {"file_bytes": sizes, "memory": rows}
    bench.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        main()
