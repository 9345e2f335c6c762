"""Options of QNN objects by name, as entries of the C config lists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .._native import _core
from ..support import choice
from .owner import Options

#: A struct of a backend's own, for its CUSTOM options.
Custom: TypeAlias = "bytes | _core.LpaiConfig | _core.GpuConfig"

_Table: TypeAlias = Mapping[str, tuple[int, Callable[[Any], Any]]]

_PRIORITIES: Final = {"low": 0, "normal": 100, "default": 100, "normal_high": 150, "high": 200}


def qnn_log_level(level: str | int) -> int:
    """The QNN_LOG_LEVEL for a name or for a level of ``logging``."""
    names = {"error": 1, "warning": 2, "warn": 2, "info": 3, "verbose": 4, "debug": 5}
    if isinstance(level, str):
        return choice("log_level", level.lower(), names)
    if level >= logging.ERROR:
        return 1
    if level >= logging.WARNING:
        return 2
    return 3 if level >= logging.INFO else 5


def _priority(value: str | int) -> int:
    return choice("priority", value, _PRIORITIES)


def _compatibility(value: str | int) -> int:
    return choice("binary_compatibility", value, {"permissive": 0, "strict": 1})


def _as_is(value: Any) -> Any:
    return value


# name -> (QNN_CONTEXT_CONFIG_*, its value as ``_core.Config`` takes it)
_CONTEXT: Final[_Table] = {
    "priority": (1, _priority),
    "error_reporting": (2, tuple),
    "oem_string": (3, _as_is),
    "async_queue_depth": (4, lambda depth: (0, depth)),
    "enable_graphs": (5, list),
    "memory_limit_hint": (6, _as_is),
    "persistent_binary": (7, int),
    "binary_compatibility": (8, _compatibility),
    "defer_graph_init": (9, int),
    "graph_retention_order": (10, list),
}
# name -> (QNN_GRAPH_CONFIG_OPTION_*, likewise)
_GRAPH: Final[_Table] = {
    "priority": (3, _priority),
    "profile": (4, lambda profile: getattr(profile, "handle", profile)),
    "profiling_enabled": (5, lambda enabled: 1 if enabled else 2),
    "num_profiling_executions": (6, _as_is),
}


def _entries(table: _Table, custom: Sequence[Custom], given: Mapping[str, Any]) -> Options:
    if unknown := [name for name in given if name not in table]:
        raise TypeError(f"unknown option {unknown[0]!r}; there are custom, {', '.join(table)}")
    options: Options = [(0, blob) for blob in custom]
    for name, value in given.items():
        if value is not None:
            option, convert = table[name]
            options.append((option, convert(value)))
    return options


def context_options(*, custom: Sequence[Custom] = (), **given: Any) -> Options:
    """Those of ``Backend.create_context``; None is not given."""
    return _entries(_CONTEXT, custom, given)


def graph_options(*, custom: Sequence[Custom] = (), **given: Any) -> Options:
    """Those of ``Graph.set_config``; ``profile`` is one, or a handle. None is not given."""
    return _entries(_GRAPH, custom, given)
