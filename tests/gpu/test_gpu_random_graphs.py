"""Random graphs on the gpu backend give what ONNX Runtime gives, however they are run there.

`tests/campaigns/random_graphs.py --ways gpu` does more of them, in all ways.
"""

from __future__ import annotations

import pytest

from support.gpu.cases import one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.random_graphs.compare import check
from support.random_graphs.generate import generate
from support.random_graphs.gpu import GPU_WAYS

#: OpenCL drivers, and ONNX Runtime, keep fds and maps of their own.
pytestmark = [pytest.mark.foreign, pytest.mark.slow]

SEED = 1
#: Those that take no kernels of their own, which PoCL compiles for seconds.
WAYS = ("gpu_plain", "gpu_hybrid", "gpu_at_once", "gpu_handles")


@pytest.mark.parametrize("number", range(4))
def test_random_graphs_give_what_onnxruntime_gives(number: int) -> None:
    graph = generate(SEED, number)
    assert graph is not None
    found = check(graph, {name: GPU_WAYS[name] for name in WAYS})
    assert found == [], f"seed {SEED} graph {number}: " + "\n".join(found or ["nothing to compare"])
