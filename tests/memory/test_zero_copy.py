"""Zero copies, exactly: bytes, faults and allocations of the steady state."""

from __future__ import annotations

import gc
import mmap
import resource

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support.outside import SANITIZED
from support.toy import add_model, conv_model, relu_model

RUNS = 1000


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


@pytest.mark.parametrize(
    ("backend", "io"), [("cpu", "memhandle"), ("cpu", "raw"), ("htp", "memhandle")]
)
@pytest.mark.parametrize(
    "model",
    [relu_model((1, 16)), add_model(), conv_model(), relu_model((1, 512, 512, 4))],
    ids=["relu", "add", "conv", "relu-4MiB"],
)
def test_a_thousand_runs_copy_fault_and_allocate_nothing(model, backend, io):
    with qnnrt.Session(model, backend, io=io, strict=True) as s:
        for t in s.inputs.values():
            t.array[...] = 1
        for _ in range(20):
            s.run()
        for _ in range(10):
            s.reset_stats()
            faults, allocations = _thousand_runs(s)
            stats = s.stats
            assert stats.executes == RUNS
            assert stats.copied_bytes == 0
            assert stats.copies == ()
            assert stats.reserved_bytes == 0
            assert stats.registrations == 0
            assert allocations == 0
            # The kernel may reclaim or move a page of anybody's meanwhile; a fault of ours would
            # be there every time. Under a sanitizer a malloc is a fault: nothing is reused.
            if faults == 0 or SANITIZED:
                return
        assert faults == 0


def _thousand_runs(session):
    gc.collect()
    gc.disable()
    try:
        runs = range(RUNS)
        allocations = _core.debug_allocations()
        faults = _faults()
        for _ in runs:
            session.run()
        return _faults() - faults, _core.debug_allocations() - allocations
    finally:
        gc.enable()


def test_the_counters_see_a_copy_a_fault_and_an_allocation():
    with qnnrt.Session(relu_model((1, 1 << 16))) as s:
        s.reset_stats()
        s.run({"x": np.zeros((1, 1 << 16), np.float32)})
        assert s.stats.copied_bytes == 2 * 4 << 16
    allocations = _core.debug_allocations()
    qnnrt.Session(relu_model()).close()
    assert _core.debug_allocations() > allocations
    faults = _faults()
    with mmap.mmap(-1, 1 << 20) as fresh:  # malloc may hand out pages that were touched before
        fresh[::4096] = bytes(256)
    assert _faults() > faults


def test_running_makes_no_python_objects():
    import sys

    with qnnrt.Session(relu_model()) as s:
        run = s.run
        for _ in range(100):
            run()
        gc.collect()
        blocks = sys.getallocatedblocks()
        for _ in range(RUNS):
            run()
        assert sys.getallocatedblocks() - blocks < 10


def test_inputs_and_outputs_are_the_buffers_that_the_backend_reads_and_writes():
    with qnnrt.Session(relu_model()) as s:
        x, y = s.inputs["x"], s.outputs["y"]
        assert x.buffer is not None
        assert y.buffer is not None
        other = qnnrt.Buffer.from_fd(x.buffer.fd, x.nbytes)
        seen = qnnrt.Buffer.from_fd(y.buffer.fd, y.nbytes)
        other.array((1, 16), np.float32)[...] = 11  # written through another mapping of the fd
        s.run()
        assert (seen.array((1, 16), np.float32) == 11).all()
        assert s.stats.copied_bytes == 0
