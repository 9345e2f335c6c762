"""What the processor has, for tests of which kernel is taken."""

from __future__ import annotations

import os
from pathlib import Path


def processor_has(flag: str) -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and flag in info.read_text()


#: Matrix tiles, which kernels use unless they are told to take narrower instructions.
HAS_TILES = processor_has("amx_bf16") and "QNNRT_ISA" not in os.environ
