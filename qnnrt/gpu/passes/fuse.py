"""Operations on single elements move into the kernel whose result they are done to.

An activation, a scale, or the sum with a residual costs its reads and writes of memory and the
start of a kernel; done by the producer to what it holds in registers, it costs next to nothing.
Where others read the producer's result, too, it is written beside what was made of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ..ir import Ir, Node, Post, Value
from ..ops import takes_post
from ..ops.common import Refused, at
from ..ops.formulas import ELEMENTWISE, Formula, formula, is_fixed, is_real
from ..target import Target

__all__ = ["fuse"]

#: Buffers of a kernel, at most, and operations behind its own.
_MOST_OPERANDS: Final = 8
_MOST_POSTS: Final = 32
_BATCHNORM: Final = "Batchnorm"  # a scale and a shift along the last axis


@dataclass
class _Graph:
    """Who writes and who reads every value, by the memory that it lies in."""

    ir: Ir
    writer: dict[Value, int]
    readers: dict[Value, list[int]]  # a node is there once for every input

    @classmethod
    def of(cls, ir: Ir) -> _Graph:
        graph = cls(ir, {}, {})
        for i, node in enumerate(ir.nodes):
            for value in node.inputs:
                if value is not None:
                    graph.readers.setdefault(value.root, []).append(i)
            for value in node.outputs:
                graph.writer[value.root] = i
        return graph

    def read_by(self, value: Value, nodes: set[int]) -> bool:
        """Whether these nodes alone read it, and nobody outside of the graph does."""
        return value.root.kind == "native" and set(self.readers.get(value.root, ())) == nodes

    def read_before(self, value: Value, node: int) -> bool:
        """Whether a node does that stands before this one."""
        return any(n < node for n in self.readers.get(value.root, ()))


@dataclass
class _Found:
    """Node ``producer`` can do ``post``; ``gone`` are the nodes that it stands for."""

    producer: int
    post: Post
    gone: set[int]


def fuse(ir: Ir, target: Target) -> None:
    """Give nodes of families that take it the operations behind them: see ``Node.post``."""
    graph = _Graph.of(ir)
    dead: set[int] = set()
    for i, node in enumerate(ir.nodes):
        found = _best(graph, i) if _fusable(node) else None
        if found is not None:
            _move(graph, i, found)
            dead |= (found.gone | {found.producer}) - {i}
    for node in ir.nodes:
        node.post = [_stored(graph, post) for post in node.post]
        node.outputs += [post.keep for post in node.post if post.keep is not None and post.stored]
    if dead:
        ir.nodes = [node for i, node in enumerate(ir.nodes) if i not in dead]
        ir.passes.append(("fuse_elementwise", len(dead)))


def _move(graph: _Graph, i: int, found: _Found) -> None:
    """Node ``i`` into its producer, which then stands in its place: there all operands are."""
    nodes = graph.ir.nodes
    node, producer = nodes[i], nodes[found.producer]
    gone = found.gone | {found.producer}
    producer.post.append(found.post)
    own, after = producer.outputs[0], node.outputs[0]
    before = own.root
    # Its own output becomes a view, of its shape, of what it writes now.
    if found.post.keep is None:
        before.base = after
        del graph.writer[before]
    else:
        producer.outputs[0] = Value(
            after.name, 0, own.shape, own.dtype, own.code, "native", base=after
        )
    nodes[i], nodes[found.producer] = producer, node
    for written in (after, *_kept(producer)):
        graph.writer[written.root] = i
    for kept in _kept(producer):
        readers = graph.readers.setdefault(kept.root, [])
        readers[:] = [n for n in readers if n not in gone]
    for value in producer.inputs:
        if value is not None:
            readers = graph.readers[value.root]
            readers[:] = [i if n == found.producer else n for n in readers]
    for operand, _ in (pair for post in producer.post for pair in post.operands):
        readers = graph.readers[operand.root]
        readers[:] = [i if n in gone else n for n in readers]


def _kept(node: Node) -> list[Value]:
    return [post.keep for post in node.post if post.keep is not None]


def _stored(graph: _Graph, post: Post) -> Post:
    """What is kept is written where somebody reads it."""
    if post.keep is None or post.keep.kind == "output" or graph.readers.get(post.keep):
        return post
    return replace(post, stored=False)


def _fusable(node: Node) -> bool:
    """Whether it is an operation on floats of one width, which gives floats."""
    if node.type not in (*ELEMENTWISE, _BATCHNORM) or node.post or len(node.outputs) != 1:
        return False
    y = node.outputs[0]
    values = [*_operands(node), *(() if _encodes(node) else (y,))]
    if any(not is_real(v) or v.dtype != values[0].dtype for v in values):
        return False
    try:
        _formula(node)
    except Refused:
        return False
    return True


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _formula(node: Node) -> Formula:
    if node.type != _BATCHNORM:
        return formula(node)
    return Formula("({0} * {1})" if len(_operands(node)) == 2 else "({0} * {1} + {2})")


def _encodes(node: Node) -> bool:
    """Whether it gives fixed-point numbers, which are whole numbers that a float can be."""
    y = node.outputs[0]
    return node.type == "Quantize" and is_fixed(y) and y.dtype.itemsize <= 2


def _best(graph: _Graph, i: int) -> _Found | None:
    """The producer to move node ``i`` into: one whose result nobody else wants, a heavy one rather
    than another, then the later one."""
    nodes = graph.ir.nodes
    found: list[_Found] = []
    for value in dict.fromkeys(v.root for v in nodes[i].inputs if v is not None):
        writer = graph.writer.get(value)
        if writer is None or value.size != nodes[i].outputs[0].size:
            continue
        candidates = (_gated(graph, i, value, writer), _direct(graph, i, writer))
        found += [c for c in candidates if c and _fits(nodes[writer], c.post, nodes[i])]
    heavy = [
        (f.post.keep is None, nodes[f.producer].type not in ELEMENTWISE, f.producer) for f in found
    ]
    return found[heavy.index(max(heavy))] if found else None


def _fits(producer: Node, post: Post, node: Node) -> bool:
    """Whether the producer takes this behind what it does already."""
    y = producer.outputs[0]
    if producer.type not in takes_post() or len(producer.outputs) != 1:
        return False
    if not is_real(y) or not is_real(y.root):
        return False
    if _encodes(node):  # the other kernels store what they compute with, and all of it alike
        kept = any(p.keep is not None for p in (*producer.post, post))
        if producer.type not in ELEMENTWISE or kept:
            return False
    elif y.dtype != node.outputs[0].dtype:
        return False
    operands = [v for v in producer.inputs if v is not None]
    for p in (*producer.post, post):
        operands += [v for v, _ in p.operands]
        operands += [p.keep] if p.keep is not None else []
    distinct = len({v.root for v in operands})
    return distinct <= _MOST_OPERANDS and len(producer.post) < _MOST_POSTS


def _direct(graph: _Graph, i: int, writer: int) -> _Found | None:
    """Node ``i`` reads what the producer computes, at its end or on its way there."""
    node, producer = graph.ir.nodes[i], graph.ir.nodes[writer]
    last = producer.outputs[0].root
    known = {value.root: f"k{n}" for n, value in enumerate(_kept(producer))}
    # Others must not need what is written later than now.
    if any(graph.read_before(value, i) for value in (last, *known)):
        return None
    keep = None
    if not graph.read_by(last, {i}):
        keep = last
    known[last] = "v"
    size = node.outputs[0].size
    if any(v.root in known and v.size != size for v in _operands(node)):
        return None
    return _Found(writer, replace(_post(node, known), keep=keep), {i})


def _gated(graph: _Graph, i: int, value: Value, writer: int) -> _Found | None:
    """Node ``i`` reads the value and another one made of it: x sigmoid(x) behind a convolution."""
    nodes = graph.ir.nodes
    if value is not nodes[writer].outputs[0].root or any(
        graph.read_before(kept, i) for kept in _kept(nodes[writer])
    ):
        return None
    for other in _operands(nodes[i]):
        gate = graph.writer.get(other.root)
        if gate is None or gate == writer or not _is_gate(nodes[gate], value):
            continue
        if nodes[gate].outputs[0].shape != nodes[i].outputs[0].shape:
            continue
        if graph.read_by(other, {i}) and graph.read_by(value, {i, gate}):
            inner = _post(nodes[gate], {value: "v"}, nodes[gate].post)
            post = _post(nodes[i], {value: "v", other.root: f"({inner.expression})"}, first=inner)
            return _Found(writer, post, {i, gate})
    return None


def _is_gate(node: Node, value: Value) -> bool:
    """Whether it makes something of the value, reading it once in all it does."""
    operands = [*node.inputs, *(v for post in node.post for v, _ in post.operands)]
    if _kept(node):
        return False
    if sum(v is not None and v.root is value for v in operands) != 1:
        return False
    y = node.outputs[0]
    plain = Node(node.name, node.type, node.inputs, node.outputs, node.params)
    once = all(len(re.findall(r"\bv\b", post.expression)) == 1 for post in node.post)
    same = all(not post.shape or post.shape == y.shape for post in node.post)
    return _fusable(plain) and y.size == value.size and once and same


def _post(
    node: Node, known: dict[Value, str], then: list[Post] | None = None, first: Post | None = None
) -> Post:
    """What a node does, and then other posts, with ``known`` operands; ``first``: has been done."""
    y = node.outputs[0]
    operands = list(first.operands) if first else []
    names = []
    for value in _operands(node):
        name = known.get(value.root)
        if name is None:
            name = f"p{len(operands)}"
            operands.append((value, at(value.shape, y.shape)))
        names.append(name)
    text = _formula(node).of(*names)
    for post in then or ():
        words = {f"p{k}": f"p{k + len(operands)}" for k in range(len(post.operands))}
        words["v"] = f"({text})"
        text = _renamed(post.expression, words)
        operands += post.operands
    return Post(text, tuple(operands), y.shape)


def _renamed(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\b[a-z]\w*\b", lambda m: words.get(m[0], m[0]), text)
