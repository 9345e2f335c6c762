"""Run by test_gpu_zero_copy.py on oclgrind's device: what sessions do where the device has memory
of its own."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import qnnrt
from qnnrt import gpu
from qnnrt.gpu.device import choose
from support.building import Builder
from support.gpu.driver import Spy, loaded
from support.toy import F32, relu_model

X = np.linspace(-1, 1, 16, dtype=F32).reshape(1, 16)
Y = np.maximum(X, 0)


def falls_back_to_pinned_memory(spy: Spy) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        session = qnnrt.Session(relu_model(), "gpu")
    assert "has memory of its own" in str(said[0].message)
    with session as s:
        assert s.io == "raw"
        assert s.stats.fallback is not None
        assert "has memory of its own" in s.stats.fallback
        x, y = s.inputs["x"], s.outputs["y"]
        assert x.buffer is None
        assert _mapped(x.array)
        x.array[...] = X
        spy.reset()
        s.run()
        assert spy.rows() == {"write": (1, 64), "read": (1, 64), "ndrange": (1, 0)}
        np.testing.assert_array_equal(y.array, Y)
        assert {(c.tensor, c.nbytes) for c in s.stats.copies} == {("x", 64), ("y", 64)}
        kept = y.array
        x.bind(qnnrt.alloc_array((1, 16), F32))  # staged like any other memory
        x.array[...] = -X
        s.run()
        np.testing.assert_array_equal(y.array, np.maximum(-X, 0))
        assert s.stats.copied_bytes == 4 * 64
        kept[...] = Y
    np.testing.assert_array_equal(kept, Y)  # arrays outlive their session


def _mapped(array: Any) -> bool:
    """Whether it lies in a mapping of a buffer of the driver's."""
    while array is not None and type(array).__name__ != "MemoryMap":
        array = getattr(array, "base", None)
    return array is not None


def binds_the_clients_buffers(spy: Spy) -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        for t in (s.inputs["x"], s.outputs["y"]):
            t.bind(cl.Buffer(s.backend.cl_context, cl.mem_flags.READ_WRITE, t.nbytes))
        assert s.io == "memhandle"
        s.run()
        s.reset_stats()
        spy.reset()
        s.run()
        assert spy.rows() == {"ndrange": (1, 0)}
        assert s.stats.copied_bytes == 0
        np.testing.assert_array_equal(s.run({"x": X})["y"], Y)
        assert s.stats.copied_bytes == 128


def is_strict_with_buffers_of_its_own(spy: Spy) -> None:
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        assert (s.io, s.stats.fallback) == ("memhandle", None)
        with pytest.raises(qnnrt.BindError, match=r"use handle\.map"):
            s.inputs["x"].array  # noqa: B018
        x, y = s.inputs["x"].handle, s.outputs["y"].handle
        assert isinstance(x, gpu.OpenCLHandle)
        assert isinstance(y, gpu.OpenCLHandle)
        with x.map(read=False) as array:
            array[...] = X
        spy.reset()
        s.run()
        assert spy.rows() == {"ndrange": (1, 0)}
        with y.map(write=False) as array:
            np.testing.assert_array_equal(array, Y)
        with pytest.raises(qnnrt.CopyError):
            s.run({"x": X})
        with pytest.raises(qnnrt.MemError, match="has memory of its own"):
            s.inputs["x"].bind(qnnrt.alloc_array((1, 16), F32))
        assert s.inputs["x"].handle is x  # the old binding stays


def takes_no_memory_of_the_hosts(spy: Spy) -> None:
    with (
        qnnrt.qnn.Backend.open("gpu") as backend,
        backend.create_context() as context,
        qnnrt.alloc(4096) as buffer,
    ):
        with pytest.raises(qnnrt.MemError, match=r"memory of its own.*pyopencl\.Buffer") as e:
            context.register(buffer, (1, 16), F32, kind="opencl")
        assert e.value.code == 8005


def main() -> None:
    platform = choose().raw.platform
    warnings.simplefilter("ignore", RuntimeWarning)  # of the fallback, said once
    with Spy(loaded(Builder(Path(sys.argv[1])), "cl_spy")).on(platform) as spy:
        falls_back_to_pinned_memory(spy)
        binds_the_clients_buffers(spy)
        is_strict_with_buffers_of_its_own(spy)
        takes_no_memory_of_the_hosts(spy)
    print("all done")


if __name__ == "__main__":
    main()
