"""Backends: opened by name or path, they make contexts, profiles, signals and votes."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._native import _core
from ..abi import constants as abi
from ..errors import BackendNotFoundError
from . import htp
from .backend_base import CAPABILITIES, BackendBase, BackendVersion
from .context import Context
from .options import Custom, context_options
from .owner import config
from .profile import Profile, Signal

if TYPE_CHECKING:
    from ..gpu.options import Options as GpuOptions

__all__ = ["CAPABILITIES", "Backend", "BackendVersion"]

_FOLDER: Final = str(Path(__file__).parents[1] / "lib")
#: Backends that have a name -> the library of this package that they would be in.
LIBRARIES: Final = {
    "cpu": "libQnnCpu.so",
    "htp": "libQnnHtp.so",
    "lpai": "libQnnLpai.so",
    "gpu": "libQnnGpu.so",
}


def library_path(name: str | os.PathLike[str]) -> str:
    """The file behind a backend name, or the path itself.

    Raises:
        BackendNotFoundError: no such backend here.
    """
    text = os.fspath(name)
    if os.sep in text or ".so" in text:
        return text
    if text not in LIBRARIES:
        raise BackendNotFoundError(
            f"unknown backend {text!r}: use {', '.join(map(repr, LIBRARIES))} or the path of a QNN "
            "backend library"
        )
    path = os.path.join(_FOLDER, LIBRARIES[text])
    if not os.path.exists(path):
        raise BackendNotFoundError(
            f"backend {text!r} is not part of this version of qnnrt: give the path of a vendor "
            "library instead, or use 'cpu', 'htp' or 'lpai'"
        )
    return path


def open_library(
    name: str | os.PathLike[str], gpu: GpuOptions | Mapping[str, Any] | None = None
) -> _core.Library:
    """The library behind a backend name or path; of "gpu" a new one, for the device that is meant.

    Raises:
        BackendNotFoundError: no such library, or none that speaks this interface; no OpenCL device.
        ValueError: options of the gpu backend for another one.
    """
    if os.fspath(name) == "gpu":
        from ..gpu.device import pyopencl

        pyopencl()  # says what to install
        from ..gpu.library import Library
        from ..gpu.options import Options

        return Library(library_path("cpu"), Options.of(gpu))
    library = _core.Library.open(library_path(name))
    if gpu is None:
        return library
    from ..gpu.options import Options

    if library.backend_id != abi.QNN_BACKEND_ID_GPU:
        raise ValueError(f"option 'gpu' is for the backend 'gpu', which {os.fspath(name)} is not")
    if own := Options.of(gpu).own_objects:
        raise ValueError(
            f"{library.path} is not qnnrt's own: it has its own OpenCL objects and takes no gpu "
            f"option {own[0]!r}"
        )
    return library


_shared: weakref.WeakValueDictionary[tuple[str, int], Backend] = weakref.WeakValueDictionary()


class Backend(BackendBase):
    """A backend of a QNN library, with its log and device. Made by ``Backend.open``."""

    _vote: htp.PerfVote | None = None
    _gpu: GpuOptions | None = None  # what sessions use unless they have options of their own

    @classmethod
    def open(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        log_level: str | int | None = None,
        options: Sequence[tuple[int, Any]] = (),
        device_options: Sequence[tuple[int, Any]] = (),
        soc_model: int | None = None,
        htp_arch: int | None = None,
        gpu: GpuOptions | Mapping[str, Any] | None = None,
    ) -> Backend:
        """Load a backend library and create its backend and device.

        Args:
            name_or_path: "cpu", "htp", "lpai", "gpu", or the path of a QNN backend library.
            log_level: "error", "warning", "info" or "debug", or a number of ``logging``; the level
                of the logger ``qnnrt`` unless given. Lines of the backend go to that logger.
            options: QnnBackend_Config_t entries, as (option, value); see ``_core.Config``.
            device_options: QnnDevice_Config_t entries, likewise.
            soc_model: what an htp device is to stand for: QNN_SOC_MODEL_*, for example 69.
            htp_arch: the least architecture of an htp device, for example 79.
            gpu: ``qnnrt.gpu.Options`` of a GPU backend, or a dict of them. Those of contexts and
                graphs are the sessions' on it, unless they have others of their own.

        Raises:
            BackendNotFoundError: no such library, or none that speaks this interface.
            BackendError: the backend could not start.
        """
        library = open_library(name_or_path, gpu)
        gpu_options: GpuOptions | None = None
        if gpu is not None:
            from ..gpu.options import Options

            gpu_options = Options.of(gpu)
            options = [*options, *gpu_options.for_backend()]
        device_options = [
            *device_options,
            *htp.device_configs(library.core_version, soc_model=soc_model, arch=htp_arch),
        ]
        opened = cls(library, log_level=log_level, options=options, device_options=device_options)
        opened._gpu = gpu_options
        return opened

    @classmethod
    def shared(cls, name_or_path: str | os.PathLike[str]) -> Backend:
        """The backend that sessions of this process share; open as long as anyone uses it."""
        gpu = os.fspath(name_or_path) == "gpu"  # which no file stands for
        key = ("gpu" if gpu else library_path(name_or_path), _core.fork_generation())
        backend = _shared.get(key)
        if backend is None or backend.closed:
            backend = _shared[key] = cls.open(key[0])
        return backend

    def platform_info(self) -> tuple[htp.DeviceInfo, ...]:
        """The platform's devices; none where the backend has no such thing."""
        return htp.devices(self.library, self._log_handle)

    def device_info(self) -> tuple[htp.DeviceInfo, ...]:
        """What this backend's own device says that it is, after its configs."""
        return htp.devices(self.library, device=self._device_handle) if self._device else ()

    @property
    def perf_profile(self) -> str | None:
        """The profile that ``set_perf_profile`` asked for last."""
        return self._vote.profile if self._vote is not None and not self._vote.closed else None

    def set_perf_profile(
        self,
        profile: str,
        *,
        rpc_control_latency: int | None = None,
        rpc_polling_time: int | None = None,
    ) -> None:
        """Vote for power and performance of the accelerator; in force until the backend closes.

        Args:
            profile: "burst", "sustained_high_performance", "high_performance", "balanced",
                "low_balanced", "high_power_saver", "power_saver", "low_power_saver",
                "extreme_power_saver", or "default" and "system_settings" to take the vote back.
            rpc_control_latency: in microseconds.
            rpc_polling_time: in microseconds; the profile's own unless given.

        Raises:
            ValueError: no such profile.
            QnnError: 1000, the backend takes no votes.
        """
        vote = htp.PerfVote(self, self.library)
        try:
            vote.set(
                profile, rpc_control_latency=rpc_control_latency, rpc_polling_time=rpc_polling_time
            )
        except BaseException:
            vote.close()
            raise
        if self._vote is not None:
            self._vote.close()  # after the new one: in between, the higher of the two holds
        self._vote = vote

    def describe(self) -> dict[str, Any] | None:
        """What qnnrt's own htp backend keeps of devices and votes, by name: ``devices``,
        ``power_configs``, ``memory_configs``, ``power_counts``. None of any other library."""
        return htp.describe(self.library)

    def create_profile(self, level: str | int = "basic") -> Profile:
        """A profile handle of level "basic" or "detailed"."""
        return Profile(self, level)

    def create_signal(self, *, abort: bool = False, timeout_us: int | None = None) -> Signal:
        """A signal handle."""
        return Signal(self, abort=abort, timeout_us=timeout_us)

    def create_context(
        self,
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
        custom: Sequence[Custom] = (),
    ) -> Context:
        """A context: graphs and registered memory live in one.

        Args:
            priority: "low", "normal", "normal_high" or "high".
            oem_string: for the maker's use.
            async_queue_depth: executions that may wait; the default is 10, the most 300.
            enable_graphs: of a binary's graphs, only these.
            memory_limit_hint: in MiB.
            persistent_binary: the binary given stays valid as long as the context.
            binary_compatibility: "permissive" or "strict".
            defer_graph_init: graphs are made ready in ``Context.finalize``.
            graph_retention_order: which graphs to keep in memory first.
            error_reporting: (level, storage limit in KiB).
            custom: structs of the backend's own: bytes, or from ``qnnrt.lpai``.
        """
        options = context_options(
            priority=priority,
            oem_string=oem_string,
            async_queue_depth=async_queue_depth,
            enable_graphs=enable_graphs,
            memory_limit_hint=memory_limit_hint,
            persistent_binary=persistent_binary,
            binary_compatibility=binary_compatibility,
            defer_graph_init=defer_graph_init,
            graph_retention_order=graph_retention_order,
            error_reporting=error_reporting,
            custom=custom,
        )
        free, create = self.library.context_free, self.library.context_create
        arguments = (self.handle, self._device_handle, config(options))
        # Its backend has to know it before anybody closes that.
        made: Context = _core.whole(lambda: Context(self, _core.Held(free, create, *arguments)))
        return made
