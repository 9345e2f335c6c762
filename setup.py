"""Builds the native library, its shims and the one Cython extension; metadata is in pyproject.toml.

Objects are kept under build/ and rebuilt when their source or a header that it includes changed.
Environment: CC CXX CPPFLAGS CFLAGS CXXFLAGS LDFLAGS as usual, and
  QNNRT_JOBS=n            compile jobs (default: the CPUs this process may use)
  QNNRT_WERROR=1          -Wall -Wextra -Werror
  QNNRT_DEBUG=1           -O0 -g, assertions on; every file by itself
  QNNRT_SANITIZE=list     address,undefined or thread
  QNNRT_LIMITED_API=1     one extension for every CPython >= 3.11 (slower calls)
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

DEBUG, WERROR, LIMITED = (
    os.environ.get(f"QNNRT_{name}", "0") not in ("", "0")
    for name in ("DEBUG", "WERROR", "LIMITED_API")
)
SANITIZE = os.environ.get("QNNRT_SANITIZE", "")
LIMITED = LIMITED and not sysconfig.get_config_var("Py_GIL_DISABLED")  # which has none until 3.15
JOBS = int(os.environ.get("QNNRT_JOBS") or len(os.sched_getaffinity(0)))
CXX = shlex.split(os.environ.get("CXX") or shutil.which("g++") or "c++")
USER_FLAGS = shlex.split(
    " ".join(os.environ.get(v, "") for v in ("CPPFLAGS", "CFLAGS", "CXXFLAGS"))
)
SANITIZE_FLAGS = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"] if SANITIZE else []

# Results may not depend on how floats are reassociated, but where a loop says QNNRT_SIMD_REDUCE, so
# -ffast-math is not used; the first two only free the compiler from errno and traps, without which
# loops over libm calls do not vectorise.
# Sanitized objects show their names, so that the C++ tests can share one library of them.
FLAGS = ["-std=c++17", "-fPIC", "-pthread", "-Icsrc"]
FLAGS += [] if SANITIZE else ["-fvisibility=hidden"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
# Reports of a sanitizer need lines, not types: a quarter less to compile, half as much to link.
FLAGS += ["-O0", "-g"] if DEBUG else ["-O1", "-g1"] if SANITIZE else ["-O2", "-DNDEBUG"]
FLAGS += [*SANITIZE_FLAGS, "-fno-omit-frame-pointer"] if SANITIZE else []
# Under a sanitizer, where nothing is computed: a quarter less to compile.
UNHURRIED = ["-O0"] if SANITIZE else []
LDFLAGS = ["-pthread", "-Wl,-z,relro", "-Wl,--no-as-needed", *SANITIZE_FLAGS]
LDFLAGS += shlex.split(os.environ.get("LDFLAGS", ""))
COMPLETE = [] if SANITIZE else ["-Wl,-z,defs"]  # the binding is not: Python brings its own symbols
SHIMS = Path("csrc/shims")
LOWERING = Path("csrc/tflite/lowering")  # in both libraries
# For the binding, whose code is long and whose calls are short: the steps of -O2 that these gain
# by. All of them would take half as long again to compile, and with none run() takes 4 % longer.
BRIEF = ["-O1", "-finline-small-functions", "-fpartial-inlining", "-foptimize-sibling-calls"]
BRIEF += ["-freorder-blocks-and-partition", "-freorder-functions", "-fstrict-aliasing"]
BRIEF += ["-fthread-jumps", "-fcode-hoisting", "-fcrossjumping", "-fschedule-insns2"]
# What runs once for a graph or a file, and is never part of an execution: rather small than fast.
SMALL = (
    *("csrc/tflite/lowering/*.cc", "csrc/tflite/delegate/node_view.cc"),
    *("csrc/tflite/delegate/options.cc", "csrc/ops/op_*.cc", "csrc/graph/passes/*.cc"),
    *("csrc/graph/binary/*.cc", "csrc/graph/graph_lower.cc", "csrc/api/config*.cc"),
    *("csrc/api/system*.cc", "csrc/api/binary*.cc", "csrc/api/*lpai*.cc", "csrc/api/perf.cc"),
    *("csrc/api/device.cc", "csrc/api/environment.cc", "csrc/api/encoding.cc"),
    *("csrc/backends/*.cc", "csrc/gpu/*.cc", "csrc/saver/*.cc"),
)
# Compiled file by file: loops that other files beside them would slow down (the compiler inlines
# less where a source is large: a maximum over rows took 1.2 times as long), and shims, as each is a
# library. In the other folders (without QNNRT_DEBUG) so many files are compiled together, fewer of
# kernels, as their headers are half of a small one's time, and no name without linkage may be in
# two of a folder.
ALONE = ("elementwise", "matmul", "pool", "recurrent", "reduce", "shims")
BATCH, KERNELS = 16, 6
DELEGATE = Path("csrc/tflite/delegate")  # a client of the library, and a library of its own
# What has threads, fork handlers and things of each thread cannot be unloaded.
STAYS = ["-ldl", "-Wl,-z,nodelete"]
WARNINGS = ["-Wall", "-Wextra"] + (["-Werror"] if WERROR else [])


def onednn_include() -> list[str]:
    """The headers of the onednn-devel wheel, if it is there. The library is loaded at run time."""
    if not sysconfig.get_platform().endswith("-x86_64"):  # there is none: built for another machine
        return []
    try:
        dist = metadata.distribution("onednn-devel-cpu-gomp")
    except metadata.PackageNotFoundError:
        return []
    header = next((f for f in dist.files or [] if f.name == "dnnl.h"), None)
    if header is None:  # installed without its headers, or without a list of its files
        return []
    return ["-isystem", os.path.normpath(dist.locate_file(header).parent)]


def stale(target: Path, inputs: list[Path]) -> bool:
    """As make does: missing, or older than an input (or an input was deleted)."""
    if not target.exists():
        return True
    made = target.stat().st_mtime_ns
    return any(not p.exists() or p.stat().st_mtime_ns > made for p in inputs)


def build_directory() -> Path:
    """One for each way to compile, so that changing a switch back and forth compiles nothing. Only
    the binding in it depends on Python."""
    switches = (CXX, FLAGS, BRIEF, SMALL, USER_FLAGS, bool(onednn_include()))
    return Path("build", "native-" + hashlib.sha256(repr(switches).encode()).hexdigest()[:10])


def run(step: str, what: object, command: list[str]) -> None:
    print(f"{step:8}{what}", flush=True)
    if subprocess.run(command, check=False).returncode:
        raise CompileError(f"{step} {what} failed: {shlex.join(command)}")


Job = tuple[Path, list[str]]  # a source and its flags


def object_of(source: Path, build: Path) -> Path:
    inside = source.relative_to(build) if source.is_relative_to(build) else source
    return build / inside.with_suffix(".o")


def is_compiled(source: Path, obj: Path) -> bool:
    deps = obj.with_suffix(".d")
    known = (
        deps.read_text().partition(": ")[2].replace("\\\n", " ").split() if deps.exists() else []
    )
    # Not against the time of `deps`: a compiler's cache writes it after the object.
    return bool(known) and not stale(obj, [source, *map(Path, known)])


def compile_all(build: Path, jobs: list[Job]) -> dict[Path, Path]:
    """Compiles (source, flags) in parallel; returns {source: object}."""
    objects = {source: object_of(source, build) for source, _ in jobs}
    todo = [job for job in jobs if not is_compiled(job[0], objects[job[0]])]

    def compile_one(place: int, source: Path, flags: list[str]) -> None:
        obj = objects[source]
        obj.parent.mkdir(parents=True, exist_ok=True)
        output = ["-MMD", "-MF", str(obj.with_suffix(".d")), "-c", str(source), "-o", str(obj)]
        what = f"{place}/{len(todo)} {source}"
        run("compile", what, [*CXX, *flags, *USER_FLAGS, *output])

    with ThreadPoolExecutor(JOBS) as pool:
        for done in [pool.submit(compile_one, i, *job) for i, job in enumerate(todo, 1)]:
            done.result()
    return objects


def in_batches(build: Path, jobs: list[Job]) -> list[Job]:
    """Instead of the files of a folder that have the same flags: files that include a few of them
    each, so that headers, more than half of the time there, are compiled once for all. They lie in
    the same folder under `build`."""
    together: dict[tuple[Path, tuple[str, ...]], list[Path]] = {}
    for source, flags in jobs:
        alone = DEBUG or not set(ALONE).isdisjoint(source.parts)
        key = source if alone else source.parent, tuple(flags)
        together.setdefault(key, []).append(source)
    batched = []
    for (folder, flags), sources in together.items():
        count = -(-len(sources) // (KERNELS if "ops" in folder.parts else BATCH))
        for i in range(count):
            part = sources[i * len(sources) // count : (i + 1) * len(sources) // count]
            source = part[0]
            if len(part) > 1:
                source = build / folder / f"{part[0].stem}_to_{part[-1].stem}.cc"
                write_if_new(source, "".join(f'#include "{p.relative_to("csrc")}"\n' for p in part))
            batched.append((source, list(flags)))
    return batched


def native_jobs() -> list[Job]:
    """Every source with its flags, one by one."""
    flags = [*FLAGS, *WARNINGS, *onednn_include()]
    kernels = [*flags, *([] if DEBUG or SANITIZE else ["-O3"])]  # elsewhere it only adds size
    # g++ 12 may load 8 bytes of a loop by an MMX register, which leaves the x87 stack in use: what
    # the process computes there next (numpy's remainder) is no number.
    kernels += ["-mno-mmx"] if sysconfig.get_platform().endswith("-x86_64") else []
    # In folders named `fixed` a multiply and an add round twice on every CPU, so that fixed-point
    # kernels give the same integers with and without fused multiply-adds; in `detection`, so that
    # the same boxes overlap.
    twice = [*kernels, "-ffp-contract=off"]
    small = [*flags, *([] if DEBUG else ["-Os"])]

    def switches(source: Path) -> list[str]:
        if any(source.match(pattern) for pattern in SMALL) and not SANITIZE:
            return small
        if source.parts[1] in ("api", "backends", "client", "opencl", "saver", "shims", "tflite"):
            return [*flags, *UNHURRIED]
        if source.parts[1] != "ops":
            return flags
        return twice if {"fixed", "detection"} & set(source.parts) else kernels

    jobs = [(s, switches(s)) for s in sorted(Path("csrc").rglob("*.cc"))]
    # Of a function that several objects have, the linker keeps the first: the faster one.
    return sorted(jobs, key=lambda job: job[1] is small)


def link(target: Path, inputs: list[Path], *flags: str) -> Path:
    """Again, too, when it is to be linked in another way."""
    files = [str(p) for p in inputs if p.suffix != ".map"]
    command = [*CXX, *LDFLAGS, *files, *flags, "-o", str(target)]
    way = target.with_name(f"{target.name}.command")
    write_if_new(way, shlex.join(command))
    if stale(target, [*inputs, way]):
        run("link", target, command)
    return target


def write_if_new(path: Path, text: str) -> None:
    """What depends on the file is stale only if it says something else now."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_exports(script: Path, names: list[str], objects: list[Path]) -> Path:
    """The linker's version script: only these symbols are exported, std templates neither.

    It also names the objects, so that the library is linked again when a source was deleted.
    """
    text = "{ global: " + "; ".join(names) + "; local: *; };\n"
    text += f"/* {' '.join(map(str, objects))} */\n"
    write_if_new(script, text)
    return script


