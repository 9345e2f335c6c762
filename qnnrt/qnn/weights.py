"""Constants and packed weights that graphs have once."""

from __future__ import annotations

from dataclasses import dataclass

from .._native import _core

__all__ = ["SharedWeights", "shared_weights"]


@dataclass(frozen=True)
class SharedWeights:
    """What graphs of this process have once, however many of them read it. Sizes in bytes.

    Attributes:
        entries, nbytes: what there is now; each goes with the last graph that has it.
        found, found_nbytes: what graphs found and did not have to make, since the process began.
    """

    entries: int
    nbytes: int
    found: int
    found_nbytes: int


def shared_weights() -> SharedWeights:
    """What there is now, of all of qnnrt's own backends."""
    raw = _core.weights_info()
    return SharedWeights(raw["entries"], raw["bytes"], raw["found"], raw["found_bytes"])
