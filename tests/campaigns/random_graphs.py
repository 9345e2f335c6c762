"""Random ONNX graphs of what passes look for, beside ONNX Runtime, on the cpu or the gpu backend.

    python tests/campaigns/random_graphs.py --count 2000 --seed 7
    --size 24                    blocks in a graph; 3 to 12 unless given
    --ways plain,bfloat16        instead of all of the cpu backend
    --ways gpu                   all of the gpu backend, or gpu_plain,gpu_tf32
    --first 1234 --count 1 --save found.onnx   one graph, as a file

A graph is a function of seed, number and size. Status 1 when something differed. Halves and tf32
may end a step apart behind QuantizeLinear.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import onnx

import qnnrt

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from support.random_graphs.compare import WAYS, check  # noqa: E402
from support.random_graphs.generate import generate  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--save", type=Path, help="write the last graph here")
    o = parser.parse_args()
    known, names = dict(WAYS), o.ways.split(",")
    if any(name.startswith("gpu") for name in names):
        from support.random_graphs.gpu import GPU_WAYS

        known |= GPU_WAYS
        names = list(GPU_WAYS) if names == ["gpu"] else names
        qnnrt.qnn.Backend.shared("gpu")  # one for all sessions
    ways = {name: known[name] for name in names}
    tally: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(o.first, o.first + o.count):
        graph = generate(o.seed, number, o.size)
        wrong = None if graph is None else check(graph, ways)
        tally["left out" if wrong is None else "wrong" if wrong else "agree"] += 1
        if graph is not None and o.save:
            onnx.save(graph.proto, o.save)
        for line in wrong or ():
            print(f"seed {o.seed} graph {number}, {line}", flush=True)
    print(dict(tally), f"{time.monotonic() - began:.0f} s")
    return bool(tally["wrong"])


if __name__ == "__main__":
    sys.exit(main())
