"""Whole networks in each runtime, ready to run; each in its fastest documented way.

`RUNTIMES` has what `models.py` compares. Each takes a job and a number of threads and gives a
`Running`, or raises `Unavailable`. Files are read from disk: a runtime may map its weights.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Call, optional
from _networks import Feeds, Job, module

import qnnrt


class Unavailable(Exception):
    """Why a runtime does not run a network."""


@dataclass
class Running:
    """`keep` holds what `call` needs; `precision` is what the runtime says that it computes in."""

    call: Call
    results: Callable[[], list[np.ndarray]]
    keep: object = None
    close: Callable[[], object] = lambda: None
    precision: str = ""
    inputs: Feeds = field(default_factory=dict)  # what `call` reads, where it can be written


def needed(name: str) -> Any:
    found = optional(name)
    if found is None:
        raise Unavailable("not installed")
    return found


def in_qnnrt(job: Job, threads: int, precision: str = "float32") -> Running:
    more: dict[str, Any] = {}
    if precision != "float32":
        more["precision"] = precision
    session = qnnrt.Session(job.onnx, threads=threads, **more)
    inputs = {name: tensor.array for name, tensor in session.inputs.items()}
    for name, array in job.feeds().items():
        inputs[name][...] = array
    outputs = list(session.outputs.values())
    return Running(
        session.run,
        lambda: [output.array for output in outputs],
        session,
        session.close,
        str(getattr(session, "precision", "")),
        inputs,
    )


def ours(job: Job, threads: int) -> Running:
    narrow = job.precision in ("bfloat16", "float16")
    return in_qnnrt(job, threads, job.precision if narrow else "float32")


def in_onnxruntime(job: Job, threads: int) -> Running:
    ort = needed("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(job.onnx), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    feeds = job.feeds()
    for name, array in feeds.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    results = [np.empty(output.shape, np.float32) for output in session.get_outputs()]
    for output, y in zip(session.get_outputs(), results, strict=True):
        binding.bind_output(output.name, "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return Running(
        partial(session.run_with_iobinding, binding), lambda: results, (session, binding, feeds)
    )


def in_openvino(job: Job, threads: int, hint: str | None) -> Running:
    ov = needed("openvino")
    core = ov.Core()
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if hint is not None:
        settings["INFERENCE_PRECISION_HINT"] = hint
        # Else products with 8-bit weights have their activations rounded to 8 bits.
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    compiled = core.compile_model(core.read_model(str(job.onnx)), "CPU", settings)
    request = compiled.create_infer_request()
    feeds = job.feeds()
    for name, array in feeds.items():
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))
    results = [np.empty(tuple(output.shape), np.float32) for output in compiled.outputs]
    for i, y in enumerate(results):
        request.set_output_tensor(i, ov.Tensor(y, shared_memory=True))
    return Running(
        partial(request.infer, share_outputs=True),  # otherwise the outputs are copied
        lambda: results,
        (compiled, request, feeds),
        precision=compiled.get_property("INFERENCE_PRECISION_HINT").to_string(),
        inputs=feeds,
    )


def inputs_of(job: Job) -> Any:
    torch = needed("torch")
    return tuple(torch.from_numpy(array) for array in job.feeds().values())


def in_compiled_torch(job: Job, threads: int) -> Running:
    """Weights are constants of the compiled code; bfloat16 by autocast, as torch's pages say."""
    torch = needed("torch")
    from torch._inductor import config

    torch.set_num_threads(threads)
    config.freezing = True
    config.cpp.cxx = (None, os.environ.get("CXX", "g++").split()[-1])  # without what caches it
    torch._dynamo.reset()
    compiled = torch.compile(module(job.name, job.tiny), fullgraph=True, dynamic=False)
    inputs = inputs_of(job)
    narrow = job.precision == "bfloat16"
    found: list[Any] = []

    def call() -> None:
        with (
            torch.inference_mode(),
            torch.autocast("cpu", torch.bfloat16, enabled=narrow),
        ):
            y = compiled(*inputs)
        found[:] = y if isinstance(y, tuple) else (y,)

    return Running(call, lambda: [y.float().numpy() for y in found], (compiled, inputs))


