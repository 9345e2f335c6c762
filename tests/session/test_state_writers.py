"""One writer at a time of a state: threads, graphs and processes that update one buffer."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection

import numpy as np
import pytest

import qnnrt
from qnnrt.errors import GraphError
from qnnrt.model import Model, Node, Tensor
from support.waiting import until

F32 = np.dtype(np.float32)
SHAPE = (256, 1024)
RUNS, FORTH = 30, 6


def counter_model(states: int = 1) -> Model:
    """Each run adds 1 to every element of each state, in steps that write the state each: (2s + 2)
    / 2, many times forth and back. Steps of two runs between each other give something else."""
    names = [f"s{i}" for i in range(states)]
    ts = {n: Tensor(n, SHAPE, F32) for n in names}
    for number in (2.0, 0.5, -2.0):
        ts[str(number)] = Tensor(str(number), (1,), F32, np.full(1, number, F32))
    nodes = []
    for state in names:
        last = state
        for i in range(2 * FORTH + 1):
            for op, number in (
                ("Multiply", 2.0),
                ("Add", -2.0 if i % 2 else 2.0),
                ("Multiply", 0.5),
            ):
                y = f"{state}_{len(nodes)}"
                ts[y] = Tensor(y, SHAPE, F32)
                nodes.append(Node(y, f"ElementWise{op}", [last, str(number)], [y]))
                last = y
    ends = [nodes[(i + 1) * len(nodes) // states - 1].name for i in range(states)]
    model = Model("counter", ts, nodes, names, ends)
    model.set_state(dict(zip(names, ends, strict=True)))
    return model


def runs(session: qnnrt.Session, count: int = RUNS) -> None:
    for _ in range(count):
        session.run()


@pytest.mark.parametrize("io", ["memhandle", "raw"])
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_threads_with_graphs_of_their_own_lose_no_update(backend, io):
    with (
        qnnrt.Session(counter_model(), backend, io=io) as a,
        qnnrt.Session(counter_model(), backend, io=io) as b,
    ):
        b.bind_state(a)
        threads = [threading.Thread(target=runs, args=(s,)) for s in (a, b)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert (a.state["s0"].array == 2 * RUNS).all()


def test_states_that_are_bound_crosswise_do_not_wait_for_each_other_for_ever():
    with qnnrt.Session(counter_model(2)) as a, qnnrt.Session(counter_model(2)) as b:
        b.bind_state({"s0": a.state["s1"], "s1": a.state["s0"]})
        futures = [s.run_async() for _ in range(8) for s in (a, b)]
        for future in futures:
            future.result(120)
        for t in a.state.values():
            assert (t.array == 16).all()


def test_two_states_in_one_memory_are_refused():
    with qnnrt.Session(counter_model(2)) as s:
        s.state["s1"].bind(s.state["s0"].buffer)
        with pytest.raises(GraphError, match="the same memory"):
            s.run()
        assert not s.state["s0"].array.any()


# ---- processes -----------------------------------------------------------------------------------


def counting_child(buffer: qnnrt.Buffer, pipe: Connection, io: str) -> None:
    with qnnrt.Session(counter_model(), io=io) as s:
        s.state["s0"].bind(buffer)
        pipe.send("ready")
        while (count := pipe.recv()) != 0:
            runs(s, count)
            pipe.send("done")


class Child:
    def __init__(self, buffer: qnnrt.Buffer, io: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=counting_child, args=(buffer, theirs, io))
        self.process.start()
        assert self.pipe.recv() == "ready"

    def close(self) -> None:
        if self.process.is_alive():
            self.pipe.send(0)
        self.process.join(300)
        self.pipe.close()
        self.process.close()


@pytest.mark.other_fds  # the first child starts the tracker of multiprocessing
@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_two_processes_lose_no_update(io):
    with qnnrt.Session(counter_model(), io=io) as s:
        buffer = qnnrt.alloc(s.state["s0"].nbytes)
        s.state["s0"].bind(buffer)
        s.reset_state()
        child = Child(buffer, io)
        try:
            child.pipe.send(RUNS)
            runs(s)
            assert child.pipe.recv() == "done"
            assert (s.state["s0"].array == 2 * RUNS).all()
        finally:
            child.close()


@pytest.mark.other_fds
def test_a_process_that_dies_in_the_middle_leaves_no_lock():
    with qnnrt.Session(counter_model()) as s:
        buffer = qnnrt.alloc(s.state["s0"].nbytes)
        s.state["s0"].bind(buffer)
        child = Child(buffer, "memhandle")
        try:
            child.pipe.send(1_000_000)
            assert until(s.state["s0"].array.any)
            os.kill(child.process.pid, signal.SIGKILL)
            child.process.join(300)
            runs(s, 3)  # waits for nobody
        finally:
            child.close()


def continue_text(pipe: Connection) -> None:
    """The state as another process left it, and one run more."""
    buffer = pipe.recv()
    with qnnrt.Session(counter_model(), strict=True) as s:
        s.bind_state({"s0": buffer})
        before = float(s.state["s0"].array[0, 0])
        s.run()
        pipe.send((before, s.stats.copied_bytes))


@pytest.mark.other_fds
def test_another_process_goes_on_from_the_buffer():
    with qnnrt.Session(counter_model(), strict=True) as s:
        runs(s, 5)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(target=continue_text, args=(theirs,))
        child.start()
        ours.send(s.state["s0"].buffer)
        assert ours.recv() == (5.0, 0)
        child.join(300)
        child.close()
        ours.close()
        theirs.close()
        assert (s.state["s0"].array == 6).all()
