"""What an LPAI backend stands for, and how fast it should be: hardware, cores, performance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..qnn.backend import Backend
from ..qnn.graph import Graph
from ..support import choice, uint32

__all__ = [
    "ID",
    "Affinity",
    "ClientType",
    "CoreInfo",
    "HardwareVersion",
    "MemType",
    "Target",
    "backend_options",
    "cores",
    "describe",
    "island",
    "model_memory",
    "requires_persistent_binary",
    "set_affinity",
    "set_performance",
    "set_prepare",
]

ID: Final = abi.QNN_BACKEND_ID_LPAI


class HardwareVersion(IntEnum):
    """Versions of the eNPU."""

    V1 = abi.QNN_LPAI_BACKEND_HW_VERSION_V1
    V2 = abi.QNN_LPAI_BACKEND_HW_VERSION_V2
    V3 = abi.QNN_LPAI_BACKEND_HW_VERSION_V3
    V4 = abi.QNN_LPAI_BACKEND_HW_VERSION_V4
    V5 = abi.QNN_LPAI_BACKEND_HW_VERSION_V5
    V5_1 = abi.QNN_LPAI_BACKEND_HW_VERSION_V5_1
    V6 = abi.QNN_LPAI_BACKEND_HW_VERSION_V6
    V7 = abi.QNN_LPAI_BACKEND_HW_VERSION_V7
    DEFAULT = abi.QNN_LPAI_BACKEND_HW_VERSION_DEFAULT


class Target(IntEnum):
    """Where graphs are to run."""

    X86 = abi.QNN_LPAI_BACKEND_TARGET_X86
    ARM = abi.QNN_LPAI_BACKEND_TARGET_ARM
    ADSP = abi.QNN_LPAI_BACKEND_TARGET_ADSP
    TENSILICA = abi.QNN_LPAI_BACKEND_TARGET_TENSILICA


class MemType(IntEnum):
    """Kinds of memory. Pools are DDR always; the model and IO tensors may be TCM."""

    DDR = abi.QNN_LPAI_MEM_TYPE_DDR
    LLC = abi.QNN_LPAI_MEM_TYPE_LLC
    TCM = abi.QNN_LPAI_MEM_TYPE_TCM
    PSRAM = abi.QNN_LPAI_MEM_TYPE_PSRAM
    UNDEFINED = abi.QNN_LPAI_MEM_TYPE_UNDEFINED


class ClientType(IntEnum):
    """Whether results have a deadline."""

    REAL_TIME = abi.QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME
    NON_REAL_TIME = abi.QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_NON_REAL_TIME


class Affinity(IntEnum):
    """Whether a selection of cores is a wish or a condition."""

    SOFT = abi.QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT
    HARD = abi.QNN_LPAI_GRAPH_CORE_AFFINITY_HARD


@dataclass(frozen=True)
class CoreInfo:
    """An eNPU core: its index, its multiply-accumulate units, the version of its hardware."""

    index: int
    mac_count: int
    version: int


def _number(what: str, value: str | int, names: type[IntEnum]) -> int:
    """The number behind a name, which may be written as in the SDK's config files."""
    if isinstance(value, str):
        return choice(what, value.lower(), {one.name.lower(): int(one) for one in names})
    return uint32(what, value)


def backend_options(
    *,
    hardware_version: str | int | None = None,
    target: str | int | None = None,
    direct_mode: bool = False,
    start_alignment: int | None = None,
    size_alignment: int | None = None,
    core_count: int | None = None,
    mac_count: int | None = None,
) -> list[tuple[int, Any]]:
    """What ``Backend.open("lpai", options=...)`` takes.

    Args:
        hardware_version: "v1" to "v7", "v5_1", or a ``HardwareVersion``; "v6" unless given.
        target: "x86", "arm", "adsp" or "tensilica"; "adsp" unless given.
        direct_mode: as inside of the aDSP, where TCM is. This and what follows qnnrt's own lpai
            backend understands; others have no such options.
        start_alignment, size_alignment: what ``alignment`` is to answer.
        core_count, mac_count: how many eNPU cores there are, with how many units each.

    Raises:
        ValueError: no such version or target.
    """
    options: list[tuple[int, Any]] = []
    if hardware_version is not None or target is not None:
        version = HardwareVersion.DEFAULT if hardware_version is None else hardware_version
        config = _core.LpaiConfig.hardware(
            _number("target", Target.ADSP if target is None else target, Target),
            _number("hardware_version", version, HardwareVersion),
        )
        options.append((abi.QNN_BACKEND_CONFIG_OPTION_CUSTOM, config))
    platform: dict[str, str | int | None] = {
        "direct_mode": "adsp" if direct_mode else None,
        "start_alignment": start_alignment,
        "size_alignment": size_alignment,
        "enpu_cores": core_count,
        "enpu_macs": mac_count,
    }
    option = abi.QNN_BACKEND_CONFIG_OPTION_PLATFORM
    options += [(option, f"{k}:{v}") for k, v in platform.items() if v is not None]
    return options


