"""Models: tensors and nodes in QNN's terms, and context binaries."""

from __future__ import annotations

from .binary import BinaryGraph, BinaryTensor, ContextBinary
from .dynamic import DynamicModel
from .library import ModelLibrary, is_library
from .model import Model, Node, Quantization, Tensor

__all__ = [
    "BinaryGraph",
    "BinaryTensor",
    "ContextBinary",
    "DynamicModel",
    "Model",
    "ModelLibrary",
    "Node",
    "Quantization",
    "Tensor",
    "is_library",
]
