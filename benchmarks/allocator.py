"""Memory: allocating and freeing by size, registering, making views.

    python benchmarks/allocator.py [--smoke] [--json FILE]

"Reused" is the steady state of a program that frees and allocates the same sizes; "cold" gives all
freed memory back to the system first, and then touches every page. Registering is a pair:
memRegister and memDeRegister of one tensor in one buffer, from Python and from C.
"""

import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
from _harness import Benchmark, Call, Case

import qnnrt
from qnnrt import _core

PAGE = mmap.PAGESIZE
PACKAGE = Path(qnnrt.__file__).parent
SIZES = {"4 KiB": 4 << 10, "64 KiB": 64 << 10}
SIZES |= {f"{n} MiB": n << 20 for n in (1, 8, 64)}


def malloc_memset(nbytes: int) -> Call:
    libc = ctypes.CDLL(None)
    malloc, memset, free = libc.malloc, libc.memset, libc.free
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t]
    memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    memset.restype = None
    free.argtypes = [ctypes.c_void_p]
    free.restype = None

    def call() -> None:
        address = malloc(nbytes)
        memset(address, 0, nbytes)
        free(address)

    return call


def numpy_touched(nbytes: int) -> Call:
    def call() -> None:
        np.empty(nbytes, np.uint8)[::PAGE] = 1

    return call


def shared_memory(nbytes: int) -> Call:
    def call() -> None:
        block = SharedMemory(create=True, size=nbytes)
        np.frombuffer(block.buf, np.uint8)[::PAGE] = 1
        block.close()
        block.unlink()

    return call


def qnnrt_touched(nbytes: int, trim: Callable[[int], int]) -> Call:
    def call() -> None:
        buffer = qnnrt.alloc(nbytes)
        np.frombuffer(buffer, np.uint8)[::PAGE] = 1
        buffer.close()
        trim(0)

    return call


def reused(case: Case, nbytes: int) -> None:
    alloc = qnnrt.alloc
    case.add("qnnrt.alloc(), close()", lambda: alloc(nbytes).close())
    case.add("malloc, memset, free", malloc_memset(nbytes))
    case.add("numpy.empty, touched", numpy_touched(nbytes))
    case.measure()


def cold(case: Case, nbytes: int) -> None:
    case.add("qnnrt.alloc(), touched, given back", qnnrt_touched(nbytes, _core.pool_trim))
    case.add("SharedMemory, touched, unlinked", shared_memory(nbytes))
    case.add("malloc, memset, free", malloc_memset(nbytes))
    case.add("numpy.empty, touched", numpy_touched(nbytes))
    case.measure()


@contextmanager
def register_program() -> Iterator[Callable[[int], float] | str]:
    """Timing of the pair in a C program: seconds for one of n, or why there is none."""
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    if compiler is None:
        yield "no C compiler"
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "register")
        source = Path(__file__).with_name("_register.c")
        options = ["-O2", f"-I{PACKAGE / 'include'}", "-o", str(program), "-ldl"]
        subprocess.run([compiler, str(source), *options], check=True)
        libraries = [str(PACKAGE / "lib" / name) for name in ("libQnnCpu.so", "libcdsprpc.so")]
        with subprocess.Popen(
            [str(program), *libraries], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            stdin, stdout = process.stdin, process.stdout

            def sample(n: int) -> float:
                print(n, file=stdin, flush=True)
                return float(stdout.readline())

            yield sample
            stdin.close()


def registering(bench: Benchmark) -> None:
    shape = (1, 1 << 18)
    with (
        qnnrt.qnn.Backend.open("cpu") as backend,
        backend.create_context() as context,
        qnnrt.alloc(1 << 20) as buffer,
        qnnrt.alloc(1 << 20) as other,
        register_program() as from_c,
    ):
        case = bench.case("register and deregister 1 MiB", unit="us")
        name = "memRegister, memDeRegister from C"
        if isinstance(from_c, str):
            case.missing(name, from_c)
        else:
            case.sampled(name, from_c)

        def pair() -> None:
            context.deregister(context.register(buffer, shape, np.float32))

        case.add("Context.register(), deregister()", pair)
        known = context.get_or_register(other, shape, np.float32)
        case.add(
            "Context.get_or_register(), known",
            lambda: context.get_or_register(other, shape, np.float32),
        )
        case.measure()
        context.deregister(known)


def views(bench: Benchmark) -> None:
    shape, dtype = (256, 1024), np.dtype(np.float32)
    nbytes = 1 << 20
    buffer = qnnrt.alloc(nbytes)
    array = buffer.array(shape, dtype)
    inside = array[100:, 7:]
    plain = bytearray(nbytes)
    case = bench.case("a numpy view of 1 MiB", unit="us")
    case.add("Buffer.array(shape, dtype)", lambda: buffer.array(shape, dtype))
    case.add("numpy.asarray(buffer)", lambda: np.asarray(buffer))
    case.add("qnnrt.buffer_of(view)", lambda: qnnrt.buffer_of(inside))
    case.add("numpy.ndarray(shape, dtype, bytearray)", lambda: np.ndarray(shape, dtype, plain))
    case.add("numpy.asarray(bytearray)", lambda: np.asarray(plain))
    case.measure()


def main() -> None:
    bench = Benchmark("allocator", __doc__, rounds=51, sample_ms=2)
    for name, nbytes in SIZES.items():
        if bench.smoke and nbytes > 8 << 20:
            continue
        reused(bench.case(f"alloc and free {name}, reused", unit="us"), nbytes)
    for name, nbytes in SIZES.items():
        if bench.smoke and nbytes > 8 << 20:
            continue
        cold(bench.case(f"alloc and free {name}, cold", unit="us"), nbytes)
    registering(bench)
    views(bench)
    bench.finish()


if __name__ == "__main__":
    main()
