"""Longer runs of foreign clients on these libraries: what CI has no time for.

    python tests/clients/nightly.py [RUN...] [--part K/N] [--tests EXPRESSION] [--seed N]
                                    [--simulator] [--keep FOLDER] [--json FILE]

Runs the tests of ExecuTorch's Qualcomm backend that its wheel has and that need no device
(executorch_suite.py): "operators", "models" and "types", the newer ones of operators in three
precisions; and "networks": MobileNetV2 in its published size in every precision
(executorch_client.py). Prints a table of how many tests passed, were skipped and failed, and why.
A test that ends the process, or takes more than twenty minutes, has failed; the others go on in
another one. With --keep the results are in that folder at once, and a second call goes on where the
first was stopped.
With --simulator all of it runs on the vendor's simulator in the place of these libraries, to see
what is no fault of theirs: the tests' inputs are random, with one --seed the same for both.
--tests is pytest's -k, for some of them.
It needs the packages of the extra "clients", and for the tests those of "clients-nightly", too.
Five hours on two busy cores; --part 0/10 is each tenth test.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # support
PRECISIONS = ("fp16", "8a8w", "16a8w", "16a4w")
PACKAGE = "executorch.backends.qualcomm.tests"
#: A run of tests: the module that has them, and pytest's -k. What is left out has to fetch weights.
SUITES = {
    "operators": ("test_qnn_delegate", "FloatingPointOperator or QuantizedOperator"),
    "models": (
        "test_qnn_delegate",
        "(FloatingPointModel or QuantizedModel) and not example_models",
    ),
    "types": ("rework.htp.op.v68.test", ""),
}
OUTCOMES = ("passed", "unexpected success", "skipped", "failed")  # from the best to the worst
SECONDS = 1200  # that a test may take


def simulator(sdk: Path) -> dict[str, str]:
    """An SDK's folder with the vendor's libraries, and what simulator.c asks for."""
    from qnnrt.cli.paths import INCLUDE_DIR
    from support.vendor import vendor_library

    theirs = Path(vendor_library("libQnnHtp.so"))
    folder = sdk / "lib/x86_64-linux-clang"
    folder.mkdir(parents=True)
    for library in theirs.parent.glob("lib*.so"):
        if library != theirs:
            (folder / library.name).symlink_to(library)
    flags = ["-shared", "-fPIC", "-Wl,-soname,libQnnHtp.so", "-Wl,-z,nodelete"]
    flags += [f"-I{INCLUDE_DIR / 'qnnrt/QNN'}", "-o", str(folder / theirs.name)]
    subprocess.run(["gcc", HERE / "simulator.c", *flags, "-ldl"], check=True)
    return {"SIMULATOR_LIBRARY": str(theirs)}


def environment(sdk: Path, simulated: bool) -> dict[str, str]:
    from qnnrt.cli import sdk_root

    more = simulator(sdk) if simulated else {}
    if not simulated:
        sdk_root.make(sdk)
    (libraries,) = sdk.glob("lib/x86_64-*")
    paths = (HERE, HERE.with_name("models"), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "QNN_SDK_ROOT": str(sdk),
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        # malloc hands out zeros: a program's mutable buffers begin with what its memory has, and
        # the tests take that of a process of its own for granted.
        "MALLOC_PERTURB_": "255",
        **more,
    }


def worst(results: Path) -> list[dict[str, Any]]:
    """What each test said; of one with subtests the worst that any of them said."""
    found: dict[str, dict[str, Any]] = {}
    for said in lines(results):
        if said["outcome"] != "began":
            before = found.get(said["test"], said)
            found[said["test"]] = max(before, said, key=lambda s: OUTCOMES.index(s["outcome"]))
    return list(found.values())


def lines(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()]


def suite(
    run: str, folder: Path, variables: dict[str, str], part: str, tests: str
) -> list[dict[str, Any]]:
    module, chosen = SUITES[run]
    chosen = " and ".join(f"({some})" for some in (chosen, tests) if some)
    spec = importlib.util.find_spec(f"{PACKAGE}.{module}")
    if spec is None or spec.origin is None:
        raise SystemExit("install the packages of the extra 'clients' first")
    results = folder / f"{run}.{part.replace('/', '.')}.results"
    results.touch()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "executorch_suite", "-p"]
    # No settings of a project that the environment lies in: pytest would find its pyproject.toml.
    command += ["no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
    command += ["-W", "ignore", spec.origin]
    variables |= {
        "EXECUTORCH_SUITE_RESULTS": str(results),
        "EXECUTORCH_SUITE_PART": part,
        "EXECUTORCH_SUITE_SECONDS": str(SECONDS),
    }
    while True:
        before = len(lines(results))
        done = subprocess.run([*command, "-k", chosen], cwd=folder, env=variables, check=False)
        if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return worst(results)
        if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and before:
            return worst(results)
        said = lines(results)
        if len(said) == before:
            raise SystemExit(f"{run}: pytest ended with status {done.returncode} before any test")
        if said[-1]["outcome"] != "began":
            continue  # it ended after its last test
        why = f"its process ended: {ending(done.returncode)}"
        failed = {"test": said[-1]["test"], "outcome": "failed", "why": why}
        with results.open("a") as file:
            file.write(json.dumps(failed) + "\n")


def ending(status: int) -> str:
    if status == -signal.SIGALRM:
        return f"more than {SECONDS} seconds"
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def kind(test: str) -> str:
    """float or quantized, or the types that a test's id names."""
    if test.endswith("]"):
        return test[test.rindex("[") + 1 : -1]
    return "float" if "FloatingPoint" in test else "quantized"


