"""Pages that live elsewhere in the repository: the changelog, benchmarks, notebooks."""

import re
import shutil
from pathlib import Path

from pages import write_page

# Page -> where it comes from, and what its links to files of the repository become.
COPIED = {
    "changelog.txt": "CHANGELOG.md",
    "design.txt": "CONTRIBUTING.md",
    "benchmarks.txt": "benchmarks/README.md",
}


def without_links(text):
    """Links to files that are no pages of the site become their names."""
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)[^)]+\)", r"\1", text)


def write(app):
    root = Path(app.srcdir).parent
    for name, origin in COPIED.items():
        write_page(app, name, without_links((root / origin).read_text()))
    folder = Path(app.srcdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    sources = {path.name: path for path in (root / "notebooks").glob("*.ipynb")}
    for old in folder.glob("*.ipynb"):
        if old.name not in sources:
            old.unlink()
    for name, path in sources.items():
        target = folder / name
        if not target.exists() or target.read_bytes() != path.read_bytes():
            shutil.copyfile(path, target)


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
