"""Options of QNN objects by name, as entries of the C config lists."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .._native import _core
from ..support import choice, word
from .owner import Options

#: A struct of a backend's own, for its CUSTOM options.
Custom: TypeAlias = "bytes | _core.LpaiConfig | _core.GpuConfig"

_Table: TypeAlias = Mapping[str, tuple[int, Callable[[Any], Any]]]

_PRIORITIES: Final = {"low": 0, "normal": 100, "default": 100, "normal_high": 150, "high": 200}


_QNNRT_MAGIC: Final = 0x54524E51  # csrc/abi/qnnrt_ext.h
_OPTION_THREADS: Final = 1
_OPTION_KERNELS: Final = 2
_OPTION_STRICT: Final = 3
_OPTION_EXCLUDE_IO: Final = 4
_OPTION_PLAN_MILLISECONDS: Final = 5
_KERNELS: Final = {"auto": 0, "portable": 1}


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


def own_graph_config(
    library: _core.Library,
    *,
    threads: int | None = None,
    kernels: str | None = None,
    plan_milliseconds: int | None = None,
    strict: bool = False,
    exclude_io: bool = False,
) -> list[bytes]:
    """Structs of a graph for qnnrt's own backends.

    Args:
        exclude_io: inputs and outputs do not lie in the graph's scratch memory.

    Raises:
        ValueError: an option for a backend of others, or a number out of range.
    """
    if kernels is not None and kernels not in _KERNELS:
        raise ValueError(f"kernels must be one of {', '.join(_KERNELS)}, not {kernels!r}")
    own = [
        ("threads", _OPTION_THREADS, threads),
        ("kernels", _OPTION_KERNELS, _KERNELS.get(kernels or "")),
        ("plan_milliseconds", _OPTION_PLAN_MILLISECONDS, plan_milliseconds),
    ]
    given = [(option, word(name, value)) for name, option, value in own if value is not None]
    if library.has_extensions:
        given += [(_OPTION_STRICT, 1)] * strict + [(_OPTION_EXCLUDE_IO, 1)] * exclude_io
    elif given:
        raise ValueError(
            f"{library.path} is not qnnrt's own: it takes neither 'threads' nor "
            "'kernels' nor 'plan_milliseconds'; its own options go into "
            "options['graph_config']"
        )
    return [struct.pack("=III", _QNNRT_MAGIC, option, value) for option, value in given]
