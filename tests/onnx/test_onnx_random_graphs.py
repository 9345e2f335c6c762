"""Random graphs of what passes look for give what ONNX Runtime gives, however they are run.

`tests/campaigns/random_graphs.py` does thousands.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from support.random_graphs.compare import WAYS, Outputs, check, plain
from support.random_graphs.generate import Graph, generate
from support.random_graphs.net import BLOCKS

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

SEED, COUNT = 20261127, 20
#: For each graph, two of these: all of them are done by the campaign.
OTHERS = [name for name in WAYS if name != "plain"]


@pytest.mark.parametrize("first", range(0, 80, COUNT))
def test_random_graphs_give_what_onnxruntime_gives(first: int) -> None:
    wrong, compared = [], 0
    for number in range(first, first + COUNT):
        graph = generate(SEED, number)
        if graph is None:
            continue
        names = ["plain", *(OTHERS[(2 * number + i) % len(OTHERS)] for i in range(2))]
        found = check(graph, {name: WAYS[name] for name in names})
        compared += found is not None
        wrong += [f"graph {number}, {line}" for line in found or ()]
    assert compared > COUNT / 2
    assert not wrong, f"seed {SEED}: " + "\n".join(wrong)


def test_every_block_is_drawn() -> None:
    drawn = {name for n in range(300) if (g := generate(SEED, n)) for name in g.blocks}
    assert drawn == {block.__name__ for block in BLOCKS}


def test_another_weight_is_found() -> None:
    """The comparison can fail: by a thousandth of the first weights of a graph."""
    found = 0
    for number in range(10):
        graph, other = generate(SEED, number), generate(SEED, number)
        assert graph is not None
        assert other is not None
        for t in other.proto.graph.initializer:
            x = numpy_helper.to_array(t)
            if x.dtype == np.float32 and x.size > 8:
                t.CopyFrom(numpy_helper.from_array((x * 1.001).astype(np.float32), t.name))
                break
        found += bool(check(graph, {"plain": partial(_of_another, other)}))
    assert found


def _of_another(other: Graph, graph: Graph, folder: Path) -> Outputs:
    return plain(other, folder)
