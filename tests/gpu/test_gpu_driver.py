"""Drivers of OpenCL that fail: what is told, and that nothing is left behind."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_gpu_run import check_wide, gpu_configs, wide

import qnnrt
from qnnrt import _core, qnn
from qnnrt.gpu import compile as compiling
from qnnrt.gpu import loader, programs
from qnnrt.model import Model, Node, Tensor
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import F32, relu_model, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are

RESOURCES, ARGUMENTS = -5, -52  # CL_OUT_OF_RESOURCES, CL_INVALID_KERNEL_ARGS


class Driver:
    """OpenCL's functions, of which some can be made to fail.

    Attributes:
        failing: name -> the code that it returns.
        fails_at: a function and which call of it fails, with RESOURCES.
        calls: how many there were.
        events: given to the run loop and not released.
    """

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.fails_at: tuple[str, int] | None = None
        self.calls: dict[str, int] = {}
        self.events = 0
        self._keep: list[Any] = []
        self.functions = dict(loader.functions())
        for name, arguments in (
            ("clEnqueueNDRangeKernel", 9),
            ("clEnqueueWriteBuffer", 9),
            ("clEnqueueReadBuffer", 9),
            ("clEnqueueBarrierWithWaitList", 4),
            ("clFinish", 1),
            ("clFlush", 1),
            ("clSetKernelArg", 4),
            ("clReleaseEvent", 1),
        ):
            self._wrap(name, ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * arguments))
        status = ctypes.POINTER(ctypes.c_int32)
        sizes = [ctypes.c_size_t] * 4
        self._wrap("clCreateBuffer", ctypes.CFUNCTYPE(ctypes.c_size_t, *sizes, status))

    def _wrap(self, name: str, kind: Any) -> None:
        real = kind(self.functions[name])

        def call(*args: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            code = self.failing.get(name, 0)
            if self.fails_at == (name, self.calls[name]):
                code = RESOURCES
            if code and name.startswith("clCreate"):
                args[-1][0] = code
                return 0
            if code:
                return code
            self.events += name.startswith("clEnqueue") and args[-1] != 0
            self.events -= name == "clReleaseEvent"
            return int(real(*args))

        self._keep.append(kind(call))
        self.functions[name] = ctypes.cast(self._keep[-1], ctypes.c_void_p).value or 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    monkeypatch.setattr(compiling, "functions", lambda: driver.functions)
    return driver


@pytest.mark.parametrize(
    ("function", "opencl", "code", "words"),
    [
        (
            "clEnqueueNDRangeKernel",
            RESOURCES,
            1002,
            r"step 0, node 'relu', kernel \w+: it did not start \(CL_OUT_OF_RESOURCES, .* -5\)",
        ),
        ("clEnqueueNDRangeKernel", ARGUMENTS, 1100, r"CL_INVALID_KERNEL_ARGS, OpenCL error -52"),
        ("clEnqueueNDRangeKernel", -9999, 1100, r"a code of the driver's own, OpenCL error -9999"),
        ("clFinish", -36, 1100, r"did not finish \(CL_INVALID_COMMAND_QUEUE, OpenCL error -36\)"),
        ("clEnqueueWriteBuffer", -4, 1002, r"tensor 'x': .*CL_MEM_OBJECT_ALLOCATION_FAILURE"),
        ("clSetKernelArg", ARGUMENTS, 1100, r"tensor '\w': a kernel does not take its memory"),
    ],
)
def test_a_failing_driver_is_told_by_name_and_the_list_stays_usable(
    driver: Driver, function: str, opencl: int, code: int, words: str
) -> None:
    with qnnrt.Session(relu_model(), "gpu", io="raw") as s:
        s.inputs["x"].array[...] = -1
        driver.failing[function] = opencl
        for run in (s.run, lambda: s.run_async().result()):
            with pytest.raises(qnnrt.QnnError, match=words) as e:
                run()
            assert e.value.code == code
        driver.failing.clear()
        s.run()
        assert (s.outputs["y"].array == 0).all()
        assert s.stats.executes == 1
        s.close()
        s.backend.close()


def test_no_event_is_left_whatever_fails(driver: Driver) -> None:
    """Of a queue that keeps no order, whose commands wait for each other's events."""
    context = cl.Context([gpu.choose().raw])
    unordered = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(context, properties=unordered)
    options = {"gpu": {"context": context, "queue": queue, "node_optimizations": False}}
    model = chain(3)
    with qnnrt.Session(model, "gpu", io="raw", options=options) as s:
        for failing in ("", "clEnqueueBarrierWithWaitList", "clEnqueueReadBuffer", "clFinish"):
            driver.calls.clear()
            driver.failing = {failing: RESOURCES}
            if failing:
                with pytest.raises(qnnrt.QnnError, match="CL_OUT_OF_RESOURCES"):
                    s.run()
            else:
                s.run()
            assert driver.events == 0, failing
        driver.failing.clear()
        for kernel in range(3):  # the first, the second...
            driver.calls.clear()
            driver.fails_at = ("clEnqueueNDRangeKernel", kernel + 1)
            with pytest.raises(qnnrt.QnnError, match=f"step {kernel}, .*CL_OUT_OF_RESOURCES"):
                s.run()
            assert driver.calls["clEnqueueNDRangeKernel"] == kernel + 1
            assert driver.events == 0
        driver.fails_at = None
        s.inputs["x"].array[...] = 0.5
        s.run()
        expected = np.float32(0.5)
        for _ in range(3):
            expected = np.tanh(expected)
        np.testing.assert_allclose(s.outputs["y"].array, expected, rtol=1e-5)
        assert driver.events == 0
        s.close()
        s.backend.close()


