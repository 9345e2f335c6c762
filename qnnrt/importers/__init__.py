"""Importers: model files to `qnnrt.model.Model`."""

from __future__ import annotations

__all__: list[str] = []
