"""What is fuzzed: where its cases come from, and what becomes of one."""

from __future__ import annotations

import fcntl
import os
import pickle
import random
import re
import sys
import traceback
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import qnnrt
from qnnrt import _core
from support.toy import relu_model

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/fuzz"
#: Numbers at which sizes, signs and conversions break.
WILD_INTS = (
    0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 65, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 10**9,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, -1, -2, -3, -4, -5, -128, -1000,
    -(2**31), -(2**31) - 1, -(2**62), -(2**63) + 1, -(2**63),
)  # fmt: skip
WILD_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, 1e-30, 1e30, 3.4e38, -3.4e38, 1e300,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
WILD_TEXTS = (
    "", " ", "x", "y", "a\0b", "\0", "../x", "/", "/dev/zero", "ä", "\U0001f600", "%s%n", "x" * 300,
    "true", "NOTSET", "SAME_UPPER", "linear", "reflect", "(a+)+$", "ij,jk->ik", "...i,...i", "i->ii"
)  # fmt: skip


class Target:
    """One kind of input.

    Attributes:
        name: of the mutator, as the command line has it.
        suffix: of the files in which findings are kept.
        backend: what runs the models of all cases; none: cpu, and htp for some.
    """

    name = ""
    suffix = ".bin"
    backend: str | None = None

    @cached_property
    def bases(self) -> list[Any]:
        """What cases are made from; `build_bases` once, kept in build/fuzz."""
        return cached(self)

    def build_bases(self) -> list[Any]:
        """What cases are made from; anything that can be pickled, in a fixed order."""
        raise NotImplementedError

    def mutate(self, chance: random.Random) -> bytes:
        """A case."""
        raise NotImplementedError

    def case(self, seed: int, number: int) -> bytes:
        """Case `number` of a seed: the same bytes in whatever process."""
        return self.mutate(random.Random(f"{self.name} {seed} {number}"))

    def warm(self) -> None:
        """What a process makes once, so that it does not count as left behind by a case."""
        with qnnrt.Session(relu_model(), self.backend or "cpu") as session:
            session.run({"x": np.zeros((1, 16), np.float32)})

    def run(self, data: bytes, folder: Path) -> str:
        """What became of a case, in a few words. Whatever it raises, but for errors that are
        answers (`answer`), is a finding."""
        raise NotImplementedError

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Simpler cases, the simplest first; minimising goes on with one that shows the same."""
        for size in (len(data) // 2, len(data) // 4, len(data) // 8, 16, 4, 1):
            for at in range(0, len(data), size or 1) if 0 < size < len(data) else ():
                yield data[:at] + data[at + size :]


#: No error message needs more characters.
LONGEST_MESSAGE = 20_000


def answer(error: BaseException) -> str | None:
    """The first words of an error that is an answer to a bad input; None for a finding."""
    if isinstance(error, MemoryError):
        # numpy's own names an array's size, but not what asked for it.
        clear = str(error) and type(error) is MemoryError
        return words(error) if clear else None
    if isinstance(error, (qnnrt.Error, OSError)) and len(str(error)) <= LONGEST_MESSAGE:
        return words(error)
    return None


def words(error: BaseException) -> str:
    """Type and first words of an error, without what differs from case to case."""
    text = str(error).split("\n")[0][:400]
    text = re.sub(r"(the given bytes \(\d+\)|\S*/\S*)[: ]*", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)|\[[^\]]*\]|\S*[0-9_]\S*", "..", text)
    return f"{type(error).__name__}: {' '.join(text.split()[:5])}"


def cached(target: Target) -> list[Any]:
    """The bases, from a file that other processes and later runs read as well."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source = Path(sys.modules[type(target).__module__].__file__ or "").read_bytes()
    # Binaries hold weights as this build's kernels want them.
    built = os.stat(_core.__file__).st_mtime_ns, onnx.__version__, np.__version__
    file = BUILD / f"bases-{target.name}-{zlib.crc32(source + repr(built).encode()):08x}.pickle"
    with open(BUILD / f"bases-{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for old in BUILD.glob(f"bases-{target.name}-*.pickle"):
                old.unlink()
            part = file.with_suffix(".part")
            # In a child: making them may start threads, which a fork afterwards would not have.
            pid = os.fork()
            if pid == 0:
                _write_bases(target, part)
            if os.waitpid(pid, 0)[1]:
                raise RuntimeError(f"the bases of {target.name} cannot be made; see above")
            part.rename(file)
    return list(pickle.loads(file.read_bytes()))


def _write_bases(target: Target, file: Path) -> None:
    try:
        file.write_bytes(pickle.dumps(target.build_bases()))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
