"""From a file to a session: the time that it takes and the memory, against ONNX Runtime.

    python benchmarks/load.py [--smoke] [--json FILE] [--networks NAME...] [--threads N...]
                              [--folder DIR]

The nine networks that the onnx package ships (with random weights, where ONNX Runtime can scale
them), a temporal convolutional network of 58 nodes, a transformer's encoder of 110 MB, in one file
and with its weights beside it, a network of large convolutions and, where torch is installed, those
of tests/models. Each runtime loads the same
file, in processes of its own, which take turns; the files are in the page cache.

- "session": a session from the path, in a process that has loaded the same file before;
- "session and first run": until it has given its first result;
- "fresh process": the program starts, imports what it needs, loads, and runs once.

Memory is private: what no file is behind, beyond the imported program. The peak is that of the
first session and its first run, "held" is what it keeps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _harness import Benchmark, Case, Way, optional, other_busy_seconds, same
from _trial import keeping_compiled, private_bytes

MIB = 1 << 20
OURS, OTHER = "qnnrt", "onnxruntime"
TIMES = {
    "session": "session",
    "total": "session and first run",
    "fresh": "fresh process to the first result",
}
LOADS = 5  # in a process, after the first


# ---- in a process of its own


def session_of(runtime: str, path: str, threads: int) -> Any:
    """What runs a new session once on zeros."""
    if runtime == OURS:
        import qnnrt

        ours = qnnrt.Session(path, threads=threads)

        def run() -> np.ndarray:
            ours.run()
            return next(iter(ours.outputs.values())).array.copy()

        return run
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    theirs = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feeds = {i.name: np.zeros(i.shape, types[i.type]) for i in theirs.get_inputs()}
    return lambda: np.asarray(theirs.run(None, feeds)[0])


def work(runtime: str, path: str, threads: int) -> None:
    """One session in the fresh process, then some more; a line of JSON for the other process."""
    begun = time.perf_counter()
    if runtime == OURS:
        from qnnrt.importers import onnx as _
    else:
        import onnxruntime  # noqa: F401
    imported = time.perf_counter()
    print(json.dumps({"before": private_bytes()}), flush=True)
    sys.stdin.readline()  # from here on memory is watched
    start = time.perf_counter()
    run = session_of(runtime, path, threads)
    y = run()
    report: dict[str, Any] = {"fresh": imported - begun + time.perf_counter() - start}
    report |= {"import": imported - begun, "held": private_bytes(), "y": y.ravel()[:64].tolist()}
    print(json.dumps(report), flush=True)
    sys.stdin.readline()
    samples: dict[str, list[float]] = {"session": [], "total": []}
    for _ in range(LOADS):
        del run
        start = time.perf_counter()
        run = session_of(runtime, path, threads)
        samples["session"].append(time.perf_counter() - start)
        run()
        samples["total"].append(time.perf_counter() - start)
    print(json.dumps(samples), flush=True)


# ---- the process that asks


def sample(runtime: str, path: Path, threads: int) -> dict[str, Any]:
    """What one process tells, and the peak of its memory while it made its first session."""
    command = [sys.executable, __file__, "--work", runtime, str(path), str(threads)]
    begun = time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=keeping_compiled(), **pipes) as process:  # type: ignore[call-overload]

        def line() -> dict[str, Any]:
            return dict(json.loads(process.stdout.readline()))

        def go() -> None:
            process.stdin.write("\n")
            process.stdin.flush()

        before = line()["before"]
        started = time.perf_counter() - begun
        go()
        peak = watched(process)
        report = line()
        report["fresh"] += started - report["import"]
        report["peak"] = max(peak, report["held"]) - before
        report["held"] -= before
        go()
        report |= {key: statistics.median(values) for key, values in line().items()}
    return report


def watched(process: subprocess.Popen[str]) -> int:
    """The peak until the process has something to say."""
    import select

    peak = 0
    while not select.select([process.stdout], [], [], 0.001)[0]:
        peak = max(peak, private_bytes(process.pid))
    return peak


def measure(bench: Benchmark, name: str, path: Path, threads: int) -> dict[str, Any]:
    text = f"{name}, {threads} thread{'s' * (threads > 1)}"
    runtimes = [OURS] if optional("onnxruntime") is None else [OURS, OTHER]
    ways = {key: {r: Way(r, lambda: None) for r in runtimes} for key in TIMES}
    memory: dict[str, dict[str, list[int]]] = {r: {"peak": [], "held": []} for r in runtimes}
    first: dict[str, np.ndarray] = {}
    before, start = other_busy_seconds(), time.perf_counter()
    for i in range(bench.options.rounds):
        for runtime in runtimes if i % 2 == 0 else runtimes[::-1]:
            found = sample(runtime, path, threads)
            for key in TIMES:
                ways[key][runtime].times.append(found[key])
            for key in ("peak", "held"):
                memory[runtime][key].append(found[key])
            first.setdefault(runtime, np.array(found["y"]))
    for runtime, y in first.items():
        same(f"{name} in {runtime}", y, first[OURS], rtol=1e-3)
    # The workers are this benchmark's own; others cannot be told from them.
    busy = (other_busy_seconds() - before) / (time.perf_counter() - start)
    row: dict[str, Any] = {"name": text, "file": size_of(path), "ratios": {}}
    for key, title in TIMES.items():
        case: Case = bench.case(f"{text}: {title}", "ms")
        case.ways += list(ways[key].values())
        case.strangers = busy
        if OTHER not in runtimes:
            case.missing(OTHER)
        bench.show(case)
        row["ratios"][key] = case.rows()[-1].get("ratio")
    for runtime, values in memory.items():
        row[runtime] = {key: statistics.median(found) for key, found in values.items()}
    return row


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


def show_memory(rows: list[dict[str, Any]]) -> None:
    print(f"\n{'private MiB':30}{'files':>8}", end="")
    print("".join(f"{f'{r}, {k}':>19}" for r in (OURS, OTHER) for k in ("peak", "held")))
    for row in rows:
        values = "".join(
            f"{row[r][key] / MIB:19.1f}" if r in row else f"{'-':>19}"
            for r in (OURS, OTHER)
            for key in ("peak", "held")
        )
        print(f"{row['name']:30}{row['file'] / MIB:8.1f}{values}")


# ---- the files


def built(name: str) -> onnx.ModelProto:
    import _built_networks as networks

    makers = {"tcn": networks.tcn, "encoder": networks.encoder, "wide_cnn": networks.wide_cnn}
    return makers[name.removesuffix("_beside")]()


BUILT = ("tcn", "encoder", "encoder_beside", "wide_cnn")


def names() -> list[str]:
    from _networks import LIGHT
    from _networks import names as all_names

    light = [] if optional("onnxruntime") is None else list(LIGHT)
    others = [name for name in all_names() if name not in LIGHT and name not in BUILT]
    return [*light, *BUILT, *others]


def write(name: str, folder: Path) -> Path:
    from _networks import LIGHT, light

    path = folder / name / "model.onnx"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    if name not in LIGHT and name not in BUILT:
        from _networks import network

        from export_networks import exported

        return exported(network(name, tiny=False), path)
    model = light(name) if name in LIGHT else built(name)
    beside = name.endswith("_beside")
    onnx.save(model, path, save_as_external_data=beside, location="weights" if beside else None)
    return path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--networks", nargs="+", choices=names(), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--folder", type=Path, help="for the files (default: a temporary one)")


def main() -> None:
    bench = Benchmark("load", __doc__, rounds=5, more=arguments)
    if bench.smoke:
        bench.options.rounds = 1
    chosen = bench.options.networks or (["tcn"] if bench.smoke else names())
    threads = bench.options.threads or [min(2, len(os.sched_getaffinity(0)))]
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen:
            path = write(name, bench.options.folder or Path(temporary))
            rows += [measure(bench, name, path, n) for n in threads]
    ratios: dict[str, list[float]] = {}
    for row in rows:
        for key, title in TIMES.items():
            if row["ratios"][key] is not None and OTHER in row:
                ratios.setdefault(f"{OTHER}, {title}", []).append(row["ratios"][key])
        for key in ("peak", "held") if OTHER in row else ():
            ratios.setdefault(f"{OTHER}, {key} private memory", []).append(
                row[OTHER][key] / max(row[OURS][key], 1)
            )
    show_memory(rows)
    bench.means(ratios)
    bench.extra["memory"] = rows
    bench.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
