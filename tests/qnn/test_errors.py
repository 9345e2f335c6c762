"""Errors: one class for a component, one clear message, and the next correct call works."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, errors, lpai, qnn
from support.toy import relu_model


@pytest.mark.parametrize(
    ("code", "component", "cls", "name"),
    [
        (1000, "mem", errors.MemError, "QNN_MEM_ERROR_NOT_SUPPORTED"),
        (1002, "context", errors.ContextError, "QNN_CONTEXT_ERROR_MEM_ALLOC"),
        (1004, "graph", errors.GraphError, "QNN_COMMON_ERROR_INVALID_ARGUMENT"),
        (2000, None, errors.PropertyError, "QNN_PROPERTY_ERROR_UNKNOWN_KEY"),
        (3110, "backend", errors.OpPackageError, "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"),
        (4005, "backend", errors.BackendError, "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND"),
        (4950, "graph", errors.BackendError, "QNN_SAVER_ERROR_DUMMY_RETVALUE"),
        (5005, "context", errors.ContextError, "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY"),
        (6025, "graph", errors.GraphError, "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL"),
        (7003, "graph", errors.TensorError, "QNN_TENSOR_ERROR_ALREADY_EXISTS"),
        (8000, "graph", errors.MemError, "QNN_MEM_ERROR_INVALID_ARGUMENT"),
        (9000, None, errors.SignalError, "QNN_SIGNAL_ERROR_SIGNAL_IN_USE"),
        (10001, None, errors.QnnError, "QNN_ERROR_INVALID_ERROR_HANDLE"),
        (11004, None, errors.LogError, "QNN_LOG_ERROR_INVALID_HANDLE"),
        (12001, None, errors.ProfileError, "QNN_PROFILE_ERROR_HANDLE_IN_USE"),
        (14001, None, errors.DeviceError, "QNN_DEVICE_ERROR_INVALID_CONFIG"),
        (15000, None, errors.GlobalConfigError, "QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG"),
        (30010, None, errors.SystemError_, "QNN_SYSTEM_COMMON_ERROR_MALFORMED_BINARY"),
        (64000, None, errors.QnnError, "QNN_UNKNOWN_ERROR"),
    ],
)
def test_a_code_has_a_name_and_a_class(code, component, cls, name):
    error = errors.make_error(code, component, "someCall", "what was asked", "what it said")
    assert type(error) is cls
    assert (error.code, error.name) == (code, name)
    for part in ("someCall", "what was asked", "what it said", name, str(code), hex(code)):
        assert part in str(error)


def test_the_upper_bits_of_an_error_handle_are_not_the_code():
    assert errors.make_error(0x1234_0000_1F40, "mem", "memRegister").code == 8000


def test_the_best_known_error_says_what_size_means():
    assert "whole buffer" in str(errors.make_error(0x1F40, "mem", "memRegister"))


def test_the_runtime_has_words_for_every_code():
    library = qnn.Backend.open("cpu").library
    said = {code: library.error_message(code) for code in errors.CODES}
    assert all(said.values()), [code for code, text in said.items() if not text]
    assert len(set(said.values())) > len(said) / 2


def test_errors_survive_pickling():
    error = errors.make_error(8002, "mem", "memRegister")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.MemError
    assert (again.code, again.name, str(again)) == (error.code, error.name, str(error))
    copy = pickle.loads(pickle.dumps(errors.CopyError("x", "because")))
    assert (copy.tensor, copy.reason) == ("x", "because")
    bind = pickle.loads(pickle.dumps(errors.BindError("x", "because")))
    assert str(bind) == "tensor 'x': because"


def test_own_errors_fit_the_builtin_ones():
    assert issubclass(errors.ClosedError, ValueError)
    assert issubclass(errors.BufferInUseError, BufferError)
    assert issubclass(errors.ModelError, ValueError)
    assert issubclass(errors.BackendNotFoundError, OSError)
    for name in errors.__all__:
        thing = getattr(errors, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert issubclass(thing, errors.Error)
            assert thing.__doc__


def test_a_failing_native_allocation_is_an_error_and_the_next_session_works():
    model = relu_model()
    start = _core.debug_allocations()
    qnnrt.Session(model).close()
    needed = _core.debug_allocations() - start
    failures = 0
    for n in range(1, needed + 1):
        _core.debug_fail_allocation(n)
        try:
            qnnrt.Session(model).close()  # without a log a session works, so not every one counts
        except qnnrt.QnnError:
            failures += 1
        finally:
            _core.debug_fail_allocation(-1)
    assert failures > needed / 2
    with qnnrt.Session(model) as s:
        s.inputs["x"].array[...] = 1
        s.run()
        assert (s.outputs["y"].array == 1).all()


def test_a_stale_handle_is_refused_whatever_was_made_since():
    with qnnrt.Session(relu_model()) as s:
        stale = s.context.register(qnnrt.alloc(4096), (1, 16), np.float32)
        number = stale.handle
        stale.close()
        with pytest.raises(qnnrt.ClosedError):
            s.inputs["x"].bind(stale)
        fresh = [s.context.register(qnnrt.alloc(4096), (1, 16), np.float32) for _ in range(8)]
        with pytest.raises(qnnrt.MemError) as e:
            s.backend.library.mem_deregister([number])
        assert e.value.code == 8001
        assert len({h.handle for h in fresh} | {number}) == 9
        s.run()


def test_a_shrunk_fd_under_a_session_is_an_error_and_not_a_crash():
    import os

    fd = os.memfd_create("test")
    os.ftruncate(fd, 4096)
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].bind((fd, 64, 0))
        s.run()
        os.ftruncate(fd, 0)
        with pytest.raises(qnnrt.QnnError):
            s.run()
        os.ftruncate(fd, 4096)
        s.run()
    os.close(fd)


def test_a_library_that_is_no_backend_is_named():
    import _ctypes

    with pytest.raises(qnnrt.BackendNotFoundError, match="QnnInterface_getProviders"):
        qnn.Backend.open(_ctypes.__file__)


def test_what_the_gpu_backend_needs_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)  # as where it is not installed
    with pytest.raises(qnnrt.BackendNotFoundError, match=r"needs pyopencl .*pip install"):
        qnnrt.Session(relu_model(), "gpu")


def test_what_a_call_before_said_is_no_reason_for_this_one() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        with pytest.raises(errors.GraphError, match="option 201"):
            lpai.set_performance(graph)  # no option of this backend's
        with pytest.raises(errors.GraphError, match="does not support the call") as error:
            lpai.pool_sizes(graph)
        assert error.value.code == 1000
        assert "201" not in str(error.value)
