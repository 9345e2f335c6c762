"""A camera and two workers that infer: frames in the slots of a Channel, none of them copied."""

import multiprocessing
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper

import qnnrt

SHAPE = (1, 3, 240, 320)
FRAMES = 24


def save_model(path: Path) -> None:
    """The mean of each colour: something small that needs no download."""
    node = helper.make_node("GlobalAveragePool", ["frame"], ["mean"])
    frame = helper.make_tensor_value_info("frame", TensorProto.FLOAT, SHAPE)
    mean = helper.make_tensor_value_info("mean", TensorProto.FLOAT, (1, 3, 1, 1))
    graph = helper.make_graph([node], "means", [frame], [mean])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def worker(channel: qnnrt.Channel, model: Path, results: SimpleQueue) -> None:
    """Runs the model on frames where they are, whichever it gets."""
    with qnnrt.Session(qnnrt.load(model), "htp", strict=True) as session:
        x, y = session.inputs["frame"], session.outputs["mean"]
        with channel.consumer() as consumer:
            for slot in consumer:
                x.bind(slot.array)
                session.run()
                results.put((slot.sequence, y.array.ravel().tolist()))
        results.put((session.stats.executes, session.stats.copied_bytes))
        del slot
        x.bind(qnnrt.alloc(x.nbytes))  # the channel's memory is not the session's any more
    channel.close()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with TemporaryDirectory() as folder:
        model = Path(folder, "means.onnx")
        save_model(model)
        # Each frame to one worker; workers cannot write what others read.
        with qnnrt.Channel(SHAPE, np.float32, 6, delivery="one", readonly=True) as channel:
            workers = [
                context.Process(target=worker, args=(channel, model, results)) for _ in range(2)
            ]
            for process in workers:
                process.start()
            with channel.producer() as camera:
                camera.wait_for_consumers(2, timeout=120)
                for number in range(FRAMES):
                    with camera.next() as slot:
                        slot.array[...] = np.arange(3).reshape(1, 3, 1, 1) + number
            answers = [results.get() for _ in range(FRAMES + 2)]
            for process in workers:
                process.join()
    means = dict(answer for answer in answers if isinstance(answer[1], list))
    assert means == {n: [n, n + 1, n + 2] for n in range(FRAMES)}
    shares = [answer for answer in answers if not isinstance(answer[1], list)]
    assert sum(executes for executes, _ in shares) == FRAMES
    for executes, copied in shares:
        print(f"a worker: {copied} bytes copied" + (f" in {executes} runs" if executes else ""))
    print(f"{FRAMES} frames of {np.prod(SHAPE) * 4} bytes, each to one of {len(workers)} workers")


if __name__ == "__main__":
    main()
