"""What one call costs: a relu of four floats, so that the op itself is next to nothing.

    python benchmarks/call_overhead.py [--smoke] [--json FILE]

Every runtime on one thread, over memory that stays bound. numpy's own relu and an empty Python call
show what the language takes. Last, threads that call at once, each a session of its own: the time
is that of all calls, divided by their number.
"""

import numpy as np
from _harness import Benchmark, at_once, same
from _runtimes import Missing, elementwise, in_litert, in_onnxruntime, in_openvino, in_qnnrt

import qnnrt
from qnnrt import importers

SHAPE = (1, 4)
THREADS = (1, 2)


def nothing() -> None:
    pass


def of_threads(bench: Benchmark) -> None:
    model = importers.onnx.load(elementwise("Relu", SHAPE))
    sessions = [qnnrt.Session(model, threads=1) for _ in THREADS]
    feeds = {"a": np.ones(SHAPE, np.float32)}
    runs = {
        "run": [s.run for s in sessions],
        "run(feeds)": [lambda s=s: s.run(feeds) for s in sessions],
        "outputs[...].array": [lambda t=s.outputs["y"]: t.array for s in sessions],
    }
    for name, calls in runs.items():
        case = bench.case(f"{name} in threads", unit="us")
        for count in THREADS:
            sample = at_once(*calls[:count])
            each = lambda n, sample=sample, count=count: sample(n) / count  # noqa: E731
            case.sampled(f"{count} of them" if count > 1 else "one", each)
        case.measure()
    for session in sessions:
        session.close()


def main() -> None:
    bench = Benchmark("call_overhead", __doc__, rounds=101, sample_ms=2)
    a = np.array([[-1.5, 2.5, -3.5, 4.5]], np.float32)
    y = np.maximum(a, 0)
    model = elementwise("Relu", SHAPE)
    ready = [
        in_qnnrt(model, {"a": a}, 1),
        in_qnnrt(model, {"a": a}, 1, io="raw"),
        *in_onnxruntime(model, {"a": a}, 1),
        in_openvino(model, {"a": a}, 1),
        in_litert("Relu", SHAPE, {"a": a}, 1),
    ]
    case = bench.case("relu of 4 floats", unit="us")
    for way in ready:
        if isinstance(way, Missing):
            case.missing(way.name, way.reason)
            continue
        way.call()
        same(way.name, way.result(), y)
        case.add(way.name, way.call)
    zero, out = np.zeros_like(a), np.empty_like(a)
    case.add("numpy maximum(a, zero, out=out)", lambda: np.maximum(a, zero, out=out))
    case.add("an empty Python function", nothing)
    case.measure()
    of_threads(bench)
    bench.finish()


if __name__ == "__main__":
    main()
