"""The model: tensors and nodes in QNN's terms, between importers and backends.

Importers produce a `Model`; a `Session` hands it to a backend node by node. Activations are
channel-last, convolution weights are ``[kH, kW, Cin / group, Cout]``, FullyConnected weights are
``[m, n]``: the operation definitions of QNN's package ``qti.aisw``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..dtypes import has_data_type
from ..errors import ModelError
from .mapped import MappedFile

__all__ = ["Model", "Node", "Quantization", "Tensor"]

#: Those that have a fixed-point form.
_FIXED_POINT = frozenset(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32))

#: QNN's dimensions are uint32_t; sizes are signed 64-bit numbers in numpy and in the kernel.
_MOST_OF_A_DIM, _MOST_BYTES = 2**32 - 1, 2**63 - 1


#: In names of inputs, and what stands there in the names of their new values.
_NEW_NAMES = (
    (r"\bpast_key_values\b", "present"),
    (r"(?<![a-z])past(?![a-z])", "present"),
)


@dataclass(frozen=True)
class Quantization:
    """How integers stand for real numbers: ``real = scale * (q + offset)``.

    An ONNX or TFLite zero point ``z`` is the offset ``-z``.

    Attributes:
        scale, offset: one pair for the tensor; with `axis` arrays with a pair for each index along
            it; with `block` arrays with a pair for each block, shaped like the grid of blocks. One
            offset may stand for all.
        axis: the axis of an encoding along one.
        bitwidth: how many bits are used, when those are fewer than the element type has: 4-bit
            weights are int8 arrays with bitwidth 4.
        block: constants only: the size of a block along each dimension, which it divides.
        block_scales: constants only, with `axis`: uint8 or uint16 factors ``[size of axis,
            blocks]``. Each index of the axis is divided into blocks along the last other
            dimension; a block's scale is its factor times the scale of the index.
        block_scale_bits: how many bits the factors have.
        packed: constants only: the data are bytes, uint8 in one dimension, each with two elements
            of 4 bits, the first one in its low half.
    """

    scale: float | np.ndarray
    offset: int | np.ndarray
    axis: int | None = None
    bitwidth: int | None = None
    block: tuple[int, ...] | None = None
    block_scales: np.ndarray | None = None
    block_scale_bits: int = 4
    packed: bool = False


@dataclass
class Tensor:
    """A tensor of the graph. With `data` it is a constant (QNN: STATIC).

    Attributes:
        scalar: an input or output that the file has without dimensions. QNN has no such tensors:
            `shape` is (1,), and a session gives and takes arrays of shape ().
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    data: np.ndarray | None = None
    quantization: Quantization | None = None
    scalar: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        elements = math.prod(map(int, self.shape))
        if self.quantization is not None and self.quantization.packed:
            return (elements + 1) // 2
        return elements * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        dims = "" if self.scalar else "x".join(str(d) for d in self.shape)
        dims = dims or "scalar"
        return f"{self.name}: {self.dtype.name}[{dims}]"


@dataclass
class Node:
    """One operation. ``""`` in `inputs` or `outputs` is an omitted one.

    `type` is an op of QNN's package ``qti.aisw``, or "package::type".
    `params` holds numpy or Python scalars, or arrays of uint32 or int32.
    """

    name: str
    type: str
    inputs: list[str]
    outputs: list[str]
    params: dict[str, object] = field(default_factory=dict)


