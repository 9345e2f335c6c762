"""Asks clang, which builds the fuzz targets, about every source of the library: in the batches that
the build makes, and file by file what recent commits changed, as includes have to be whole.

CXX=clang++-14 python .ci/clang.py FILE...     FILE: checked by itself
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import setup as rules


def check(source: Path) -> bool:
    flags = [*rules.FLAGS, *rules.WARNINGS, *rules.onednn_include(), "-fsyntax-only"]
    return subprocess.run([*rules.CXX, *flags, str(source)], check=False).returncode == 0


def main() -> int:
    jobs = rules.native_jobs()
    batched = [source for source, _ in rules.in_batches(rules.build_directory(), jobs)]
    changed = {Path(name) for name in sys.argv[1:]}
    sources = list(dict.fromkeys([*batched, *(s for s, _ in jobs if s in changed)]))
    with ThreadPoolExecutor(rules.JOBS) as pool:
        good = list(pool.map(check, sources))
    failed = [str(s) for s, fine in zip(sources, good, strict=True) if not fine]
    print(f"clang: {len(sources) - len(failed)} of {len(sources)} sources are fine", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
