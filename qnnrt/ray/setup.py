"""What has to be known to Ray: the transport, and how a Buffer is pickled."""

from __future__ import annotations

from typing import Any

from .transfer import pickle_buffers

TRANSPORT = "QNNRT"
"""The transport's name in ``ray.method`` and ``ray.put``."""


def register() -> bool:
    """Make Ray know Buffers; again does no harm. Before or after ``ray.init``.

    In the driver, before the classes that use the transport are defined: Ray takes it to their
    actors. Elsewhere only processes need it that send Buffers to other nodes without the transport
    (tasks, Serve replicas), and actors that Ray starts again, in their ``__init__``; for all of
    them, ``ray.init(runtime_env={"worker_process_setup_hook": "qnnrt.ray.setup.register"})``.

    Returns:
        Whether this Ray has tensor transports (``ray.experimental.register_tensor_transport``).
        Without them Buffers travel all the same, in arguments, results and ``ray.put``, as long as
        their process has them; no reference count keeps them.
    """
    pickle_buffers()
    try:
        from . import transport
    except ImportError as error:
        if not (error.name or "").startswith("ray."):
            raise
        return False
    transport.register(TRANSPORT)
    return True


def wait_freed(memory: Any, timeout: float | None = None) -> None:
    """Wait until what this process gave out of this memory by the transport has no reference.

    Then it can be written again, as far as Ray knows: a receiver that keeps an array longer than
    the call that it came with sees what is written.

    Args:
        memory: a Buffer, or an array on one.
        timeout: in seconds.

    Raises:
        TimeoutError: there still is a reference.
        LookupError: the memory is not on a shared buffer.
    """
    from . import transport

    transport.wait_freed(memory, timeout)
