"""Graphs made ready: out of model files and libraries, or out of context binaries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._native import _core
from ..abi import constants as abi
from ..errors import ModelError, QnnError
from ..model import ModelLibrary, Node
from ..model import Tensor as ModelTensor
from ..model.binary import ContextBinary, system_library
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import MEM_TYPES, Graph
from ..qnn.options import graph_options, own_graph_config
from ..qnn.owner import config
from ..qnn.profile import Profile
from ..support import choice
from ._common import UsageError, check_file
from ._config_file import ToolConfig
from ._input_list import find, sanitized
from ._sources import LibrarySource, Source
from ._tools import check_graphs, for_graph


@dataclass
class Ready:
    """A graph that can be executed, with its inputs and outputs in order."""

    name: str
    context: Context
    graph: Graph
    inputs: list[_core.Tensor]
    outputs: list[_core.Tensor]
    producers: Mapping[str, list[str]] = field(default_factory=dict)  # node -> its outputs


@dataclass(frozen=True)
class Wanted:
    """What the options ask of graphs that are composed here.

    Attributes:
        mem_type: of inputs and outputs: "raw", "memhandle", or None: as composed.
        portable: constants stay beside their packed forms (``--portable``).
        all_outputs: every intermediate tensor is an output, too (``--debug``).
        outputs: names of such tensors, by graph, or under "" for every graph
            (``--set_output_tensors``).
    """

    mem_type: str | None = None
    portable: bool = False
    all_outputs: bool = False
    outputs: Mapping[str, list[str]] | None = None

    def of(self, graph: str) -> list[str]:
        """Names of tensors that a graph gives besides its outputs."""
        return for_graph(self.outputs, graph)

    def options(self, library: _core.Library, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a graph, with what they have to say to give what is wanted.

        Raises:
            UsageError: ``--portable`` on a library of another maker.
        """
        if not self.portable:
            return dict(given)
        try:
            own = own_graph_config(library, keep_constants=True)
        except ValueError:
            raise UsageError(f"--portable: {library.path} is not qnnrt's own") from None
        return dict(given) | {"custom": [*given.get("custom", ()), *own]}

    def is_output(self, graph: str, tensor: str) -> bool:
        """Whether an intermediate tensor becomes an output."""
        more = map(sanitized, self.of(graph))
        return self.all_outputs or sanitized(tensor) in more


class ComposedGraph(Graph):
    """A graph whose inputs and outputs have the memory type of the command line, as they are added.

    The SDK's generator changes the memory type of a model's inputs and outputs; here they are
    declared with it from the start. Outputs asked for besides the model's own become outputs.
    """

    _wanted: Wanted

    @classmethod
    def create(
        cls, context: Context, name: str, wanted: Wanted, options: Mapping[str, Any]
    ) -> ComposedGraph:
        handle = context._library.graph_create(
            context.handle, name, config(graph_options(**options))
        )
        graph = cls(context, name, handle)
        graph._wanted = wanted
        return graph

    def _placed(self, name: str, kind: int, mem_type: int) -> tuple[int, int]:
        if kind == abi.QNN_TENSOR_TYPE_NATIVE and self._wanted.is_output(self.name, name):
            kind = abi.QNN_TENSOR_TYPE_APP_READ
        if kind <= abi.QNN_TENSOR_TYPE_APP_READWRITE and self._wanted.mem_type is not None:
            mem_type = choice("mem_type", self._wanted.mem_type, MEM_TYPES)
        return kind, mem_type

    def add_node(
        self,
        name: str,
        type: str,
        inputs: Sequence[_core.Tensor | None],
        outputs: Sequence[_core.Tensor | None],
        params: Mapping[str, Any] | None = None,
        *,
        package: str = "qti.aisw",
    ) -> None:
        super().add_node(name, type, inputs, outputs, params, package=package)
        self.produced[name] = [t.name for t in outputs if t is not None]

    def _add_model(
        self,
        tensors: Sequence[ModelTensor],
        nodes: Sequence[Node],
        apart: Collection[str],
        *how: Any,
    ) -> None:
        more = (t.name for t in tensors if self._wanted.is_output(self.name, t.name))
        super()._add_model(tensors, nodes, {*apart, *more}, *how)
        self.produced |= {node.name: list(filter(None, node.outputs)) for node in nodes}


