#!/usr/bin/env python3
"""Write docs/op-coverage.md: what the cpu and gpu backends and the importers can do.

Four sources, none of them written by hand for the page: the op table of libqnnrt
(`qnnrt_op_coverage_json`), the gpu backend's table of kernels, the importers' tables, and the test
cases: the node cases of the
installed onnx package, which are run on the cpu backend before anything is written, and the
TFLite models of the tests.

    python tests/docs/op_coverage.py          # run the cases, write the page
    python tests/docs/op_coverage.py --check  # exit status 1 when the page is not up to date
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import onnx

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "op-coverage.md"
sys.path.insert(0, str(ROOT / "tests"))

import qnnrt  # noqa: E402
from qnnrt._native.op_table import op_table  # noqa: E402
from qnnrt.gpu import ops as gpu_ops  # noqa: E402
from qnnrt.importers import onnx as importer  # noqa: E402
from qnnrt.importers import tflite as tflite_importer  # noqa: E402
from support.onnx import cases as onnx_cases  # noqa: E402

HEAD = """# Op coverage

This page is generated: `python tests/docs/op_coverage.py`. A test compares it with its sources.
"""


def _port(port: dict[str, Any]) -> str:
    mark = {"one": "", "optional": "?", "variadic": ".."}[port["count"]]
    low, high = port["min_rank"], port["max_rank"]
    rank = f"rank {low}" if low == high else f"rank {low}-{high}"
    return f"{port['name']}{mark} ({rank})"


def _types(op: dict[str, Any]) -> str:
    """Element types, shortened: FLOAT_32 is f32, UFIXED_POINT_8 uq8."""
    names = [t for port in (*op["inputs"], *op["outputs"]) for t in port["types"]]
    short = {
        "FLOAT": "f",
        "BFLOAT": "bf",
        "INT": "i",
        "UINT": "u",
        "BOOL": "b",
        "UFIXED": "uq",
        "SFIXED": "sq",
    }
    found = dict.fromkeys(short[t.split("_")[0]] + t.split("_")[-1] for t in names)
    return ", ".join(found)


def _param(param: dict[str, Any]) -> str:
    name = param["name"] + ("" if param["required"] else "?")
    default, values = param.get("default"), param.get("values", ())
    marks = ["" if i != default else " (default)" for i in range(len(values))]
    text = [f"{i} {value}{mark}" for i, (value, mark) in enumerate(zip(values, marks, strict=True))]
    if param["rule"]:
        text.append(param["rule"])
    if isinstance(default, list):
        text.append(f"default all {default[0]}")
    elif default is not None and not values:
        text.append(f"default {str(default).lower()}")
    return f"{name}: {', '.join(text)}" if text else name


def _on_gpu(op: str) -> str:
    if op not in gpu_ops.table():
        return "-"
    return "yes, fuses" if op in gpu_ops.takes_post() else "yes"


def qnn_section() -> list[str]:
    table = [op for _, op in sorted(op_table().items())]
    on_gpu = sum(op["type"] in gpu_ops.table() for op in table)
    lines = [
        f"## QNN operations of the cpu backend ({len(table)}) and of the gpu backend ({on_gpu})",
        "",
        "Package `qti.aisw`. `?`: optional. Types are those that any input or output takes; which",
        "ones go together is the rule of the op and said by its validation. Every op has a",
        "portable kernel; oneDNN serves the float32 forms that it has. A result of rank 0 may be",
        "declared with the shape [1], and where a conversion comes out as [1], with rank 0.",
        "",
        "Column gpu: ops with OpenCL kernels. The gpu backend checks graphs as the cpu backend",
        "does, and refuses what it has no kernel for by name;",
        "*fuses*: operations on single elements behind it are done by the same kernel.",
        "",
        "| op | inputs | params | types | fuses activations | 16-bit kernel | gpu |",
        "|---|---|---|---|---|---|---|",
    ]
    for op in table:
        cells = (
            op["type"],
            ", ".join(_port(p) for p in op["inputs"]),
            "; ".join(_param(p) for p in op["params"]) or "-",
            _types(op),
            "yes" if op["fuses"] else "-",
            "own" if op["native_half"] else "-",
            _on_gpu(op["type"]),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def onnx_section() -> list[str]:
    """Every operator of ONNX's default domain, at its newest version."""
    table = importer.supported_ops()
    needed, listed, why = Counter[str](), Counter[str](), {}
    for case in onnx_cases.cases().values():
        reason = onnx_cases.reason(case)
        listed[case.op] += 1
        needed[case.op] += reason is None
        if reason is not None:
            why.setdefault(case.op, Counter[str]())[reason] += 1
    schemas = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == ""}
    rows, counts = [], Counter[str]()
    for name in sorted(schemas):
        functions = schemas[name].has_function or schemas[name].has_context_dependent_function
        if name in table:
            kind, target = "mapped", table[name]
        elif name in importer.FOLDED_OPS:
            kind, target = "constant", "folded into constants"
        elif functions and needed[name]:
            kind, target = "function", "the function that ONNX defines it by"
        else:
            kind, target = "none", "-"
        counts[kind] += 1
        notes = "; ".join(f"{r} ({c})" for r, c in why.get(name, Counter()).most_common())
        if kind == "none" and not notes:
            notes = "no QNN operation corresponds to it yet"
        cases = f"{needed[name]} of {listed[name]}" if listed[name] else "none"
        rows.append(f"| {name} | {target} | {cases} | {notes or '-'} |")
    total, passing = len(onnx_cases.cases()), sum(needed.values())
    text = f"""## ONNX operators ({len(schemas)} in onnx {onnx.__version__})

Opset 7 to {onnx.defs.onnx_opset_version()}. {counts["mapped"]} operators are mapped onto QNN
operations, {counts["function"]} more work through the function that ONNX defines them by,
{counts["constant"]} vanish into constants, {counts["none"]} are refused by name.

**{passing} of the {total} node test cases** of the onnx package pass on the cpu backend at their
own tolerances. The others are listed with their reasons in `tests/support/onnx/cases.py`, and a
listed one that passes fails the tests.

| operator | becomes | node cases | not covered (cases) |
|---|---|---|---|"""
    contrib = ", ".join(f"`{name}`" for name in importer.contrib_ops())
    classical = ", ".join(f"`{name}`" for name in importer.classical_ops())
    more = [
        "",
        "Of ONNX Runtime's own operators (domain com.microsoft) those that its quantizer and its",
        "optimizers write:",
        f"{contrib}.",
        "",
        "Of classical machine learning (domain ai.onnx.ml), where no texts are in them:",
        f"{classical}.",
    ]
    return [*text.splitlines(), *rows, *more]


