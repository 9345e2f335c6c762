"""``qnnrt platform-validator``: whether a backend works on this machine, shown by using it.

Each backend is looked at in a process of its own, so that a library that crashes is a line in the
report and not the end of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from .. import qnn
from .._native import _core
from ..abi import constants as abi
from ..errors import BackendNotFoundError, Error, QnnError
from ..memory import alloc
from ..qnn.backend import LIBRARIES, Backend, library_path, open_library
from ..qnn.backend_base import BackendBase
from ._common import UsageError, print_json, progress
from ._tools import Warn, harmless, logged, tool_parser
from .info import cpu_name

if TYPE_CHECKING:
    from ..gpu.device import Device
    from ..gpu.library import Library as GpuLibrary

#: The SDK's name for a backend -> ours.
_NAMES: Final = {"dsp": "htp"}
_ALL: Final = ("cpu", "gpu", "htp")
#: The backend of this package that is no library: it works through OpenCL.
_OWN_GPU: Final = "gpu"
_OPENCL: Final = "pyopencl"
_TIMEOUT_S: Final = 300
#: Half precision is fine: accelerators compute float graphs in it.
_TOLERANCE: Final = 1e-2

SUPPORTED, NOT_SUPPORTED = "Supported", "Not Supported"
FOUND, NOT_FOUND = "Found", "Not Found"
PASSED, FAILED = "Passed", "Failed"
NOT_QUERIED, NOT_AVAILABLE = "Not Queried", "Not Available"

#: Key of a report -> what its line is called.
_LINES: Final = {
    "hardware": "Backend Hardware",
    "libraries": "Backend Libraries",
    "library_version": "Library Version",
    "core_version": "Core Version",
    "unit_test": "Unit Test",
    "shared_memory": "Shared Memory",
}


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "check that a backend works on this machine"
    parser = tool_parser(commands, "platform-validator", text)
    parser.add_argument(
        "--backend",
        required=True,
        help="dsp (or htp), gpu, cpu, all, or the path of a QNN backend library",
    )
    parser.add_argument("--coreVersion", action="store_true", help="name the core it runs on")
    parser.add_argument("--libVersion", action="store_true", help="name the library's version")
    parser.add_argument(
        "--testBackend",
        action="store_true",
        help="run a small graph on it and compare the numbers, on ordinary and on shared memory",
    )
    parser.add_argument(
        "--targetPath", metavar="DIR", type=Path, help="take the libraries (libQnnHtp.so ...) there"
    )
    parser.add_argument("--debug", action="store_true", help="what the backends say, on stderr")
    harmless(parser, "--deviceId", "this machine is looked at", metavar="ID")
    harmless(parser, "--targetArch", "this machine is looked at", metavar="ARCH")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.worker:
        with logged("debug") if options.debug else nullcontext():
            print(json.dumps(examine(options.backend, options.testBackend)))
        return 0
    warn = Warn(options)
    if options.targetPath is not None and not options.targetPath.is_dir():
        raise UsageError(f"--targetPath {options.targetPath}: no such folder")
    names = list(_ALL) if options.backend == "all" else [options.backend]
    reports = {}
    for name in progress(names, "backends"):
        reports[name] = report(name, options)
    if options.json:
        print_json({"backends": reports, "warnings": warn.lines})
    else:
        print("\n".join(line for name in names for line in lines(name, reports[name])))
    return 0 if good(reports.values(), options) else 1


def good(reports: Any, options: argparse.Namespace) -> bool:
    """A backend that was named has to work; of all of them, those that are there, and one is."""
    usable = [r for r in reports if r["hardware"].startswith(SUPPORTED)]
    if not usable or (options.backend != "all" and len(usable) < len(reports)):
        return False
    return all(FAILED not in (r["unit_test"], r["shared_memory"]) for r in usable)


def report(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What is known of one backend, by the keys of the lines, with "library" and "reason"."""
    blank = dict.fromkeys(_LINES, NOT_QUERIED)
    missing = {**blank, "hardware": NOT_SUPPORTED, "libraries": NOT_FOUND, "library": None}
    try:
        library = _library(name, options.targetPath)
    except BackendNotFoundError as error:
        return {**missing, "reason": str(error)}
    found = _in_child(library, options)
    shown = found.get("library", library)
    if not found["opened"]:
        return {**missing, "library": shown, "reason": found["reason"]}
    answer = {**blank, "libraries": FOUND, "hardware": found["hardware"], "library": shown}
    if options.libVersion:
        answer["library_version"] = found["library_version"]
    if options.coreVersion:
        answer["core_version"] = found["core_version"]
    if options.testBackend:
        answer["unit_test"] = found["unit_test"]
        answer["shared_memory"] = found["shared_memory"]
    return {**answer, "reason": found["reason"]}


