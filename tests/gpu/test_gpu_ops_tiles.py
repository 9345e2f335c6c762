"""Kernels in local memory: they give what the cpu gives, and touch nothing that is not theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gpu.driver import under_oclgrind
from support.gpu.opencl import opencl_is_up  # noqa: F401

pytestmark = [pytest.mark.foreign, pytest.mark.slow]  # OpenCL drivers are foreign


def test_every_kernel_of_products_agrees_with_the_cpu_under_oclgrind(tmp_path: Path) -> None:
    program = Path(__file__).with_name("gpu_products.py")
    assert under_oclgrind(program, tmp_path) == "all agree\n"
