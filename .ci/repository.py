"""Write where the repository is hosted into every file that says so.

``pyproject.toml`` has it under ``[project.urls]``; the documentation and the first cells of
notebooks repeat it, since they are read before anything is installed. README and the
documentation speak of a clone until it is set, and of the address afterwards; README's links and
pictures are then absolute, as an index that shows README alone needs them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

# Where texts say it, on the rest of the line.
HOSTED, PACKAGE = b"<!-- hosted -->", "gibbs-dp[tables,privacy]"
# Of Markdown: a picture or a link, and an address that is neither absolute nor on the same page.
LINK = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)")
ROOT = Path(__file__).resolve().parents[1]


def current() -> str:
    """Return the address that the project has now."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def web(address: str) -> str:
    """Return what a browser opens."""
    return address.removesuffix(".git")


def absolute(text: str, root: str) -> str:
    """Make links and pictures that are relative lead into the main branch."""
    return LINK.sub(
        lambda m: f"{m[1]}({root}/{'raw' if m[1].startswith('!') else 'blob'}/main/{m[2]})", text
    )


def main() -> int:
    """Replace the address by the one that is given."""
    if len(sys.argv) != 2 or not sys.argv[1].startswith("https://"):
        print(f"usage: make repository URL=https://...  (now {current()})")
        return 2
    old, new = current(), sys.argv[1]
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__).resolve():
            continue
        text = path.read_bytes()
        found = text.replace(web(old).encode(), web(new).encode())
        if name == "README.md":
            found = absolute(found.decode(), web(new)).encode()
        before, mark, rest = found.partition(HOSTED)
        if mark:
            told = f" From its repository, `pip install '{PACKAGE} @ git+{new}'`."
            found = before + mark + told.encode() + rest[rest.index(b"\n") :]
        if found != text:
            path.write_bytes(found)
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
