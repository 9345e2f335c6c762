"""Headers under the names that QNN programs include, with the API as functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from c_headers import Header, Reader, Struct

from qnnrt.cli.paths import INCLUDE_DIR, LIB_DIR
from support.building import WARNINGS, Builder

ROOT = Path(__file__).resolve().parents[2]
QNN = INCLUDE_DIR / "qnnrt/QNN"
LANGUAGES = {"c": ["-std=c11"], "c++": ["-x", "c++", "-std=c++17"]}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("library", ["libQnnCpu.so", "libQnnHtp.so"])
def test_a_program_calls_the_functions_of_the_interface_that_it_chose(
    builder: Builder, tmp_path: Path, language: str, library: str
) -> None:
    source = Path(__file__).with_name("functions_client.c")
    if language == "c++":
        (tmp_path / "functions_client_cpp.cc").write_text(f'#include "{source}"\n')
        source = tmp_path / "functions_client_cpp.cc"
    program = builder.program(source, *WARNINGS, "-pedantic", f"-I{QNN}", "-ldl")
    command = [program, LIB_DIR / library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_all_sources_of_a_program_share_the_choice(tmp_path: Path) -> None:
    (tmp_path / "choose.c").write_text(
        '#include "QNN/QnnFunctions.h"\n'
        "extern void choose(const QnnInterface_t* p);\n"
        "void choose(const QnnInterface_t* p) { (void)qnnrt_use_interface(p); }\n"
    )
    (tmp_path / "main.c").write_text(
        '#include "QNN/QnnFunctions.h"\n'
        "void choose(const QnnInterface_t* p);\n"
        "int main(void) {\n"
        "  const QnnInterface_t** list = 0;\n"
        "  const char* id = 0;\n"
        "  uint32_t count = 0;\n"
        "  if (QnnInterface_getProviders(&list, &count) != QNN_SUCCESS) return 2;\n"
        "  choose(list[0]);\n"
        "  return QnnBackend_getBuildId(&id) == QNN_SUCCESS && id != 0 ? 0 : 1;\n"
        "}\n"
    )
    program = tmp_path / "program"
    sources = [tmp_path / "main.c", tmp_path / "choose.c"]
    libraries = [f"-L{LIB_DIR}", "-l:libQnnCpu.so", f"-Wl,-rpath,{LIB_DIR}"]
    includes = [f"-I{QNN.parent}"]
    subprocess.run(["gcc", *WARNINGS, *includes, *sources, "-o", program, *libraries], check=True)
    assert subprocess.run([program], check=False, timeout=300).returncode == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_struct_of_qnn_has_an_initializer(language: str, tmp_path: Path) -> None:
    reader = Reader(ROOT / "csrc")
    read: dict[str, Header] = {}
    names = (QNN.parent / "qnn_init.h").read_text().split('#include "')[1:]
    paths = [f"abi/{name.partition(chr(34))[0]}" for name in names]
    while paths:  # each after those that it includes
        path = paths.pop(0)
        lines = (ROOT / "csrc" / path).read_text().split('#include "')[1:]
        below = {f"abi/{line.partition(chr(34))[0]}" for line in lines} - read.keys()
        if below:
            paths = [*below, path, *(p for p in paths if p not in below)]
        elif path not in read:
            read[path] = reader.read(path)
    structs = [
        d.name
        for header in read.values()
        for d in header.declarations
        if isinstance(d, Struct) and d.members
        if d.name.startswith("Qnn") and not d.name.startswith("Qnnrt_")
    ]
    assert len(structs) > 150
    macros = (QNN.parent / "qnn_init.h").read_text().split("#define ")[1:]
    macro_of = {m.split()[0].removesuffix("_INIT").replace("_", ""): m.split()[0] for m in macros}
    lines = [
        f"extern const {name} v{i}; const {name} v{i} = "
        f"{macro_of[name.removesuffix('_t').replace('_', '').upper()]};\n"
        for i, name in enumerate(structs)
    ]
    source = tmp_path / "all.c"
    source.write_text('#include "QNN/QnnTypes.h"\n' + "".join(lines))
    flags = [*LANGUAGES[language], *WARNINGS, "-pedantic", "-fsyntax-only", f"-I{QNN.parent}"]
    done = subprocess.run(["gcc", *flags, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
