"""What the processor has, for tests of which kernel is taken."""

from __future__ import annotations

import os
from pathlib import Path


def processor_has(flag: str) -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and flag in info.read_text()


#: A test run may force narrower instructions than the processor has.
FORCED = "QNNRT_ISA" in os.environ
#: Matrix tiles, which kernels use unless that is so.
HAS_TILES = processor_has("amx_bf16") and not FORCED
#: Vectors that multiply BFLOAT_16.
HAS_BRAINS = processor_has("avx512_bf16") and not FORCED
