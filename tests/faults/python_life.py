"""The life of a Python program under failing calls, at many points of one process:

    LD_PRELOAD=libfaults.so python python_life.py LIBFAULTS BACKEND KINDS MODE FIRST STEP LIMIT

KINDS 1: allocations of qnnrt's libraries; 2: system calls of theirs and of Python itself; 4:
Python's own allocations. MODE 0: the nth fails; 1: all from it on (of Python's allocations: 20);
2: it and the next. After each point the process holds what it held before, and a whole life gives
right results. Prints a line for each point that broke this, and a last one with numbers; exits 1 if
there was any."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import io
import os
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
from conftest import holdings

import qnnrt
from support.lpai_models import quantized_relu
from support.toy import relu_model

ALLOCATIONS, CALLS, PYTHON = 1, 2, 4
SHOW = "FAULTS_SHOW" in os.environ  # every point's error
OURS = "libqnnrt.so:libQnn:_core."
#: What runs Python's own calls; a plus: these see to no failure of munmap.
PYTHONS = ":+python:+libpython:+_socket:+mmap"


#: How many of Python's allocations fail. Not all from one on: CPython 3.11 would unwind for ever.
IN_A_ROW = (1, 20, 2)


class Faults:
    """What the preloaded library and CPython's own hooks can make fail."""

    def __init__(self, path: str, kinds: int) -> None:
        self.library = ctypes.PyDLL(path)
        self.library.faults_first.restype = ctypes.c_char_p
        for name in ("faults_disarm", "faults_failed", "faults_others"):
            getattr(self.library, name).restype = ctypes.c_long
        self.library.faults_scope((OURS + (PYTHONS if kinds == CALLS else "")).encode())
        self.kinds = kinds

    @contextmanager
    def window(self, n: int, mode: int) -> Iterator[None]:
        if self.kinds == PYTHON:
            import _testcapi

            _testcapi.set_nomemory(n, n + IN_A_ROW[mode])
            try:
                yield
            finally:
                _testcapi.remove_mem_hooks()
            return
        arm, disarm = self.library.faults_arm, self.library.faults_disarm
        arm(self.kinds, ctypes.c_long(n), mode)
        try:
            yield
        finally:
            disarm()

    @property
    def points(self) -> int:
        return int(self.library.faults_disarm())

    @property
    def failed(self) -> int:
        return int(self.library.faults_failed())

    @property
    def first(self) -> str:
        return str(self.library.faults_first().decode())


