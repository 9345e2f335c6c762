#!/usr/bin/env python3
"""The release wheels: builds them for an old glibc, finishes and checks them, tries them.

    python tools/wheels.py build --arch x86_64 --arch aarch64   # into dist/
    python tools/wheels.py finish WHEEL --out dist              # one that cibuildwheel has built
    python tools/wheels.py check dist/*.whl
    python tools/wheels.py try dist/WHEEL                       # where there is no compiler

`build` takes this machine's g++ (for another machine Debian's g++-aarch64-linux-gnu), links with
the C++ library inside and with the symbols that glibc had in the version of MANYLINUX, out of
ziglang's tables. The wheel is for every Python from 3.11 on (the limited API), or, under a
free-threaded Python, for that one. `build` and `finish` add what is loaded at run time as a bill of
materials (PEP 770), and end with `check`. They need the group "release" of pyproject.toml.
"""

import argparse
import base64
import csv
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import uuid
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MANYLINUX = "manylinux_2_28"  # glibc of RHEL 8 and Debian 10; older ones have no Python >= 3.11
GLIBC = MANYLINUX.removeprefix("manylinux_").replace("_", ".")
COMPILERS = {"x86_64": "g++", "aarch64": "aarch64-linux-gnu-g++"}
SYMBOLS_OF_PYTHON = re.compile(r"_?Py")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def run(*command: str | Path, **options: Any) -> None:
    print("$", shlex.join(map(str, command)), flush=True)
    if subprocess.run(command, check=False, **options).returncode:
        sys.exit(f"{command[0]} failed")


def is_of_wheel(name: str) -> bool:
    return name.startswith("qnnrt/") and name.endswith(".so")


def compiler(arch: str) -> list[str]:
    """CXX for this machine's; a compiler's cache is used for the others, too."""
    chosen = os.environ.get("CXX") if arch == platform.machine() else None
    cached = "ccache " if shutil.which("ccache") else ""
    return shlex.split(chosen or cached + COMPILERS[arch])