def test_staging_memory_that_is_not_there(driver: Driver) -> None:
    """Each input and output may be the one; what was made before stays for the next run."""
    with qnnrt.Session(relu_model(), "gpu", io="raw") as s:
        for call, tensor in ((1, "x"), (3, "y")):  # the second one is the x of the second run
            driver.fails_at = ("clCreateBuffer", call)
            with pytest.raises(qnnrt.QnnError, match=f"tensor '{tensor}': no staging memory") as e:
                s.run()
            assert e.value.code == 1002
        driver.fails_at = None
        s.inputs["x"].array[...] = 2
        s.run()
        assert (s.outputs["y"].array == 2).all()
        assert counted(s, "reserved_bytes") == 128
        s.close()
        s.backend.close()


def counted(s: qnnrt.Session, name: str) -> int:
    return s.backend.library.gpu_counts(s.graph.handle)[name]


def chain(n: int) -> Model:
    """y = tanh(tanh(...x)): each step is an output."""
    names = ["x", *(f"t{i}" for i in range(n - 1)), "y"]
    return Model(
        "chain",
        tensors(*(Tensor(name, (1, 16), F32) for name in names)),
        [Node(f"tanh{i}", "Tanh", [names[i]], [names[i + 1]]) for i in range(n)],
        ["x"],
        names[1:],
    )


def test_a_device_with_memory_of_its_own_is_told_to_begin(driver: Driver) -> None:
    functions = driver.functions
    with qnnrt.Session(wide(40), "gpu") as s:
        library = s.backend.library
        facts = library._queue_facts(gpu_configs(s))
        assert facts["flush_every"] == (0 if library.device.shared else 32)
        s.close()
        original = _core.CommandList

        def flushing(*args: Any, **given: Any) -> _core.CommandList:
            return original(*args, **(given | {"flush_every": 32}))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_core, "CommandList", flushing)
            with qnnrt.Session(wide(40), s.backend) as flushed:
                check_wide(flushed)
                counts = library.gpu_counts(flushed.graph.handle)
        commands = counts["kernels"] + counts["writes"] + counts["reads"]
        assert driver.calls["clFlush"] == commands // 32 > 0
        assert functions is driver.functions
        s.backend.close()


@pytest.mark.parametrize("what", ["program", "memory"])
def test_a_driver_that_fails_while_a_graph_is_made(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with monkeypatch.context() as patch:
        if what == "program":
            patch.setattr(programs, "_text", lambda file: "#error planted\n")
        else:
            patch.setattr(compiling, "allocate", out_of_memory)
        with pytest.raises(qnnrt.GraphError, match=r"graph 'relu': .* refused it: .*") as e:
            qnnrt.Session(relu_model(), "gpu", options={"gpu": {}})
        assert e.value.code == (1002 if what == "memory" else 1100)
        assert e.value.__cause__ is not None
        e.value.__cause__.__traceback__ = None  # its frames hold the session's objects
    e.value.__traceback__ = None
    gc.collect()
    assert _core.gpu_counts() == {"handles": 0, "lists": 0}
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.run()
        s.backend.close()


def out_of_memory(*_: Any) -> None:
    """As a driver fails that has no more; some of them have a buffer of any size until it is used,
    so that no size is sure to fail."""

    class Record:
        def routine(self) -> str:
            return "clCreateBuffer"

        def code(self) -> int:
            return int(cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE)

        def what(self) -> str:
            return "planted"

    raise cl.MemoryError(Record())


@pytest.mark.parametrize("limit", ["max_mem_alloc_size", "global_mem_size"])
def test_a_graph_larger_than_the_device_is_refused_before_the_driver_is_asked(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A driver that allocates late would take it, and fail in the midst of an execution."""

    class Small:
        """A device one of whose limits is less than the model's weights need."""

        def __init__(self, raw: Any) -> None:
            self._raw = raw

        def __getattr__(self, name: str) -> Any:
            return 300 if name == limit else getattr(self._raw, name)

    weights = np.ones((64, 64), F32)
    model = Model(
        "product",
        tensors(
            Tensor("x", (1, 64), F32),
            Tensor("w", (64, 64), F32, weights),
            Tensor("y", (1, 64), F32),
        ),
        [Node("product", "MatMul", ["x", "w"], ["y"])],
        ["x"],
        ["y"],
    )
    backend = qnn.Backend.open("gpu")
    device = backend.library.device
    backend.library.device = replace(device, raw=Small(device.raw))
    asked = []
    original = cl.Buffer

    def noted(*args: Any, **kwargs: Any) -> cl.Buffer:
        buffer = original(*args, **kwargs)
        asked.append(buffer.size)
        return buffer

    with monkeypatch.context() as patch:
        patch.setattr(cl, "Buffer", noted)
        with pytest.raises((qnnrt.GraphError, qnnrt.UnsupportedOpError), match="300") as e:
            qnnrt.Session(model, backend, io="raw")
    # Inputs and outputs, 256 bytes each, come first on a device with memory of its own.
    assert max(asked, default=0) <= 256
    e.value.__traceback__ = None
    if e.value.__cause__ is not None:
        e.value.__cause__.__traceback__ = None
    backend.library.device = device
    gc.collect()
    with qnnrt.Session(model, backend) as s:
        s.run()
    backend.close()
