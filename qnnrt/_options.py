"""Options of QNN objects by name, as entries of the C config lists."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ._owner import Options, choice

_PRIORITIES: Final = {"low": 0, "normal": 100, "default": 100, "normal_high": 150, "high": 200}


def qnn_log_level(level: str | int) -> int:
    names = {"error": 1, "warning": 2, "warn": 2, "info": 3, "verbose": 4, "debug": 5}
    if isinstance(level, str):
        return choice("log_level", level.lower(), names)
    if level >= logging.ERROR:
        return 1
    if level >= logging.WARNING:
        return 2
    return 3 if level >= logging.INFO else 5


def context_options(
    *,
    priority: str | int | None = None,
    oem_string: str | None = None,
    async_queue_depth: int | None = None,
    enable_graphs: Sequence[str] | None = None,
    memory_limit_hint: int | None = None,
    persistent_binary: bool | None = None,
    binary_compatibility: str | None = None,
    defer_graph_init: bool | None = None,
    graph_retention_order: Sequence[str] | None = None,
    error_reporting: tuple[int, int] | None = None,
    custom: Sequence[bytes] = (),
) -> Options:
    options: Options = [(0, blob) for blob in custom]
    if priority is not None:
        options.append((1, choice("priority", priority, _PRIORITIES)))
    if error_reporting is not None:
        options.append((2, error_reporting))
    if oem_string is not None:
        options.append((3, oem_string))
    if async_queue_depth is not None:
        options.append((4, (0, async_queue_depth)))
    if enable_graphs is not None:
        options.append((5, list(enable_graphs)))
    if memory_limit_hint is not None:
        options.append((6, memory_limit_hint))
    if persistent_binary is not None:
        options.append((7, int(persistent_binary)))
    if binary_compatibility is not None:
        kinds = {"permissive": 0, "strict": 1}
        options.append((8, choice("binary_compatibility", binary_compatibility, kinds)))
    if defer_graph_init is not None:
        options.append((9, int(defer_graph_init)))
    if graph_retention_order is not None:
        options.append((10, list(graph_retention_order)))
    return options


def graph_options(
    *,
    priority: str | int | None = None,
    profile: int | None = None,
    profiling_enabled: bool | None = None,
    num_profiling_executions: int | None = None,
    custom: Sequence[bytes] = (),
) -> Options:
    options: Options = [(0, blob) for blob in custom]
    if priority is not None:
        options.append((3, choice("priority", priority, _PRIORITIES)))
    if profile is not None:
        options.append((4, profile))
    if profiling_enabled is not None:
        options.append((5, 1 if profiling_enabled else 2))
    if num_profiling_executions is not None:
        options.append((6, num_profiling_executions))
    return options
