"""What is installed is what is documented: libraries, symbols, headers, the source distribution."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from pathlib import Path

import pytest

import qnnrt
from qnnrt.cli.paths import CMAKE_DIR, INCLUDE_DIR, LIB_DIR, PKGCONFIG_DIR
from support.building import WARNINGS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(qnnrt.__file__).parent
SHIMS = {
    "libQnnCpu.so": {"QnnInterface_getProviders"},
    "libQnnGpu.so": {"QnnInterface_getProviders"},
    "libQnnHtp.so": {"QnnInterface_getProviders"},
    "libQnnIr.so": {"QnnInterface_getProviders"},
    "libQnnLpai.so": {"QnnInterface_getProviders"},
    "libQnnSaver.so": {"QnnInterface_getProviders", "QnnSaver_initialize"},
    "libQnnSystem.so": {"QnnSystemInterface_getProviders"},
    "libcdsprpc.so": {
        name
        for name in re.findall(r"\b(\w+)\(", (ROOT / "csrc/abi/rpcmem.h").read_text())
        if name.startswith(("rpcmem_", "remote_", "fastrpc_"))
    }
    | {"qnnrt_is_shim"},  # tells the vendor heap not to stand on ourselves
}


def exported(library: Path) -> set[str]:
    """The symbols that a shared library defines for others."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    names = {line.split()[-1].partition("@")[0] for line in lines}
    return {n for n in names if not n.startswith("__odr_asan")}  # the address sanitizer's own


