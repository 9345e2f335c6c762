"""Profiles of a tool's run: calls with a profile handle, and the log of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .._native import _core
from ..profile_log import ProfileLog
from ..qnn.backend import Backend
from ._common import make_folder
from ._config_file import ToolConfig
from ._tools import Profiler, open_backend, set_perf_profile

LOG_NAME = "qnn-profiling-data_0.log"


def now() -> int:
    """Microseconds of a monotonic clock, as the log has them."""
    return time.monotonic_ns() // 1000


class Timeline:
    """Makes calls with a profile handle of the level asked for, and writes what they took."""

    def __init__(self, profiler: Profiler, command: str, folder: Path) -> None:
        """``folder``: where the log goes, if there is to be one."""
        self.profiler = profiler
        self._log: ProfileLog | None = None
        if profiler.level is not None:
            version = ".".join(map(str, profiler.backend.version.backend))
            self._log = ProfileLog(folder / LOG_NAME, f"qnnrt {command}", _core.version(), version)

    def __enter__(self) -> Timeline:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._log is not None:
            self._log.close()

    def record(self, method: str, graph: str, call: Callable[..., Any]) -> Any:
        """``call(profile)``, timed; the profile is None when the backend measures nothing."""
        profile = self.profiler.create()
        try:
            start = now()
            result = call(profile)
            self.add(method, graph, start, profile)
            return result
        finally:
            if profile is not None:
                profile.close()

    def add(
        self, method: str, graph: str, start: int, profile: Any, took: float | None = None
    ) -> None:
        """Log a call that began at ``start`` and took so many seconds, or ends now."""
        if self._log is not None:
            events = profile.events() if profile is not None else []
            stop = now() if took is None else start + round(took * 1e6)
            self._log.add(method, graph or None, start, stop, events)


def open_timed(
    stack: ExitStack,
    options: argparse.Namespace,
    settings: ToolConfig,
    warn: Callable[[str], None],
    perf_profile: str | None = None,
) -> tuple[Backend, Timeline]:
    """The backend that a tool's options ask for, and the log of the calls to it."""
    opened = open_backend(
        options.backend,
        settings,
        options.log_level,
        options.platform_options,
        options.op_packages,
    )
    backend = stack.enter_context(opened)
    set_perf_profile(backend, perf_profile, settings, warn)
    wanted = (options.profiling_level, options.profiling_option, settings.profiling_level)
    profiler = Profiler(backend, *wanted, warn)
    make_folder(options.output_dir)
    return backend, stack.enter_context(Timeline(profiler, options.command, options.output_dir))
