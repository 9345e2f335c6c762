"""Options of a session on an LPAI backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..qnn.backend import Backend
from ..qnn.graph import Graph
from .hardware import (
    Affinity,
    backend_options,
    island,
    model_memory,
    set_affinity,
    set_performance,
)
from .pools import Pools, allocate_pools, set_persistent, set_scratch
from .tcm import Allocator

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """``options={"lpai": Options(...)}`` of ``Session``, or a dict with some of these names.

    Attributes:
        scratch, persistent: memory for the pools, a ``Buffer`` or an array; the
            session allocates what is omitted.
        hardware_version, target, direct_mode: what the backend is opened with, see
            ``backend_options``; not with an open ``Backend``.
        fps, ftrt_ratio, client_type: see ``set_performance``.
        affinity, cores: see ``set_affinity``.
        island: see ``island``.
        mem_type: where IO buffers and the model binary lie: "ddr", or "tcm" in direct mode.
    """

    scratch: Any = None
    persistent: Any = None
    hardware_version: str | int | None = None
    target: str | int | None = None
    direct_mode: bool = False
    fps: int | None = None
    ftrt_ratio: int | None = None
    client_type: str | int | None = None
    affinity: str | int | None = None
    cores: int | Sequence[int] | None = None
    island: bool | None = None
    mem_type: str = "ddr"

    @classmethod
    def of(cls, given: Options | Mapping[str, Any] | None) -> Options:
        """From what the option "lpai" of a session was given.

        Raises:
            ValueError: a name that is not one of the attributes.
        """
        if isinstance(given, Options):
            return given
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in given or () if name not in known]:
            raise ValueError(
                f"unknown lpai option {unknown[0]!r}; there are {', '.join(sorted(known))}"
            )
        return cls(**(given or {}))

    def for_backend(self) -> list[tuple[int, Any]]:
        """The options to open a backend with; none of them unless something was said."""
        return backend_options(
            hardware_version=self.hardware_version,
            target=self.target,
            direct_mode=self.direct_mode,
        )

    def for_context(self) -> list[Any]:
        """Structs for ``custom`` of a context."""
        custom = [] if self.island is None else [island(self.island)]
        if self.mem_type == "tcm":
            custom.append(model_memory(self.mem_type))
        return custom

    def allocator(self, backend: Backend) -> Allocator | None:
        """What inputs, outputs and the model binary are to be taken from, unless it is DDR.

        Raises:
            MemError: TCM without direct mode.
            ValueError: the backend is not qnnrt's own.
        """
        return None if self.mem_type == "ddr" else Allocator(backend, self.mem_type)

    def prepare(self, graph: Graph, *, heap: str | None = None) -> Pools:
        """Steps 2 to 5 of the workflow, on a graph that is not finalized."""
        speed = {
            "fps": self.fps,
            "ftrt_ratio": self.ftrt_ratio,
            "client_type": self.client_type,
        }
        if given := {name: value for name, value in speed.items() if value is not None}:
            set_performance(graph, **given)  # type: ignore[arg-type]
        if self.affinity is not None or self.cores is not None:
            affinity = Affinity.SOFT if self.affinity is None else self.affinity
            set_affinity(graph, affinity, cores=self.cores or 0)
        if self.scratch is not None:
            set_scratch(graph, self.scratch)
        if self.persistent is not None:
            set_persistent(graph, self.persistent)
        return allocate_pools(graph, heap=heap)
