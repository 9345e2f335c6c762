"""Graphs made ready: out of model files, or out of context binaries."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._native import _core
from ..abi import constants as abi
from ..errors import ModelError, QnnError
from ..importers import load
from ..lpai import ID as LPAI
from ..lpai.admission import refuse_floats
from ..model import Model
from ..model.binary import ContextBinary, system_library
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import TENSOR_TYPES, Graph
from ..qnn.options import graph_options
from ..qnn.owner import config
from ..qnn.profile import Profile
from ..session.build import add_model
from ..support import choice
from ._common import UsageError
from ._config_file import ToolConfig
from ._input_list import find, sanitized

ONNX_AND_OTHERS = "an .onnx file, a .tflite file, or a .py file with compose(graph)"


@dataclass
class Source:
    """A model file: its path and the name of its graph."""

    path: Path
    graph_name: str
    load: Callable[[], Callable[[Graph], None]]


@dataclass
class Ready:
    """A graph that can be executed, with its inputs and outputs in order."""

    name: str
    context: Context
    graph: Graph
    inputs: list[_core.Tensor]
    outputs: list[_core.Tensor]
    producers: Mapping[str, list[str]] = field(default_factory=dict)  # node -> its outputs


def sources(paths: Iterable[str | Path]) -> list[Source]:
    """Models in files; a graph is called as its file, sanitised.

    Raises:
        UsageError: no such file, another kind of file, two graphs of one name.
    """
    found: list[Source] = []
    for path in map(Path, paths):
        suffix = path.suffix.lower()
        if suffix in (".so", ".dlc", ".cpp", ".bin"):
            why = {
                ".bin": "a context binary goes to --retrieve_context",
                ".dlc": "DLC files are the vendor's own format",
            }.get(suffix, "model libraries call the vendor's code")
            raise UsageError(f"{path}: {why}; --model takes {ONNX_AND_OTHERS}")
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        name = sanitized(path.stem)
        if any(s.graph_name == name for s in found):
            raise UsageError(f"{path}: there is a graph {name!r} already: rename one of the files")
        found.append(Source(path, name, _python(path) if suffix == ".py" else _model(path)))
    return found


def _model(path: Path) -> Callable[[], Callable[[Graph], None]]:
    def compose_later() -> Callable[[Graph], None]:
        model = load(path)
        if not isinstance(model, Model):
            raise UsageError(f"{path}: not a model; --model takes {ONNX_AND_OTHERS}")
        model.check()

        def compose(graph: Graph) -> None:
            backend = graph.context.backend
            if backend.id == LPAI:
                refuse_floats(model, backend)
            # Backends of others know no tensors without dimensions.
            scalar = () if backend.library.has_extensions else (1,)
            raw = dict.fromkeys([*model.inputs, *model.outputs], "raw")
            add_model(graph, model, raw, scalar)

        return compose

    return compose_later


_numbers = itertools.count()


def _python(path: Path) -> Callable[[], Callable[[Graph], None]]:
    """The compose(graph) of a Python file, instead of the SDK's model.so."""

    def load() -> Callable[[Graph], None]:
        spec = importlib.util.spec_from_file_location(f"_qnnrt_model_{next(_numbers)}", path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: cannot be read as a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.resolve().parent))
        try:
            with _blamed(path, "cannot be read"):
                spec.loader.exec_module(module)
        finally:
            sys.path.pop(0)
        compose = getattr(module, "compose", None)
        if not callable(compose):
            raise UsageError(f"{path}: has no function compose(graph)")

        def call(graph: Graph) -> None:
            with _blamed(path, "compose() failed"):
                compose(graph)

        return call

    return load


