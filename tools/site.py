"""What the documentation site has besides docs/: a hook of mkdocs, named in mkdocs.yml.

- The README is its first page; the other pages of the root stand beside those of docs/.
- A file that a page links to, an example or a test, becomes a page that shows it.
- Every public name of the package has its place in the Python reference, by its docstring: those of
  Buffer and Lease only where the package is installed.
- The decisions are listed by their numbers; a page that has no place in mkdocs.yml yet is a how-to.
"""

import ast
import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
MODULES = ("qnnrt", "qnnrt.qnn", "qnnrt.gpu", "qnnrt.lpai", "qnnrt.planning", "qnnrt.tflite")
LINK = re.compile(r"(\]\(|\b(?:src|srcset)=\")([^)\s#\"]+)")
LANGUAGES = {".py": "python", ".c": "c", ".cc": "cpp", ".h": "cpp", ".json": "json"}


def names(module: str) -> list[str]:
    """__all__, without running anything."""
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            found: list[str] = ast.literal_eval(node.value)
            return [n for n in found if not n.startswith("__")]
    raise ValueError(f"{module} has no __all__")


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def reference(module: str) -> str:
    """A page of the Python reference."""
    members = [n for n in names(module) if not is_module(f"{module}.{n}")]
    lines = [f"# {module}", ""]
    for name in members:
        lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)


def shown(path: Path) -> str:
    """A source file as a page."""
    language = LANGUAGES.get(path.suffix, "text")
    text = path.read_text(encoding="utf-8").rstrip()
    return f"# {path.relative_to(ROOT)}\n\n`````{language}\n{text}\n`````\n"


def page_of(path: Path) -> str | None:
    """Where the site has a file of the repository: a path inside it, or None."""
    if path == ROOT / "README.md":
        return "index.md"
    if path.is_relative_to(ROOT / "docs"):
        return str(path.relative_to(ROOT / "docs"))
    if str(path.relative_to(ROOT)) in PAGES:
        return path.name
    if path == ROOT / "examples":
        return "examples/index.md"
    if path.is_file():
        name = str(path.relative_to(ROOT))
        return name if path.suffix in (".md", ".svg", ".png") else f"{name}.md"
    return None


def source_of(page: str) -> Path:
    """The file of the repository that a page of the site was made from."""
    if page == "index.md":
        return ROOT / "README.md"
    inside = ROOT / "docs" / page
    return inside if inside.exists() else ROOT / page


def linked(source: Path) -> list[Path]:
    """The files outside of docs/ that a page links to."""
    targets = (link for _, link in LINK.findall(source.read_text(encoding="utf-8")))
    paths = [Path(posixpath.normpath(source.parent / t)) for t in targets if "://" not in t]
    return [p for p in paths if p.is_file() and not p.is_relative_to(ROOT / "docs")]


def pages_in(nav: Any) -> set[str]:
    """The pages that the navigation names."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(pages_in(part) for part in parts))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    # As it is installed: docstrings of the binding are in what was built alone.
    installed = importlib.util.find_spec("qnnrt")
    place = Path(installed.origin).parents[1] if installed and installed.origin else ROOT
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [str(place)]
    sections = {name: part for entry in config.nav for name, part in entry.items()}
    decisions = sorted(p.name for p in (ROOT / "docs/decisions").glob("*.md"))
    listed = ["README.md", *(name for name in decisions if name != "README.md")]
    sections["Explanation"][-1] = {"Decisions": [f"decisions/{name}" for name in listed]}
    named = pages_in(config.nav)
    sections["How-to"] += sorted({p.name for p in (ROOT / "docs").glob("*.md")} - named)
    sections["Reference"][0] = {
        "Python": ["api/index.md", *(f"api/{module}.md" for module in MODULES)]
    }
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made: dict[str, str] = {}
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES)]
    for source in sources:
        for path in [source, *linked(source)]:
            page = page_of(path)
            if page is not None and not path.is_relative_to(ROOT / "docs"):
                as_it_is = path.suffix in (".md", ".svg")
                made[page] = path.read_text(encoding="utf-8") if as_it_is else shown(path)
    examples = [p for p in sorted((ROOT / "examples").iterdir()) if p.suffix in LANGUAGES]
    listed = ["# Examples", "", "Each runs as it stands.", ""]
    for path in examples:
        made[f"examples/{path.name}.md"] = shown(path)
        listed.append(f"- [{path.name}]({path.name}.md)")
    made["examples/index.md"] = "\n".join(listed) + "\n"
    listed = ["# Python reference", "", "Made from the docstrings.", ""]
    for module in MODULES:
        made[f"api/{module}.md"] = reference(module)
        listed.append(f"- [`{module}`]({module}.md): {', '.join(f'`{n}`' for n in names(module))}")
    made["api/index.md"] = "\n".join(listed) + "\n"
    for page, text in made.items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they hold in the repository, turned into those of the site."""
    name = page.file.src_uri
    source = source_of(name)

    def turned(match: re.Match[str]) -> str:
        before, target = match.groups()
        if "://" in target or not source.exists():
            return match[0]
        found = page_of(Path(posixpath.normpath(source.parent / target)))
        return (
            match[0]
            if found is None
            else before + posixpath.relpath(found, posixpath.dirname(name))
        )

    return LINK.sub(turned, markdown)
