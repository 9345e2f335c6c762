"""Nodes in an order in which each reads what earlier ones wrote."""

from __future__ import annotations

import heapq

from .functions import subgraph_reads
from .written import Written


def in_order(nodes: list[Written]) -> list[Written]:
    """The nodes of a graph as they can run, and otherwise as they were written.

    ONNX wants them sorted. Some tools append what they insert (ONNX Runtime's converter to
    float16 its Casts), and ONNX Runtime sorts what it loads. Where there is no such order the
    nodes come back as they are, for the check of their names to say what is wrong.
    """
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            maker.setdefault(name, index)
    maker.pop("", None)  # left out
    needs = [
        {maker[name] for name in (*node.input, *subgraph_reads(node)) if name in maker}
        if node.graphs
        else {maker[name] for name in node.input if name in maker}
        for node in nodes
    ]
    if all(not made or max(made) < index for index, made in enumerate(needs)):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for index, made in enumerate(needs):
        for earlier in made:
            readers[earlier].append(index)
    left = [len(made) for made in needs]
    ready = [index for index, count in enumerate(left) if count == 0]
    found: list[Written] = []
    while ready:
        index = heapq.heappop(ready)
        found.append(nodes[index])
        for reader in readers[index]:
            left[reader] -= 1
            if left[reader] == 0:
                heapq.heappush(ready, reader)
    return found if len(found) == len(nodes) else nodes
