"""LPAI: pools of the client's, aligned IO buffers, and TCM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ... import lpai
from ..._native import _core
from ...lpai.admission import refuse_floats
from ...memory import alloc
from ...model import ContextBinary, Model
from ...qnn.backend import Backend
from ...qnn.graph import Graph
from ...qnn.options import Custom
from .base import MemoryPolicy

Buffer: TypeAlias = _core.Buffer


class LpaiPolicy(MemoryPolicy):
    """The session gives graphs their pools; inputs and outputs lie in aligned buffers, in TCM, or
    in the scratch pool."""

    ID = lpai.ID
    OPTION = "lpai"
    FINALIZES_LOADED = True

    def __init__(self, backend: Backend, heap: str | None, given: Any) -> None:
        super().__init__(backend, heap, given)
        self._options = lpai.Options.of(given)
        self._allocator = self._options.allocator(backend)

    @classmethod
    def opening(cls, given: Any) -> dict[str, Any]:
        options = lpai.Options.of(given).for_backend()
        return {"options": options} if options else {}

    @classmethod
    def check_open(cls, given: Any) -> None:
        if lpai.Options.of(given).for_backend():
            raise ValueError(
                "the backend is open already: give its hardware_version, target and direct_mode to "
                "Backend.open, with qnnrt.lpai.backend_options()"
            )

    def check_io(self, choices: Mapping[str, str] | str) -> None:
        pass

    def check_model(self, model: Model) -> None:
        refuse_floats(model, self.backend)

    def for_context(self) -> list[Custom]:
        return self._options.for_context()

    def excludes_io(self, choices: Mapping[str, str]) -> bool:
        return "scratch" not in choices.values()

    def binary_memory(self, binary: ContextBinary) -> ContextBinary | Buffer:
        if self._allocator is None:
            return binary
        piece = self._allocator.alloc(len(binary.data))
        memoryview(piece)[:] = binary.data
        return piece

    def before_finalize(self, graph: Graph) -> None:
        self._options.prepare(graph, heap=self.heap)

    def after_load(self, graph: Graph) -> None:
        self.before_finalize(graph)  # a binary's graphs have pools, and are finalized, too
        graph.finalize()

    @property
    def alignment(self) -> int:
        return lpai.alignment(self.backend).start

    def allocate(self, nbytes: int) -> Buffer:
        nbytes = max(nbytes, 1)
        if self._allocator is not None:
            return self._allocator.alloc(nbytes)
        needed = lpai.alignment(self.backend)
        return alloc(needed.round_up(nbytes), heap=self.heap, alignment=max(needed.start, 4096))

    def kind(self, buffer: Any) -> str:
        return "lpai"

    def scratch_array(self, graph: Graph, name: str) -> np.ndarray:
        return lpai.io_array(graph, name)

    def set_scratch(self, graph: Graph, memory: Any) -> None:
        lpai.set_scratch(graph, memory)

    def close(self) -> None:
        self._allocator = None
