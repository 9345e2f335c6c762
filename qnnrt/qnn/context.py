"""Contexts: graphs and registered memory live in one."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .._native import _core
from ..abi import constants as abi
from ..dtypes import data_type
from ..errors import BackendNotFoundError, MemError, ModelError
from ..model.binary import (
    BinaryGraph,
    ContextBinary,
    describe_binary,
    graphs_of,
    map_file,
    system_library,
)
from ..model.library import ModelLibrary
from ..support import log
from ..support.guard import Guard
from .backend_base import BackendBase
from .composing import Plan
from .context_base import ContextBase
from .foreign_memory import is_opencl_buffer, refuse_memory
from .graph import Graph
from .memhandle import MemHandle, PartHandle, PartHandles
from .options import Custom, context_options, graph_options
from .owner import config
from .profile import Profile

__all__ = ["Context"]

Buffer: TypeAlias = _core.Buffer


class Context(ContextBase):
    """A context. Made by ``Backend.create_context`` or ``Context.from_binary``.

    Attributes:
        backend: what it stands on.
    """

    def __init__(self, backend: BackendBase, held: _core.Held, *, keep: Any = None) -> None:
        self._registered = _core.Tally()
        self._cache: weakref.WeakValueDictionary[tuple[Any, ...], MemHandle] = (
            weakref.WeakValueDictionary()
        )
        # Alive from the registration until the memory is deregistered, beyond the handle's end.
        self._releases: weakref.WeakValueDictionary[tuple[Any, ...], _core.Event] = (
            weakref.WeakValueDictionary()
        )
        # By the parts and where their buffer lies.
        self._parts: dict[tuple[int, int], weakref.ref[PartHandles]] = {}
        #: While somebody looks for a registration, and makes it where there is none.
        self._registering = Guard()
        self._graphs: Mapping[str, BinaryGraph] | None = None
        self._unknown = ""  # why a binary's graphs are not known
        super().__init__(backend, held, keep=keep)

    @property
    def registrations(self) -> int:
        """How many memory handles were made in it so far."""
        return self._registered.n

    @classmethod
    def from_binary(
        cls,
        backend: BackendBase,
        data: Any,
        *,
        profile: Profile | None = None,
        persistent_binary: bool | None = None,
        **options: Any,
    ) -> Context:
        """A context out of a context binary.

        Args:
            backend: the kind that it was made for.
            data: a ``ContextBinary``, the path of a file (mapped, not read), or bytes-like.
            profile: what loading took.
            persistent_binary: weights are used where they lie in ``data``, which the context keeps
                alive; else the backend copies what it needs. Unless given, yes for mapped files on
                qnnrt's own backends, and for an LPAI backend that requires it.
            options: those of ``Backend.create_context``.

        Raises:
            ContextError: the binary is damaged, or was made for something else.
            ModelError: the file is no context binary.
        """
        if isinstance(data, (str, os.PathLike)):
            data = ContextBinary(data, system=system_library(backend.library.path))
        if persistent_binary is None and isinstance(data, ContextBinary):
            persistent_binary = backend.library.has_extensions or None
        if persistent_binary is None and backend.id == abi.QNN_BACKEND_ID_LPAI:
            needed = _core.lpai_requires_persistent_binary(backend.library, backend.handle)
            persistent_binary = needed or None
        described = data if isinstance(data, ContextBinary) else None
        # The view also keeps a mapping from being closed while weights are read from it.
        view = memoryview(described.data if described else data)
        free, create = backend.library.context_free, backend.library.context_create_from_binary
        arguments = (
            backend.handle,
            backend._device_handle,
            view,
            config(context_options(persistent_binary=persistent_binary, **options)),
            profile.handle if profile else 0,
        )
        backend.prepare_packages()
        keep = view if persistent_binary else None
        context: Context = _core.whole(
            lambda: cls(backend, _core.Held(free, create, *arguments), keep=keep)
        )
        context._describe(view, described)
        return context

    def _describe(self, view: memoryview, described: ContextBinary | None) -> None:
        """Learn the inputs and outputs of the binary's graphs, where a system library can tell."""
        if described is not None:
            self._graphs = described._graphs
            return
        try:
            system = system_library(self._library.path)
            self._graphs = graphs_of(describe_binary(view, "the binary", system))
        except (BackendNotFoundError, ModelError) as e:
            self._unknown = str(e)

    @staticmethod
    def validate_binary(backend: BackendBase, data: Any, **options: Any) -> None:
        """Ask whether ``from_binary`` would take a context binary; arguments as for it.

        Every weight is read and checked; ``from_binary`` leaves that to the first execution.

        Raises:
            ContextError: it would not; or 1000, the backend cannot tell.
        """
        if isinstance(data, (str, os.PathLike)):
            data = map_file(data)
        elif isinstance(data, ContextBinary):
            data = data.data
        backend.library.context_validate_binary(
            backend.handle, backend._device_handle, data, config(context_options(**options))
        )

    def create_graph(
        self,
        name: str,
        *,
        priority: str | int | None = None,
        profile: Profile | None = None,
        custom: Sequence[Custom] = (),
        freed: _core.Event | None = None,
    ) -> Graph:
        """An empty graph.

        Args:
            name: unique in the context.
            priority: "low", "normal", "normal_high" or "high".
            profile: measured all the time, not for single calls.
            custom: structs of the backend's own: bytes, or from ``qnnrt.lpai``.
            freed: given, the graph goes when it is closed, or when nobody has it any more, and not
                with the context; the event is set then, and the name may be used again. qnnrt's own
                backends only.
        """
        options = graph_options(
            priority=priority, profile=profile.handle if profile else None, custom=custom
        )
        handle = self._library.graph_create(self.handle, name, config(options))
        if profile is not None:
            self._profiles[name] = profile
        return Graph(self, name, handle, freed)

    def compose(
        self,
        library: ModelLibrary,
        *,
        mem_type: Mapping[str, str] | str | None = None,
        options: Callable[[str], Mapping[str, Any]] = lambda name: {},
        is_output: Callable[[str, str], bool] = lambda graph, tensor: False,
    ) -> list[Graph]:
        """Let a model library compose its graphs here. They are not finalized yet.

        Args:
            library: from ``qnnrt.load``; its code runs in this process.
            mem_type: "raw" or "memhandle" for all inputs and outputs, or for those that a mapping
                names; the others as the library declares them.
            options: those of ``create_graph`` for the graph of a name.
            is_output: whether an intermediate tensor, given the graph's name and its own, becomes
                an output, too.

        Returns:
            the graphs in the library's order, with their inputs and outputs; ``produced`` of each
            has the outputs of every node.

        Raises:
            ModelError: the library fails; the message names its error.
            QnnError: the backend refuses a graph, a tensor or a node.
        """
        plan = Plan(mem_type, options, is_output)
        composition = _core.Composition(
            library._loaded, self._library, self.backend.handle, self.handle, plan
        )
        self._compositions.append(composition)
        described = plan.described(composition.graphs)
        self._graphs = {**(self._graphs or {}), **described}
        graphs = []
        for made in composition.graphs:
            self._library.adopt_graph(self.handle, made["handle"], made["name"])
            graph = Graph(self, made["name"], made["handle"])
            graph.produced = plan.produced.get(made["name"], {})
            graph._set_io(described[made["name"]])
            graphs.append(graph)
        return graphs

    @property
    def graph_names(self) -> tuple[str, ...]:
        """Names of the graphs out of a binary or a model library, as far as they are known."""
        return tuple(self._graphs or ())

    def described(self, name: str) -> BinaryGraph:
        """What a graph out of a binary or a model library takes and gives.

        Raises:
            KeyError: there is no such graph, or it is not known.
        """
        return (self._graphs or {})[name]

    def graph(self, name: str) -> Graph:
        """A graph of a context that came from a binary, with its inputs and outputs.

        Raises:
            GraphError: no such graph.
            ModelError: what it takes and gives is not known; the message says why.
        """
        graph = Graph(self, name, self._library.graph_retrieve(self.handle, name))
        if self._graphs is None:
            log.warning("the inputs and outputs of graph %r are not known: %s", name, self._unknown)
        elif name in self._graphs:
            graph._set_io(self._graphs[name])
        return graph

    def register(
        self,
        buffer: Any,
        shape: Sequence[int] | int | _core.Tensor = (),
        dtype: Any = None,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """Register a buffer, or a part of it for one tensor, for use by this context's graphs.

        Args:
            buffer: memory with an fd; with kind "opencl" a ``pyopencl.Buffer`` (not one that was
                released, which pyopencl does not tell), or memory that the device shares with the
                host.
            shape: of the tensor; or a tensor of a graph, such as ``graph.inputs[0]``, which has the
                type, too.
            dtype: anything ``numpy.dtype`` takes, or a QNN data type. Fixed-point numbers have QNN
                types of their own: "UFIXED_POINT_8" and not ``numpy.uint8``.
            offset: of the tensor in the buffer, in bytes; not for "ion" and "dma_buf".
            kind: "ion" (one fd, one tensor), "shared_buffer" (many tensors in one buffer),
                "dma_buf", on a GPU backend "opencl" (one OpenCL buffer, one tensor), or on an LPAI
                backend "lpai" (many tensors in one buffer). Memory for the
                backend to fill, on htp, without shape and type: "weights" and "spill_fill", for a
                context with ``defer_graph_init``, before ``finalize``; ``get_property`` has their
                sizes.

        Raises:
            ValueError: the tensor does not lie in the buffer, or the kind cannot express it.
            TypeError: the buffer is none; a type beside a graph's tensor; a tensor's name.
            MemError: what the backend says: 8002 registered already, 8005 no such memory type (also
                a ``pyopencl.Buffer`` with another kind than "opencl", or a ``pyopencl.Image``)...
        """
        shape, dtype = _tensor_of(shape, dtype)
        if kind == "opencl":
            if self.backend.id != abi.QNN_BACKEND_ID_GPU:
                raise ValueError(
                    f"kind 'opencl' is for gpu backends, which {self.backend.name} is not"
                )
            from .opencl_handle import OpenCLHandle

            handle: MemHandle = OpenCLHandle(self, buffer, shape, dtype, offset)
        else:
            handle = MemHandle(self, buffer, shape, dtype, offset, kind)
        with self._registering.lock:
            self._registered.n += 1
        return handle

    def get_or_register(
        self,
        buffer: Any,
        shape: Sequence[int] | int | _core.Tensor = (),
        dtype: Any = None,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """The live handle for exactly this memory, shape, type and kind, or a new one.

        The handle lives as long as somebody keeps it.
        """
        self.handle  # noqa: B018 - raises when closed, or in a forked child
        shape, dtype = _tensor_of(shape, dtype)
        dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        code = None if dtype is None else data_type(dtype)
        shared = isinstance(buffer, Buffer)
        if not shared and not is_opencl_buffer(buffer):
            refuse_memory(buffer, kind)
        memory = (buffer.address, buffer.fd_offset) if shared else ("cl_mem", buffer.int_ptr)
        key = (memory, offset, dims, code, kind)
        with self._registering.lock:
            found = self._cache.get(key)
            if found is None and shared:
                found = self._part(buffer, offset, dims, code)
            if found is None or found.closed or (shared and not found.buffer._is(buffer)):
                if found is None and (released := self._releases.get(key)) is not None:
                    released.wait()  # its last reference went in a thread that deregisters it
                found = self.register(buffer, dims, dtype, offset=offset, kind=kind)
                self._cache[key] = found
                self._releases[key] = found._released
            return found

    def _part(
        self, buffer: Buffer, offset: int, dims: tuple[int, ...], code: int | None
    ) -> MemHandle | None:
        for group in self._groups():
            if group.buffer._is(buffer):
                return PartHandle.find(group, dims, code, offset)
        return None

    def _groups(self) -> list[PartHandles]:
        found = [reference() for reference in self._parts.copy().values()]
        return [group for group in found if group is not None and group.alive]

    def _close_children(self) -> None:
        for group in self._groups():
            group.close()
        super()._close_children()

    def deregister(self, *handles: MemHandle) -> None:
        """Deregister handles in one call; the valid ones go even when another one is not.

        Raises:
            MemError: 8001, one of them is not valid (any more).
        """
        for h in handles:
            h._close_children()
        try:
            self._library.mem_deregister([h._raw for h in handles])
        except MemError as e:
            if (
                e.code != abi.QNN_MEM_ERROR_INVALID_HANDLE
            ):  # one is in use: which ones went is not said
                raise
            for h in handles:
                h._detach()
            raise
        for h in handles:
            h._detach()


def _tensor_of(shape: Any, dtype: Any) -> tuple[Sequence[int] | int, Any]:
    """Shape and type, out of a graph's tensor where one stands for both."""
    if isinstance(shape, str):
        raise TypeError(f"a shape or a tensor was expected, not a name: graph.tensors[{shape!r}]")
    if not isinstance(shape, _core.Tensor):
        return shape, dtype
    if dtype is not None:
        raise TypeError(f"tensor {shape.name!r} has a type: leave dtype out")
    # A registration has at least one dimension: a scalar is registered as [1].
    return shape.shape or (1,), shape.data_type
