"""What 16-bit floats cost: errors of whole networks against float64.

    python benchmarks/precision_errors.py [--models NAME...] [--inputs N] [--folder FOLDER]
                                          [--smoke]

Of qnnrt in float32, bfloat16 and float16, of OpenVINO as it is by default, which is bfloat16
where the processor has it, and told to take float16: the largest error of an output, of its largest
value, and the root of the mean square, of that of the output; the worst of several outputs, and the
geometric mean over N seeded inputs. All read one float32 file.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from _harness import RESULTS, machine
from _networks import Job, error_of, names
from _trial import prepared, trial
from models import folder_of

#: The column, the runtime, and the precision that it is asked for.
COLUMNS = (
    ("qnnrt float32", "qnnrt in float32", "float32"),
    ("qnnrt bfloat16", "qnnrt", "bfloat16"),
    ("qnnrt float16", "qnnrt", "float16"),
    ("openvino", "openvino", "float32"),
    ("openvino float16", "openvino in f16", "float32"),
)
RATIOS = (("qnnrt bfloat16", "openvino"), ("qnnrt float16", "openvino float16"))
SMOKE = ("vit_s16",)


def errors_of(name: str, folder: Path, tiny: bool, inputs: int) -> dict[str, dict[str, Any]]:
    prepared(name, "float32", folder, tiny, inputs)
    found: dict[str, dict[str, Any]] = {}
    for column, runtime, precision in COLUMNS:
        job = Job(name, precision, folder, tiny, inputs)
        result = trial(runtime, job, threads=1)
        if result.reason:
            found[column] = {"missing": result.reason}
            continue
        results = [result.results, *result.further]
        errors = [error_of(y, job.exact(i)) for i, y in enumerate(results)]
        found[column] = {
            "max": statistics.geometric_mean(error.largest for error in errors),
            "rms": statistics.geometric_mean(error.rms for error in errors),
            "precision": result.precision or precision,
            "rms of each": [error.rms for error in errors],
        }
    return found


def text(error: dict[str, Any]) -> str:
    return error.get("missing") or f"{error['max']:.1e} {error['rms']:.1e} {error['precision']}"


def show_ratios(errors: dict[str, dict[str, Any]]) -> None:
    for ours, other in RATIOS:
        if "missing" in errors[ours] or "missing" in errors[other]:
            continue
        each = [
            x / y
            for x, y in zip(errors[ours]["rms of each"], errors[other]["rms of each"], strict=True)
            if math.isfinite(x + y)  # random weights can exceed what 16 bits hold
        ]
        if not each:
            continue
        print(
            f"  {ours} over {other}: {statistics.geometric_mean(each):.2f}"
            f" ({min(each):.2f} to {max(each):.2f})",
            flush=True,
        )


def show_means(rows: list[dict[str, Any]]) -> None:
    """Geometric means, over the networks that all of the columns run."""
    whole = [row for row in rows if not any("missing" in e for e in row["errors"].values())]
    for column, _, _ in COLUMNS if whole else ():
        means = [
            statistics.geometric_mean(row["errors"][column][kind] for row in whole)
            for kind in ("max", "rms")
        ]
        print(f"  {column:20}{means[0]:.1e} {means[1]:.1e}  geometric mean of {len(whole)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="seconds: shows that it runs")
    parser.add_argument("--models", nargs="+", choices=names(), metavar="NAME")
    parser.add_argument("--inputs", type=int, default=1, metavar="N")
    parser.add_argument("--folder", type=Path, help="keeps the networks' files")
    parser.add_argument("--json", type=Path, help="where to write (default results/NAME.json)")
    options = parser.parse_args()
    chosen = options.models or (names() if not options.smoke else SMOKE)
    rows: list[dict[str, Any]] = []
    for name in (name for name in chosen if name in names()):
        with folder_of(options.folder) as folder:
            errors = errors_of(name, folder, options.smoke, options.inputs)
            rows.append({"name": name, "errors": errors})
        print(f"\n{name}")
        for column, error in rows[-1]["errors"].items():
            print(f"  {column:20}{text(error)}", flush=True)
        show_ratios(rows[-1]["errors"])
    print("\nall")
    show_means(rows)
    path = options.json or RESULTS / f"precision_errors{'-smoke' * options.smoke}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {"benchmark": "precision_errors", "smoke": options.smoke, "machine": machine()}
    path.write_text(
        json.dumps(report | {"rounds": 1, "cases": [], "errors": rows}, indent=1) + "\n"
    )
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
