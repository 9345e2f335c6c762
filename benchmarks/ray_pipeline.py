"""Ray with Buffers and without: a pipeline of frames, a dataset of images, the memory of workers.

    python benchmarks/ray_pipeline.py [--smoke] [--json FILE] [--only frames images memory]

Frames: a decoder (zlib) writes 1080p frames, a session averages, convolves and clips them, a last
step reduces the result; in one process, in three actors with qnnrt's tensor transport, and in the
same actors with Ray's object store. Three frames are under way. The results are compared. Bytes
copied for a frame are those between the steps: into the object store, and into the session's input.

Images: Ray Data makes images and infers them in two actors, with a session and with ONNX Runtime.
The time is that of the whole run, the start of the actors too; beside it what an image takes of an
actor's processor time once it runs, and what making the actor takes: imports and the session.

Memory: four actors load one network each. PSS divides shared pages among those who share them, so
the sum is what the machine gives.
"""

from __future__ import annotations

import importlib
import statistics
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _ray
import numpy as np
import onnx
from _harness import Benchmark, Case, optional
from binary_load import held
from onnx import TensorProto, helper, numpy_helper

import qnnrt

ray: Any = optional("ray")
if ray is not None:
    import qnnrt.ray as qr

    qr.register()

MIB = 1 << 20
SHAPE = (1, 1080, 1920, 3)
NBYTES = int(np.prod(SHAPE))
IN_FLIGHT = 3
STORED = 4  # compressed frames
IMAGE = (3, 64, 64)
BATCH = 32
ACTORS = 2


# ---- networks


def _save(path: Path, graph: onnx.GraphProto) -> Path:
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    return path


def _weights(**arrays: np.ndarray) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()]


