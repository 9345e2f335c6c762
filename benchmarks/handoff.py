"""A tensor from one process to others: a slot of a Channel, its Buffer, its bytes, or a copy.

    python benchmarks/handoff.py [--smoke] [--json FILE] [--consumers N ...] [--kib N ...]

Latency: from before the producer's call until the last consumer has read the tensor's first and
last element, on the clock that all processes share. The consumers wait meanwhile, and check the
elements, which change every time. Buffers are sent in turn: they come as new memory to consumers
that let them go, and as known memory to those that keep the last ones open. An empty message shows
what waking them takes, and handoff_calls.c, where there is a C compiler, what of new memory is the
kernel's. Throughput: many tensors one after another, until the last consumer has read the last one;
at most six wait.

Each way tells how many bytes it copied for a hand-off: what the processes read and wrote through
the kernel, as it counts them, and the copies into shared memory.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import _ray
import numpy as np
from _harness import Benchmark, optional

import qnnrt

KIB, MIB = 1 << 10, 1 << 20
SIZES = (KIB, 64 * KIB, MIB, 8 * MIB, 64 * MIB)
IN_A_ROW = (KIB, MIB, 8 * MIB)  # of which many are sent one after another, too
CONSUMERS = (1, 2, 4)
WAITING = 6  # tensors that may be under way at once
BLOCKS = WAITING + 2  # one is being written, one is being read

ray: Any = optional("ray")
if ray is not None:
    import qnnrt.ray
clock = time.perf_counter_ns  # CLOCK_MONOTONIC: the same in every process


def ends(array: np.ndarray) -> tuple[float, float]:
    return float(array[0]), float(array[-1])


def through_kernel() -> int | None:
    """Bytes that this process has read and written by system calls."""
    try:
        lines = Path("/proc/self/io").read_text().split()
    except OSError:
        return None
    return int(lines[1]) + int(lines[3])


# ---- consumers


#: When its ends were read, and what they are. Letting go of the tensor comes later.
Seen = tuple[int, tuple[float, float]]


def received(
    source: Any, blocks: dict[str, SharedMemory], kept: deque[qnnrt.Buffer]
) -> Callable[[], Seen]:
    """A function that waits for the next tensor and reads its ends."""
    if isinstance(source, qnnrt.channel.Consumer):

        def from_channel() -> Seen:
            with source.next() as slot:
                seen = ends(slot.array)
                return clock(), seen

        return from_channel
    take = source.recv if isinstance(source, Connection) else source.get

    def from_message() -> Seen:
        message = take()
        if isinstance(message, bytes):
            return clock(), (0.0, 0.0)
        if isinstance(message, str):  # the name of a shared block, attached once
            if message not in blocks:
                blocks[message] = SharedMemory(message)
            message = np.frombuffer(blocks[message].buf, np.float32)
        if isinstance(message, qnnrt.Buffer):
            kept.append(message)
            message = message.array((message.nbytes // 4,), np.float32)
        seen = ends(message)
        return clock(), seen

    return from_message


def consumer(orders: Connection, pipe: Connection, queue: Any) -> None:
    """Does what it is told: waits for so many tensors, and answers each or the last one."""
    blocks: dict[str, SharedMemory] = {}
    while (order := orders.recv()) is not None:
        source, count, each, spin, keep = order
        kept = deque[qnnrt.Buffer](maxlen=keep)
        with ExitStack() as stack:
            if isinstance(source, qnnrt.Channel):
                stack.callback(source.close)
                source = stack.enter_context(source.consumer(spin=spin))
            else:
                source = {"pipe": pipe, "queue": queue}[source]
            take = received(source, blocks, kept)
            before = through_kernel()
            orders.send("ready")
            for _ in range(count if each else 0):
                arrived, seen = take()
                orders.send((arrived, seen))
            for _ in range(0 if each else count):
                arrived, seen = take()
            after = through_kernel()
            copied = None if before is None or after is None else after - before
            orders.send((arrived, seen, copied))
    for block in blocks.values():
        block.close()


class Consumers:
    """So many processes, each with a pipe and a queue of its own."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.count = count
        self.orders, self.pipes, self.queues, self.processes = [], [], [], []
        for _ in range(count):
            orders, theirs = context.Pipe()
            pipe, end = context.Pipe()
            queue = context.Queue(WAITING)
            process = context.Process(target=consumer, args=(theirs, end, queue), daemon=True)
            process.start()
            theirs.close()
            end.close()
            self.orders.append(orders)
            self.pipes.append(pipe)
            self.queues.append(queue)
            self.processes.append(process)

    def order(self, way: "Way", count: int, each: bool) -> None:
        for orders in self.orders:
            orders.send((way.source, count, each, way.spin, way.keep))
        for orders in self.orders:
            assert orders.recv() == "ready"

    def answers(self) -> list[Any]:
        return [orders.recv() for orders in self.orders]

    def close(self) -> None:
        for orders in self.orders:
            orders.send(None)
        for process in self.processes:
            process.join()


