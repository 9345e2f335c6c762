"""``qnnrt info``: what this machine can do, and what to install for more."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

from ..errors import BackendNotFoundError, Error
from ..gpu.device import Device
from ..qnn.backend import LIBRARIES, library_path
from ._common import print_json
from .paths import LIB_DIR

PORTABLE = "portable"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "say what this machine can do and what to install for more"
    parser = commands.add_parser("info", help=text, description=text.capitalize() + ".")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    report = collect()
    if options.json:
        print_json(report)
    else:
        print("\n".join(lines(report)))
    return 0


def collect() -> dict[str, Any]:
    """Everything that `qnnrt info` knows, as one JSON value."""
    from .._native import _core
    from ..memory import heaps

    kernels = _core.kernel_library()
    return {
        "version": _core.version(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "threads": len(os.sched_getaffinity(0)),
        "heaps": [
            {
                "name": heap.name,
                "available": heap.available,
                "default": heap.is_default,
                "coherent": heap.coherent,
                "reason": heap.reason,
            }
            for heap in heaps()
        ],
        "kernels": kernels,
        "advice": [advice] if (advice := kernel_advice(kernels)) else [],
        "backends": {name: backend(name) for name in LIBRARIES},
        "other_libraries": [str(path) for path in other_libraries()],
        "lib_dir": str(LIB_DIR),
    }


def kernel_advice(kernels: str) -> str | None:
    if not kernels.startswith(PORTABLE):
        return None
    if "static TLS" in kernels:  # the loader's words
        return (
            "for fast kernels: other libraries took the room for thread-local storage; "
            "import qnnrt before them, or start with LD_PRELOAD=libgomp.so.1"
        )
    if platform.machine() == "x86_64" and platform.system() == "Linux":
        return "for fast kernels: pip install onednn-cpu-gomp (it needs libgomp1 of the system)"
    return "for fast kernels: install oneDNN of the system (libdnnl3 in Debian)"


def backend(name: str) -> dict[str, Any]:
    """Whether a backend of this package can be opened, and as what."""
    from .._native import _core

    if name == "gpu":
        return gpu_backend()
    try:
        path = library_path(name)
    except BackendNotFoundError:
        return {"available": False, "reason": "not part of this version"}
    try:
        opened = _core.Library.open(path)
    except Error as error:
        return {"available": False, "reason": str(error), "library": path}
    return {
        "available": True,
        "library": path,
        "provider": opened.provider_name,
        "core_api": ".".join(map(str, opened.core_version)),
        "backend_api": ".".join(map(str, opened.backend_version)),
    }


def gpu_backend() -> dict[str, Any]:
    """The gpu backend, which is no library of its own, and the OpenCL devices."""
    from .. import gpu
    from .._native import _core

    try:
        used = gpu.choose()
    except BackendNotFoundError as error:
        try:
            devices = [opencl_device(d, False) for d in gpu.devices()]
        except BackendNotFoundError:
            devices = []
        return {"available": False, "reason": str(error), "devices": devices}
    front = _core.GpuLibrary(library_path("cpu"))
    return {
        "available": True,
        "library": "pyopencl",
        "provider": front.provider_name,
        "core_api": ".".join(map(str, front.core_version)),
        "backend_api": ".".join(map(str, front.backend_version)),
        "devices": [opencl_device(d, d.raw == used.raw) for d in gpu.devices()],
    }


def opencl_device(device: Device, used: bool) -> dict[str, Any]:
    return {
        "name": str(device),
        "used": used,
        "kind": device.kind,
        "version": device.version,
        "driver": device.driver,
        "shared_memory": device.shared,
        "half": device.half,
        "tensor_cores": device.tensor_cores,
        "alignment": device.alignment,
        "imports": list(device.imports),
    }


def other_libraries() -> Iterator[Path]:
    """QNN backend libraries of others, usable as ``--backend PATH``. They are not loaded here."""
    folders = [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    spec = util.find_spec("onnxruntime_qnn")
    if spec is not None and spec.submodule_search_locations:
        folders += [Path(p) for p in spec.submodule_search_locations]
    seen: set[Path] = {LIB_DIR.resolve()}
    for folder in folders:
        if folder.resolve() not in seen:
            seen.add(folder.resolve())
            yield from (folder / n for n in LIBRARIES.values() if (folder / n).exists())


def cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, platform.machine())


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report for people."""
    yield f"qnnrt {report['version']}, Python {report['python']}, {report['platform']}"
    yield f"cpu      {report['cpu']}, {report['threads']} threads usable"
    yield f"kernels  {report['kernels']}"
    yield "heaps"
    for heap in report["heaps"]:
        mark = "*" if heap["default"] else "+" if heap["available"] else "-"
        reason = heap["reason"].partition(";")[0]  # the rest says what the lines above say
        yield f"       {mark} {heap['name']}: {reason}{', the default' if heap['default'] else ''}"
    yield "backends"
    for name, b in report["backends"].items():
        if b["available"]:
            yield f"       + {name}: {b['provider']}, core API {b['core_api']}, {b['library']}"
        else:
            yield f"       - {name}: {b['reason']}"
        for d in b.get("devices", ()):
            memory = "shares the host's memory" if d["shared_memory"] else "memory of its own"
            offers = [
                memory,
                "16-bit floats" if d["half"] else "computes 16-bit floats in 32 bits",
                f"sub-buffers on {d['alignment']} bytes",
                *d["imports"],
            ]
            mark = "*" if d["used"] else "+"
            yield f"           {mark} {d['kind']} {d['name']}, {d['version']}, driver {d['driver']}"
            yield f"             {', '.join(offers)}"
    for path in report["other_libraries"]:
        yield f"       + {path} (somebody else's; give the path as the backend)"
    yield from report["advice"]