def to_ncnn(job: Job) -> None:
    """By pnnx, from a trace. It writes more files than needed, all of them beside the network."""
    pnnx = needed("pnnx")
    needed("torch")
    base = job.file("-ncnn")
    files = {f"ncnn{part}": f"{base}.{part}" for part in ("param", "bin", "py")}
    files |= {f"pnnx{part}": f"{base}.pnnx.{part}" for part in ("param", "bin", "py", "onnx")}
    pnnx.export(
        module(job.name, job.tiny),
        f"{base}.pt",
        inputs_of(job),
        **files,
        fp16=False,
        check_trace=False,
    )


def in_ncnn(job: Job, threads: int) -> Running:
    ncnn = needed("ncnn")
    base = job.file("-ncnn")
    if not Path(f"{base}.param").exists():
        raise Unavailable("pnnx does not convert it")
    net = ncnn.Net()
    net.opt.num_threads = threads
    for part in ("packed", "storage", "arithmetic"):
        setattr(net.opt, f"use_fp16_{part}", False)
    narrow = job.precision == "bfloat16"
    net.opt.use_bf16_storage = net.opt.use_bf16_packed = narrow
    if net.load_param(f"{base}.param") or net.load_model(f"{base}.bin"):
        raise Unavailable("does not load what pnnx wrote")
    mats = []
    for array in job.feeds().values():  # without the batch; indices have 32 bits
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        mats.append(ncnn.Mat(np.ascontiguousarray(array[0] if array.ndim > 1 else array)).clone())
    names = net.input_names(), net.output_names()
    found: list[Any] = []

    def call() -> None:
        extractor = net.create_extractor()
        for name, mat in zip(names[0], mats, strict=True):
            extractor.input(name, mat)
        found[:] = []
        for name in names[1]:
            code, y = extractor.extract(name)
            if code:
                raise Unavailable(f"fails with code {code}")
            found.append(y)

    return Running(call, lambda: [np.array(y) for y in found], (net, mats))


def to_executorch(job: Job) -> None:
    torch = needed("torch")
    needed("executorch")
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    logging.disable(logging.WARNING)
    with torch.no_grad():
        program = torch.export.export(module(job.name, job.tiny), inputs_of(job))
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        job.file(".pte").write_bytes(edge.to_executorch().buffer)


def in_executorch(job: Job, threads: int) -> Running:
    needed("executorch")
    if not job.file(".pte").exists():
        raise Unavailable("its exporter does not convert it")
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    program = portable_lib._load_for_executorch(str(job.file(".pte")))
    inputs = inputs_of(job)
    found: list[Any] = []

    def call() -> None:
        found[:] = program.run_method("forward", inputs, clone_outputs=False)

    return Running(call, lambda: [y.numpy() for y in found], (program, inputs))


Make = Callable[[Job, int], Running]

RUNTIMES: dict[str, Make] = {
    "qnnrt": ours,
    "qnnrt in float32": in_qnnrt,
    "qnnrt in float16": partial(in_qnnrt, precision="float16"),
    "onnxruntime": in_onnxruntime,
    "openvino in f32": partial(in_openvino, hint="f32"),
    "openvino": partial(in_openvino, hint=None),
    "openvino in f16": partial(in_openvino, hint="f16"),
    "torch.compile": in_compiled_torch,
    "ncnn": in_ncnn,
    "executorch": in_executorch,
}
#: What a program imports before it loads a network.
MODULES = {
    "onnxruntime": "onnxruntime",
    "openvino in f32": "openvino",
    "openvino": "openvino",
    "openvino in f16": "openvino",
    "torch.compile": "torch._inductor.compile_fx",
    "ncnn": "ncnn",
    "executorch": "executorch.extension.pybindings.portable_lib",
}
#: What writes the file that a runtime loads.
CONVERTERS: dict[str, Callable[[Job], None]] = {"ncnn": to_ncnn, "executorch": to_executorch}
COMPARED = {
    "float32": ("onnxruntime", "openvino in f32", "torch.compile", "ncnn", "executorch"),
    "bfloat16": ("openvino", "torch.compile", "ncnn", "qnnrt in float32"),
    "int8": ("onnxruntime", "openvino in f32", "openvino"),
    "a16w8": ("onnxruntime", "openvino in f32", "openvino"),
}
