"""A load test of server.py that ends by itself: starts it, asks from several threads, stops it.

python load.py [--requests N] [--clients N]
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from client import Client
from onnx import TensorProto, helper

FRAME = (3, 720, 1280)


def save_model(path: Path) -> None:
    """The brightest value of each colour in tiles of 80 x 80: little to compute, much to move."""
    node = helper.make_node(
        "MaxPool", ["frame"], ["tiles"], kernel_shape=[80] * 2, strides=[80] * 2
    )
    frame = helper.make_tensor_value_info("frame", TensorProto.FLOAT, ("batch", *FRAME))
    tiles = helper.make_tensor_value_info("tiles", TensorProto.FLOAT, ("batch", 3, 9, 16))
    graph = helper.make_graph([node], "tiles", [frame], [tiles])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def ask(folder: Path, number: int, requests: int, way: str, seconds: list[float]) -> None:
    client = Client(folder, batch=1)
    frame, tiles = client.inputs["frame"], client.outputs["tiles"]
    for i in range(requests):
        frame[0, :, ::80, ::80] = number * requests + i + 1  # where it lies
        start = time.perf_counter()
        getattr(client, way)()
        seconds.append(time.perf_counter() - start)
        assert (tiles == number * requests + i + 1).all()
    client.close()


def load(folder: Path, clients: int, requests: int, way: str) -> None:
    observer = Client(folder, batch=1)
    before = observer.health()
    seconds: list[float] = []
    threads = [
        threading.Thread(target=ask, args=(folder, n, requests, way, seconds))
        for n in range(clients)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    after = observer.health()
    observer.close()
    runs = after["runs"] - before["runs"]
    assert runs == len(seconds) == clients * requests, "a request has failed"
    copied = (after["copied_bytes"] - before["copied_bytes"]) // runs
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    print(
        f"{'in place' if way == 'run' else 'as bytes'}: {runs} requests, {runs / took:.0f} a "
        f"second, p50 {p50:.2f} ms, p99 {p99:.2f} ms, {copied} bytes copied for each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="A load test of server.py.")
    parser.add_argument("--requests", type=int, default=100, help="of each client")
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "tiles.onnx")
        command = [sys.executable, Path(__file__).with_name("server.py"), folder / "tiles.onnx"]
        server = subprocess.Popen([*map(str, command), str(folder / "service")])
        try:
            while not (folder / "service" / "http").exists():
                if server.poll() is not None:
                    sys.exit("the server has ended")
                time.sleep(0.05)
            for way in ("run", "run_bytes"):
                load(folder / "service", options.clients, options.requests, way)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
