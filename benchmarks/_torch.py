"""ONNX networks as PyTorch runs them, node by node with its own kernels: on CUDA, or as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose batch normalizations behind convolutions are part of their weights."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    readers: dict[str, int] = {o.name: 1 for o in graph.output}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    makers = {node.output[0]: node for node in graph.node}
    gone = []
    for node in graph.node:
        conv = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type != "Conv" or readers[node.input[0]] != 1:
            continue
        scale, bias, mean, variance = (known[name].astype(np.float64) for name in node.input[1:5])
        factor = scale / np.sqrt(variance + attributes(node).get("epsilon", 1e-5))
        weights = known[conv.input[1]]
        before = known[conv.input[2]] if len(conv.input) > 2 else 0.0
        for name, array in (
            (f"{node.name or node.output[0]} weights", weights * factor.reshape(-1, 1, 1, 1)),
            (f"{node.name or node.output[0]} bias", bias + (before - mean) * factor),
        ):
            graph.initializer.append(numpy_helper.from_array(array.astype(weights.dtype), name))
        del conv.input[1:]
        conv.input.extend(t.name for t in graph.initializer[-2:])
        conv.output[0] = node.output[0]
        gone.append(node)
    for node in gone:
        graph.node.remove(node)
    return copy


class Step(NamedTuple):
    """What a node reads and writes; a compiler that traces Python would stop at a protobuf."""

    input: list[str]
    output: list[str]


class Recorded:
    """What `call` does, again and again: by itself, or as one CUDA graph of all its kernels."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.replay: Callable[[], object] = self.call

    def call(self) -> None:
        raise NotImplementedError

    def record(self) -> None:
        """From now on `replay` is one CUDA graph of all kernels."""
        for _ in range(3):
            self.call()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            self.call()
        self.replay = graph.replay

    def run(self) -> None:
        self.replay()
        self.torch.cuda.synchronize()


