"""The JSON config of LPAI backends: what the SDK's LPAI extensions read, key by key.

The file is the inner one, that ``backend_extensions.config_file_path`` of a tool's config names.
docs/tools.md has the table of its keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..qnn.graph import Graph
from ..qnn.options import own_graph_config
from ..support.json_checks import (
    Check,
    JsonError,
    an_object,
    check_keys,
    flag,
    one_of,
    read_json,
    text,
)
from ..support.json_checks import whole as _whole
from .hardware import backend_options, model_memory, set_affinity, set_performance, set_prepare

__all__ = ["SECTIONS", "Config"]


def _name(where: str, value: Any) -> str:
    """Any name at all: an unknown one is refused when memory is allocated."""
    if isinstance(value, str):
        return value
    raise JsonError(f"{where}: expected ddr or tcm, not {value!r}")


#: The sections of the file.
SECTIONS: Final[Mapping[str, Check]] = {
    "lpai_backend": an_object,
    "lpai_graph": an_object,
    "lpai_profile": an_object,
    "lpai_debug": an_object,
}
_BACKEND: Final[Mapping[str, Check]] = {
    "target_env": one_of("arm", "adsp", "x86"),
    "enable_hw_ver": one_of("v5", "v5_1", "v6"),
}
_GRAPH: Final[Mapping[str, Check]] = {"prepare": an_object, "execute": an_object}
_PREPARE: Final[Mapping[str, Check]] = {
    "enable_batchnorm_fold": flag,
    "exclude_io": flag,
    "enable_per_layer": flag,
    "enable_core_selection": text,
}
_EXECUTE: Final[Mapping[str, Check]] = {
    "fps": _whole(1),
    "ftrt_ratio": _whole(1),
    "client_type": one_of("real_time", "non_real_time"),
    "affinity": one_of("soft", "hard"),
    "core_selection": _whole(0),
    "mem_type": _name,
}
_PROFILE: Final[Mapping[str, Check]] = {"level": one_of("basic", "detailed")}
_EVERY_PLAN: Final = "what can be folded always is"
_NOT_PUBLISHED: Final = "nothing is published on what it does"


@dataclass(frozen=True)
class Config:
    """What a file says; the defaults are those of QNN's documentation.

    Attributes:
        target_env, enable_hw_ver: the hardware that is meant.
        prepare: the keys of ``lpai_graph.prepare`` that are there.
        fps, ftrt_ratio, client_type: see ``set_performance``.
        affinity, core_selection: see ``set_affinity``; a bit for the core, 0 for any.
        mem_type: of inputs, outputs and the model binary: "ddr", "tcm", or a name that the
            allocator will not know. Never of scratch and persistent memory.
        profile_level: "basic", "detailed", or None: not said.
        notes: keys without effect here, each with the reason, as sentences.
    """

    target_env: str = "adsp"
    enable_hw_ver: str = "v6"
    prepare: Mapping[str, Any] = field(default_factory=dict)
    fps: int = 1
    ftrt_ratio: int = 10
    client_type: str = "real_time"
    affinity: str = "soft"
    core_selection: int = 0
    mem_type: str = "ddr"
    profile_level: str | None = None
    notes: tuple[str, ...] = ()
    _hardware_said: bool = False

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Config:
        """A file.

        Raises:
            ValueError: no such file, not JSON, an unknown key, a value of the wrong kind; the
                message says where.
        """
        return cls.of(read_json(Path(path)), os.fspath(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str = "LPAI config") -> Config:
        """The same from what a file contains.

        Args:
            given: its sections.
            where: how messages call it.
        """
        sections = check_keys(where, given, SECTIONS)
        graph = check_keys(f"{where}: lpai_graph", sections.get("lpai_graph", {}), _GRAPH)

        def values(name: str, found: Mapping[str, Any], known: Mapping[str, Check]) -> Any:
            return check_keys(f"{where}: {name}", found, known)

        backend = values("lpai_backend", sections.get("lpai_backend", {}), _BACKEND)
        prepare = values("lpai_graph: prepare", graph.get("prepare", {}), _PREPARE)
        execute = values("lpai_graph: execute", graph.get("execute", {}), _EXECUTE)
        profile = values("lpai_profile", sections.get("lpai_profile", {}), _PROFILE)
        notes = [
            f"{where}: lpai_debug: {key} has no effect here: {_NOT_PUBLISHED}"
            for key in sections.get("lpai_debug", {})
        ]
        if "enable_batchnorm_fold" in prepare:
            notes.append(
                f"{where}: lpai_graph: prepare: enable_batchnorm_fold has no effect here: "
                f"{_EVERY_PLAN}"
            )
        return cls(
            **backend,
            **execute,
            prepare=prepare,
            profile_level=profile.get("level"),
            notes=tuple(notes),
            _hardware_said=bool(backend),
        )

    def backend_options(self, *, direct_mode: bool = False) -> list[tuple[int, Any]]:
        """What ``Backend.open`` takes: the hardware, when the file says any, and direct mode.

        Raises:
            ValueError: direct mode, but for another target than the aDSP.
        """
        if direct_mode and self.target_env != "adsp":
            raise ValueError(
                f"direct mode runs on the aDSP: target_env {self.target_env} contradicts it"
            )
        said = self._hardware_said
        return backend_options(
            target=self.target_env if said else None,
            hardware_version=self.enable_hw_ver if said else None,
            direct_mode=direct_mode,
        )

    def context_custom(self) -> list[Any]:
        """Structs for ``custom`` of a context that is to come from a binary."""
        return [model_memory("tcm")] if self.mem_type == "tcm" else []

    def apply_prepare(self, graph: Graph) -> None:
        """Give a graph the keys of ``prepare``: before its pool sizes are asked for.

        Raises:
            GraphError: it is prepared already, or the backend does not take an option.
        """
        if self.prepare.get("exclude_io"):
            custom = own_graph_config(graph.context.backend.library, exclude_io=True)
            graph.set_config(custom=custom)
        per_layer = self.prepare.get("enable_per_layer")
        core_selection = self.prepare.get("enable_core_selection")
        if per_layer is not None or core_selection is not None:
            set_prepare(graph, per_layer=bool(per_layer), core_selection=core_selection)

    def apply_execute(self, graph: Graph) -> None:
        """Give a graph its performance and core affinity; may be done anew at any time.

        Raises:
            GraphError: the backend does not take them: there is no such core.
        """
        set_performance(
            graph, fps=self.fps, ftrt_ratio=self.ftrt_ratio, client_type=self.client_type
        )
        set_affinity(graph, self.affinity, cores=self.core_selection)
