"""OpenCL buffers as the inputs and outputs of a graph: nothing moves between host and device.

One OpenCL buffer and one memory handle for each tensor: create, register, execute, map, read,
unmap, deregister, free. Needs ``pip install 'qnnrt[gpu]'`` and an OpenCL device;
``pip install 'pyopencl[pocl]'`` makes one of the CPU.
"""

import numpy as np
import pyopencl as cl

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Tensor

SHAPE = (64, 128)
float32 = np.dtype(np.float32)
values = np.linspace(-1, 1, 64 * 128, dtype=float32).reshape(SHAPE)


def on_qnn_objects() -> None:
    """Call by call, as a C client does it."""
    backend = qnn.Backend.open("gpu")
    context = backend.create_context()
    graph = context.create_graph("relu")
    x = graph.add_tensor("x", SHAPE, float32, type="app_write", mem_type="memhandle")
    y = graph.add_tensor("y", SHAPE, float32, type="app_read", mem_type="memhandle")
    graph.add_node("relu", "Relu", [x], [y])
    graph.finalize()

    # Buffers of the backend's OpenCL context, registered as QNN_GPU_MEM_OPENCL.
    nbytes = values.nbytes
    buffers = [cl.Buffer(backend.cl_context, cl.mem_flags.READ_WRITE, nbytes) for _ in range(2)]
    handles = [context.register(b, SHAPE, float32, kind="opencl") for b in buffers]

    with handles[0].map(read=False) as array:  # the whole tensor, for the time of the block
        array[...] = values
    graph.execute([handles[0]], [handles[1]])
    with handles[1].map(backend.cl_queue, write=False) as array:
        assert (array == np.maximum(values, 0)).all()
        print(f"{array.size} elements from {array.min()} to {array.max()}")

    context.deregister(*handles)
    for buffer in buffers:
        buffer.release()
    backend.close()


def in_a_session() -> None:
    """On the program's own OpenCL context and queue, in which its own kernels may run, too."""
    device = qnnrt.gpu.devices()[0].raw
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    model = Model(
        "relu",
        {name: Tensor(name, SHAPE, float32) for name in ("x", "y")},
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )
    x, y = (cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes) for _ in range(2))
    options = {"gpu": {"context": context, "queue": queue}}
    with qnnrt.Session(model, backend="gpu", strict=True, options=options) as session:
        session.inputs["x"].bind(x)  # registers it
        session.outputs["y"].bind(y)
        cl.enqueue_copy(queue, x, -values)
        session.run()
        print(f"{session.stats.copied_bytes} bytes copied by the run")
    result = np.empty_like(values)
    cl.enqueue_copy(queue, result, y)
    assert (result == np.maximum(-values, 0)).all()


if __name__ == "__main__":
    on_qnn_objects()
    in_a_session()
