"""One subgraph of an interpreter: its tensors, their memory, and what runs on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnsupportedOpError
from ..importers.tflite.parts import Parts, tensor_name
from ..importers.tflite.schema import OPERATORS, FileInfo, OperatorInfo, SubgraphInfo
from ..importers.tflite.values import Key
from ..qnn.backend import Backend
from ..session import BoundTensor, Copy, Session
from .delegate import QnnDelegate
from .memory import DEFAULT_TENSOR_ALIGNMENT, TfLiteCustomAllocation
from .partition import Partition, partitions

__all__ = ["Subgraph"]


class Subgraph:
    """Tensors by index, in the memory of the interpreter's own or the application's."""

    def __init__(
        self,
        file: FileInfo,
        graph: SubgraphInfo,
        title: str,
        digest: str,
        cpu: Backend,
        threads: int | None,
        variables: dict[Key, np.ndarray],
    ) -> None:
        self.file = file
        self.graph = graph
        self.title = title
        self.digest = digest  # of the file
        self.cpu = cpu
        self.threads = threads
        self.variables = variables  # resource variables, of all subgraphs
        # As the file was saved with; 1 for what it leaves open altogether.
        self.sizes = {i: tuple(max(d, 1) for d in graph.tensors[i].shape) for i in graph.inputs}
        self.custom: dict[int, TfLiteCustomAllocation] = {}
        self.delegate: QnnDelegate | None = None
        self.ready = False
        self._parts: Parts | None = None
        self._plan: list[tuple[Partition, Session]] = []
        self._arrays: dict[int, np.ndarray] = {}
        self._runs: list[Callable[[], object]] = []

    def __str__(self) -> str:
        return self.title

    # ---- tensors

    def check(self, index: int) -> None:
        """Raises ``IndexError`` unless there is such a tensor."""
        if not 0 <= index < len(self.graph.tensors):
            raise IndexError(f"tensor {index}: there are {len(self.graph.tensors)}")

    @property
    def parts(self) -> Parts:
        """The subgraph with its sizes of now."""
        if self._parts is None:
            self._parts = Parts(self.file, self.graph, self.sizes)
            if self._parts.refused:
                raise UnsupportedOpError(self._parts.refused, self.file.where)
        return self._parts

    def shape(self, index: int) -> tuple[int, ...]:
        """A tensor's, with the inputs' sizes of now; the file's where it has no value here."""
        return self.parts.shapes.get(index, self.graph.tensors[index].shape)

    def dtype(self, index: int) -> np.dtype[Any]:
        """The type of a tensor's elements.

        Raises:
            ValueError: a type that QNN has not.
        """
        tensor = self.graph.tensors[index]
        if tensor.dtype is None:
            raise ValueError(f"tensor {index} is {tensor.type}, which QNN does not have")
        return tensor.dtype

    def nbytes(self, index: int) -> int:
        """Of a tensor."""
        return math.prod(map(int, self.shape(index))) * self.dtype(index).itemsize

    def resize(self, index: int, shape: tuple[int, ...]) -> None:
        """Another size of an input."""
        if index not in self.sizes:
            raise ValueError(f"tensor {index} is no input: the inputs are {list(self.sizes)}")
        if any(d < 1 for d in shape):
            raise ValueError(f"a size is at least 1: {list(shape)}")
        if tuple(shape) != self.sizes[index]:
            self.sizes[index] = tuple(shape)
            self._parts = None
            self._drop()

    def array(self, index: int) -> np.ndarray:
        """The memory of a tensor.

        Raises:
            ValueError: it has none: tensors inside of a partition are the backend's.
        """
        self.check(index)
        if index in self._arrays:
            return self._arrays[index]
        if index in self.parts.constants:
            data = self.parts.constants[index]
            data.flags.writeable = False
            return data
        raise ValueError(
            f"tensor {index} has no memory: call allocate_tensors() first; tensors inside of a "
            "partition have none at all"
        )

    # ---- memory of the application's

    def set_custom(self, index: int, allocation: TfLiteCustomAllocation, check: bool) -> None:
        """Memory for a tensor from the next ``allocate`` on."""
        self.check(index)
        tensor = self.graph.tensors[index]
        if tensor.constant or index in self.parts.constants:
            raise ValueError(f"tensor {index} is a constant of the file: it takes no other memory")
        if check and allocation.data % DEFAULT_TENSOR_ALIGNMENT:
            raise ValueError(
                f"custom memory for tensor {index} needs an address that is a multiple of "
                f"{DEFAULT_TENSOR_ALIGNMENT}; {allocation.data:#x} is only a multiple of "
                f"{allocation.data & -allocation.data}"
            )
        self._release(index)
        self.custom[index] = allocation
        if allocation.mem is not None:
            allocation.mem._users.add(self)
        self.ready = False

    def _release(self, index: int) -> None:
        old = self.custom.pop(index, None)
        if old is None or old.mem is None:
            return
        self._arrays.pop(index, None)
        for part, session in self._plan:
            if index in part.inputs or index in part.outputs:
                self._unbind(session, index)
        if not any(a.mem is old.mem for a in self.custom.values()):
            old.mem._users.discard(self)

    def _unbind(self, session: Session, index: int) -> None:
        """Let go of the application's memory: the session has its own again, until ``allocate``."""
        name = tensor_name(index)
        t = session.inputs.get(name) or session.outputs[name]
        handle = t.handle
        t.io = "raw"
        t.bind(np.zeros(t.shape, t.dtype))
        if handle is not None and not handle.closed:
            session.context.deregister(handle)

    # ---- what runs

    def modify(self, delegate: QnnDelegate) -> None:
        """Let a delegate take what it takes. Tensors that were allocated are so again."""
        delegate.check_open()
        if self.delegate is not None:
            raise RuntimeError(f"{self.title} has a delegate already")
        was_ready = self.ready
        self._drop()
        self.delegate = delegate
        delegate._users.add(self)
        try:
            self._build()
            if was_ready:
                self.allocate()
        except BaseException:  # as before, without it
            self._drop()
            self.delegate = None
            delegate._users.discard(self)
            if was_ready:
                self.allocate()
            raise

    def allocate(self) -> None:
        """Memory for every tensor at the edge of a partition, checked, and bound.

        Raises:
            ValueError: the application's memory is too small.
            UnsupportedOpError: operators that nothing here runs.
        """
        for index, allocation in self.custom.items():
            if allocation.bytes < self.nbytes(index):
                raise ValueError(
                    f"custom memory for tensor {index} has {allocation.bytes} bytes; it needs "
                    f"{self.nbytes(index)} ({self.dtype(index)}{list(self.shape(index))})"
                )
        if not self._plan:
            self._build()
        edges = [*self.graph.inputs, *(i for p, _ in self._plan for i in (*p.inputs, *p.outputs))]
        old, self._arrays = self._arrays, {}
        for i in dict.fromkeys(edges):
            self._arrays[i] = self._memory(i, old.get(i))
        self._bind()
        self.ready = True

    def _memory(self, index: int, old: np.ndarray | None) -> np.ndarray:
        shape, dtype = self.shape(index), self.dtype(index)
        if index in self.custom:
            return self.custom[index].array(shape, dtype)
        if old is not None and old.shape == shape:
            return old
        return _aligned(shape, dtype)

    def _build(self) -> None:
        parts = self.parts
        left = [op for op in self.graph.operators if not parts.folds(op)]
        taken = self._taken(left)
        known = parts.constants.keys() | parts.variables.keys()
        found = partitions(self.graph, left, known, lambda op: op.index in taken, parts.variable)
        if self.delegate is not None:
            self._report(self.delegate, found)
        try:
            for n, part in enumerate(found):
                self._plan.append((part, self._session(part, n)))
        except BaseException:
            self._drop()
            raise

    def _taken(self, operators: list[OperatorInfo]) -> set[int]:
        """The operators that the delegate takes."""
        if self.delegate is None:
            return set()
        skip = self.delegate.options.skip_options
        ops = {str(op).upper() for op in skip.ops}
        ops |= {OPERATORS.get(op, "") for op in skip.ops if isinstance(op, int)}
        taken = set()
        for op in operators:
            if op.op in ops or op.index in skip.node_ids:
                reason: str | None = "skip_options name it"
            else:
                reason = self.delegate.refusal(self.parts, op)
            if reason is None:
                taken.add(op.index)
            else:
                self.delegate.say("verbose", f"node {op.index} ({op.op}) runs on the CPU: {reason}")
        return taken

    def _report(self, delegate: QnnDelegate, found: list[Partition]) -> None:
        taken = [len(p.operators) for p in found if p.delegated]
        delegate.say(
            "info",
            f"{delegate.name} delegate: {sum(taken)} nodes delegated out of "
            f"{len(self.graph.operators)} nodes with {len(taken)} partitions.\n",
        )
        if taken:  # else nothing is replaced
            delegate.say(
                "info",
                f"Replacing {sum(taken)} node(s) with delegate ({delegate.name}) node, yielding "
                f"{len(found)} partitions.",
            )

    def _session(self, part: Partition, number: int) -> Session:
        model = self.parts.model(part.operators, part.inputs, part.outputs)
        if not part.delegated or self.delegate is None:
            return Session(model, self.cpu, io="raw", threads=self.threads)
        edges = (*part.inputs, *part.outputs)
        shared = dict.fromkeys((*model.inputs, *model.outputs), True)  # states are the session's
        shared |= {tensor_name(i): self._shared(i) for i in edges}
        sizes = [self.shape(i) for i in edges]
        key = repr((self.digest, self.graph.index, number, edges, sizes))
        return self.delegate.session(model, shared, key)

    def _shared(self, index: int) -> bool:
        """Whether a tensor lies in memory that an accelerator sees."""
        return index in self.custom and self.custom[index].mem is not None

    def _bind(self) -> None:
        self._runs = []
        for part, session in self._plan:
            for i in (*part.inputs, *part.outputs):
                self._bind_one(part, session, i)
            for name, state in session.state.items():
                self._bind_variable(self.parts.variable_of(name), state)
            run: Callable[[], object] = session.run
            if part.delegated and self.delegate is not None:
                run = partial(self._run_delegated, self.delegate, part, session)
            self._runs.append(run)
            self._runs += [partial(_move, *pair) for pair in _states(session)]

    def _bind_one(self, part: Partition, session: Session, index: int) -> None:
        name = tensor_name(index)
        t = session.inputs.get(name) or session.outputs[name]
        array = self._arrays[index].reshape(t.shape)
        if not part.delegated:
            t.bind(array)
            return
        t.io = "memhandle" if self._shared(index) else "raw"
        t.bind(array)
        if t.handle is not None and self.delegate is not None:
            self.delegate.say(
                "info", f"Tensor {index} is successfully registered to shared memory."
            )

    def _bind_variable(self, key: Key, state: BoundTensor) -> None:
        if key not in self.variables:
            self.variables[key] = _aligned(state.shape, state.dtype)
            self.variables[key][...] = state.array
        state.bind(self.variables[key])

    def _run_delegated(self, delegate: QnnDelegate, part: Partition, session: Session) -> None:
        options = delegate.options
        if delegate.strategy == "auto":
            delegate.vote()
        try:
            if options.profiling == "off":
                session.run()
            else:
                level = "basic" if options.profiling == "basic" else "detailed"
                delegate.profile += session.profile(level)
        finally:
            if delegate.strategy == "auto":
                delegate.vote("default")
        if options.tensor_dump_output_path is not None:
            folder = Path(options.tensor_dump_output_path)
            folder.mkdir(parents=True, exist_ok=True)
            for i in (*part.inputs, *part.outputs):
                self._arrays[i].tofile(folder / f"{tensor_name(i)}.raw")

    def invoke(self) -> None:
        """One run.

        Raises:
            RuntimeError: ``allocate`` has to come first.
        """
        if not self.ready:
            raise RuntimeError(
                f"{self.title} is not ready: call allocate_tensors() first, and again after a "
                "change of sizes or of custom memory"
            )
        for run in self._runs:
            run()

    def reset_variables(self) -> None:
        """State of recurrent operators starts from zeros again; resource variables stay, as in
        TFLite."""
        for _, session in self._plan:
            session.graph.reset_state()
            for state, _ in _states(session):
                state.array[...] = 0

    # ---- what happened

    @property
    def plan(self) -> list[Partition]:
        """The partitions, in the order in which they run."""
        return [part for part, _ in self._plan]

    def copies(self) -> list[Copy]:
        """What was copied so far."""
        return [copy for _, session in self._plan for copy in session.stats.copies]

    # ---- the end

    def _drop(self) -> None:
        for _, session in self._plan:
            session.close()
        self._plan = []
        self._runs = []
        self.ready = False

    def close(self) -> None:
        """Close sessions, release memory and delegate."""
        self._drop()
        for index in list(self.custom):
            self._release(index)
        self._arrays = {}
        if self.delegate is not None:
            self.delegate._users.discard(self)
            self.delegate = None


def _states(session: Session) -> list[tuple[BoundTensor, BoundTensor]]:
    """States that no operation keeps: their values before and after a run."""
    found = [(t, session.outputs.get(f"{name}.next")) for name, t in session.inputs.items()]
    return [(before, after) for before, after in found if after is not None]


def _move(before: BoundTensor, after: BoundTensor) -> None:
    before.array[...] = after.array


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Zeros at an address that TFLite would give them."""
    count = math.prod(map(int, shape)) * dtype.itemsize
    raw = np.zeros(count + DEFAULT_TENSOR_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % DEFAULT_TENSOR_ALIGNMENT
    return raw[start : start + count].view(dtype).reshape(shape)
