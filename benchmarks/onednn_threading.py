"""Which threads the kernel library should have: OpenMP's waiting policies and TBB, idle and loaded.

A 3x3 convolution (64 channels, 56x56, float32, relu) and a primitive that does next to nothing (a
relu of 256 values) on every core that the process may use: alone, and with one other process that
keeps one core busy. The small one also after 15 us of other work on the calling thread, as between
two nodes of a graph, and after a sleep of 1 ms. Each variant runs in its own process, because
OpenMP reads its settings when it is loaded; the variants are interleaved, because a machine drifts.
Talks to oneDNN's C API directly, so that nothing of qnnrt is measured.

    python benchmarks/onednn_threading.py [--smoke] [--rounds N] [--tbb DIR] [--json FILE]

--tbb DIR: the folder of another libdnnl.so.3, from the wheel onednn-cpu-tbb.
Times are microseconds: the mean of all calls and the 99th percentile, each the median over the
rounds. The mean, because a thread that waits for a core shows in few calls but costs many times
their length. The ratio is that of the means to the variant "gomp" in the same round.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

ENGINE_CPU = 1
F32 = 3
ANY = 1
FORWARD_INFERENCE = 96
CONVOLUTION_DIRECT = 1
ELTWISE_RELU = 0x20
ARG_SRC, ARG_WEIGHTS, ARG_BIAS, ARG_DST = 1, 33, 41, 17
QUERY_EXEC_ARG = 255
# A sample counts as undisturbed when other processes used less than this many cores.
QUIET, TRIES = 0.1, 6
ALLOCATE = ctypes.c_void_p(-1)

VARIANTS: dict[str, dict[str, str]] = {
    "gomp": {},
    "gomp passive": {"OMP_WAIT_POLICY": "passive"},
    "gomp spin 300": {"GOMP_SPINCOUNT": "300"},
    "gomp spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "gomp spin 3000": {"GOMP_SPINCOUNT": "3000"},
    "gomp spin 10000": {"GOMP_SPINCOUNT": "10000"},
    "gomp spin 100000": {"GOMP_SPINCOUNT": "100000"},
    "tbb": {},
}
MEASURES = (
    "conv idle",
    "conv loaded",
    "dispatch idle",
    "dispatch loaded",
    "dispatch, gap 15 us",
    "dispatch, pause 1 ms",
)


class ExecArg(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


class OneDnn:
    """As much of oneDNN's C API as two primitives need."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        self.lib.dnnl_primitive_execute.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
        ]
        self.engine = self.make("engine_create", ENGINE_CPU, ctypes.c_size_t(0))
        self.stream = self.make("stream_create", self.engine, 1)

    def make(self, function: str, *args: object) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        status = getattr(self.lib, f"dnnl_{function}")(ctypes.byref(handle), *args)
        if status != 0:
            raise RuntimeError(f"dnnl_{function} returned {status}")
        return handle

    def dims(self, *values: int) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * 12)(*values)

    def dense(self, shape: tuple[int, ...], order: tuple[int, ...]) -> ctypes.c_void_p:
        """A descriptor with the dimensions laid out from outermost to innermost as `order` says."""
        strides, stride = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis], stride = stride, stride * shape[axis]
        return self.make(
            "memory_desc_create_with_strides",
            len(shape),
            self.dims(*shape),
            F32,
            self.dims(*strides),
        )

    def primitive(self, desc: ctypes.c_void_p, *args: int) -> Callable[[], None]:
        """A call that runs the primitive on zeroed tensors of its own."""
        primitive = self.make("primitive_create", desc)
        bound = (ExecArg * len(args))()
        for slot, arg in zip(bound, args, strict=True):
            layout = ctypes.c_void_p(
                self.lib.dnnl_primitive_desc_query_md(desc, QUERY_EXEC_ARG, arg)
            )
            memory = self.make("memory_create", layout, self.engine, ALLOCATE)
            data = ctypes.c_void_p()
            self.lib.dnnl_memory_get_data_handle(memory, ctypes.byref(data))
            self.lib.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
            assert data.value is not None
            ctypes.memset(data.value, 0, self.lib.dnnl_memory_desc_get_size(layout))
            slot.arg, slot.memory = arg, memory
        execute, stream, count = self.lib.dnnl_primitive_execute, self.stream, len(args)
        return lambda: execute(primitive, stream, count, bound)

    def convolution(self) -> Callable[[], None]:
        image = self.dense((1, 64, 56, 56), (0, 2, 3, 1))
        weights = self.make("memory_desc_create_with_tag", 4, self.dims(64, 64, 3, 3), F32, ANY)
        bias = self.dense((64,), (0,))
        post_ops = self.make("post_ops_create")
        zero = ctypes.c_float(0)
        self.lib.dnnl_post_ops_append_eltwise(post_ops, ELTWISE_RELU, zero, zero)
        attr = self.make("primitive_attr_create")
        self.lib.dnnl_primitive_attr_set_post_ops(attr, post_ops)
        one = self.dims(1, 1)
        desc = self.make(
            "convolution_forward_primitive_desc_create",
            self.engine,
            FORWARD_INFERENCE,
            CONVOLUTION_DIRECT,
            image,
            weights,
            bias,
            image,
            one,
            self.dims(0, 0),
            one,
            one,
            attr,
        )
        return self.primitive(desc, ARG_SRC, ARG_WEIGHTS, ARG_BIAS, ARG_DST)

    def nothing(self) -> Callable[[], None]:
        row = self.dense((1, 256), (0, 1))
        zero = ctypes.c_float(0)
        desc = self.make(
            "eltwise_forward_primitive_desc_create",
            self.engine,
            FORWARD_INFERENCE,
            ELTWISE_RELU,
            row,
            row,
            zero,
            zero,
            None,
        )
        return self.primitive(desc, ARG_SRC, ARG_DST)


