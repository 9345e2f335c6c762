"""How a session's graph is made and its tensors are bound: of models, binaries and libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from .._native import _core
from ..errors import CopyError, GraphError
from ..importers import load
from ..model import BinaryGraph, BinaryTensor, ContextBinary, DynamicModel, Model, ModelLibrary
from ..model import Tensor as ModelTensor
from ..model.binary import system_library
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.options import Custom
from .binding import BoundTensor
from .build import add_model, check_maker, compose_library
from .memory import SessionMemory
from .options import Choice, Options, check_choice, choices
from .policies import open_backend
from .stats import Counters

__all__ = ["SessionBase", "is_binary"]

#: What own backends say of it when a graph is finalized.
_COPIED_STATE: Final = re.compile(
    r"tensor '(?P<tensor>.*)' would have to be copied in every execution \((?P<reason>.*)\) and"
)


class SessionBase(_core.Runnable):
    """What a session stands on, before it can run."""

    context: Context
    graph: Graph
    model: Model | DynamicModel | ContextBinary | ModelLibrary
    inputs: Mapping[str, BoundTensor]
    outputs: Mapping[str, BoundTensor]
    #: What states hold at first that is not zeros, as ``Model.initial``.
    _initial: Mapping[str, np.ndarray] = MappingProxyType({})

    def _begin(
        self,
        model: Any,
        backend: str | PathLike[str] | Backend,
        io: Choice,
        prepare: Choice | None,
        strict: bool,
        threads: int | None,
        precision: str | None,
        graph: str | Sequence[str] | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        """What is given, checked, and the backend."""
        check_choice("io", io)
        check_choice("prepare", prepare)
        if graph is not None:
            options = {**(options or {}), "graph": graph}
        self._options = Options(options, threads, strict, precision)
        self.strict = strict
        self._counters = Counters()
        if isinstance(model, (str, PathLike)) and not is_binary(model):
            model = load(model)  # which is checked
            if isinstance(model, Model):
                model._check_files()
        elif isinstance(model, Model):
            model.check()
        self.backend, self._policy = open_backend(backend, self._options.given)
        self._policy.check_io(io)
        if isinstance(model, (str, PathLike)):
            model = ContextBinary(model, system=system_library(self.backend.library.path))
        self.model = model

    # ---- the context and the graph: a session's own, or of the session of many shapes

    def _new_context(self) -> Context:
        return self.backend.create_context(**self._options.for_context(self._policy))

    def _new_graph(self, name: str, config: list[Custom]) -> Graph:
        return self.context.create_graph(name, priority=self._options.priority, custom=config)

    def _leave_context(self) -> None:
        self.context.close()

    def _compose(self, model: Model, io: Choice, prepare: Choice | None, consume: bool) -> None:
        """A graph out of a model."""
        self._options.refuse_graph()
        self._policy.check_model(model)
        self._initial = {name: model.initial[name] for name in model.state if name in model.initial}
        names = [
            *(n for n in model.inputs if n not in model.state),
            *model.state,
            *(n for n in model.outputs if n not in model.state.values()),
        ]
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        declared = {n: "raw" if way == "scratch" else way for n, way in ios.items()}
        prepared = choices("prepare", prepare, names, declared)
        config = self._options.for_graph(
            self.backend.library, self._policy, ios, model.byte_activations
        )
        tensors = [model.tensors[n] for n in names]
        bound = self._bound_tensors(tensors, len(model.inputs), len(model.state), ios, prepared)
        # Backends of others know no tensors without dimensions.
        scalar = () if self.backend.library.has_extensions else (1,)
        self.context = self._new_context()
        try:
            # Registering first: whether the backend takes handles decides how tensors are declared.
            self._memory = self._allocate(bound)
            if self._counters.fallback:
                for t in bound:
                    t.prepare = "raw"
            self.graph = self._new_graph(model.name or "model", config)
            declared = {t.name: t.prepare for t in bound}
            add_model(self.graph, model, declared, scalar, consume=consume)
            self._policy.before_finalize(self.graph)
            self._finalize(self.graph)
            self._memory.prepare(self.graph)
            for file in model._mapped:
                file.leave()
            if consume:
                model._consume()
        except BaseException:
            self._leave_context()
            raise

    def _load(self, binary: ContextBinary, io: Choice, prepare: Choice | None) -> None:
        """A graph out of a context binary."""
        described = binary.graph(self._options.graph)
        bound, config = self._plan_loaded(binary, described, io, prepare)
        self.context, graphs = self._open_binary(binary, {described.name: config})
        try:
            self._use_loaded(graphs[described.name], bound)
        except BaseException:
            self.context.close()
            raise

    def _plan_loaded(
        self, binary: ContextBinary, described: BinaryGraph, io: Choice, prepare: Choice | None
    ) -> tuple[list[BoundTensor], list[Custom]]:
        """The tensors of a binary's graph, not bound yet, and the graph's config."""
        check_maker(binary, self.backend)
        if self._options.for_finalize:
            raise ValueError(
                f"kernels and the plan of the memory were chosen when {binary.path} was made: "
                "leave them out"
            )
        tensors: list[BinaryTensor] = [
            *described.inputs,
            *described.states,
            *described.outputs,
        ]
        taken = len(described.inputs) + len(described.states)
        names = [t.name for t in tensors]
        prepared = {t.name: t.mem_type for t in tensors}
        for name, way in choices("prepare", prepare, names, prepared).items():
            if way != prepared[name]:
                raise ValueError(
                    f"tensor {name!r} of {binary.path} was prepared {prepared[name]}, not {way}: "
                    "leave 'prepare' out, or make the binary anew"
                )
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        bound = self._bound_tensors(tensors, taken, len(described.states), ios, prepared)
        return bound, self._options.for_graph(self.backend.library, self._policy, ios)

    def _open_binary(
        self, binary: ContextBinary, configs: Mapping[str, list[Custom]]
    ) -> tuple[Context, dict[str, Graph]]:
        """The context of a binary and graphs of it, with their configs; the others stay out."""
        options = self._options.for_context(self._policy)
        if self._options.threads is not None and not self._policy.FINALIZES_LOADED:
            options["defer_graph_init"] = True  # they are chosen before the graph is ready
        if len(binary.graphs) > len(configs) and self.backend.library.has_extensions:
            options.setdefault("enable_graphs", list(configs))
        memory = self._policy.binary_memory(binary)
        context = Context.from_binary(self.backend, memory, **options)
        try:
            graphs = {name: context.graph(name) for name in configs}
            for name, config in configs.items():
                if config or self._options.priority is not None:
                    graphs[name].set_config(priority=self._options.priority, custom=config)
            if options.get("defer_graph_init"):
                context.finalize()
        except BaseException:
            context.close()
            raise
        return context, graphs

    def _use_loaded(self, graph: Graph, bound: list[BoundTensor]) -> None:
        """Memory for a graph out of a binary."""
        self.graph = graph
        self._policy.after_load(graph)
        self._memory = self._allocate(bound)
        self._memory.prepare(graph)

    def _compose_library(self, library: ModelLibrary, io: Choice, prepare: Choice | None) -> None:
        """The graphs that a model library composes, one of which is the session's."""
        self.context = self._new_context()
        try:
            self.graph, described, graphs = compose_library(
                self.context, library, self._options, self._policy, io, prepare
            )
            tensors = [*described.inputs, *described.states, *described.outputs]
            taken = len(described.inputs) + len(described.states)
            names = [t.name for t in tensors]
            declared = {t.name: t.mem_type for t in tensors}
            choices("prepare", prepare, names, declared)  # what the library's tensors became
            ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
            bound = self._bound_tensors(tensors, taken, len(described.states), ios, declared)
            for graph in graphs:  # all of them: a context binary has no unfinished ones
                self._policy.before_finalize(graph)
                graph.finalize()
            self._memory = self._allocate(bound)
            self._memory.prepare(self.graph)
        except BaseException:
            self.context.close()
            raise

    def _finalize(self, graph: Graph) -> None:
        """``strict``: state that would be copied in every run is told as other copies are."""
        try:
            graph.finalize()
        except GraphError as e:
            copied = _COPIED_STATE.search(str(e)) if self.strict else None
            if copied is None:
                raise
            raise CopyError(copied["tensor"], copied["reason"]) from e

    def _bound_tensors(
        self,
        tensors: Sequence[ModelTensor],
        taken: int,
        states: int,
        ios: Mapping[str, str],
        prepared: Mapping[str, str],
    ) -> list[BoundTensor]:
        """Inputs, the last of `taken` tensors states, then outputs, not bound to memory yet."""
        first, count = taken - states, len(tensors)
        bound = [
            BoundTensor(
                i,
                t,
                i >= taken,
                ios[t.name],
                prepared[t.name],
                count + i - first if first <= i < taken else None,
            )
            for i, t in enumerate(tensors)
        ]
        self._refuse_copies(bound)
        self.inputs = MappingProxyType({t.name: t for t in bound[:first]})
        self.state: Mapping[str, BoundTensor] = MappingProxyType(
            {t.name: t for t in bound[first:taken]}
        )
        self.outputs = MappingProxyType({t.name: t for t in bound[taken:]})
        return bound

    def _allocate(self, bound: list[BoundTensor]) -> SessionMemory:
        return SessionMemory(
            self._runner, self._policy, self.context, bound, self.strict, self._counters,
            self._given_states(),
        )  # fmt: skip

    def _given_states(self) -> Mapping[str, Any]:
        """Memory of states that is there before the session is."""
        return {}

    def _refuse_copies(self, bound: list[BoundTensor]) -> None:
        """``strict``: RAW memory that the backend would copy in every run, before anything is
        built."""
        seen = self._policy.SEES
        if not self.strict or seen is None or not self.backend.has_capability("tensor_mem_handle"):
            return  # without the capability no handle could save it
        for t in bound:
            if t.io == "raw" and t.nbytes:
                raise CopyError(
                    t.name,
                    f"prepared {t.prepare}, executed raw: the accelerator sees {seen} "
                    f"alone, so its {t.nbytes} bytes would be copied in every run; use "
                    "io='memhandle', or strict=False",
                )


def is_binary(path: str | PathLike[str]) -> bool:
    """Whether a path is named as a context binary."""
    return os.path.splitext(os.fspath(path))[1].lower() == ".bin"
