"""Builds and runs the C++ tests: every tests/native/*.cc is a program, linked with the
library's objects (not with libqnnrt.so, which hides all but its C API), and passes with status 0.
Sanitized objects are large, so there they are one shared library.

    python tests/native/run.py [-l] [NAME...]     NAME: a part of a file's name

The switches of setup.py (QNNRT_SANITIZE, QNNRT_DEBUG, QNNRT_WERROR, ...) hold here, too.
QNNRT_TEST_WRAPPER is put before each program, e.g. "valgrind --error-exitcode=1". Programs find
oneDNN's library in the folder QNNRT_TEST_LIBS, if they want it: most run without.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.chdir(ROOT)
sys.path[:0] = [str(ROOT), str(ROOT / "tests/fuzz")]

import corpus  # noqa: E402

import setup as rules  # noqa: E402


def build(names: list[str]) -> list[Path]:
    folder = rules.build_directory()
    flags = [*rules.FLAGS, *rules.UNHURRIED, *rules.WARNINGS, *rules.onednn_include()]
    flags += ["-Itests/native", "-UNDEBUG"]
    sources = sorted(Path("tests/native").glob("*.cc"))
    tests = [s for s in sources if any(n in s.stem for n in names or [""])]
    if not tests:
        sys.exit(f"no test in tests/native has a name with {' or '.join(names)} in it")
    native = rules.in_batches(folder, rules.native_jobs())
    objects = rules.compile_all(folder, native + [(s, flags) for s in tests])
    runtime = [obj for s, obj in objects.items() if s not in tests and s.parent != rules.SHIMS]
    libraries = ["-ldl"]
    if rules.SANITIZE:  # 190 MB each, were these objects in every program
        # Its operator new would come behind the sanitizer's in a library.
        support = [obj for obj in runtime if obj.parent.name == "support"]
        shared = [obj for obj in runtime if obj not in support]
        runtime = [*support, rules.link(folder / "tests/native/runtime.so", shared, "-shared")]
        libraries.append("-Wl,-rpath,$ORIGIN")

    def link(source: Path) -> Path:
        return rules.link(folder / source.with_suffix(""), [objects[source], *runtime], *libraries)

    with ThreadPoolExecutor(rules.JOBS) as pool:
        return list(pool.map(link, tests))


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds and runs the C++ tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only tests with this in the name")
    parser.add_argument("-l", "--list", action="store_true", help="build and list, do not run")
    options = parser.parse_args()
    wrapper = shlex.split(os.environ.get("QNNRT_TEST_WRAPPER", ""))
    environment = {"QNNRT_TEST_LIBS": os.path.join(sys.prefix, "lib"), **os.environ}
    failed = []
    programs = build(options.names)
    corpus.unpack()
    for program in programs:
        if options.list:
            print(program)
            continue
        start = time.monotonic()
        command = [*wrapper, str(program)]
        status = subprocess.run(command, check=False, timeout=3600, env=environment).returncode
        verdict = "ok" if status == 0 else f"FAILED (status {status})"
        print(f"{program.name}: {verdict}, {time.monotonic() - start:.1f} s", flush=True)
        failed += [program.name] if status else []
    if options.list:
        return 0
    print(f"{len(programs) - len(failed)} of {len(programs)} native tests passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
