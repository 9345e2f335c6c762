"""What the tools that mirror the SDK's share: options, warnings, the backend, profiles."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from .. import qnn
from .._native import _core
from ..abi import constants as abi
from ..errors import BackendError, BackendNotFoundError, DeviceError, QnnError
from ..lpai.config import Config as LpaiConfig
from ..qnn.backend import Backend, open_library
from ..support import log
from ._common import ENDS, UsageError, add_capacity
from ._config_file import ToolConfig
from ._lpai import lpai_tools

_PLATFORM_OPTION = abi.QNN_BACKEND_CONFIG_OPTION_PLATFORM

LOG_LEVELS = ("error", "warn", "info", "verbose", "debug")


# ---- options that do nothing here, or are refused ------------------------------------------------


class _Reasoned(argparse.Action):
    def __init__(self, *args: Any, why: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.why = why


class Harmless(_Reasoned):
    """An option of the SDK's that changes no result and has nothing to do here: a warning."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        warnings = [*(getattr(namespace, "ignored", None) or ())]
        namespace.ignored = [*warnings, f"{option_string} has no effect here: {self.why}"]


class Refused(_Reasoned):
    """An option of the SDK's whose effect is not there: going on would give other results."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        parser.error(f"{option_string} is not supported: {self.why}")


def harmless(parser: argparse.ArgumentParser, flag: str, why: str, **kwargs: Any) -> None:
    parser.add_argument(flag, action=Harmless, why=why, help=f"no effect: {why}", **kwargs)


def refused(parser: argparse.ArgumentParser, flag: str, why: str, **kwargs: Any) -> None:
    parser.add_argument(flag, action=Refused, why=why, help=f"refused: {why}", **kwargs)


def verdict(action: argparse.Action) -> str:
    """What docs/tools.md says of an option: "effect", "no effect" or "refused"."""
    if isinstance(action, Harmless):
        return "no effect"
    return "refused" if isinstance(action, Refused) else "effect"


class VersionAction(argparse.Action):
    """``--version`` of a tool, as the SDK's have one."""

    def __call__(self, parser: Any, *args: Any) -> None:
        print(f"qnnrt {_core.version()}")
        parser.exit(0)


# ---- options that several tools take -------------------------------------------------------------


def tool_parser(
    commands: argparse._SubParsersAction[Any], name: str, text: str
) -> argparse.ArgumentParser:
    """A command's parser: options in full, as the SDK's tools take them, and ``--version``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
    )
    parser.add_argument(
        "--version", action=VersionAction, nargs=0, help="print the version and exit"
    )
    return parser


def add_backend_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", required=True, help="htp, cpu, lpai, gpu, or the path of a QNN backend library"
    )
    parser.add_argument("--config_file", metavar="FILE", type=Path, help="JSON, see docs/tools.md")
    parser.add_argument(
        "--op_packages",
        metavar="PATH:PROVIDER[:TARGET][,...]",
        type=op_packages,
        default=(),
        help="op package libraries to register",
    )
    parser.add_argument(
        "--platform_options",
        metavar="KEY:VALUE[;...]",
        type=lambda text: [part for part in text.split(";") if part],
        default=(),
        help="platform options of the backend",
    )
    parser.add_argument(
        "--profiling_level",
        choices=("basic", "detailed", "client", "backend"),
        help="write qnn-profiling-data_0.log: phases, phases and nodes, the tool's own times "
        "alone, or what the backend's config says",
    )
    parser.add_argument(
        "--profiling_option", choices=("optrace",), help="trace nodes on top of the level"
    )
    parser.add_argument(
        "--log_level", choices=LOG_LEVELS, default="warn", help="of stderr (default warn)"
    )
    parser.add_argument(
        "--output_dir",
        metavar="DIR",
        type=Path,
        default=Path("output"),
        help="made if it is not there (default output)",
    )
    parser.add_argument(
        "--model_prefix",
        metavar="PREFIX",
        default="QnnModel",
        help="of the functions of model libraries (default QnnModel)",
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=N[,N...][;...]",
        action="append",
        default=[],
        help="sizes that a model leaves open: of a dimension, or the shape of an input; several "
        "make a graph for each combination, or for those that NAME=N;NAME=N list",
    )
    for end in ENDS:
        parser.add_argument(
            f"--cut_{end}",
            metavar="[GRAPH:]TENSOR[,...][;...]",
            help=f"load parts of .onnx files: these tensors of them are the {end} of the graphs",
        )
    add_capacity(parser)
    refused(parser, "--dlc_path", "DLC files are the vendor's own format", metavar="FILE[,...]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def op_packages(text: str) -> list[tuple[str, str, str | None]]:
    """PATH:PROVIDER[:TARGET], comma separated."""
    packages = []
    for item in text.split(","):
        path, provider, target, *rest = [*item.split(":"), "", ""]
        if not path or not provider or any(rest):
            raise argparse.ArgumentTypeError(f"{item!r}: expected PATH:PROVIDER[:TARGET]")
        packages.append((path, provider, target or None))
    return packages


def names_by_graph(text: str) -> dict[str, list[str]]:
    """GRAPH:TENSOR[,TENSOR...][;GRAPH:...], or TENSOR[,...] for every graph (under "")."""
    found: dict[str, list[str]] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        graph, separator, tensors = item.partition(":")
        if not separator:
            graph, tensors = "", item
        names = [name for name in tensors.split(",") if name]
        if not names or (separator and not graph):
            raise argparse.ArgumentTypeError(f"{item!r}: expected GRAPH:TENSOR[,TENSOR...]")
        found.setdefault(graph, []).extend(names)
    return found


def for_graph(given: Mapping[str, list[str]] | None, name: str) -> list[str]:
    """The names that an option gives for one graph."""
    return [*(given or {}).get("", ()), *(given or {}).get(name, ())]


def check_graphs(given: Mapping[str, list[str]] | None, names: Sequence[str], option: str) -> None:
    for graph in given or {}:
        if graph and graph not in names:
            raise UsageError(f"{option}: no graph {graph!r}; there are {', '.join(names)}")


# ---- warnings and the log ------------------------------------------------------------------------


class Warn:
    """Prints each warning once, as a line on stderr, and keeps them for --json."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.command = options.command
        self.lines: list[str] = []
        for line in getattr(options, "ignored", ()):
            self(line)

    def __call__(self, text: str) -> None:
        if text not in self.lines:
            self.lines.append(text)
            print(f"qnnrt {self.command}: warning: {text}", file=sys.stderr)


