"""Write where the repository is hosted into every file that says so.

``pyproject.toml`` has it under ``[project.urls]``; the documentation and the first cells of
notebooks repeat it, since they are read before anything is installed. README speaks of a clone
until it is set, and of the address afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

# Where README says it, on the rest of the line.
HOSTED, PACKAGE = "<!-- hosted -->", "gibbs-dp[tables,privacy]"
ROOT = Path(__file__).resolve().parents[1]


def current() -> str:
    """Return the address that the project has now."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


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
        if name == "README.md":
            told = f"{HOSTED} From its repository, `pip install '{PACKAGE} @ git+{new}'`."
            before, _, rest = text.decode().partition(HOSTED)
            path.write_text(before + told + rest[rest.index("\n") :])
            print(f"{name}: 1")
            continue
        if old.encode() in text:
            path.write_bytes(text.replace(old.encode(), new.encode()))
            print(f"{name}: {text.count(old.encode())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