def requires_persistent_binary(backend: Backend) -> bool:
    """Whether contexts out of binaries need ``persistent_binary=True``: the binary stays where it
    is as long as the context."""
    return _core.lpai_requires_persistent_binary(backend.library, backend.handle)


def cores(backend: Backend) -> tuple[CoreInfo, ...]:
    """The eNPU cores.

    Raises:
        BackendError: the backend does not say.
    """
    count = _core.lpai_core_count(backend.library, backend.handle)
    return tuple(
        CoreInfo(i, *_core.lpai_core_info(backend.library, backend.handle, i)) for i in range(count)
    )


def model_memory(mem_type: str | int) -> _core.LpaiConfig:
    """The kind of memory that a context's model binary lies in, for ``custom=[...]`` of
    ``Backend.create_context``, ``Context.from_binary`` and ``Context.set_config``."""
    return _core.LpaiConfig.model_memory(_number("mem_type", mem_type, MemType))


def island(enabled: bool = True) -> _core.LpaiConfig:
    """Whether a context is to run in the aDSP's island, likewise."""
    return _core.LpaiConfig.island(int(enabled))


def set_performance(
    graph: Graph,
    *,
    fps: int = 1,
    ftrt_ratio: int = 10,
    client_type: str | int = ClientType.REAL_TIME,
) -> None:
    """How often a graph is executed, and how fast.

    Args:
        fps: executions for each second.
        ftrt_ratio: how much faster than real time, in tenths.
        client_type: "real_time" or "non_real_time".

    Raises:
        ValueError: no such client type, or no number.
        GraphError: the backend does not take the numbers.
    """
    client = _number("client_type", client_type, ClientType)
    _set(
        graph,
        _core.LpaiConfig.performance(uint32("fps", fps), uint32("ftrt_ratio", ftrt_ratio), client),
    )


def set_affinity(
    graph: Graph, affinity: str | int = Affinity.SOFT, *, cores: int | Sequence[int] = ()
) -> None:
    """Which core a graph runs on.

    Args:
        affinity: "soft" or "hard".
        cores: indices, or a bit mask; none of them is any core. More than one is reserved.

    Raises:
        ValueError: no such affinity, or no index from 0 to 31.
        GraphError: there is no such core.
    """
    if isinstance(cores, int):
        mask = uint32("cores", cores)
    else:
        mask = 0
        for index in cores:
            if uint32("cores", index) > 31:
                raise ValueError(f"cores are numbered from 0 to 31, not {index}")
            mask |= 1 << index
    _set(graph, _core.LpaiConfig.affinity(_number("affinity", affinity, Affinity), mask))


def set_prepare(
    graph: Graph, *, per_layer: bool = False, core_selection: str | None = None
) -> None:
    """Options of preparing a graph; before ``pool_sizes`` and ``finalize``.

    Raises:
        GraphError: it is prepared already.
    """
    _set(graph, _core.LpaiConfig.prepare(per_layer, core_selection))


def _set(graph: Graph, config: _core.LpaiConfig) -> None:
    graph.set_config(custom=[config])


def describe(what: Backend | Graph) -> dict[str, Any] | None:
    """The settings of a backend or a graph: hardware, performance, pools; None of any library but
    qnnrt's own lpai backend."""
    library = what._library if isinstance(what, Graph) else what.library
    text = _core.lpai_describe(library, what.handle)
    return None if text is None else json.loads(text)
