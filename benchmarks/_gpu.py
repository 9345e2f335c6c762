"""What benchmarks/gpu.py compares with: sessions on the device, PyTorch's ways, processes that
start.

    python benchmarks/_gpu.py NAME      a process whose start is measured: prints JSON
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _harness import optional
from _torch import Recorded
from onnx import numpy_helper

import qnnrt
from qnnrt.gpu.options import PRECISIONS
from qnnrt.importers import onnx as importer
from qnnrt.model import Model, Node, Tensor

sys.path.append(str(Path(__file__).parents[1] / "tools"))

F32 = np.dtype(np.float32)
#: A precision of these benchmarks as an option of a session.
OPTIONS = {"fp32": "user", "tf32": "tf32", "fp16": "fp16"}


def cuda(precision: str) -> Any:
    """PyTorch with a device, whose 32-bit floats are multiplied as such or, at "tf32", rounded;
    None where there is none."""
    torch = optional("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    return torch


class OnDevice:
    """A session whose inputs and outputs are OpenCL buffers, or what the backend makes them."""

    def __init__(
        self,
        model: Model,
        backend: qnnrt.qnn.Backend,
        feeds: dict[str, Any],
        precision: str = "user",
    ) -> None:
        cl: Any = importlib.import_module("pyopencl")
        self.library: Any = backend.library
        options = {"gpu": {"precision": precision}} if precision != "user" else None
        with warnings.catch_warnings():  # that a device has memory of its own, which is the point
            warnings.simplefilter("ignore")
            self.session = qnnrt.Session(model, backend, options=options)
        self.queue = self.library.cl_queue
        self.buffers = {}
        if not self.library.device.shared:
            for io in (self.session.inputs, self.session.outputs):
                for name, bound in io.items():
                    size = int(np.prod(bound.shape)) * bound.dtype.itemsize
                    buffer = cl.Buffer(self.library.cl_context, cl.mem_flags.READ_WRITE, size)
                    bound.bind(buffer)
                    self.buffers[name] = buffer
        for name, array in feeds.items():
            if name in self.buffers:
                cl.enqueue_copy(self.queue, self.buffers[name], np.ascontiguousarray(array))
            else:
                self.session.inputs[name].array[...] = array
        self.copy = cl.enqueue_copy

    @classmethod
    def at(
        cls,
        precision: str,
        case: Any,
        model: Model,
        backend: qnnrt.qnn.Backend,
        feeds: dict[str, Any],
    ) -> OnDevice | None:
        """One of a case's ways; None, which the case says, where there is no such precision."""
        option = OPTIONS[precision]
        if option not in PRECISIONS:
            case.missing("qnnrt, handles", f"there is no precision {option!r}")
            return None
        made = cls(model, backend, feeds, option)
        case.add("qnnrt, handles", made.session.run)
        return made

    def result(self) -> np.ndarray:
        (name, output), *_ = self.session.outputs.items()
        if name not in self.buffers:
            return np.array(output.array)
        found = np.empty(output.shape, output.dtype)
        self.copy(self.queue, found, self.buffers[name])
        return found

    def kernels(self) -> list[str]:
        """Of a run, in order."""
        return [step["kernel"] for step in json.loads(self.session.graph.describe())["steps"]]

    def close(self) -> None:
        self.session.close()
        for buffer in self.buffers.values():
            buffer.release()


def one_node(op: str, shapes: dict[str, tuple[int, ...]], dtype: np.dtype[Any] = F32) -> Model:
    """Of all shapes but the last, which is the output's."""
    tensors = {name: Tensor(name, shape, dtype) for name, shape in shapes.items()}
    *inputs, output = shapes
    return Model(op, tensors, [Node("node", op, inputs, [output])], inputs, [output])


def softmaxes(count: int, shape: tuple[int, ...]) -> Model:
    """One behind the other: kernels that nothing is fused into."""
    names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    tensors = {name: Tensor(name, shape, F32) for name in names}
    nodes = [
        Node(f"node{i}", "Softmax", [names[i]], [names[i + 1]], {"axis": np.uint32(1)})
        for i in range(count)
    ]
    return Model("softmaxes", tensors, nodes, ["x"], ["y"])


class Chain(Recorded):
    """The same in PyTorch."""

    def __init__(self, torch: Any, count: int, x: np.ndarray) -> None:
        super().__init__(torch)
        self.count, self.x = count, torch.from_numpy(x.copy()).cuda()

    def call(self) -> None:
        y = self.x
        with self.torch.inference_mode():
            for _ in range(self.count):
                y = self.torch.softmax(y, 1)
        self.y = y

    def result(self) -> np.ndarray:
        self.run()
        found: np.ndarray = self.y.cpu().numpy()
        return found


