"""Graphs: tensors and nodes in, executions out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from .._native import _core
from ..abi import constants as abi
from ..dtypes import data_type, numpy_dtype
from ..model import Node
from ..model import Tensor as ModelTensor
from ..model.binary import BinaryGraph
from ..quantization import packed
from ..support import choice
from . import completions
from .context_base import ContextBase
from .copies import Copy
from .execution import (
    Binding,
    ExecutionEnvironment,
    binding_of,
    buffers_in_flight,
)
from .options import graph_options
from .owner import Owner, config
from .params import PLAIN, params_of, static_tensor
from .profile import Profile, Signal

__all__ = ["ExecutionEnvironment", "Graph", "Tensor"]

Tensor: TypeAlias = _core.Tensor
Buffer: TypeAlias = _core.Buffer

TENSOR_TYPES: Final = {
    "app_write": abi.QNN_TENSOR_TYPE_APP_WRITE,
    "app_read": abi.QNN_TENSOR_TYPE_APP_READ,
    "app_readwrite": abi.QNN_TENSOR_TYPE_APP_READWRITE,
    "native": abi.QNN_TENSOR_TYPE_NATIVE,
    "static": abi.QNN_TENSOR_TYPE_STATIC,
    "null": abi.QNN_TENSOR_TYPE_NULL,
}
_INPUT, _OUTPUT, _STATE = (TENSOR_TYPES[f"app_{way}"] for way in ("write", "read", "readwrite"))
#: Of qnnrt's backends those that may read constants in place, with strides; the Saver writes them
#: down at once.
_BORROWERS: Final = (
    abi.QNN_BACKEND_ID_CPU,
    abi.QNN_BACKEND_ID_GPU,
    abi.QNN_BACKEND_ID_HTP,
    abi.QNN_BACKEND_ID_LPAI,
)
MEM_TYPES: Final = {
    "raw": abi.QNN_TENSORMEMTYPE_RAW,
    "memhandle": abi.QNN_TENSORMEMTYPE_MEMHANDLE,
}


def _four_bits(dtype: Any, data: Any, quantization: Any) -> tuple[Any, Any, Any]:
    """``ml_dtypes.int4`` and ``uint4`` as what carries them: 8 bits of which 4 are used, or two in
    a byte. Encodings in blocks do not say how many bits are used: there the type says it."""
    name = getattr(dtype, "name", getattr(dtype, "__name__", dtype))
    in_blocks = quantization.block is not None or quantization.block_scales is not None
    four = quantization.bitwidth == 4 or name in ("int4", "uint4")
    if name in ("int4", "uint4"):
        dtype = np.dtype(name.replace("4", "8"))
        if data is not None:
            data = np.ascontiguousarray(np.asarray(data).astype(dtype))
        if quantization.bitwidth is None and not in_blocks:
            quantization = replace(quantization, bitwidth=4)
    if not quantization.packed and (not in_blocks or not four or not isinstance(data, np.ndarray)):
        return dtype, data, quantization
    kind = np.dtype(dtype).kind
    if kind not in "iu" or np.dtype(dtype).itemsize != 1:
        return dtype, data, quantization
    if not quantization.packed:
        data = packed(data)
    return f"{'U' if kind == 'u' else 'S'}FIXED_POINT_4", data, quantization


class Graph(Owner):
    """A graph. Made by ``Context.create_graph`` or ``Context.graph``.

    Attributes:
        inputs, outputs: the ones of type app_write and app_read, in the order they were added.
        states: those of type app_readwrite, which executions take among the inputs, and may take
            among the outputs, too.
        produced: of a graph that a model library composed: node -> the names of its outputs.
    """

    _rank = 2

    def __init__(
        self, context: ContextBase, name: str, handle: int, freed: _core.Event | None = None
    ) -> None:
        self.context = context
        self.name = name
        self._library = context._library
        self._borrows = self._library.backend_id in _BORROWERS
        self._is_ours = self._borrows and self._library.has_extensions
        #: Whether what it borrows stays as it is while the context lives.
        self._lasts = False
        self._allows_none = self._library.backend_id == abi.QNN_BACKEND_ID_LPAI
        self._tensors: dict[str, Tensor] = {}
        #: Of a model's tensors that have no object yet: what they are.
        self._composed: dict[str, tuple[int, tuple[int, ...], int, int, Any]] = {}
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.states: list[Tensor] = []
        self.produced: dict[str, list[str]] = {}
        # Graphs go with their context: the C API has no call that frees one.
        free = _nothing if freed is None else partial(_free, context, name)
        held = _core.Held(free, int, handle, freed=freed)
        self._own(f"graph {name!r}", held, context)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors added, by name."""
        while self._composed:
            name, (id, shape, code, kind, q) = self._composed.popitem()
            self._tensors[name] = _core.Tensor(
                name, shape, code, kind, quantization=q, dtype=numpy_dtype(code), id=id
            )
        return self._tensors

    def add_tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        type: str | int = "native",
        data: Any = None,
        quantization: Any = None,
        mem_type: str | int = "raw",
        copy: bool = True,
    ) -> Tensor:
        """Add a tensor.

        Args:
            name: unique in the graph.
            shape: dimensions.
            dtype: anything ``numpy.dtype`` takes, or a QNN data type.
            type: "app_write" (input), "app_read" (output), "app_readwrite" (both: nodes that are
                added before the one that writes it read its old value), "native" or "static"
                (constant).
            data: a static tensor's values, an array or what has the bytes of one; used until
                ``finalize``.
            quantization: a ``qnnrt.model.Quantization``: real = scale * (q + offset). Integer
                types become fixed-point ones. 4-bit constants are int8 or uint8 with bitwidth 4,
                ``ml_dtypes.int4`` or ``uint4``, or "SFIXED_POINT_4" or "UFIXED_POINT_4" with
                `data` of two elements in a byte, the first one in its low half.
            mem_type: "raw" or "memhandle": how it will be bound at run time.
            copy: False: `data` is not copied now but read when the graph is finalized, and does not
                change until then. A constant that a graph has already, in its context or where it
                shares weights with others, is not copied at all. Backends of others copy it.

        Raises:
            TensorError: the backend does not take it.
        """
        if quantization is not None:
            dtype, data, quantization = _four_bits(dtype, data, quantization)
        code = data_type(dtype, quantization is not None)
        kind = choice("type", type, TENSOR_TYPES)
        if (
            isinstance(data, np.ndarray)
            and not data.flags.c_contiguous
            and not self._takes_strides(data, shape, code)
        ):
            data = np.ascontiguousarray(data)
        dtype = None if isinstance(dtype, str) and dtype == "STRING" else numpy_dtype(code)
        mem_type = choice("mem_type", mem_type, MEM_TYPES)
        kind, mem_type = self._placed(name, kind, mem_type)
        tensor = _core.Tensor(
            name,
            tuple(map(int, shape)),
            code,
            kind,
            data=data,
            quantization=quantization,
            mem_type=mem_type,
            dtype=dtype,
        )
        lend = not copy and self._borrows
        if self._library.tensor_create_graph_tensor(
            self.handle, tensor, lend, lend and self._lasts
        ):
            self._lend(tensor)
        self._tensors[name] = tensor
        if kind == _INPUT:
            self.inputs.append(tensor)
        elif kind == _OUTPUT:
            self.outputs.append(tensor)
        elif kind == _STATE:
            self.states.append(tensor)
        return tensor

    def _placed(self, name: str, kind: int, mem_type: int) -> tuple[int, int]:
        """What the tensor is made as, where that is not what was asked for."""
        return kind, mem_type

    def _takes_strides(self, data: np.ndarray, shape: Sequence[int], code: int) -> bool:
        """Whether the backend makes rows of data that does not lie as rows: others' do not."""
        return (
            self._is_ours
            and data.shape == tuple(shape)
            and data.dtype == numpy_dtype(code)
            and not any(stride % data.itemsize for stride in data.strides)
        )

    def _set_io(self, described: BinaryGraph) -> None:
        """The inputs and outputs of a graph that came out of a binary."""
        for kind, tensors, made in (
            ("app_write", described.inputs, self.inputs),
            ("app_read", described.outputs, self.outputs),
            ("app_readwrite", described.states, self.states),
        ):
            for t in tensors:
                tensor = _core.Tensor(
                    t.name,
                    tuple(t.shape),
                    t.data_type,
                    TENSOR_TYPES[kind],
                    quantization=t.quantization,
                    mem_type=MEM_TYPES[t.mem_type],
                    dtype=t.dtype,
                    id=t.id,
                )
                self._tensors[t.name] = tensor
                made.append(tensor)

    def add_node(
        self,
        name: str,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        params: Mapping[str, Any] | None = None,
        *,
        package: str = "qti.aisw",
    ) -> None:
        """Add an operation.

        Args:
            name: unique in the graph.
            type: the op, for example "Conv2d".
            inputs, outputs: tensors in the op's order; None for an omitted one.
            params: numbers, strings, arrays or tensors. A Python int becomes UINT_32 (INT_32 when
                negative), a float FLOAT_32, a bool BOOL_8; numpy scalars keep their type.
            package: what the op is in: ``PYTHON_PACKAGE`` for those of ``register_op``, or one of
                ``Backend.register_op_package``.

        Raises:
            GraphError, OpPackageError: the backend does not take it.
        """
        self.context.backend.use_package(package)
        given = params_of(params, self._parameter(name)) if params else ()
        op = _core.Op(name, package, type, given, inputs, outputs)
        self._library.graph_add_node(self.handle, op)

    def _parameter(self, node: str) -> Callable[[str, np.ndarray], Tensor]:
        """What makes a tensor of a parameter that is an array: one of the graph, as QNN says.
        Backends of this package take its elements with the node."""

        def make(param: str, array: np.ndarray) -> Tensor:
            tensor = static_tensor(f"{node}.{param}", array)
            if not self._is_ours:
                self._library.tensor_create_graph_tensor(self.handle, tensor)
            return tensor

        return make

    def _add_model(
        self,
        tensors: Sequence[ModelTensor],
        nodes: Sequence[Node],
        apart: Collection[str],
        scalar: tuple[int, ...],
        add: Callable[[ModelTensor], Tensor],
        moves: Callable[[ModelTensor], bool],
        forgets: bool,
    ) -> None:
        """The tensors and nodes of a model, in one call.

        Args:
            tensors: those that nodes or the model itself name.
            nodes: in their order; operands by name.
            apart: names of tensors that `add` makes, as it does others that are not plain.
            scalar: the shape of tensors without dimensions.
            add: adds a tensor by ``add_tensor``.
            moves: whether the data of a constant are copied, and go; others may be read until the
                graph is finalized.
            forgets: whether scales of a constant's channels go, too: a backend of ours has its own.

        Raises:
            TensorError, GraphError, OpPackageError: the backend does not take it.
        """
        for package in {node.type.rpartition("::")[0] for node in nodes if "::" in node.type}:
            self.context.backend.use_package(package)
        composed, lent = _core.graph_compose(
            self._library,
            self.handle,
            tensors,
            nodes,
            apart,
            codes=PLAIN,
            data_type=data_type,
            scalar=scalar,
            own=self._is_ours,
            add=add,
            parameter=lambda node, name, x: params_of({name: x}, self._parameter(node)),
            moves=moves,
            lends=self._borrows,
            lasts=self._lasts,
            forgets=forgets and self._is_ours,
        )
        self._composed |= composed
        if lent is not None:
            self._lend(lent)

    def _lend(self, data: Tensor | _core.Lent) -> None:
        """What the backend may read until the graph is finalized stays until then."""
        self.context._lent.setdefault(self.name, []).append(data)

    def finalize(self, profile: Profile | None = None, signal: Signal | None = None) -> None:
        """Check, optimise and plan the graph: afterwards it can only be executed."""
        self._library.graph_finalize(
            self.handle, profile.handle if profile else 0, signal.handle if signal else 0
        )
        for tensor in (*self._tensors.values(), *self.context._lent.pop(self.name, ())):
            tensor.release_data()

    def _bind(self, tensors: Sequence[Tensor], given: Any, writable: bool) -> tuple[list[Any], Any]:
        if isinstance(given, Mapping):
            names = {t.name for t in tensors}
            if unknown := [n for n in given if n not in names]:
                raise KeyError(
                    f"graph {self.name!r} has no tensor {unknown[0]!r} there; it has "
                    f"{', '.join(sorted(names)) or 'none'}"
                )
            pairs = [(t, given[t.name]) for t in tensors if t.name in given]
        else:
            values = list(given)
            if len(values) != len(tensors):
                raise ValueError(
                    f"graph {self.name!r}: {len(tensors)} tensors there, {len(values)} given"
                )
            pairs = list(zip(tensors, values, strict=True))
        if not self._allows_none and any(v is None for _, v in pairs):
            raise TypeError(
                f"graph {self.name!r}: None is for tensors in the scratch memory of LPAI graphs; "
                "give an array, a Buffer or a MemHandle"
            )
        return [(t, binding_of(t, v, writable)) for t, v in pairs], [v for _, v in pairs]

    def _written(self, given: Any) -> list[Tensor]:
        """What the outputs of an execution may be: states where the mapping names them."""
        if not isinstance(given, Mapping):
            return self.outputs
        return [*self.outputs, *(t for t in self.states if t.name in given)]

    def execute(
        self,
        inputs: Mapping[str, Binding] | Sequence[Binding],
        outputs: Mapping[str, Binding] | Sequence[Binding],
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> None:
        """Execute once, on arrays (used in place, as RAW memory), buffers or memory handles.

        On lpai, inputs and outputs that are None, or all of them with ``execute({}, {})``, lie in
        the scratch memory: ``qnnrt.lpai.io_array`` has them.

        Raises:
            ValueError: an array has the wrong shape or type, is not contiguous, or not writable.
            GraphError: what the backend says.
        """
        ins, keep_in = self._bind([*self.inputs, *self.states], inputs, False)
        outs, keep_out = self._bind(self._written(outputs), outputs, True)
        _core.graph_execute(
            self._library,
            self.handle,
            ins,
            outs,
            profile.handle if profile else 0,
            signal.handle if signal else 0,
        )
        del keep_in, keep_out

    def execute_async(
        self,
        inputs: Mapping[str, Binding] | Sequence[Binding],
        outputs: Mapping[str, Binding] | Sequence[Binding],
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> Future[None]:
        """As ``execute``, without waiting for it; waits while the backend's queue is full.

        The memory must stay untouched until the future is done, and can be neither closed nor
        deregistered before.

        Raises:
            GraphError: 1000, the backend has no asynchronous execution; 6025, its queue is full and
                it does not wait. What goes wrong later is in the future.
        """
        ins, keep_in = self._bind([*self.inputs, *self.states], inputs, False)
        outs, keep_out = self._bind(self._written(outputs), outputs, True)
        in_flight = buffers_in_flight(self.name, (*keep_in, *keep_out))
        launch = partial(
            _core.graph_execute_async,
            self._library,
            self.handle,
            ins,
            outs,
            profile=profile.handle if profile else 0,
            signal=signal.handle if signal else 0,
            keep=(self, keep_in, keep_out, in_flight, profile, signal),
        )
        return completions.start(self._library, launch)

    def prepare_environment(
        self,
        inputs: Mapping[str, Binding] | Sequence[Binding],
        outputs: Mapping[str, Binding] | Sequence[Binding],
    ) -> ExecutionEnvironment:
        """Bind memory handles to the graph before execution (BIND_MEM_HANDLES).

        Ask ``backend.has_capability("bind_mem_handles")`` first. Close the result, or the graph's
        context, to release them; the handles cannot be deregistered before.

        Raises:
            GraphError: 1000, the backend has no such option.
        """
        ins, keep_in = self._bind([*self.inputs, *self.states], inputs, False)
        outs, keep_out = self._bind(self._written(outputs), outputs, True)
        return ExecutionEnvironment(
            self,
            abi.QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES,
            ins,
            outs,
            self.context,
            library=self._library,
            keep=(*keep_in, *keep_out),
        )

    def populate_environment(self, names: Sequence[str] | None = None) -> ExecutionEnvironment:
        """Learn where the backend's own memory for inputs and outputs is (POPULATE_CLIENT_BUFS).

        Executing with the arrays of the result copies nothing, even where RAW memory is staged: it
        is the staging memory. Ask ``backend.has_capability("populate_client_bufs")`` first.

        Args:
            names: of inputs and outputs; all of them unless given.

        Returns:
            an environment whose ``arrays`` has a numpy array for each of them. Arrays stay valid
            after it is closed; they are the backend's own memory as long as the graph is there.

        Raises:
            KeyError: no such input or output.
            GraphError: 1000, the backend has no such option.
        """
        known = [t.name for t in (*self.inputs, *self.states, *self.outputs)]
        if unknown := [n for n in names or () if n not in known]:
            raise KeyError(
                f"graph {self.name!r} has no input or output {unknown[0]!r}; it has "
                f"{', '.join(known)}"
            )
        wanted = known if names is None else names
        ins = [(t, (0, 0)) for t in (*self.inputs, *self.states) if t.name in wanted]
        outs = [(t, (0, 0)) for t in self.outputs if t.name in wanted]
        return ExecutionEnvironment(
            self,
            abi.QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS,
            ins,
            outs,
            self.context,
            library=self._library,
        )

    def set_config(self, **options: Any) -> None:
        """Change options.

        Args:
            options: ``priority``; ``profile``, a ``Profile`` that is this graph's alone and
                collects the events of every execution from now on, or 0 to take it away;
                ``profiling_enabled``, to pause it; ``num_profiling_executions``, after which it
                stops; ``custom``, structs of the backend's own.

        Raises:
            GraphError: what the backend says; 6032, the profile is in use.
        """
        self._library.graph_set_config(self.handle, config(graph_options(**options)))
        if options.get("profile") is not None:
            self.context._profiles[self.name] = options["profile"]

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self._library.graph_get_property(self.handle, option, data)

    def reset_state(self) -> None:
        """Zero the state that nodes such as Lstm keep from one execution to the next: the next one
        starts afresh. Waits for an execution that runs.

        Raises:
            GraphError: 1000, the backend is not qnnrt's own; or the graph is not finalized.
        """
        _core.graph_reset_state(self._library, self.handle)

    @property
    def copies(self) -> tuple[Copy, ...]:
        """What the backend copied in executions since it was made, or since ``reset_copies``: a
        ``Copy`` for each tensor, direction and reason. Empty from any backend but qnnrt's own."""
        return tuple(Copy(*found) for found in self._library.graph_copies(self.handle))

    @property
    def copied_bytes(self) -> int | None:
        """The sum of ``copies``; None from any backend but qnnrt's own, which does not say."""
        stats = self._library.graph_stats(self.handle)
        return None if stats is None else int(stats["copied_bytes"])

    def reset_copies(self) -> None:
        """Start counting copies anew."""
        self._library.graph_reset_stats(self.handle)

    def describe(self) -> str | None:
        """The finalized steps and the arena as JSON; None from any backend but qnnrt's own."""
        return self._library.graph_describe(self.handle)


def _nothing(handle: int) -> None:
    pass


def _free(context: ContextBase, name: str, handle: int) -> None:
    """Free one graph, unless it went with its context, and let go of what it was given."""
    if not context.closed:
        _core.graph_free(context._library, handle)
        context._forget(name)
