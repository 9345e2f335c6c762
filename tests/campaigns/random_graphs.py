"""Random ONNX graphs of what passes look for, beside ONNX Runtime.

    python tests/campaigns/random_graphs.py --count 2000 --seed 7
    --size 24                    blocks in a graph; 3 to 12 unless given
    --ways plain,bfloat16        instead of all
    --first 1234 --count 1 --save found.onnx   one graph, as a file

A graph is a function of seed, number and size. Status 1 when something differed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import onnx

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
    ways = {name: WAYS[name] for name in o.ways.split(",")}
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
