"""DLPack both ways, and the buffer protocol beside it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qnnrt
from support.toy import relu_model


class OldConsumer:
    """Takes what a consumer of before DLPack 1 asks for."""

    def __init__(self, producer):
        self.producer = producer

    def __dlpack__(self, *, stream=None):
        return self.producer.__dlpack__()

    def __dlpack_device__(self):
        return self.producer.__dlpack_device__()


def test_numpy_sees_the_same_memory():
    b = qnnrt.alloc(64)
    a = np.from_dlpack(b)
    assert a.dtype == np.uint8
    assert a.shape == (64,)
    assert a.ctypes.data == b.address
    a[3] = 9
    assert memoryview(b)[3] == 9
    del a
    gc.collect()
    b.close()


def test_the_versioned_capsule_is_for_those_who_know_it():
    b = qnnrt.alloc(64)
    assert '"dltensor"' in repr(b.__dlpack__())
    assert '"dltensor"' in repr(b.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(b.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(b.__dlpack__(max_version=(2, 1)))
    assert b.__dlpack_device__() == (1, 0)
    gc.collect()
    b.close()  # no capsule that nobody consumed holds it


def test_read_only_memory_is_only_for_those_who_can_be_told():
    frozen = np.arange(8, dtype=np.uint8)
    frozen.flags.writeable = False
    b = qnnrt.Buffer.from_array(frozen)
    a = np.from_dlpack(b)
    assert not a.flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        b.__dlpack__()


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({"stream": 1}, "stream"), ({"dl_device": (2, 0)}, "device"), ({"copy": True}, "copy")],
)
def test_what_the_memory_is_not_is_refused(kwargs, match):
    b = qnnrt.alloc(64)
    with pytest.raises(BufferError, match=match):
        b.__dlpack__(**kwargs)
    b.close()


def test_a_tensor_keeps_the_buffer_open_until_it_dies():
    b = qnnrt.alloc(64)
    a = np.from_dlpack(OldConsumer(b))
    part = a[8:]
    del a
    with pytest.raises(qnnrt.BufferInUseError):
        b.close()
    del part
    gc.collect()
    b.close()


def test_a_closed_buffer_exports_nothing():
    b = qnnrt.alloc(64)
    b.close()
    with pytest.raises(qnnrt.ClosedError):
        np.from_dlpack(b)


def test_torch_shares_buffers_both_ways():
    torch = pytest.importorskip("torch")
    b = qnnrt.alloc(64)
    t = torch.from_dlpack(b).view(torch.float32)
    t[...] = 2.5
    assert (b.array(16, np.float32) == 2.5).all()
    assert t.data_ptr() == b.address
    del t
    gc.collect()
    b.close()


def test_torch_tensors_are_bound_in_place():
    torch = pytest.importorskip("torch")
    with qnnrt.Session(relu_model(), io="raw") as s:
        x = torch.arange(-8, 8, dtype=torch.float32).reshape(1, 16)
        y = torch.empty(1, 16)
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        assert s.inputs["x"].array.ctypes.data == x.data_ptr()
        s.run()
        assert y.tolist() == torch.relu(x).tolist()
        with pytest.raises(qnnrt.BindError, match="C-contiguous"):
            s.inputs["x"].bind(torch.zeros(16, 1).expand(16, 1).t().repeat(1, 2)[:, ::2])
        with pytest.raises(qnnrt.BindError, match="float64"):
            s.inputs["x"].bind(torch.zeros(1, 16, dtype=torch.float64))
    with qnnrt.Session(relu_model()) as s:
        shared = torch.from_dlpack(qnnrt.alloc_array((1, 16)))
        shared[...] = 3
        s.inputs["x"].bind(shared)  # on a shared buffer, so it can be a memory handle
        s.run()
        assert (s.outputs["y"].array == 3).all()
        assert s.stats.copied_bytes == 0


def test_jax_arrays_are_bound_in_place():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    on_host = jax.default_device(jax.devices("cpu")[0])  # where there is a GPU, jax prefers that
    with qnnrt.Session(relu_model(), io="raw") as s, on_host:
        s.inputs["x"].bind(jnp.full((1, 16), 4.0, jnp.float32))
        s.run()
        assert (s.outputs["y"].array == 4).all()
        with pytest.raises(qnnrt.BindError, match="writable"):
            s.outputs["y"].bind(jnp.zeros((1, 16), jnp.float32))


def test_session_arrays_go_out_through_dlpack():
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].array[...] = 1
        y = np.from_dlpack(s.outputs["y"].array)
        s.run()
        assert (y == 1).all()


def test_objects_with_the_buffer_protocol_are_bound():
    import array

    with qnnrt.Session(relu_model((16,)), io="raw") as s:
        a = array.array("f", [3.0] * 16)
        s.inputs["x"].bind(a)
        s.run()
        assert (s.outputs["y"].array == 3).all()


def test_a_buffer_wraps_the_memory_of_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        tensor = torch.zeros((2, 8), dtype=dtype)
        b = qnnrt.Buffer.from_array(tensor)
        assert (b.address, b.nbytes) == (tensor.data_ptr(), 16 * tensor.element_size())
        tensor[0, 0] = 1
        assert b.array((b.nbytes,), "uint8").any()
    for tensor, why in (
        (torch.zeros(8, 4).T, "C-contiguous block"),
        (torch.zeros(8, requires_grad=True), "cannot use the memory of a Tensor: .*detach"),
        (torch.zeros(8, device="meta"), "cannot use the memory of a Tensor: .*meta"),
        (torch.zeros(8, 4).to_sparse(), "cannot use the memory of a Tensor: .*layout"),
    ):
        with pytest.raises(ValueError, match=why):
            qnnrt.Buffer.from_array(tensor)


def test_a_buffer_wraps_no_objects_and_no_lists() -> None:
    for objects in (np.array([None]), np.zeros(2, [("O", "i4"), ("x", "O")])):
        with pytest.raises(ValueError, match="holds Python objects"):
            qnnrt.Buffer.from_array(objects)
    assert qnnrt.Buffer.from_array(np.zeros(2, [("O", "i4"), ("x", "f4")])).nbytes == 16
    for other in ([1.0, 2.0], 3, None, "text"):
        with pytest.raises(TypeError, match=r"expected an array, .*numpy.asarray of it"):
            qnnrt.Buffer.from_array(other)
