"""What a session on the gpu backend can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """Options of the gpu backend, for ``Session(options={"gpu": ...})`` and ``open_backend``.

    Attributes:
        device: part of "platform: device" of the OpenCL device.
        context: the caller's own ``pyopencl.Context``, whose buffers can then be registered.
        queue: the caller's own ``pyopencl.CommandQueue``, which the kernels go into.
    """

    device: str | None = None
    context: Any = None
    queue: Any = None

    @classmethod
    def of(cls, given: Options | Mapping[str, Any] | None) -> Options:
        """Options out of a mapping of them.

        Raises:
            ValueError: there is no such option.
        """
        if isinstance(given, Options):
            return given
        values = dict(given or {})
        if unknown := [name for name in values if name not in cls.__dataclass_fields__]:
            raise ValueError(
                f"unknown gpu option {unknown[0]!r}; there are "
                f"{', '.join(cls.__dataclass_fields__)}"
            )
        return cls(**values)
