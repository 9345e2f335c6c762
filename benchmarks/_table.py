"""The reports in results/ as Markdown tables: what docs/benchmarks*.md show.

python benchmarks/_table.py [FILE.json ...]
"""

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ORDER = (
    "call_overhead",
    "large_io",
    "tflite_io",
    "models",
    "models-bfloat16",
    "models-int8",
    "models-a16w8",
    "precision_errors",
    "kernels",
    "allocator",
    "handoff",
    "ray_pipeline",
    "qmem",
    "binary_load",
    "planner",
    "gpu",
)


def time_text(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3f} us"


def cell(way: dict[str, Any]) -> str:
    """Median, and how many times the first way's."""
    if "missing" in way:
        return way["missing"]
    return f"{time_text(way['seconds']['median'])} ({way['ratio']:.2f})"


def print_tables(report: dict[str, Any]) -> None:
    machine = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    print(f"### {report['benchmark']}\n")
    print(
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, Python "
        f"{machine['python']}; {versions}. Median of {report['rounds']} rounds (ratio to the "
        "first column)."
    )
    print_times(report["cases"])
    print_facts([case for case in report["cases"] if any("max_error" in w for w in case["ways"])])
    for row in report.get("geometric_means", ()):
        if row is report["geometric_means"][0]:
            print("\n| geometric mean of the ratios | | cases |")
            print("|---" * 3 + "|")
        print(f"| {row['name']} | {row['ratio']:.2f} | {row['cases']} |")
    for row in report.get("plans", ()):
        print_plans(row)
    print_errors(report.get("errors", []))
    for row in report.get("memory", ()):
        if row is report["memory"][0]:
            print("\n| processes | RSS each | private each | PSS, all | PSS before loading, all |")
            print("|---" * 5 + "|")
        fields = ("rss_each", "private_each", "pss_sum", "pss_sum_before_load")
        cells = " | ".join(f"{row[field] / 2**20:.0f} MiB" for field in fields)
        print(f"| {row['processes']} x {row['name']} | {cells} |")
    print()


def print_times(cases: list[dict[str, Any]]) -> None:
    columns: tuple[str, ...] | None = None
    for case in cases:
        names = tuple(way["name"] for way in case["ways"])
        if names != columns:
            columns = names
            print(f"\n| | {' | '.join(names)} | others used |")
            print("|---" * (len(names) + 2) + "|")
        cells = " | ".join(cell(way) for way in case["ways"])
        print(f"| {case['name']} | {cells} | {case['others_used_cores']:.1f} cores |")


def fact(way: dict[str, Any]) -> str:
    """Peak of private memory; error, of the largest value."""
    if "missing" in way:
        return ""
    return f"{way['private_bytes'] / 2**20:.0f} MiB, {way['max_error']:.0e}"


def print_facts(cases: list[dict[str, Any]]) -> None:
    """Memory and errors, of the cases on one thread: they are the same on two."""
    for case in (case for case in cases if case["name"].endswith("1 thread")):
        if case is cases[0]:
            names = [way["name"] for way in case["ways"]]
            print(f"\n| memory, error | {' | '.join(names)} |")
            print("|---" * (len(names) + 1) + "|")
        print(f"| {case['name']} | {' | '.join(map(fact, case['ways']))} |")


def print_errors(rows: list[dict[str, Any]]) -> None:
    """The largest error of the largest value, and that of the root mean squares."""
    for row in rows:
        if row is rows[0]:
            print(f"\n| | {' | '.join(row['errors'])} |")
            print("|---" * (len(row["errors"]) + 1) + "|")
        cells = (
            e.get("missing") or f"{e['max']:.1e}, {e['rms']:.1e}" for e in row["errors"].values()
        )
        print(f"| {row['name']} | {' | '.join(cells)} |")


def print_plans(group: dict[str, Any]) -> None:
    """Peak / lower bound and time of each plan, and of the group; bold: proved to be the best."""
    names = [plan["name"] for plan in group["plans"]]
    print(f"\n| {group['group']} | items | {' | '.join(names)} |")
    print("|---" * (len(names) + 2) + "|")
    for row in group.get("rows", ()):
        cells = []
        for plan in row["plans"]:
            ratio = f"{plan['ratio']:.3f}"
            ratio = f"**{ratio}**" if plan["proved"] else ratio
            cells.append(f"{ratio}, {time_text(plan['seconds'])}")
        print(f"| {row['name']} | {row['items']} | {' | '.join(cells)} |")
    means, worst = (
        " | ".join(f"{plan[key]:.4f}" for plan in group["plans"])
        for key in ("geometric_mean", "worst")
    )
    proved = " | ".join(f"{plan['proved']} of {group['graphs']}" for plan in group["plans"])
    median, most = (
        " | ".join(time_text(plan[key]) for plan in group["plans"])
        for key in ("median_seconds", "most_seconds")
    )
    print(f"| geometric mean | | {means} |\n| worst | | {worst} |\n| proved | | {proved} |")
    print(f"| median time | | {median} |\n| longest | | {most} |")


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]]
    files = files or [RESULTS / f"{name}.json" for name in ORDER]
    for path in files:
        if path.exists():
            print_tables(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
