"""What a fleet of workers answers at which latency: simulated from measured times, and checked.

    python benchmarks/queueing.py [--smoke] [--json FILE]

Two nodes of Ray on this machine with an actor each. The memory of a request is on the first one's
node; the second one gets it by a copy on each side. First the time of requests is measured, one
after another: on each worker alone, and on both at once, where they share the machine's cores.
From these times a queue is simulated: requests at random times (a Poisson process), first come
first served, whichever worker is free, each as fast as it is with the other worker idle or busy at
that moment. Then the same requests, at the same times, are really sent. Predicted and measured are
the 50th, 90th and 99th percentile of the time from a request's arrival to its answer.

A second table is simulated alone: what batching buys, from the measured time of batches of each
size in one session: requests a second at which 99 of 100 are answered within ten times the time of
one.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import _ray
import numpy as np
from _harness import Benchmark, optional

import qnnrt
from qnnrt.model import Model, Node, Tensor

ray: Any = optional("ray")
if ray is not None:
    import qnnrt.ray as qr

    qr.register()

ROWS, WIDTH = 64, 16384  # of a request: 4 MiB
PERCENTILES = (50, 90, 99)
BATCHES = (1, 2, 4, 8, 16, 32)

#: Seconds for a batch of so many requests.
Service = Callable[[int], float]


def simulate(
    arrivals: np.ndarray, workers: Sequence[Service], batch: int = 1, wait: float = 0.0
) -> np.ndarray:
    """Latency of each request in a queue that free workers take from, in order.

    Args:
        arrivals: when each request comes, in seconds, ascending.
        workers: how long a batch of n takes, for each worker.
        batch: requests that a worker takes at once, at most.
        wait: seconds that a request waits for others to fill a batch, at most.
    """
    free = [(0.0, i) for i in range(len(workers))]
    latencies = np.empty(len(arrivals))
    begin = 0
    while begin < len(arrivals):
        at, worker = heapq.heappop(free)
        start = max(at, arrivals[begin])
        full = begin + batch - 1
        if wait and batch > 1:
            until = arrivals[begin] + wait
            filled = arrivals[full] if full < len(arrivals) else np.inf
            start = max(start, min(until, filled))
        end = begin + 1
        while end < len(arrivals) and end - begin < batch and arrivals[end] <= start:
            end += 1
        done = start + workers[worker](end - begin)
        latencies[begin:end] = done - arrivals[begin:end]
        heapq.heappush(free, (done, worker))
        begin = end
    return latencies


def poisson(rate: float, count: int, seed: int) -> np.ndarray:
    """Times of requests, so many a second in the mean."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))


def simulate_together(
    arrivals: np.ndarray, times: Sequence[tuple[np.ndarray, np.ndarray]], seed: int
) -> np.ndarray:
    """Latency of each request, where workers that are busy at the same time slow each other down.

    A request is at a random place among the measured times, the same in both arrays: one that the
    machine was slow for alone it is slow for in company. What is done of it grows by the one time
    or by the other, as the workers beside it come and go.

    Args:
        arrivals: when each request comes, in seconds, ascending.
        times: of each worker, service times as measured alone, and while all are busy.
        seed: of the random places.
    """
    random = np.random.default_rng(seed)
    free = deque(range(len(times)))
    #: worker -> its request, the share that is left, the times with it alone and in company
    running: dict[int, tuple[int, float, tuple[float, float]]] = {}
    latencies = np.empty(len(arrivals))
    now, begun, arrived = 0.0, 0, 0
    while begun < len(arrivals) or running:
        company = len(running) > 1
        ends = {w: now + left * takes[company] for w, (_, left, takes) in running.items()}
        first = min(ends, key=ends.__getitem__, default=None)
        if arrived < len(arrivals) and (first is None or arrivals[arrived] <= ends[first]):
            then, first = float(arrivals[arrived]), None
            arrived += 1
        else:
            assert first is not None
            then = ends[first]
        for w, (number, left, takes) in running.items():
            running[w] = (number, left - (then - now) / takes[company], takes)
        now = then
        if first is not None:
            number = running.pop(first)[0]
            latencies[number] = now - arrivals[number]
            free.append(first)
        while free and begun < arrived:
            worker, place = free.popleft(), random.random()
            alone, busy = (float(np.quantile(t, place)) for t in times[worker])
            running[worker] = (begun, 1.0, (alone, busy))
            begun += 1
    return latencies


