"""A pytest plugin: ExecuTorch's own tests of its Qualcomm backend, run without its runner program.

Those tests lower a model, write the program and its inputs to files, and start qnn_executor_runner,
which is built from ExecuTorch's source and is not in its wheel. Here the same backend library runs
the program in the test's process, through the Python bindings of the wheel:

    QNN_SDK_ROOT=... pytest -p executorch_suite .../executorch/backends/qualcomm/tests/...

Nothing else of the tests changes: they compare what the "runner" wrote as they always do. What
each said is appended to the file EXECUTORCH_SUITE_RESULTS at once, a line of JSON for each, after
one that it began; tests that this file knows already are left out. A test of more than
EXECUTORCH_SUITE_SECONDS ends the process. With EXECUTORCH_SUITE_SEED each begins with random
numbers of that seed, with EXECUTORCH_SUITE_PART=K/N each N-th test runs, from the K-th on.
nightly.py is the one that calls.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

RUNNER = "qnn_executor_runner"
#: What the runner can do beyond running a program, and this cannot.
UNKNOWN = ("--dump_intermediate_outputs", "--performance_output_path", "--etdump_path")
UNKNOWN += ("--shared_buffer", "--profile_level", "--heap_profiling_path", "--log_level")
DTYPES = (torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32, torch.int64)
DTYPES += (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def flags(command: list[str]) -> dict[str, str]:
    """--name value and --name=value, each once."""
    found, rest = {}, list(command)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if not value and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        found[name] = value
    return found


def execute(command: list[str], cwd: str) -> None:
    """What the runner does with a program and a list of inputs."""
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    options = flags(command[1:])
    for name in UNKNOWN:
        if name in options:
            pytest.skip(f"needs {RUNNER} {name}")
    program = _load_for_executorch(options["--model_path"])
    method = program.method_names()[int(options.get("--method_index", "0"))]
    meta = program.method_meta(method)
    for run, line in enumerate(Path(options["--input_list_path"]).read_text().splitlines()):
        inputs = []
        for i, path in enumerate(line.split()):
            info = meta.input_tensor_meta(i)
            data = np.fromfile(Path(cwd, path), dtype=np.uint8)
            inputs.append(torch.from_numpy(data).view(dtype_of(info.dtype())).reshape(info.sizes()))
        for i, output in enumerate(program.run_method(method, inputs)):
            to = Path(options["--output_folder_path"], f"output_{run}_{i:03}.raw")
            output.reshape(-1).contiguous().view(torch.uint8).numpy().tofile(to)


def dtype_of(code: int) -> torch.dtype:
    """ExecuTorch's scalar types are numbered as torch's."""
    from executorch.exir.schema import ScalarType
    from executorch.exir.tensor import scalar_type_enum

    table = {int(scalar_type_enum(dtype)): dtype for dtype in DTYPES}
    if code not in table:
        raise ValueError(f"no torch type for {ScalarType(code)}")
    return table[code]


class Runner:
    """subprocess, for the modules that start the runner."""

    PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
    Popen, CompletedProcess = subprocess.Popen, subprocess.CompletedProcess

    @staticmethod
    def run(command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        if isinstance(command, list) and Path(command[0]).name == RUNNER:
            try:
                execute(command, options["cwd"])
            except RuntimeError as error:
                return subprocess.CompletedProcess(command, 1, str(error))
            return subprocess.CompletedProcess(command, 0, "")
        return subprocess.run(command, **options)


def without_operators() -> None:
    """Lets torchvision be imported with a torch for which its own operators were not built. Its
    networks, which the tests build, use none of them."""
    register = torch.library.register_fake

    def forgiving(name: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(name, str) and name.startswith("torchvision::"):
            return lambda function: function
        return register(name, *rest, **options)

    torch.library.register_fake = forgiving  # type: ignore[assignment]


class Anything(type):
    """Callable, for annotations that nobody reads."""

    def __instancecheck__(cls, value: object) -> bool:
        return callable(value)

    def __getitem__(cls, _: Any) -> Any:
        return cls


def quicker() -> None:
    """Without what torch does again and again while it exports a program, to the same end: look up
    every operator of C++ for each namespace, and make a type for each annotation of its inner
    functions."""
    torch._ops.Callable = Anything("Callable", (), {})
    utils: Any = importlib.import_module("torch._export.utils")
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)


#: Packages of networks and data that the tests' modules import and few of the tests use.
NETWORKS = ("datasets", "timm", "torchaudio", "torchsr", "transformers")


class Name:
    """Of a package that is not installed. A test that uses it, not only imports it, is skipped."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(self, *_: Any, **__: Any) -> Any:
        pytest.skip(f"needs the package {self._package}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()


class Missing(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(self.__name__.partition(".")[0])


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in NETWORKS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Missing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Marked:
    """A test that waits for an exception, as one that fails with the vendor's libraries, and comes
    to compare results: with what pytest.raises gave it, in the place of its metrics."""

    reached = False

    @classmethod
    def compare(cls, *_: Any, **__: Any) -> None:
        cls.reached = True
        raise AssertionError("the results of a test that is marked as failing")


without_operators()
quicker()
pytest.ExceptionInfo.assert_close = Marked.compare  # type: ignore[attr-defined]
sys.meta_path.append(Finder())


def pytest_collection_finish(session: pytest.Session) -> None:
    # It has to exist; nobody starts it.
    runner = Path(tempfile.mkdtemp(prefix="executorch-suite."), RUNNER)
    runner.touch(mode=0o700)
    os.environ["QNN_EXECUTOR_RUNNER"] = str(runner)
    for name in (
        "executorch.backends.qualcomm.tests.utils",
        "executorch.backends.qualcomm.tests.rework.conftest",
    ):
        module = sys.modules.get(name)
        if module is not None:
            module.subprocess = Runner  # type: ignore[attr-defined]
    if delegate := sys.modules.get("executorch.backends.qualcomm.tests.utils"):
        # As its module test_qnn_delegate_x86 sets them, which has the operators alone.
        delegate.TestQNN.enable_x86_64 = True
        delegate.TestQNN.backend = "htp"
        delegate.TestQNN.soc_model = "SM8650"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first, _, step = os.environ.get("EXECUTORCH_SUITE_PART", "0/1").partition("/")
    known = {said["test"] for said in results() if said["outcome"] != "began"}
    items[:] = [item for item in items[int(first) :: int(step)] if name(item.nodeid) not in known]


def pytest_runtest_logstart(nodeid: str) -> None:
    signal.alarm(int(os.environ.get("EXECUTORCH_SUITE_SECONDS", "0")))
    say({"test": name(nodeid), "outcome": "began"})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    if seed := os.environ.get("EXECUTORCH_SUITE_SEED"):
        torch.manual_seed(int(seed))
        np.random.seed(int(seed))  # noqa: NPY002 - that of the tests
        random.seed(int(seed))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        signal.alarm(0)
    elif report.when == "call" or report.outcome != "passed":
        why = "" if report.outcome == "passed" else str(report.longrepr)[-2000:]
        if re.fullmatch(r"contains \d+ failed subtests?", why):
            return  # which have said so
        marked = why == "Unexpected success" or Marked.reached
        Marked.reached = False
        outcome = "unexpected success" if marked else report.outcome
        seconds = round(report.duration, 2)
        say({"test": name(report.nodeid), "outcome": outcome, "why": why, "seconds": seconds})


def name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def say(what: dict[str, Any]) -> None:
    if path := os.environ.get("EXECUTORCH_SUITE_RESULTS"):
        with open(path, "a") as file:
            file.write(json.dumps(what) + "\n")


def results() -> list[dict[str, Any]]:
    path = Path(os.environ.get("EXECUTORCH_SUITE_RESULTS", ""))
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
