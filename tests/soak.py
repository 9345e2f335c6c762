#!/usr/bin/env python3
"""Uses everything again and again, right and wrong, and fails when the process keeps growing.

    python tests/soak.py                          # five minutes
    python tests/soak.py --minutes 600 --seed 7   # a night
    python tests/soak.py --only async,errors      # some of its activities
    python tests/soak.py --json soak.json         # the rates and what the process held, too

Activities come in a random order of the seed's. After the warm-up, the first fifth of the time,
what the process holds is sampled: memory, open files, mappings, threads, the runtime's own counts.
What has grown from the first samples to the last by more than LIMITS allows fails the run, as does
every wrong result. Exit status 1 then.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing as mp
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent)]

import qnnrt  # noqa: E402
from qnnrt import _core, qnn  # noqa: E402
from qnnrt.tflite import Interpreter  # noqa: E402
from support import reference  # noqa: E402
from support.lpai_models import codes, on_cpu, quantized_conv  # noqa: E402
from support.tflite import models as tflite_models  # noqa: E402
from support.toy import conv_model, relu_model  # noqa: E402

#: What each may grow by, from the median of the first samples to that of the last. The allocator of
#: C programs keeps what was freed, in amounts that depend on the order of things: hence the MiB.
LIMITS = {"rss_mib": 24.0, "fds": 0, "maps": 24, "threads": 0, "live": 0, "gpu": 0}
#: Of the samples after the warm-up, the share at each end that is compared.
_ENDS = 0.25
_SAMPLES, _LEAST_SAMPLES = 200, 8


class WrongResult(AssertionError):
    pass


def same(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    if not np.allclose(found, wanted, rtol=1e-3, atol=1e-3):
        raise WrongResult(f"{what}: off by up to {np.abs(found - wanted).max()}")


@contextmanager
def refused(*classes: type[BaseException]) -> Iterator[None]:
    """What has to fail, and to say why."""
    try:
        yield
    except classes as error:
        if not str(error).strip():
            raise WrongResult(f"{type(error).__name__} without a message") from error
    else:
        raise WrongResult(f"no {' or '.join(c.__name__ for c in classes)} was raised")


def _echo(connection: Any) -> None:
    """The other process of the hand-offs: doubles what it gets."""
    while (buffer := connection.recv()) is not None:
        array = buffer.array(16, np.float32)
        array *= 2
        del array
        buffer.close()
        connection.send(True)


class Soak:
    """Each method without an underscore is an activity; it returns how often it did its thing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.backends = ["cpu", "htp", *(["gpu"] if _has_gpu() else [])]
        self.model = conv_model(seed % 100)
        self.x = self.numbers.standard_normal((1, 8, 8, 8)).astype(np.float32)
        self.y = reference.run(self.model, {"x": self.x})["y"]
        self.codes = codes((1, 8, 8, 4))
        self.lpai_model = quantized_conv()
        self.lpai_y = on_cpu(self.lpai_model, {"x": self.codes})
        self.sessions = {name: qnnrt.Session(self.model, name) for name in self.backends}
        self.lpai = qnnrt.Session(self.lpai_model, "lpai")
        self.backend = qnn.Backend.open("htp")
        self.context = self.backend.create_context()
        self.pool = qnnrt.alloc(1 << 16)
        self.graph = self._relu_graph()
        with qnnrt.Session(self.model, "htp") as session:
            self.binary = session.context.binary()
        self.tflite = tflite_models.toy()
        here, there = mp.get_context("spawn").Pipe()
        self.pipe = here
        self.child = mp.get_context("spawn").Process(target=_echo, args=(there,), daemon=True)
        self.child.start()
        there.close()
        self._warm()

    def _warm(self) -> None:
        """Pools of threads and drivers' files are there for good from their first use on."""
        for name, session in self.sessions.items():
            session.run({"x": self.x})
            session.run_async().result(120)
            with qnnrt.Session(self.model, name) as another:
                another.run({"x": self.x})

    def _close(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)
        self.child.join(300)
        self.pipe.close()
        for session in (*self.sessions.values(), self.lpai):
            session.close()
        self.graph = None
        self.context.close()
        self.pool.close()
        self.backend.close()

    def _relu_graph(self) -> Any:
        graph = self.context.create_graph("relu")
        x = graph.add_tensor("x", (16,), np.float32, type="app_write", mem_type="memhandle")
        y = graph.add_tensor("y", (16,), np.float32, type="app_read", mem_type="memhandle")
        graph.add_node("n", "Relu", [x], [y])
        graph.finalize()
        return graph

    # ---- activities

    def executions(self) -> int:
        name = self.random.choice([*self.backends, "lpai"])
        if name == "lpai":
            self.lpai.inputs["x"].array[...] = self.codes
            for _ in range(100):
                self.lpai.run()
            for output, wanted in self.lpai_y.items():
                same(self.lpai.outputs[output].array, wanted, "lpai")
            return 100
        session = self.sessions[name]
        count = 20 if name == "gpu" else 200
        scale = np.float32(self.random.choice([0.5, 1, 2]))
        session.inputs["x"].array[...] = self.x * scale
        for _ in range(count):
            session.run()
        wanted = self.y if scale == 1 else reference.run(self.model, {"x": self.x * scale})["y"]
        same(session.outputs["y"].array, wanted, name)
        return count

    def registrations(self) -> int:
        for _ in range(50):
            kind = self.random.choice(["shared_buffer", "ion", "dma_buf"])
            offset = 64 * self.random.randrange(1, 100) if kind == "shared_buffer" else 0
            x = self.context.register(self.pool, (16,), np.float32, offset=offset, kind=kind)
            with qnnrt.alloc(4096) as other:
                y = self.context.register(other, (16,), np.float32, kind="shared_buffer")
                x.array[...] = np.arange(-8, 8)
                self.graph.execute([x], [y])
                same(y.array, np.maximum(np.arange(-8, 8), 0), "registered memory")
                self.context.deregister(x, y)
        return 100

    def sessions_made(self) -> int:
        name = self.random.choice(self.backends)
        io = self.random.choice(["memhandle", "raw"]) if name != "gpu" else "memhandle"
        with qnnrt.Session(self.model, name, io=io) as session:
            same(session.run({"x": self.x})["y"], self.y, f"a session of {name}")
        with qnnrt.Session(self.lpai_model, "lpai") as session:
            session.run({"x": self.codes})
        return 2

    def binaries(self) -> int:
        with qnnrt.Session(self.model, "htp") as session:
            data = session.context.binary()
        with qnn.Context.from_binary(self.backend, data) as context:
            graph = context.graph("conv")
            found = np.zeros((1, 8, 8, 16), np.float32)
            graph.execute([self.x], [found])
            same(found, self.y, "a context binary")
            del graph
        for _ in range(5):
            damaged = bytearray(self.binary)
            at = self.random.randrange(len(damaged))
            damaged[at] ^= 1 << self.random.randrange(8)
            with suppress(qnnrt.QnnError):  # padding may be anything
                qnn.Context.from_binary(self.backend, bytes(damaged)).close()
            with refused(qnnrt.QnnError):
                qnn.Context.from_binary(self.backend, bytes(damaged[:at])).close()
        return 11

    def handoffs(self) -> int:
        for _ in range(10):
            with qnnrt.alloc(4096) as buffer:
                array = buffer.array(16, np.float32)
                array[...] = 3
                self.pipe.send(buffer)
                if not (self.pipe.poll(300) and self.pipe.recv()):
                    raise WrongResult("the other process does not answer")
                same(array, np.float32([6]), "a buffer handed off")
                del array
        return 10

    def asynchronous(self) -> int:
        session = self.sessions[self.random.choice(["cpu", "htp"])]
        session.inputs["x"].array[...] = self.x
        futures = [session.run_async() for _ in range(30)]
        for future in futures:
            future.result(120)
        same(session.outputs["y"].array, self.y, "asynchronous executions")
        return 30

    def interpreters(self) -> int:
        x = self.numbers.standard_normal((1, 32)).astype(np.float32)
        with Interpreter(model_content=self.tflite) as interpreter:
            interpreter.allocate_tensors()
            first, last = tflite_models.ends(interpreter)
            for _ in range(20):
                interpreter.set_tensor(first, x)
                interpreter.invoke()
            same(interpreter.get_tensor(last), tflite_models.expected(x), "the interpreter")
        return 20

    def errors(self) -> int:
        session = self.sessions[self.random.choice(self.backends)]
        for wrong in (np.zeros((1, 8, 8, 7), np.float32), np.zeros((1, 8, 8, 8), np.int8)):
            with refused(qnnrt.Error, ValueError, TypeError):
                session.run({"x": wrong})
        with refused(qnnrt.Error, KeyError, ValueError):
            session.run({"nobody": self.x})
        same(session.run({"x": self.x})["y"], self.y, "the run after an error")
        handle = self.context.register(self.pool, (16,), np.float32)
        with refused(qnnrt.Error):
            self.context.register(self.pool, (16,), np.float32)
        with refused(qnnrt.Error, ValueError):
            self.context.register(self.pool, (1 << 20,), np.float32, kind="shared_buffer")
        with refused(qnnrt.Error):
            self.pool.close()
        self.context.deregister(handle)
        with refused(qnnrt.Error):
            self.graph.execute([handle], [handle])  # stale
        with refused(qnnrt.Error):
            qnnrt.Session(relu_model((1, 16), np.dtype(np.float64)), "htp").close()
        data = bytearray(self.tflite)
        damaged = bytes(data[: self.random.randrange(8, len(data) - 64)])
        with suppress(qnnrt.Error, MemoryError):  # a cut may leave a sound file
            Interpreter(model_content=damaged).close()
        with refused(qnnrt.Error):
            qnnrt.load(self.random.randbytes(64) + b"\xff\xff")
        return 11