def dynamic(library: Path, tag: str) -> list[str]:
    """The values of one tag in a library's dynamic section."""
    text = subprocess.run(
        ["readelf", "-d", library], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def documented() -> set[str]:
    lines = (ROOT / "csrc/exports.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_library_package_and_change_log_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    cmake = re.search(r'VERSION "(.*)"', (CMAKE_DIR / "qnnrtConfigVersion.cmake").read_text())
    pkg_config = re.search(r"^Version: (.*)$", (PKGCONFIG_DIR / "qnnrt.pc").read_text(), re.M)
    assert cmake is not None
    assert pkg_config is not None
    found = {project["version"], newest[1], cmake[1], pkg_config[1]}
    assert found == {qnnrt.__version__}


def test_the_library_exports_exactly_the_documented_symbols() -> None:
    assert exported(LIB_DIR / "libqnnrt.so") == documented()


@pytest.mark.parametrize("name", ["libqnnrt.so", "libQnnTFLiteDelegate.so"])
def test_each_thread_s_own_is_small_enough_to_load_late(name: str) -> None:
    """It lies beside the C library's own, which keeps some 1.6 KiB for all libraries that are
    loaded into a running process (glibc's "static TLS block"); others have part of it already."""
    segments = subprocess.run(
        ["readelf", "-lW", LIB_DIR / name], check=True, capture_output=True, text=True
    ).stdout
    sizes = [
        int(line.split()[5], 16) for line in segments.splitlines() if line.split()[:1] == ["TLS"]
    ]
    assert sum(sizes) <= 256


def test_every_documented_symbol_is_declared_where_its_users_look() -> None:
    files = [*(ROOT / "csrc").rglob("*.h"), *(ROOT / "csrc/shims").glob("*.cc")]
    headers = "\n".join(p.read_text() for p in files)
    missing = {name for name in documented() if not re.search(rf"\b{name}\b", headers)}
    assert not missing


def test_the_installed_libraries_are_the_runtime_and_the_shims() -> None:
    sources = {p.stem + ".so" for p in (ROOT / "csrc/shims").glob("*.cc")}
    assert {p.name for p in LIB_DIR.iterdir()} == sources | {
        "libqnnrt.so",
        "libQnnTFLiteDelegate.so",
    }
    assert sources == set(SHIMS), "a new shim: say in SHIMS what it exports"


def test_the_tflite_delegate_exports_its_functions_and_stands_on_the_runtime() -> None:
    library = LIB_DIR / "libQnnTFLiteDelegate.so"
    lines = (ROOT / "csrc/tflite/delegate/exports.txt").read_text().splitlines()
    assert exported(library) == {line for line in lines if not line.startswith("#")}
    assert dynamic(library, "SONAME") == [library.name]
    assert "libqnnrt.so" in dynamic(library, "NEEDED")
    assert dynamic(library, "RUNPATH") == ["$ORIGIN"]


@pytest.mark.parametrize("shim", sorted(p.stem for p in (ROOT / "csrc/shims").glob("*.cc")))
def test_a_shim_exports_its_vendors_symbols_and_stands_on_the_runtime(shim: str) -> None:
    library = LIB_DIR / f"{shim}.so"
    assert exported(library) == SHIMS[library.name]
    assert dynamic(library, "SONAME") == [library.name]
    assert "libqnnrt.so" in dynamic(library, "NEEDED")
    assert dynamic(library, "RUNPATH") == ["$ORIGIN"]


def test_the_binding_exports_only_its_init_function() -> None:
    binding = PACKAGE / f"_native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    assert exported(binding) == {"PyInit__core"}
    assert "libqnnrt.so" in dynamic(binding, "NEEDED")


def test_the_native_library_has_no_python_and_no_kernel_library_in_it() -> None:
    needed = dynamic(LIB_DIR / "libqnnrt.so", "NEEDED")
    assert not [name for name in needed if "python" in name or "dnnl" in name]


def test_every_interface_header_is_installed() -> None:
    source = ROOT / "csrc/abi"
    headers = {str(p.relative_to(source)) for p in source.rglob("*.h")}
    assert {str(p.relative_to(INCLUDE_DIR / "qnnrt")) for p in INCLUDE_DIR.rglob("*.h")} == headers
    for name in headers:
        assert (INCLUDE_DIR / "qnnrt" / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c11"), ("g++", "c++17")])
def test_every_installed_header_compiles_by_itself(
    compiler: str, standard: str, tmp_path: Path
) -> None:
    suffix = ".c" if compiler == "gcc" else ".cc"
    sources = []
    for header in sorted(INCLUDE_DIR.rglob("*.h")):
        source = tmp_path / (header.stem + suffix)
        # A second time, which must add nothing; a file of macros alone is no C.
        line = f'#include "{header.relative_to(INCLUDE_DIR)}"\n'
        source.write_text(f"{line}{line}typedef int nothing;\n")
        sources.append(source)
    assert len(sources) > 10
    flags = [f"-std={standard}", *WARNINGS, "-pedantic", "-fsyntax-only", f"-I{INCLUDE_DIR}"]
    done = subprocess.run([compiler, *flags, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_test_module_puts_the_checkout_before_what_is_installed() -> None:
    """Processes that a test starts inherit sys.path: they would import a package without its
    libraries wherever qnnrt is not installed from the checkout in place."""
    if str(ROOT) in sys.path:
        assert PACKAGE.parent == ROOT


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native/_core.pyi").exists()


def test_the_source_distribution_holds_every_source(tmp_path: Path) -> None:
    """Building and installing from it is a stage of CI; this one says quickly what is missing."""
    script = f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        str(p.relative_to(ROOT))
        for folder, pattern in (
            ("csrc", "*.*"),
            ("qnnrt", "*.py*"),
            ("tests", "*.py"),
            ("tests", "*.cc"),
        )
        for p in (ROOT / folder).rglob(pattern)
        if "__pycache__" not in p.parts
    }
    missing = sources - names
    assert not missing
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names
    built = {n for n in names if n.endswith((".so", ".o", ".cpp", ".pyc"))}
    assert not built


def test_sources_without_the_native_module_say_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "qnnrt", ignore=shutil.ignore_patterns("*.so*", "lib"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import qnnrt"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: qnnrt was imported from its sources")
    assert "another folder" in last
    assert "pip install -e ." in last
