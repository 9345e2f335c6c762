"""When products are on tensor cores, and what has to be tried before."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import choose, ir, tune
from qnnrt.gpu.compile import launches_of
from qnnrt.gpu.configs import Configs
from qnnrt.gpu.device import WITHOUT, Device
from qnnrt.gpu.ops import gemm, tensor, trial
from qnnrt.gpu.ops.product import Product
from qnnrt.gpu.programs import rewritten, source
from qnnrt.gpu.target import Target
from support.gpu.cases import against_cpu, normal, on_gpu, one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.gpu.tensor_cores import (
    DTYPES,
    FOUR,
    MAPPED,
    WIDE,
    described,
    product,
)
from support.one_node import Case, case

pytestmark = pytest.mark.foreign  # OpenCL drivers are


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, one_backend: qnnrt.qnn.Backend) -> Callable[..., Any]:  # noqa: F811
    """The variants of a product that a device lists, by name, and what the session says of itself;
    one of those for any device is taken."""
    library, usual = one_backend.library, gemm.variants

    def names(c: Case, tensor_cores: bool, precision: str) -> tuple[list[str], Any]:
        found: list[str] = []

        def variants(x: Product, target: Target) -> tune.Variants:
            given = usual(x, target)
            found.extend(given)
            return {name: make for name, make in given.items() if name.startswith("panels")}

        device = dataclasses.replace(library.device, kind="gpu", tensor_cores=tensor_cores)
        monkeypatch.setattr(library, "device", device)
        monkeypatch.setattr(gemm, "variants", variants)
        monkeypatch.setattr(trial, "trusted", lambda _: True)
        monkeypatch.setattr(trial, "local_bytes", lambda _: 48 << 10)
        with qnnrt.Session(c.model, "gpu", options={"gpu": {"precision": precision}}) as s:
            s.run(c.feeds)
            return found, json.loads(s.graph.describe() or "")

    return names


@pytest.mark.parametrize(
    ("precision", "tensor_cores", "first"),
    [
        ("user", True, "tiles"),
        ("tf32", True, "tensor"),
        ("fp16", True, "tensor"),
        ("hybrid", True, "tensor"),
        ("tf32", False, "tiles"),
        ("fp16", False, "tiles"),
    ],
)
def test_they_come_first_where_they_may_be_used(
    listed: Callable[..., Any], precision: str, tensor_cores: bool, first: str
) -> None:
    c = product((64, 64, 64), (False, False), np.float32)
    names, told = listed(c, tensor_cores, precision)
    assert names[0].startswith(first)
    few = tune._candidates(dict.fromkeys(names, list))
    assert any(name.startswith("tiles") for name in few), "measured beside them"
    assert any(name.startswith("tensor") for name in names) == (first == "tensor")
    assert told["precision"] == precision


def test_few_rows_are_bound_by_memory(listed: Callable[..., Any]) -> None:
    c = product((1, 64, 64), (False, True), np.float16)
    names, _ = listed(c, True, "user")
    assert names[0] == "dots"
    assert names[1].startswith("tensor")


def test_precision_tf32_is_an_option(caplog: pytest.LogCaptureFixture) -> None:
    """Of graphs; a device without tensor cores multiplies 32-bit floats, and says so."""
    c = case("MatMul", [normal(33, 50), normal(50, 36)], [(33, 36)])
    plain, _ = on_gpu(c.model, c.feeds)
    options = {"gpu": {"precision": "tf32"}}
    with (
        caplog.at_level(logging.INFO, "qnnrt"),
        qnnrt.Session(c.model, "gpu", options=options) as s,
    ):
        assert s.precision == "tf32"
        y = s.run(c.feeds)["out0"].copy()
        kernels = [step["kernel"] for step in json.loads(s.graph.describe() or "")["steps"]]
    if choose().tensor_cores:
        assert kernels == ["tensor.tensor"]
        assert 0 < np.abs(y - plain["out0"]).max() < 50 * 2.0**-9
    else:
        assert "tensor.tensor" not in kernels
        assert "has no tensor cores" in caplog.text
        np.testing.assert_array_equal(y, plain["out0"])


def test_they_are_tried_before_they_are_used(caplog: pytest.LogCaptureFixture) -> None:
    """By what does their work where there are none: right there, and refused as PTX."""
    device = choose()
    assert [trial.differences(device, np.dtype(dtype), WIDE) for dtype in DTYPES] == [0, 0]
    for block in (FOUR, MAPPED):
        for layout in ((False, False), (False, True), (True, True)):
            assert trial.differences(device, np.dtype(np.float32), block, turned=layout) == 0
    if not device.tensor_cores:
        claims = dataclasses.replace(device, tensor_cores=True, driver="claims")
        with caplog.at_level(logging.WARNING, "qnnrt"):
            assert not trial.trusted(claims)
        assert "are not used: clBuildProgram failed" in caplog.text


def test_local_memory_beyond_what_opencl_says_is_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As many bytes as the compute capability has, if a product with them comes out right."""
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    found: list[tensor.Block] = []
    answers = {"right": 0, "wrong": 1}

    def differences(real: Device, dtype: Any, block: tensor.Block) -> int:
        found.append(block)
        if real.driver not in answers:
            raise RuntimeError("ptxas: too much shared data")
        return answers[real.driver]

    monkeypatch.setattr(trial, "differences", differences)
    monkeypatch.setattr(trial, "_real", lambda device: device)
    monkeypatch.setattr(trial, "_local", {})
    with caplog.at_level(logging.INFO, "qnnrt"):
        each = [
            trial.local_bytes(dataclasses.replace(device, driver=driver))
            for driver in ("right", "wrong", "refuses")
        ]
    assert each == [227 << 10, 48 << 10, 48 << 10]
    assert "too much shared data" in caplog.text
    assert all(200 << 10 < block.local_bytes <= 227 << 10 for block in found)


