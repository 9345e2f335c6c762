"""What the names of a graph stand for while its nodes are lowered."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import onnx

from ...dtypes import is_number
from ..budget import Budget
from ..guard import shortened
from .nodes import Lowering, OnnxNode
from .numbering import Numbering
from .tables import Table
from .values import Items, Thing, Value
from .written import Written

if TYPE_CHECKING:
    from .child import Child

Things = list[Thing | None]
Results = Sequence[Thing | None]
#: Lowers a node with the inputs that it has then.
Lower = Callable[[], Results]

Control = Callable[["Scope", OnnxNode, dict[str, int]], Things]
#: ONNX op type of the default domain -> what is done with it in place of a lowering of tensors.
CONTROL: Table[Control] = Table(
    {
        "control_flow": "If Loop Scan",
        "sequences": (
            "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
            "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
            "SequenceMap SplitToSequence"
        ),
    }
)

#: None where the node is like any other.
RowsRule = Callable[["Scope", OnnxNode, Lower], Results | None]
#: ONNX op type of the default domain -> what makes values with as many rows as the data decide.
ROWS: Table[RowsRule] = Table(
    {"rows": "Compress NonMaxSuppression NonZero TopK", "unique": "Unique"}
)
#: What takes such values and does not treat their rows one by one.
TAKEN: Table[RowsRule] = Table(
    {
        "computed_slices": "Slice",
        "row_windows": (
            "AveragePool Conv ConvTranspose GRU GlobalAveragePool GlobalMaxPool "
            "InstanceNormalization LSTM LpPool MaxPool Pad RNN Resize"
        ),
        "rows": (
            "ArgMax ArgMin CastLike Concat CumSum Einsum Gather GatherElements GatherND LogSoftmax "
            "MatMul ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
            "ReduceProd ReduceSum ReduceSumSquare RoiAlign Shape Size Softmax"
        ),
        "scattered": "Scatter ScatterElements ScatterND",
    }
)


class Lost(Exception):
    """A result comes from a node that is listed as unsupported already."""


class Scope(Lowering):
    """Names and what they stand for.

    Attributes:
        where: the name of the file in messages.
        env: tensors.
        other: sequences, and None for optional values that are missing.
        poisoned: outputs of nodes that could not be lowered.
        counts: numbers of rows that the data decide, and what is made of them, by what it is.
        numbering: which tensors are computed alike, so that what counts them is one number.
        calls: how many bodies were put in place of nodes, which makes names in them new ones.
    """

    def __init__(self, where: str, stateful: bool, budget: Budget | None = None) -> None:
        super().__init__(stateful, budget)
        self.where = where
        self.env: dict[str, Value] = {}
        self.other: dict[str, Items | None] = {}
        self.poisoned: set[str] = set()
        self.counts: dict[tuple[object, ...], Value] = {}
        self.numbering = Numbering(self.b.ops)
        self.calls = 0
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """Evaluates what this package does not, for few files."""
        if self._child is None:
            from .child import Child

            self._child = Child(self.where, self.budget)
        return self._child

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def node(self, given: Written, opsets: dict[str, int]) -> None:
        """Lowers a node; what its outputs stand for is known then."""
        raise NotImplementedError

    def nodes(self, nodes: Iterable[Written], opsets: dict[str, int]) -> None:
        raise NotImplementedError

    def add_initializers(self, graph: onnx.GraphProto) -> None:
        raise NotImplementedError

    def scalar(self, name: str) -> float | None:
        """The value of a constant with one element."""
        value = self.env.get(name)
        if value is None or not value.is_const or math.prod(value.shape) != 1:
            return None
        if value.sizes is not None or value.count is not None:
            return None
        found = value.const.reshape(-1)[0]
        return float(found) if is_number(value.dtype) else None

    def results(self, names: list[str]) -> list[Thing | None]:
        """What names of a body stand for, once its nodes are lowered."""
        lost = [name for name in names if name in self.poisoned]
        if lost:
            raise Lost
        return [self.thing(name) for name in names]

    def thing(self, name: str) -> Thing | None:
        """What a name stands for; None for an optional value that is missing."""
        return self.env.get(name) or self.other.get(name)

    def keep(self, name: str, thing: Thing | None) -> None:
        self.forget(name)
        if isinstance(thing, Value):
            self.env[name] = thing
        else:
            self.other[name] = thing

    def forget(self, name: str) -> None:
        self.env.pop(name, None)
        self.other.pop(name, None)

    @contextmanager
    def inside(self, names: Collection[str]) -> Iterator[None]:
        """While the nodes of a body are lowered that gives `names`: what these stand for around it
        is hidden, and as before behind it."""
        env = {name: self.env[name] for name in names if name in self.env}
        other = {name: self.other[name] for name in names if name in self.other}
        try:
            for name in names:
                self.forget(name)
            yield
        finally:
            for name in names:
                self.forget(name)
            self.env.update(env)
            self.other.update(other)

    def emitted_many(
        self, op: str, inputs: Sequence[Value], count: int, **attributes: Any
    ) -> list[Value]:
        """The results of an operator of the newest operator set."""
        self.calls += 1
        scope = self.b.scope
        prefix = f"{shortened(scope)}.{self.calls}."
        names = [f"{prefix}i{i}" for i in range(len(inputs))]
        outputs = [f"{prefix}{i}" for i in range(count)]
        self.env.update(zip(names, inputs, strict=True))
        proto = onnx.helper.make_node(op, names, outputs, name=f"{prefix}{op}", **attributes)
        self.node(Written(proto), {"": onnx.defs.onnx_opset_version()})
        found = self.results(outputs)
        for name in (*names, *outputs):
            self.forget(name)
        self.b.scope = scope
        return [value for value in found if isinstance(value, Value)]

    def emitted(self, op: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        """The result of an operator of the newest operator set."""
        return self.emitted_many(op, inputs, 1, **attributes)[0]