@contextmanager
def _blamed(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong in somebody's Python file, as one line that says where."""
    try:
        yield
    except QnnError:
        raise
    except Exception as error:
        line = 0
        trace = error.__traceback__
        file = str(path.absolute())
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = f"{path}:{line}" if line else str(path)
        raise UsageError(f"{where}: {what}: {type(error).__name__}: {error}") from error


class ComposedGraph(Graph):
    """A graph whose inputs and outputs have the memory type of the command line, as they are added.

    The SDK's generator changes the memory type of a model's inputs and outputs; here they are
    declared with it from the start. Outputs asked for besides the model's own become outputs.
    """

    _mem_type: str | None = None
    _all_outputs = False
    _more_outputs: frozenset[str] = frozenset()
    produced: dict[str, list[str]]  # node -> its outputs

    @classmethod
    def create(
        cls,
        context: Context,
        name: str,
        *,
        mem_type: str | None,
        all_outputs: bool,
        more_outputs: Sequence[str],
        options: Mapping[str, Any],
    ) -> ComposedGraph:
        handle = context._library.graph_create(
            context.handle, name, config(graph_options(**options))
        )
        graph = cls(context, name, handle)
        graph._mem_type = mem_type
        graph._all_outputs = all_outputs
        graph._more_outputs = frozenset(map(sanitized, more_outputs))
        graph.produced = {}
        return graph

    def add_tensor(
        self,
        name: str,
        *args: Any,
        type: str | int = "native",
        mem_type: str | int = "raw",
        **others: Any,
    ) -> _core.Tensor:
        kind = choice("type", type, TENSOR_TYPES)
        if kind == abi.QNN_TENSOR_TYPE_NATIVE and (
            self._all_outputs or sanitized(name) in self._more_outputs
        ):
            kind = abi.QNN_TENSOR_TYPE_APP_READ
        if kind <= abi.QNN_TENSOR_TYPE_APP_READWRITE and self._mem_type is not None:
            mem_type = self._mem_type
        return super().add_tensor(name, *args, type=kind, mem_type=mem_type, **others)

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


@dataclass(frozen=True)
class Wanted:
    """What the options ask of graphs that are composed here.

    Attributes:
        mem_type: of inputs and outputs: "raw", "memhandle", or None: as composed.
        all_outputs: every intermediate tensor is an output, too (``--debug``).
        outputs: names of such tensors for each graph (``--set_output_tensors``).
    """

    mem_type: str | None = None
    all_outputs: bool = False
    outputs: Callable[[str], Sequence[str]] = lambda name: ()


def prepare(
    backend: Backend,
    models: Sequence[Source],
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
) -> tuple[Context, list[Ready]]:
    """Compose and finalize models as the graphs of one context.

    Args:
        record: ``record(method, graph, call)`` makes a call with a profile handle and times it.

    Raises:
        UsageError: a model file is wrong, or an output asked for is not in it.
        QnnError: the backend refuses it.
    """
    settings.check_graphs([source.graph_name for source in models])
    context = backend.create_context(**settings.context(from_binary=False))
    try:
        ready = [_compose(context, source, settings, wanted, record) for source in models]
    except BaseException:
        context.close()
        raise
    return context, ready


def _compose(
    context: Context,
    source: Source,
    settings: ToolConfig,
    wanted: Wanted,
    record: Callable[..., Any],
) -> Ready:
    name = source.graph_name
    outputs = wanted.outputs(name)
    compose = source.load()
    graph = ComposedGraph.create(
        context,
        name,
        mem_type=wanted.mem_type,
        all_outputs=wanted.all_outputs,
        more_outputs=outputs,
        options=settings.graph(name),
    )
    record("compose_graphs", name, lambda profile: compose(graph))
    if not graph.outputs:
        raise UsageError(f"{source.path}: the graph has no output")
    for output in outputs:
        if not find(output, graph.outputs):
            raise UsageError(
                f"--set_output_tensors: graph {name} has no tensor {output!r} that a node produces"
            )
    _finalize(graph, settings, record)
    return Ready(name, context, graph, graph.inputs, graph.outputs, graph.produced)


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
) -> list[Ready]:
    """The graphs of context binaries, one context for each file; finalized where the backend leaves
    that to the client.

    Args:
        mapped: weights are used where the file is mapped; else they are copied when it is loaded,
            or on lpai the file is, into the memory asked for.
        validate: ask the backend about each binary before it is loaded.

    Raises:
        ModelError: a file that is no context binary.
        QnnError: the backend refuses it.
    """
    own = backend.library.has_extensions
    system = None if own else system_library(backend.library.path)
    binaries: list[ContextBinary] = []
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        binaries.append(ContextBinary(path, system=system))
    settings.check_graphs([name for binary in binaries for name in binary.graphs])
    ready: list[Ready] = []
    for binary in binaries:
        options = settings.context(from_binary=True)
        data = None if mapped else _own_memory(binary, settings, options)
        if mapped or own:  # by default our own backends use a mapped file where it is
            options.setdefault("persistent_binary", mapped)
        names = [n for n in binary.graphs if n in options.get("enable_graphs", binary.graphs)]
        if "enable_graphs" in options:
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
            ready.append(Ready(name, context, graph, graph.inputs, graph.outputs))
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
