"""The files of a Hugging Face Space: python space/assemble.py FOLDER

Copies what the Dockerfile copies, the Dockerfile itself, and space/README.md, whose first lines
are the Space's settings, into a new folder. docs/serving.md says how it is sent.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copied(dockerfile: str) -> list[str]:
    """What the COPY lines of a Dockerfile take, in their order.

    >>> copied("FROM x\\nCOPY a.txt b ./\\nCOPY c ./c\\n")
    ['a.txt', 'b', 'c']
    """
    lines = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
    return [source for line in lines for source in line]


def assemble(target: Path) -> None:
    """Fill a new folder. Raises FileExistsError if it is there."""
    target.mkdir(parents=True)
    names = copied((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for name in ["Dockerfile", ".dockerignore", *names]:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target / name)
    shutil.copy(ROOT / "space" / "README.md", target / "README.md")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give one folder that does not exist yet: python space/assemble.py FOLDER")
    try:
        assemble(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"{sys.argv[1]} could not be filled: {error.strerror}; give another folder")
