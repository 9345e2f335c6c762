"""Config files of the SDK's tools: what they say, checked key by key.

The outer file has ``backend_extensions``, ``context_configs`` and ``graph_configs``; the first
names an inner file with the htp backend's own ``graphs``, ``devices`` and ``context``, or with the
sections of the lpai backend, which ``qnnrt.lpai.config`` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._native import _core
from ..abi import constants as abi
from ..abi.structs import QnnHtpContext_CustomConfig_t, QnnHtpGraph_CustomConfig_t
from ..lpai import ID as LPAI
from ..lpai.config import SECTIONS as LPAI_SECTIONS
from ..lpai.config import Config as LpaiConfig
from ..qnn.htp import device_configs
from ..qnn.options import CONTEXT_OPTIONS, GRAPH_OPTIONS
from ..support.json_checks import (
    Check,
    an_object,
    check_keys,
    flag,
    objects,
    one_of,
    read_json,
    text,
    texts,
    whole,
)
from ._common import UsageError
from ._lpai import LpaiTools

HTP = abi.QNN_BACKEND_ID_HTP  # the backend that the inner file is for

# ---- the outer file ------------------------------------------------------------------------------

PERF_PROFILES = (
    "low_balanced",
    "balanced",
    "default",
    "high_performance",
    "sustained_high_performance",
    "burst",
    "extreme_power_saver",
    "low_power_saver",
    "power_saver",
    "high_power_saver",
    "system_settings",
)
_PRIORITY = one_of("low", "normal", "normal_high", "high")
_OUTER: Mapping[str, Check] = {
    "backend_extensions": an_object,
    "context_configs": an_object,
    "graph_configs": objects,
}
_EXTENSIONS: Mapping[str, Check] = {"shared_library_path": text, "config_file_path": text}
# key -> how Backend.create_context calls it
_CONTEXT_NAMES = {
    "context_priority": "priority",
    "async_execute_queue_depth": "async_queue_depth",
    "enable_graphs": "enable_graphs",
    "memory_limit_hint": "memory_limit_hint",
    "is_persistent_binary": "persistent_binary",
    "cache_compatibility_mode": "binary_compatibility",
}
# key -> how Context.create_graph and Graph.set_config call it
_GRAPH_NAMES = {
    "graph_priority": "priority",
    "graph_profiling_state": "profiling_enabled",
    "graph_profiling_num_executions": "num_profiling_executions",
}
_FROM_BINARY = ("enable_graphs", "persistent_binary", "binary_compatibility")
CONTEXT_KEYS: Mapping[str, Check] = {
    "context_priority": _PRIORITY,
    "async_execute_queue_depth": whole(1),
    "enable_graphs": texts,
    "memory_limit_hint": whole(0, 2**63),
    "is_persistent_binary": flag,
    "cache_compatibility_mode": one_of("permissive", "strict"),
}
_GRAPH: Mapping[str, Check] = {
    "graph_name": text,
    "graph_priority": _PRIORITY,
    "graph_profiling_state": one_of("enabled", "disabled"),
    "graph_profiling_num_executions": whole(1),
}

# ---- the inner file ------------------------------------------------------------------------------

_INNER: Mapping[str, Check] = {"graphs": objects, "devices": objects, "context": an_object}


# key -> (its check, its option and the field of its value in QnnHtpGraph_CustomConfig_t)
_HTP_GRAPH: Mapping[str, tuple[Check, int, str]] = {
    "vtcm_mb": (whole(0), abi.QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB, "vtcmSizeInMB"),
    "vtcm_size_in_bytes": (
        whole(0),
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES,
        "vtcmSizeInBytes",
    ),
    "O": (whole(1, 3), abi.QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION, "optimizationOption"),
    "dlbc": (whole(0, 1), abi.QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION, "optimizationOption"),
    "dlbc_weights": (
        whole(0, 1),
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION,
        "optimizationOption",
    ),
    "fp16_relaxed_precision": (flag, abi.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION, "precision"),
    "hvx_threads": (whole(1), abi.QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS, "numHvxThreads"),
    "num_cores": (whole(1), abi.QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES, "numCores"),
    "weights_packing": (flag, abi.QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING, "weightsPacking"),
    "assume_same_quant": (
        flag,
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT,
        "assumeSameQuant",
    ),
    "advanced_activation_fusion": (
        flag,
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION,
        "advancedActivationFusion",
    ),
    "fold_relu_activation_into_conv_off": (
        flag,
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF,
        "foldReluActivationIntoConvOff",
    ),
    "short_depth_conv_on_hmx_off": (
        flag,
        abi.QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF,
        "shortDepthConvOnHmxOff",
    ),
}
# The type of QnnHtpGraph_OptimizationOption_t.
_OPTIMIZATIONS = {
    "O": abi.QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG,
    "dlbc": abi.QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC,
    "dlbc_weights": abi.QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC_WEIGHTS,
}
# key -> (its check, its option and the field of its value in QnnHtpContext_CustomConfig_t)
_HTP_CONTEXT: Mapping[str, tuple[Check, int, str]] = {
    "weight_sharing_enabled": (
        flag,
        abi.QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED,
        "weightSharingEnabled",
    ),
    "file_read_memory_budget_in_mb": (
        whole(0),
        abi.QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET,
        "fileReadMemoryBudgetInMb",
    ),
    "extended_udma": (
        flag,
        abi.QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA,
        "useExtendedUdma",
    ),
}
_ARCH = ("v68", "v69", "v73", "v75", "v79", "v81", "v85")
_DEVICE: Mapping[str, Check] = {
    "device_id": whole(0),
    "soc_id": whole(0),
    "soc_model": whole(0),
    "dsp_arch": one_of(*_ARCH),
    "pd_session": one_of("signed", "unsigned"),
    "profiling_level": one_of("basic", "detailed", "linting"),
    "cores": objects,
}
_CORE: Mapping[str, Check] = {
    "core_id": whole(0),
    "perf_profile": one_of(*PERF_PROFILES),
    "rpc_control_latency": whole(0),
    "rpc_polling_time": whole(0),
    "hmx_timeout_us": whole(0),
}


@dataclass
class ToolConfig:
    """What the config files say, in this package's terms.

    Attributes:
        path: the outer file; None when there is none.
        perf_profile, rpc, profiling_level: of the inner file's device; ``rpc`` as
            ``Backend.set_perf_profile`` takes it.
        device: arguments of ``Backend.open``.
        lpai_config: the inner file of an lpai backend; None when there is none.
        direct_mode: the option ``--direct_mode``.
        lpai: of the lpai backend that was opened with this; None on others.
        warn: where warnings go.
        recorded: options that the backend keeps without effect: (scope, number) -> why.
    """

    path: Path | None = None
    perf_profile: str | None = None
    profiling_level: str | None = None
    rpc: dict[str, int] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    lpai_config: LpaiConfig | None = None
    direct_mode: bool = False
    lpai: LpaiTools | None = None
    _context: dict[str, Any] = field(default_factory=dict)
    _context_custom: list[bytes] = field(default_factory=list)
    _graphs: dict[str, dict[str, Any]] = field(default_factory=dict)
    _custom: dict[str, list[bytes]] = field(default_factory=dict)
    warn: Callable[[str], None] = print
    recorded: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def note(self, where: str, scope: str, option: int) -> None:
        """Warn when a key stands for an option that changes nothing on this backend."""
        if (scope, option) in self.recorded:
            why = self.recorded[scope, option]
            self.warn(f"{where} has no effect here{': ' if why else ''}{why}")

    def with_context(self, given: Mapping[str, Any]) -> ToolConfig:
        """The same with more context_configs, given by the keys of the file."""
        more = {_CONTEXT_NAMES[key]: value for key, value in given.items()}
        return replace(self, _context={**self._context, **more})

    def check_graphs(self, names: Sequence[str]) -> None:
        """Raises ``UsageError`` unless every graph that is named is one of these."""
        enabled = self._context.get("enable_graphs") or ()
        for name in (*self._graphs, *self._custom, *enabled):
            if name not in names:
                raise UsageError(
                    f"{self.path}: unable to find graphName {name!r}; there are {', '.join(names)}"
                )

    def context(self, *, from_binary: bool) -> dict[str, Any]:
        """Options for ``create_context`` or ``Context.from_binary``."""
        found = dict(self._context)
        if not from_binary:
            for name in [name for name in _FROM_BINARY if name in found]:
                del found[name]
                self.warn(f"{self.path}: {name} has no effect where a model is prepared")
        if self._context_custom:
            found["custom"] = list(self._context_custom)
        return found

    def graph(self, name: str) -> dict[str, Any]:
        """Options for a graph that is composed."""
        options = dict(self._graphs.get(name, {}))
        if name in self._custom:
            options["custom"] = list(self._custom[name])
        return options

    def retrieved_graph(self, name: str) -> dict[str, Any]:
        """Options for a graph out of a binary."""
        if name in self._custom:
            self.warn(
                f"{self.path}: the htp options of graph {name} have no effect: it is prepared "
                "already, give them to context-binary-generator"
            )
        return dict(self._graphs.get(name, {}))


def read_config(
    path: Path | None,
    library: _core.Library,
    warn: Callable[[str], None],
    device_options: str = "",
) -> ToolConfig:
    """Read ``--config_file`` and the file that it names, for a backend.

    A key that changes nothing on this backend is warned about, as far as the backend reports.

    Raises:
        UsageError: a file that is not there or not JSON, an unknown key, a value of the wrong kind.
    """
    settings = ToolConfig(path, warn=warn, recorded=_recorded(library))
    if device_options:
        _check_device_options(device_options)
    if path is None:
        return settings
    outer = read_json(path)
    if outer and any(not outer.keys() - inner.keys() for inner in (_INNER, LPAI_SECTIONS)):
        raise UsageError(
            f"{path}: this is a backend's own config: name it in another file as "
            '{"backend_extensions": {"config_file_path": "..."}} and give that one'
        )
    outer = check_keys(str(path), outer, _OUTER)
    context = check_keys(f"{path}: context_configs", outer.get("context_configs", {}), CONTEXT_KEYS)
    for key, value in context.items():
        name = _CONTEXT_NAMES[key]
        settings._context[name] = value
        settings.note(f"{path}: context_configs: {key}", "context", CONTEXT_OPTIONS[name][0])
    for item in outer.get("graph_configs", []):
        _outer_graph(settings, f"{path}: graph_configs", item)
    extensions = check_keys(
        f"{path}: backend_extensions", outer.get("backend_extensions", {}), _EXTENSIONS
    )
    if "config_file_path" in extensions:
        _inner(settings, _beside(path, Path(extensions["config_file_path"])), library)
    return settings


def _recorded(library: _core.Library) -> dict[tuple[str, int], str]:
    """What a backend of this package keeps without effect; of others nothing is known."""
    if not library.has_extensions:
        return {}
    column = {HTP: "htp", LPAI: "lpai"}.get(library.backend_id, "cpu")
    rows = json.loads(_core.config_table())
    return {(r["scope"], r["option"]): r["note"] for r in rows if r[column] == "recorded"}


def _beside(outer: Path, inner: Path) -> Path:
    """As the SDK has it, from the working directory; else from the outer file's folder."""
    return inner if inner.exists() or inner.is_absolute() else outer.parent / inner