class Life:
    """One life; ``end`` gives back what it has made, as often as that takes."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.path = folder / "net.bin"
        self.model = quantized_relu() if backend == "lpai" else relu_model()
        self.made: list[Any] = []

    def keep(self, thing: Any) -> Any:
        self.made.append(thing)
        return thing

    def check(self, session: qnnrt.Session, run: Callable[[], object], seed: int) -> None:
        x, y = session.inputs["x"].array, session.outputs["y"].array
        values = np.arange(16) * 7 + seed
        x[...] = (values % 256 if x.dtype == np.uint8 else values - 50).reshape(x.shape)
        y[...] = 0
        run()
        zero = 10 if x.dtype == np.uint8 else 0
        if not (y == np.maximum(x, zero)).all():
            raise AssertionError(f"{self.backend}: {y} is not relu of {x}")

    def session(self, model: Any, **options: Any) -> qnnrt.Session:
        session: qnnrt.Session = self.keep(qnnrt.Session(model, self.backend, **options))
        return session

    def live(self) -> None:
        session = self.session(self.model)
        self.check(session, session.run, 1)
        self.check(session, lambda: session.run_async().result(120), 2)
        x = session.inputs["x"].array.copy()
        y = session.run({"x": x})["y"]
        if not (y == session.outputs["y"].array).all():
            raise AssertionError("what a run returns is not what it computed")
        if self.backend != "gpu":
            session.save_binary(self.path)
            loaded = self.session(self.path)
            self.check(loaded, loaded.run, 3)
            self.hand_off()
        session.profile()
        session.close()

    def hand_off(self) -> None:
        """A buffer by way of pickle, as it reaches another process."""
        buffer = self.keep(qnnrt.alloc(8192))
        array = buffer.array(16, np.float32)
        array[...] = 5
        there = self.keep(ForkingPickler.loads(bytes(ForkingPickler.dumps(buffer))))
        if not (there.array(16, np.float32) == 5).all():
            raise AssertionError("the buffer's memory did not arrive")

    def end(self) -> None:
        """Arrays go before their buffers."""
        while self.made:
            gc.collect()
            self.made[-1].close()
            self.made.pop()


def reaped(live: Callable[[], None]) -> BaseException | None:
    """The error, without what its traceback holds."""
    try:
        live()
    except BaseException as e:
        if SHOW:
            traceback.print_exc(file=sys.stdout)
        error: BaseException | None = e
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
        return e.with_traceback(None)
    return None


ALLOWED = (qnnrt.Error, OSError, MemoryError)


def campaign(
    path: str, backend: str, kinds: int, mode: int, first: int, step: int, limit: int
) -> int:
    faults = Faults(path, kinds)
    seen: Counter[str] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:

        def whole() -> None:
            life = Life(backend, Path(folder))
            life.live()
            life.end()

        for _ in range(3):
            whole()
        with faults.window(0 if kinds != PYTHON else 2**30, mode):
            whole()
        points = faults.points if kinds != PYTHON else limit
        gc.collect()
        before = holdings(foreign=False)
        tried = calls = 0
        for n in range(first, min(points, limit) + 1, step):
            faulthandler.dump_traceback_later(300, exit=True)
            print(f"at {n}", file=sys.stderr, flush=True)
            life = Life(backend, Path(folder))
            tried += 1

            def live(life: Life = life, n: int = n) -> None:
                with faults.window(n, mode):
                    life.live()
                    life.end()

            error = reaped(live)
            calls += faults.failed
            name = type(error).__name__ if error is not None else "none"
            code = getattr(error, "code", None)
            seen[name if code is None else f"{name} {code}"] += 1
            if SHOW:
                print(n, faults.first, name, error, flush=True)
            what = f"{backend}, kinds {kinds}, mode {mode}, point {n} ({faults.first}), {name}"
            if error is not None and not isinstance(error, ALLOWED):
                bad += 1
                print(f"{what}: {error!s:.300}", flush=True)
            trouble = reaped(life.end) or reaped(whole)
            if trouble is not None:
                bad += 1
                print(f"{what}: the next life: {trouble!r:.300}", flush=True)
            del error, live, life
            after = holdings(foreign=False)
            for _ in range(3):
                if all(after[k] <= before[k] for k in before):
                    break
                gc.collect()
                after = holdings(foreign=False)
            kept = {k: (before[k], after[k]) for k in before if after[k] > before[k]}
            if kept:
                bad += 1
                print(f"{what}: kept {kept}", flush=True)
                before = after
        faulthandler.cancel_dump_traceback_later()
    name = {ALLOCATIONS: "allocations", CALLS: "system calls", PYTHON: "Python's allocations"}[
        kinds
    ]
    print(
        f"{backend}, {name}, {('once', 'from there on', 'twice')[mode]}: {points} points, "
        f"{tried} tried, {calls} calls failed, {bad} bad; threads {threading.active_count()}; "
        f"{dict(seen)}",
        flush=True,
    )
    return bad


if __name__ == "__main__":
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", buffering=0), write_through=True)
    faulthandler.enable(sys.stderr)
    numbers = [int(a) for a in sys.argv[3:]]
    kinds, mode, first, step, limit = numbers
    sys.exit(1 if campaign(sys.argv[1], sys.argv[2], kinds, mode, first, step, limit) else 0)
