"""What a backend does with a session's memory, where it does nothing special."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..._native import _core
from ...errors import MemError
from ...memory import alloc
from ...model import ContextBinary, Model
from ...qnn.backend import Backend
from ...qnn.graph import Graph
from ...qnn.options import Custom, precision_config

Buffer: TypeAlias = _core.Buffer


class MemoryPolicy:
    """How a session's inputs and outputs are allocated and registered on a backend.

    This one is for backends that use shared buffers of the host in place. A backend with rules of
    its own has a subclass, in a file of its own, which ``policies`` names.
    """

    #: QNN_BACKEND_ID_* of the backends that the policy is for.
    ID: ClassVar[int]
    #: The option of ``Session`` that is this backend's own.
    OPTION: ClassVar[str | None] = None
    #: What a backend sees alone, and copies RAW memory into in every run.
    SEES: ClassVar[str | None] = None
    #: Whether each graph of a context binary waits for its own finalize, always.
    FINALIZES_LOADED: ClassVar[bool] = False

    def __init__(self, backend: Backend, heap: str | None, given: Any) -> None:
        """``given``: the value of ``OPTION``; None where there is none."""
        self.backend = backend
        self.heap = heap

    @classmethod
    def suits(cls, backend: Backend) -> bool:
        """Whether this is the policy of a backend."""
        return backend.id == cls.ID

    @classmethod
    def opening(cls, given: Any) -> dict[str, Any]:
        """Arguments for ``Backend.open`` out of the value of ``OPTION``; empty where sessions may
        share a backend."""
        return {}

    @classmethod
    def check_open(cls, given: Any) -> None:
        """Raises ``ValueError`` for a value of ``OPTION`` that an open backend cannot take."""

    # ---- building

    def check_io(self, choices: Mapping[str, str] | str) -> None:
        """Raises ``ValueError`` for io="scratch" where there is no such memory."""
        if "scratch" in (choices.values() if isinstance(choices, Mapping) else [choices]):
            raise ValueError(
                f"io='scratch' is for LPAI backends: {self.backend.name} has no scratch memory of "
                "the client's"
            )

    def check_model(self, model: Model) -> None:
        """Raises ``UnsupportedOpError`` for a model that the backend refuses as a whole."""

    def for_context(self) -> list[Custom]:
        """Custom config structs of the context."""
        return []

    def for_graph(self, precision: str | None, float32_nodes: Sequence[str]) -> list[Custom]:
        """Custom config structs of the graph."""
        return [*precision_config(self.backend.library, precision, float32_nodes)]

    def excludes_io(self, choices: Mapping[str, str]) -> bool:
        """Whether inputs and outputs stay out of the graph's scratch memory."""
        return False

    def binary_memory(self, binary: ContextBinary) -> ContextBinary | Buffer:
        """A context binary in the kind of memory that the backend reads it from."""
        return binary

    def before_finalize(self, graph: Graph) -> None:
        """What a graph needs before it is finalized."""

    def after_load(self, graph: Graph) -> None:
        """What a graph out of a context binary needs before it is executed."""

    # ---- memory of the session's own

    @property
    def alignment(self) -> int:
        """What the address of a bound buffer must be a multiple of."""
        return 1

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer for one tensor."""
        return alloc(max(nbytes, 1), heap=self.heap)

    def raw_array(self, shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, Buffer | None]:
        """Memory for a tensor that is bound as RAW, and the buffer that it lies in."""
        buffer = self.allocate(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        return buffer.array(shape, dtype), buffer

    def device_buffer(self, nbytes: int) -> Any:
        """Memory on the device where it takes no buffers of the host's; None: it has none."""
        return None

    def why_refused(self, error: MemError) -> str:
        """Why the backend did not register a buffer."""
        return f"{self.backend.name} takes no memory handles ({error.name})"

    # ---- binding

    def kind(self, buffer: Any) -> str:
        """As what kind of memory a buffer is registered."""
        return "shared_buffer"

    def is_device_memory(self, x: Any) -> bool:
        """Whether x is memory of the device's, which has no array."""
        return False

    # ---- scratch memory

    def scratch_array(self, graph: Graph, name: str) -> np.ndarray:
        """The array of a tensor that lies in the scratch memory."""
        raise ValueError(f"{self.backend.name} has no scratch memory of the client's")

    def set_scratch(self, graph: Graph, memory: Any) -> None:
        """Let the graph use other scratch memory."""
        raise ValueError(f"{self.backend.name} has no scratch memory of the client's")

    def close(self) -> None:
        """The session is closed: free what it allocated with."""