def _check_device_options(given: str) -> None:
    for item in filter(None, given.split(";")):
        key, separator, value = item.partition(":")
        if key not in ("device_id", "core_id") or not separator or not value.isdecimal():
            raise UsageError(f"--device_options {item}: expected device_id:N or core_id:N")
        if int(value):
            raise UsageError(f"--device_options {item}: there is one {key[:-3]}, number 0")


def _outer_graph(settings: ToolConfig, where: str, item: dict[str, Any]) -> None:
    given = check_keys(where, item, _GRAPH, ["graph_name"])
    name = given.pop("graph_name")
    if name in settings._graphs:
        raise UsageError(f"{where}: graph {name!r} is there twice")
    options: dict[str, Any] = {}
    for key, value in given.items():
        option = _GRAPH_NAMES[key]
        options[option] = value == "enabled" if key == "graph_profiling_state" else value
        settings.note(f"{where}: {key}", "graph", GRAPH_OPTIONS[option][0])
    settings._graphs[name] = options


def _inner(settings: ToolConfig, path: Path, library: _core.Library) -> None:
    given = read_json(path)
    for_htp, for_lpai = (bool(given.keys() & own.keys()) for own in (_INNER, LPAI_SECTIONS))
    if for_lpai or (library.backend_id == LPAI and not for_htp):
        _lpai(settings, path, given, library)
        return
    given = check_keys(str(path), given, _INNER)
    if library.backend_id != HTP:
        settings.warn(f"{path} has no effect: it is for the htp backend")
        return
    for item in given.get("graphs", []):
        known: dict[str, Check] = {"graph_names": texts}
        known |= {key: check for key, (check, _, _) in _HTP_GRAPH.items()}
        values = check_keys(f"{path}: graphs", item, known, ["graph_names"])
        blobs = []
        for key in filter(_HTP_GRAPH.__contains__, values):
            _, option, field_ = _HTP_GRAPH[key]
            kind, value = _OPTIMIZATIONS.get(key), values[key]
            value = value if kind is None else (kind, value)
            blobs.append(QnnHtpGraph_CustomConfig_t.pack(option=option, **{field_: value}))
            settings.note(f"{path}: graphs: {key}", "htp graph", option)
        for name in values["graph_names"]:
            settings._custom.setdefault(name, []).extend(blobs)
    checks = {key: check for key, (check, _, _) in _HTP_CONTEXT.items()}
    for key, value in check_keys(f"{path}: context", given.get("context", {}), checks).items():
        _, option, field_ = _HTP_CONTEXT[key]
        blob = QnnHtpContext_CustomConfig_t.pack(option=option, **{field_: value})
        settings._context_custom.append(blob)
        settings.note(f"{path}: context: {key}", "htp context", option)
    devices = given.get("devices", [])
    if len(devices) > 1:
        raise UsageError(f"{path}: devices: there is one device, {len(devices)} are given")
    for item in devices:
        _device(settings, f"{path}: devices", item, library.core_version)


