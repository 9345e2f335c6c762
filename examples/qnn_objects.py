"""The QNN objects without a session: the terms, the order and the codes of the C API."""

import numpy as np

import qnnrt
from qnnrt.qnn import Backend

with Backend.open("cpu") as backend, backend.create_context() as context:
    print(backend.version, "with", len(backend.supported_ops), "ops")

    graph = context.create_graph("scores")
    x = graph.add_tensor("x", (4, 16), "float32", type="app_write", mem_type="memhandle")
    w = graph.add_tensor("w", (3, 16), "float32", type="static", data=np.ones((3, 16), np.float32))
    y = graph.add_tensor("y", (4, 3), "float32", type="app_read", mem_type="memhandle")
    graph.add_node("dense", "FullyConnected", [x, w], [y])
    graph.finalize()

    # One buffer for both tensors: two handles on it, at different offsets.
    with qnnrt.alloc(8192) as buffer:
        input_handle = context.register(buffer, (4, 16), "float32", kind="shared_buffer")
        output_handle = context.register(
            buffer, (4, 3), "float32", offset=4096, kind="shared_buffer"
        )
        input_handle.array[...] = np.arange(64, dtype=np.float32).reshape(4, 16)
        graph.execute({"x": input_handle}, {"y": output_handle})
        print(output_handle.array)
        np.testing.assert_array_equal(output_handle.array[:, 0], [120, 376, 632, 888])

        try:
            context.register(buffer, (4, 16), "float32", kind="shared_buffer")
        except qnnrt.errors.MemError as error:
            print(f"registered twice: {error.code} {error.name}")
        context.deregister(input_handle, output_handle)
