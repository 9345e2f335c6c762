#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.10.14"]
# ///
"""A session for each thing that a contributor does: `nox -l` lists them, `nox -s NAME` runs one.

.ci/run does all that a change must pass, in environments of its own, and does not need nox.
"""

from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
PYPROJECT = nox.project.load_toml("pyproject.toml")


def install_built(session: nox.Session, *extras: str) -> None:
    """The tools of some extras, and the package in place: objects under build/ are used again."""
    session.install(*PYPROJECT["build-system"]["requires"])
    for extra in extras:
        session.install(*PYPROJECT["project"]["optional-dependencies"][extra])
    session.install("--no-build-isolation", "-e", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, cython-lint, clang-format, mypy, what is generated from csrc/abi."""
    session.install(*PYPROJECT["project"]["optional-dependencies"]["dev"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("cython-lint", "qnnrt")
    session.run("python", "tools/abi.py", "--check")
    session.run("mypy")


@nox.session(default=False)
def hooks(session: nox.Session) -> None:
    """The hooks of pre-commit on every file."""
    session.install("pre-commit")
    session.run("pre-commit", "run", "--all-files", *session.posargs)


@nox.session(default=False)
def review(session: nox.Session) -> None:
    """The guidelines of Scientific Python."""
    session.install("sp-repo-review[cli]>=2025")
    session.run("repo-review", ".", *session.posargs)


@nox.session
def native(session: nox.Session) -> None:
    """The C++ tests: nox -s native -- planner runs those with this in the name."""
    session.install(*PYPROJECT["build-system"]["requires"])
    session.run("python", "tests/native/run.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """pytest: nox -s tests -- tests/memory."""
    install_built(session, "test")
    session.run("pytest", *session.posargs)


@nox.session(default=False)
def benchmarks(session: nox.Session) -> None:
    """One benchmark: nox -s benchmarks -- kernels."""
    install_built(session, "test", "bench")
    name, *rest = session.posargs or ["call_overhead"]
    session.run("python", f"benchmarks/{name}.py", *rest)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation site: nox -s docs -- serve shows it, without an argument it is checked."""
    install_built(session)
    session.install(*nox.project.dependency_groups(PYPROJECT, "docs"))
    session.run("mkdocs", *(session.posargs or ["build"]))


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """A release wheel of this machine's: built, checked, tried without a compiler."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "release"))
    session.run("python", "tools/wheels.py", "build", *session.posargs)


@nox.session(default=False)
def bed(session: nox.Session) -> None:
    """A command on a kernel with dma-buf heaps: nox -s bed -- pytest tests/memory."""
    install_built(session, "test")
    session.run("python", "tests/beds/dmabuf_vm.py", *session.posargs)


@nox.session(default=False)
def aarch64(session: nox.Session) -> None:
    """A wheel for AArch64, and its tests, or a command, under emulation."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "release"), "packaging")
    out = session.create_tmp()
    session.run("python", "tools/wheels.py", "build", "--arch", "aarch64", "--out", out)
    (wheel,) = Path(out).glob("*_aarch64.whl")
    command = session.posargs or ["python", "-m", "pytest", "-m", "wheel"]
    session.run("python", "tests/beds/aarch64.py", "--install", "--wheel", wheel, *command)


@nox.session(default=False)
def free_threaded(session: nox.Session) -> None:
    """A command with a free-threaded Python, built out of Debian's sources at the first call."""
    session.install("packaging", "pip")
    command = session.posargs or ["python", "-m", "pytest", "tests/session/test_parallel.py"]
    session.run("python", "tests/beds/free_threaded.py", "--install", *command)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Small changes of the lines changed since main: does a test notice?"""
    install_built(session, "test")
    session.run("python", "tools/mutate.py", *session.posargs)


@nox.session(default=False)
def ci(session: nox.Session) -> None:
    """Everything that a change must pass, as CI runs it; with names, those stages."""
    session.run(".ci/run", *session.posargs, external=True)


if __name__ == "__main__":
    nox.main()
