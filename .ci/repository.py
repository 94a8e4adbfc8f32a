"""Write where the repository is hosted, and whom to tell of a security problem, into every file.

``pyproject.toml`` has the address under ``[project.urls]``, which is empty until it is set; the
first cells of notebooks repeat it, since they are read before anything is installed. README and the
documentation speak of a clone until then, and of the address afterwards; README's links and
pictures are then absolute, as an index that shows README alone needs them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

# Where texts say it, on the rest of the line.
HOSTED, CONTACT = "<!-- hosted -->", "<!-- contact -->"
PACKAGE = "gibbs-dp[tables,privacy]"
# Of Markdown: a picture or a link, and an address that is neither absolute nor on the same page.
LINK = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)")
ROOT = Path(__file__).resolve().parents[1]


def current() -> str:
    """Return the address that the project has now; empty if it has none."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    return urls.get("Repository", "")


def web(address: str) -> str:
    """Return what a browser opens."""
    return address.removesuffix(".git")


def absolute(text: str, root: str) -> str:
    """Make links and pictures that are relative lead into the main branch."""

    def lead(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "tree" if link[2].endswith("/") else "blob"
        return f"{link[1]}({root}/{kind}/main/{link[2]})"

    return LINK.sub(lead, text)


def tell(text: str, mark: str, told: str) -> str:
    """Put what is told in place of what follows a mark on its line, where there is one."""
    return re.sub(rf"(?m){mark}.*$", lambda _: f"{mark} {told}", text)


def move(name: str, text: str, old: str, new: str) -> str:
    """Return a file's text with the new address."""
    if old:
        text = text.replace(web(old), web(new))
    if name == "pyproject.toml":
        line = re.compile(r'(\[project\.urls\]\n)(?:Repository = ".*"\n)?')
        text = line.sub(lambda m: f'{m[1]}Repository = "{new}"\n', text)
    elif name == "CITATION.cff":
        line = re.compile(r"(?m)^(license: .*\n)(?:repository-code: .*\n)?")
        text = line.sub(lambda m: f'{m[1]}repository-code: "{web(new)}"\n', text)
    elif name == "README.md":
        text = absolute(text, web(new))
    elif name.startswith("notebooks/"):
        text = re.sub(r'(\bREPOSITORY = \\?")[^"\\]*', lambda m: m[1] + new, text)
    return tell(text, HOSTED, f"From its repository, `pip install '{PACKAGE} @ git+{new}'`.")


def main() -> int:
    """Set what is given, of the two."""
    url, contact, *_ = [*sys.argv[1:], "", ""]
    is_wrong = (url and not url.startswith("https://")) or (contact and "@" not in contact)
    if is_wrong or not (url or contact):
        print(
            "usage: make repository URL=https://... CONTACT=NAME@HOST, or one of the two"
            f"  (address now: {current() or 'none'})"
        )
        return 2
    old = current()
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__).resolve():
            continue
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue  # a picture
        found = move(name, text, old, url) if url else text
        if contact and name == "SECURITY.md":
            found = tell(found, CONTACT, f"Or write to <{contact}>.")
        if found != text:
            path.write_bytes(found.encode())
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
