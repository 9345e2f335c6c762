"""What kernels are made for: a device and what was asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from ..dtypes import data_type
from .device import Device
from .ir import Launch, Value

_PAGE: Final = 4096

__all__ = ["Measures", "Target"]


class Measures(Protocol):
    """Where variants of kernels are measured: see ``tune.Bench``."""

    def measure(self, variants: Mapping[str, Callable[[], list[Launch]]]) -> dict[str, float]: ...


@dataclass(frozen=True)
class Target:
    """Given to every function that makes kernels.

    Attributes:
        device: what they run on.
        compute_half: kernels may add and multiply 16-bit floats as such. Without it they read and
            write them and compute in 32 bits, which every device can.
        precision: of ``Options``, but for "tf32", which is "fp32" and the next one.
        tf32: products of 32-bit floats may round these to 10 bits of mantissa.
        tuning: variants may be measured now; otherwise what was measured before is used.
        tuning_cache: folder of what was measured; None keeps nothing.
        program_cache: folder of built programs; None keeps nothing.
        rebuild: programs are built anew, and kept instead of those in the folder.
        memory_optimizations, node_optimizations, queue_recording, weight_sharing: of ``Options``.
        portable: neither tuned nor measured variants: option "kernels" of the session.
        kernels_alone: no routines of libraries instead of kernels.
        plan_milliseconds: how long the memory plan may take.
        bench: where variants are measured; None: in a context of its own.
    """

    device: Device
    compute_half: bool = False
    precision: str = "user"
    tf32: bool = False
    tuning: bool = False
    tuning_cache: Path | None = None
    program_cache: Path | None = None
    rebuild: bool = False
    memory_optimizations: bool = True
    node_optimizations: bool = True
    queue_recording: bool = True
    weight_sharing: bool = True
    portable: bool = False
    kernels_alone: bool = False
    plan_milliseconds: int = 0
    bench: Measures | None = None

    def constant(self, array: np.ndarray, name: str = "") -> Value:
        """A constant that a family of kernels wants to read, as weights in another layout.

        It becomes an argument of a launch as any other value does. The array is copied.
        """
        # On a boundary from which devices that share the host's memory read it in place.
        room = np.empty(array.nbytes + _PAGE, np.uint8)
        start = -room.ctypes.data % _PAGE
        data = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(data, array)
        return Value(name, 0, array.shape, array.dtype, data_type(array.dtype), "static", data)

    def decoded(self, value: Value) -> Value:
        """The floats that a constant's fixed-point numbers stand for, as a constant."""
        return self.constant(value.decoded(), value.name)

    def temporary(self, shape: tuple[int, ...], dtype: Any, name: str = "") -> Value:
        """Memory between several launches of one node."""
        return Value(name, 0, shape, np.dtype(dtype), data_type(dtype), "native")
