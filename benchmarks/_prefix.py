"""A text that another process has read is handed over: what passes until it can go on there."""

from __future__ import annotations

import multiprocessing
import time
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from _harness import Benchmark

from qnnrt.llm import LanguageModel

TOKENS = 8  # that the other process adds
NEW, BEFORE, BATCH = "new memory", "memory that came before", "a batch's memory"
TEXTS = 4  # of the batch
clock = time.perf_counter_ns


def receiver(path: str, options: dict[str, Any], pipe: Connection, keep: bool) -> None:
    """For each message: nanoseconds until the memory is mapped and the graph of single tokens is
    bound to it, and until the next token is there; tokens; what the graphs have run. `keep`: what
    came stays until the next message was read."""
    with LanguageModel(path, **options) as model:
        other = model.conversation()
        other.append([0])
        runs = dict.fromkeys(model._sessions, 0)
        kept = []  # a text keeps its memory mapped and registered
        pipe.send("ready")
        while message := pipe.recv_bytes():
            begin = clock()
            text = model.conversation(message)
            model._bind(text._slots, 1, 1)  # if it was not yet
            bound = clock()
            length = len(text.tokens)
            next(text.generate(1))
            first = clock()
            text.rewind(length)
            made = list(text.generate(TOKENS))
            before, runs = runs, {key: s.stats.executes for key, s in model._sessions.items()}
            read = {key: n - before.get(key, 0) for key, n in runs.items()}
            pipe.send((bound - begin, first - begin, made, read))
            kept[:] = [text] if keep else []
            del text
            other.rewind(1)
            next(other.generate(1))  # binds its own memory, and the caches have other things


def measure(bench: Benchmark, path: Path, threads: int, length: int) -> None:
    """Adds cases, for memory that the receiver has not had before, for memory that it has, and for
    texts of a batch, in turn, whose memory stays there when they go: ways are how far the receiver
    has come; the last one is without a hand-off."""
    for memory in (NEW, BEFORE, BATCH):
        _measure(bench, path, threads, length, memory)


def _measure(bench: Benchmark, path: Path, threads: int, length: int, memory: str) -> None:
    keep = memory == BEFORE
    options = {"threads": threads, "strict": True}
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=receiver, args=(str(path), options, there, keep), daemon=True)
    process.start()
    with LanguageModel(path, **options) as model:
        tokens = [i * 7919 % model.vocabulary for i in range(length)]
        if memory == BATCH:
            batch = model.batch(TEXTS)
            texts = [batch.add(tokens) for _ in range(TEXTS)]
        else:
            texts = [model.conversation()]
            texts[0].append(tokens)
        expected = list(texts[0].generate(TOKENS))
        texts[0].rewind(length)
        turn = cycle(texts)
        assert here.recv() == "ready"

        def sample(way: int, n: int) -> float:
            total = 0
            for _ in range(n):
                here.send_bytes(next(turn).prefix.to_bytes())
                *passed, made, read = here.recv()
                assert made == expected
                # Tokens that it made, and the last one of the text, twice: it read no other.
                single = {key: count for key, count in read.items() if count}
                assert list(single) == [(1, 1, 1)]
                assert single[1, 1, 1] <= TOKENS + 2
                total += passed[way]
            return total / n / 1e9

        def anew() -> None:
            alone = model.conversation()
            alone.append(tokens)
            next(alone.generate(1))

        case = bench.case(f"a text of {length} handed over in {memory}, {threads} threads")
        for i, name in enumerate(("mapped and bound", "the next token is there")):
            case.sampled(name, lambda n, i=i: sample(i, n))
        case.add("read anew, next token", anew)
        case.measure()
    here.send_bytes(b"")
    process.join()
