"""How many kernels the nine networks that onnx ships start, and of how many programs these are."""

from __future__ import annotations

from typing import Any

import pytest

import qnnrt
from qnnrt.gpu import library, passes
from qnnrt.gpu.compile import launches_of
from qnnrt.gpu.ir import Ir
from qnnrt.gpu.programs import source
from qnnrt.gpu.target import Target
from qnnrt.importers import onnx as importer
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from zoo import networks

pytestmark = pytest.mark.foreign  # OpenCL drivers are

#: Kernels in a run, and programs.
NUMBERS = {
    "bvlc_alexnet": (15, 9),
    "densenet121": (186, 14),
    "inception_v1": (76, 8),
    "inception_v2": (87, 8),
    "resnet50": (58, 11),
    "shufflenet": (76, 19),
    "squeezenet": (32, 6),
    "vgg19": (26, 6),
    "zfnet512": (15, 7),
}


class Counted(Exception):
    """Instead of a graph whose programs are built."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in networks.SMALL else pytest.mark.slow) for n in NUMBERS],
)
def test_a_network_starts_so_many_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU: devices with local memory have further kernels for products."""

    def count(ir: Ir, context: Any, queue: Any, target: Target, *_: Any) -> None:
        passes.run(ir, target)
        launches = [launch for _, launch in launches_of(ir, target)]
        raise Counted(len(launches), len({source(launch) for launch in launches}))

    if gpu.choose().kind != "cpu":
        pytest.skip("the numbers are those of kernels for CPUs")
    monkeypatch.setattr(library, "compile_graph", count)
    with pytest.raises(Counted) as e:
        qnnrt.Session(importer.load(networks.randomized(name, 1, 64)), "gpu")
    assert e.value.args == NUMBERS[name]
