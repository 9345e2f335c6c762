"""A tensor from one process to another: its Buffer, its bytes, or a copy that both can see.

    python benchmarks/handoff.py [--smoke] [--json FILE]

The time from before the sender's `send` until the receiver has read the tensor's first and last
element, one way, on the clock that both processes share. The receiver waits in `recv`. An empty
message shows what waking it takes. The receiver checks the elements, which change every time.
"""

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory

import numpy as np
from _harness import Benchmark

import qnnrt

MIB = 1 << 20
clock = time.perf_counter_ns  # CLOCK_MONOTONIC: the same in every process


def ends(array: np.ndarray) -> tuple[float, float]:
    return float(array[0]), float(array[-1])


def receiver(connection: Connection) -> None:
    """Answers each message with what it read and when it had it."""
    blocks: dict[str, SharedMemory] = {}
    while True:
        message = connection.recv()
        if message is None:
            break
        if isinstance(message, bytes):
            seen = (0.0, 0.0)
        elif isinstance(message, np.ndarray):
            seen = ends(message)
        elif isinstance(message, qnnrt.Buffer):
            seen = ends(message.array((message.nbytes // 4,), np.float32))
        else:  # the name of a shared block, attached once
            if message not in blocks:
                blocks[message] = SharedMemory(message)
            seen = ends(np.frombuffer(blocks[message].buf, np.float32))
        connection.send((clock(), seen))
        del message
    for block in blocks.values():
        block.close()
    connection.close()


class Sender:
    """One-way times of messages to a receiver."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.value = 0.0

    def way(
        self, array: np.ndarray | None, message: Callable[[], object]
    ) -> Callable[[int], float]:
        """A sampler: `message()` makes what is sent, within the time that counts."""

        def sample(n: int) -> float:
            total = 0
            for i in range(n + 1):
                expected = (0.0, 0.0)
                if array is not None:
                    self.value += 1
                    array[0], array[-1] = expected = (self.value, -self.value)
                start = clock()
                self.connection.send(message())
                arrived, seen = self.connection.recv()
                if i > 0:  # in the first one the receiver still puts away what came before
                    total += arrived - start
                if seen != expected:
                    raise RuntimeError(f"sent {expected}, but {seen} arrived")
            return total / n / 1e9

        return sample


def copy_into(block: SharedMemory, array: np.ndarray) -> Callable[[], str]:
    def message() -> str:
        np.copyto(np.frombuffer(block.buf, np.float32)[: array.size], array)
        return block.name

    return message


def measure(bench: Benchmark, sender: Sender, mebibytes: int) -> None:
    nbytes = mebibytes * MIB
    buffer = qnnrt.alloc(nbytes)
    block = SharedMemory(create=True, size=nbytes)
    shared = buffer.array((nbytes // 4,), np.float32)
    plain = np.ones(nbytes // 4, np.float32)
    case = bench.case(f"{mebibytes} MiB to another process", unit="us")
    case.sampled("the Buffer through a Pipe", sender.way(shared, lambda: buffer))
    case.sampled("the array, pickled", sender.way(plain, lambda: plain))
    case.sampled("SharedMemory and a copy", sender.way(plain, copy_into(block, plain)))
    case.sampled("an empty message", sender.way(None, lambda: b""))
    case.measure()
    block.close()
    block.unlink()


def main() -> None:
    bench = Benchmark("handoff", __doc__, rounds=51, sample_ms=2)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=receiver, args=(there,), daemon=True)
    child.start()
    there.close()
    sender = Sender(here)
    for mebibytes in (8,) if bench.smoke else (8, 64):
        measure(bench, sender, mebibytes)
    here.send(None)
    child.join()
    bench.finish()


if __name__ == "__main__":
    main()
