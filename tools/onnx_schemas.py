#!/usr/bin/env python3
"""Write qnnrt/importers/onnx/schemas.txt: what the importer asks of onnx's schemas.

The one source is the installed onnx, which should be the newest; with another one the importer asks
that for what the table has not. tests/onnx/test_onnx_schemas.py compares the two.

    python tools/onnx_schemas.py            # write the table
    python tools/onnx_schemas.py --check    # exit status 1 when the table is not up to date
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "qnnrt/importers/onnx/schemas.txt"
sys.path.insert(0, str(ROOT))

from qnnrt.importers.onnx import checks  # noqa: E402
from qnnrt.importers.onnx.reader import FIRST_OPSET  # noqa: E402


def operators() -> list[tuple[str, list[int]]]:
    """The operators of the default domain, each with the opsets that a model can have it of."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema.since_version)
    kept = {}
    for name, versions in found.items():
        oldest = max((v for v in versions if v <= FIRST_OPSET), default=FIRST_OPSET)
        kept[name] = sorted(v for v in versions if v >= oldest)
    return sorted(kept.items())


def table() -> str:
    sets: dict[str, int] = {}

    def formals(parameters: tuple[checks.Formal, ...]) -> list[list[object]]:
        return [
            [f.name, f.symbol, sets.setdefault(_names(f.types), len(sets)), f.required]
            for f in parameters
        ]

    lines: list[list[object]] = []
    for name, versions in operators():
        for version in versions:
            spec = checks.spec_of_installed(name, version, "")
            if spec is None:
                lines.append([name, version])
                continue
            attributes = {
                key: [kind, key in spec.required, _plain(spec.defaults.get(key))]
                for key, kind in sorted(spec.attributes.items())
            }
            lines.append(
                [
                    name, spec.since, spec.function, formals(spec.formals), formals(spec.results),
                    spec.variadic, spec.inputs, spec.outputs, attributes,
                ]
            )  # fmt: skip
    head = [onnx.defs.onnx_opset_version(), onnx.__version__, list(sets)]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines])


def _names(types: frozenset[np.dtype]) -> str:
    """As schemas write them, without "tensor(...)"."""
    names = (key for key, dtype in checks.TYPES.items() if dtype in types)
    return " ".join(sorted(name.removeprefix("tensor(").removesuffix(")") for name in names))


def _plain(default: object) -> object:
    """As JSON has it; `schemas.value_of` is the way back."""
    if isinstance(default, bytes):
        return default.decode()
    if isinstance(default, list):
        return [_plain(entry) for entry in default]
    return default


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    text = table()
    if check:
        return int(not TABLE.exists() or TABLE.read_text() != text)
    TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
