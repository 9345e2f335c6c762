"""The htp backend's own: performance profiles, device configs, SoC and architecture.

They work with qnnrt's htp backend, which checks, keeps and shows the votes but changes no clock,
and with a vendor's, which acts on them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._native import _core
from ..abi import constants as abi
from ..abi.structs import QnnHtpDevice_CustomConfig_t, QnnHtpPerfInfrastructure_DcvsV3_t
from ..errors import QnnError
from ..support import choice
from .owner import Owner

if TYPE_CHECKING:
    from .backend_base import BackendBase

__all__ = ["PERF_PROFILES", "DeviceInfo", "PerfVote", "device_configs"]

_DCVS_V3: Final = abi.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3
_LATENCY: Final = abi.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY
_POLLING: Final = abi.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME
_POWER_SAVER: Final = abi.QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE
_PERFORMANCE: Final = abi.QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE


class _Vote(NamedTuple):
    """What a profile asks for: a voltage corner (DCVS_VOLTAGE_*), the sleep latency in
    microseconds, whether the clock may go up and down by itself, and the RPC polling time."""

    corner: int
    sleep_latency: int
    dcvs: bool
    mode: int = _PERFORMANCE
    polling: int | None = None


#: Profiles of ``Backend.set_perf_profile``; None asks for nothing. The votes are those that ONNX
#: Runtime's QNN provider makes for its modes of the same names.
_PROFILES: Final[dict[str, _Vote | None]] = {
    "default": None,
    "system_settings": None,
    "burst": _Vote(abi.DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER, 40, False, polling=9999),
    "sustained_high_performance": _Vote(abi.DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER, 40, False),
    "high_performance": _Vote(abi.DCVS_VOLTAGE_VCORNER_TURBO, 100, False),
    "balanced": _Vote(abi.DCVS_VOLTAGE_VCORNER_NOM_PLUS, 1000, True),
    "low_balanced": _Vote(abi.DCVS_VOLTAGE_VCORNER_NOM, 1000, True),
    "high_power_saver": _Vote(abi.DCVS_VOLTAGE_VCORNER_SVS_PLUS, 1000, True),
    "power_saver": _Vote(abi.DCVS_VOLTAGE_VCORNER_SVS, 1000, True),
    "low_power_saver": _Vote(abi.DCVS_VOLTAGE_VCORNER_SVS2, 1000, True),
    "extreme_power_saver": _Vote(abi.DCVS_VOLTAGE_CORNER_DISABLE, 1000, True, mode=_POWER_SAVER),
}

PERF_PROFILES: Final = tuple(_PROFILES)


class DeviceInfo(NamedTuple):
    """A device of a platform: the SoC's model number, the accelerator's architecture (for example
    68) and its memory (VTCM) in MiB; None where the backend does not say."""

    device_id: int
    cores: tuple[int, ...]
    soc_model: int | None
    arch: int | None
    vtcm_mb: int | None

    @classmethod
    def of(cls, found: dict[str, Any]) -> DeviceInfo:
        return cls(
            found["device_id"],
            tuple(core["core_id"] for core in found["cores"]),
            found.get("soc_model"),
            found.get("arch"),
            found.get("vtcm_mb"),
        )


class PerfVote(Owner):
    """A vote for power and performance, in force until it is closed."""

    _rank = 6

    def __init__(self, backend: BackendBase, library: _core.Library) -> None:
        self.library = library
        self.profile = "default"
        destroy = partial(_core.power_config_destroy, library)
        # The backend keeps its vote, so this does not keep the backend: as with its device.
        held = backend._go_first
        held[:] = [h for h in held if h.alive]
        held.append(_core.Held(destroy, _core.power_config_create, library))
        self._own("a performance vote", held[-1])
        backend._adopt(self)

    def set(
        self,
        profile: str,
        *,
        rpc_control_latency: int | None = None,
        rpc_polling_time: int | None = None,
    ) -> None:
        """Vote for a profile; see ``Backend.set_perf_profile``."""
        configs = power_configs(profile, self.handle, rpc_control_latency, rpc_polling_time)
        if configs:
            _core.power_config_set(self.library, self.handle, configs)
        self.profile = profile


def power_configs(
    profile: str,
    power_id: int,
    rpc_control_latency: int | None = None,
    rpc_polling_time: int | None = None,
) -> list[tuple[int, tuple[int, ...]]]:
    """The entries of a profile for ``_core.power_config_set``.

    Raises:
        ValueError: no such profile.
    """
    choice("perf profile", profile, dict.fromkeys(_PROFILES, 0))
    vote = _PROFILES[profile]
    configs: list[tuple[int, tuple[int, ...]]] = []
    if vote is not None:
        dcvs = QnnHtpPerfInfrastructure_DcvsV3_t.pack(
            contextId=power_id,
            setDcvsEnable=1,
            dcvsEnable=vote.dcvs,
            powerMode=vote.mode,
            setSleepLatency=1,
            sleepLatency=vote.sleep_latency,
            setBusParams=1,
            busVoltageCornerMin=vote.corner,
            busVoltageCornerTarget=vote.corner,
            busVoltageCornerMax=vote.corner,
            setCoreParams=1,
            coreVoltageCornerMin=vote.corner,
            coreVoltageCornerTarget=vote.corner,
            coreVoltageCornerMax=vote.corner,
        )
        configs.append((_DCVS_V3, tuple(memoryview(dcvs).cast("I"))))
        if rpc_polling_time is None:
            rpc_polling_time = vote.polling
    if rpc_control_latency is not None:
        configs.append((_LATENCY, (rpc_control_latency,)))
    if rpc_polling_time is not None:
        configs.append((_POLLING, (rpc_polling_time,)))
    return configs


def device_configs(
    core_version: tuple[int, int, int],
    *,
    soc_model: int | None = None,
    arch: int | None = None,
    signed_pd: bool | None = None,
) -> list[tuple[int, Any]]:
    """QnnDevice_Config_t entries with QnnHtpDevice_CustomConfig_t structs for ``Backend.open``.

    Args:
        core_version: of the library that they are for. The struct's union moved from byte 4 (2.32)
            to byte 8 (seen with 2.40).
    """
    pack = QnnHtpDevice_CustomConfig_t.pack
    found = []
    if soc_model is not None:
        found.append(pack(option=abi.QNN_HTP_DEVICE_CONFIG_OPTION_SOC, socModel=soc_model))
    if arch is not None:
        found.append(pack(option=abi.QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, arch=(0, arch)))
    if signed_pd is not None:
        option = abi.QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD
        found.append(pack(option=option, useSignedProcessDomain=(0, signed_pd)))
    if core_version >= (2, 40, 0):
        found = [blob[:4] + bytes(4) + blob[4:] for blob in found]
    return [(abi.QNN_DEVICE_CONFIG_OPTION_CUSTOM, blob.ljust(24, b"\0")) for blob in found]


def describe(library: _core.Library, device: int = 0) -> dict[str, Any] | None:
    """What qnnrt's own htp backend keeps of devices and votes; None of any other library."""
    text = _core.htp_describe(library, device)
    return None if text is None else json.loads(text)


def devices(library: _core.Library, log: int = 0, device: int = 0) -> tuple[DeviceInfo, ...]:
    """The platform's devices, or those of one device handle; none where there is no such thing."""
    try:
        found = _core.device_info(library, device) if device else _core.platform_info(library, log)
    except QnnError:
        return ()
    return tuple(map(DeviceInfo.of, found))
