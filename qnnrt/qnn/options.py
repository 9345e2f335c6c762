"""Options of QNN objects by name, as entries of the C config lists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from .._native import _core
from ..abi import constants as abi
from ..abi.structs import QnnHtpGraph_CustomConfig_t, Qnnrt_GraphConfig_t
from ..support import choice, named, uint32
from .owner import Options

#: A struct of a backend's own, for its CUSTOM options.
Custom: TypeAlias = "bytes | _core.LpaiConfig | _core.GpuConfig"

_Table: TypeAlias = Mapping[str, tuple[int, Callable[[Any], Any]]]

_PRIORITIES: Final = {
    "low": abi.QNN_PRIORITY_LOW,
    "normal": abi.QNN_PRIORITY_NORMAL,
    "default": abi.QNN_PRIORITY_DEFAULT,
    "normal_high": abi.QNN_PRIORITY_NORMAL_HIGH,
    "high": abi.QNN_PRIORITY_HIGH,
}
_LOG_LEVELS: Final = {
    "error": abi.QNN_LOG_LEVEL_ERROR,
    "warning": abi.QNN_LOG_LEVEL_WARN,
    "warn": abi.QNN_LOG_LEVEL_WARN,
    "info": abi.QNN_LOG_LEVEL_INFO,
    "verbose": abi.QNN_LOG_LEVEL_VERBOSE,
    "debug": abi.QNN_LOG_LEVEL_DEBUG,
}
_COMPATIBILITIES: Final = {
    "permissive": abi.QNN_CONTEXT_BINARY_COMPATIBILITY_PERMISSIVE,
    "strict": abi.QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT,
}
_CUSTOM: Final = 0  # the option of every config list
SHARE_WEIGHTS: Final = {
    "nobody": abi.QNNRT_SHARE_WEIGHTS_NOBODY,
    "context": abi.QNNRT_SHARE_WEIGHTS_CONTEXT,
    "process": abi.QNNRT_SHARE_WEIGHTS_PROCESS,
}
_KERNELS: Final = {"auto": abi.QNNRT_KERNELS_AUTO, "portable": abi.QNNRT_KERNELS_PORTABLE}
#: What floats inside of a graph are.
PRECISIONS: Final = {
    "float32": abi.QNNRT_PRECISION_FLOAT32,
    "float16": abi.QNNRT_PRECISION_FLOAT16,
    "bfloat16": abi.QNNRT_PRECISION_BFLOAT16,
    "fastest": abi.QNNRT_PRECISION_FASTEST,
}

_HTP: Final = {"float32": abi.QNN_PRECISION_FLOAT32, "float16": abi.QNN_PRECISION_FLOAT16}


def qnn_log_level(level: str | int) -> int:
    """The QNN_LOG_LEVEL for a name or for a level of ``logging``."""
    if isinstance(level, str):
        return choice("log_level", level.lower(), _LOG_LEVELS)
    if level >= logging.ERROR:
        return abi.QNN_LOG_LEVEL_ERROR
    if level >= logging.WARNING:
        return abi.QNN_LOG_LEVEL_WARN
    return abi.QNN_LOG_LEVEL_INFO if level >= logging.INFO else abi.QNN_LOG_LEVEL_DEBUG


def _priority(value: str | int) -> int:
    return choice("priority", value, _PRIORITIES)


def _compatibility(value: str | int) -> int:
    return choice("binary_compatibility", value, _COMPATIBILITIES)


def _as_is(value: Any) -> Any:
    return value


def _depth(value: Any) -> tuple[int, Any]:
    return abi.QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC, value


def _handle(profile: Any) -> Any:
    return getattr(profile, "handle", profile)


def _state(enabled: Any) -> int:
    off = abi.QNN_GRAPH_PROFILING_STATE_DISABLED
    return abi.QNN_GRAPH_PROFILING_STATE_ENABLED if enabled else off


# name -> (the option, its value as ``_core.Config`` takes it)
CONTEXT_OPTIONS: Final[_Table] = {
    "priority": (abi.QNN_CONTEXT_CONFIG_OPTION_PRIORITY, _priority),
    "error_reporting": (abi.QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING, tuple),
    "oem_string": (abi.QNN_CONTEXT_CONFIG_OPTION_OEM_STRING, _as_is),
    "async_queue_depth": (abi.QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH, _depth),
    "enable_graphs": (abi.QNN_CONTEXT_CONFIG_ENABLE_GRAPHS, list),
    "memory_limit_hint": (abi.QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT, _as_is),
    "persistent_binary": (abi.QNN_CONTEXT_CONFIG_PERSISTENT_BINARY, int),
    "binary_compatibility": (abi.QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY, _compatibility),
    "defer_graph_init": (abi.QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT, int),
    "graph_retention_order": (abi.QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER, list),
}
GRAPH_OPTIONS: Final[_Table] = {
    "priority": (abi.QNN_GRAPH_CONFIG_OPTION_PRIORITY, _priority),
    "profile": (abi.QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE, _handle),
    "profiling_enabled": (abi.QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE, _state),
    "num_profiling_executions": (
        abi.QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS,
        _as_is,
    ),
}


# name -> (QNNRT_GRAPH_OPTION_*, the field of its value)
_OWN: Final = {
    "threads": (abi.QNNRT_GRAPH_OPTION_NUM_THREADS, "numThreads"),
    "kernels": (abi.QNNRT_GRAPH_OPTION_KERNELS, "kernels"),
    "plan_milliseconds": (abi.QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS, "planMilliseconds"),
    "strict": (abi.QNNRT_GRAPH_OPTION_STRICT, "strict"),
    "exclude_io": (abi.QNNRT_GRAPH_OPTION_EXCLUDE_IO, "excludeIo"),
    "release_constants": (abi.QNNRT_GRAPH_OPTION_RELEASE_CONSTANTS, "releaseConstants"),
    "keep_constants": (abi.QNNRT_GRAPH_OPTION_KEEP_CONSTANTS, "keepConstants"),
    "share_weights": (abi.QNNRT_GRAPH_OPTION_SHARE_WEIGHTS, "shareWeights"),
    "byte_activations": (abi.QNNRT_GRAPH_OPTION_BYTE_ACTIVATIONS, "byteActivations"),
}


def _entries(table: _Table, custom: Sequence[Custom], given: Mapping[str, Any]) -> Options:
    if unknown := [name for name in given if name not in table]:
        raise TypeError(f"unknown option {unknown[0]!r}; there are custom, {', '.join(table)}")
    options: Options = [(_CUSTOM, blob) for blob in custom]
    for name, value in given.items():
        if value is not None:
            option, convert = table[name]
            options.append((option, convert(value)))
    return options


def context_options(*, custom: Sequence[Custom] = (), **given: Any) -> Options:
    """Those of ``Backend.create_context``; None is not given."""
    return _entries(CONTEXT_OPTIONS, custom, given)


def graph_options(*, custom: Sequence[Custom] = (), **given: Any) -> Options:
    """Those of ``Graph.set_config``; ``profile`` is one, or a handle. None is not given."""
    return _entries(GRAPH_OPTIONS, custom, given)


def own_graph_config(
    library: _core.Library,
    *,
    threads: int | None = None,
    kernels: str | None = None,
    plan_milliseconds: int | None = None,
    strict: bool = False,
    exclude_io: bool = False,
    release_constants: bool = False,
    keep_constants: bool | None = None,
    share_weights: str | None = None,
    byte_activations: bool = False,
) -> list[bytes]:
    """Structs of a graph for qnnrt's own backends.

    Args:
        exclude_io: inputs and outputs do not lie in the graph's scratch memory.
        release_constants: finalize frees constants that are not kept while it packs them, and
            cannot be repeated where it fails. Nothing where the backend is another maker's.
        keep_constants: they stay beside their packed forms, also in context binaries. None: not
            with ``release_constants``; else where a graph's take at most
            ``QNNRT_KEEP_CONSTANTS_MIB`` of the environment, or 64 MiB.
        share_weights: of ``SHARE_WEIGHTS``: with which graphs constants and packed weights that are
            equal are there once. None: those of the context. Nothing where the backend is another
            maker's.
        byte_activations: products with constant weights of 4 or 8 bits may round the floats that
            they multiply to 8 bits. Nothing where the backend is another maker's.

    Raises:
        ValueError: an option for a backend of others, or a number out of range.
    """
    if kernels is not None:
        named("kernels", kernels, _KERNELS)
    own = {
        "threads": threads,
        "kernels": _KERNELS.get(kernels or ""),
        "plan_milliseconds": plan_milliseconds,
    }
    given = {name: uint32(name, value) for name, value in own.items() if value is not None}
    if library.has_extensions:
        given |= {"strict": 1} if strict else {}
        given |= {"exclude_io": 1} if exclude_io else {}
        given |= {"release_constants": 1} if release_constants else {}
        given |= {} if keep_constants is None else {"keep_constants": int(keep_constants)}
        given |= {"byte_activations": 1} if byte_activations else {}
        given |= {} if share_weights is None else {"share_weights": SHARE_WEIGHTS[share_weights]}
    elif given or keep_constants is not None:
        raise ValueError(
            f"{library.path} is not qnnrt's own: it takes neither 'threads' nor "
            "'kernels' nor 'plan_milliseconds' nor 'keep_constants'; its own options go into "
            "options['graph_config']"
        )
    return [_own_struct(*_OWN[name], value) for name, value in given.items()]


def precision_config(
    library: _core.Library, precision: str | None, float32_nodes: Sequence[str] = ()
) -> list[bytes]:
    """Structs of a graph that say what its floats are: qnnrt's own, or HTP's of another maker.

    Args:
        precision: of ``PRECISIONS``; None: as unless given.
        float32_nodes: names of nodes that compute in float32 whatever the precision.

    Raises:
        ValueError: a precision or nodes that this backend has no option for.
    """
    if precision is None and not float32_nodes:
        return []
    if library.has_extensions:
        option = (abi.QNNRT_GRAPH_OPTION_PRECISION, "precision")
        given = [] if precision is None else [_own_struct(*option, PRECISIONS[precision])]
        return given + [_Named(name) for name in float32_nodes]
    if library.backend_id != abi.QNN_BACKEND_ID_HTP or precision not in _HTP or float32_nodes:
        raise ValueError(
            f"{library.path} is not qnnrt's own: an HTP library takes precision 'float32' and "
            "'float16', others none; its own options go into options['graph_config']"
        )
    return [
        QnnHtpGraph_CustomConfig_t.pack(
            option=abi.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION, precision=_HTP[precision]
        )
    ]


class _Named(bytes):
    """A struct that points to a name, and the name."""

    name: bytes

    def __new__(cls, name: str) -> _Named:
        text = name.encode() + b"\0"
        address = np.frombuffer(text, np.uint8).ctypes.data
        made = super().__new__(
            cls, _own_struct(abi.QNNRT_GRAPH_OPTION_FLOAT32_NODE, "float32Node", address)
        )
        made.name = text
        return made


def _own_struct(option: int, field: str, value: int) -> bytes:
    magic = abi.QNNRT_GRAPH_CONFIG_MAGIC
    return Qnnrt_GraphConfig_t.pack(magic=magic, option=option, **{field: value})
