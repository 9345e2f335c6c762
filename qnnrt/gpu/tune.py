"""Which variant of a kernel is the fastest on a device: measured once, kept on disk.

Families list their variants by what they expect of the device. Of these the likeliest are measured,
a few for each shape, as long as a graph's time for that lasts.
"""

from __future__ import annotations

import copy
import functools
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..support import log
from .device import Device, pyopencl
from .files import keep
from .ir import Launch, Value

if TYPE_CHECKING:
    from .programs import Programs
    from .target import Target

__all__ = ["CANDIDATES", "CLBLAST", "FILE", "SECONDS", "Bench", "Variants", "choose", "measure"]

#: Name -> what makes the launches; the first is taken where nothing is known.
Variants: TypeAlias = Mapping[str, Callable[[], list[Launch]]]
#: In the folder of ``Target.tuning_cache``: {device: {family: {shape: [name, microseconds]}}}.
FILE: Final = "tuning.json"
#: How long a graph's kernels are measured, building them included: no shape is begun later. Those
#: for which no time is left get the first of their variants, and are measured the next time.
SECONDS: Final = 5.0
#: Variants of a shape that are measured, besides a library's routine; of these at most so many that
#: differ in nothing but the parts of their sums.
CANDIDATES: Final = 4
_ALIKE: Final = 2
#: The variant that is not ours. It starts from Python and cuts a command list in two, so it has to
#: need at most this part of the fastest kernel's time.
CLBLAST: Final = "clblast"
_WORTH: Final = 0.9
_RUNS: Final = 5


def choose(target: Target, family: str, shape: str, variants: Variants) -> str:
    """The name of the variant to take for one shape of a family of kernels.

    The first, unless measurements of this device are on disk. Where there are none and the target
    asks for tuning, some variants are measured now, and what came out is kept.
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
    times = measure(target, _candidates(variants))
    if not times:
        return first
    best = _best(times)
    log.info("%s %s on %s: %s takes %.1f us", family, shape, device, best, times[best])
    if target.tuning_cache is not None:
        _keep(target.tuning_cache, (device, family, shape), [best, round(times[best], 2)])
    return best


def _candidates(variants: Variants) -> Variants:
    """Those that are measured: the likeliest, which differ in more than one thing."""
    found: dict[str, Callable[[], list[Launch]]] = {}
    alike: dict[str, int] = {}
    for name, make in variants.items():
        kind = "-".join(name.split("-")[:3])
        alike[kind] = alike.get(kind, 0) + 1
        if name == CLBLAST or (len(found) < CANDIDATES and alike[kind] <= _ALIKE):
            found[name] = make
    return found


def _best(times: Mapping[str, float]) -> str:
    ours = {name: t for name, t in times.items() if name != CLBLAST}
    best = min(ours, key=lambda name: ours[name], default=CLBLAST)
    if CLBLAST in times and times[CLBLAST] <= _WORTH * times[best]:
        return CLBLAST
    return best


class Bench:
    """Where a graph's variants are measured: in the context that it will run in, so that what is
    built for that is there already.

    Args:
        context: the ``pyopencl.Context``.
        device: the device in it.
        programs: those of the context.
        folder: where built programs are kept; None keeps none.

    Attributes:
        left: seconds that may be spent yet.
    """

    def __init__(
        self, context: Any, device: Device, programs: Programs, folder: Path | None = None
    ) -> None:
        cl = pyopencl()
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.left = SECONDS
        self._context, self._device = context, device
        self._programs, self._folder = programs, folder
        self._queue = cl.CommandQueue(context, device.raw, properties=profiling)

    @classmethod
    def of(cls, device: Device) -> Bench:
        """In a context of its own."""
        from .programs import Programs  # which need no tuning

        context = pyopencl().Context([device.raw])
        return cls(context, device, Programs(context, device))

    def measure(self, variants: Variants) -> dict[str, float]:
        """Microseconds of each variant; none of them once the time is over."""
        if self.left <= 0:
            return {}
        began = time.monotonic()
        times = {}
        for name, make in variants.items():
            try:
                times[name] = self._time(make())
            except (pyopencl().Error, RuntimeError, ValueError) as e:
                # Its text: a log that keeps the exception would keep the graph and its memory.
                log.warning("%s is of no use on %s: %s", name, self._device, str(e))
        self.left -= time.monotonic() - began
        if self.left <= 0:
            log.info("kernels were measured for %g s: the others are as expected", SECONDS)
        return times

    def _time(self, launches: list[Launch]) -> float:
        cl, queue = pyopencl(), self._queue
        buffers: dict[Value, Any] = {}
        starts: list[Callable[[], Any]] = []
        for launch in launches:
            for arg in launch.args:
                if isinstance(arg, Value) and arg.root not in buffers:
                    buffers[arg.root] = _filled(self._context, queue, arg.root)
            if launch.call is not None:
                values = [arg for arg in launch.args if isinstance(arg, Value)]
                numbers = [buffers[value.root].int_ptr for value in values]
                starts.append(functools.partial(launch.call, queue.int_ptr, numbers))
                continue
            kernel = self._programs.of(launch, self._folder).kernel(launch)
            for i, arg in enumerate(launch.args):
                if isinstance(arg, Value):
                    kernel.set_arg(i, buffers[arg.root])
                else:
                    kernel.set_arg(i, np.int32(arg) if isinstance(arg, int) else np.float32(arg))
            sizes = (launch.total, launch.group)
            starts.append(functools.partial(cl.enqueue_nd_range_kernel, queue, kernel, *sizes))
        queue.finish()

        def run() -> float:
            began = time.perf_counter()
            events = [start() for start in starts]
            queue.finish()
            if any(launch.call for launch in launches):
                return (time.perf_counter() - began) * 1e6
            # Each by itself: between them a queue that takes the time pauses longer than others.
            return sum(float(e.profile.end - e.profile.start) for e in events) / 1e3

        run()
        return statistics.median(run() for _ in range(_RUNS))


def measure(target: Target, variants: Variants) -> dict[str, float]:
    """Microseconds of each variant on the device: the median of five runs after a first one.

    Those with a routine of a library have no timestamps, and are measured from outside, until the
    device has finished. Variants that the device or the library refuses are omitted.
    """
    return (target.bench or Bench.of(target.device)).measure(variants)


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
        found = (folder / FILE).stat()
    except OSError:
        return {}
    return _parsed(folder / FILE, found.st_mtime_ns, found.st_size, found.st_ino)


@functools.lru_cache(maxsize=4)
def _parsed(path: Path, *_version: int) -> dict[str, Any]:
    """A graph asks for each of its nodes."""
    try:
        known = json.loads(path.read_bytes())
        if not all(
            isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
            for families in known.values()
            for shapes in families.values()
            for entry in shapes.values()
        ):
            raise ValueError("entries are not [name, microseconds]")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as e:
        log.warning("%s is of no use, so nothing in it counts: %s", path, e)
        return {}
    return dict(known)


def _keep(folder: Path, path: tuple[str, str, str], entry: list[Any]) -> None:
    """Add to the file, whole or not at all; a folder that cannot be written keeps nothing."""
    known = copy.deepcopy(_read(folder))
    device, family, shape = path
    known.setdefault(device, {}).setdefault(family, {})[shape] = entry
    keep(folder / FILE, json.dumps(known, indent=1, sort_keys=True).encode())
