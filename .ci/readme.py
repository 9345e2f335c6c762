"""Prints the command of the README shell blocks that contains the given text, as it stands.

python .ci/readme.py 'qnnrt demo'
"""

import re
import sys
from pathlib import Path


def commands(text: str) -> list[str]:
    """Every line of the ```sh blocks that is not a comment."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    readme = Path(__file__).resolve().parents[1] / "README.md"
    found = [c for c in commands(readme.read_text(encoding="utf-8")) if sys.argv[1] in c]
    if len(found) != 1:
        sys.exit(f"README.md has {len(found)} commands with {sys.argv[1]!r}, expected one: {found}")
    print(found[0].split("  #")[0].rstrip())