# ---- ways to send


class Way:
    """One way to send tensors of a size. `copied` counts the bytes that it copies itself."""

    source: Any  # what the consumers are told to wait at
    spin: float | None = None  # how long they look before they sleep, in seconds
    keep = 0  # how many Buffers they keep open

    def __init__(self, consumers: Consumers, nbytes: int) -> None:
        self.consumers, self.nbytes, self.copied = consumers, nbytes, 0

    def send(self, value: float) -> tuple[float, float]:
        """Sends a tensor with these ends; returns when it is under way."""
        raise NotImplementedError

    @contextmanager
    def ready(self) -> Iterator[None]:
        """While consumers wait."""
        yield

    def close(self) -> None:
        pass


class ByChannel(Way):
    """Filled in place."""

    def __init__(self, consumers: Consumers, nbytes: int, spin: float | None = None) -> None:
        super().__init__(consumers, nbytes)
        self.spin = spin
        self.source = qnnrt.Channel(nbytes // 4, np.float32, BLOCKS)
        self.producer = self.source.producer()

    def send(self, value: float) -> tuple[float, float]:
        with self.producer.next() as slot:
            array = slot.array
            array[0], array[-1] = value, -value
        return value, -value

    def close(self) -> None:
        self.producer.close()
        self.source.close()


class ByBuffer(Way):
    """Filled in place, and pickled."""

    def __init__(self, consumers: Consumers, nbytes: int, source: str, keep: int = 0) -> None:
        super().__init__(consumers, nbytes)
        self.source, self.keep = source, keep
        self.buffers = [qnnrt.alloc(nbytes) for _ in range(BLOCKS)]
        self.arrays = [b.array((nbytes // 4,), np.float32) for b in self.buffers]
        self.next = 0

    def send(self, value: float) -> tuple[float, float]:
        self.next = (self.next + 1) % BLOCKS
        array, buffer = self.arrays[self.next], self.buffers[self.next]
        array[0], array[-1] = value, -value
        if self.source == "pipe":
            for pipe in self.consumers.pipes:
                pipe.send(buffer)
        else:
            for queue in self.consumers.queues:
                queue.put(buffer)
        return value, -value

    def close(self) -> None:
        self.arrays.clear()
        for buffer in self.buffers:
            buffer.close()


class ByCopy(Way):
    """Copied into shared memory, whose name goes through a queue."""

    source = "queue"

    def __init__(self, consumers: Consumers, nbytes: int) -> None:
        super().__init__(consumers, nbytes)
        self.blocks = [SharedMemory(create=True, size=nbytes) for _ in range(BLOCKS)]
        self.array = np.ones(nbytes // 4, np.float32)
        self.next = 0

    def send(self, value: float) -> tuple[float, float]:
        self.next = (self.next + 1) % BLOCKS
        block = self.blocks[self.next]
        self.array[0], self.array[-1] = value, -value
        np.copyto(np.frombuffer(block.buf, np.float32)[: self.array.size], self.array)
        self.copied += self.nbytes
        for queue in self.consumers.queues:
            queue.put(block.name)
        return value, -value

    def close(self) -> None:
        for block in self.blocks:
            block.close()
            block.unlink()


class ByPickle(Way):
    """The bytes through a pipe."""

    source = "pipe"

    def __init__(self, consumers: Consumers, nbytes: int) -> None:
        super().__init__(consumers, nbytes)
        self.array = np.ones(nbytes // 4, np.float32)

    def send(self, value: float) -> tuple[float, float]:
        self.array[0], self.array[-1] = value, -value
        for pipe in self.consumers.pipes:
            pipe.send(self.array)
        return value, -value


class Empty(Way):
    source = "pipe"

    def send(self, value: float) -> tuple[float, float]:
        for pipe in self.consumers.pipes:
            pipe.send(b"")
        return 0.0, 0.0


class ByRay(Way):
    """Through Ray's object store, to actors that wait for a call."""

    def __init__(self, consumers: Consumers, nbytes: int) -> None:
        super().__init__(consumers, nbytes)

        class Reader:
            def read(self, array: np.ndarray) -> tuple[int, tuple[float, float]]:
                return clock(), ends(array)

        actor = ray.remote(num_cpus=0, enable_tensor_transport=True)(Reader)
        self.actors = [actor.remote() for _ in range(consumers.count)]
        self.array = np.ones(nbytes // 4, np.float32)

    def put(self) -> Any:
        return ray.put(self.array)

    def sample(self, n: int) -> float:
        total = 0
        for i in range(n + 1):
            self.array[0], self.array[-1] = expected = (float(i), -float(i))
            start = clock()
            reference = self.put()
            answers = ray.get([actor.read.remote(reference) for actor in self.actors])
            assert all(seen == expected for _, seen in answers)
            total += max(arrived for arrived, _ in answers) - start if i else 0
        return total / n / 1e9

    def close(self) -> None:
        for actor in self.actors:
            ray.kill(actor)


class ByTransport(ByRay):
    """Through qnnrt's transport for Ray, filled in place."""

    def __init__(self, consumers: Consumers, nbytes: int) -> None:
        super().__init__(consumers, nbytes)
        self.array = qnnrt.alloc_array(nbytes // 4)

    def put(self) -> Any:
        return ray.put(qnnrt.ray.share(self.array), _tensor_transport=qnnrt.ray.TRANSPORT)


class Calls:
    """The calls of the kernel alone, in two processes of their own."""

    def __init__(self, folder: str) -> None:
        self.program = Path(folder) / "handoff_calls"
        source = Path(__file__).with_name("handoff_calls.c")
        self.there = shutil.which("cc") is not None
        if self.there:
            subprocess.run(["cc", "-O2", source, "-o", self.program], check=True)

    def sampler(self, nbytes: int) -> Callable[[int], float]:
        def sample(n: int) -> float:
            command = [self.program, str(nbytes), str(n)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            return int(done.stdout) / 1e9

        return sample


# ---- what is measured


class Measured:
    """Samplers of a way, which note what it copied."""

    def __init__(self, way: Way) -> None:
        self.way, self.value = way, 0.0
        self.facts: dict[str, Any] = {}

    def _send(self) -> tuple[float, float]:
        self.value += 1
        return self.way.send(self.value)

    def _note(self, before: int | None, copied: list[int | None], calls: int) -> None:
        after = through_kernel()
        if before is None or after is None or None in copied:
            return
        total = after - before + sum(n or 0 for n in copied) + self.way.copied
        self.facts["copied_bytes"] = round(total / calls)

    def latency(self, n: int) -> float:
        consumers = self.way.consumers
        consumers.order(self.way, n + 1, each=True)
        before, self.way.copied, total = through_kernel(), 0, 0
        for i in range(n + 1):
            start = clock()
            expected = self._send()
            answers = consumers.answers()
            if any(seen != expected for _, seen in answers):
                raise RuntimeError(f"sent {expected}, but {answers} arrived")
            if i > 0:  # in the first one a consumer still puts away what came before
                total += max(arrived for arrived, _ in answers) - start
        self._note(before, [answer[2] for answer in consumers.answers()], n + 1)
        return total / n / 1e9

    def throughput(self, n: int) -> float:
        consumers = self.way.consumers
        consumers.order(self.way, n, each=False)
        before, self.way.copied = through_kernel(), 0
        start = clock()
        for _ in range(n):
            expected = self._send()
        answers = consumers.answers()
        if any(seen != expected for _, seen, _ in answers):
            raise RuntimeError(f"sent {expected}, but {answers} arrived")
        self._note(before, [answer[2] for answer in answers], n)
        return (max(arrived for arrived, _, _ in answers) - start) / n / 1e9


def text(nbytes: int) -> str:
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"


def measure(bench: Benchmark, consumers: Consumers, nbytes: int, kind: str, calls: Calls) -> None:
    case = bench.case(f"{kind}, {text(nbytes)} to {consumers.count}")
    source = "pipe" if kind == "latency" else "queue"
    ways: dict[str, Way] = {
        "a Channel": ByChannel(consumers, nbytes),
        f"the Buffer through a {source.capitalize()}": ByBuffer(consumers, nbytes, source),
        f"the Buffer through a {source.capitalize()}, kept": ByBuffer(
            consumers, nbytes, source, BLOCKS
        ),
        "SharedMemory and a Queue": ByCopy(consumers, nbytes),
        "the array, pickled through a Pipe": ByPickle(consumers, nbytes),
    }
    if kind == "latency":
        ways["an empty message"] = Empty(consumers, nbytes)
    if kind == "latency" and consumers.count < len(os.sched_getaffinity(0)):
        ways["a Channel, looking for 1 ms"] = ByChannel(consumers, nbytes, 1e-3)
    for name, way in ways.items():
        measured = Measured(way)
        case.sampled(name, getattr(measured, kind))
        case.ways[-1].facts = measured.facts
    if kind == "latency" and consumers.count == 1:
        name = "the kernel's calls alone, in C"
        if calls.there:
            case.sampled(name, calls.sampler(nbytes))
        else:
            case.missing(name, "no C compiler")
    stores: list[ByRay] = []
    if kind == "latency" and ray is None:
        case.missing("Ray's object store")
    elif kind == "latency":
        stores += [ByRay(consumers, nbytes), ByTransport(consumers, nbytes)]
        case.sampled("Ray's object store", stores[0].sample)
        case.sampled("Ray, qnnrt's transport", stores[1].sample)
    case.measure()
    for one in case.ways:
        if "copied_bytes" in one.facts:
            print(f"  {one.name:34}{one.facts['copied_bytes']:12,} bytes copied")
    for way in [*ways.values(), *stores]:
        way.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    """What splits a long run."""
    parser.add_argument(
        "--consumers", type=int, nargs="+", metavar="N", help="how many receive, in turn"
    )
    kib = [nbytes // KIB for nbytes in SIZES]
    parser.add_argument("--kib", type=int, nargs="+", choices=kib, help="sizes of the tensor")


def main() -> None:
    bench = Benchmark("handoff", __doc__, rounds=15, sample_ms=2, more=add_options)
    counts = bench.options.consumers or (CONSUMERS[:2] if bench.smoke else CONSUMERS)
    sizes = (KIB, MIB) if bench.smoke else SIZES
    if bench.options.kib:
        sizes = tuple(n * KIB for n in bench.options.kib)
    if ray is not None:
        qnnrt.ray.register()
        _ray.start(include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        calls = Calls(folder)
        for count in counts:
            consumers = Consumers(count)
            for nbytes in sizes:
                measure(bench, consumers, nbytes, "latency", calls)
            for nbytes in IN_A_ROW[:1] if bench.smoke else IN_A_ROW:
                if nbytes in sizes:
                    measure(bench, consumers, nbytes, "throughput", calls)
            consumers.close()
    bench.finish()


if __name__ == "__main__":
    main()
