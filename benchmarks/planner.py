"""Plans of arenas: greedy by size, the portfolio, and the exact search, against the lower bound.

    python benchmarks/planner.py [--smoke] [--json FILE] [--budget-ms N] [--only GROUP...]

Groups: the nine light networks of the onnx package, in float on cpu, quantized (by ONNX Runtime) on
cpu, and on lpai with inputs and outputs in the arena; the eleven instances of MiniMalloc; 1,000
random graphs. The items of a network are those of a graph that is ready to run. Every plan is
checked by a verifier that looks at all pairs. Reported are peak / lower bound and the time to plan:
the median of the rounds, for the search one run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _harness import Benchmark, optional

import qnnrt
from qnnrt import planning

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from zoo.networks import NAMES  # noqa: E402

Items = list[planning.Item]
EFFORTS = ("size", "portfolio", "exact")


def arena(model: qnnrt.Model, backend: str, io: str) -> Items:
    with qnnrt.Session(model, backend, io=io) as session:
        text = session.graph.describe()
    assert text is not None
    found = json.loads(text)["arena"]
    items = [planning.Item(i["first"], i["last"], i["size"]) for i in found["items"]]
    assert planning.plan(items).peak <= found["peak"]
    return items


def float_networks(names: list[str]) -> Iterator[tuple[str, Items]]:
    from zoo import networks

    for name in names:
        yield name, arena(qnnrt.load(networks.path(name)), "cpu", "memhandle")


def quantized_networks(names: list[str]) -> Iterator[tuple[str, Items]]:
    """All of a network in 8 bits, as the tests of the lpai backend have it."""
    from zoo import networks, quantizing

    for name in names:
        proto = networks.current(networks.randomized(name, seed=7, hidden=256))
        networks.randomized.cache_clear()
        del proto.graph.output[1:]
        for node in proto.graph.node:
            if node.op_type == "Sum":  # the quantizer leaves it in float, which lpai refuses
                node.op_type = "Add"
        samples = [{proto.graph.input[0].name: networks.image(17)}]
        with tempfile.TemporaryDirectory() as folder:
            found = quantizing.quantized(proto, samples, Path(folder), prepare=True)
            path = Path(folder) / "model.onnx"
            onnx.save(found, path)
            model = qnnrt.load(path, quantized_io=True)
            yield f"{name}, cpu", arena(model, "cpu", "memhandle")
            yield f"{name}, lpai", arena(model, "lpai", "scratch")


def instances(names: list[str]) -> Iterator[tuple[str, Items]]:
    for name in names:
        path = ROOT / "tests/data/minimalloc" / f"{name}.1048576.csv"
        yield name, planning.read_csv(path)


def random_graph(seed: int) -> Items:
    """Nodes that read a few of the latest results and write one; some have scratch memory."""
    random = np.random.default_rng(seed)
    nodes, reach = int(random.integers(5, 120)), int(random.integers(1, 12))
    size = random.integers(1, 64, nodes) * random.integers(1, 2048, nodes)
    last = np.arange(nodes)
    for n in range(1, nodes):
        for _ in range(int(random.integers(1, 4))):
            last[max(0, n - 1 - int(random.integers(0, reach + 1)))] = n
    items = [planning.Item(n, int(last[n]), int(size[n])) for n in range(nodes)]
    scratch = (n for n in range(nodes) if random.random() < 0.25)
    return items + [planning.Item(n, n, int(random.integers(1, 20000))) for n in scratch]


def measure(items: Items, effort: str, rounds: int, budget: int) -> dict[str, Any]:
    times = []
    for _ in range(1 if effort == "exact" else rounds):
        start = time.perf_counter()
        plan = planning.plan(items, effort=effort, milliseconds=budget if effort == "exact" else 0)
        times.append(time.perf_counter() - start)
    planning.check(items, plan.offsets, plan.peak)
    ratio = plan.peak / plan.lower_bound if plan.lower_bound else 1.0
    return {
        "name": effort,
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "ratio": ratio,
        "proved": plan.proved,
        "seconds": statistics.median(times),
    }


def show(group: str, rows: list[dict[str, Any]], single: bool) -> dict[str, Any]:
    """Prints a group, and sums it up."""
    print(f"\n{group}\n  {'':24}{'items':>6}" + "".join(f"{e:>26}" for e in EFFORTS))
    for row in rows if single else []:
        cells = "".join(
            f"{p['ratio']:>12.4f}{'*' if p['proved'] else ' '}{p['seconds'] * 1e3:>10.2f} ms"
            for p in row["plans"]
        )
        print(f"  {row['name']:24}{row['items']:>6}{cells}", flush=True)
    summary = {"group": group, "graphs": len(rows), "plans": []}
    for i, effort in enumerate(EFFORTS):
        plans = [row["plans"][i] for row in rows]
        ratios, times = [p["ratio"] for p in plans], [p["seconds"] for p in plans]
        summary["plans"].append(
            {
                "name": effort,
                "geometric_mean": statistics.geometric_mean(ratios),
                "worst": max(ratios),
                "proved": sum(p["proved"] for p in plans),
                "median_seconds": statistics.median(times),
                "most_seconds": max(times),
            }
        )
    for p in summary["plans"]:
        print(
            f"  {p['name']:10} geometric mean {p['geometric_mean']:.4f}, worst {p['worst']:.4f}, "
            f"{p['proved']} of {len(rows)} proved, median {p['median_seconds'] * 1e3:.2f} ms, at "
            f"most {p['most_seconds'] * 1e3:.1f} ms"
        )
    print(end="", flush=True)
    return summary


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget-ms", type=int, default=5000, help="of the search (default 5000)")
    parser.add_argument("--only", nargs="+", choices=("float", "int8", "minimalloc", "random"))


def main() -> None:
    bench = Benchmark("planner", __doc__, rounds=5, more=arguments)
    names = ["squeezenet"] if bench.smoke else NAMES
    budget = 200 if bench.smoke else bench.options.budget_ms
    graphs = 20 if bench.smoke else 1000
    hard = "AF" if bench.smoke else "ABCDEFGHIJK"
    groups: dict[str, tuple[str, Callable[[], Iterator[tuple[str, Items]]]]] = {
        "float": ("float networks, cpu", lambda: float_networks(names)),
        "int8": ("quantized networks", lambda: quantized_networks(names)),
        "minimalloc": (
            "MiniMalloc",
            lambda: instances(list(hard)),
        ),
        "random": ("random graphs", lambda: ((str(i), random_graph(i)) for i in range(graphs))),
    }
    if optional("onnxruntime") is None:
        groups.pop("int8")
        print("quantized networks: onnxruntime is not installed, which quantizes them")
    results = bench.extra["plans"] = []
    for key, (title, make) in groups.items():
        if bench.options.only and key not in bench.options.only:
            continue
        rows = [
            {
                "name": name,
                "items": len(items),
                "plans": [measure(items, e, bench.options.rounds, budget) for e in EFFORTS],
            }
            for name, items in make()
        ]
        summary = show(title, rows, single=key != "random")
        results.append(summary | ({"rows": rows} if key != "random" else {}))
    bench.extra["budget_ms"] = budget
    bench.finish()


if __name__ == "__main__":
    main()
