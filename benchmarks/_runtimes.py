"""The same network in each runtime, ready to run: what the benchmarks compare.

Every runtime is used in its fastest documented way for memory that stays where it is: bound
tensors, no output copies. `Ready.call` runs once; `Ready.result` is what it computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from _harness import Call, optional
from onnx import TensorProto, helper

import qnnrt
from qnnrt.importers import onnx as importer

Feeds = dict[str, np.ndarray]


@dataclass
class Ready:
    """A network that waits for its next run. `keep` holds what `call` needs."""

    name: str
    call: Call
    result: Callable[[], np.ndarray]
    keep: object = None
    close: Callable[[], object] = lambda: None


@dataclass
class Missing:
    name: str
    reason: str = "not installed"


def elementwise(op: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """One float32 "Relu" (input a) or "Add" (inputs a, b); the output is y."""
    names = {"Relu": ["a"], "Add": ["a", "b"]}[op]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"])],
        op,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def own(feeds: Feeds) -> Feeds:
    """Memory of a way's own: nobody finds its inputs in the cache because another way read them."""
    return {name: array.copy() for name, array in feeds.items()}


def in_qnnrt(model: onnx.ModelProto, feeds: Feeds, threads: int, io: str = "memhandle") -> Ready:
    session = qnnrt.Session(importer.load(model), threads=threads, io=io)
    for name, array in feeds.items():
        session.inputs[name].array[...] = array
    (output,) = session.outputs.values()
    label = "qnnrt Session.run()" + ("" if io == "memhandle" else f", io={io!r}")
    return Ready(label, session.run, lambda: output.array, session, session.close)


def in_onnxruntime(model: onnx.ModelProto, feeds: Feeds, threads: int) -> Iterator[Ready | Missing]:
    names = ("onnxruntime run()", "onnxruntime IOBinding")
    ort = optional("onnxruntime")
    if ort is None:
        yield from map(Missing, names)
        return
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    feeds = own(feeds)
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    yield Ready(
        names[0],
        partial(session.run, None, feeds),
        lambda: session.run(None, feeds)[0],
        session,
    )
    output = session.get_outputs()[0]
    y = np.empty(output.shape, np.float32)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output(output.name, "cpu", 0, np.float32, y.shape, y.ctypes.data)
    yield Ready(
        names[1],
        partial(session.run_with_iobinding, binding),
        lambda: y,
        (session, binding, feeds),
    )


def in_openvino(model: onnx.ModelProto, feeds: Feeds, threads: int) -> Ready | Missing:
    name = "openvino infer()"
    ov = optional("openvino")
    if ov is None:
        return Missing(name)
    core = ov.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    request = compiled.create_infer_request()
    feeds = own(feeds)
    for tensor, array in feeds.items():
        request.set_tensor(tensor, ov.Tensor(array, shared_memory=True))
    y = np.empty(tuple(compiled.output(0).shape), np.float32)
    request.set_output_tensor(ov.Tensor(y, shared_memory=True))
    return Ready(
        name,
        partial(request.infer, share_outputs=True),  # otherwise the outputs are copied
        lambda: y,
        (compiled, request, feeds),
    )


def in_litert(op: str, shape: tuple[int, ...], feeds: Feeds, threads: int) -> Ready | Missing:
    """The interpreter on its own tensors, read and written in place."""
    name = "litert invoke()"
    if optional("ai_edge_litert") is None or optional("flatbuffers") is None:
        return Missing(name)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:  # its libraries want more than its wheel brings
        return Missing(name, f"does not load: {error}")
    interpreter = Interpreter(model_content=tflite(op, shape), num_threads=threads)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), feeds.values(), strict=True):
        interpreter.set_tensor(detail["index"], array)
    y = interpreter.get_output_details()[0]["index"]
    return Ready(name, interpreter.invoke, lambda: interpreter.get_tensor(y), interpreter)


def tflite(op: str, shape: tuple[int, ...]) -> bytes:
    """The network of `elementwise` as a .tflite file, written with the schema that LiteRT ships."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str) -> schema.TensorT:
        t = schema.TensorT()
        t.name, t.shape, t.type, t.buffer = name, list(shape), schema.TensorType.FLOAT32, 0
        return t

    inputs = {"Relu": [0], "Add": [0, 1]}[op]
    code = schema.OperatorCodeT()
    code.builtinCode = {"Relu": schema.BuiltinOperator.RELU, "Add": schema.BuiltinOperator.ADD}[op]
    code.deprecatedBuiltinCode = code.builtinCode
    code.version = 1
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, inputs, [len(inputs)]
    if op == "Add":
        operator.builtinOptionsType = schema.BuiltinOptions.AddOptions
        operator.builtinOptions = schema.AddOptionsT()
    graph = schema.SubGraphT()
    graph.tensors = [tensor(name) for name in ("a", "b")[: len(inputs)]] + [tensor("y")]
    graph.inputs, graph.outputs, graph.operators = inputs, [len(inputs)], [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
