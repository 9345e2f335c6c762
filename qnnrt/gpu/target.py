"""What kernels are made for: a device and what was asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """Given to every function that makes kernels.

    Attributes:
        device: what they run on.
        compute_half: kernels may add and multiply 16-bit floats as such. Without it they read and
            write them and compute in 32 bits, which every device can.
    """

    device: Device
    compute_half: bool = False