ACTIVITIES = [name for name in vars(Soak) if not name.startswith("_")]


def _has_gpu() -> bool:
    try:
        from qnnrt import gpu
    except ImportError:
        return False
    return not gpu.why_not()


def held() -> dict[str, float]:
    """What the process has now. Garbage, idle pools and mappings kept for reuse go first."""
    gc.collect()
    _core.ipc_forget_messages()
    _core.pool_trim(0)
    status = Path("/proc/self/status").read_text()
    counts = _core.memory_counts()
    return {
        "rss_mib": int(status.partition("VmRSS:")[2].split()[0]) / 1024,
        "fds": len(os.listdir("/proc/self/fd")),
        "maps": Path("/proc/self/maps").read_text().count("\n"),
        "threads": int(status.partition("Threads:")[2].split()[0]),
        "live": sum(_core.live_counts().values())
        + sum(n for name, n in counts.items() if not name.endswith("_frees")),
        "gpu": sum(_core.gpu_counts().values()),
    }


def growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """From the median of the first ones to that of the last."""
    count = max(1, int(len(samples) * _ENDS))
    return {
        name: statistics.median(s[name] for s in samples[-count:])
        - statistics.median(s[name] for s in samples[:count])
        for name in LIMITS
    }


def soak(minutes: float, seed: int, only: list[str]) -> dict[str, Any]:
    """Runs the activities; the report."""
    work = Soak(seed)
    done: Counter[str] = Counter()
    spent = dict.fromkeys(only, 0.0)
    samples: list[dict[str, float]] = []
    try:
        activities: dict[str, Callable[[], int]] = {name: getattr(work, name) for name in only}
        start = time.monotonic()
        total = 60 * minutes
        every = total / _SAMPLES
        next_sample = start + total / 5
        while (now := time.monotonic()) < start + total or len(samples) < _LEAST_SAMPLES:
            for name in work.random.sample(only, len(only)):
                begin = time.monotonic()
                done[name] += activities[name]()
                spent[name] += time.monotonic() - begin
            if now >= min(next_sample, start + total):
                samples.append(held())
                next_sample = max(now, next_sample) + every
        seconds = time.monotonic() - start
    finally:
        work._close()
    grown = growth(samples)
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "backends": [*work.backends, "lpai"],
        "done": dict(done),
        "per_second": {name: round(done[name] / max(1e-9, spent[name]), 1) for name in only},
        "samples": len(samples),
        "first": samples[0],
        "last": samples[-1],
        "growth": grown,
        "limits": LIMITS,
        "too_much": {n: g for n, g in grown.items() if g > LIMITS[n]},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--only", default="", help=f"a list of {','.join(ACTIVITIES)}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name] or ACTIVITIES
    if wrong := [name for name in only if name not in ACTIVITIES]:
        parser.error(f"no activity {', '.join(wrong)}; there are: {', '.join(ACTIVITIES)}")
    print(f"seed {options.seed}", flush=True)
    report = soak(options.minutes, options.seed, only)
    for name in only:
        print(f"{name:16}{report['done'][name]:12,}{report['per_second'][name]:12,.1f} a second")
    for name, limit in LIMITS.items():
        ends = f"{report['first'][name]:10.1f} ->{report['last'][name]:10.1f}"
        print(f"{name:16}{ends}, grew by {report['growth'][name]:.1f} of {limit} allowed")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    verdict = "grew too much: " + ", ".join(report["too_much"]) if report["too_much"] else "passed"
    count = sum(report["done"].values())
    print(
        f"soak {verdict}: {count:,} things done in {report['seconds']:.0f} s on "
        f"{', '.join(report['backends'])}, {report['samples']} samples, seed {report['seed']}"
    )
    return 1 if report["too_much"] else 0


if __name__ == "__main__":
    sys.exit(main())