# ---- two nodes


def network(rows: int) -> Model:
    """Some work on each byte of a request."""
    shape, kind = (rows, WIDTH), np.dtype(np.float32)
    names = ["x", "a", "b", "y"]
    ops = ["Relu", "Tanh", "Sigmoid"]
    nodes = [Node(op.lower(), op, [names[i]], [names[i + 1]]) for i, op in enumerate(ops)]
    return Model("work", {n: Tensor(n, shape, kind) for n in names}, nodes, ["x"], ["y"])


class Worker:
    """Infers on what comes, where it is."""

    def __init__(self) -> None:
        self.session = qnnrt.Session(network(ROWS), threads=1)

    def infer(self, x: np.ndarray) -> float:
        self.session.inputs["x"].bind(x)
        self.session.run()
        return float(self.session.outputs["y"].array[0, 0])

    def transfers(self) -> Any:
        return qr.transfers()


def alone(worker: Any, request: Any, count: int) -> np.ndarray:
    """Seconds of requests, one after another."""
    seconds = []
    for _ in range(count + 3):
        start = time.perf_counter()
        ray.get(worker.infer.remote(request))
        seconds.append(time.perf_counter() - start)
    return np.array(seconds[3:])


def together(workers: dict[str, Any], request: Any, count: int) -> dict[str, np.ndarray]:
    """Seconds of requests on each worker while none is ever idle, so many in all."""
    seconds: dict[str, list[float]] = {place: [] for place in workers}
    running: dict[Any, tuple[str, float]] = {}
    idle = list(workers)
    for _ in range(count + len(workers)):
        for place in idle:
            running[workers[place].infer.remote(request)] = (place, time.perf_counter())
        done = ray.wait(list(running))[0][0]
        place, start = running.pop(done)
        seconds[place].append(time.perf_counter() - start)
        idle = [place]
    ray.wait(list(running), num_returns=len(running))
    return {place: np.array(values[1:]) for place, values in seconds.items()}


def sent(workers: list[Any], request: Any, arrivals: np.ndarray) -> np.ndarray:
    """Latencies of requests that are sent at these times, to whichever worker is free."""
    free, waiting = deque(workers), deque[int]()
    running: dict[Any, tuple[int, Any]] = {}
    latencies = np.empty(len(arrivals))
    start, arrived, answered = time.perf_counter(), 0, 0
    while answered < len(arrivals):
        now = time.perf_counter() - start
        while arrived < len(arrivals) and arrivals[arrived] <= now:
            waiting.append(arrived)
            arrived += 1
        while free and waiting:
            worker, number = free.popleft(), waiting.popleft()
            running[worker.infer.remote(request)] = (number, worker)
        left = arrivals[arrived] - now if arrived < len(arrivals) else 60.0
        if not running:
            time.sleep(max(left, 0))
            continue
        for done in ray.wait(list(running), timeout=max(left, 0))[0]:
            number, worker = running.pop(done)
            latencies[number] = time.perf_counter() - start - arrivals[number]
            free.append(worker)
            answered += 1
    return latencies