@dataclass
class Model:
    """A graph: `nodes` in execution order over the named `tensors`.

    `inputs` and `outputs` keep the order of the file that the model came from (`source`).
    `state` has the inputs that are one tensor with an output, which the graph updates in place:
    input -> output; see `set_state`. `initial` has what such inputs hold before the first run,
    where it is not zeros: real ones, of an input with an encoding.
    `byte_activations`: products of floats with constant weights of 4 or 8 bits may round the floats
    to 8 bits, as an ONNX file says where all such products are `MatMulNBits` of `accuracy_level` 4.
    """

    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    source: str | None = None
    state: dict[str, str] = field(default_factory=dict)
    initial: dict[str, np.ndarray] = field(default_factory=dict)
    byte_activations: bool = False
    _mapped: list[MappedFile] = field(default_factory=list, repr=False, compare=False)
    _consumed: bool = field(default=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """A copy has arrays of its own, wherever those of this one lie."""
        return self.__dict__ | {"_mapped": []}

    # ---- state -------------------------------------------------------------------------------

    def set_state(self, pairs: Mapping[str, str] | str) -> None:
        """Make pairs of an input and an output one tensor each, which executions read and update.

        Args:
            pairs: input -> output; or "auto": what exporters of language models name
                ``past_key_values.N.key`` with ``present.N.key``, ``past_key_N`` with
                ``present_key_N`` and the like, as far as the shapes are the same. Replaces the
                pairs that there were.

        Raises:
            ModelError: no such input or output, one that is in two pairs, or a pair of two shapes,
                types or encodings; "auto", and no input has such an output.
        """
        if isinstance(pairs, str):
            if pairs != "auto":
                raise ModelError(
                    f"state must be 'auto' or a mapping from inputs to outputs, not {pairs!r}"
                )
            found = self._named_state()
        else:
            found = dict(pairs)
        problems = list(self._check_state(found))
        if problems:
            raise ModelError(f"model {self.name!r}: " + "; ".join(problems))
        self.state = found

    def _named_state(self) -> dict[str, str]:
        found, other = {}, ""
        for name in self.inputs:
            for output in names_of_new(name):
                if output not in self.outputs:
                    continue
                if self.tensors[name].shape == self.tensors[output].shape:
                    found[name] = output
                else:
                    a, b = (list(self.tensors[n].shape) for n in (name, output))
                    other = f"; {name!r} {a} and {output!r} {b} are no one tensor: fix the shapes"
                break
        if not found:
            raise ModelError(
                f"model {self.name!r}: state='auto' finds no input past... with an output "
                f"present... of its shape{other}"
            )
        return found

    def _check_state(self, state: Mapping[str, str]) -> Iterator[str]:
        for name, output in state.items():
            if name not in self.inputs:
                yield f"state {name!r} is no input; there are {', '.join(map(repr, self.inputs))}"
            elif output not in self.outputs:
                there = ", ".join(map(repr, self.outputs))
                yield f"state {name!r}: {output!r} is no output; there are {there}"
            else:
                a, b = self.tensors[name], self.tensors[output]
                if a.shape != b.shape or a.dtype != b.dtype:
                    yield f"state {a} cannot be one tensor with {b}: shape and type differ"
                elif not _same_encoding(a.quantization, b.quantization):
                    yield f"state {name!r} cannot be one tensor with {output!r}: encodings differ"
        for output, count in Counter(state.values()).items():
            if count > 1:
                yield f"output {output!r} is the new value of {count} states"
        for name in state:
            first, t = self.initial.get(name), self.tensors.get(name)
            if first is None or t is None:
                continue
            if first.shape != tuple(t.shape) or first.dtype != t.dtype:
                yield (
                    f"state {t} holds {first.dtype}{list(first.shape)} at first: shape and type "
                    "differ"
                )

    # ---- reading -----------------------------------------------------------------------------

    def constants(self) -> Iterator[Tensor]:
        """The static tensors, in the order in which they were added."""
        return (t for t in self.tensors.values() if t.data is not None)

    def op_counts(self) -> dict[str, int]:
        """How many nodes there are of each op type, most frequent first."""
        return dict(Counter(node.type for node in self.nodes).most_common())

    def summary(self) -> str:
        """A few lines: inputs, outputs, ops and the size of the constants."""
        weights = list(self.constants())
        size = sum(t.nbytes for t in weights)
        ops = ", ".join(f"{count} {op}" for op, count in self.op_counts().items())
        lines = [f"Model {self.name!r}" + (f" from {self.source}" if self.source else "")]
        lines += [f"  input   {self.tensors[name]}" for name in self.inputs]
        lines += [f"  output  {self.tensors[name]}" for name in self.outputs]
        lines.append(f"  {len(self.nodes)} nodes: {ops}" if self.nodes else "  no nodes")
        lines.append(f"  {len(weights)} constants, {size / 2**20:.1f} MiB")
        return "\n".join(lines)

    def __str__(self) -> str:
        """The summary and every node with the shapes of its tensors."""
        lines = [self.summary()]
        for node in self.nodes:
            lines.append(f"  {node.type} {node.name!r}")
            if node.params:
                text = ", ".join(f"{k}={_param_text(v)}" for k, v in node.params.items())
                lines.append(f"    {text}")
            for mark, names in (("<-", node.inputs), ("->", node.outputs)):
                for name in names:
                    if name:
                        tensor = self.tensors[name]
                        kind = " (constant)" if tensor.data is not None else ""
                        lines.append(f"    {mark} {tensor}{kind}")
        return "\n".join(lines)

    __repr__ = summary

    def _consume(self) -> None:
        """Let go of the constants' bytes: a session has taken them."""
        self._consumed = True
        for tensor in self.tensors.values():
            tensor.data = None
        self._mapped = []

    # ---- checking ----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `ModelError` with every rule that this model breaks.

        The rules: names are known and their own; shapes and types are given; what has an encoding
        is of a type that has a fixed-point form; a constant has the bytes it declares; inputs are
        neither constant nor produced; every other tensor that is read is a constant or the output
        of an earlier node; an output of the model is produced by exactly one node and listed once;
        node names are unique. Constants may lie in a file that is mapped: it must not be shorter
        than it was.
        """
        if self._consumed:
            raise ModelError(
                f"model {self.name!r} was consumed by a session, which has its constants now: load "
                "it again"
            )
        self._check_files()
        problems = [*self._check_tensors(), *self._check_edges(), *self._check_nodes()]
        if self.state and not problems:
            problems = [*self._check_state(self.state)]
        if problems:
            shown = problems[:20]
            if len(problems) > len(shown):
                shown.append(f"... and {len(problems) - len(shown)} more")
            raise ModelError(f"model {self.name!r} is not valid: " + "; ".join(shown))

    def _check_files(self) -> None:
        for file in self._mapped:
            file.check()

    def _check_tensors(self) -> Iterator[str]:
        good: np.dtype | None = None  # a type that was looked at
        for key, t in self.tensors.items():
            if key != t.name or not key:
                yield f"tensor {t.name!r} is filed under {key!r}"
            if _ordinary(t.shape):
                pass
            elif not all(isinstance(d, (int, np.integer)) and d >= 0 for d in t.shape):
                yield f"tensor {key!r}: every dimension must be a whole number, not {t.shape}"
            elif t.nbytes > _MOST_BYTES or (t.shape and max(t.shape) > _MOST_OF_A_DIM):
                yield (
                    f"tensor {key!r} is too large: a dimension has at most {_MOST_OF_A_DIM} "
                    f"elements in QNN, and a tensor {_MOST_BYTES} bytes; its shape is {t.shape}"
                )
            dtype = t.dtype
            if dtype is good and t.quantization is None:
                pass
            elif not has_data_type(np.dtype(dtype)):
                yield f"tensor {key!r}: element type {t.dtype} is not one that QNN has"
            elif t.quantization is not None and np.dtype(t.dtype) not in _FIXED_POINT:
                yield (
                    f"tensor {key!r} has an encoding, but fixed-point numbers are integers of 8, "
                    f"16 or 32 bits, not {t.dtype}"
                )
            else:
                good = dtype
            data = t.data
            if t.scalar and t.shape not in ((), (1,)):
                yield f"tensor {key!r} is a scalar of shape {t.shape}"
            if data is None:
                continue
            if t.quantization is not None and t.quantization.packed:
                if data.shape != (t.nbytes,) or data.dtype != np.uint8:
                    yield (
                        f"constant {key!r} has two elements in a byte: {t.nbytes} bytes as uint8, "
                        f"but holds {data.dtype}{list(data.shape)}"
                    )
            elif data.shape != t.shape or (data.dtype is not dtype and data.dtype != dtype):
                yield (
                    f"constant {key!r} is declared {t.dtype}{list(t.shape)} but holds "
                    f"{data.dtype}{list(data.shape)}"
                )

    def _check_edges(self) -> Iterator[str]:
        for kind, names in (("input", self.inputs), ("output", self.outputs)):
            for name, count in Counter(names).items():
                if name not in self.tensors:
                    yield f"{kind} {name!r} is not a tensor of the model"
                elif self.tensors[name].data is not None:
                    yield f"{kind} {name!r} is a constant"
                if count > 1:
                    yield f"{kind} {name!r} is listed {count} times"

    def _check_nodes(self) -> Iterator[str]:
        tensors = self.tensors
        ready = {name for name, t in tensors.items() if t.data is not None}
        ready.update(self.inputs)
        for name, count in Counter([node.name for node in self.nodes]).items():
            if count > 1 or not name:
                yield f"{count} nodes are named {name!r}"
        produced: set[str] = set()
        for node in self.nodes:
            for name in node.inputs:
                if (name in ready and name in tensors) or not name:
                    continue
                if name not in tensors:
                    yield f"node {node.name!r} reads {name!r}, which is not a tensor of the model"
                else:
                    yield f"node {node.name!r} reads {name!r} before any node has produced it"
            if not any(node.outputs):
                yield f"node {node.name!r} has no output"
            for name in node.outputs:
                if not name:
                    continue
                if name not in tensors:
                    yield f"node {node.name!r} writes {name!r}, which is not a tensor of the model"
                elif name in ready:
                    yield f"node {node.name!r} writes {name!r}, which has a value already"
                ready.add(name)
                produced.add(name)
        for name in self.outputs:
            if name in self.tensors and name not in produced:
                yield f"output {name!r} is not produced by any node"


def names_of_new(name: str) -> Iterator[str]:
    """What exporters call the new value of an input."""
    for old, new in _NEW_NAMES:
        if re.search(old, name):
            yield re.sub(old, new, name, count=1)


def _same_encoding(a: Quantization | None, b: Quantization | None) -> bool:
    if a is None or b is None:
        return a is b
    same = np.array_equal(a.scale, b.scale) and np.array_equal(a.offset, b.offset)
    return same and a.axis == b.axis and a.bitwidth == b.bitwidth


def _ordinary(shape: tuple[int, ...]) -> bool:
    """Whether sizes are such as nearly all are, and need no closer look."""
    total = 1
    for d in shape:
        if type(d) is not int or d < 0:
            return False
        total *= d
    return total <= _MOST_OF_A_DIM


def _param_text(value: object) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    return str(value.item() if isinstance(value, np.generic) else value)
