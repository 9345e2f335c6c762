"""Damaged .tflite files, one after the other, for as long as is wanted.

    python tests/fuzz/tflite_fuzz.py [SECONDS] [SEED]

Every file is imported, and opened by `qnnrt.tflite.Interpreter`; what can be opened is run. Only
`ModelError` and `UnsupportedOpError` are answers to a file; refusals of the backend are counted.
The file at work is kept as tflite_fuzz.tflite in the folder for temporary files, for the case that
the process dies of it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import qnnrt
from qnnrt.importers.tflite import load
from qnnrt.tflite import Interpreter
from support.tflite.damage import BASES, mutants

AT_WORK = Path(tempfile.gettempdir()) / "tflite_fuzz.tflite"


def outcome(data: bytes) -> str:
    """What becomes of a file."""
    try:
        load(data)
    except (qnnrt.ModelError, qnnrt.UnsupportedOpError) as e:
        return type(e).__name__
    try:
        with Interpreter(model_content=data, num_threads=1) as it:
            if sum(it._graph.nbytes(i) for i in it._graph.sizes) > 1 << 24:
                return "large"
            it.allocate_tensors()
            it.invoke()
    except (qnnrt.ModelError, qnnrt.UnsupportedOpError) as e:
        return f"{type(e).__name__} of the interpreter"
    except qnnrt.QnnError as e:
        return f"{e.name} of the backend"
    return "ran"


def main(seconds: float = 60, seed: int = 1) -> int:
    """Damaged files until the time is up; their outcomes, and 1 where one was none."""
    found: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, base in BASES.items():
            for n, data in enumerate(mutants(base, seed, 5)):
                AT_WORK.write_bytes(data)
                try:
                    found[outcome(data)] += 1
                except Exception:
                    print(f"{name}, seed {seed}, number {n}: {AT_WORK}")
                    raise
        seed += 1
    for what, count in found.most_common():
        print(f"{count:8} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(float(a) for a in sys.argv[1:2]), *(int(a) for a in sys.argv[2:3])))