def measure_nodes(bench: Benchmark) -> None:
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 512 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "resources": {"near": 1}})
    cluster.add_node(**options, resources={"far": 1})
    _ray.start(address=cluster.address)
    made = {
        place: ray.remote(num_cpus=0, enable_tensor_transport=True, resources={place: 1})(Worker)
        for place in ("near", "far")
    }
    workers = {place: kind.remote() for place, kind in made.items()}
    x = qnnrt.alloc_array((ROWS, WIDTH))
    request = ray.put(qr.share(x), _tensor_transport=qr.TRANSPORT)
    count = 30 if bench.smoke else 250
    seconds = {place: alone(w, request, count) for place, w in workers.items()}
    said = bench.extra["service_ms"] = {}
    print(f"\none request of {x.nbytes >> 20} MiB at a time, ms")
    copied = {
        place: ray.get(w.transfers.remote()).copied_bytes // (count + 3)
        for place, w in workers.items()
    }
    busy = together(workers, request, 2 * count)
    for place, values in seconds.items():
        said[place] = {"copied_bytes": copied[place]}
        for how, times in (("alone", values), ("both busy", busy[place])):
            mean, p = times.mean() * 1e3, np.percentile(times, PERCENTILES) * 1e3
            said[place][how] = mean
            print(
                f"  {place:6}{how:11}mean {mean:7.2f}   p50 {p[0]:7.2f}   p99 {p[2]:7.2f}",
                end="",
            )
            print(f"   {copied[place]:12,} bytes copied" if how == "alone" else "")
    capacity = sum(1 / v.mean() for v in busy.values())
    rows = bench.extra["queue"] = []
    print(f"\nboth workers, {capacity:.0f} requests a second at most: latencies in ms")
    print(f"  {'load':>5}{'':12}{'p50':>10}{'p90':>10}{'p99':>10}")
    for load in (0.3, 0.6, 0.8):
        arrivals = poisson(load * capacity, 3 * count, seed=int(load * 10))
        times = [(seconds[place], busy[place]) for place in workers]
        predicted = np.percentile(simulate_together(arrivals, times, 1), PERCENTILES) * 1e3
        measured = np.percentile(sent(list(workers.values()), request, arrivals), PERCENTILES) * 1e3
        rows.append({"load": load, "predicted_ms": list(predicted), "measured_ms": list(measured)})
        for name, values in (("predicted", predicted), ("measured", measured)):
            print(f"  {load:5.1f}  {name:10}" + "".join(f"{v:10.2f}" for v in values))
    del request
    ray.shutdown()
    cluster.shutdown()


# ---- batches


def batch_seconds(rows: int, count: int) -> float:
    """The median of a batch of so many rows of a network with weights."""
    random = np.random.default_rng(0)
    kind, width = np.dtype(np.float32), 1024
    tensors = {
        "x": Tensor("x", (rows, width), kind),
        "w": Tensor("w", (width, width), kind, data=random.standard_normal((width, width), "f4")),
        "y": Tensor("y", (rows, width), kind),
    }
    model = Model("rows", tensors, [Node("m", "MatMul", ["x", "w"], ["y"])], ["x"], ["y"])
    seconds = []
    with qnnrt.Session(model, threads=1) as session:
        for _ in range(count):
            start = time.perf_counter()
            session.run()
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def most(service: Service, batch: int, wait: float, limit: float, count: int) -> float:
    """Requests a second of one worker, of which 99 of 100 are answered within the limit."""
    low, high = 0.0, 2 * batch / service(batch)
    for _ in range(12):
        rate = (low + high) / 2
        latencies = simulate(poisson(rate, count, 1), [service], batch, wait)
        low, high = (rate, high) if np.percentile(latencies, 99) <= limit else (low, rate)
    return low


def measure_batches(bench: Benchmark) -> None:
    count = 20 if bench.smoke else 200
    seconds = {n: batch_seconds(n, count) for n in BATCHES}
    limit = 10 * seconds[1]
    rows = bench.extra["batches"] = []
    print(f"\nbatches of a product with 4 MiB of weights; p99 within {limit * 1e3:.2f} ms")
    print(f"  {'batch':>5}{'us':>10}{'us each':>10}{'requests a second':>20}")
    for n in BATCHES:
        # A batch that is not full takes as long as the full one: the session's shape is fixed.
        rate = most(lambda _, n=n: seconds[n], n, 0.0, limit, 2000 if bench.smoke else 20_000)
        rows.append({"batch": n, "seconds": seconds[n], "rate": rate})
        print(f"  {n:5}{seconds[n] * 1e6:10.0f}{seconds[n] / n * 1e6:10.0f}{rate:20.0f}")


def main() -> None:
    bench = Benchmark("queueing", __doc__)
    measure_batches(bench)
    if ray is None:
        bench.case("two nodes").missing("Ray")
    else:
        _ray.prepare()
        measure_nodes(bench)
    bench.finish()


if __name__ == "__main__":
    main()
