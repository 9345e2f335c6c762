"""Session: load a model into a backend, bind memory, run."""

from __future__ import annotations

from .binding import BoundTensor
from .dynamic import DynamicSession, ShapeSession
from .session import Session
from .stats import Copy, Stats

__all__ = ["BoundTensor", "Copy", "DynamicSession", "Session", "ShapeSession", "Stats"]
