"""Runs a command as on AArch64: programs for it run under qemu-user, all others as they are.

    python tests/beds/aarch64.py [--install] [--wheel WHEEL] [COMMAND [ARGUMENT...]]

The first call unpacks Debian's Python for AArch64 and the packages of the extra "test" that have
wheels for it into QNNRT_AARCH64_CACHE (default ~/.cache/qnnrt-aarch64); nothing is installed in the
machine itself. --wheel puts a wheel of `tools/wheels.py build --arch aarch64` there, too. The
command finds that Python as `python`, and the cross compilers as CC, CXX, gcc and g++:

    python tests/beds/aarch64.py --wheel dist/qnnrt-*_aarch64.whl python -m pytest -n 1 tests/memory
    python tests/beds/aarch64.py "$(which python)" tests/native/run.py

Programs are started through binfmt_misc: the machine's, where qemu-aarch64 is registered, or one of
the command's own, which takes Linux 6.7 and root. Needs debootstrap, qemu-user and
g++-aarch64-linux-gnu; --install gets what is missing with apt-get.
"""

import argparse
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("QNNRT_AARCH64_CACHE") or Path.home() / ".cache" / "qnnrt-aarch64")
SUITE, PYTHON = "bookworm", "3.11"
GLIBC = 36  # of the suite
TOOLS = {
    "debootstrap": "debootstrap",
    "qemu-aarch64": "qemu-user",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
}
REGISTERED = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
# The head of a 64-bit little-endian ELF program or library for machine 183.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
# What emulated programs find as /proc/cpuinfo, where qemu 7.2 would show them the machine's own: a
# library that looks for its processor there (onnxruntime's cpuinfo) dies of not finding one.
PROCESSOR = """\
processor\t: {}
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""
CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000


def quiet(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")


def provide_tools(install: bool) -> None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    missing = [package for name, package in TOOLS.items() if not shutil.which(name, path=path)]
    if missing and not install:
        sys.exit(f"missing {' '.join(missing)}: apt-get install them, or pass --install")
    if missing:
        quiet("apt-get", "update")
        quiet("apt-get", "install", "-y", "--no-install-recommends", *missing)


def requirements() -> list[str]:
    """What the package and its tests ask for on AArch64."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = {"platform_machine": "aarch64", "python_version": PYTHON}
    found = map(Requirement, project["dependencies"] + project["optional-dependencies"]["test"])
    kept = [r for r in found if r.marker is None or r.marker.evaluate(there)]
    return [str(r).partition(";")[0] for r in kept]


