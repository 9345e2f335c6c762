"""The QNN objects, as the C API has them: ``qnnrt.qnn``."""

from __future__ import annotations

from ._core import Tensor
from .backend import (
    CAPABILITIES,
    Backend,
    BackendVersion,
    Context,
    ExecutionEnvironment,
    Graph,
    MemHandle,
    Profile,
    ProfileEvent,
    Signal,
)
from .dtypes import DATA_TYPES, data_type, data_type_name, numpy_dtype

__all__ = [
    "CAPABILITIES",
    "DATA_TYPES",
    "Backend",
    "BackendVersion",
    "Context",
    "ExecutionEnvironment",
    "Graph",
    "MemHandle",
    "Profile",
    "ProfileEvent",
    "Signal",
    "Tensor",
    "data_type",
    "data_type_name",
    "numpy_dtype",
]