def report(run: str, tests: list[dict[str, Any]]) -> None:
    counts: dict[str, Counter[str]] = {}
    for said in tests:
        counts.setdefault(kind(said["test"]), Counter())[said["outcome"]] += 1
    for which, count in counts.items():
        print(f"| {run} | {which} | " + " | ".join(str(count[o]) for o in OUTCOMES) + " |")
    for said in tests:
        if said["outcome"] != "passed":
            last = (said["why"].strip().splitlines() or [""])[-1]
            print(f"  {said['outcome']} {said['test']}: {last}")


def networks(variables: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "executorch_client.py"), "--size", "full", *PRECISIONS]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="RUN", help="some of them; all when left out")
    parser.add_argument("--tests", default="", metavar="EXPRESSION", help="some of the tests: -k")
    parser.add_argument("--seed", type=int, help="of random numbers, before each test")
    parser.add_argument("--simulator", action="store_true", help="on the vendor's simulator")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="each N-th test from the K-th")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where results are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    options = parser.parse_args()
    runs = options.runs or [*SUITES, "networks"]
    if unknown := set(runs) - {*SUITES, "networks"}:
        parser.error(f"no run {sorted(unknown)}; there are {[*SUITES, 'networks']}")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(Path(folder, "sdk"), options.simulator)
        if options.seed is not None:
            variables["EXECUTORCH_SUITE_SEED"] = str(options.seed)
        keep = Path(folder) if options.keep is None else options.keep.absolute()
        keep.mkdir(parents=True, exist_ok=True)
        for run in runs:
            if run == "networks":
                found[run] = networks(variables)
            else:
                found[run] = suite(run, keep, variables, options.part, options.tests)
    print(f"| run | of | {' | '.join(OUTCOMES)} |")
    for run in runs:
        if run != "networks":
            report(run, found[run])
    for precision, errors in found.get("networks", {}).items():
        print(f"MobileNetV2 {precision}: {errors}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    tests = [said for run in runs if run != "networks" for said in found[run]]
    return any(said["outcome"] == "failed" for said in tests) or any(not found[run] for run in runs)


if __name__ == "__main__":
    sys.exit(main())
