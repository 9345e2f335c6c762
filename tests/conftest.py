"""Every test gives back what it took: buffers, handles, QNN objects, fds and shared mappings."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.building import Builder
from support.sampling import in_sample
from support.strangers import strangers
from support.waiting import until

# Programs that tests start take the installed package, as the tests do: not the source tree that
# happens to be their working directory, which may hold no built library.
os.environ["PYTHONSAFEPATH"] = "1"


#: What a wheel is tried with (the marker "wheel"), where there is no compiler and no other runtime.
WHEEL = {
    *("binary/test_save_binary", "lpai/test_lpai_session", "memory/test_channel"),
    *("memory/test_lifetime", "memory/test_memory", "memory/test_zero_copy"),
    *("memory/test_sharing", "memory/test_sharing_ends", "memory/test_sharing_misuse"),
    *("onnx/test_onnx_backend", "session/test_async", "session/test_parallel"),
    *("session/test_session", "session/test_state", "session/test_strict", "session/test_views"),
}


def is_for_wheels(path: Path) -> bool:
    return f"{path.parent.name}/{path.stem}" in WHEEL


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Others may import what is not there."""
    if config.option.markexpr != "wheel" or not collection_path.name.startswith("test_"):
        return None
    return not is_for_wheels(collection_path) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_for_wheels(item.path):
        item.add_marker("wheel")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", metavar="SEED", help="of many cases of a test only a third")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "other_fds: others keep fds and maps here, so only qnnrt's own counters are compared",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of the gpu backend come last but for Ray's.

    Its driver maps thousands of files, through which the check of what a test gives back would have
    to look after every other test. Ray leaves threads behind, which open files that others count.
    """
    seed = config.getoption("sample")
    if seed is not None:
        kept = in_sample([item.nodeid for item in items], seed)
        left = [item for item in items if item.nodeid not in kept]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid in kept]
    items.sort(
        key=lambda item: (
            item.path.parent.name == "cluster",
            item.path.name.startswith(("test_gpu", "test_seed_gpu")),
        )
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = (yield).get_result()  # type: ignore[func-returns-value]
    if report.when == "call":
        item.stash[_FAILED] = report.failed


_FAILED = pytest.StashKey[bool]()


def holdings(foreign: bool) -> dict[str, int]:
    """What the process holds now that a finished test should have given back."""
    from qnnrt import _core

    _core.ipc_forget_messages()
    _core.pool_trim(0)
    live = _core.live_counts()
    counts = _core.memory_counts()
    held: dict[str, int] = {f"live {name}": n for name, n in live.items()}
    held |= {f"memory {name}": n for name, n in counts.items() if not name.endswith("_frees")}
    held |= {f"handed over {name}": n for name, n in _core.ipc_counts().items()}
    held |= {f"gpu {name}": n for name, n in _core.gpu_counts().items()}
    if not foreign:
        fds = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                fds.append(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:  # the listing's own
                continue
        held["fds"] = len(fds)
        maps = Path("/proc/self/maps").read_text().splitlines()
        held["shared maps"] = sum(" rw-s " in line or " r--s " in line for line in maps)
    return held


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """What is made once for a process is made before the first test: it is no leak."""
    import numpy as np

    import qnnrt
    from support.toy import relu_model

    qnnrt.alloc(1).lease().close()  # starts the thread that serves receivers
    with qnnrt.Session(relu_model()) as s:
        s.run({"x": np.zeros((1, 16), np.float32)})


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """What C and C++ programs are built with; pytest's workers share them."""
    folder = tmp_path_factory.getbasetemp()
    return Builder((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "built")


@pytest.fixture
def fake(builder: Builder, tmp_path: Path) -> Any:
    """A copy of its own of the backend that writes down every call."""
    from support import recording

    library = builder.library(recording.SOURCE, name="libQnnFake.so")
    return recording.Fake(Path(shutil.copy(library, tmp_path / "libQnnFake.so")))


@pytest.fixture(autouse=True)
def _gives_back(request: pytest.FixtureRequest, _warm: None) -> Iterator[None]:
    foreign = strangers() or any(map(request.node.get_closest_marker, ("foreign", "other_fds")))
    before = holdings(foreign)
    yield
    if request.node.stash.get(_FAILED, False):
        return  # its traceback keeps what it had
    left: dict[str, tuple[int, int]] = {}

    def given_back() -> bool:
        nonlocal left
        after = holdings(foreign)
        left = {k: (before[k], after[k]) for k in before if after[k] > before[k]}
        if left:  # garbage goes first; a finalizer may free what has a finalizer
            gc.collect()
        return not left

    # A thread sees the end of another process, which may be a little later.
    until(given_back, 30)
    assert not left, f"before and after the test: {left}"
