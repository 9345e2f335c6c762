"""Longer runs of foreign clients on these libraries: what CI has no time for.

    python tests/clients/nightly.py [--part K/N] [--json FILE]

Runs the operator tests of ExecuTorch's Qualcomm backend that its wheel has (executorch_suite.py),
and MobileNetV2 in its published size in every precision (executorch_client.py); prints how many
tests passed, were skipped and failed, and the last line of each failure. It needs the packages of
the extra "clients", and for the operator tests also torchvision, pydot, graphviz, pytest-subtests,
expecttest, kgb, parameterized and scikit-learn. An hour or more on two cores; --part 0/10 is each
tenth test.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PRECISIONS = ("fp16", "8a8w", "16a8w", "16a4w")
OPERATORS = "FloatingPointOperator or QuantizedOperator"


def environment(sdk: Path) -> dict[str, str]:
    from qnnrt.cli import sdk_root

    sdk_root.make(sdk)
    (libraries,) = sdk.glob("lib/x86_64-*")
    paths = (HERE, HERE.with_name("models"), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "QNN_SDK_ROOT": str(sdk),
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }


def operators(folder: Path, variables: dict[str, str], part: str) -> list[dict[str, Any]]:
    """What each test said; of one with subtests the worst that any of them said."""
    spec = importlib.util.find_spec("executorch.backends.qualcomm.tests.test_qnn_delegate_x86")
    if spec is None or spec.origin is None:
        raise SystemExit("install the packages of the extra 'clients' first")
    results = folder / "results"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "executorch_suite", "-p"]
    command += ["no:cacheprovider", "-W", "ignore", "--rootdir", str(folder), spec.origin]
    subprocess.run(
        [*command, "-k", OPERATORS],
        cwd=folder,
        env=variables | {"EXECUTORCH_SUITE_RESULTS": str(results), "EXECUTORCH_SUITE_PART": part},
        check=False,
    )
    rank = ("passed", "unexpected success", "skipped", "failed")
    worst: dict[str, dict[str, Any]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        said = json.loads(line)
        before = worst.get(said["test"], said)
        worst[said["test"]] = max(before, said, key=lambda s: rank.index(s["outcome"]))
    return list(worst.values())


def networks(variables: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "executorch_client.py"), "--size", "full", *PRECISIONS]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="0/1", metavar="K/N", help="each N-th test from the K-th")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(Path(folder, "sdk"))
        tests = operators(Path(folder), variables, options.part)
        models = networks(variables)
    counts = Counter(said["outcome"] for said in tests)
    print(f"ExecuTorch's operator tests: {dict(counts)}")
    for said in tests:
        if said["outcome"] != "passed":
            print(f"  {said['outcome']} {said['test']}: {said['why'].strip().splitlines()[-1]}")
    for kind, errors in models.items():
        print(f"MobileNetV2 {kind}: {errors}")
    if options.json is not None:
        options.json.write_text(json.dumps({"operators": tests, "networks": models}, indent=1))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