@pytest.mark.parametrize("maps", [False, True])
def test_four_warps_together_are_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, maps: bool
) -> None:
    """Where the compute capability has such instructions, with each type and layout; and so are
    tensor maps for these."""
    tried: list[tuple[str, str, tuple[bool, bool]]] = []

    def differences(
        real: Device, dtype: Any, block: tensor.Block, turned: tuple[bool, bool]
    ) -> int:
        assert block.grouped
        assert block.maps == maps
        tried.append((real.driver, dtype.name, turned))
        if real.driver == "refuses":
            raise RuntimeError("clBuildProgram failed")
        return int((real.driver, dtype.name) == ("wrong", "float32"))

    monkeypatch.setattr(trial, "differences", differences)
    monkeypatch.setattr(trial, "_real", lambda device: device)
    monkeypatch.setattr(trial, "_grouped", {})
    monkeypatch.setattr(trial, "_maps", {})
    asked = trial.maps if maps else trial.grouped
    monkeypatch.setattr(
        trial, "local_bytes", lambda device: {"small": 48 << 10}.get(device.driver, 227 << 10)
    )
    found = {}
    with caplog.at_level(logging.INFO, "qnnrt"):
        for driver in ("right", "wrong", "refuses", "small", "older", "newer"):
            raw = described(
                "cl_nv_device_attribute_query", {"older": 8, "newer": 10}.get(driver, 9)
            )
            found[driver] = asked(dataclasses.replace(Device.of(raw), driver=driver))
    assert [driver for driver, is_ in found.items() if is_] == ["right"]
    assert [t[1:] for t in tried if t[0] == "right"] == [
        ("float16", (False, False)),
        ("float16", (True, True)),
        ("float32", (False, maps)),
    ]
    assert {driver for driver, *_ in tried} == {"right", "wrong", "refuses"}
    assert "float32, 1 numbers are wrong" in caplog.text
    assert "clBuildProgram failed" in caplog.text


@pytest.mark.parametrize("size", [256, 4096])
@pytest.mark.parametrize("dtype", DTYPES)
def test_four_warps_together_make_large_products(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, size: int
) -> None:
    """Those that they take less time for; 32-bit floats that are no constants are rounded first."""
    monkeypatch.delenv(WITHOUT, raising=False)
    monkeypatch.setattr(trial, "trusted", lambda _: True)
    monkeypatch.setattr(trial, "local_bytes", lambda _: 227 << 10)
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    made = {}
    for grouped in (False, True):
        monkeypatch.setattr(trial, "grouped", lambda _, is_=grouped: is_)
        monkeypatch.setattr(trial, "maps", lambda _: False)
        a, b, y = (ir.Value("", 0, (size, size), np.dtype(dtype), 0, "native") for _ in range(3))
        graph = ir.Ir("g", (a, b, y), [ir.Node("n", "MatMul", [a, b], [y], {})])
        target = Target(device, tf32=True, kernels_alone=True)
        made[grouped] = [launch for _, launch in launches_of(graph, target)]
    defines = {
        grouped: {d for launch in launches for d in launch.defines if d[0] == "GROUPED"}
        for grouped, launches in made.items()
    }
    assert not defines[False]
    assert bool(defines[True]) == (size == 4096)
    if defines[True]:
        before = [launch.file for launch in made[True][:-1]]
        assert before == (["prepare"] if dtype is np.float32 else [])


