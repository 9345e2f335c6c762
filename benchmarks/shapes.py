"""One model in many shapes: what the first, the second and the eighth take, in memory and time.

    python benchmarks/shapes.py [--smoke] [--json FILE] [--threads N] [--folder DIR]
    python benchmarks/shapes.py --decoder FILE    # that qnnrt.llm.export wrote

BERT-base with random weights, 440 MB, for sequences of 16 to 128 words. A process makes a session
for each shape, from the same file, runs it once, and keeps it:

- "qnnrt": one session of a model of many shapes, which reads the file once (docs/shapes.md);
- "qnnrt, sessions": a session for each shape, which have their weights together as they do unless
  told otherwise;
- "qnnrt, each its own": with ``options={"share_weights": "nobody"}``;
- "qnnrt, one context": the shapes are graphs of one context, made through ``qnnrt.qnn``;
- "onnxruntime": a session for each shape;
- "onnxruntime, dynamic": one session that runs all shapes.

Of a decoder the shapes are 128 tokens and one, each from an empty cache.

Times are processor time, of what makes a shape ready and its first run, less that of a second run;
memory is private (what no file is behind), beyond the imported program, after that, and at the end
what is there of files, which processes share. Each process is a fresh one; they take turns.
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
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _harness import Benchmark, optional, same
from _trial import private_bytes

MIB = 1 << 20
LENGTHS = [128, 16, 32, 48, 64, 80, 96, 112]
PREFILL_AND_DECODE = [128, 1]
SHOWN = (1, 2, 8)  # which of them

Run = Callable[[np.ndarray], np.ndarray]


# ---- in a process of its own


def given(x: np.ndarray, decoder: bool) -> dict[str, np.ndarray]:
    if not decoder:
        return {"x": x}
    return {"tokens": x, "position": np.array([0]), "rows": np.array([x.shape[1] - 1])}


def sessions(path: str, threads: int, share: str) -> Callable[[tuple[int, int]], Run]:
    import qnnrt

    def make(shape: tuple[int, int]) -> Run:
        model = qnnrt.load(path, shapes={"x": shape})
        session = qnnrt.Session(model, threads=threads, options={"share_weights": share})
        return lambda x: session.run({"x": x})["y"]

    return make


def dynamic(path: str, threads: int) -> Callable[[tuple[int, int]], Run]:
    import qnnrt

    made: list[Any] = []

    def make(_: tuple[int, int]) -> Run:
        if not made:
            model = qnnrt.load(path, shapes="any")
            decoder = "tokens" in model.inputs
            if decoder:
                model.set_state("auto")
            options = {"max_shapes": len(LENGTHS)}
            made.append(qnnrt.Session(model, threads=threads, options=options))
            made.append(decoder)
        session, decoder = made
        return lambda x: next(iter(session.run(given(x, decoder)).values()))

    return make


def graphs(path: str, threads: int) -> Callable[[tuple[int, int]], Run]:
    import qnnrt
    from qnnrt.qnn.options import own_graph_config
    from qnnrt.session.build import add_model

    backend = qnnrt.qnn.Backend.open("cpu")
    context = backend.create_context()

    def make(shape: tuple[int, int]) -> Run:
        model = qnnrt.load(path, shapes={"x": shape})
        config = own_graph_config(backend.library, threads=threads, release_constants=True)
        graph = context.create_graph("x".join(map(str, shape)), custom=config)
        names = (*model.inputs, *model.outputs)
        add_model(graph, model, dict.fromkeys(names, "raw"))
        graph.finalize()
        y = np.empty(model.tensors[model.outputs[0]].shape, np.float32)
        kind = model.tensors["x"].dtype

        def run(x: np.ndarray) -> np.ndarray:
            graph.execute({"x": x.astype(kind)}, {model.outputs[0]: y})
            return y

        return run

    return make


def ort(path: str, threads: int, dynamic: bool) -> Callable[[tuple[int, int]], Run]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    made: list[Any] = []

    def make(shape: tuple[int, int]) -> Run:
        if not (dynamic and made):
            made.append(
                onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            )
        session = made[-1]
        inputs, output = session.get_inputs(), session.get_outputs()[0].name
        caches = {
            i.name: np.zeros((1, *i.shape[1:]), np.float32)
            for i in inputs
            if i.name.startswith("past")
        }
        return lambda x: np.asarray(session.run([output], caches | given(x, bool(caches)))[0])

    return make


MAKERS: dict[str, Callable[[str, int], Callable[[tuple[int, int]], Run]]] = {
    "qnnrt": dynamic,
    "qnnrt, sessions": lambda path, n: sessions(path, n, "process"),
    "qnnrt, each its own": lambda path, n: sessions(path, n, "nobody"),
    "qnnrt, one context": graphs,
    "onnxruntime": lambda path, n: ort(path, n, False),
    "onnxruntime, dynamic": lambda path, n: ort(path, n, True),
}


def file_bytes() -> int:
    """Resident memory that files are behind."""
    fields = Path("/proc/self/status").read_text().split()
    return 1024 * int(fields[fields.index("RssFile:") + 1])


def work(way: str, path: str, threads: int, lengths: list[int]) -> None:
    """Makes the sessions; a line of JSON."""
    optional("qnnrt.importers.onnx" if way.startswith("qnnrt") else "onnxruntime")
    make = MAKERS[way](path, threads)
    before, of_files = private_bytes(), file_bytes()
    kept: list[Run] = []
    rows = []
    for shape in ((1, n) for n in lengths):
        x = np.arange(shape[1], dtype=np.int64).reshape(shape) * 7
        start = time.process_time()
        kept.append(make(shape))
        y = kept[-1](x)
        seconds = time.process_time() - start
        again = time.process_time()
        kept[-1](x)
        rows.append(
            {
                "seconds": seconds - (time.process_time() - again),
                "bytes": private_bytes() - before,
                "shared": file_bytes() - of_files,
                "y": np.asarray(y).ravel()[:64].tolist(),
            }
        )
    print(json.dumps(rows), flush=True)
    os._exit(0)  # what a runtime does at its end is not asked


# ---- the process that asks


def sample(way: str, path: Path, threads: int, lengths: list[int]) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--work", way, str(path), str(threads)]
    command += map(str, lengths)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def median(rounds: list[list[dict[str, Any]]], i: int, key: str) -> float:
    return float(statistics.median(rows[i][key] for rows in rounds))


def show(way: str, rounds: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """One line of the table: what shape i adds to those before it, against the first."""
    count = len(rounds[0])
    sizes = [median(rounds, i, "bytes") for i in range(count)]
    added = [sizes[0], *(b - a for a, b in pairwise(sizes))]
    times = [median(rounds, i, "seconds") for i in range(count)]
    shown = [i - 1 for i in SHOWN if i <= count]
    text = "".join(
        f"{added[i] / MIB:9.1f} {100 * added[i] / added[0]:5.1f}%"
        f"{times[i] * 1e3:8.0f} {100 * times[i] / times[0]:5.1f}%"
        for i in shown
    )
    shared = median(rounds, -1, "shared")
    print(f"{way:22}{text}{sizes[-1] / MIB:11.1f}{shared / MIB:11.1f}")
    return {
        "way": way, "added_bytes": added, "seconds": times, "all_bytes": sizes[-1],
        "shared_bytes": shared,
    }  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--folder", type=Path, help="for the file (default: a temporary one)")
    parser.add_argument("--decoder", type=Path, help="a file of qnnrt.llm.export")


def main() -> None:
    from _built_networks import bert

    bench = Benchmark("shapes", __doc__, rounds=3, more=arguments)
    decoder = bench.options.decoder
    lengths = PREFILL_AND_DECODE if decoder else LENGTHS[: 2 if bench.smoke else None]
    count = len(lengths)
    if bench.smoke:
        bench.options.rounds = 1
    ways = [w for w in MAKERS if w.startswith("qnnrt") or optional("onnxruntime") is not None]
    if decoder:
        ways = [w for w in ways if not w.startswith("qnnrt,")]
    with tempfile.TemporaryDirectory() as temporary:
        path = (bench.options.folder or Path(temporary)) / f"bert{'-tiny' * bench.smoke}.onnx"
        path = decoder or path
        if not path.exists():
            onnx.save(bert(2, 64, 4, 1000) if bench.smoke else bert(), path)
        found: dict[str, list[list[dict[str, Any]]]] = {way: [] for way in ways}
        for i in range(bench.options.rounds):
            for way in ways[i % len(ways) :] + ways[: i % len(ways)]:
                found[way].append(sample(way, path, bench.options.threads, lengths))
        size = sum(p.stat().st_size for p in path.parent.glob(f"{path.name}*"))
        print(f"{size / MIB:.0f} MiB, {bench.options.threads} threads")
    for way in ways:
        for i, row in enumerate(found[way][0]):
            expected = np.array(found[ways[-1]][0][i]["y"])
            same(f"{lengths[i]} in {way}", np.array(row["y"]), expected, rtol=2e-3)
    heads = "".join(f"{f'{i}. MiB, of 1st; ms':>30}" for i in SHOWN if i <= count)
    print(f"{'a shape more':22}{heads}{'all, MiB':>11}{'shared':>11}")
    bench.extra["rows"] = [show(way, found[way]) for way in ways]
    bench.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), list(map(int, sys.argv[5:])))
    else:
        main()
