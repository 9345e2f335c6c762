"""Runs a command with a free-threaded Python, built out of Debian's source package.

    python tests/beds/free_threaded.py [--install] [--python 3.14] [COMMAND [ARGUMENT...]]

The first call builds that Python, without its global lock, into QNNRT_FREE_THREADED_CACHE (default
~/.cache/qnnrt-free-threaded), and installs those packages of the extra "test" beside it that have
wheels for it; nothing is installed in the machine itself, nor are its package sources changed. Each
call builds the checkout's binding for it, in place, and runs the command, which finds that Python
as `python`, with PYTHON_GIL=0:

    python tests/beds/free_threaded.py python -m pytest -n 1 tests/session/test_parallel.py

--python 3.13 takes the one of Debian's stable suite, where the newer one is not to be had. Needs a
Debian with apt, a C compiler and the LIBRARIES; --install gets what is missing.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(
    os.environ.get("QNNRT_FREE_THREADED_CACHE") or Path.home() / ".cache/qnnrt-free-threaded"
)
SUITES = {"3.13": "trixie", "3.14": "forky"}
# Without them the modules of the standard library that tests use would be left out.
LIBRARIES = ("libbz2-dev", "libffi-dev", "liblzma-dev", "libsqlite3-dev", "libssl-dev")
LIBRARIES += ("uuid-dev", "zlib1g-dev")
TOOLS = ("dpkg-dev", "gcc", "make", "xz-utils")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Without its lock the interpreter calls it up to 40 times for a lock that is taken, and each time
# gives the rest of its turn to whoever computes beside it, which makes seconds of milliseconds. It
# is a part of the interpreter, since some processes that it starts get an environment of their own.
SCHED_YIELD = "int sched_yield(void) { return 0; }\n"
CONFIGURE = ("--disable-gil", "--disable-test-modules", "--with-ensurepip=no")


def run(*command: str | Path, quiet: bool = True, **options: object) -> str:
    """What the command printed; ends the program where it fails."""
    print("$", shlex.join(map(str, command)), file=sys.stderr, flush=True)
    out = subprocess.PIPE if quiet else None
    done = subprocess.run(
        command, stdout=out, stderr=subprocess.STDOUT if quiet else None, text=True, **options
    )
    if done.returncode:
        sys.exit(f"{command[0]} failed: {(done.stdout or '').strip()[-2000:]}")
    return done.stdout or ""


def provide(install: bool) -> None:
    """The compiler and the libraries that the interpreter is built with."""
    wanted = [*TOOLS, *LIBRARIES]
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    there = {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}
    missing = [name for name in wanted if name not in there]
    if missing and not install:
        sys.exit(f"missing {' '.join(missing)}: apt-get install them, or pass --install")
    if missing:
        run("apt-get", "update")
        run("apt-get", "install", "-y", "--no-install-recommends", *missing)


def fetch(version: str, folder: Path) -> Path:
    """The unpacked source package, by lists of packages that are not the machine's."""
    formatted = ("--format", "$(SITE) $(CODENAME)", "Created-By: Packages", "Origin: Debian")
    sites = [line.split() for line in run("apt-get", "indextargets", *formatted).splitlines()]
    site = next((s for s, suite in sites if not suite.endswith(("-security", "-updates"))), None)
    if site is None:
        sys.exit("apt knows no archive of Debian's: this takes a Debian")
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (folder / "sources.list").write_text(f"deb-src {signed}{site} {SUITES[version]} main\n")
    options = [f"Dir::Etc::sourcelist={folder}/sources.list", "Dir::Etc::sourceparts=-"]
    options += [f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}", "APT::Sandbox::User="]
    given = [word for option in options for word in ("-o", option)]
    run("apt-get", *given, "update")
    run("apt-get", *given, "source", "--download-only", f"python{version}", cwd=folder)
    (archive,) = folder.glob("*.orig.tar.xz")
    run("tar", "-xf", archive, "-C", folder)
    (source,) = folder.glob("Python-*")
    return source


def build_python(version: str, target: Path) -> None:
    folder = target.with_name(f"{target.name}.part")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = fetch(version, folder)
    with open(source / "Programs/python.c", "a") as program:
        program.write(SCHED_YIELD)
    run("./configure", "-q", f"--prefix={target}", *CONFIGURE, cwd=source)
    jobs = len(os.sched_getaffinity(0))
    run("make", "-s", f"-j{jobs}", cwd=source)
    run("make", "-s", "install", cwd=source)
    shutil.rmtree(folder)


def requirements() -> list[str]:
    """What the package, its build and its tests ask for here."""
    from packaging.requirements import Requirement

    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    found = [*data["build-system"]["requires"], *project["dependencies"]]
    found += project["optional-dependencies"]["test"]
    kept = [r for r in map(Requirement, found) if r.marker is None or r.marker.evaluate()]
    return [str(r).partition(";")[0] for r in kept]


def install_packages(python: Path) -> None:
    """With the pip of the Python that runs this. Only what has a wheel: a package that has none for
    this Python would be built for a long time, and may not be made for it."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--only-binary=:all:"]
    for requirement in requirements():
        command = [*map(str, pip), requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"left out, as it has no wheel for this Python: {requirement}", file=sys.stderr)


def prepare(version: str) -> Path:
    """The environment of that Python, made at the first call."""
    environment, target = CACHE / f"env-{version}", CACHE / f"python-{version}"
    complete = environment / "complete"  # not by its name: scripts in it know their place
    if complete.exists():
        return environment
    if not (target / "bin/python3").exists():
        build_python(version, target)
    run(target / "bin/python3", "-m", "venv", "--clear", "--without-pip", environment)
    install_packages(environment / "bin/python")
    complete.touch()
    return environment


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command with a free-threaded Python.")
    parser.add_argument("--install", action="store_true", help="apt-get install missing packages")
    parser.add_argument("--python", choices=SUITES, default="3.14", help="which version")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="program and its arguments")
    options = parser.parse_args()
    provide(options.install)
    environment = prepare(options.python)
    path = os.pathsep.join([str(environment / "bin"), os.environ.get("PATH", "")])
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    variables = os.environ | {"PATH": path, "PYTHONPATH": python_path, "PYTHON_GIL": "0"}
    python = environment / "bin/python"
    build = (python, "setup.py", "-q", "build_ext", "--inplace")
    run(*build, quiet=False, cwd=ROOT, env=variables)
    check = "import sys, qnnrt; sys.exit(sys._is_gil_enabled())"
    bare = {name: value for name, value in variables.items() if name != "PYTHON_GIL"}
    run(python, "-c", check, quiet=False, cwd=ROOT, env=bare)  # by itself, not by PYTHON_GIL
    if not options.command:
        return 0
    program = shutil.which(options.command[0], path=path)
    if not program:
        sys.exit(f"{options.command[0]} is not found")
    os.execve(program, options.command, variables)


if __name__ == "__main__":
    sys.exit(main())
