"""The models that ``--model`` names: files, and libraries."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import QnnError
from ..importers import load
from ..lpai import ID as LPAI
from ..lpai.admission import refuse_floats
from ..model import DynamicModel, Model, is_library
from ..qnn.graph import Graph
from ..session.build import add_model
from ._common import ENDS, UsageError, capacities, check_cut, check_file, shapes
from ._input_list import sanitized

ONNX_AND_OTHERS = (
    "an .onnx file, a .tflite file, a .py file with compose(graph), or a model library (.so)"
)


@dataclass
class Source:
    """A model: in a file, with the name of its graph, or in a library, which names its own."""

    path: Path
    graph_name: str
    load: Callable[[], Callable[[Graph], None]]


@dataclass
class LibrarySource:
    """A model library, and what the names of its functions begin with."""

    path: Path
    prefix: str


def sources(
    paths: Iterable[str | Path],
    prefix: str = "QnnModel",
    cut: Mapping[str, str] | None = None,
    shape: Sequence[str] = (),
    capacity: Sequence[str] = (),
) -> list[Source | LibrarySource]:
    """Models in files; a graph is called as its file, sanitised, or as its library says. Of a model
    of several shapes each is a source, whose graph has the sizes behind the name.

    Args:
        prefix: of the functions of libraries.
        cut: what ``--cut_inputs`` and ``--cut_outputs`` say, by "inputs" and "outputs".
        shape: what ``--shape`` says.
        capacity: what ``--capacity`` says, of the one model.

    Raises:
        UsageError: no such file, another kind of file, two graphs of one name.
    """
    found: list[Source | LibrarySource] = []
    files = [Path(path) for path in paths]
    graphs = [sanitized(path.stem) for path in files]
    if capacity and len(files) > 1:
        raise UsageError("--capacity: the tensors are those of one model; --model has several")
    for path in files:
        suffix = path.suffix.lower()
        if suffix in (".dlc", ".cpp", ".bin"):
            why = {
                ".bin": "a context binary goes to --retrieve_context",
                ".dlc": "DLC files are the vendor's own format",
            }.get(suffix, "C++ is compiled into a model library first, with tools of yours")
            raise UsageError(f"{path}: {why}; --model takes {ONNX_AND_OTHERS}")
        check_file(path)
        given: dict[str, Any] = {
            end: names
            for end, text in (cut or {}).items()
            if (names := _cut_of(text, sanitized(path.stem), graphs))
        }
        check_cut(path, [f"--cut_{end}" for end in given])
        given |= capacities(capacity, path)
        if shape and suffix not in (".onnx", ".tflite"):
            raise UsageError(f"--shape: {path} chooses its shapes itself")
        if is_library(path):
            if any(s.path == path for s in found):
                raise UsageError(f"{path}: the library is there already: its graphs are one model")
            found.append(LibrarySource(path, prefix))
            continue
        name = sanitized(path.stem)
        if any(isinstance(s, Source) and s.graph_name == name for s in found):
            raise UsageError(f"{path}: there is a graph {name!r} already: rename one of the files")
        if shape:
            found += _of_shapes(path, name, {**given, "shapes": shapes(shape)})
        else:
            made = _python(path) if suffix == ".py" else _model(path, given)
            found.append(Source(path, name, made))
    return found


def _of_shapes(path: Path, name: str, options: Mapping[str, Any]) -> list[Source | LibrarySource]:
    """The shapes of one model, each as a source."""
    model = load(path, **options)
    if not isinstance(model, DynamicModel):
        return [Source(path, name, _composer(path, lambda: model))]
    if model.listed is None:
        raise UsageError(f"--shape: {path} leaves sizes open that are not given")
    model.name = name
    return [
        Source(path, model.graph_name(s), _composer(path, functools.partial(model.model, s)))
        for s in model.listed
    ]


def given_cut(options: argparse.Namespace) -> dict[str, str]:
    """What the command line says of `ENDS`, for `sources`."""
    given = {end: getattr(options, f"cut_{end}") for end in ENDS}
    return {end: text for end, text in given.items() if text is not None}


def _cut_of(text: str, graph: str, graphs: list[str]) -> list[str]:
    """The tensors that an option names for a graph. Their names may have colons in them: only that
    of a graph before one makes it stand for that graph alone."""
    found: list[str] = []
    for item in text.split(";"):
        owner, separator, names = item.partition(":")
        if not separator or owner not in graphs:
            owner, names = graph, item
        if owner == graph:
            found += [name for name in names.split(",") if name]
    return found


def _model(path: Path, given: Mapping[str, Any]) -> Callable[[], Callable[[Graph], None]]:
    return _composer(path, lambda: load(path, **given))


def _composer(path: Path, loaded: Callable[[], object]) -> Callable[[], Callable[[Graph], None]]:
    def compose_later() -> Callable[[Graph], None]:
        model = loaded()
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
