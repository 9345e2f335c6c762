"""Memory as ``_core.Library.mem_register`` takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

#: ``MemDescriptor.custom`` for the structs of backends other than HTP.
LPAI_STRUCT: Final = -1
OPENCL_STRUCT: Final = -2


class MemDescriptor(NamedTuple):
    """A tensor's memory, for QnnMem_register.

    Attributes:
        shape, data_type: of the tensor.
        mem_type: QNN_MEM_TYPE_*.
        custom: which struct QNN_MEM_TYPE_CUSTOM means: HTP's, by its QNN_HTP_MEM_*,
            ``LPAI_STRUCT`` or ``OPENCL_STRUCT``.
        fd: the file that the memory lies in; -1 for an OpenCL buffer.
        size: of the whole file, or of the OpenCL buffer.
        offset: of the tensor in the file.
        address: of the memory, for QNN_MEM_TYPE_DMA_BUF; the cl_mem of an OpenCL buffer.
    """

    shape: Sequence[int]
    data_type: int
    mem_type: int
    custom: int = 0
    fd: int = -1
    size: int = 0
    offset: int = 0
    address: int = 0
