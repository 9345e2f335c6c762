"""GPU: OpenCL buffers, on qnnrt's own backend and on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from ..._native import _core
from ...abi.constants import QNN_BACKEND_ID_GPU
from ...errors import MemError
from ...gpu.host import device_memory, pinned
from ...gpu.imports import ImportRefused
from ...gpu.options import Options
from ...qnn.backend import Backend
from ...qnn.opencl_handle import is_opencl_buffer
from ...qnn.options import Custom
from .base import MemoryPolicy

Buffer: TypeAlias = _core.Buffer

#: Precisions of sessions as the option of GPU backends.
_PRECISIONS: Final = {"float32": "fp32", "float16": "fp16"}


class ForeignGpuPolicy(MemoryPolicy):
    """Another maker's: it has an OpenCL context of its own, and sees host memory by its fd."""

    ID = QNN_BACKEND_ID_GPU
    OPTION = "gpu"

    def __init__(self, backend: Backend, heap: str | None, given: Any) -> None:
        super().__init__(backend, heap, given)
        self._options = Options.of(given) if given is not None else backend._gpu

    @classmethod
    def opening(cls, given: Any) -> dict[str, Any]:
        options = Options.of(given)
        # Those of contexts and graphs need no backend of their own, whose OpenCL context alone may
        # take hundreds of megabytes.
        return {"gpu": given} if options.own_objects or options.for_backend() else {}

    @classmethod
    def check_open(cls, given: Any) -> None:
        options = Options.of(given)
        if options.own_objects or options.for_backend():
            raise ValueError("the backend is open already: give 'gpu' to Backend.open")

    def for_context(self) -> list[Custom]:
        return [*self._options.for_context()] if self._options else []

    def for_graph(self, precision: str | None, float32_nodes: Sequence[str]) -> list[Custom]:
        options = self._options or Options()
        if float32_nodes:
            raise ValueError("option 'float32_nodes' is for cpu and htp")
        if precision is not None:
            if precision not in _PRECISIONS:
                raise ValueError(
                    f"precision on gpu must be one of {', '.join(_PRECISIONS)}, not {precision!r}; "
                    "see also options={'gpu': {'precision': ...}}"
                )
            options = replace(options, precision=_PRECISIONS[precision])
        if options.precision == "tf32" and not self.backend.library.has_extensions:
            raise ValueError(f"{self.backend.library.path} is not qnnrt's own: it has no 'tf32'")
        return [*options.for_graph()]

    def kind(self, buffer: Any) -> str:
        return "dma_buf" if isinstance(buffer, Buffer) else "opencl"

    def is_device_memory(self, x: Any) -> bool:
        return is_opencl_buffer(x)


class GpuPolicy(ForeignGpuPolicy):
    """qnnrt's own in Python: buffers of the host are used in place where the device can, or copied.

    Its libQnnGpu.so is as another maker's.
    """

    SEES = "OpenCL buffers"

    @classmethod
    def suits(cls, backend: Backend) -> bool:
        return super().suits(backend) and isinstance(backend.library, _core.GpuLibrary)

    def raw_array(self, shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, Buffer | None]:
        array = pinned(self.backend.library, shape, dtype)
        return (array, None) if array is not None else super().raw_array(shape, dtype)

    def device_buffer(self, nbytes: int) -> Any:
        return device_memory(self.backend.library, nbytes)

    def why_refused(self, error: MemError) -> str:
        cause = error.__cause__
        return str(cause) if isinstance(cause, ImportRefused) else super().why_refused(error)

    def kind(self, buffer: Any) -> str:
        return "opencl"
