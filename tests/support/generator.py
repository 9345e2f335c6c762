"""What the tests of context-binary-generator share: the commands, and what a binary says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qnnrt.model.binary import ContextBinary


def generator(model: object, *more: object, backend: str = "htp") -> tuple[object, ...]:
    return ("context-binary-generator", "--model", model, "--backend", backend, *more)


def net_run(binary: object, *more: object, backend: str = "htp") -> tuple[object, ...]:
    return ("net-run", "--retrieve_context", binary, "--backend", backend, *more)


def mem_types(path: Path) -> dict[str, str]:
    """How the inputs and outputs in a binary were prepared."""
    binary = ContextBinary(path)
    graphs = [binary.graph(name) for name in binary.graphs]
    return {t.name: t.mem_type for g in graphs for t in (*g.inputs, *g.outputs)}


def outer(folder: Path, inner: dict[str, Any] | None = None, **keys: Any) -> Path:
    """A config file, and the one that it names."""
    if inner is not None:
        (folder / "inner.json").write_text(json.dumps(inner))
        keys["backend_extensions"] = {
            "shared_library_path": "libQnnHtpNetRunExtensions.so",
            "config_file_path": "inner.json",
        }
    path = folder / "config.json"
    path.write_text(json.dumps(keys))
    return path
