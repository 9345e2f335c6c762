"""SIGINT at random times in every call that takes a while: python tests/campaigns/signals.py

    --count 10000 --seed 7         interrupts, dealt out over the calls
    --only run-cpu,close-htp       these calls; --list names them all
    --verbose                      where Python itself dropped interrupts

Each call has a child process of its own, in which a kernel timer raises SIGINT once in each call,
at a random time of it. A child that hangs, dies, drops an interrupt, raises anything else, cannot
do the next call, or holds more than before at its end (live objects, memory, fds, maps, threads) is
a finding. Ends with the numbers by call, and with status 1 when there was a finding.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

PATIENCE = 300  # seconds for some calls and their interrupts: who waits so long waits for ever
COMES = 60  # seconds for an interrupt that came due: far more than it takes on a busy machine
EACH = 100  # interrupts between two looks at what is held


class Timer:
    """A timer of the kernel's that raises SIGINT in this process, to the microsecond."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        event = (ctypes.c_int * 16)()
        event[2], event[3] = signal.SIGINT, 0  # sigev_signo, SIGEV_SIGNAL
        self._id = ctypes.c_void_p()
        if self._libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(self._id)):
            raise OSError(ctypes.get_errno(), "timer_create")

    def start(self, seconds: float) -> None:
        when = (ctypes.c_long * 4)(0, 0, *divmod(max(int(seconds * 1e9), 1), 10**9))
        self._libc.timer_settime(self._id, 0, when, None)


def held() -> dict[str, int]:
    """What the process holds, garbage and pools aside."""
    from conftest import holdings

    for _ in range(3):
        gc.collect()
    return holdings(False) | {"threads": len(os.listdir("/proc/self/task"))}


class Child:
    """Interrupts one call many times."""

    def __init__(self, name: str, seed: int) -> None:
        from support.interrupted_calls import CALLS

        self.call, self.end = CALLS[name]()
        self.random = random.Random(f"{seed} {name}")
        self.timer = Timer()
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        sys.unraisablehook = self._unraisable

    def _unraisable(self, what: Any) -> None:
        """Python drops what is raised in finalizers and callbacks of weak references."""
        if not isinstance(what.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(what)
            os._exit(3)
        self.dropped[getattr(what.object, "__qualname__", repr(what.object))] += 1

    def one(self, most: float) -> None:
        """One call, interrupted at a time up to ``most`` from its start."""
        over = False
        dropped = sum(self.dropped.values())
        try:
            self.timer.start(self.random.random() * most)
            self.call()
            over = True
            limit = time.monotonic() + COMES
            while sum(self.dropped.values()) == dropped:
                if time.monotonic() > limit:
                    self.counts["gone without a word"] += 1
                    return
                time.sleep(most / 20)
            self.counts["dropped by Python"] += 1
        except KeyboardInterrupt:
            self.counts["after the call" if over else "in the call"] += 1

    def work(self, count: int) -> dict[str, Any]:
        taken = []
        for _ in range(12):
            begun = time.perf_counter()
            self.call()
            taken.append(time.perf_counter() - begun)
        most = sorted(taken)[6] * 1.1
        before = held()
        begun = time.perf_counter()
        while self.counts["in the call"] < count:
            if not sum(self.counts.values()) % 20:
                faulthandler.dump_traceback_later(PATIENCE + 20 * most, exit=True)
            self.one(most)
            if self.counts["in the call"] % EACH == 0:
                self.call()
        for _ in range(3):
            self.call()
        seconds = time.perf_counter() - begun
        faulthandler.cancel_dump_traceback_later()  # its thread counts, too
        after = held()
        self.end()
        grown = {k: (before[k], n) for k, n in after.items() if n > before[k]}
        return {"counts": self.counts, "dropped": self.dropped, "grown": grown, "seconds": seconds}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_child(name: str, count: int, seed: int) -> tuple[dict[str, Any] | None, str]:
    """What came of it; None and why if nothing did."""
    command = [sys.executable, "-P", __file__, "--child", name]
    command += ["--count", str(count), "--seed", str(seed)]
    from support.outside import PATHS

    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": PATHS},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return None, f"status {done.returncode}\n{done.stderr[-3000:]}"
    return json.loads(lines[-1]), done.stderr


def main() -> int:
    o = options()
    if o.child:
        print(json.dumps(Child(o.child, o.seed).work(o.count)))
        return 0
    from support.interrupted_calls import CALLS, available

    names = o.only.split(",") if o.only else [n for n in CALLS if available(n)]
    if o.list:
        print("\n".join(names))
        return 0
    each = -(-o.count // len(names))
    findings = total = 0
    for name in names:
        found, said = in_child(name, each, o.seed)
        if found is None:
            findings += 1
            print(f"{name}: {said}", flush=True)
            continue
        counts = found["counts"]
        total += counts["in the call"]
        text = ", ".join(f"{n} {what}" for what, n in counts.items())
        if found["grown"] or said or counts.get("gone without a word"):
            findings += 1
            text += f"; HOLDS MORE: {found['grown']} {said[-2000:]}"
        if o.verbose and found["dropped"]:
            text += f"; dropped in {found['dropped']}"
        print(f"{name}: {text}; {found['seconds']:.1f} s", flush=True)
    print(f"{total} interrupts in {len(names)} calls, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