def test_marked_instructions_are_put_into_ptx() -> None:
    ptx = b"\n.version 8.8\n.target sm_90, texmode_independent\n\t//@ one {%r1};\n//@ two;\n\0\0"
    better = b"\n.version 8.8\n.target sm_90a, texmode_independent\n\tone {%r1};\ntwo;\n"
    assert rewritten(ptx) == better
    assert rewritten(better) is None
    assert rewritten(b"\x7fELF") is None


def test_wrong_numbers_are_not_trusted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = dataclasses.replace(choose(), driver="wrong")

    def wrong(x: Product, target: Target, block: tensor.Block, parts: int) -> list[ir.Launch]:
        (launch,) = tensor.make(x, target, WIDE, parts)
        first, inner = launch.args.index(x.depth), launch.args[launch.args.index(x.depth)]
        args = (*launch.args[:first], inner - 1, inner - 1, *launch.args[first + 2 :])
        return [dataclasses.replace(launch, args=args)]

    monkeypatch.setattr(trial, "make", wrong)
    with caplog.at_level(logging.WARNING, "qnnrt"):
        assert not trial.trusted(device)
    assert "numbers are wrong" in caplog.text


def test_a_device_that_cannot_be_tried_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    with caplog.at_level(logging.INFO, "qnnrt"):
        assert not trial.trusted(device)
    assert "cannot be tried here" in caplog.text


@pytest.mark.parametrize(
    ("precision", "dtype", "instruction"),
    [
        ({"precision": "fp32", "TF32": True}, np.float32, "m16n8k8"),
        ({"precision": "hybrid"}, np.float16, "m16n8k16"),
    ],
)
def test_they_are_compiled_for_without_one(
    monkeypatch: pytest.MonkeyPatch, precision: dict[str, Any], dtype: Any, instruction: str
) -> None:
    """As in the compiler of libQnnGpu.so, which has no OpenCL: a kernel with the instructions."""
    monkeypatch.delenv(WITHOUT, raising=False)
    monkeypatch.setattr(trial, "trusted", lambda _: True)
    monkeypatch.setattr(trial, "local_bytes", lambda _: 48 << 10)
    device = Device.of(described("cl_nv_device_attribute_query", 9))
    target = Configs.read({"graph": precision, "portable": True}).target(device)
    a, b, y = (ir.Value("", 0, (256, 256), np.dtype(dtype), 0, "native") for _ in range(3))
    graph = ir.Ir("g", (a, b, y), [ir.Node("n", "MatMul", [a, b], [y], {})])
    launch = launches_of(graph, target)[0][1]  # that behind it, if any, adds the parts of sums
    text = source(launch)
    assert launch.file == "tensor"
    assert ("PTX", "1") in launch.defines
    assert f"mma.sync.aligned.{instruction}" in text
    assert "#include" not in text


@pytest.mark.parametrize(
    ("extensions", "major", "there"),
    [
        ("cl_nv_device_attribute_query", 8, True),
        ("cl_nv_device_attribute_query", 9, True),
        ("cl_nv_device_attribute_query", 7, False),
        ("cl_khr_fp16", 9, False),  # of another maker's attribute nothing is known
    ],
)
def test_a_device_says_whether_it_has_them(
    monkeypatch: pytest.MonkeyPatch, extensions: str, major: int, there: bool
) -> None:
    raw = described(extensions, major)
    monkeypatch.delenv(WITHOUT, raising=False)
    assert Device.of(raw).tensor_cores == there
    monkeypatch.setenv(WITHOUT, "0")
    assert not Device.of(raw).tensor_cores