def _library(name: str, folder: Path | None) -> str:
    """The path of a backend's library; of the gpu backend, which is none, its name."""
    known = _NAMES.get(name, name)
    if known not in LIBRARIES and os.sep not in name and ".so" not in name:
        raise UsageError(f"--backend {name}: expected dsp, htp, gpu, cpu, all, or a path")
    if folder is None:
        return known if known == _OWN_GPU else library_path(known)
    if known not in LIBRARIES:
        raise UsageError(f"--backend {name}: with --targetPath it is dsp, htp, gpu, cpu or all")
    path = folder / LIBRARIES[known]
    if not path.exists():
        raise BackendNotFoundError(f"there is no {path.name} in {folder}")
    return str(path)


def _in_child(library: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "qnnrt", "platform-validator", "--worker"]
    command += ["--backend", library]
    command += ["--testBackend"] if options.testBackend else []
    command += ["--debug"] if options.debug else []
    package = str(Path(__file__).resolve().parents[2])
    paths = filter(None, [package, os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=None if options.debug else subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _crashed(f"it did not answer within {_TIMEOUT_S} s")
    if done.returncode < 0:
        return _crashed(f"it crashed: {signal.Signals(-done.returncode).name}")
    if done.returncode or not done.stdout.strip():
        said = (done.stderr or "").strip().splitlines()
        return _crashed(said[-1] if said else f"exit status {done.returncode}")
    # A library may print lines of its own before ours.
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _crashed(reason: str) -> dict[str, Any]:
    return {
        "opened": True,
        "hardware": NOT_SUPPORTED,
        "library_version": NOT_AVAILABLE,
        "core_version": NOT_AVAILABLE,
        "unit_test": FAILED,
        "shared_memory": FAILED,
        "reason": reason,
    }


# ---- in the child --------------------------------------------------------------------------------


def examine(name: str, test: bool) -> dict[str, Any]:
    """Open a backend library, ask what it is, and run the unit test if asked to."""
    try:
        library = open_library(name)
    except Error as error:
        return {"opened": False, "library": None, "reason": str(error)}
    answer = _crashed("") | {"unit_test": NOT_QUERIED, "shared_memory": NOT_QUERIED}
    if name == _OWN_GPU:
        answer["library"] = _OPENCL
    try:
        backend = Backend(library)
    except QnnError as error:
        return {**answer, "reason": str(error)}
    with backend:
        answer["hardware"] = SUPPORTED + _instead(backend)
        answer["library_version"] = library_version(backend)
        answer["core_version"] = core_version(backend)
        if test:
            answer.update(unit_test(backend))
    return answer


def library_version(backend: Backend) -> str:
    try:
        build = backend.build_id
    except QnnError:
        build = "unknown build"
    return f"{build}, QNN API {backend.version}"


def _instead(backend: Backend) -> str:
    """What stands in for an accelerator that cannot be here."""
    if backend.id == abi.QNN_BACKEND_ID_CPU:
        return ""
    device = _opencl_device(backend)
    if device is not None and device.kind != "cpu":
        return ""
    if device is None and backend.id == abi.QNN_BACKEND_ID_GPU and backend.library.has_extensions:
        return ""  # nobody can tell without pyopencl
    if backend.library.has_extensions:
        return " (emulated on the CPU)"
    return " (simulated)" if platform.machine() == "x86_64" else ""


def core_version(backend: Backend) -> str:
    """ "Hexagon Architecture V68", as the SDK's tool says it, or the processor."""
    if backend.id == abi.QNN_BACKEND_ID_CPU:
        return cpu_name()
    if (opencl := _opencl_device(backend)) is not None:
        return str(opencl)
    for device in backend.platform_info():
        if device.arch is not None:
            return f"Hexagon Architecture V{device.arch}"
    return NOT_AVAILABLE


def _opencl_device(backend: BackendBase) -> Device | None:
    """What this package's gpu backend computes on; of its libQnnGpu.so, where pyopencl can tell."""
    if backend.id != abi.QNN_BACKEND_ID_GPU or not backend.library.has_extensions:
        return None
    if isinstance(backend.library, _core.GpuLibrary):
        return cast("GpuLibrary", backend.library).device
    from ..gpu import choose

    try:
        return choose()  # as the library does
    except BackendNotFoundError:
        return None


def unit_test(backend: Backend) -> dict[str, Any]:
    """relu(x w + b) on random numbers, against numpy; on arrays, then on registered memory."""
    random = np.random.default_rng(68)
    x, w, b = (
        random.uniform(-1, 1, shape).astype(np.float32) for shape in ((8, 16), (16, 32), (1, 32))
    )
    expected = np.maximum(x @ w + b, 0)
    answer = {"unit_test": FAILED, "shared_memory": NOT_SUPPORTED, "reason": ""}
    try:
        with backend.create_context() as context, context.create_graph("unit_test") as graph:
            ends = _build(graph, w, b, x.shape, expected.shape)
            y = np.zeros_like(expected)
            graph.execute([x], [y])
            answer["reason"] = _difference(y, expected)
            answer["unit_test"] = FAILED if answer["reason"] else PASSED
            if not answer["reason"]:
                answer.update(_on_registered_memory(context, graph, ends, x, expected))
    except QnnError as error:
        answer["reason"] = str(error)
    return answer


def _build(
    graph: qnn.Graph, w: np.ndarray, b: np.ndarray, given: tuple[int, ...], got: tuple[int, ...]
) -> tuple[qnn.Tensor, qnn.Tensor]:
    f32 = np.float32
    x = graph.add_tensor("x", given, f32, type="app_write")
    weights = graph.add_tensor("w", w.shape, f32, type="static", data=w)
    bias = graph.add_tensor("b", b.shape, f32, type="static", data=b)
    product = graph.add_tensor("product", got, f32)
    total = graph.add_tensor("sum", got, f32)
    y = graph.add_tensor("y", got, f32, type="app_read")
    graph.add_node("multiply", "MatMul", [x, weights], [product])
    graph.add_node("add", "ElementWiseAdd", [product, bias], [total])
    graph.add_node("relu", "Relu", [total], [y])
    graph.finalize()
    return x, y


def _difference(y: np.ndarray, expected: np.ndarray) -> str:
    """What is wrong with a result, or nothing."""
    off = float(np.abs(y - expected).max()) if np.isfinite(y).all() else float("inf")
    if off <= _TOLERANCE * float(np.abs(expected).max()):
        return ""
    return f"its results are wrong: off by up to {off:.3g}, where {_TOLERANCE:g} is allowed"


def _on_registered_memory(
    context: qnn.Context,
    graph: qnn.Graph,
    ends: tuple[qnn.Tensor, qnn.Tensor],
    x: np.ndarray,
    expected: np.ndarray,
) -> dict[str, str]:
    def run(kind: str, memory: Sequence[Any], result: Callable[[], np.ndarray]) -> dict[str, str]:
        """On memory for the input, which is there, and for the output."""
        try:
            handles = [
                context.register(m, tensor.shape, tensor.dtype, kind=kind)
                for m, tensor in zip(memory, ends, strict=True)
            ]
        except QnnError as error:
            return {"shared_memory": NOT_SUPPORTED, "reason": str(error)}
        try:
            graph.execute([handles[0]], [handles[1]])
            wrong = _difference(result(), expected)
        finally:
            context.deregister(*handles)
        return {"shared_memory": FAILED if wrong else PASSED, "reason": wrong}

    library = context.backend.library
    if context.backend.id == abi.QNN_BACKEND_ID_GPU and not isinstance(library, _core.GpuLibrary):
        return _in_opencl_buffers(run, x, expected)
    kind = "ion" if _opencl_device(context.backend) is None else "opencl"
    with alloc(x.nbytes) as given, alloc(expected.nbytes) as got:
        given.array(x.shape, np.float32)[...] = x
        return run(kind, (given, got), lambda: got.array(expected.shape, np.float32).copy())


def _in_opencl_buffers(
    run: Callable[[str, Sequence[Any], Callable[[], np.ndarray]], dict[str, str]],
    x: np.ndarray,
    expected: np.ndarray,
) -> dict[str, str]:
    """In a library's own kind of memory, made with pyopencl."""
    from ..gpu import choose
    from ..gpu.device import pyopencl

    try:
        device, cl = choose(), pyopencl()
    except BackendNotFoundError as error:
        return {"shared_memory": NOT_SUPPORTED, "reason": str(error)}
    cl_context = cl.Context([device.raw])
    queue = cl.CommandQueue(cl_context)
    y = np.zeros_like(expected)
    buffers = [cl.Buffer(cl_context, cl.mem_flags.READ_WRITE, a.nbytes) for a in (x, y)]
    cl.enqueue_copy(queue, buffers[0], x, is_blocking=True)

    def result() -> np.ndarray:
        cl.enqueue_copy(queue, y, buffers[1], is_blocking=True)
        return y

    return run("opencl", buffers, result)


# ---- the report for people -----------------------------------------------------------------------


def lines(name: str, found: dict[str, Any]) -> Iterator[str]:
    yield f"Backend = {name.upper() if os.sep not in name else name}"
    yield "{"
    for key, title in _LINES.items():
        if key != "shared_memory" or found[key] != NOT_QUERIED:  # not a line of the SDK's
            yield f"  {title:<17} : {found[key]}"
    if found["library"]:
        yield f"  {'Library':<17} : {found['library']}"
    if found["reason"]:
        yield f"  {'Reason':<17} : {' '.join(found['reason'].split())}"
    yield "}"