def prepare(
    backend: Backend,
    models: Sequence[Source | LibrarySource],
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
) -> tuple[Context, list[list[Ready]]]:
    """Compose and finalize models as the graphs of one context.

    Args:
        record: ``record(method, graph, call)`` makes a call with a profile handle and times it.

    Returns:
        the context, and the graphs of each model.

    Raises:
        UsageError: a model file is wrong, or an output asked for is not in it.
        ModelError: a library is no model library, or fails.
        QnnError: the backend refuses it.
    """
    libraries = {
        s.path: ModelLibrary(s.path, prefix=s.prefix)
        for s in models
        if isinstance(s, LibrarySource)
    }
    named = [s.graph_name for s in models if isinstance(s, Source)]
    if not libraries:
        _check_names(named, settings, wanted)
    context = backend.create_context(**settings.context(from_binary=False))
    try:
        # Libraries first: what their graphs are called shows when they are composed.
        composed = {
            path: _compose_library(context, library, settings, wanted, record)
            for path, library in libraries.items()
        }
        if libraries:
            own = [graph.name for graphs in composed.values() for graph in graphs]
            _check_names([*named, *own], settings, wanted)
        ready = [
            _compose(context, source, settings, wanted, record)
            if isinstance(source, Source)
            else [_ready(context, graph, settings, wanted, record, source.path) for graph in graphs]
            for source, graphs in ((s, composed.get(s.path, [])) for s in models)
        ]
    except BaseException:
        context.close()
        raise
    return context, ready


def _check_names(names: Sequence[str], settings: ToolConfig, wanted: Wanted) -> None:
    check_graphs(wanted.outputs, names, "--set_output_tensors")
    settings.check_graphs(names)


def _compose_library(
    context: Context,
    library: ModelLibrary,
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
) -> list[Graph]:
    return record(  # type: ignore[no-any-return]
        "compose_graphs",
        sanitized(library.name),
        lambda profile: context.compose(
            library,
            mem_type=wanted.mem_type,
            options=lambda name: wanted.options(context._library, settings.graph(name)),
            is_output=wanted.is_output,
        ),
    )


def _compose(
    context: Context,
    source: Source,
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
) -> list[Ready]:
    name = source.graph_name
    compose = source.load()
    options = wanted.options(context._library, settings.graph(name))
    graph = ComposedGraph.create(context, name, wanted, options)
    record("compose_graphs", name, lambda profile: compose(graph))
    return [_ready(context, graph, settings, wanted, record, source.path)]


def _ready(
    context: Context,
    graph: Graph,
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
    path: Path,
) -> Ready:
    """A composed graph, checked and finalized."""
    if not graph.outputs:
        raise UsageError(f"{path}: the graph has no output")
    for output in wanted.of(graph.name):
        if not find(output, graph.outputs):
            raise UsageError(
                f"--set_output_tensors: graph {graph.name} has no tensor {output!r} that a node "
                "produces"
            )
    _finalize(graph, settings, record)
    return Ready(graph.name, context, graph, taken(graph), graph.outputs, graph.produced)


def taken(graph: Graph) -> list[_core.Tensor]:
    """What a graph is fed: inputs, and states, whose first values come from files like theirs."""
    return [*graph.inputs, *graph.states]


def _finalize(graph: Graph, settings: ToolConfig, record: Callable[..., Any]) -> None:
    if settings.lpai is not None:
        settings.lpai.give_memory(graph)
    record("finalize", graph.name, lambda profile: graph.finalize(profile))


