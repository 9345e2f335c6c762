"""The options of a session on the gpu backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..abi.structs import QnnGpuGraph_CustomConfig_t, Qnnrt_GraphConfig_t

__all__ = ["EACH", "PERF_HINTS", "PRECISIONS", "WAITS", "Options"]

#: As ``queue``: one for each context.
EACH: Final = "each"
#: How an execution waits for the device.
WAITS: Final = ("driver", "sleep")
#: In the order of QnnGpu_Precision_t, which does not have the last one.
PRECISIONS: Final = ("fp32", "fp16", "hybrid", "user", "tf32")
#: In the order of QnnGpuContext_PerfHint_t.
PERF_HINTS: Final = ("high", "normal", "low")


_TUNING_MODE: Final = abi.QNN_GPU_BACKEND_CONFIG_OPTION_ENABLE_TUNING_MODE
_CACHE_DIR: Final = abi.QNN_GPU_BACKEND_CONFIG_OPTION_PERFORMANCE_CACHE_DIR
_INVALIDATE_CACHE: Final = abi.QNN_GPU_BACKEND_CONFIG_OPTION_INVALIDATE_PERFORMANCE_CACHE
_WEIGHT_SHARING: Final = abi.QNN_GPU_BACKEND_CONFIG_OPTION_WEIGHT_SHARING_ENABLED
_NO_KERNEL_PROFILING: Final = abi.QNN_GPU_BACKEND_CONFIG_OPTION_DISABLE_KERNEL_PROFILING
_PERF_HINT: Final = abi.QNN_GPU_CONTEXT_CONFIG_OPTION_PERF_HINT
_KERNEL_REPO_DIR: Final = abi.QNN_GPU_CONTEXT_CONFIG_OPTION_KERNEL_REPO_DIR
_INVALIDATE_KERNEL_REPO: Final = abi.QNN_GPU_CONTEXT_CONFIG_OPTION_INVALIDATE_KERNEL_REPO


@dataclass(frozen=True)
class Options:
    """Options of GPU backends, for ``Session(options={"gpu": ...})`` and ``Backend.open``.

    All but the first four, and precision "tf32", are structs of QNN's as well, which go to another
    maker's backend too.

    Attributes:
        device: part of "platform: device" of the OpenCL device.
        context: the caller's own ``pyopencl.Context``, whose buffers can then be registered.
        queue: the caller's own ``pyopencl.CommandQueue``, which the kernels go into; "each": every
            context, and so every session, has a queue of its own in the backend's OpenCL context,
            so that the device may run kernels of several at a time.
        wait: "driver", as the driver waits, which may keep a core busy; "sleep": the thread sleeps
            and asks now and then, which ends up to an eighth of the execution's time later.
        precision: what float tensors inside of a graph are: "fp32"; "fp16", stored and computed in
            16 bits; "hybrid", stored in 16 bits and computed in 32; "user", as the tensors say;
            "tf32", as "fp32", but tensor cores, where the device has them, multiply matrices, for
            which they round what they multiply to tf32, with 10 bits of mantissa.
        tuning: measure variants of kernels when a graph is finalized, and keep the fastest.
        cache_dir: folder of what was measured and, unless ``kernel_repo_dir`` says another one, of
            built programs; qnnrt's own in the user's cache folder unless given.
        invalidate_cache: forget what was measured before.
        kernel_repo_dir: folder of built programs.
        invalidate_kernel_repo: build programs anew.
        weight_sharing: equal constants of the backend's graphs are one in the device's memory.
        kernel_profiling: profiles have an event for each node.
        perf_hint: "high", "normal" or "low": how urgent executions are, for devices that
            take hints.
        memory_optimizations: tensors inside of a graph share memory.
        node_optimizations: operations are fused.
        queue_recording: the command list may be recorded on devices that can do that.
    """

    device: str | None = None
    context: Any = None
    queue: Any = None
    wait: str | None = None
    precision: str = "user"
    tuning: bool = False
    cache_dir: str | os.PathLike[str] | None = None
    invalidate_cache: bool = False
    kernel_repo_dir: str | os.PathLike[str] | None = None
    invalidate_kernel_repo: bool = False
    weight_sharing: bool = True
    kernel_profiling: bool = True
    perf_hint: str = "normal"
    memory_optimizations: bool = True
    node_optimizations: bool = True
    queue_recording: bool = True

    def __post_init__(self) -> None:
        for name, choices in (("precision", PRECISIONS), ("perf_hint", PERF_HINTS)):
            if (choice := getattr(self, name)) not in choices:
                raise ValueError(f"gpu: {name} is one of {', '.join(choices)}, not {choice!r}")
        if self.wait is not None and self.wait not in WAITS:
            raise ValueError(f"gpu: wait is one of {', '.join(WAITS)}, not {self.wait!r}")
        for name, default in {f.name: f.default for f in fields(self)}.items():
            value = getattr(self, name)
            if isinstance(default, bool) and not isinstance(value, bool):
                raise ValueError(f"gpu: {name} is True or False, not {value!r}")
        if not isinstance(self.device, str | None):
            raise ValueError(f"gpu: device is a part of its name, not {self.device!r}")
        for name in ("cache_dir", "kernel_repo_dir"):
            path = getattr(self, name)
            if path is not None and (not isinstance(path, str | os.PathLike) or not str(path)):
                raise ValueError(f"gpu: {name} is the path of a folder, not {path!r}")

    @classmethod
    def of(cls, given: Options | Mapping[str, Any] | None) -> Options:
        """Options out of a mapping of them.

        Raises:
            ValueError: there is no such option, or not this value.
        """
        if isinstance(given, Options):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"gpu options are Options or a mapping, not a {type(given).__name__}")
        values = dict(given or {})
        if unknown := [name for name in values if name not in cls.__dataclass_fields__]:
            raise ValueError(
                f"unknown gpu option {unknown[0]!r}; there are "
                f"{', '.join(cls.__dataclass_fields__)}"
            )
        return cls(**values)

    def for_backend(self) -> list[tuple[int, _core.GpuConfig]]:
        """The options to open a backend with; none of them unless something was said."""
        said = (
            (self.tuning, _TUNING_MODE, 1),
            (self.cache_dir is not None, _CACHE_DIR, _path(self.cache_dir)),
            (self.invalidate_cache, _INVALIDATE_CACHE, 1),
            (not self.weight_sharing, _WEIGHT_SHARING, 0),
            (not self.kernel_profiling, _NO_KERNEL_PROFILING, 1),
        )
        custom = abi.QNN_BACKEND_CONFIG_OPTION_CUSTOM
        return [(custom, _core.GpuConfig(option, value)) for given, option, value in said if given]

    def for_context(self) -> list[_core.GpuConfig]:
        """Structs for ``custom`` of a context, likewise."""
        said = (
            (self.perf_hint != "normal", _PERF_HINT, PERF_HINTS.index(self.perf_hint)),
            (self.kernel_repo_dir is not None, _KERNEL_REPO_DIR, _path(self.kernel_repo_dir)),
            (self.invalidate_kernel_repo, _INVALIDATE_KERNEL_REPO, 1),
        )
        return [_core.GpuConfig(option, value) for given, option, value in said if given]

    def for_graph(self) -> list[bytes]:
        """Structs for ``custom`` of a graph, likewise."""
        on = (self.memory_optimizations, self.node_optimizations, self.queue_recording)
        if self.precision == "user" and all(on):
            return []
        tf32 = self.precision == "tf32"
        configs = [
            QnnGpuGraph_CustomConfig_t.pack(
                precision=PRECISIONS.index("fp32" if tf32 else self.precision),
                disableMemoryOptimizations=not self.memory_optimizations,
                disableNodeOptimizations=not self.node_optimizations,
                disableQueueRecording=not self.queue_recording,
            )
        ]
        if tf32:
            own = {"magic": abi.QNNRT_GRAPH_CONFIG_MAGIC, "option": abi.QNNRT_GRAPH_OPTION_TF32}
            configs.append(Qnnrt_GraphConfig_t.pack(**own, tf32=1))
        return configs

    @property
    def own_objects(self) -> tuple[str, ...]:
        """Options that were given and only qnnrt's own backend can have."""
        names = ("device", "context", "queue", "wait")
        return tuple(name for name in names if getattr(self, name) is not None)


def _path(path: str | os.PathLike[str] | None) -> str:
    return os.path.abspath(path) if path is not None else ""
