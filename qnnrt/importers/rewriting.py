"""The lowered graph while passes rewrite it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .budget import Budget
from .graph import Edge, Op

#: Exponent of the root that an operation takes.
ROOTS = {"ElementWiseRsqrt": -0.5, "ElementWiseSquareRoot": 0.5}
#: Operations that end in * weight + bias, their inputs 1 and 2.
SCALED = {"Batchnorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RmsNorm"}


class Graph:
    """Operations with producer and consumer lookup. `outputs` are kept whatever happens.

    Attributes:
        producer, consumers: of an edge, what writes and what reads it. A pass that changes
            operations in place, and asks for these, asks before it does.
    """

    producer: dict[Edge, Op]
    consumers: dict[Edge, list[Op]]

    def __init__(
        self,
        ops: list[Op],
        inputs: Iterable[Edge],
        outputs: Iterable[Edge],
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.ops = ops
        self.inputs = set(inputs)
        self.outputs = set(outputs)
        self.index()

    def index(self) -> None:
        """What was known of who writes and reads an edge no longer holds."""
        # Every pass, and every round of one that goes over the graph again, comes by here.
        self.budget.check_time()
        self.__dict__.pop("producer", None)
        self.__dict__.pop("consumers", None)

    def __getattr__(self, name: str) -> dict[Edge, Any]:
        """Producers and consumers are looked for when one is asked for: most passes find nothing
        to look at, and many end in `index`."""
        if name not in ("producer", "consumers"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        producer: dict[Edge, Op] = {}
        consumers: defaultdict[Edge, list[Op]] = defaultdict(list)
        for op in self.ops:
            for edge in op.outputs:
                if edge is not None:
                    producer[edge] = op
            for edge in op.inputs:
                if edge is not None:
                    consumers[edge].append(op)
        self.producer, self.consumers = producer, dict(consumers)
        return producer if name == "producer" else self.consumers

    def only_consumer(self, edge: Edge | None) -> Op | None:
        """The one operation that reads `edge`, when nothing else needs it."""
        if edge is None or edge in self.outputs:
            return None
        found = self.consumers.get(edge, [])
        return found[0] if len(found) == 1 else None

    def replace(self, old: Edge, new: Edge) -> None:
        for op in self.consumers.pop(old, []):
            op.inputs = [new if e is old else e for e in op.inputs]
            self.consumers.setdefault(new, []).append(op)

    def forget(self, op: Op) -> None:
        """`op` is about to change, or to go."""
        for edge in op.outputs:
            if edge is not None and self.producer.get(edge) is op:
                del self.producer[edge]
        for edge in op.inputs:
            if edge is not None:
                self.consumers[edge] = [o for o in self.consumers[edge] if o is not op]

    def note(self, op: Op) -> None:
        """`op` is new, or was forgotten and has changed: what it reads and writes is known again,
        where it comes among other readers is not before `index`."""
        for edge in op.outputs:
            if edge is not None:
                self.producer[edge] = op
        for edge in op.inputs:
            if edge is not None:
                self.consumers.setdefault(edge, []).append(op)

    def keep(self, dropped: set[int]) -> None:
        self.ops = [op for op in self.ops if id(op) not in dropped]
        self.index()

    def apply(self, made: dict[int, list[Op]], dropped: set[int]) -> None:
        """Put `made` in the place of the operation with that id; leave out the `dropped` ones."""
        if not made and not dropped:
            return
        ops: list[Op] = []
        for op in self.ops:
            if id(op) in made:
                ops += made[id(op)]
            elif id(op) not in dropped:
                ops.append(op)
        self.ops = ops
        self.index()