def old_libraries(arch: str, folder: Path) -> Path:
    """A folder of libraries to link with, which have the symbols of the old glibc and no code."""
    (folder / "nothing.c").write_text("int nothing(void) { return 0; }\n")
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{arch}-linux-gnu.{GLIBC}"]
    done = subprocess.run(
        [*zig, "-shared", "-v", "nothing.c", "-o", "nothing.so"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    files = {Path(p).name: p for p in re.findall(r"/\S+/lib[\w.]+", done.stderr)}
    if done.returncode or "libc.so.6" not in files:
        sys.exit(f"ziglang gives no libraries of glibc {GLIBC}:\n{done.stderr}")
    for name in ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"):
        (folder / (name.partition(".so")[0] + ".so")).symlink_to(files[name])
    flags = ["-x", "c", "-c", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    source = ROOT / "tools/old_glibc.c"
    subprocess.run([*compiler(arch), *flags, source, "-o", folder / "newer.o"], check=True)
    subprocess.run(["ar", "rcs", "libnewer.a", "newer.o"], cwd=folder, check=True)
    parts = f"{files['libc.so.6']} {files['libc_nonshared.a']} {folder / 'libnewer.a'}"
    (folder / "libc.so").write_text(f"GROUP ( {parts} AS_NEEDED ( {files['libld.so.2']} ) )\n")
    return folder


def build(arch: str, out: Path) -> Path:
    """The wheel for an architecture, finished."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        libraries = old_libraries(arch, folder)
        # Nothing of another build may be packed.
        command = [sys.executable, "setup.py", "-q", "build", "-b", folder / "build"]
        command += ["bdist_wheel", "-d", folder / "wheel"]
        host = {} if arch == platform.machine() else {"_PYTHON_HOST_PLATFORM": f"linux-{arch}"}
        link = f"-L{libraries} -static-libstdc++ -s"
        environment = {"CXX": shlex.join(compiler(arch)), "LDFLAGS": link}
        environment["QNNRT_LIMITED_API"] = "0" if FREE_THREADED else "1"
        run(*command, cwd=ROOT, env=os.environ | environment | host)
        (wheel,) = (folder / "wheel").iterdir()
        return finish(wheel, out)


def finish(wheel: Path, out: Path) -> Path:
    """The wheel with its platform's tag and its bill of materials."""
    arch = wheel.stem.rpartition("linux_")[2]
    with tempfile.TemporaryDirectory() as name:
        # The oldest platform that it runs on; `check` compares. (The option --plat knows those of
        # this machine's architecture alone.)
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", name, wheel)
        (repaired,) = Path(name).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        done = out / repaired.name
        add(repaired, done, "sboms/qnnrt.cdx.json", bill_of_materials(wheel, arch))
    check(done)
    return done


def bill_of_materials(wheel: Path, arch: str) -> str:
    """CycloneDX: what code runs in the process that no requirement of the wheel's names a version
    of, and where it comes from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    gcc = subprocess.run(
        [*compiler(arch), "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    exception = {"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}

    def component(name: str, how: str, licence: dict[str, Any], **more: str) -> dict[str, Any]:
        entry = {"type": "library", "bom-ref": name, "name": name, "licenses": [licence]}
        return entry | more | {"properties": [{"name": "qnnrt:use", "value": how}]}

    parts = [
        component("libstdc++", "linked into the libraries", exception, version=gcc),
        component("libgcc", "linked in part; the rest is the system's", exception, version=gcc),
    ]
    if arch == "x86_64":
        package = "onednn-cpu-gomp"
        version = metadata.version("onednn-devel-cpu-gomp")
        how = f"libdnnl.so.3 of {package}, loaded at run time when a first kernel is made"
        apache = {"license": {"id": "Apache-2.0"}}
        purl = {"version": version, "purl": f"pkg:pypi/{package}@{version}"}
        parts.append(component("oneDNN", how, apache, **purl, scope="optional"))
        how = "libgomp.so.1 of the system, loaded at run time by oneDNN"
        parts.append(component("libgomp", how, exception, scope="optional"))
    main = f"pkg:pypi/{project['name']}@{project['version']}"
    identity = hashlib.sha256(wheel.read_bytes()).digest()[:16]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=identity, version=4)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": main,
                "name": project["name"],
                "version": project["version"],
                "purl": main,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": main, "dependsOn": [p["bom-ref"] for p in parts]}],
    }
    return json.dumps(document, indent=2) + "\n"


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def add(source: Path, target: Path, name: str, text: str) -> None:
    """A wheel with one more file of metadata."""
    with (
        zipfile.ZipFile(source) as old,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        (record,) = (n for n in old.namelist() if n.endswith(".dist-info/RECORD"))
        name = record.replace("RECORD", name)
        data = text.encode()
        rows = [*csv.reader(io.StringIO(old.read(record).decode()))]
        rows.insert(-1, [name, digest(data), str(len(data))])
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows(rows)
        for item in old.infolist():
            if item.filename != record and not item.is_dir():
                new.writestr(item, old.read(item), zipfile.ZIP_DEFLATED)
        new.writestr(name, data)
        new.writestr(record, lines.getvalue())


def unresolved(libraries: dict[str, bytes]) -> list[str]:
    """Symbols that nothing gives: neither a versioned library, nor Python, nor the wheel itself."""
    from elftools.elf.elffile import ELFFile

    defined: set[str] = set()
    wanted: set[tuple[str, str]] = set()
    for library, data in libraries.items():
        elf = ELFFile(io.BytesIO(data))
        versions = elf.get_section_by_name(".gnu.version")
        for i, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            if symbol["st_shndx"] != "SHN_UNDEF":
                defined.add(symbol.name)
            elif symbol.name and symbol["st_info"]["bind"] != "STB_WEAK":
                version = versions.get_symbol(i)["ndx"] if versions else 0
                if version in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL", 0, 1):
                    wanted.add((library, symbol.name))
    return [
        f"{library}: {name}"
        for library, name in sorted(wanted)
        if name not in defined and not SYMBOLS_OF_PYTHON.match(name)
    ]


def check(wheel: Path) -> None:
    """Ends the program if the wheel is not what it says."""
    distribution, _, python, abi, tag = wheel.stem.split("-")
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (n for n in files if n.endswith(".dist-info/RECORD"))
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(files[record].decode()))}
    wrong = [n for n, data in files.items() if n != record and rows.get(n) != digest(data)]
    bill = json.loads(files[record.replace("RECORD", "sboms/qnnrt.cdx.json")])
    libraries = {n: data for n, data in files.items() if is_of_wheel(n)}
    wrong += unresolved(libraries)
    platforms = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", tag)]
    if not platforms or min(platforms) > tuple(map(int, GLIBC.split("."))):
        wrong.append(f"is for {tag}, not for {MANYLINUX}")
    if distribution != "qnnrt" or len(libraries) < 3 or not bill["components"]:
        wrong.append("has no libraries, or no bill of materials")
    if wrong:
        sys.exit(f"{wheel.name}: " + "\n".join(wrong))
    if abi == "abi3":
        run(sys.executable, "-m", "abi3audit", "--strict", "--summary", wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MiB ({python}, {abi})")
    for name, data in sorted(libraries.items(), key=lambda item: -len(item[1])):
        print(f"  {len(data) / 2**20:6.2f} MiB {name}")


def try_wheel(wheel: Path, tests: list[str]) -> None:
    """Installs it into an environment of its own, from which no compiler is found, and runs the
    demo and the tests that are marked for it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "venv")
        tools = folder / "tools"
        tools.mkdir()
        for tool in ("sh", "uname", "env", "kill", "ps"):
            found = shutil.which(tool)
            if found:
                (tools / tool).symlink_to(found)
        path = f"{folder / 'venv/bin'}:{tools}"
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CC", "CXX")}
        environment |= {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("gcc", "g++", "cc", "c++", "clang"):
            if shutil.which(name, path=path):
                sys.exit(f"{name} is found in {path}")
        options: dict[str, Any] = {"cwd": folder, "env": environment}
        pip = [folder / "venv/bin/python", "-m", "pip", "install", "-q", "--only-binary=:all:"]
        run(*pip, wheel.resolve(), "pytest", "pytest-xdist", "hypothesis", **options)
        run(folder / "venv/bin/qnnrt", "info", **options)
        run(folder / "venv/bin/qnnrt", "demo", **options)
        # A copy: beside the sources the package would be taken from there.
        for part in ("tests", "tools", "csrc", "examples", "docs"):
            shutil.copytree(ROOT / part, folder / "tree" / part)
        for part in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / part, folder / "tree" / part)
        options["cwd"] = folder / "tree"
        pytest = [folder / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        run(*pytest, *(tests or ["-m", "wheel"]), **options)


def main() -> None:
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    part = commands.add_parser("build", help="builds wheels for an old glibc")
    part.add_argument("--arch", action="append", choices=[*COMPILERS], help="this machine's")
    part.add_argument("--out", type=Path, default=ROOT / "dist")
    part = commands.add_parser("finish", help="tag, bill of materials, checks")
    part.add_argument("wheel", type=Path)
    part.add_argument("--out", type=Path, default=ROOT / "dist")
    part = commands.add_parser("check", help="what was built")
    part.add_argument("wheel", type=Path, nargs="+")
    part = commands.add_parser("try", help="installs it without a compiler; the demo and tests")
    part.add_argument("wheel", type=Path)
    part.add_argument("tests", nargs="*", help="options of pytest, instead of all marked tests")
    options = parser.parse_args()
    if options.command == "build":
        for arch in options.arch or [platform.machine()]:
            build(arch, options.out.resolve())
    elif options.command == "finish":
        finish(options.wheel, options.out)
    elif options.command == "try":
        try_wheel(options.wheel, options.tests)
    else:
        for wheel in options.wheel:
            if not wheel.is_file():
                sys.exit(f"{wheel}: there is no such file; `build` makes wheels, in dist/")
            check(wheel)


if __name__ == "__main__":
    main()
