"""What one call costs: a relu of four floats, so that the op itself is next to nothing.

    python benchmarks/call_overhead.py [--smoke] [--json FILE]

Every runtime on one thread, over memory that stays bound. numpy's own relu and an empty Python call
show what the language takes.
"""

import numpy as np
from _harness import Benchmark, same
from _runtimes import Missing, elementwise, in_litert, in_onnxruntime, in_openvino, in_qnnrt

SHAPE = (1, 4)


def nothing() -> None:
    pass


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
    bench.finish()


if __name__ == "__main__":
    main()
