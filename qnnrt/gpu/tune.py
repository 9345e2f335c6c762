"""Which variant of a kernel is the fastest on a device: measured once, kept on disk."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from .._owner import log
from .device import Device, pyopencl
from .ir import Launch, Value
from .target import Target

__all__ = ["FILE", "Variants", "choose", "measure"]

#: Name -> what makes the launches; the first is taken where nothing is known.
Variants: TypeAlias = Mapping[str, Callable[[], list[Launch]]]
#: In the folder of ``Target.tuning_cache``: {device: {family: {shape: [name, microseconds]}}}.
FILE: Final = "tuning.json"
_RUNS: Final = 5


def choose(target: Target, family: str, shape: str, variants: Variants) -> str:
    """The name of the variant to take for one shape of a family of kernels.

    The first, unless measurements of this device are on disk. Where there are none and the target
    asks for tuning, variants are measured now, and what came out is kept.
    """
    first = next(iter(variants))
    if target.portable or len(variants) == 1:
        return first
    device = _name(target.device)
    known = _read(target.tuning_cache).get(device, {}).get(family, {}).get(shape)
    if known is not None and known[0] in variants:
        return str(known[0])
    if not target.tuning:
        return first
    times = measure(target.device, variants)
    if not times:
        return first
    best = min(times, key=lambda name: times[name])
    log.info("%s %s on %s: %s takes %.1f us", family, shape, device, best, times[best])
    if target.tuning_cache is not None:
        _keep(target.tuning_cache, (device, family, shape), [best, round(times[best], 2)])
    return best


def measure(device: Device, variants: Variants) -> dict[str, float]:
    """Microseconds of each variant on the device: the median of five runs after a first one.

    Variants that the device refuses are left out.
    """
    cl = pyopencl()
    context = cl.Context([device.raw])
    profiling = cl.command_queue_properties.PROFILING_ENABLE
    queue = cl.CommandQueue(context, device.raw, properties=profiling)
    times = {}
    for name, make in variants.items():
        try:
            times[name] = _time(context, queue, device, make())
        except cl.Error as e:
            log.warning("%s is of no use on %s: %s", name, device, e)
    return times


def _time(context: Any, queue: Any, device: Device, launches: list[Launch]) -> float:
    from .programs import Programs  # which need no tuning

    cl = pyopencl()
    programs = Programs(context, device)
    buffers: dict[Value, Any] = {}
    kernels = []
    for launch in launches:
        kernel = programs.of(launch).kernel(launch)
        for i, arg in enumerate(launch.args):
            if isinstance(arg, Value):
                if arg.root not in buffers:
                    buffers[arg.root] = _filled(context, queue, arg.root)
                kernel.set_arg(i, buffers[arg.root])
            else:
                kernel.set_arg(i, np.int32(arg) if isinstance(arg, int) else np.float32(arg))
        kernels.append(kernel)

    def run() -> float:
        events = [
            cl.enqueue_nd_range_kernel(queue, kernel, launch.total, launch.group)
            for kernel, launch in zip(kernels, launches, strict=True)
        ]
        queue.finish()
        return float(events[-1].profile.end - events[0].profile.start) / 1e3

    run()
    return statistics.median(run() for _ in range(_RUNS))


def _filled(context: Any, queue: Any, value: Value) -> Any:
    """Memory of a value's size, of numbers that are not all the same."""
    cl = pyopencl()
    nbytes = -(-max(value.nbytes, 1) // 256) * 256
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes)
    some = np.linspace(-1, 1, 32)
    pattern = some.astype(np.float16 if value.dtype.itemsize == 2 else np.float32)
    cl.enqueue_fill_buffer(queue, buffer, pattern, 0, nbytes)
    return buffer


def _name(device: Device) -> str:
    return f"{device}, {device.version}, driver {device.raw.driver_version}"


def _read(folder: Path | None) -> dict[str, Any]:
    """What is known; nothing where the file is missing or no such file."""
    if folder is None:
        return {}
    try:
        known = json.loads((folder / FILE).read_bytes())
        if not all(
            isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
            for families in known.values()
            for shapes in families.values()
            for entry in shapes.values()
        ):
            raise ValueError("entries are not [name, microseconds]")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as e:
        log.warning("%s is of no use, so nothing in it counts: %s", folder / FILE, e)
        return {}
    return dict(known)


def _keep(folder: Path, path: tuple[str, str, str], entry: list[Any]) -> None:
    """Add to the file, whole or not at all; a folder that cannot be written keeps nothing."""
    known = _read(folder)
    device, family, shape = path
    known.setdefault(device, {}).setdefault(family, {})[shape] = entry
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            try:
                json.dump(known, file, indent=1, sort_keys=True)
                file.flush()
                os.replace(file.name, folder / FILE)
            except BaseException:
                os.unlink(file.name)
                raise
