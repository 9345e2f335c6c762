"""Builds the libFuzzer target of the context binary with clang and runs it.

    python tests/fuzz/run.py [SECONDS] [-- libFuzzer options]     0 seconds: build only

New inputs that reach new code are added to build/fuzz/found; `--merge` puts those that add coverage
into tests/fuzz/corpus.tar.xz, as small as libFuzzer can tell. CXX names the compiler (default
clang++-14). An input that fails is written to the working directory; run it again with
`-- FILE`.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.chdir(ROOT)
os.environ.setdefault("CXX", "clang++-14")
os.environ.setdefault("QNNRT_SANITIZE", "address,undefined")
# The last one: clang forgets that csrc/ops/simd_kernels.inc declares its vectors unaligned.
FLAGS = "-fsanitize=fuzzer-no-link -fmax-type-align=4"
os.environ["CXXFLAGS"] = f"{os.environ.get('CXXFLAGS', '')} {FLAGS}"
sys.path.insert(0, str(ROOT))

import corpus  # noqa: E402

import setup as rules  # noqa: E402

FOUND = Path("build/fuzz/found")
# What a graph needs; the C API and its shims stay out.
PARTS = ("graph", "ir", "memory", "ops", "support")


def build() -> Path:
    folder = rules.build_directory()
    sources = [s for s, _ in rules.native_jobs() if s.parts[1] in PARTS]
    flags = [*rules.FLAGS, *rules.WARNINGS, "-Itests/fuzz"]
    target = Path("tests/fuzz/binary_fuzz.cc")
    objects = rules.compile_all(folder, [(s, flags) for s in [*sources, target]])
    program = folder / "binary_fuzz"
    return rules.link(program, list(objects.values()), "-fsanitize=fuzzer", "-ldl", "-latomic")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int, nargs="?", default=60)
    parser.add_argument("--merge", action="store_true", help="only minimise what was found")
    parser.add_argument("rest", nargs="*", help="libFuzzer options, or inputs to run")
    options = parser.parse_args()
    program = str(build())
    FOUND.mkdir(parents=True, exist_ok=True)
    limits = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", "-timeout=20", "-max_len=65536"]
    if options.merge:
        merged = Path("build/fuzz/merged")
        shutil.rmtree(merged, ignore_errors=True)
        merged.mkdir(parents=True)
        command = [program, *limits, "-merge=1", str(merged), str(corpus.unpack()), str(FOUND)]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            corpus.pack(merged)
        return status
    if options.seconds == 0:
        print(program)
        return 0
    command = [program, *limits, f"-max_total_time={options.seconds}", *options.rest]
    if not any(not r.startswith("-") for r in options.rest):
        command += [str(FOUND), str(corpus.unpack())]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