def retrieve(
    backend: Backend,
    paths: Sequence[Path],
    settings: ToolConfig,
    *,
    mapped: bool,
    validate: bool,
    record: Callable[..., Any],
    wanted: Sequence[str] | None = None,
) -> list[Ready]:
    """The graphs of context binaries, one context for each file; finalized where the backend leaves
    that to the client.

    Args:
        mapped: weights are used where the file is mapped; else they are copied when it is loaded,
            or on lpai the file is, into the memory asked for.
        validate: ask the backend about each binary before it is loaded.
        wanted: names of the graphs, in this order; all of them unless given.

    Raises:
        ModelError: a file that is no context binary.
        QnnError: the backend refuses it.
    """
    own = backend.library.has_extensions
    system = None if own else system_library(backend.library.path)
    binaries: list[ContextBinary] = []
    for path in paths:
        check_file(path)
        binaries.append(ContextBinary(path, system=system))
    there = [name for binary in binaries for name in binary.graphs]
    settings.check_graphs(there)
    if unknown := [name for name in wanted or () if name not in there]:
        raise UsageError(f"--graph: no graph {unknown[0]!r}; there are {', '.join(there)}")
    ready: list[Ready] = []
    for binary in binaries:
        options = settings.context(from_binary=True)
        data = None if mapped else _own_memory(binary, settings, options)
        if mapped or own:  # by default our own backends use a mapped file where it is
            options.setdefault("persistent_binary", mapped)
        names = [n for n in binary.graphs if n in options.get("enable_graphs", binary.graphs)]
        if wanted is not None:
            names = [name for name in names if name in wanted]
        if "enable_graphs" in options or (own and len(names) < len(binary.graphs)):
            options["enable_graphs"] = names
        if not names:
            continue
        if validate:
            try:
                Context.validate_binary(backend, binary, **options)
            except QnnError as error:
                if error.code == abi.QNN_COMMON_ERROR_NOT_SUPPORTED:
                    raise UsageError(
                        f"--validate_binary: {backend.name} validates no binaries: leave it out"
                    ) from error
                raise ModelError(f"{binary.path}: not valid for this backend: {error}") from error
        load = functools.partial(_load, backend, binary, data, options, settings)
        context = record("create_from_binary", "", load)
        for name in names:
            graph = context.graph(name)
            if settings.lpai is not None:
                _finalize(graph, settings, record)
            ready.append(Ready(name, context, graph, taken(graph), graph.outputs))
    if wanted is not None:
        ready.sort(key=lambda one: wanted.index(one.name))
    return ready


def _own_memory(
    binary: ContextBinary, settings: ToolConfig, options: dict[str, Any]
) -> memoryview | None:
    """The binary in memory of the kind that an lpai backend's config asks for, which it is used in
    then; None on other backends."""
    if settings.lpai is None:
        return None
    options.setdefault("persistent_binary", True)
    options["custom"] = [*options.get("custom", ()), *settings.lpai.config.context_custom()]
    return settings.lpai.model(Path(binary.path))


#: Another machine's kernels; version; damaged or another machine; another backend; not the best.
_WRONG_BINARY = frozenset(
    {
        abi.QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES,
        abi.QNN_CONTEXT_ERROR_BINARY_VERSION,
        abi.QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
        abi.QNN_CONTEXT_ERROR_BINARY_CONFIGURATION,
        abi.QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL,
    }
)


def _load(
    backend: Backend,
    binary: ContextBinary,
    data: memoryview | None,
    options: dict[str, Any],
    settings: ToolConfig,
    profile: Profile | None,
) -> Context:
    try:
        return Context.from_binary(
            backend, binary if data is None else data, profile=profile, **options
        )
    except QnnError as error:
        if error.code in _WRONG_BINARY:
            raise ModelError(f"{binary.path}: {error}") from error
        # Some backends say that they take binaries in place, and then do not.
        refused = error.code == abi.QNN_COMMON_ERROR_NOT_SUPPORTED
        if not refused or not options.pop("persistent_binary", False):
            raise
        settings.warn(f"{binary.path}: {backend.name} uses no binary in place: it is copied")
        return Context.from_binary(backend, binary, profile=profile, **options)
