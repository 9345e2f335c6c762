"""What a token costs with a static cache: by the text so far, and by the room of the cache.

    python benchmarks/state.py [--smoke] [--json FILE]

Eight layers of GroupQueryAttention (9 heads of 64, 3 of keys and values) for one token. With state
the cache is one tensor that the graph updates; without, an input and an output, which the caller
copies back. ONNX Runtime has its caches bound as past and present, in place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, optional, same

import qnnrt

onnx: Any = optional("onnx")
onnxruntime: Any = optional("onnxruntime")

LAYERS, HEADS, GROUPS, SIZE = 8, 9, 3, 64
THREADS = 2
PARTS = [f"{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]


def decoder(room: int) -> Any:
    """One token through all layers."""
    helper, floats, ints = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT32
    info = helper.make_tensor_value_info
    row = [1, 1, HEADS * SIZE]
    inputs = [info("q", floats, row), info("ends", ints, [1]), info("total", ints, [1])]
    inputs += [info(name, floats, [1, 1, GROUPS * SIZE]) for name in "kv"]
    inputs += [info(f"past.{p}", floats, [1, GROUPS, room, SIZE]) for p in PARTS]
    outputs = [info(f"present.{p}", floats, [1, GROUPS, room, SIZE]) for p in PARTS]
    nodes, x = [], "q"
    for i in range(LAYERS):
        own = PARTS[2 * i : 2 * i + 2]
        nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [x, "k", "v", *(f"past.{p}" for p in own), "ends", "total"],
                [f"y{i}", *(f"present.{p}" for p in own)],
                domain="com.microsoft",
                num_heads=HEADS,
                kv_num_heads=GROUPS,
            )
        )
        x = f"y{i}"
    graph = helper.make_graph(nodes, "decoder", inputs, [info(x, floats, row), *outputs])
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def feeds(text: int) -> dict[str, np.ndarray]:
    """A token behind `text` others."""
    rng = np.random.default_rng(0)
    given = {
        n: rng.standard_normal((1, 1, c * SIZE)).astype(np.float32)
        for n, c in (("q", HEADS), ("k", GROUPS), ("v", GROUPS))
    }
    ends = np.array([text], np.int32)
    return given | {"ends": ends, "total": ends + 1}


def in_qnnrt(session: qnnrt.Session, given: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    """A run with these inputs; without state the caches are copied back behind it."""
    y = session.outputs[f"y{LAYERS - 1}"].array
    for name, value in given.items():
        session.inputs[name].array[...] = value
    back = [
        (session.inputs[f"past.{p}"].array, session.outputs[f"present.{p}"].array)
        for p in PARTS
        if f"past.{p}" in session.inputs
    ]

    def call() -> np.ndarray:
        session.run()
        for past, present in back:
            past[...] = present
        return y

    return call


def in_onnxruntime(path: Path, room: int, given: dict[str, np.ndarray]) -> Any:
    """Likewise; and what keeps the memory."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding, value = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy
    kept = {name: value(x) for name, x in given.items()}
    for name, x in kept.items():
        binding.bind_ortvalue_input(name, x)
    for p in PARTS:
        cache = kept[p] = value(np.zeros((1, GROUPS, room, SIZE), np.float32))
        binding.bind_ortvalue_input(f"past.{p}", cache)
        binding.bind_ortvalue_output(f"present.{p}", cache)
    y = kept["y"] = value(np.zeros((1, 1, HEADS * SIZE), np.float32))
    binding.bind_ortvalue_output(f"y{LAYERS - 1}", y)

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        result: np.ndarray = y.numpy()
        return result

    return call, (session, binding, kept)


def main() -> None:
    bench = Benchmark("state", __doc__ or "")
    if onnx is None:
        raise SystemExit("needs the package onnx")
    texts = (16, 500) if bench.smoke else (16, 500, 4000)
    with tempfile.TemporaryDirectory() as folder:
        for room in (512, 4096):
            path = Path(folder) / f"{room}.onnx"
            onnx.save(decoder(room), path)
            loaded = {True: qnnrt.load(path, state="auto"), False: qnnrt.load(path)}
            for text in (t for t in texts if t < room):
                case = bench.case(f"{text} tokens of text, room for {room}")
                given, kept = feeds(text), []
                calls = {}
                for state, name in ((True, "state"), (False, "copied back")):
                    session = qnnrt.Session(loaded[state], strict=True, threads=THREADS)
                    calls[name] = in_qnnrt(session, given)
                    kept.append(session)
                expected = calls["copied back"]().copy()
                if onnxruntime is not None:
                    calls["ONNX Runtime"], more = in_onnxruntime(path, room, given)
                    kept.append(more)
                for name, call in calls.items():
                    same(name, call(), expected, rtol=1e-4)
                    case.add(name, call)
                if onnxruntime is None:
                    case.missing("ONNX Runtime")
                case.measure()
                for session in kept[:2]:
                    assert session.stats.copied_bytes == 0
                    session.close()
    bench.finish()


if __name__ == "__main__":
    main()
