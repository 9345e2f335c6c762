"""What is asked of the graphs that a model library composes, and what it composed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..model.binary import BinaryGraph, graphs_of
from ..support import choice
from .graph import MEM_TYPES
from .options import graph_options
from .owner import config

_IO: Final = (
    abi.QNN_TENSOR_TYPE_APP_WRITE,
    abi.QNN_TENSOR_TYPE_APP_READ,
    abi.QNN_TENSOR_TYPE_APP_READWRITE,
)


class Plan:
    """Asked by a composition about each graph and tensor, and told what the backend took.

    Attributes:
        produced: of each graph, by name: node -> its outputs.
    """

    def __init__(
        self,
        mem_type: Mapping[str, str] | str | None,
        options: Callable[[str], Mapping[str, Any]],
        is_output: Callable[[str, str], bool],
    ) -> None:
        self._mem_type = mem_type
        self._options = options
        self._is_output = is_output
        self._names: dict[int, str] = {}
        self._more: dict[str, list[dict[str, Any]]] = {}
        self._made: set[tuple[int, str]] = set()
        self.produced: dict[str, dict[str, list[str]]] = {}

    # ---- asked while a library composes

    def config(self, name: str) -> _core.Config | None:
        """The configs of a graph beside those that the library gives it."""
        return config(graph_options(**self._options(name)))

    def created(self, graph: int, name: str) -> None:
        self._names[graph] = name
        self.produced[name] = {}

    def tensor(self, graph: int, tensor: Mapping[str, Any]) -> tuple[int, int | None]:
        """The type of a tensor and its memory type; None leaves that as it is."""
        kind, name = tensor["type"], tensor["name"]
        if kind == abi.QNN_TENSOR_TYPE_NATIVE and self._is_output(self._names[graph], name):
            kind = abi.QNN_TENSOR_TYPE_APP_READ
            self._made.add((graph, name))
        if kind not in _IO or self._mem_type is None:
            return kind, None
        asked: str | None = (
            self._mem_type if isinstance(self._mem_type, str) else self._mem_type.get(name)
        )
        return kind, None if asked is None else choice("mem_type", asked, MEM_TYPES)

    def added(self, graph: int, tensor: dict[str, Any]) -> None:
        if (graph, tensor["name"]) in self._made:
            self._more.setdefault(self._names[graph], []).append(tensor)

    def node(self, graph: int, name: str, outputs: list[str]) -> None:
        self.produced[self._names[graph]][name] = outputs

    # ---- afterwards

    def described(self, graphs: list[dict[str, Any]]) -> dict[str, BinaryGraph]:
        """What the graphs take and give; outputs that were asked for come behind the model's."""
        whole = [g | {"outputs": g["outputs"] + self._more.get(g["name"], [])} for g in graphs]
        return graphs_of({"graphs": whole})
