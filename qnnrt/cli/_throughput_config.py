"""The config file of throughput-net-run, checked: who runs what, how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.json_checks import check_keys, flag, objects, one_of, read_json, text, whole
from ._common import UsageError
from ._config_file import CONTEXT_KEYS, PERF_PROFILES
from ._io_sets import HANDLE_TYPES

_SAVE = re.compile(r"(?:(NATIVE|FLOAT)_)?(NONE|FIRST|LAST|ALL)", re.IGNORECASE)


@dataclass(frozen=True)
class BackendItem:
    name: str
    path: str
    profiling: str | None
    config: Path | None
    perf_profile: str | None


@dataclass(frozen=True)
class ModelItem:
    """``save``: "none", "first", "last" or "all"; ``kinds``: as --output_data_type."""

    name: str
    path: Path
    cached: bool
    inputs: str | None
    native: bool
    output: Path
    kinds: str
    save: str
    handles: str | None


@dataclass(frozen=True)
class ThreadItem:
    """``loop``: seconds, or executions; ``interval``: microseconds between executions."""

    name: str
    backend: BackendItem
    context: str
    context_options: Mapping[str, Any]
    model: ModelItem
    interval: int
    seconds: float | None
    executions: int | None


@dataclass(frozen=True)
class Config:
    threads: tuple[ThreadItem, ...]
    iterations: int
    log_level: str


def anycase(*names: str) -> Callable[[str, Any], str]:
    """One of some names, in whatever case."""

    def check(where: str, value: Any) -> str:
        if isinstance(value, str) and value.lower() in names:
            return value.lower()
        raise UsageError(f"{where}: expected one of {', '.join(names).upper()}, not {value!r}")

    return check


def _saving(where: str, value: Any) -> str:
    if isinstance(value, str) and _SAVE.fullmatch(value):
        return value.lower()
    raise UsageError(
        f"{where}: expected NONE, FIRST, LAST or ALL (or one of them after NATIVE_ or FLOAT_), "
        f"not {value!r}"
    )


def _number(where: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9:
        return float(value)
    raise UsageError(f"{where}: expected a positive number, not {value!r}")


def _anything(where: str, value: Any) -> Any:
    return value


_TOP = {"backends": objects, "models": objects, "contexts": objects, "testCase": _anything}
_BACKEND = {
    "backendName": text,
    "backendPath": text,
    "profilingLevel": anycase("off", "basic", "detailed"),
    "backendExtensions": text,
    "perfProfile": one_of(*PERF_PROFILES),
}
_MODEL = {
    "modelName": text,
    "modelPath": text,
    "loadFromCachedBinary": flag,
    "inputPath": text,
    "inputDataType": anycase("float", "native"),
    "outputPath": text,
    "outputDataType": anycase("float_only", "native_only", "float_and_native"),
    "saveOutput": _saving,
    "ioTensorMemHandleType": one_of(*HANDLE_TYPES),
}
_CONTEXT = {"contextName": text, **CONTEXT_KEYS}
_TEST = {
    "iteration": whole(1),
    "logLevel": anycase("error", "warn", "info", "verbose", "debug"),
    "threads": objects,
}
_THREAD = {
    "threadName": text,
    "backend": text,
    "context": text,
    "model": text,
    "interval": whole(0),
    "loopUnit": one_of("second", "count"),
    "loop": _number,
}


def read_throughput_config(path: Path) -> Config:
    """Read and check a file.

    Raises:
        UsageError: what is wrong and where.
    """
    top = check_keys(str(path), read_json(path), _TOP, ["backends", "models", "testCase"])
    backends = _named(path, "backends", top, "backendName", _BACKEND, ["backendPath"])
    models = _named(path, "models", top, "modelName", _MODEL, ["modelPath"])
    contexts = _named(path, "contexts", top, "contextName", _CONTEXT, [])
    where = f"{path}: testCase"
    if not isinstance(top["testCase"], dict):
        raise UsageError(f"{where}: expected an object")
    test = check_keys(where, top["testCase"], _TEST, ["threads"])
    if not test["threads"]:
        raise UsageError(f"{where}: there are no threads")
    known_backends = {name: _backend(item) for name, item in backends.items()}
    known_models = {name: _model(item) for name, item in models.items()}
    threads: list[ThreadItem] = []
    for item in test["threads"]:
        where = f"{path}: testCase: threads"
        given = check_keys(where, item, _THREAD, ["threadName", "backend", "model", "loop"])
        name = given["threadName"]
        where = f"{where}: {name}"
        if any(t.name == name for t in threads):
            raise UsageError(f"{where}: there is a thread of this name already")
        context = given.get("context", "")
        if context and context not in contexts:
            raise UsageError(f"{where}: no context {context!r}; there are {_list(contexts)}")
        by_count = given.get("loopUnit", "second") == "count"
        loop = given["loop"]
        if by_count and loop != int(loop):
            raise UsageError(f"{where}: loop: expected a whole number of executions, not {loop!r}")
        threads.append(
            ThreadItem(
                name,
                _known(known_backends, given["backend"], where, "backend"),
                context,
                {k: v for k, v in contexts.get(context, {}).items() if k != "contextName"},
                _known(known_models, given["model"], where, "model"),
                given.get("interval", 0),
                None if by_count else loop,
                int(loop) if by_count else None,
            )
        )
    return Config(tuple(threads), test.get("iteration", 1), test.get("logLevel", "warn"))


def _named(
    path: Path,
    what: str,
    top: Mapping[str, Any],
    key: str,
    keys: Mapping[str, Any],
    needed: Sequence[str],
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for item in top.get(what, []):
        given = check_keys(f"{path}: {what}", item, keys, [key, *needed])
        if given[key] in found:
            raise UsageError(f"{path}: {what}: {given[key]!r} is there twice")
        found[given[key]] = given
    return found


def _known(items: Mapping[str, Any], name: str, where: str, what: str) -> Any:
    if name not in items:
        raise UsageError(f"{where}: no {what} {name!r}; there are {_list(items)}")
    return items[name]


def _list(items: Mapping[str, Any]) -> str:
    return ", ".join(items) or "none"


def _backend(item: Mapping[str, Any]) -> BackendItem:
    level = item.get("profilingLevel", "off")
    extensions = item.get("backendExtensions")
    return BackendItem(
        item["backendName"],
        item["backendPath"],
        None if level == "off" else level,
        # The SDK has the extensions' library here, whose part this tool does itself.
        None if extensions is None or ".so" in extensions else Path(extensions),
        item.get("perfProfile"),
    )


def _model(item: Mapping[str, Any]) -> ModelItem:
    prefix, _, save = item.get("saveOutput", "none").rpartition("_")
    kinds = item.get("outputDataType", "float_only")
    return ModelItem(
        item["modelName"],
        Path(item["modelPath"]),
        item.get("loadFromCachedBinary", False),
        item.get("inputPath"),
        item.get("inputDataType", "float") == "native",
        Path(item.get("outputPath", "output")),
        f"{prefix}_only" if prefix else kinds,
        save,
        item.get("ioTensorMemHandleType"),
    )