def tflite_section() -> list[str]:
    """Every builtin operator of TFLite's schema, and custom ones that are lowered as such."""
    import tflite

    from support.tflite import cases as tflite_cases

    table, refused = tflite_importer.supported_ops(), tflite_importer.refused_ops()
    tried = tflite_cases.tried()
    text = f"""## TFLite operators ({len(table) + len(refused)} in tflite {tflite.__version__})

{len(table)} operators are mapped onto QNN operations, in float32, in the integer types that
the QNN operation has, and quantized (int8, uint8, int16); {len(refused)} are refused by name.
Models: one-operator models that the tests run and compare with TFLite's own interpreter; those of
floats run quantized in the three types, too. See [TFLite files](tflite.md).

| operator | becomes | models | limits |
|---|---|---|---|"""
    rows = [
        f"| {op} | {to} | {tried[op] or '-'} | {note or '-'} |"
        for op, (to, note) in sorted(table.items())
    ]
    reasons: dict[str, list[str]] = {}
    for op, reason in refused.items():
        reasons.setdefault(reason, []).append(op)
    lines = [f"- {reason}: {', '.join(ops)}" for reason, ops in sorted(reasons.items())]
    return [
        *text.splitlines(),
        *rows,
        "",
        "Refused, with the reason that the error gives:",
        "",
        *lines,
    ]


def page() -> str:
    parts = [HEAD, *onnx_section(), "", *tflite_section(), "", *qnn_section()]
    return "\n".join(parts) + "\n"


def failures() -> list[str]:
    """Run every case that has to pass."""

    def run(model: Any, feeds: Any) -> Any:
        with qnnrt.Session(model, backend="cpu", threads=1) as session:
            return session.run(feeds)

    failed = []
    for case in onnx_cases.cases().values():
        if onnx_cases.reason(case) is None:
            try:
                onnx_cases.run(case, run)
            except Exception as exc:
                failed.append(f"{case.name}: {exc}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = page()
    if options.check:
        current = PAGE.exists() and PAGE.read_text() == text
        if not current:
            print(f"{PAGE.relative_to(ROOT)} is old: run python tests/docs/op_coverage.py")
        return 0 if current else 1
    failed = failures()
    if failed:
        print(f"{len(failed)} node cases fail; nothing is written\n" + "\n".join(failed))
        return 1
    PAGE.write_text(text)
    print(f"{PAGE.relative_to(ROOT)}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
