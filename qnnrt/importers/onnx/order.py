"""Nodes in an order in which each reads what earlier ones wrote."""

from __future__ import annotations

from .functions import subgraph_reads
from .written import Written


def in_order(nodes: list[Written]) -> list[Written]:
    """The nodes of a graph as they can run, and otherwise as they were written.

    ONNX wants them sorted. Some tools append what they insert (ONNX Runtime's converter to
    float16 its Casts), and ONNX Runtime sorts what it loads. Where there is no such order the
    nodes come back as they are, for the check of their names to say what is wrong.
    """
    if _sorted(nodes):
        return nodes
    import heapq  # for few files

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


def _sorted(nodes: list[Written]) -> bool:
    """Whether no node reads what a later one writes, or the node itself."""
    later: set[str] = set()
    for node in reversed(nodes):
        later.update(node.output)
        later.discard("")  # left out
        if not later.isdisjoint(node.input):
            return False
        if node.graphs and not later.isdisjoint(subgraph_reads(node)):
            return False
    return True
