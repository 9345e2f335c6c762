"""The QNN objects, as the C API has them: ``qnnrt.qnn``.

Same words, order and error codes as the C API. Each object owns one handle, keeps what it stands on
alive, and is closed before that: memory handles, then graphs, then the context, the device, the
backend and its log. Using one after it, or its parent, is closed raises ``ClosedError``; using one
in a forked child raises ``ForkError``, and the parent's stay as they are.
"""

from __future__ import annotations

from .._native._core import Tensor
from ..custom_ops import (
    PYTHON_PACKAGE,
    OpTensor,
    PythonOp,
    python_ops,
    register_op,
    unregister_op,
)
from ..dtypes import DATA_TYPES, data_type, data_type_name, numpy_dtype
from .backend import CAPABILITIES, Backend, BackendVersion
from .context import Context
from .copies import Copy
from .domain import DomainHolder, ProcessDomain, process_domain, set_process_domain_budget
from .graph import ExecutionEnvironment, Graph
from .memhandle import MemHandle
from .profile import Profile, ProfileEvent, Signal
from .weights import SharedWeights, shared_weights

__all__ = [
    "CAPABILITIES",
    "DATA_TYPES",
    "PYTHON_PACKAGE",
    "Backend",
    "BackendVersion",
    "Context",
    "Copy",
    "DomainHolder",
    "ExecutionEnvironment",
    "Graph",
    "MemHandle",
    "OpTensor",
    "ProcessDomain",
    "Profile",
    "ProfileEvent",
    "PythonOp",
    "SharedWeights",
    "Signal",
    "Tensor",
    "data_type",
    "data_type_name",
    "numpy_dtype",
    "process_domain",
    "python_ops",
    "register_op",
    "set_process_domain_budget",
    "shared_weights",
    "unregister_op",
]