#: Beginnings of lines that the SDK's documentation says to look for: these are always kept.
_KEPT = ("TCM memory allocation failure",)


class _Handler(logging.StreamHandler[TextIO]):
    """Lines on stderr; errors at the end are held back, for the command's own line repeats them."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self._held: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self._held.append(record)
            return
        self.let_go()
        super().emit(record)

    def let_go(self, reported: str = "") -> None:
        """Print what is held back, but for messages that `reported` has."""
        held, self._held = self._held, []
        for record in held:
            head, _, rest = record.getMessage().partition(": ")
            if head in _KEPT or not reported or not rest or rest not in reported:
                super().emit(record)


@contextmanager
def logged(level: str) -> Iterator[None]:
    """Lines of the ``qnnrt`` logger on stderr meanwhile: of the package and of backends."""
    levels = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO}
    handler = _Handler()
    before, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(levels.get(level, logging.DEBUG))
    log.propagate = False
    reported = ""
    try:
        yield
    except Exception as error:
        reported = str(error)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        log.propagate = propagate
        handler.let_go(reported)


# ---- the backend ---------------------------------------------------------------------------------


def backend_library(name: str) -> _core.Library:
    """The library that ``--backend`` names: the SDK's scripts give it as the loader finds it.

    Raises:
        BackendNotFoundError: there is no such library.
    """
    try:
        return open_library(name)
    except BackendNotFoundError as error:
        if os.sep in name or ".so" not in name:
            raise
        raise BackendNotFoundError(
            f"{error}; give its path, htp, cpu, lpai or gpu, or put its folder into "
            "LD_LIBRARY_PATH (`qnnrt lib-dir` prints that of this package's libraries)"
        ) from error


def open_backend(
    name: str,
    settings: ToolConfig,
    log_level: str,
    platform_options: Sequence[str] = (),
    packages: Sequence[tuple[str, str, str | None]] = (),
) -> Backend:
    """A backend of this run's own, with what the options and the config file say. On an lpai one,
    its memory is in ``settings.lpai`` from here on.

    Raises:
        UsageError: a platform or device option, or an op package, that the backend does not take.
        BackendNotFoundError: no such backend.
        Error: TCM that is not within reach.
    """
    more: list[tuple[int, Any]] = []
    try:
        if settings.lpai_config is not None or settings.direct_mode:
            config = settings.lpai_config or LpaiConfig()
            more = config.backend_options(direct_mode=settings.direct_mode)
        backend = Backend.open(
            name,
            log_level=log_level,
            options=[*((_PLATFORM_OPTION, text) for text in platform_options), *more],
            **settings.device,
        )
    except (BackendError, DeviceError, ValueError) as error:
        if not platform_options and not settings.device and not more and not settings.direct_mode:
            raise
        raise UsageError(f"the backend does not take its options: {error}") from error
    for path, provider, target in packages:
        try:
            backend.register_op_package(path, provider, target)
        except QnnError as error:
            backend.close()
            raise UsageError(f"op package {path}: {error}") from error
    try:
        settings.lpai = lpai_tools(backend, settings.lpai_config, settings.direct_mode)
    except BaseException:
        backend.close()
        raise
    return backend


def set_perf_profile(
    backend: Backend, profile: str | None, settings: ToolConfig, warn: Callable[[str], None]
) -> None:
    """Ask the backend for a power and performance profile, where it has such a thing."""
    profile = profile or settings.perf_profile
    if profile is None and not settings.rpc:
        return
    try:
        backend.set_perf_profile(profile or "default", **settings.rpc)
    except QnnError as error:
        if error.code != abi.QNN_COMMON_ERROR_NOT_SUPPORTED:
            raise
        warn(f"perf profile {profile} has no effect: {backend.name} has no performance profiles")


class Profiler:
    """Profile handles of one level, or none at all."""

    def __init__(
        self,
        backend: Backend,
        level: str | None,
        option: str | None,
        from_config: str | None,
        warn: Callable[[str], None],
    ) -> None:
        self.backend = backend
        self._warn = warn
        self.level = level
        self._level = {"backend": from_config or "detailed"}.get(level or "", level)
        self._optrace = option == "optrace"
        if option and level not in ("detailed", "backend"):
            raise UsageError(f"--profiling_option {option} needs --profiling_level detailed")

    def create(self) -> qnn.Profile | None:
        """A handle; None when nothing is to be measured by the backend."""
        if self.level is None or self.level == "client":
            return None
        profile = self.backend.create_profile(self._level or "basic")
        if self._optrace:
            try:
                profile.set_config(optrace=True)
            except QnnError as error:
                if error.code != abi.QNN_COMMON_ERROR_NOT_SUPPORTED:
                    profile.close()
                    raise
                self._warn(f"optrace has no effect: {self.backend.name} has no such traces")
        return profile