def _lpai(
    settings: ToolConfig, path: Path, given: Mapping[str, Any], library: _core.Library
) -> None:
    config = LpaiConfig.of(given, str(path))
    if library.backend_id != LPAI:
        settings.warn(f"{path} has no effect: it is for the lpai backend")
        return
    settings.lpai_config = config
    settings.profiling_level = config.profile_level
    for line in config.notes:
        settings.warn(line)


def _device(
    settings: ToolConfig, where: str, item: dict[str, Any], core_version: tuple[int, int, int]
) -> None:
    given = check_keys(where, item, _DEVICE)
    if given.get("device_id", 0) != 0:
        raise UsageError(f"{where}: device_id: there is one device, number 0")
    settings.profiling_level = given.get("profiling_level")
    soc = given.get("soc_model", given.get("soc_id"))
    if soc is not None:
        settings.device["soc_model"] = soc
    if "dsp_arch" in given:
        settings.device["htp_arch"] = int(given["dsp_arch"][1:])
    if "pd_session" in given:
        signed = given["pd_session"] == "signed"
        settings.device["device_options"] = device_configs(core_version, signed_pd=signed)
        settings.note(f"{where}: pd_session", "htp device", 2)
    for number, core in enumerate(given.get("cores", [])):
        values = check_keys(f"{where}: cores", core, _CORE)
        if values.pop("core_id", number) != 0:
            raise UsageError(f"{where}: cores: core_id: there is one core, number 0")
        if values.pop("hmx_timeout_us", None) is not None:
            settings.warn(f"{where}: cores: hmx_timeout_us has no effect here")
        settings.perf_profile = values.pop("perf_profile", None)
        settings.rpc = values