def busy_seconds(pids: tuple[int, ...]) -> float:
    """Seconds that the processors have spent on everything but this process and `pids`."""
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    ours = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ours += (int(fields[11]) + int(fields[12])) / tick
    return (user + nice + system + irq + softirq + steal) / tick - ours


def time_calls(call: Callable[[], None], seconds: float, gap: float, asleep: bool) -> list[float]:
    for _ in range(10):
        call()
    times = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        call()
        done = time.perf_counter()
        times.append(done - start)
        if asleep:
            time.sleep(gap)
        elif gap:
            while time.perf_counter() < done + gap:
                pass
    return times


def sample(
    call: Callable[[], None],
    seconds: float,
    *,
    gap: float = 0,
    asleep: bool = False,
    beside: tuple[int, ...] = (),
) -> tuple[float, float, float]:
    """(mean, 99th percentile) in microseconds, and the cores that strangers used meanwhile.

    Taken again while strangers used more than a tenth of a core, up to a limit; the sample with the
    least of that is kept. The duration of the calls plays no part in that.
    """
    best: tuple[float, list[float]] | None = None
    for _ in range(TRIES):
        before, start = busy_seconds(beside), time.perf_counter()
        times = time_calls(call, seconds, gap, asleep)
        strangers = (busy_seconds(beside) - before) / (time.perf_counter() - start)
        if best is None or strangers < best[0]:
            best = (strangers, times)
        if best[0] < QUIET:
            break
    assert best is not None
    strangers, times = best
    times.sort()
    return 1e6 * statistics.fmean(times), 1e6 * times[len(times) * 99 // 100], strangers


@contextmanager
def busy_process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        time.sleep(0.1)
        try:
            yield other.pid
        finally:
            other.kill()


def measure(path: str) -> dict[str, tuple[float, float, float]]:
    onednn = OneDnn(path)
    conv, nothing = onednn.convolution(), onednn.nothing()
    result = {
        "conv idle": sample(conv, 0.3),
        "dispatch idle": sample(nothing, 0.2),
        "dispatch, gap 15 us": sample(nothing, 0.2, gap=15e-6),
        "dispatch, pause 1 ms": sample(nothing, 0.2, gap=1e-3, asleep=True),
    }
    with busy_process() as other:
        result["conv loaded"] = sample(conv, 0.7, beside=(other,))
        result["dispatch loaded"] = sample(nothing, 0.3, beside=(other,))
    return result


def library_of(distribution: str) -> str:
    """libdnnl.so.3 of an installed wheel."""
    files = metadata.distribution(distribution).files or []
    return str(next(f for f in files if f.name == "libdnnl.so.3").locate())


def environment(settings: dict[str, str], library: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    env |= settings
    # what the TBB build needs lies beside it
    env["LD_LIBRARY_PATH"] = f"{Path(library).parent}:{env.get('LD_LIBRARY_PATH', '')}"
    return env


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="one round of two: shows that it runs")
    parser.add_argument("--tbb", type=Path, help="folder of the libdnnl.so.3 that uses TBB")
    parser.add_argument("--json", type=Path, help="write the results there too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return

    variants = {
        name: (settings, library_of("onednn-cpu-gomp"))
        for name, settings in VARIANTS.items()
        if name != "tbb" and not (options.smoke and name not in ("gomp", "gomp passive"))
    }
    if options.smoke:
        options.rounds = 1
    if options.tbb:
        variants["tbb"] = (VARIANTS["tbb"], str(options.tbb / "libdnnl.so.3"))
    rounds: dict[str, list[dict[str, tuple[float, float, float]]]] = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, (settings, library) in variants.items():
            output = subprocess.run(
                [sys.executable, __file__, "--measure", library],
                env=environment(settings, library),
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            rounds[name].append(json.loads(output))

    results = {
        name: {
            m: {
                "mean_us": round(statistics.median(r[m][0] for r in runs), 2),
                "p99_us": round(statistics.median(r[m][1] for r in runs), 2),
                "worst_mean_us": round(max(r[m][0] for r in runs), 2),
                "worst_strangers": round(max(r[m][2] for r in runs), 2),
                "ratio": round(
                    statistics.median(
                        r[m][0] / base[m][0] for r, base in zip(runs, rounds["gomp"], strict=True)
                    ),
                    3,
                ),
            }
            for m in MEASURES
        }
        for name, runs in rounds.items()
    }
    report = {
        "benchmark": "onednn_threading",
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "rounds": options.rounds,
        "results": results,
    }
    print(f"{'mean (99 %) [ratio]':18}" + "".join(f"{m:>26}" for m in MEASURES))
    for name, row in results.items():
        cells = (f"{c['mean_us']:.1f} ({c['p99_us']:.0f}) [{c['ratio']:.2f}]" for c in row.values())
        print(f"{name:18}" + "".join(f"{cell:>26}" for cell in cells))
    disturbed = max(c["worst_strangers"] for row in results.values() for c in row.values())
    print(f"other processes used at most {disturbed} cores during a sample that was kept")
    print(json.dumps(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