class Network(Recorded):
    """A network's nodes as calls of torch; `call` runs all, `result` waits for the output.

    `half`: in 16-bit floats. `channels_last`: images and weights of convolutions in that layout.
    """

    def __init__(
        self,
        torch: Any,
        model: onnx.ModelProto,
        feeds: dict[str, np.ndarray],
        device: str = "cuda",
        half: bool = False,
        channels_last: bool = False,
    ) -> None:
        super().__init__(torch)
        self.graph = model.graph
        self.values: dict[str, Any] = {"": None}
        self.known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        # Read while a compiler traces the module: an array would become one of its tensors.
        self.lists = {n: a.tolist() for n, a in self.known.items() if a.dtype == np.int64}
        for name, array in {**self.known, **feeds}.items():
            value = torch.from_numpy(array.copy()).to(device)
            if half and value.is_floating_point():
                value = value.half()
            if channels_last and value.dim() == 4:
                value = value.contiguous(memory_format=torch.channels_last)
            self.values[name] = value
        self.steps = [
            (
                Step(list(node.input), list(node.output)),
                attributes(node),
                self.function(node.op_type),
            )
            for node in model.graph.node
        ]

    def function(self, op: str) -> Callable[..., Any]:
        found = getattr(self, f"on_{op.lower()}", None)
        if found is None:
            raise NotImplementedError(f"no {op} here")
        return found

    def call(self) -> None:
        with self.torch.inference_mode():
            for node, given, function in self.steps:
                out = function(node, given, *(self.values[name] for name in node.input))
                self.values[node.output[0]] = out

    def result(self) -> np.ndarray:
        found: np.ndarray = self.values[self.graph.output[0].name].float().cpu().numpy()
        return found

    def padded(self, x: Any, given: dict[str, Any], fill: float) -> tuple[Any, list[int]]:
        """Torch pads both sides alike; where a node does not, the input is padded before."""
        pads = list(given.get("pads", [0, 0, 0, 0]))
        if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise NotImplementedError("no auto_pad here")
        if pads[:2] == pads[2:]:
            return x, pads[:2]
        top, left, bottom, right = pads
        return self.torch.nn.functional.pad(x, (left, right, top, bottom), value=fill), [0, 0]

    def on_conv(self, node: Any, given: dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
        x, pads = self.padded(x, given, 0.0)
        return self.torch.nn.functional.conv2d(
            x, w, b, given.get("strides", [1, 1]), pads, given.get("dilations", [1, 1]),
            given.get("group", 1),
        )  # fmt: skip

    def on_relu(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return self.torch.relu(x)

    def on_maxpool(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        x, pads = self.padded(x, given, -float("inf"))
        return self.torch.nn.functional.max_pool2d(
            x, given["kernel_shape"], given.get("strides", [1, 1]), pads,
            ceil_mode=bool(given.get("ceil_mode", 0)),
        )  # fmt: skip

    def on_averagepool(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        counted = bool(given.get("count_include_pad", 0))
        pads = list(given.get("pads", [0, 0, 0, 0]))
        average = self.torch.nn.functional.avg_pool2d
        args = given["kernel_shape"], given.get("strides", [1, 1])
        if pads[:2] == pads[2:]:
            return average(x, *args, pads[:2], count_include_pad=counted)
        x, _ = self.padded(x, given, 0.0)
        if counted:
            return average(x, *args)
        ones, _ = self.padded(self.torch.ones_like(x[:1, :1]), given | {"pads": [0] * 4}, 0.0)
        top, left, bottom, right = pads
        ones[..., :top, :] = 0
        ones[..., :left] = 0
        ones[..., ones.shape[-2] - bottom :, :] = 0
        ones[..., ones.shape[-1] - right :] = 0
        return average(x, *args) / average(ones, *args)

    def on_globalaveragepool(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def on_lrn(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return self.torch.nn.functional.local_response_norm(
            x,
            given["size"],
            given.get("alpha", 1e-4),
            given.get("beta", 0.75),
            given.get("bias", 1.0),
        )

    def on_batchnormalization(self, node: Any, given: dict[str, Any], x: Any, *args: Any) -> Any:
        scale, bias, mean, variance = args
        return self.torch.nn.functional.batch_norm(
            x, mean, variance, scale, bias, eps=given.get("epsilon", 1e-5)
        )

    def on_concat(self, node: Any, given: dict[str, Any], *parts: Any) -> Any:
        return self.torch.cat(parts, given["axis"])

    def on_gemm(self, node: Any, given: dict[str, Any], a: Any, b: Any, c: Any = None) -> Any:
        a = a.t() if given.get("transA", 0) else a
        b = b.t() if given.get("transB", 0) else b
        y = given.get("alpha", 1.0) * (a @ b)
        return y if c is None else y + given.get("beta", 1.0) * c

    def on_add(self, node: Any, given: dict[str, Any], a: Any, b: Any) -> Any:
        return self.aligned(self.torch.add, given, a, b)

    def on_mul(self, node: Any, given: dict[str, Any], a: Any, b: Any) -> Any:
        return self.aligned(self.torch.mul, given, a, b)

    def on_sum(self, node: Any, given: dict[str, Any], *parts: Any) -> Any:
        return sum(parts[1:], parts[0])

    def aligned(self, function: Callable[..., Any], given: dict[str, Any], a: Any, b: Any) -> Any:
        """Old networks say at which axis b begins."""
        if "axis" in given:
            b = b.reshape(*b.shape, *[1] * (a.dim() - given["axis"] - b.dim()))
        return function(a, b)

    def on_reshape(self, node: Any, given: dict[str, Any], x: Any, shape: Any = None) -> Any:
        sizes = given["shape"] if shape is None else self.lists[node.input[1]]
        return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(sizes)])

    def on_flatten(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return x.flatten(1)

    def on_unsqueeze(self, node: Any, given: dict[str, Any], x: Any, axes: Any = None) -> Any:
        for axis in given["axes"] if axes is None else self.lists[node.input[1]]:
            x = x.unsqueeze(axis)
        return x

    def on_transpose(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return x.permute(given["perm"])

    def on_dropout(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return x

    def on_softmax(self, node: Any, given: dict[str, Any], x: Any) -> Any:
        return x.flatten(1).softmax(1).reshape(x.shape)


class Compiled:
    """The same by torch.compile, which makes CUDA graphs of what it has compiled."""

    def __init__(self, torch: Any, model: onnx.ModelProto, given: Network, **how: bool) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        self.torch = torch
        known = {t.name for t in model.graph.initializer}
        self.inputs = [given.values[i.name] for i in model.graph.input if i.name not in known]
        with torch.no_grad():
            traced = make_fx(module(torch, model, **how).cuda())(*self.inputs)
        self.module = torch.compile(traced, mode="reduce-overhead", dynamic=False)

    def run(self) -> None:
        with self.torch.no_grad():
            self.output = self.module(*self.inputs)
        self.torch.cuda.synchronize()

    def result(self) -> np.ndarray:
        found: np.ndarray = self.output.float().cpu().numpy()
        return found


def module(torch: Any, model: onnx.ModelProto, **how: bool) -> Any:
    """The network as a torch.nn.Module of its inputs, in their order; its constants are buffers."""
    network = Network(torch, model, {}, device="cpu", **how)
    names = {name: f"constant{i}" for i, name in enumerate(network.known)}
    inputs = [i.name for i in model.graph.input if i.name not in names]
    result = model.graph.output[0].name

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, buffer in names.items():
                self.register_buffer(buffer, network.values[name])

        def forward(self, *given: Any) -> Any:
            values = {name: getattr(self, buffer) for name, buffer in names.items()}
            values |= dict(zip(inputs, given, strict=True)) | {"": None}
            for node, attributes, function in network.steps:
                found = function(node, attributes, *(values[name] for name in node.input))
                values[node.output[0]] = found
            return values[result]

    return Module().eval()