def pip(site: Path, *arguments: str | Path) -> None:
    """Installs for that Python what has no need to be built."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:", "--upgrade"]
    command += ["--python-version", PYTHON, "--implementation", "cp", "--abi", "cp311"]
    command += ["--abi", "abi3", "--abi", "none", "--platform", "manylinux2014_aarch64"]
    for minor in range(17, GLIBC + 1):
        command += ["--platform", f"manylinux_2_{minor}_aarch64"]
    quiet(*command, "--target", site, *arguments)


def prepare() -> Path:
    """The folder of the root, made at the first call."""
    root, part = CACHE / "root", CACHE / "root.part"
    if root.exists():
        return root
    shutil.rmtree(part, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase"]
    quiet(*command, "--include=python3,libgomp1", SUITE, part)
    for package in sorted(part.glob("var/cache/apt/archives/*.deb")):
        quiet("dpkg-deb", "-x", package, part)
        package.unlink()
    # An environment like venv's: made by that Python it would be the same, only slower.
    environment = part / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {root}/usr/bin\nversion = {PYTHON}\n")
    for name in ("python", "python3"):
        (environment / "bin" / name).symlink_to(f"../../usr/bin/python{PYTHON}")
    (part / "tools").mkdir()
    for name, tool in (("gcc", "gcc"), ("cc", "gcc"), ("g++", "g++"), ("c++", "g++")):
        (part / "tools" / name).symlink_to(f"/usr/bin/aarch64-linux-gnu-{tool}")
    pip(site_of(part), *requirements())
    part.rename(root)
    return root


def site_of(root: Path) -> Path:
    return root / "venv" / "lib" / f"python{PYTHON}" / "site-packages"


def install_wheel(root: Path, wheel: Path) -> None:
    site = site_of(root)
    shutil.rmtree(site / "qnnrt", ignore_errors=True)
    for old in site.glob("qnnrt-*.dist-info"):
        shutil.rmtree(old)
    pip(site, "--no-deps", wheel.resolve())
    for script in (site / "bin").iterdir():  # whose first line names the Python that ran pip
        rest = script.read_text(encoding="utf-8").partition("\n")[2]
        target = root / "venv" / "bin" / script.name
        target.write_text(f"#!{root}/venv/bin/python\n{rest}", encoding="utf-8")
        target.chmod(0o755)


def environment(root: Path) -> dict[str, str]:
    cached = "ccache " if shutil.which("ccache") else ""
    path = [root / "venv" / "bin", root / "tools", os.environ.get("PATH", "")]
    # Not the package of this checkout, which is built for another machine.
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return inherited | {
        "PATH": os.pathsep.join(map(str, path)),
        "CC": f"{cached}aarch64-linux-gnu-gcc",
        "CXX": f"{cached}aarch64-linux-gnu-g++",
        # For setup.py: what it compiles for.
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        # Where emulated programs look first for their libraries.
        "QEMU_LD_PREFIX": str(root),
        # Compiling what is imported takes longer than all else of an emulated start.
        "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"),
        "PYTHONSAFEPATH": "1",
    }


def own_emulator() -> None:
    """From here on this process and its children have a binfmt_misc of their own."""
    if REGISTERED.exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments):
            error = os.strerror(ctypes.get_errno())
            sys.exit(
                f"{name}: {error}: qemu-aarch64 is not registered in binfmt_misc, and one of one's "
                "own takes root and Linux 6.7. Debian's qemu-user-static registers it."
            )

    ready, go = os.pipe(), os.pipe()
    helper = os.fork()
    if helper == 0:  # outside: it may map every user
        try:
            os.close(ready[1])
            if os.read(ready[0], 1):
                for name in ("uid_map", "gid_map"):
                    Path(f"/proc/{os.getppid()}/{name}").write_text("0 0 65536")
                os.write(go[1], b"x")
        finally:
            os._exit(0)
    call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    os.write(ready[1], b"x")
    os.close(go[1])
    if os.read(go[0], 1) != b"x":
        sys.exit("users cannot be mapped: run as root")
    os.waitpid(helper, 0)
    for fd in (*ready, go[0]):
        os.close(fd)
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"binfmt_misc", b"/proc/sys/fs/binfmt_misc", b"binfmt_misc", 0, None)
    qemu = shutil.which("qemu-aarch64")
    # P: argv[0] stays; F: the emulator is opened now.
    line = f":qemu-aarch64:M::{MAGIC}:{MASK}:{qemu}:PF"
    Path("/proc/sys/fs/binfmt_misc/register").write_text(line)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command as on AArch64.")
    parser.add_argument("--install", action="store_true", help="apt-get install missing tools")
    parser.add_argument("--wheel", type=Path, help="one for AArch64, installed before")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="program and its arguments")
    options = parser.parse_args()
    if platform.machine() == "aarch64":
        sys.exit("this machine is one: run the command itself")
    provide_tools(options.install)
    root = prepare()
    processors = "".join(PROCESSOR.format(n) for n in range(os.cpu_count() or 1))
    (root / "proc/cpuinfo").write_text(processors, encoding="utf-8")
    if options.wheel:
        install_wheel(root, options.wheel)
    if not options.command:
        return 0
    own_emulator()
    variables = environment(root)
    program = shutil.which(options.command[0], path=variables["PATH"])
    if not program:
        sys.exit(f"{options.command[0]} is not found")
    os.execve(program, options.command, variables)


if __name__ == "__main__":
    sys.exit(main())
