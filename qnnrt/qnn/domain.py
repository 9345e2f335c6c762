"""The process domain of the htp backend: how much an accelerator's address space would hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .._native import _core

__all__ = ["DomainHolder", "ProcessDomain", "process_domain", "set_process_domain_budget"]


class DomainHolder(NamedTuple):
    """One that holds a part of a process domain.

    Attributes:
        what: "registered buffer", "staging of graph", "weights of graph", "arena of graph".
        who: its name, as far as it has one.
        nbytes: how much.
    """

    what: str
    who: str
    nbytes: int


@dataclass(frozen=True)
class ProcessDomain:
    """What the htp backend of this process has mapped, in bytes.

    Attributes:
        budget: what fits; beyond it mapping fails with 8003, or 1002 for weights and arenas.
        used: what is mapped: registered buffers (a file once, however often it is registered),
            staging memory, weights and arenas.
        peak: the most that ever was.
        holders: who holds it, the largest first.
    """

    budget: int
    used: int
    peak: int
    holders: tuple[DomainHolder, ...]


def process_domain() -> ProcessDomain:
    """What is mapped now."""
    raw = _core.htp_domain()
    holders = tuple(DomainHolder(*holder) for holder in raw["holders"])
    return ProcessDomain(raw["budget"], raw["used"], raw["peak"], holders)


def set_process_domain_budget(nbytes: int) -> None:
    """Let so many bytes be mapped from now on.

    3,300,000,000 to begin with, about what a Hexagon process domain can address, or what
    QNNRT_HTP_DOMAIN_BYTES said when the process started. A budget below what is used takes nothing
    away: nothing more is mapped until enough is given back.

    Raises:
        ValueError: not a number above 0.
    """
    _core.htp_set_domain_budget(nbytes)
