"""Some of the tests, where all of them would take too long: under a sanitizer."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence

FEW = 8  # cases of one test: all are kept
ONE_OF = 3
#: Where one case more may find one fault more: what comes from outside, and what owns memory.
WHOLE = re.compile(
    r"tests/(binary|faults|fuzz|memory|qnn)/|test_\w*(bad|damage|guard|hostile|limit)"
)


def in_sample(names: Sequence[str], seed: str) -> set[str]:
    """Of these names of tests: each case of a test that has few or is of ``WHOLE``, and about one
    of ``ONE_OF`` of the others, chosen by the name and the seed alone."""
    tests = [name.partition("[")[0] for name in names]
    cases = Counter(tests)
    return {
        name
        for name, test in zip(names, tests, strict=True)
        if cases[test] <= FEW
        or WHOLE.search(test)
        or zlib.crc32(f"{seed} {name}".encode()) % ONE_OF == 0
    }