def loaded(proto: Any) -> Model:
    """For this package."""
    model = importer.load(proto)
    assert isinstance(model, Model)
    return model


def network(name: str, batch: int = 1) -> tuple[Any, dict[str, np.ndarray]]:
    """A network of the ONNX package, or a small one, with its batch normalizations folded, and
    images for it."""
    from _torch import folded

    from zoo import client_models

    if name == "small":
        proto = client_models.conv_net(seed=1)
    else:
        proto = client_models.light_model(name, seed=1)
        del proto.graph.output[1:]  # what the tests look at
    proto = folded(proto)
    if batch != 1:
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = batch
        del proto.graph.value_info[:]
        _reshape(proto, batch)
    if name in _DAMPED:
        _damp(proto)
    known = {t.name for t in proto.graph.initializer}
    r = np.random.default_rng(2)
    return proto, {
        i.name: r.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim], F32)
        for i in proto.graph.input
        if i.name not in known
    }


#: Networks whose sums of residuals grow beyond 16-bit floats with random weights.
_DAMPED = ("resnet50", "shufflenet")


def _damp(proto: Any) -> None:
    """Smaller weights."""
    weights = {node.input[1] for node in proto.graph.node if node.op_type == "Conv"}
    for constant in proto.graph.initializer:
        if constant.name in weights:
            smaller = numpy_helper.to_array(constant) * F32.type(0.7)
            constant.CopyFrom(numpy_helper.from_array(smaller, constant.name))


def _reshape(proto: Any, batch: int) -> None:
    """Shapes that are written down for one image become those for several."""
    targets = {node.input[1] for node in proto.graph.node if node.op_type == "Reshape"}
    for constant in proto.graph.initializer:
        if constant.name in targets:
            shape = numpy_helper.to_array(constant).copy()
            if len(shape) and shape[0] == 1:
                shape[0] = batch
                constant.CopyFrom(numpy_helper.from_array(shape, constant.name))


def peers(
    torch: Any,
    proto: Any,
    feeds: dict[str, np.ndarray],
    precision: str,
    compile_too: bool,
    left: Callable[[float], bool],
) -> Iterator[tuple[str, Any]]:
    """Names and PyTorch's ways, each with `run` and `result` and run once; a reason for those that
    are not there."""
    from _torch import Compiled, Network

    for layout in ("", ", channels last"):
        how: dict[str, Any] = {"half": precision == "fp16", "channels_last": bool(layout)}
        try:
            eager = Network(torch, proto, feeds, **how)
            eager.run()
            yield f"PyTorch CUDA{layout}", eager
            graph = Network(torch, proto, feeds, **how)
            graph.record()
            graph.run()
            yield f"PyTorch CUDA graph{layout}", graph
        except NotImplementedError as e:
            yield f"PyTorch CUDA{layout}", str(e)
            continue
        label = f"torch.compile{layout}"
        if not compile_too:
            yield label, "left out"
        elif not left(90):
            yield label, "the time was over"
        else:
            try:
                compiled = Compiled(torch, proto, eager, **how)
                for _ in range(3):
                    compiled.run()
            except Exception as e:  # a compiler of many parts, some of which need others
                yield label, f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            else:
                yield label, compiled


# ---- processes that start


def starts(name: str) -> list[dict[str, Any]]:
    """Of a network: with empty caches, and with what the first process has kept."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": folder,
            "CUDA_CACHE_PATH": f"{folder}/cuda",  # the driver's own
            "POCL_CACHE_DIR": f"{folder}/pocl",
        }
        for state in ("cold", "warm"):
            began = time.perf_counter()
            run = subprocess.run(
                [sys.executable, __file__, name],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            whole = time.perf_counter() - began
            said = json.loads(run.stdout.splitlines()[-1])
            rows.append({"network": name, "caches": state, "process": round(whole, 3), **said})
    return rows


def main() -> None:
    proto, feeds = network(sys.argv[1])
    model = loaded(proto)
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    with qnnrt.Session(model, "gpu") as session:
        made = time.perf_counter()
        session.run(feeds)
        first = time.perf_counter()
        session.run(feeds)
        second = time.perf_counter()
    report = {"session": made - began, "first_run": first - made, "second_run": second - first}
    print(json.dumps({key: round(value, 4) for key, value in report.items()}))


def device_bytes() -> int | None:
    """Of a CUDA device's memory in use, by everybody; None where nobody says so."""
    try:
        run = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return int(run.stdout.split()[0]) << 20


if __name__ == "__main__":
    main()