def exports(folder: Path) -> list[str]:
    lines = (folder / "exports.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def to_cpp(extension: Extension, build: Path) -> list[str]:
    from Cython.Build import cythonize

    return cythonize([extension], build_dir=str(build))[0].sources


def install(source: Path, target: Path) -> None:
    """A new file each time: a running process keeps the library that it has mapped."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target)


class BuildNative(build_ext):
    def run(self) -> None:
        products = self.build_products()
        package = Path("qnnrt") if self.inplace else Path(self.build_lib, "qnnrt")
        for folder in ("lib", "include"):
            shutil.rmtree(package / folder, ignore_errors=True)  # nothing of an older build stays
        for name, source in products.items():
            install(source, package / name)

    def get_outputs(self) -> list[str]:
        return [os.path.join(self.build_lib, "qnnrt", name) for name in self.build_products()]

    def get_output_mapping(self) -> dict[str, str]:
        outputs = self.get_outputs() if self.inplace else []
        return {out: os.path.relpath(out, self.build_lib) for out in outputs}

    def build_products(self) -> dict[str, Path]:
        """Builds what is out of date; returns {path inside the package: file}."""
        build = build_directory()
        # The binding's source is generated: warnings there cannot be fixed here.
        python = [*FLAGS, *([] if DEBUG or SANITIZE else BRIEF)]
        python.append(f"-I{sysconfig.get_path('include')}")
        python += ["-DPy_LIMITED_API=0x030b0000"] if LIMITED else []
        interface = build / ("abi3" if LIMITED else sysconfig.get_config_var("SOABI"))
        binding = [Path(s) for ext in self.extensions for s in to_cpp(ext, interface)]
        native = in_batches(build, native_jobs())
        objects = compile_all(build, [(s, python) for s in binding] + native)

        shims = [s for s in objects if s.parent == SHIMS]
        in_delegate = [obj for obj in objects.values() if obj.parent == build / DELEGATE]
        delegate = [obj for obj in objects.values() if obj.parent == build / LOWERING] + in_delegate
        apart = [*(objects[s] for s in shims + binding), *in_delegate]
        runtime = [obj for obj in objects.values() if obj not in apart]
        script = write_exports(build / "libqnnrt.map", exports(Path("csrc")), runtime)
        options = [f"-Wl,--version-script={script}", "-Wl,-soname,libqnnrt.so", *STAYS, *COMPLETE]
        library = link(build / "lib/libqnnrt.so", [*runtime, script], "-shared", *options)
        products = {"lib/libqnnrt.so": library}
        for s in shims:
            name = f"lib/{s.stem}.so"
            options = ["-shared", f"-Wl,-soname,{s.stem}.so", "-Wl,-rpath,$ORIGIN", *COMPLETE]
            products[name] = link(build / name, [objects[s], library], *options)
        name = "lib/libQnnTFLiteDelegate.so"
        script = write_exports(build / "delegate.map", exports(DELEGATE), delegate)
        options = ["-shared", f"-Wl,--version-script={script}", f"-Wl,-soname,{Path(name).name}"]
        options += ["-Wl,-rpath,$ORIGIN", *STAYS, *COMPLETE]
        products[name] = link(build / name, [*delegate, library, script], *options)
        for ext, s in zip(self.extensions, binding, strict=True):
            name = os.path.relpath(self.get_ext_filename(ext.name), "qnnrt")
            init = [f"PyInit_{ext.name.rpartition('.')[2]}"]
            script = write_exports(interface / "binding.map", init, [objects[s]])
            options = ["-shared", f"-Wl,--version-script={script}", "-Wl,-rpath,$ORIGIN/../lib"]
            options.append("-ldl")  # a library of its own before glibc 2.34
            products[name] = link(build / name, [objects[s], library, script], *options)
        headers = Path("csrc/abi").glob("**/*.h")
        return products | {f"include/qnnrt/{h.relative_to('csrc/abi')}": h for h in headers}


if __name__ == "__main__":  # tests/native/run.py takes the rules from here
    source = "qnnrt/_native/_core.pyx"
    core = Extension("qnnrt._native._core", [source], language="c++", py_limited_api=LIMITED)
    setup(
        ext_modules=[core] if Path(source).exists() else [],
        cmdclass={"build_ext": BuildNative},
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
    )
