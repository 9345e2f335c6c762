"""The configs given to the gpu backend, by Python or by a C client's structs, and their effect."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .._native import _core
from ..support import log
from . import tune
from .device import Device, pyopencl
from .programs import cache_dir
from .target import Target

__all__ = ["Configs", "context_queue", "drop_measurements"]

# Of cl_khr_priority_hints and cl_khr_throttle_hints: the queue's property, its value for each hint.
_HINTS: Final = {
    "cl_khr_priority_hints": (0x1096, {"high": 1, "normal": 2, "low": 4}),
    "cl_khr_throttle_hints": (0x1097, {"high": 1, "normal": 2, "low": 4}),
}


@dataclass(frozen=True)
class Configs:
    """The configs of a backend, context or graph, with those of what it belongs to.

    Attributes:
        backend, context, graph: the options that were given, by QNN's name.
        portable, plan_milliseconds: of the graph.
    """

    backend: dict[str, Any]
    context: dict[str, Any]
    graph: dict[str, Any]
    portable: bool
    plan_milliseconds: int

    @classmethod
    def of(cls, library: _core.Library, handle: int) -> Configs:
        """Those of a live handle."""
        return cls.read(json.loads(_core.gpu_config(library, handle) or "{}"))

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Configs:
        """What ``qnnrt_gpu_config`` says of a handle."""
        return cls(
            found.get("backend", {}),
            found.get("context", {}),
            found.get("graph", {}),
            found.get("portable", False),
            found.get("plan_milliseconds", 0),
        )

    @property
    def tuning_cache(self) -> Path:
        """Folder of what was measured."""
        given = self.backend.get("PERFORMANCE_CACHE_DIR")
        return Path(given) if given else cache_dir()

    @property
    def program_cache(self) -> Path:
        """Folder of built programs."""
        given = self.context.get("KERNEL_REPO_DIR")
        return Path(given) if given else self.tuning_cache

    @property
    def kernel_profiling(self) -> bool:
        """Whether profiles have events of nodes."""
        return not self.backend.get("DISABLE_KERNEL_PROFILING", False)

    def target(self, device: Device) -> Target:
        """What the graph's kernels are made for."""
        precision = self.graph.get("precision", "user")
        tf32 = self.graph.get("TF32", False)
        if tf32 and not device.tensor_cores:
            log.info(
                "%s has no tensor cores of NVIDIA's: tf32 products are of 32-bit floats", device
            )
        return Target(
            device,
            compute_half=precision == "fp16" and device.half,
            precision=precision,
            tf32=tf32,
            tuning=self.backend.get("ENABLE_TUNING_MODE", False),
            tuning_cache=self.tuning_cache,
            program_cache=self.program_cache,
            rebuild=self.context.get("INVALIDATE_KERNEL_REPO", False),
            memory_optimizations=not self.graph.get("disableMemoryOptimizations", False),
            node_optimizations=not self.graph.get("disableNodeOptimizations", False),
            queue_recording=not self.graph.get("disableQueueRecording", False),
            weight_sharing=self.backend.get("WEIGHT_SHARING_ENABLED", True),
            portable=self.portable,
            plan_milliseconds=self.plan_milliseconds,
        )


def drop_measurements(folder: Path) -> None:
    """Remove what was measured."""
    with contextlib.suppress(OSError):  # what cannot be removed is measured again, or not used
        (folder / tune.FILE).unlink(missing_ok=True)


def context_queue(cl_context: Any, device: Device, hint: str) -> Any:
    """A queue with the priority and throttle of a performance hint; None where the device takes
    none, which the log says, or the hint is "normal"."""
    if hint == "normal":
        return None
    properties = list(_properties(device, hint))
    if not properties:
        log.info("%s takes no performance hints: %r changes nothing there", device, hint)
        return None
    return pyopencl().CommandQueue(cl_context, device.raw, properties=properties)


def _properties(device: Device, hint: str) -> Iterator[int]:
    extensions = device.raw.extensions.split()
    for extension, (name, values) in _HINTS.items():
        if extension in extensions:
            yield from (name, values[hint])
