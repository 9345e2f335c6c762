"""What a session on an LPAI backend does besides: which backend, which models, which memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..errors import UnsupportedNode, UnsupportedOpError
from ..lpai import ID, Options
from ..qnn.backend import Backend
from ..qnn.backend_base import BackendBase

if TYPE_CHECKING:
    from ..model import Model, Node

#: Float tensors that are allowed: what these read, or write, is what they are there for.
_FLOAT_SIDES: Final = {"Quantize": "inputs", "Dequantize": "outputs"}
_FIXED_POINT: Final = (
    "lpai computes on fixed-point numbers alone, and {} {} float: quantize the model first, see "
    "docs/quantization.md"
)


def open_backend(
    backend: str | PathLike[str] | Backend, given: Mapping[str, Any]
) -> tuple[Backend, Options | None]:
    """The backend of a session, and the session's LPAI options; None where it is not LPAI.

    Raises:
        ValueError: options that this backend has not, or that come too late for it.
    """
    told = given.get("lpai")
    options = Options.of(told)
    opening = options.for_backend()
    gpu = given.get("gpu")
    if isinstance(backend, Backend):
        if gpu is not None:
            _refuse_late(gpu, backend)
        if opening:
            raise ValueError(
                "the backend is open already: give its hardware_version, target and direct_mode to "
                "Backend.open, with qnnrt.lpai.backend_options()"
            )
    elif opening:
        backend = Backend.open(backend, options=opening)
    elif gpu is not None:
        backend = Backend.open(backend, gpu=gpu)
    else:
        backend = Backend.shared(backend)
    if backend.id == ID:
        return backend, options
    if told is not None:
        raise ValueError(f"option 'lpai' is for LPAI backends, which {backend.name} is not")
    return backend, None


def _refuse_late(gpu: Any, backend: Backend) -> None:
    """Raises ``ValueError`` when there are gpu options that an open backend cannot take."""
    from ..gpu import ID as GPU
    from ..gpu import Options as GpuOptions

    given = GpuOptions.of(gpu)
    if backend.id != GPU:
        raise ValueError(f"option 'gpu' is for GPU backends, which {backend.name} is not")
    if given.own_objects or given.for_backend():
        raise ValueError("the backend is open already: give 'gpu' to Backend.open")


def refuse_floats(model: Model, backend: BackendBase) -> None:
    """Raises ``UnsupportedOpError`` with every node that computes on floats, or that this backend
    does not know, before anything is built."""
    known = set(backend.supported_ops) if backend.library.has_extensions else None
    refused = []
    for node in model.nodes:
        floats = list(dict.fromkeys(_floats(model, node)))
        if floats:
            names = ", ".join(map(repr, floats))
            reason = _FIXED_POINT.format(
                f"tensor {names}" if len(floats) == 1 else f"tensors {names}",
                "is" if len(floats) == 1 else "are",
            )
        elif known is not None and node.type not in known:
            reason = "lpai has no such operation"
        else:
            continue
        types = ", ".join(model.tensors[n].dtype.name for n in node.inputs if n)
        refused.append(UnsupportedNode(node.name, node.type, types, reason))
    if refused:
        source = os.fspath(model.source) if model.source else None
        raise UnsupportedOpError(refused, source)


def _floats(model: Model, node: Node) -> Iterator[str]:
    allowed = _FLOAT_SIDES.get(node.type)
    for side, names in (("inputs", node.inputs), ("outputs", node.outputs)):
        if side != allowed:
            for name in names:
                if name and np.issubdtype(model.tensors[name].dtype, np.floating):
                    yield name
