"""Kernels for NVIDIA's devices, assembled without one: clang compiles OpenCL C to PTX, and ptxas
makes of it what a device would run."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from qnnrt.gpu.ir import Launch
from qnnrt.gpu.programs import STANDARD, rewritten, source

__all__ = ["Usage", "assembled", "why_not"]

# What a driver's own library would have; halves are moved as the integers that they are.
_LIBRARY = r"""
#define OURS __attribute__((overloadable, always_inline))
#define asm __asm__
#define AXIS(name)                                      \
  (d == 0   ? __nvvm_read_ptx_sreg_##name##_x()         \
   : d == 1 ? __nvvm_read_ptx_sreg_##name##_y()         \
            : __nvvm_read_ptx_sreg_##name##_z())
OURS size_t get_local_id(uint d) { return AXIS(tid); }
OURS size_t get_group_id(uint d) { return AXIS(ctaid); }
OURS size_t get_num_groups(uint d) { return AXIS(nctaid); }
OURS void barrier(cl_mem_fence_flags flags) { __syncthreads(); }
OURS int min(int a, int b) { return a < b ? a : b; }
OURS float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static ushort narrow(float v) {
  ushort h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}
OURS float vload_half(size_t i, const __global half* p) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(((const __global ushort*)p)[i]));
  return v;
}
OURS void vstore_half(float v, size_t i, __global half* p) {
  ((__global ushort*)p)[i] = narrow(v);
}
OURS void vstorea_half4(float4 v, size_t i, __global half* p) {
  ((__global ushort4*)p)[i] = (ushort4)(narrow(v.x), narrow(v.y), narrow(v.z), narrow(v.w));
}
OURS void vstorea_half2(float2 v, size_t i, __global half* p) {
  ((__global ushort2*)p)[i] = (ushort2)(narrow(v.x), narrow(v.y));
}
"""


@dataclass(frozen=True)
class Usage:
    """What a kernel takes: registers of a work item, spilled bytes, bytes of local memory; and
    whether ``wgmma`` waits for each other."""

    registers: int
    spilled: int
    local_bytes: int
    serialized: bool


def _ptxas() -> str | None:
    if found := shutil.which("ptxas"):
        return found
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [Path(f) / "cuda_nvcc" / "bin" / "ptxas" for f in folders]
    return next((str(f) for f in files if f.exists()), None)


def _clang() -> str | None:
    return shutil.which("clang-14") or shutil.which("clang")


def why_not() -> str | None:
    """What is missing; None where nothing is."""
    if (clang := _clang()) is None:
        return "clang is not installed"
    targets = subprocess.run([clang, "--print-targets"], stdout=subprocess.PIPE, text=True)
    if "nvptx64" not in targets.stdout:
        return "clang has no target nvptx64"
    return "ptxas is not installed: extra 'ptx'" if _ptxas() is None else None


def assembled(launch: Launch, arch: str, folder: Path) -> Usage:
    """A launch's kernel for ``sm_80`` or the like; for ``sm_90a`` it is one with instructions that
    clang would not have taken."""
    clang, ptxas = _clang(), _ptxas()
    assert clang
    assert ptxas
    text, ptx = folder / "kernel.cl", folder / "kernel.ptx"
    text.write_text(_LIBRARY + source(launch))
    front = ["-target-cpu", "sm_80", "-target-feature", "+ptx70", "-finclude-default-header"]
    _run(
        [clang, "-x", "cl", *STANDARD, "--target=nvptx64-nvidia-nvcl", "-O3", "-S"]
        + [word for option in front for word in ("-Xclang", option)]
        + ["-o", str(ptx), str(text)]
    )
    assert launch.group is not None
    if arch == "sm_90a":
        made = ptx.read_bytes().replace(b".target sm_80", b".target sm_90")
        better = rewritten(made.replace(b".version 7.0", b".version 8.3"))
        assert better is not None, "there is no marked instruction"
        # How many work items a group has, which clang does not say, but drivers' compilers do.
        entry = better.index(b")", better.index(b".entry")) + 1
        group = b"\n.reqntid %d, 1, 1" % launch.group[0]
        ptx.write_bytes(better[:entry] + group + better[entry:])
    said = _run([ptxas, "-v", f"-arch={arch}", "-o", str(folder / "kernel.cubin"), str(ptx)])
    spilled = re.search(r"(\d+) bytes spill stores", said)
    used = re.search(r"Used (\d+) registers", said)
    local = re.search(r"(\d+) bytes smem", said)
    assert spilled, said
    assert used, said
    assert local, said
    return Usage(int(used[1]), int(spilled[1]), int(local[1]), "serialized" in said)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
