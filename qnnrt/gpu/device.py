"""OpenCL devices: which there are, what they offer, which one is meant."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import BackendNotFoundError
from ..support import log

__all__ = [
    "ENVIRONMENT",
    "WITHOUT",
    "Device",
    "TooLarge",
    "choose",
    "devices",
    "new_buffer",
    "why_not",
]

#: Part of "platform: device" of the device that is meant.
ENVIRONMENT: Final = "QNNRT_GPU_DEVICE"
#: "0": tensor cores are not used, wherever they are.
WITHOUT: Final = "QNNRT_GPU_TENSOR_CORES"
_TYPES: Final = ((4, "gpu"), (8, "accelerator"), (2, "cpu"))  # CL_DEVICE_TYPE_*, the best first
#: Extensions that let a device use memory of the host's that has an fd.
_IMPORTS: Final = (
    "cl_khr_external_memory_dma_buf",
    "cl_qcom_dmabuf_host_ptr",
    "cl_qcom_ion_host_ptr",
    "cl_qcom_ext_host_ptr",
)
#: Where a loader looks for drivers, unless the environment names another folder.
_VENDORS: Final = "/etc/OpenCL/vendors"
#: Compute capability from which on tensor cores have all instructions of mma.cl.
_TENSOR_CORES: Final = 8
_INSTALL: Final = (
    "pip install 'qnnrt[gpu]' brings pyopencl; a device comes with its driver, or with "
    "pip install 'pyopencl[pocl]' for the CPU"
)


@dataclass(frozen=True)
class Device:
    """An OpenCL device.

    Attributes:
        platform, name, version, driver: as OpenCL says.
        kind: "gpu", "accelerator" or "cpu".
        shared: it computes in the host's memory, so that buffers of the host are used in place.
        alignment: of sub-buffers, in bytes.
        half: whether kernels may compute with 16-bit floats.
        tensor_cores: it has the instructions of mma.cl: NVIDIA's from compute capability 8.0 on.
        overlaps: sub-buffers that overlap cost nothing when kernels are started. NVIDIA's driver
            (580) looks through them all, which took up to half a millisecond a kernel.
        nests: kernels may call kernels that have local memory, which OpenCL C leaves to the
            implementation: seen with NVIDIA's and PoCL's; oclgrind cannot.
        records: lists of kernels can be recorded (cl_khr_command_buffer).
        imports: extensions by which it takes memory with an fd.
        raw: the ``pyopencl.Device``.
    """

    platform: str
    name: str
    version: str
    driver: str
    kind: str
    shared: bool
    alignment: int
    half: bool
    tensor_cores: bool
    overlaps: bool
    nests: bool
    records: bool
    imports: tuple[str, ...]
    raw: Any

    def __str__(self) -> str:
        return f"{self.platform}: {self.name}"

    @classmethod
    def of(cls, raw: Any) -> Device:
        """A pyopencl device, described."""
        extensions = raw.extensions.split()
        platform = raw.platform.name.strip()
        nvidia = "nvidia" in platform.lower()
        return cls(
            platform=platform,
            name=raw.name.strip(),
            version=raw.version.strip(),
            driver=raw.driver_version.strip(),
            kind=next((name for bit, name in _TYPES if raw.type & bit), "other"),
            shared=bool(raw.host_unified_memory),
            alignment=max(raw.mem_base_addr_align // 8, 128),
            half="cl_khr_fp16" in extensions,
            tensor_cores=_has_tensor_cores(raw, extensions),
            overlaps=not nvidia,
            nests=nvidia or platform == "Portable Computing Language",
            records="cl_khr_command_buffer" in extensions,
            imports=tuple(e for e in _IMPORTS if e in extensions),
            raw=raw,
        )


def _has_tensor_cores(raw: Any, extensions: list[str]) -> bool:
    if "cl_nv_device_attribute_query" not in extensions or os.environ.get(WITHOUT) == "0":
        return False
    return int(raw.compute_capability_major_nv) >= _TENSOR_CORES


def pyopencl() -> Any:
    """The module.

    Raises:
        BackendNotFoundError: it is not installed, or does not load.
    """
    try:
        import pyopencl as cl
    except Exception as e:  # a broken driver shows in many ways
        raise BackendNotFoundError(f"the gpu backend needs pyopencl ({e}): {_INSTALL}") from e
    return cl


def devices() -> list[Device]:
    """Every OpenCL device, the one that is used unless another is asked for first.

    GPUs come before accelerators and these before CPUs; of several PoCL the newest is first. A
    driver that fails is omitted, and a PoCL that knows no code for this processor, which the log
    says.

    Raises:
        BackendNotFoundError: pyopencl is not there.
    """
    found: list[Device] = []
    for platform in _platforms():
        try:
            here = [Device.of(raw) for raw in platform.get_devices()]
        except Exception as e:  # no devices, or a driver that does not work
            log.debug("an OpenCL platform has no usable device: %s", str(e))
            continue
        for device in here:
            if reason := _why_no_code(device):
                log.debug("%s is omitted: %s", device, reason)
            else:
                found.append(device)
    newest = iter(sorted(filter(_is_pocl, found), key=_pocl_version, reverse=True))
    found = [next(newest) if _is_pocl(d) else d for d in found]
    return sorted(found, key=_rank)


def _platforms() -> list[Any]:
    cl = pyopencl()
    try:
        return list(cl.get_platforms())
    except cl.Error:
        return []  # the loader's way to say that there are none


#: What each PoCL, by its version, says of a kernel that does nothing; "" where it compiles it.
_refusals: dict[str, str] = {}


def _why_no_code(device: Device) -> str:
    """Why a PoCL compiles nothing; "" where it does, and of other drivers.

    It compiles with the LLVM that it was built with, which refuses processors that are newer.
    """
    if not _is_pocl(device):
        return ""
    if device.driver not in _refusals:
        _refusals[device.driver] = _refusal(device.raw)
    return _refusals[device.driver]


def _refusal(raw: Any) -> str:
    cl = pyopencl()
    try:
        # Not from pyopencl's own cache of programs, which would answer for another PoCL.
        program = cl.Program(cl.Context([raw]), "__kernel void nothing(void) {}")
        program.build(cache_dir=False)
    except cl.Error as e:
        return " ".join(str(e).split()) or type(e).__name__
    return ""


def _is_pocl(device: Device) -> bool:
    return "pocl" in device.version.lower()


def _pocl_version(device: Device) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", device.driver.partition("-")[0])]


def _rank(device: Device) -> int:
    kinds = [name for _, name in _TYPES]
    return kinds.index(device.kind) if device.kind in kinds else len(kinds)


def choose(name: str | None = None) -> Device:
    """The device with this in its name; what ``QNNRT_GPU_DEVICE`` says, or the best, without one.

    Raises:
        BackendNotFoundError: there is none; the message lists those that there are.
    """
    name = name or os.environ.get(ENVIRONMENT, "")
    found = devices()
    if not found:
        raise BackendNotFoundError(f"there is no OpenCL device: {_why_no_driver()}; {_INSTALL}")
    for device in found:
        if name.lower() in str(device).lower():
            return device
    raise BackendNotFoundError(
        f"no OpenCL device has {name!r} in its name; there are {', '.join(map(str, found))}"
    )


def _why_no_driver() -> str:
    """What the loader reads, and what is wrong with each file there; as csrc/gpu/device.cc."""
    if loaded := _platforms():
        names = ", ".join(repr(platform.name) for platform in loaded)
        return f"of the OpenCL platforms {names} none has a device that works{_too_new()}"
    given = os.environ.get("OCL_ICD_VENDORS")
    where = Path(given or _VENDORS)
    named = "OCL_ICD_VENDORS names" if given else "the loader reads"
    files = [where] if where.suffix == ".icd" else sorted(where.glob("*.icd"))
    if not where.exists():
        return f"{named} {where}, which does not exist: a driver puts its .icd file there"
    if not files:
        return f"{named} {where}, which has no .icd file: a driver puts one there"
    return f"{named} {where}: {'; '.join(map(_what_of, files))}"


def _too_new() -> str:
    """What to do where PoCL knows no code for this processor; "" where it is something else."""
    for platform in _platforms():
        with contextlib.suppress(Exception):  # no devices
            for raw in platform.get_devices():
                device = Device.of(raw)
                if reason := _why_no_code(device):
                    return (
                        f" (PoCL {device.driver} compiles nothing for this processor: {reason}; "
                        "a newer PoCL does, on Debian that of apt-get install pocl-opencl-icd)"
                    )
    return ""


def _what_of(icd: Path) -> str:
    """Whether the driver that a file names loads."""
    try:
        driver = next(iter(icd.read_text("utf-8", "replace").splitlines()), "").strip()
    except OSError as e:
        return f"{icd.name} cannot be read ({e.strerror})"
    if not driver:
        return f"{icd.name} is empty"
    try:
        ctypes.CDLL(driver)
    except OSError as e:
        return f"{icd.name} names {driver!r}, which does not load ({e})"
    return f"{icd.name} names {driver!r}, which loads but has no device"


class TooLarge(Exception):
    """A device does not have that much memory; the text has both sizes."""


def new_buffer(context: Any, device: Device, flags: int, nbytes: int) -> Any:
    """A ``pyopencl.Buffer`` in the device's memory.

    Drivers that allocate when a buffer is first used return one of any size.

    Raises:
        TooLarge: more than one buffer, or the whole device, may have.
        pyopencl.Error: the driver refuses it.
    """
    for most, what in (
        (device.raw.max_mem_alloc_size, "one buffer has"),
        (device.raw.global_mem_size, "it has altogether"),
    ):
        if nbytes > most:
            raise TooLarge(
                f"a buffer of {nbytes} bytes is needed on {device}, where {what} {most} at most"
            )
    return pyopencl().Buffer(context, flags, max(nbytes, 1))


def why_not() -> str | None:
    """Why there is no gpu backend here, and what to install; None where there is one."""
    try:
        choose()
    except BackendNotFoundError as e:
        return str(e)
    return None