def frame_network(path: Path) -> Path:
    """Bytes of a frame to eight maps of an eighth of its size."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Cast", ["frame"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["float"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("AveragePool", ["planes"], ["small"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Conv", ["small", "w", "b"], ["maps"], pads=[1] * 4),
        helper.make_node("Relu", ["maps"], ["y"]),
    ]
    weights = _weights(w=random.standard_normal((8, 3, 3, 3)), b=random.standard_normal(8))
    frame = helper.make_tensor_value_info("frame", TensorProto.UINT8, SHAPE)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 135, 240))
    return _save(path, helper.make_graph(nodes, "frames", [frame], [y], weights))


def image_network(path: Path) -> Path:
    """A small classifier of images."""
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["y"]),
    ]
    shapes = {"w1": (16, 3, 3, 3), "w2": (32, 16, 3, 3), "w3": (32, 10)}
    weights = _weights(**{n: 0.2 * random.standard_normal(s) for n, s in shapes.items()})
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (BATCH, *IMAGE))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (BATCH, 10))
    return _save(path, helper.make_graph(nodes, "images", [x], [y], weights))


def large_network(path: Path, width: int) -> Path:
    """Four products with square matrices."""
    random = np.random.default_rng(2)
    names = ["x", "h1", "h2", "h3", "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(4)]
    weights = _weights(
        **{f"w{i}": random.standard_normal((width, width), np.float32) for i in range(4)}
    )
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, width)) for n in ("x", "y"))
    return _save(path, helper.make_graph(nodes, "large", [x], [y], weights))


# ---- frames


def compressed() -> list[bytes]:
    """Frames of a gradient that moves."""
    rows, columns = np.arange(SHAPE[1])[:, None, None], np.arange(SHAPE[2])[None, :, None]
    colours = np.arange(3)[None, None, :]
    frames = [(rows // 4 + columns // 4 + 40 * colours + 17 * i) % 256 for i in range(STORED)]
    return [zlib.compress(frame.astype(np.uint8).tobytes(), 1) for frame in frames]


class Decoder:
    """Frames into memory of its own, which is used again when nobody has it any more."""

    def __init__(self, stored: list[bytes], shared: bool) -> None:
        make = qnnrt.alloc_array if shared else np.empty
        self.stored = stored
        self.arrays = [make(SHAPE, np.uint8) for _ in range(IN_FLIGHT + 2)]

    def decode(self, number: int, out: np.ndarray) -> np.ndarray:
        pixels = zlib.decompress(self.stored[number % STORED])
        out[...] = np.frombuffer(pixels, np.uint8).reshape(SHAPE)
        return out

    def stored_frame(self, number: int) -> np.ndarray:
        return self.decode(number, self.arrays[number % len(self.arrays)])


class Inference:
    """A session on the array that comes, where it is or copied into the input."""

    def __init__(self, model: str) -> None:
        self.session = qnnrt.Session(model, threads=1)
        # A bound array stays bound: what is copied or returned needs memory of the session's own.
        self.x, self.y = self.session.inputs["frame"].array, self.session.outputs["y"].array
        self.copied = 0
        # The decoder's arrays come again and again: they stay mapped.
        self.recent = deque[np.ndarray](maxlen=IN_FLIGHT + 2)

    def on(self, frame: np.ndarray, bind: bool) -> np.ndarray:
        self.session.inputs["frame"].bind(frame if bind else self.x)
        if not bind:
            self.x[...] = frame
            self.copied += frame.nbytes
        self.session.run()
        return self.session.outputs["y"].array


def reduced(maps: np.ndarray) -> float:
    return float(maps.max(axis=(2, 3)).sum())


def frame_actors() -> tuple[Any, Any, Any]:
    """The three steps, each with both ways."""

    class Source(Decoder):
        @ray.method(tensor_transport=qr.TRANSPORT)
        def share(self, number: int) -> Any:
            array = self.arrays[number % len(self.arrays)]
            qr.wait_freed(array, 60)
            return qr.share(self.decode(number, array))

        def send(self, number: int) -> np.ndarray:
            return self.stored_frame(number)

    class Middle(Inference):
        @ray.method(tensor_transport=qr.TRANSPORT)
        def share(self, frame: np.ndarray) -> Any:
            self.recent.append(frame)
            maps = qnnrt.alloc_array((1, 8, 135, 240))
            self.session.outputs["y"].bind(maps)
            self.on(frame, bind=True)
            return qr.share(maps)

        def send(self, frame: np.ndarray) -> np.ndarray:
            self.copied += frame.nbytes  # by Ray, into its object store
            self.session.outputs["y"].bind(self.y)
            return self.on(frame, bind=False)

        def copies(self) -> int:
            copied = self.copied + qr.transfers().copied_bytes + self.session.stats.copied_bytes
            self.copied = 0
            qr.reset_transfers()
            self.session.reset_stats()
            return copied

    class Sink:
        def finish(self, maps: np.ndarray) -> float:
            return reduced(maps)

    options = {"num_cpus": 0, "enable_tensor_transport": True}
    return tuple(ray.remote(**options)(kind) for kind in (Source, Middle, Sink))  # type: ignore[return-value]


class Frames:
    """Samples of seconds for a frame."""

    def __init__(self, stored: list[bytes], model: Path) -> None:
        self.decoder, self.inference = Decoder(stored, True), Inference(str(model))
        source, middle, sink = frame_actors()
        self.source = source.remote(stored, True)
        self.middle = middle.remote(str(model))
        self.sink = sink.remote()
        self.copied: dict[str, float] = {}

    def alone(self, n: int) -> list[float]:
        frames = map(self.decoder.stored_frame, range(n))
        return [reduced(self.inference.on(frame, bind=True)) for frame in frames]

    def actors(self, method: str, n: int) -> list[float]:
        ray.get(self.middle.copies.remote())
        pending: list[Any] = []
        results = []
        for number in range(n):
            if len(pending) == IN_FLIGHT:
                results.append(ray.get(pending.pop(0)))
            frame = getattr(self.source, method).remote(number)
            maps = getattr(self.middle, method).remote(frame)
            pending.append(self.sink.finish.remote(maps))
            del frame, maps
        results += ray.get(pending)
        pending.clear()
        self.copied[method] = ray.get(self.middle.copies.remote()) / n
        return results

    def sample(self, call: Any, n: int) -> float:
        start = time.perf_counter()
        call(n)
        return (time.perf_counter() - start) / n


def measure_frames(bench: Benchmark, folder: Path) -> None:
    frames = Frames(compressed(), frame_network(folder / "frames.onnx"))
    ways = {
        "one process": frames.alone,
        "actors, qnnrt's transport": lambda n: frames.actors("share", n),
        "actors, Ray's object store": lambda n: frames.actors("send", n),
    }
    expected = frames.alone(6)
    for name, way in ways.items():
        np.testing.assert_allclose(way(6), expected, rtol=1e-5, err_msg=name)
    case = bench.case("a frame of 1080p: decode, infer, reduce", "ms", NBYTES)
    for name, way in ways.items():
        case.sampled(name, lambda n, way=way: frames.sample(way, n))
    case.measure()
    copied = [0.0, frames.copied["share"], frames.copied["send"]]
    for one, nbytes in zip(case.ways, copied, strict=True):
        rate = 1 / statistics.median(one.times)
        one.facts |= {"copied_bytes": round(nbytes), "frames_per_second": rate}
        print(f"  {one.name:34}{rate:8.1f} frames a second {nbytes:14,.0f} bytes copied for each")


# ---- images


class OnnxRuntimeActor:
    """What SessionActor is measured against."""

    def __init__(self, model: str) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        x, found = batch["x"], []
        for begin in range(0, len(x), BATCH):
            some = x[begin : begin + BATCH]
            count = len(some)
            if count < BATCH:
                some = np.concatenate([some, np.zeros((BATCH - count, *IMAGE), np.float32)])
            found.append(self.session.run(None, {"x": some})[0][:count])
        return {"y": np.concatenate(found)}


class Timed:
    """An actor, and its processor time: of each row, and in the first one that of its start."""

    def __init__(self, make: Callable[[], Any]) -> None:
        begin = time.process_time()
        self.actor = make()
        self.start = time.process_time() - begin

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        begin = time.process_time()
        result = self.actor(batch)
        count = len(result["y"])
        rows, starts = np.full(count, (time.process_time() - begin) / count), np.zeros(count)
        starts[0], self.start = self.start, 0.0
        return {"y": result["y"], "row_seconds": rows, "start_seconds": starts}


def images(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    phase = batch["id"][:, None, None, None] * 0.01
    pixels = np.arange(np.prod(IMAGE)).reshape(1, *IMAGE) * 1e-3
    return {"x": np.sin(phase + pixels).astype(np.float32)}


def through(make: Callable[[], Any], count: int) -> tuple[float, dict[str, float]]:
    """Seconds of the whole run, and the sums of what came out."""
    begin = time.perf_counter()
    done = ray.data.range(count, override_num_blocks=max(4, count // 512)).map_batches(images)
    done = done.map_batches(
        Timed,
        fn_constructor_args=(make,),
        batch_size=8 * BATCH,
        compute=ray.data.ActorPoolStrategy(size=ACTORS),
        num_cpus=0.5,
    )
    sums = {"y": 0.0, "row_seconds": 0.0, "start_seconds": 0.0}
    for batch in done.iter_batches(batch_size=1024):
        for name in sums:
            sums[name] += float(batch[name].sum())
    return time.perf_counter() - begin, sums


def measure_images(bench: Benchmark, folder: Path) -> None:
    count = 320 if bench.smoke else 10_000
    model, binary = str(image_network(folder / "images.onnx")), str(folder / "images.bin")
    with qnnrt.Session(model, threads=1) as session:
        session.save_binary(binary)
    case: Case = bench.case(f"{count:,} images through Ray Data", "s")
    # What they import counts as their start.
    ways: dict[str, Callable[[], Any]] = {
        "SessionActor": lambda: importlib.import_module("qnnrt.ray").SessionActor(binary),
        "ONNX Runtime in the actor": lambda: OnnxRuntimeActor(model),
    }
    if optional("onnxruntime") is None:
        del ways["ONNX Runtime in the actor"]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for name in ways:
        case.sampled(name, lambda n: 0.0)
    for i in range(1 if bench.smoke else 3):
        for one in case.ways if i % 2 == 0 else case.ways[::-1]:
            seconds, sums = through(ways[one.name], count)
            one.times.append(seconds)
            results[one.name].append(sums)
    first = next(iter(results.values()))[0]["y"]
    np.testing.assert_allclose(
        [s["y"] for sums in results.values() for s in sums], first, rtol=1e-3
    )
    for one in case.ways:
        own = results[one.name]
        one.facts["images_per_second"] = count / statistics.median(one.times)
        one.facts["row_us"] = 1e6 * statistics.median(s["row_seconds"] for s in own) / count
        one.facts["start_ms"] = 1e3 * statistics.median(s["start_seconds"] for s in own) / ACTORS
    bench.show(case)
    for one in case.ways:
        print(
            f"  {one.name:34}{one.facts['images_per_second']:10.0f} images a second"
            f"{one.facts['row_us']:10.1f} us of processor time each"
            f"{one.facts['start_ms']:8.0f} ms to start"
        )


# ---- memory


class Worker:
    """Loads a network, runs it once and stays."""

    def __init__(self) -> None:
        import onnxruntime  # noqa: F401 - what is imported counts as before

        self.kept: Any = None

    def held(self) -> dict[str, int]:
        return held()

    def load(self, path: str, runtime: str, width: int) -> None:
        x = np.ones((1, width), np.float32)
        if runtime == "qnnrt":
            self.kept = qnnrt.Session(path, threads=1)
            self.kept.inputs["x"].array[...] = x
            self.kept.run()
        else:
            import onnxruntime as ort

            self.kept = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            self.kept.run(None, {"x": x})


def measure_memory(bench: Benchmark, folder: Path, workers: int = 4) -> None:
    width = 512 if bench.smoke else 2560
    model, binary = large_network(folder / "large.onnx", width), folder / "large.bin"
    with qnnrt.Session(model, threads=1) as session:
        session.save_binary(binary)
    weights = 4 * width * width * 4
    rows = bench.extra["memory"] = []
    print(f"\n{workers} workers, {weights / MIB:.0f} MiB of weights: MiB of PSS, together")
    ways = [
        ("qnnrt, context binary", binary, "qnnrt"),
        ("qnnrt, ONNX", model, "qnnrt"),
        ("onnxruntime, ONNX", model, "onnxruntime"),
    ]
    for name, path, runtime in ways:
        actors = [ray.remote(num_cpus=0)(Worker).remote() for _ in range(workers)]
        before = sum(h["pss"] for h in ray.get([a.held.remote() for a in actors]))
        ray.get([a.load.remote(str(path), runtime, width) for a in actors])
        held_after = ray.get([a.held.remote() for a in actors])
        after = sum(h["pss"] for h in held_after)
        rows.append(
            {
                "name": name,
                "processes": workers,
                "weights": weights,
                "rss_each": held_after[0]["rss"],
                "private_each": held_after[0]["private"],
                "pss_sum": after,
                "pss_sum_before_load": before,
            }
        )
        print(f"  {name:34}{(after - before) / MIB:8.0f} more than before {before / MIB:8.0f}")
        for actor in actors:
            ray.kill(actor)


def main() -> None:
    parts = {"frames": measure_frames, "images": measure_images, "memory": measure_memory}
    bench = Benchmark(
        *("ray_pipeline", __doc__),
        rounds=9,
        sample_ms=500,
        more=lambda parser: parser.add_argument("--only", nargs="+", choices=parts),
    )
    if ray is None:
        bench.case("Ray").missing("Ray")
    else:
        _ray.start(num_cpus=4, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        with tempfile.TemporaryDirectory() as folder:
            for part in bench.options.only or parts:
                parts[part](bench, Path(folder))
        ray.shutdown()
    bench.finish()


if __name__ == "__main__":
    main()
