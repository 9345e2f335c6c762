"""Pages name files that exist."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

#: Written by a build or a run; installed C headers, which stand in csrc/abi.
MADE = ("benchmarks/results", "qnnrt/lib", "qnnrt/lib/*", "qnnrt/include", "qnnrt/include/*")
HEADER = re.compile(r"qnnrt/(\w+\.h)")

PATH = re.compile(r"(?<![\w/.~-])(?:csrc|qnnrt|tests|tools|benchmarks|docs|examples)/[\w./*<>-]+")


def paths(text: str) -> set[str]:
    """Paths of the repository in the text's backticks and code blocks."""
    code = re.findall(r"```.*?```|``[^`]+``|`[^`\n]+`", text, re.DOTALL)
    return {path.rstrip("./-") for piece in code for path in PATH.findall(piece)}


def exists(path: str) -> bool:
    if any(fnmatch(path, made) for made in MADE):
        return True
    if header := HEADER.fullmatch(path):
        return (ROOT / "csrc/abi" / header[1]).is_file()
    pattern = re.sub(r"<\w+>", "*", path)  # csrc/ops/<family>/fixed
    return any(True for _ in ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    missing = sorted(p for p in paths(page.read_text(encoding="utf-8")) if not exists(p))
    assert not missing, f"{page.relative_to(ROOT)} names {', '.join(missing)}"


def test_the_pages_name_paths_and_a_missing_one_is_found() -> None:
    found = {path for page in PAGES for path in paths(page.read_text(encoding="utf-8"))}
    assert len(found) > 50
    assert not exists("csrc/graph/tensor.h")
    assert not exists("csrc/ops/<family>/no_such_*.cc")
