"""Prints the requirements of an extra of pyproject.toml that hold on this machine, a line for each.

python .ci/extra.py clients                                 # all
python .ci/extra.py clients --only executorch torchao       # of these packages
python .ci/extra.py clients --without executorch torchao    # of the others
"""

import argparse
import tomllib
from pathlib import Path

from packaging.requirements import Requirement


def requirements(extra: str) -> list[Requirement]:
    """Those whose marker holds here, without the marker."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    found = []
    for line in tomllib.loads(text)["project"]["optional-dependencies"][extra]:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            requirement.marker = None
            found.append(requirement)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extra")
    names = parser.add_mutually_exclusive_group()
    names.add_argument("--only", nargs="+", metavar="NAME")
    names.add_argument("--without", nargs="+", metavar="NAME", default=[])
    options = parser.parse_args()
    for requirement in requirements(options.extra):
        wanted = options.only is None or requirement.name in options.only
        if wanted and requirement.name not in options.without:
            print(requirement)


if __name__ == "__main__":
    main()
